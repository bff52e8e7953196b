"""A state that was copied into another stack: both name the same machines, which are the first
one's. Owns telling a copy from a renamed stack.

A renamed stack leaves no other state that names its owner; a copy does. Reads the states and locks
of a file backend, as plain text; where the backend is another, or nothing tells whose the machines
are, nothing is refused: what costs money can always be deleted.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from providers.errors import GpusError

if TYPE_CHECKING:
    from providers.engine.runtime.world import World

TAKE_OVER = "GPUS_TAKE_OVER"
"""The variable that names, as PROJECT/STACK, the stack whose machines may be deleted by another
one.
"""


def refuse(world: World, owner: str, urn: str) -> None:
    """Raises GpusError where this run works on a copy, unless the user said that it takes over."""
    whose = original(world, owner, urn)
    if whose and os.environ.get(TAKE_OVER) != whose:
        from providers.engine.journal import backend

        stack = whose.rpartition("/")[2]
        raise GpusError(
            f"wanted to delete what the state names, found that it belongs to {whose} in"
            f" {backend.current()}, whose state names it too: this state is a copy; nothing was"
            f" deleted. `pulumi destroy -s {stack}` deletes it; `pulumi state delete URN`, or"
            " `pulumi stack rm --force` of the copy, only forgets it here; to delete it from here"
            f" all the same, set {TAKE_OVER}={whose}"
        )


def original(world: World, owner: str, urn: str) -> str:
    """`PROJECT/STACK` of the other stack whose machines these are; empty where this one's are
    meant, or nothing tells.
    """
    named = naming(f"{world.name}/{owner}")
    if len(named) < 2:
        return ""
    stack, _, rest = urn.removeprefix("urn:pulumi:").partition("::")
    mine = f"{rest.partition('::')[0]}/{stack}"
    present = _locked_by(os.getppid()) or mine
    # An import keeps the names of the stack that it was exported from, a rename does not.
    for whose in (mine, recorded(world, owner)):
        if whose != present and whose in named:
            return whose
    return ""


def recorded(world: World, owner: str) -> str:
    """`PROJECT/STACK` that the journal has for an owner;
    empty where it has none or cannot be read.
    """
    try:
        every = world.journal.owners(world.name) if world.has_journal else ()
    except GpusError:
        return ""
    return next(
        (
            f"{known.project}/{known.stack}"
            for known in every
            if known.owner == owner and known.stack
        ),
        "",
    )


def naming(id_: str) -> frozenset[str]:
    """`PROJECT/STACK` of every state of the present backend in which this id stands."""
    wanted, root = f'"{id_}"'.encode(), _folder("stacks")
    found = set()
    for path in (*root.rglob("*.json"), *root.rglob("*.json.gz")) if root is not None else ():
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
    root = _folder("stacks")
    return bool(_locked_by(process)) if root is not None and root.is_dir() else None


def _locked_by(process: int) -> str:
    """`PROJECT/STACK` that the engine of that process id works on, by its lock; empty where no lock
    says.
    """
    root = _folder("locks")
    for path in root.rglob("*.json") if root is not None else ():
        try:
            lock = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(lock, dict) and lock.get("pid") == process:
            return f"{path.parent.parent.name}/{path.parent.name}"
    return ""


def _folder(kind: str) -> Path | None:
    from providers.engine.journal import backend

    url = backend.current()
    return (
        Path(url.removeprefix("file://")) / ".pulumi" / kind if url.startswith("file://") else None
    )
