"""Blocks: places that were refused lately, and for how long they are left alone.

Blocks grow with how long a scope has been refused without a success: it is left alone for a small
part of that, so that whoever waits is on average half that part late, and asks seldom. A success
there clears it, because stockouts last hours but end without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model.place import Block, Scope

if TYPE_CHECKING:
    from providers.engine.journal.database import Database
    from providers.model.offer import Candidate
    from providers.model.place import Placed

SHARE = 0.06
GROWN_MAX_S = 1_800.0
SEARCHED_S = 300.0
"""How long a search leaves a sold-out place alone, however long it has been sold out. In
`tests.benchmarks get` no search misses all that opens, at a ninth of the calls of a loop each
minute; of those that ask each ten minutes, one in thirty does.
"""
MEMORY_S = 6 * 3_600.0
LOST_BLOCK_S = 600.0
"""How long a place is left alone where a machine was taken back: there is no room right now."""


def find(journal: Database, world: str) -> tuple[Block, ...]:
    """Every block of a world, expired ones too: the planner compares with the world's time."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT provider, region, zone, machine_type, gpu_type, capacity, until, reason"
            " FROM blocks WHERE world = ? ORDER BY provider, region, zone, machine_type,"
            " gpu_type, capacity",
            (world,),
        ).fetchall()
    return tuple(Block(Scope(*row[:6]), row[6], row[7]) for row in rows)


def block(
    journal: Database,
    world: str,
    scope: Scope,
    seconds: float,
    reason: str,
    now: float,
    *,
    searching: bool = False,
) -> Block:
    """Leaves a scope alone for that long, or for `SHARE` of the time since it was first refused, up
    to half an hour, if that is longer; returns the block. `searching`: for `SEARCHED_S` at most.
    """
    where = (world, *scope)
    match = (
        "(world, provider, region, zone, machine_type, gpu_type, capacity) = (?, ?, ?, ?, ?, ?, ?)"
    )
    with journal.change() as db:
        row = db.execute(f"SELECT since, at, until FROM blocks WHERE {match}", where).fetchone()  # noqa: S608
        since = row[0] if row is not None and now - row[1] <= MEMORY_S else now
        grown = max(seconds, min(SHARE * (now - since), GROWN_MAX_S))
        until = now + (min(seconds, SEARCHED_S) if searching else grown)
        if row is not None:
            until = max(until, row[2])
        db.execute(
            "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*where, until, reason, since, now),
        )
        db.execute("DELETE FROM blocks WHERE world = ? AND until < ?", (world, now - MEMORY_S))
    return Block(scope, until, reason)


def clear(journal: Database, world: str, place: Placed | Candidate) -> None:
    """Success at a place: whatever was blocked there is open again."""
    for block in find(journal, world):
        if block.scope.covers(place):
            _unblock(journal, world, block.scope)


def unblock(journal: Database, world: str, provider: str = "") -> int:
    """Forgets every block of a world, or of one provider there, and returns how many."""
    with journal.change() as db:
        return int(
            db.execute(
                "DELETE FROM blocks WHERE world = ? AND ? IN ('', provider)", (world, provider)
            ).rowcount
        )


def _unblock(journal: Database, world: str, scope: Scope) -> None:
    with journal.change() as db:
        db.execute(
            "DELETE FROM blocks WHERE (world, provider, region, zone, machine_type, gpu_type,"
            " capacity) = (?, ?, ?, ?, ?, ?, ?)",
            (world, *scope),
        )
