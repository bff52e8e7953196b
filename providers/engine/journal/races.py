"""Races: of two orders that were under way at once, the one that is kept.

Owns that there is one at most, whatever process asks: the first that is written down. All others of
the race have lost, and what they made has to go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal.orders import OPEN, PENDING, find

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from providers.engine.journal.database import Database
    from providers.engine.journal.orders import OrderRow

LEAST_S = 60.0
"""What a machine is billed at least, at EC2 and Google: the largest minimum of those that are
asked at once.
"""


class Beaten(NamedTuple):
    """What an order of a race cost beside what is kept. `ended_at` is 0 until what it made, or may
    have made, is confirmed gone; `began_at` where it turned out that it made nothing, or that it is
    what is kept. `micro_usd` is the most that all of it costs an hour; None where it is not known.
    """

    cluster: str
    token: str
    provider: str
    micro_usd: int | None
    began_at: float
    ended_at: float


def win(journal: Database, race: str, token: str) -> str:
    """The order that has won the race: this one, unless another is written down already."""
    with journal.change() as db:
        db.execute("INSERT OR IGNORE INTO races VALUES (?, ?)", (race, token))
        (winner,) = db.execute("SELECT token FROM races WHERE race = ?", (race,)).fetchone()
    return str(winner)


def has_lost(journal: Database, row: OrderRow) -> bool:
    """Whether another order has won this one's race."""
    if not row.race:
        return False
    with journal.read() as db:
        found = db.execute("SELECT token FROM races WHERE race = ?", (row.race,)).fetchone()
    return found is not None and found[0] != row.order.token


def orders_of(
    journal: Database, world: str, owner: str, cluster: str, generation: str
) -> tuple[OrderRow, ...]:
    """The orders of a generation of which something may exist, oldest first; and those of earlier
    ones that have lost, and are not known to be gone.
    """
    return tuple(
        row
        for row in find(journal, world, owner, cluster)
        if row.order.label.generation == generation
        or (row.state in PENDING and has_lost(journal, row))
    )


def beaten(journal: Database, world: str, owner: str) -> tuple[Beaten, ...]:
    """Every order of the owner's races, oldest first: also where none of a race was kept."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT cluster, orders.token, provider, micro_usd, created_at, updated_at, state,"
            " native_ids, orders.token = races.token FROM orders"
            " LEFT JOIN races ON json_extract(intent, '$.race') = races.race"
            " WHERE world = ? AND owner = ? AND json_extract(intent, '$.race') != ''"
            " ORDER BY orders.rowid",
            (world, owner),
        ).fetchall()
        launches = db.execute(
            "SELECT native_ids FROM launches WHERE world = ? AND owner = ?", (world, owner)
        ).fetchall()
    launched = {native for (ids,) in launches for _, native in json.loads(ids)}
    return tuple(
        Beaten(
            cluster,
            token,
            provider,
            micro_usd,
            began,
            began
            if won and (state in OPEN or _launched(handles, launched))
            else _ended_at(state, json.loads(handles), began, changed),
        )
        for cluster, token, provider, micro_usd, began, changed, state, handles, won in rows
    )


def racers(journal: Database, world: str) -> tuple[str, ...]:
    """The owners that asked two providers at once: what is not kept may have cost something."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT DISTINCT owner FROM orders WHERE world = ?"
            " AND json_extract(intent, '$.race') != ''",
            (world,),
        ).fetchall()
    return tuple(owner for (owner,) in rows)


def _launched(handles: str, launched: Collection[str]) -> bool:
    """Whether what it made was written down as launched, or nothing is known to have been made:
    what is kept is paid for as such.
    """
    made = [native for _, native in json.loads(handles)]
    return not made or any(native in launched for native in made)


def _ended_at(state: str, handles: Sequence[object], began: float, changed: float) -> float:
    if state in OPEN:
        return 0.0
    return max(changed, began + LEAST_S) if handles else began
