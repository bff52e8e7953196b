"""A state that was copied into another stack: both name the same machines, which are the first
one's. Owns telling a copy from a renamed or moved stack.

A renamed stack leaves no other state that names its owner; a copy does. Reads the states and locks
of file backends, as plain text: the present one, and the one that the journal has for the owner.
Where no other state can be found, nothing is refused: what costs money can always be deleted.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError

if TYPE_CHECKING:
    from providers.engine.runtime.world import World

TAKE_OVER = "GPUS_TAKE_OVER"
"""The variable that names, as PROJECT/STACK, the stack whose machines another one takes over."""


class Stack(NamedTuple):
    """A stack, as `PROJECT/STACK`, and the URL of its backend."""

    backend: str
    name: str


class Original(NamedTuple):
    """The other stack whose machines these are; `certain` is False where nothing tells which of the
    two was first, or where its backend cannot be read.
    """

    stack: Stack
    certain: bool


def refuse(world: World, owner: str, urn: str, wanted: str = "delete what the state names") -> None:
    """Raises GpusError where this run works on a copy, unless the user said that it takes over:
    then the owner is this stack's from now on.
    """
    found = original(world, owner, urn)
    if found is None:
        return
    other = found.stack
    if os.environ.get(TAKE_OVER) == other.name:
        _taken(world, owner, urn)
        return
    stack = other.name.rpartition("/")[2]
    whose = (
        f"that it belongs to {other.name} in {other.backend}, whose state names it too: this state"
        " is a copy"
        if found.certain
        else f"that {other.name} in {other.backend} names it too, or did, and nothing tells which"
        " of the two is the copy"
    )
    raise GpusError(
        f"wanted to {wanted}, found {whose}; nothing was changed. `pulumi destroy -s {stack}` there"
        " deletes it; `pulumi state delete URN`, or `pulumi stack rm --force` of the copy, only"
        f" forgets it here; to take it over from here all the same, set {TAKE_OVER}={other.name}"
    )


async def refuse_copy(world: World, owner: str, urn: str) -> None:
    """`refuse` for what buys, edits or replaces: in a copied state it is another stack's."""
    await asyncio.to_thread(refuse, world, owner, urn, "change what the state names")


def original(world: World, owner: str, urn: str) -> Original | None:
    """The other stack whose machines these are; None where this one's are meant, or where no other
    state names them.
    """
    mine, here = _of(urn), _present(urn)
    known = recorded(world, owner, here.backend)
    if known == here or not here.backend:
        return None
    id_ = f"{world.name}/{owner}"
    backends = {here.backend, *([known.backend] if known is not None else [])}
    others = {Stack(url, name) for url in backends for name in naming(id_, url)}
    others.discard(here)
    # An import keeps the names of the stack that it was exported from, a rename does not.
    for stack in (Stack(here.backend, mine), known):
        if stack is not None and stack in others:
            return Original(stack, certain=True)
    if known is not None and known.backend != here.backend and _folder(known.backend) is None:
        others.add(known)  # What its backend has cannot be read: not known is not gone.
    return Original(min(others), certain=False) if others else None


def _of(urn: str) -> str:
    stack, _, rest = urn.removeprefix("urn:pulumi:").partition("::")
    return f"{rest.partition('::')[0]}/{stack}"


def _present(urn: str) -> Stack:
    """The stack that this run works on: by its lock, else by the names in its state."""
    from providers.engine.journal import backend

    return Stack(_spelled(backend.current()), _locked_by(os.getppid()) or _of(urn))


def recorded(world: World, owner: str, present: str) -> Stack | None:
    """The stack that the journal has for an owner, in the `present` backend where it names none;
    None where it has none or cannot be read.
    """
    try:
        every = world.journal.owners(world.name) if world.has_journal else ()
    except GpusError:
        return None
    return next(
        (
            Stack(_spelled(known.backend) or present, f"{known.project}/{known.stack}")
            for known in every
            if known.owner == owner and known.stack
        ),
        None,
    )


def _taken(world: World, owner: str, urn: str) -> None:
    """Writes down that the owner is the present stack's. Never raises: the user has said so."""
    project, _, stack = _present(urn).name.partition("/")
    try:
        if world.has_journal:
            world.journal.owned(world.name, owner, project, stack)
    except GpusError:
        return


def naming(id_: str, url: str) -> frozenset[str]:
    """`PROJECT/STACK` of every state of that file backend in which this id stands."""
    wanted, root = f'"{id_}"'.encode(), _folder(url)
    states = root / "stacks" if root is not None else None
    found = set()
    for path in (*states.rglob("*.json"), *states.rglob("*.json.gz")) if states is not None else ():
        try:
            content = path.read_bytes()
            text = gzip.decompress(content) if path.suffix == ".gz" else content
        except (OSError, EOFError):
            continue
        if wanted in text:
            found.add(f"{path.parent.name}/{path.name.removesuffix('.gz').removesuffix('.json')}")
    return frozenset(found)


def is_locked_by(process: int) -> bool | None:
    """Whether the engine of that process id holds a stack's lock; None where the backend keeps none
    that can be read.
    """
    root = _present_folder()
    return bool(_locked_by(process)) if root is not None and (root / "stacks").is_dir() else None


def _locked_by(process: int) -> str:
    """`PROJECT/STACK` that the engine of that process id works on, by its lock; empty where no lock
    says.
    """
    root = _present_folder()
    for path in (root / "locks").rglob("*.json") if root is not None else ():
        try:
            lock = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(lock, dict) and lock.get("pid") == process:
            return f"{path.parent.parent.name}/{path.parent.name}"
    return ""


def _present_folder() -> Path | None:
    from providers.engine.journal import backend

    return _folder(backend.current())


def _folder(url: str) -> Path | None:
    """Where a file backend keeps its stacks and locks; None for another backend."""
    return Path(url.removeprefix("file://")) / ".pulumi" if url.startswith("file://") else None


def _spelled(url: str) -> str:
    """One name for one backend: a folder by its real path, another without its settings."""
    return (
        f"file://{os.path.realpath(url.removeprefix('file://'))}"
        if url.startswith("file://")
        else url.partition("?")[0]
    )
