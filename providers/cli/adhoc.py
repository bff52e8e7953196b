"""`gpus cp`, `ssh`, `logs`, `ps`, `release`: the command line's twins of the public
functions, and the same for what a stack declares.

Owns what they print; arguments are read in `cli`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from providers.adhoc import ended, provision, searches, stack_clusters
from providers.adhoc.sync import Machine, portal
from providers.cli.options import settings_of
from providers.cli.output import print_json
from providers.errors import GpusError, Problem, SpecError
from providers.model import foreign, regular
from providers.model.screen import program
from providers.rehearsal.node import LABEL
from providers.remote.run import finished

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


OK, NOTHING = 0, 1
_WORKDIR = "workdir"
"""Where the folder of `gpus run --workdir` lies, in the home folder."""


def cp(options: argparse.Namespace) -> int:
    """Copies a file or folder to or from a machine; 0."""
    limits(options)
    source, target = _place(options.source), _place(options.target)
    if (source is None) == (target is None):
        found = "both" if source else "neither"
        raise SpecError(
            [
                Problem(
                    "",
                    "one side as NAME:PATH",
                    found,
                    "as in: gpus cp out.json bench:data/ or gpus cp bench:out.json .",
                )
            ]
        )
    if target is not None:
        machine = one(target[0], options)
        print(f"{target[0]}:{machine.put(options.source, target[1] or None, node=options.node)}")
    elif source is not None:
        past = _over(source[0], options)
        print(
            ended.fetch(past, source[1], options.target)
            if past is not None
            else _brought(source, options)
        )
    return OK


def _brought(source: tuple[str, str], options: argparse.Namespace) -> Path:
    size, count = limits(options)
    machine = one(source[0], options)
    # A job's machine that has powered itself off is still there, and nobody can log in; what is
    # kept does not depend on when it does that.
    past = stack_clusters.concluded(source[0], options.world, options.stack or "")
    if past is not None and (machine.inner.barred or ended.keeps(past, source[1])):
        return ended.fetch(past, source[1], options.target)
    return machine.get(source[1], options.target, node=options.node, max_size=size, max_files=count)


def limits(options: argparse.Namespace) -> tuple[int | None, int | None]:
    """`--max-size` in bytes and `--max-files`; None where they are not given. Raises SpecError."""
    size = None if options.max_size is None else regular.bytes_of(options.max_size)
    if size == 0:
        raise SpecError([Problem("--max-size", "a size such as 50GiB", repr(options.max_size))])
    count = (
        None
        if options.max_files is None
        else foreign.whole(options.max_files, foreign.Bounds(1, 1e9))
    )
    if count is None and options.max_files is not None:
        raise SpecError(
            [Problem("--max-files", "a number of files such as 500000", repr(options.max_files))]
        )
    return size, count


def ssh(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Logs in, or runs a command there; its exit code. Carries ports meanwhile."""
    machine = one(options.name, options)
    line = machine.inner.line(options.node)
    if line.stand_in:
        print(
            f"gpus: {options.name}: a {LABEL}, that is a local shell; there is no GPU",
            file=sys.stderr,
        )
    with ExitStack() as tunnels:
        for text in options.forward:
            local, port = _ports(text)
            here = tunnels.enter_context(machine.forward(port, local, node=options.node))
            print(f"gpus: 127.0.0.1:{here} is port {port} of {options.name}", file=sys.stderr)
        if command:
            return machine.run(shell_line(command), node=options.node)
        launch = line.login()
        return subprocess.run(launch.argv, env=launch.env, cwd=launch.cwd, check=False).returncode


def doctor(options: argparse.Namespace) -> int:
    """Looks for what is wrong with a machine, or with this one where no name is given; 0, or 1
    where something is.
    """
    from providers.workloads import diagnose as looks

    if options.name is None:
        done = subprocess.run(
            ["sh", "-c", looks.script()], capture_output=True, text=True, check=False
        )
        found = looks.judge(done.stdout)
    else:
        machine = one(options.name, options)
        line = machine.inner.line(options.node)
        if line.stand_in and not options.json:
            print(
                f"{options.name}: a {LABEL}: no GPU is there, and its nvidia-smi reports what was"
                f" ordered; {looks.LEFT_OUT}"
            )
        script = looks.script(stand_in=line.stand_in)
        _, output, _ = portal().run(finished(line.command(f"exec sh -c {shlex.quote(script)}")))
        gpus = machine.inner.record.placement.gpu_count
        found = looks.judge(output, gpus, stand_in=line.stand_in)
    if options.json:
        print_json([each._asdict() for each in found])
    else:
        print(looks.text(found))
    return NOTHING if any(each.state == looks.BAD for each in found) else OK


def wait(options: argparse.Namespace) -> int:
    """Waits until a declared job has ended; its own exit code."""
    from providers.model import duration

    try:
        timeout_s = None if options.timeout is None else float(duration.seconds(options.timeout))
    except ValueError:
        raise SpecError(
            [
                Problem(
                    "--timeout",
                    'a duration such as "2h"',
                    repr(options.timeout),
                    duration.remedy(options.timeout),
                )
            ]
        ) from None
    where = (options.world, options.stack or "")
    name = options.name or stack_clusters.only_job(*where)
    left_s = portal().run(
        searches.acquired(
            name, *where, timeout_s, say=lambda text: print(f"gpus: {text}", file=sys.stderr)
        )
    )
    code, why = portal().run(stack_clusters.finished_job(name, *where, left_s))
    if options.json:
        print_json({"name": name, "exit_code": code, "why": why})
    else:
        print(f"gpus: {name}: {why}", file=sys.stderr)
    return code


def logs(options: argparse.Namespace) -> int:
    """Prints what a workload or its machine wrote; 0, or 1 when there is nothing yet."""
    if options.lines < 0:
        raise SpecError([Problem("--lines", "how many lines, or 0 for all", str(options.lines))])
    past = _over(options.name, options)
    found = (
        ended.log(past, options.node)
        if past is not None
        else portal().run(stack_clusters.log(one(options.name, options).inner, options.node))
    )
    text = found.strip("\r\n")
    if not text:
        print(f"gpus: {options.name}: there is no log of its start yet", file=sys.stderr)
        return NOTHING
    lines = text.splitlines()
    stream, colours = program(sys.stdout)
    shown = "\n".join(lines if options.lines == 0 else lines[-options.lines :])
    print(shown if colours is None else colours.add(shown, final=True), file=stream)
    return OK


def release(options: argparse.Namespace) -> int:
    """Releases these, confirmed; 0, or 1 when one could not be."""
    code = OK
    for name in options.names:
        try:
            _not_declared(name, options)
            provision.release(name, world=options.world, settings=settings_of(options))
        except GpusError as error:
            if len(options.names) == 1:
                raise
            print(f"gpus: {error}", file=sys.stderr)
            code = NOTHING
    return code


def _not_declared(name: str, options: argparse.Namespace) -> None:
    """Raises GpusError for what only a stack has: Pulumi would buy it anew. A journal that cannot
    be read stands in no release's way.
    """
    from providers.engine.journal.database import JournalBroken

    try:
        stacks = (
            stack_clusters.known(cluster=name)
            if options.world is None and not provision.bought(name)
            else ()
        )
    except JournalBroken:
        return
    if stacks:
        raise GpusError(
            f"{name}: wanted something held ad hoc, found it declared; pulumi destroy -s"
            f" {stacks[0].stack or 'STACK'} ends it"
        )


def one(name: str, options: argparse.Namespace) -> Machine:
    """The ad hoc one of that name, else the one that a stack declares; with -s that stack's alone.
    Raises GpusError for none, and for several.
    """
    ad_hoc = not options.stack and provision.bought(name, options.world)
    if not ad_hoc:
        searches.refuse(name, options.world, options.stack or "")
    if not options.stack and (
        ad_hoc or not (stack_clusters.known(options.world, cluster=name) or _over(name, options))
    ):
        return provision.find(name, world=options.world, settings=settings_of(options))
    if (past := _over(name, options)) is not None:
        ended.refuse(past, "a way to log in")
    return Machine(portal().run(stack_clusters.opened(name, options.world, options.stack or "")))


def _over(name: str, options: argparse.Namespace) -> stack_clusters.Declared | None:
    """The declared job of that name that is over and has no machines any more;
    None for all else.
    """
    return (
        None
        if not options.stack and provision.bought(name, options.world)
        else stack_clusters.over(name, options.world, options.stack or "")
    )


def shell_line(command: Sequence[str]) -> str:
    """One word is a line for the shell there, as with ssh; several are taken word by word."""
    return command[0] if len(command) == 1 else shlex.join(command)


def pair(text: str) -> tuple[str, str | None]:
    """`ONE[:OTHER]`, as given; None for what is left out."""
    first, _, second = text.partition(":")
    return first, second or None


def _place(text: str) -> tuple[str, str] | None:
    """(name, path) of `NAME:PATH`; None for a path here: `./a:b` is one too."""
    name, colon, path = text.partition(":")
    return (name, path) if colon and name and "/" not in name and not name.startswith(".") else None


def _ports(text: str) -> tuple[int | None, int]:
    """(port here, port there) of `8888` or `9999:8888`. Raises SpecError."""
    local, colon, port = text.rpartition(":")
    if not port.isdigit() or (colon and not local.isdigit()):
        raise SpecError([Problem("-L", "PORT or LOCAL:PORT", repr(text))])
    return (int(local) if colon else None), int(port)
