"""What machines are told once they are there: the addresses of all nodes and what leads from one to
the other, a service's token, that they are accepted, and the folder that is declared. Goes by
login, never by what a cloud keeps.

Owns the files of these in the folder of the start-up script. A token is kept beside the cluster's
key only for this user; the nodes' key to each other is nowhere but on them.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import TYPE_CHECKING

from providers.engine.keys import token
from providers.engine.readiness.access import key_probe
from providers.engine.readiness.wait import WRONG
from providers.errors import GpusError, HalfMade
from providers.model.workload import BOOT_SCRIPT, CONTAINER_SCRIPT, ROOT
from providers.remote.line import as_root
from providers.remote.ssh import made_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.engine.setup import StartPlan
    from providers.model.machine import Node, Order
    from providers.remote.line import Line


async def deliver_files(
    world: World, adapter: Cloud, order: Order, nodes: Sequence[Node], stop: StopSignal
) -> bool:
    """Writes what the start-up script waits for onto each machine; False where it was stopped
    meanwhile. Nothing where it waits for nothing.

    Raises HalfMade where that can't be done: without it nothing would ever start there.
    """
    files: dict[str, str] = {}
    if order.setup.expose == "token" and nodes and order.candidates[0].kind == "service":
        files["token"] = token(world.name, *order.label[:2])
    if len(nodes) > 1:
        files["peers"] = peers_of(nodes)
    if order.setup.gated:
        # It comes here only after its machines passed, or could not be measured.
        files["go"] = "accepted\n"
    if not files and not order.setup.workdir:
        return True
    handles = tuple(node.handle for node in nodes)
    looker = key_probe(world, *order.label[:2], adapter.name)
    if looker is None:
        raise HalfMade(
            "wanted to tell the machines of each other, found no key to log in with",
            provider=adapter.name,
            code="no-key",
            handles=handles,
        )
    from providers.workloads.launch.start_script import between, leader_has_token

    lines = [looker.line(node) for node in nodes]
    able = world.manifests[adapter.name].capabilities
    if (
        len(nodes) > 1
        and not order.setup.apart
        and not able.marketplace
        and not any(way is None or way.stand_in for way in lines)
    ):
        # First, since a script begins once it has its peers.
        files = {"between.sh": between(await world.call("", _key)), **files}
    led = leader_has_token(order.setup.script)

    async def handed(node: Node, line: Line | None) -> str:
        own = {
            name: content
            for name, content in files.items()
            if not (led and name == "token" and node is not nodes[0])
        }
        there = {f"{ROOT}/{name}": content for name, content in own.items()}
        why = await _why_not(None if line is None else written(line, there))
        return why and f"wanted to write {' and '.join(own)} on {node.name}, found {why}"

    # At once, and over one connection each: ten machines take as long as one.
    said = await asyncio.gather(*map(handed, nodes, lines))
    if text := next(filter(None, said), ""):
        raise HalfMade(text, provider=adapter.name, code="no-handing", handles=handles)
    if not order.setup.workdir:
        return True
    from providers.engine.readiness.folder import beside, send
    from providers.remote.rsync import NotSendable

    try:
        there = beside(order.setup.script)
        return await send(
            world, order.label.cluster, order.setup.workdir, nodes, looker.line, there, stop
        )
    except GpusError as error:
        why = WRONG if isinstance(error, NotSendable) else "no-handing"
        raise HalfMade(str(error), provider=adapter.name, code=why, handles=handles) from None


def _key() -> str:
    """The private half of a new key pair. Runs ssh-keygen, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return made_key(Path(folder), "gpus").private.read_text(encoding="ascii")


def peers_of(nodes: Sequence[Node]) -> str:
    """The addresses by which machines reach each other, a line each."""
    return "\n".join(node.internal_ip or node.external_ip or node.name for node in nodes) + "\n"


async def rerun(
    world: World, record: ClusterRecord, nodes: Sequence[Node], begun: StartPlan
) -> None:
    """Puts another program on the machines in place of the one that runs there, with the folder
    that it runs in, and starts it; at a later boot it is that one, too.

    Raises GpusError where it can't be written there; what ran then still runs.
    """
    from providers.workloads.launch.start_script import script

    looker = key_probe(world, record.owner, record.cluster, record.provider, pinned=True)
    if looker is None:
        raise GpusError(
            "wanted to log in and restart it, found no key of this cluster on this machine"
        )
    text, path = (
        (begun.script, BOOT_SCRIPT)
        if begun.script
        else (script(begun.program, inside=True), CONTAINER_SCRIPT)
    )
    if begun.program.workdir:
        from providers.engine.readiness.folder import beside, send

        there = beside(begun.script)
        await send(world, record.cluster, begun.program.workdir, nodes, looker.line, there)

    async def again(node: Node) -> str:
        line = looker.line(node)
        if line is None or not line.stand_in:
            why = await _why_not(None if line is None else begun_by(line, path, text))
        else:
            from providers.rehearsal.store import open_store

            # Nothing of the user's runs in a rehearsal: its course is played.
            why = await _why_not(written(line, {path: text}))
            open_store().set_work(node.handle.native_id, text)
        return why and f"wanted to start the new workload on {node.name}, found {why}"

    said = await asyncio.gather(*map(again, nodes))
    if problem := next(filter(None, said), ""):
        raise GpusError(problem)


async def _why_not(work: Awaitable[tuple[int, str]] | None) -> str:
    """Why something could not be done on a machine; empty where it was."""
    if work is None:
        return "no address"
    try:
        code, errors = await work
    except GpusError as error:
        code, errors = 1, str(error)
    return (errors.strip()[:160] or str(code)) if code else ""


async def begun_by(line: Line, path: str, text: str) -> tuple[int, str]:
    """Writes a start-up script there and starts it, in the background, as root where the login may:
    (exit code, errors).
    """
    from providers.remote.run import finished

    code, errors = await written(line, {path: text})
    if not code:
        start = f"setsid nohup bash {shlex.quote(line.path(path))} >/dev/null 2>&1 </dev/null &"
        code, _, errors = await finished(line.command(f"exec sh -c {shlex.quote(as_root(start))}"))
    return code, errors


async def written(line: Line, files: Mapping[str, str]) -> tuple[int, str]:
    """Writes these texts there by path, in order and over one connection, for their owner alone, as
    root where the login may: (exit code, errors).

    They travel on standard input, since arguments can be read by others on either machine: as a
    program of the shell, which does nothing before all of it arrived.
    """
    from providers.remote.run import started

    steps = ["{ set -e", "umask 077"]
    for path, content in files.items():
        there = line.path(path)
        place, at = shlex.quote(there.rpartition("/")[0]), shlex.quote(there)
        steps += [f"mkdir -p {place}", f"printf %s {shlex.quote(content)} >{at}.new"]
        steps += [f"mv {at}.new {at}"]
    content, script = "\n".join((*steps, "exit; }\n")), "exec sh"
    launch = line.command(f"exec sh -c {shlex.quote(script if line.stand_in else as_root(script))}")
    async with started(launch, stdin=PIPE) as process:
        _, errors = await process.communicate(content.encode())
        return await process.wait(), errors.decode(errors="replace")
