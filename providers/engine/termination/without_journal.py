"""Deleting without the journal: where it cannot be used, a deletion goes by the state and the
labels. Owns the copy that stands in for it.

Buying needs the journal; ending what costs money never does. What was written before is used as far
as it can be read.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from providers.engine.journal.database import JournalBroken, prepare
from providers.engine.journal.journal import Journal
from providers.errors import NoHome
from providers.home import JOURNAL_FILE, home

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from providers.engine.runtime.deadlines import T
    from providers.engine.runtime.world import World


_WAIT_S = 1.0
"""Real seconds to wait for a lock on a journal that is only copied."""


class Draft(Journal):
    """A journal in memory: nothing that is written to it lasts. `whole` is False where what was
    written before is not known.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, *, whole: bool) -> None:
        super().__init__(path)
        self._db = db
        self.whole = whole

    def close(self) -> None:
        """Does nothing: there is no file to open again."""


async def undeterred(world: World, what: str, work: Callable[[World], Awaitable[T]]) -> T:
    """The result of a deletion (or of a look that must not depend on the journal), done with the
    journal, or else with a copy of it in memory.

    A warning says what could not be written and what to do. The work may run twice, so it must be
    repeatable.
    """
    try:
        return await work(world)
    except (JournalBroken, NoHome) as error:
        broken = error
    told = False
    for draft in _drafts():
        if not told:
            world.report("warning", f"{what}: {_without(broken)}")
            told = True
        try:
            return await work(world.with_journal(draft))
        except JournalBroken as error:
            broken = error
    raise broken


def _without(error: JournalBroken | NoHome) -> str:
    found, todo = (
        (error.found, error.todo)
        if isinstance(error, JournalBroken)
        else str(error).rsplit("; ", 1)
    )
    rest = (
        "this goes on by the state and the clouds' labels, and is not written down: afterwards"
        " `gpus sweep` puts the journal right"
    )
    return f"{found}; {todo}; {rest}"


def _drafts() -> Iterator[Draft]:
    """A copy of the journal if it can be read, then an empty one."""
    path = home(writable=False) / JOURNAL_FILE
    for query in (
        "mode=ro",
        "immutable=1",
    ):
        # The second one reads where not even a lock can be written; what was never checkpointed
        # is missing then.
        db = _empty()
        try:
            if not path.exists():
                break
            source = sqlite3.connect(
                f"{path.absolute().as_uri()}?{query}", uri=True, timeout=_WAIT_S
            )
            try:
                source.backup(db)
            finally:
                source.close()
            prepare(db)
        except (sqlite3.Error, OSError):
            db.close()
            continue
        yield Draft(path, db, whole=True)
        break
    db = _empty()
    prepare(db)
    yield Draft(path, db, whole=not _is_there(path))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True


def _empty() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
