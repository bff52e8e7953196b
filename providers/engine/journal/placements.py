"""Placements: what was launched at which price, how it ended, and what still has machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.journal import orders
from providers.engine.journal.codec import handles_out
from providers.model.machine import STOPPED, STOPPING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.journal.database import Database
    from providers.engine.record import ClusterRecord


class PlacementRow(NamedTuple):
    """One launched placement, with its price at that time. `ended_at` is None while it runs, as far
    as is known here.
    """

    owner: str
    cluster: str
    generation: str
    provider: str
    native_ids: tuple[str, ...]
    micro_usd: int | None
    price_as_of: str
    price_source: str
    launched_at: float
    ended_at: float | None
    record: dict[str, Any]


def launched(journal: Database, record: ClusterRecord) -> None:
    """Keeps the full record of a placement, with its price."""
    _write(journal, record, {})


def remember(journal: Database, record: ClusterRecord) -> None:
    """Keeps a placement that a state names and that was bought from another machine; one that
    is known here stays as it is.
    """
    with journal.change() as db:
        rows = db.execute(
            "SELECT launched_at FROM launches WHERE (world, owner, cluster, generation) = (?,"
            " ?, ?, ?)",
            (record.world, record.owner, record.cluster, record.generation),
        ).fetchall()
    if not any(int(launched_at) == int(record.launched_at) for (launched_at,) in rows):
        _write(journal, record, {"remembered": True})


def stopped(journal: Database, record: ClusterRecord, now: float) -> None:
    """The placement was stopped and is kept: its launch has ended, its orders stay open."""
    _amend(journal, record, {"status": record.status}, now)


def ending(journal: Database, record: ClusterRecord, why: str) -> None:
    """Records why a placement is about to end at its own limit, for the read that finds it gone."""
    _amend(journal, record, {"ended_why": why})


def concluded(journal: Database, record: ClusterRecord, status: str, why: str) -> None:
    """Records how a placement ended; kept after its machines are gone."""
    key = (record.world, record.owner, record.cluster, record.generation)
    with journal.change() as db:
        rows = db.execute(
            "SELECT rowid, record FROM launches WHERE (world, owner, cluster, generation) = (?,"
            " ?, ?, ?) ORDER BY launched_at DESC LIMIT 1",
            key,
        ).fetchall()
        for rowid, text in rows:
            db.execute(
                "UPDATE launches SET record = ? WHERE rowid = ?",
                (json.dumps({**json.loads(text), "concluded": [status, why]}), rowid),
            )


def destroyed(
    journal: Database, world: str, owner: str, cluster: str = "", generation: str = ""
) -> None:
    """A placement was destroyed with its declaration, or every one of the owner: how its job
    ended no longer matters.
    """
    with journal.change() as db:
        match = "world = ? AND owner = ? AND ? IN ('', cluster) AND ? IN ('', generation)"
        rows = db.execute(
            f"SELECT rowid, record FROM launches WHERE {match}",  # noqa: S608
            (world, owner, cluster, generation),
        ).fetchall()
        for rowid, text in rows:
            fields = json.loads(text)
            if fields.pop("concluded", None) is not None:
                db.execute(
                    "UPDATE launches SET record = ? WHERE rowid = ?",
                    (json.dumps(fields), rowid),
                )


def set_back(journal: Database, world: str, seconds: float) -> None:
    """The world's clock was set back by that much: what has ended stays in the past."""
    with journal.change() as db:
        for table, began_at in (("launches", "launched_at"), ("volume_spells", "began_at")):
            db.execute(
                f"UPDATE {table} SET {began_at} = {began_at} - ?, ended_at = ended_at - ?"  # noqa: S608
                " WHERE world = ? AND ended_at IS NOT NULL",
                (seconds, seconds, world),
            )


def conclusions(journal: Database, world: str, cluster: str = "") -> tuple[PlacementRow, ...]:
    """The last placement of each cluster where that is over and its machines are gone:
    `concluded` in its record.
    """
    last = {(launch.owner, launch.cluster): launch for launch in find(journal, world, "", cluster)}
    over = [
        launch
        for launch in last.values()
        if launch.ended_at is not None and launch.record.get("concluded")
    ]
    return tuple(
        launch for launch in over if not orders.find(journal, world, launch.owner, launch.cluster)
    )


def ended_why(journal: Database, record: ClusterRecord) -> str:
    """Why the latest placement of this generation was ended at its own limit; empty where it was
    not.
    """
    found = [
        launch
        for launch in find(journal, record.world, record.owner, record.cluster)
        if launch.generation == record.generation
    ]
    return str(found[-1].record.get("ended_why", "")) if found else ""


def find(
    journal: Database, world: str, owner: str = "", cluster: str = ""
) -> tuple[PlacementRow, ...]:
    """Every placement of a world, oldest first; narrowed by owner and cluster."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT owner, cluster, generation, provider, native_ids, micro_usd, price_as_of,"
            " price_source, launched_at, ended_at, record FROM launches WHERE world = ? AND ?"
            " IN ('', owner) AND ? IN ('', cluster) ORDER BY launched_at",
            (world, owner, cluster),
        ).fetchall()
        return tuple(
            PlacementRow._make(
                (
                    *row[:4],
                    tuple(native for _, native in json.loads(row[4])),
                    *row[5:10],
                    json.loads(row[10]),
                )
            )
            for row in rows
        )


def standing(journal: Database, world: str, cluster: str = "") -> tuple[PlacementRow, ...]:
    """The placements that still have machines, oldest first: open ones, and of a cluster
    without one the last that was stopped and is kept, or that is over: its job has ended, or
    its own limit has.
    """
    every = find(journal, world, "", cluster)
    runs = {(launch.owner, launch.cluster) for launch in every if launch.ended_at is None}
    over = [
        launch
        for launch in every
        if launch.record.get("status") in {STOPPED, STOPPING} or launch.record.get("concluded")
    ]
    last_kept = {(launch.owner, launch.cluster): launch for launch in over}
    kept = [
        launch
        for key, launch in last_kept.items()
        if key not in runs and orders.find(journal, world, *key)
    ]
    return tuple(
        launch
        for launch in every
        if launch.native_ids and (launch.ended_at is None or launch in kept)
    )


def _write(journal: Database, record: ClusterRecord, more: dict[str, Any]) -> None:
    values = (
        record.world,
        record.owner,
        record.cluster,
        record.generation,
        record.provider,
        handles_out(record.handles),
        record.price.micro_usd,
        record.price.as_of,
        record.price.source,
        record.launched_at,
        None,
        json.dumps({**record.to_dict(), **more}),
    )
    with journal.change() as db:
        # A state names the time in whole seconds: what it says of an open placement is not a
        # second one.
        db.execute(
            "DELETE FROM launches WHERE (world, owner, cluster, generation) = (?, ?, ?, ?) "
            "AND (launched_at = 0 OR ended_at IS NULL AND CAST(launched_at AS INTEGER) = ?)",
            (
                record.world,
                record.owner,
                record.cluster,
                record.generation,
                int(record.launched_at),
            ),
        )
        db.execute(
            f"INSERT OR REPLACE INTO launches VALUES ({', '.join('?' * len(values))})",  # noqa: S608
            values,
        )


def _amend(
    journal: Database,
    record: ClusterRecord,
    fields: Mapping[str, object],
    ended_at: float | None = None,
) -> None:
    """Writes these fields into the record of the generation's open launch, and its end if it
    has one.
    """
    with journal.change() as db:
        key = (record.world, record.owner, record.cluster, record.generation)
        match = "(world, owner, cluster, generation) = (?, ?, ?, ?) AND ended_at IS NULL"
        for rowid, text in db.execute(
            f"SELECT rowid, record FROM launches WHERE {match}",  # noqa: S608
            key,
        ).fetchall():
            written = json.dumps({**json.loads(text), **fields})
            db.execute(
                "UPDATE launches SET record = ?, ended_at = ? WHERE rowid = ?",
                (written, ended_at, rowid),
            )
