"""`gpus run` and `gpus get`: GPUs for a command, or to keep. Owns what they print; `adhoc_parser`
reads their arguments.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from providers.adhoc import consent, provision, trial, trial_run
from providers.cli.options import block_of, settings_of
from providers.errors import GpusError, Problem, SpecError
from providers.model.ask import BLOCK
from providers.model.worlds import REHEARSAL
from providers.remote.rsync import There

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from providers.adhoc.sync import Machine

from providers.cli.adhoc import NOTHING, OK, limits, pair, shell_line

_WORKDIR = "workdir"
"""Where the folder of `--workdir` lies, in the home folder."""


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Provisions, copies there, runs, copies back, releases; the command's exit code."""
    chosen = None
    if options.stack:
        with _at_on(overlaid=True):
            chosen = trial.read(options, command, settings_of(options) or {})
    elif options.on:
        raise SpecError(
            [
                Problem(
                    "--on",
                    "a stack whose workload is run: -s STACK",
                    "none",
                    "without one: gpus run GPU -- COMMAND",
                )
            ]
        )
    elif not options.gpu:
        raise SpecError([Problem("", 'a GPU such as "H100:8", or -s STACK --on GPU', "neither")])
    if not command and not options.keep and chosen is None:
        raise SpecError(
            [
                Problem(
                    "",
                    "a command after --",
                    "none",
                    'as in: gpus run "H100!:1" -- nvidia-smi; or --keep, to use it later',
                )
            ]
        )
    if BLOCK in (options.capacity or ()):
        todo = "`gpus get` waits until the block begins, which is hours or days from now"
        raise SpecError([Problem("--capacity", "what is there at once", BLOCK, todo)])
    files = _files(options, sends=chosen is None)
    _heed_signals()
    launched: AbstractContextManager[Machine]
    if chosen is not None:
        for text in chosen.lines:
            print(f"gpus: {chosen.spec.name}: {text}", file=sys.stderr)
        spec, chosen_settings = chosen.spec, chosen.settings or None
        if not consent.given(spec, chosen.world, chosen_settings, yes=options.yes):
            return NOTHING
        launched = provision.launched(
            spec,
            ssh_key=options.ssh_key,
            keep=options.keep,
            world=chosen.world,
            settings=chosen_settings,
            by_login=True,
        )
    else:
        world, settings = options.world or REHEARSAL, settings_of(options)
        spec = provision.declared(options.gpu, {**_fields(options), "name": options.name})
        if not consent.given(spec, world, settings, yes=options.yes):
            return NOTHING
        launched = provision.launched(
            spec, ssh_key=options.ssh_key, keep=options.keep, world=world, settings=settings
        )
    with _at_on(overlaid=chosen is not None):
        return _used(launched, files, options, command, chosen)


def get(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Looks for GPUs until some can be acquired, then does what `run` does, or keeps them where no
    command is given; the command's exit code.

    The same words make the same name: run again after a kill, it goes on, and buys nothing twice.
    """
    from providers.adhoc import patience

    if not options.gpu:
        raise SpecError([Problem("", 'a GPU such as "H100:8"', "none")])
    block = block_of(options)
    if options.max_price is None and set(options.capacity or ()) != {BLOCK}:
        todo = "it may buy hours from now, at whatever then has room"
        raise SpecError([Problem("--max-price", "the most it may cost an hour", "none", todo)])
    waits = patience.read(options.within, tuple(options.notify))
    files = _files(options, sends=True)
    world, settings = options.world or REHEARSAL, settings_of(options)
    fields = _fields(options) | ({} if block is None else {"block": block})
    name = options.name or _name_of(options, fields, command)
    spec = provision.declared(options.gpu, {**fields, "name": name})
    if not consent.given(spec, world, settings, yes=options.yes, later=True):
        return NOTHING
    _heed_signals()
    launched = provision.launched(
        spec,
        ssh_key=options.ssh_key,
        keep=not command,
        world=world,
        settings=settings,
        waits=waits,
    )
    return _used(launched, files, options, command, None)


def _name_of(options: argparse.Namespace, fields: Mapping[str, Any], command: Sequence[str]) -> str:
    """A name that the same words always make: what a killed run had bought is found by it."""
    told = {**fields, "gpu": options.gpu, "command": list(command)}
    return f"get-{hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]}"


class _Files(NamedTuple):
    """What is copied there and back: limits of size and number, and the digest of the folder that
    is sent, if one is.
    """

    size: int | None
    number: int | None
    digest: str


def _files(options: argparse.Namespace, *, sends: bool) -> _Files:
    """Checks them before anything is bought for them. Raises SpecError."""
    size, count = limits(options)
    missing = [path for path in options.put if not Path(pair(path)[0]).expanduser().exists()]
    if missing:
        raise SpecError(
            [
                Problem("--put", "a file or folder here", f"none at {pair(path)[0]}")
                for path in missing
            ]
        )
    return _Files(size, count, _folder(options.workdir) if options.workdir and sends else "")


def _heed_signals() -> None:
    """Ended by a scheduler or a closed terminal is no reason to leave a machine running."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupted)


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a cluster that the arguments name, but for its GPU and its name."""
    return {
        "fallback": options.fallback or None,
        "nodes": options.nodes,
        **trial.named(options),
        "accept": options.accept,
        # Not where it is left out: the name of a `get` is made of these.
        **({} if options.hedge is None else {"hedge": options.hedge}),
    }


def _used(
    launched: AbstractContextManager[Machine],
    files: _Files,
    options: argparse.Namespace,
    command: Sequence[str],
    chosen: trial.Overlay | None,
) -> int:
    """Copies there, runs, copies back; the command's exit code."""
    with launched as machine:
        _bring(machine, options.put, files.digest)
        words = shell_line(command)
        if files.digest:
            words = f"cd {_WORKDIR} || exit\n{words}"
        alone = machine.run(words) if command and chosen is None else OK
        code = alone if chosen is None else trial_run.work(machine, chosen, command)
        for path in options.get:
            try:
                found = machine.get(*pair(path), max_size=files.size, max_files=files.number)
                print(f"gpus: got {found}", file=sys.stderr)
            except GpusError as error:
                print(f"gpus: {error}", file=sys.stderr)
                code = code or NOTHING
    return code


def _bring(machine: Machine, paths: Sequence[str], digest: str) -> None:
    """Copies there what `--put` names, and sends the folder of that digest, if one is given."""
    for path in paths:
        there = machine.put(*pair(path))
        print(f"gpus: put {path} to {there}", file=sys.stderr)
    if digest:
        machine.send(digest, There(_WORKDIR))


def _folder(path: str) -> str:
    """The digest of a folder here, which is remembered. Raises SpecError."""
    from providers.remote import tree

    try:
        section = tree.field(path, Path.cwd())
    except SpecError as error:
        raise SpecError([each._replace(path="--workdir") for each in error.problems]) from None
    assert isinstance(section, dict)
    return str(section["digest"])


@contextmanager
def _at_on(*, overlaid: bool) -> Iterator[None]:
    """What is wrong with the GPUs of an overlay is told of the argument that named them."""
    try:
        yield
    except SpecError as error:
        if not overlaid:
            raise
        found = [
            problem._replace(path="--on") if re.match(r"gpu(\[|$)", problem.path) else problem
            for problem in error.problems
        ]
        raise SpecError(found) from None


def _interrupted(number: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt(number)
