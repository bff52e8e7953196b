"""Leases: which process of this home is at work on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal import process
from providers.errors import Busy

if TYPE_CHECKING:
    from providers.engine.journal.database import Database


def take(journal: Database, world: str, owner: str, cluster: str, holder: str, now: float) -> None:
    """Takes the lease of a cluster, or raises Busy. `holder` is the taker's own token: only
    with the same one may it be taken twice.

    A lease whose process has ended is taken over.
    """
    key, me = (world, owner, cluster), process.current()
    with journal.change() as db:
        row = db.execute(
            "SELECT holder, pid, started, boot, since FROM leases WHERE (world, owner, cluster)"
            " = (?, ?, ?)",
            key,
        ).fetchone()
        if row is not None and row[0] != holder and process.alive(process.Process(*row[1:4])):
            minutes = max(0.0, now - row[4]) / 60
            who = "this process" if row[1] == me.pid else f"process {row[1]}"
            raise Busy(
                f"{cluster}: {who} has been at work on it for {minutes:.0f} min; wait for it to"
                " end, or stop it" + ("" if row[1] == me.pid else f" (kill {row[1]})")
            )
        db.execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, holder, *me, now),
        )


def holder(journal: Database, world: str, owner: str, cluster: str) -> int | None:
    """The id of the live process that holds the lease; None if no process does."""
    with journal.read() as db:
        row = db.execute(
            "SELECT pid, started, boot FROM leases WHERE (world, owner, cluster) = (?, ?, ?)",
            (world, owner, cluster),
        ).fetchone()
    return row[0] if row is not None and process.alive(process.Process(*row)) else None


def drop(journal: Database, world: str, owner: str, cluster: str, holder: str) -> None:
    """Releases the lease, if it is still this holder's."""
    with journal.change() as db:
        db.execute(
            "DELETE FROM leases WHERE (world, owner, cluster, holder) = (?, ?, ?, ?)",
            (world, owner, cluster, holder),
        )


def leased(journal: Database, world: str, owner: str) -> tuple[str, ...]:
    """The clusters of an owner whose lease some process has."""
    with journal.read() as db:
        return tuple(
            row[0]
            for row in db.execute(
                "SELECT cluster FROM leases WHERE (world, owner) = (?, ?)", (world, owner)
            )
        )
