"""Each cluster stands for itself: one without a place fails last, once the others have begun.

Owns the waiting, and whether this is a `pulumi preview`. The engine (CLI 3.276, tried) starts no
further step once one has failed, and `pulumi up` changes nothing where its own preview failed.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise

from providers.plugin import copies

WAIT_S = 60.0
"""How long a failure waits for the next cluster to be begun: one that depends on it, or that is no
target of this run, never is.
"""
_LOOK_S = 0.1


class Siblings:
    """The clusters of one program, by name, and which of them need nothing more of the engine than
    an answer.
    """

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def begin(self, name: str) -> None:
        """This one is under way, or needs nothing."""
        self._begun.add(name)

    async def others(self, name: str, declared: set[str]) -> None:
        """Returns once every other declared cluster is begun, or none was for `WAIT_S`; at once
        where this one is not. `declared` may grow.
        """
        if name not in self._begun:
            return
        loop = asyncio.get_running_loop()
        seen, until = len(self._begun), loop.time() + WAIT_S
        while not declared <= self._begun and loop.time() < until:
            await asyncio.sleep(_LOOK_S)
            if len(self._begun) != seen:
                seen, until = len(self._begun), loop.time() + WAIT_S


_PREVIEWS = frozenset({"preview", "pre"})
_COMMANDS = _PREVIEWS | {"up", "update", "destroy", "down", "dn", "refresh", "import", "watch"}
_NAMING = frozenset({"-s", "--stack", "-C", "--cwd", "-m", "--message"})
"""Flags whose value may read like a command."""


def only_previews(pid: int | None = None) -> bool | None:
    """Whether the command that started this plugin is `pulumi preview`, which fails where a cluster
    has no place; the preview of `pulumi up` goes on with the others. None where nothing tells.

    Its command line says so. Where no command line can be read, the lock of a file backend does: a
    preview takes none (CLI 3.276, tried).
    """
    from providers.engine.journal import process

    pid = pid or os.getppid()
    if words := process.words(pid):
        commands = [
            word for before, word in pairwise(words) if word in _COMMANDS and before not in _NAMING
        ]
        return bool(commands) and commands[0] in _PREVIEWS
    locked = copies.is_locked_by(pid)
    return None if locked is None else not locked
