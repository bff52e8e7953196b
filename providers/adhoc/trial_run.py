"""A trial's workload, started by login on its machine and followed there: `gpus run -s STACK --on`.

Owns the start of its start-up script by login, and the following of what that writes. A rehearsal's
machine, on which nothing runs, is played.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from providers.adhoc.trial import program
from providers.engine.readiness.handover import begun_by
from providers.engine.record import HEALTHY
from providers.errors import GpusError
from providers.model import shell
from providers.model.workload import (
    BOOT_SCRIPT,
    CONSOLE,
    CONTAINER_SCRIPT,
    FAILED,
    NOT_SET_UP,
    READY,
    ROOT,
    SUCCEEDED,
    WORKDIR,
)
from providers.model.worlds import REHEARSAL
from providers.rehearsal.node import LABEL
from providers.remote.line import as_root
from providers.remote.rsync import There

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adhoc.machine import AsyncMachine
    from providers.adhoc.sync import Machine
    from providers.adhoc.trial import Overlay
    from providers.model.workload import Program

BEGIN_S = 120
"""How long a script that was started by login may take to its first word."""
LOOK_S = 1.0
"""World seconds between two looks at what a rehearsal's machine plays."""


def work(machine: Machine, overlay: Overlay, command: Sequence[str]) -> int:
    """Starts the workload and shows what it writes; its exit code.

    A job runs to its end. Anything else runs until it is interrupted or its machine ends, and says
    when it works; with a command it runs until then, and the code is that of the command, run
    beside it. Raises GpusError when it cannot be started, and when the machine is taken back.
    """
    from providers.adhoc.sync import portal
    from providers.workloads.launch.start_script import script

    record = machine.record
    made = program(overlay, record.placement.gpu_type, record.placement.gpu_count)
    manifest = machine.inner.opened.manifests.get(record.provider)
    inside = manifest is not None and manifest.programs.runs is not None
    lent = manifest is not None and manifest.capabilities.owned
    text = script(made, inside=inside, lent=lent)
    if inside and overlay.spec.secrets:
        text = f"{inherited(sorted(overlay.spec.secrets))}{text}"
    for process in made.processes:
        _say(f"{machine.name}: starts: {process.line}"[:400])
    if made.workdir:
        machine.send(made.workdir, There(WORKDIR, as_root=True))
    if machine.world == REHEARSAL and machine.inner.line().stand_in:
        return portal().run(_played(machine.inner, made, text, command))
    code, errors = portal().run(
        begun_by(machine.inner.line(), CONTAINER_SCRIPT if inside else BOOT_SCRIPT, text)
    )
    if code:
        raise GpusError(
            f"{machine.name}: wanted to start the workload, found {errors.strip()[:160] or code}"
        )
    if made.kind == "job":
        return machine.run(following(made.digest, (SUCCEEDED, FAILED, *NOT_SET_UP)))
    code = machine.run(following(made.digest, (READY, *NOT_SET_UP)))
    if code:
        return code
    if command:
        _say(f"{machine.name}: it works; runs beside it: {shlex.join(command)}")
        return machine.run(command[0] if len(command) == 1 else command)
    with ExitStack() as tunnels:
        where = ""
        if made.port:
            try:
                where = f" at http://127.0.0.1:{tunnels.enter_context(machine.forward(made.port))}"
            except GpusError as error:
                _say(f"{machine.name}: its port {made.port} is not carried here: {error}")
        _say(f"{machine.name}: it works{where}; Ctrl-C ends it and gives the machine back")
        return machine.run(following(made.digest, NOT_SET_UP, new=True))


def inherited(names: Sequence[str], environ: str = "/proc/1/environ") -> str:
    """Shell lines by which a login has these variables of the container's own: ssh gives a session
    an environment of its own. Pure.
    """
    return shell.program(__file__, "inherit", inherited=names, environ=environ)


def following(digest: str, ends: Sequence[str], *, new: bool = False) -> str:
    """A line for the shell of the machine that shows the script's log until it says one of these,
    and ends with the code that it says with it.

    `new`: only what is written from now on. Pure.
    """
    return as_root(
        shell.program(
            __file__,
            "follow",
            digest=digest,
            folder=ROOT,
            ends=" ".join(ends),
            well=f"{SUCCEEDED} {READY}",
            ill=" ".join((FAILED, *NOT_SET_UP)),
            begin_s=BEGIN_S,
            first_line="0" if new else "+1",
        )
    )


async def _played(machine: AsyncMachine, made: Program, text: str, command: Sequence[str]) -> int:
    """The same of a rehearsal's machine, on which nothing runs: the course of the script is played,
    as for what a stack declares.
    """
    from providers.engine.readiness import workload
    from providers.rehearsal.store import open_store

    node, world = machine.record.machines[0], machine.opened
    open_store().set_work(node.handle.native_id, text)
    adapter = await machine.adapter()
    _say(f"{machine.name}: a {LABEL}: its course is played, nothing of it runs")
    told = ""
    while True:
        seen = (await machine.call(adapter.observe, (node.handle,)))[0]
        if seen.status not in HEALTHY:
            raise GpusError(f"{machine.name}: {node.name} is {seen.status} while the workload ran")
        word = await workload.word(world, adapter, seen, None)
        if word.digest == made.digest and word.state != told:
            told = word.state
            print(f"{CONSOLE} {word.digest} {word.state} {word.detail}".rstrip(), flush=True)
            if told in {SUCCEEDED, FAILED, *NOT_SET_UP}:
                code = word.detail.partition(" ")[0]
                return int(code) if code.isdigit() else int(told != SUCCEEDED)
            if told == READY and command:
                _say(
                    f"{machine.name}: it works, as far as a rehearsal goes; runs beside it:"
                    f" {shlex.join(command)}"
                )
                ended = await machine.run(command[0] if len(command) == 1 else command)
                if ended:
                    _say(
                        f"{machine.name}: it ended with {ended}; in a rehearsal nothing listens:"
                        " what connects to the service works only live"
                    )
                return ended
            if told == READY:
                _say(
                    f"{machine.name}: it works, as far as a rehearsal goes; Ctrl-C ends it and"
                    " gives the machine back"
                )
        await asyncio.sleep(0)
        await world.clock.sleep(LOOK_S)


def _say(text: str) -> None:
    print(f"gpus: {text}", file=sys.stderr, flush=True)
