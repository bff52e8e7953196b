"""Tries: what each attempt at a place came to, and how long it took. Advice for later plans: losing
one loses nothing but that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.planner.expected import Try

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.engine.journal.database import Database
    from providers.model.place import Placed

KEPT_S = 30 * 86_400.0


def note_tries(
    journal: Database,
    world: str,
    places: Iterable[Placed],
    outcome: str,
    seconds: float,
    now: float,
) -> None:
    """Keeps what an attempt came to at each of its places, and forgets what is older than a
    month.
    """
    with journal.change() as db:
        db.executemany(
            "INSERT INTO tries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    world,
                    *(each.provider, each.region, each.zone, each.machine_type),
                    *(each.gpu_type, each.capacity, outcome, seconds, now),
                )
                for each in places
            ],
        )
        db.execute("DELETE FROM tries WHERE world = ? AND at < ?", (world, now - KEPT_S))


def find_tries(journal: Database, world: str) -> tuple[Try, ...]:
    """Every try of a world that is remembered, oldest first."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT provider, region, zone, machine_type, gpu_type, capacity, outcome, seconds, at"
            " FROM tries WHERE world = ? ORDER BY rowid",
            (world,),
        ).fetchall()
    return tuple(map(Try._make, rows))


def forget_tries(journal: Database, world: str, provider: str = "") -> None:
    """Forgets every try of a world, or of one provider there."""
    with journal.change() as db:
        db.execute("DELETE FROM tries WHERE world = ? AND ? IN ('', provider)", (world, provider))
