"""Closures: the places that an account can and cannot use, as far as is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.record import account_in, account_out
from providers.model.place import Scope

if TYPE_CHECKING:
    from providers.engine.journal.database import Database
    from providers.engine.record import Account
    from providers.model.place import Placed


class Closure(NamedTuple):
    """What is known of an account and a scope: closed to it until a time, for a reason, or
    `opened`: known to be usable.
    """

    account: Account | None
    scope: Scope
    opened: bool
    until: float
    reason: str


def find(journal: Database, world: str) -> tuple[Closure, ...]:
    """Everything remembered of what accounts can use and cannot, expired refusals too."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT account, provider, region, zone, machine_type, gpu_type, capacity, opened,"
            " until, reason FROM closures WHERE world = ? ORDER BY provider, region, zone,"
            " machine_type, gpu_type, capacity",
            (world,),
        ).fetchall()
    return tuple(
        Closure(account_in(json.loads(row[0])), Scope(*row[1:7]), bool(row[7]), row[8], row[9])
        for row in rows
    )


def close_to(
    journal: Database, world: str, account: Account | None, scope: Scope, reason: str, until: float
) -> None:
    """This account cannot use this scope until it is changed."""
    with journal.change() as db:
        values = (world, json.dumps(account_out(account)), *scope, 0, until, reason)
        db.execute(
            "INSERT OR REPLACE INTO closures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values
        )


def open_to(
    journal: Database, world: str, account: Account | None, place: Placed, *, remember: bool
) -> None:
    """This account can use this place: closures that cover it are forgotten; with `remember`
    its zone is kept as one that is open.
    """
    whose = json.dumps(account_out(account))
    covering = [
        each.scope
        for each in find(journal, world)
        if not each.opened and each.account == account and each.scope.covers(place)
    ]
    if not covering and not remember:
        return
    with journal.change() as db:
        for scope in covering:
            match = (
                "(world, account, provider, region, zone, machine_type, gpu_type, capacity) ="
                " (?, ?, ?, ?, ?, ?, ?, ?)"
            )
            db.execute(f"DELETE FROM closures WHERE {match}", (world, whose, *scope))  # noqa: S608 - own text
        if remember:
            values = (
                world,
                whose,
                *Scope(place.provider, place.region, place.zone),
                1,
                0.0,
                "",
            )
            db.execute(
                "INSERT OR REPLACE INTO closures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )


def forget_closures(journal: Database, world: str, provider: str = "") -> None:
    """Nothing is remembered of what accounts of this provider, or of any, can use."""
    with journal.change() as db:
        db.execute(
            "DELETE FROM closures WHERE world = ? AND ? IN ('', provider)", (world, provider)
        )
