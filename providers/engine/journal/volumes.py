"""Volumes: what was ordered and may have been made, and what each costs from when to when.

No volume that may exist goes uncounted: an order and its cost row are written together before the
call. The row ends only once the volume is certainly gone, or was certainly never made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.record import account_in, account_out
from providers.model.machine import Handle
from providers.model.volume import VolumeOrder, VolumeSpec

if TYPE_CHECKING:
    import sqlite3

    from providers.engine.journal.database import Database
    from providers.engine.record import Account


class VolumeSpell(NamedTuple):
    """A volume at one size. `micro_usd` is what that costs a month, as of the day `price_as_of`;
    None where its price or its size is not known. It ended at `ended_at`, None while it costs, as
    far as is known here. `native_id` is empty while nobody knows whether it was made; `is_kept`
    once no stack declares it.
    """

    owner: str
    spec: VolumeSpec
    native_id: str
    account: Account | None
    micro_usd: int | None
    price_as_of: str
    began_at: float
    ended_at: float | None = None
    is_kept: bool = False

    @property
    def handle(self) -> Handle:
        return Handle(self.spec.provider, self.native_id)


def intend_volume(journal: Database, world: str, order: VolumeOrder, spell: VolumeSpell) -> None:
    """Writes an order down before its call is made, and what it would cost. When this raises,
    nothing may be made.
    """
    with journal.change() as db:
        db.execute(
            "INSERT INTO volumes VALUES (?, ?, ?, ?, ?)",
            (world, order.owner, order.spec.name, json.dumps(order), spell.began_at),
        )
        _add(db, world, spell)


def intended_volume(journal: Database, world: str, owner: str, name: str) -> VolumeOrder | None:
    """The order of which it is not known whether it made the volume; None for none."""
    with journal.read() as db:
        row = db.execute(
            "SELECT intent FROM volumes WHERE (world, owner, name) = (?, ?, ?)",
            (world, owner, name),
        ).fetchone()
        if row is None:
            return None
        spec, *rest = json.loads(row[0])
        return VolumeOrder(VolumeSpec(*spec), *rest)


def repeat_volume(journal: Database, world: str, order: VolumeOrder, spell: VolumeSpell) -> float:
    """An order whose outcome is unknown is sent again, at `spell.began_at`. Returns when it was
    sent last before. When this raises, nothing may be sent.
    """
    with journal.change() as db:
        (sent_at,) = db.execute(
            "SELECT created_at FROM volumes WHERE (world, owner, name) = (?, ?, ?)",
            (world, order.owner, order.spec.name),
        ).fetchone()
        db.execute(
            "UPDATE volumes SET created_at = ? WHERE (world, owner, name) = (?, ?, ?)",
            (spell.began_at, world, order.owner, order.spec.name),
        )
        _count(db, world, spell)
        return float(sent_at)


def settled_volume(journal: Database, world: str, owner: str, spec: VolumeSpec) -> None:
    """It is known what became of the order of this at its place: the volume was seen, and counted,
    or it was certainly refused, and costs nothing.
    """
    with journal.change() as db:
        db.execute(
            "DELETE FROM volumes WHERE (world, owner, name) = (?, ?, ?) AND"
            " (json_extract(intent, '$[0][1]'), json_extract(intent, '$[0][2]')) = (?, ?)",
            (world, owner, *spec[:3]),
        )
        _unmade(db, world, owner, spec)


def unmade_volume(
    journal: Database, world: str, owner: str, spec: VolumeSpec, before: float
) -> None:
    """The order whose outcome was unknown has made no volume, and costs nothing, if it was last
    sent before this time.
    """
    with journal.change() as db:
        sent = db.execute(
            "SELECT 1 FROM volumes WHERE (world, owner, name) = (?, ?, ?) AND created_at >= ?",
            (world, owner, spec.name, before),
        ).fetchone()
        if sent is None:
            _unmade(db, world, owner, spec)


def count_volume(journal: Database, world: str, spell: VolumeSpell, since: float = 0.0) -> None:
    """The volume costs this from `spell.began_at` on: what was counted of it before ends then. One
    that was never counted here costs it since it was made, where `since` tells that.
    """
    with journal.change() as db:
        _count(db, world, spell, since)


def gone_volume(journal: Database, world: str, handle: Handle, now: float) -> None:
    """Its cloud does not know the volume any more: it costs nothing from now on."""
    with journal.change() as db:
        for row, each in _rows(db, world):
            if each.handle == handle and each.ended_at is None:
                _end(db, row, now)


def forget_volumes(journal: Database, world: str, now: float) -> None:
    """Every volume of the world is gone with the world itself, and so is every order of one."""
    with journal.change() as db:
        db.execute("DELETE FROM volumes WHERE world = ?", (world,))
        db.execute(
            "UPDATE volume_spells SET ended_at = ? WHERE world = ? AND ended_at IS NULL",
            (now, world),
        )


def volume_spells(journal: Database, world: str, owner: str = "") -> tuple[VolumeSpell, ...]:
    """What every volume of a world has cost and costs, oldest first; of one owner, if one is
    named.
    """
    with journal.read() as db:
        return tuple(spell for _, spell in _rows(db, world, owner))


def _count(db: sqlite3.Connection, world: str, spell: VolumeSpell, since: float = 0.0) -> None:
    every = _rows(db, world)
    before = [row for row in every if spell.native_id and row[1].handle == spell.handle]
    # What is counted of this very volume; of an order whose volume nobody saw yet, else. Another
    # one of the owner and the name costs on.
    current = [row for row in before if row[1].ended_at is None] or [
        (row, each)
        for row, each in every
        if each.ended_at is None
        and not each.native_id
        and (each.owner, each.spec[:3]) == (spell.owner, spell.spec[:3])
    ]
    for row, each in current:
        if (each.owner, each.spec) != (spell.owner, spell.spec):
            _end(db, row, spell.began_at)
            continue
        db.execute(
            "UPDATE volume_spells SET native_id = ?, account = ?, kept = ?,"
            " micro_usd = coalesce(micro_usd, ?) WHERE rowid = ?",
            (spell.native_id, _account(spell), spell.is_kept, spell.micro_usd, row),
        )
        return
    began = min(since or spell.began_at, spell.began_at)
    _add(db, world, spell if before or current else spell._replace(began_at=began))


def _unmade(db: sqlite3.Connection, world: str, owner: str, spec: VolumeSpec) -> None:
    db.execute(
        "DELETE FROM volume_spells WHERE (world, owner, name, native_id) = (?, ?, ?, '') AND"
        " (json_extract(spec, '$[1]'), json_extract(spec, '$[2]')) = (?, ?) AND ended_at IS NULL",
        (world, owner, *spec[:3]),
    )


def _end(db: sqlite3.Connection, row: int, now: float) -> None:
    db.execute("UPDATE volume_spells SET ended_at = ? WHERE rowid = ?", (now, row))


def _add(db: sqlite3.Connection, world: str, spell: VolumeSpell) -> None:
    values = (
        *(world, spell.owner, spell.spec.name, spell.native_id, json.dumps(spell.spec)),
        *(_account(spell), spell.micro_usd, spell.price_as_of),
        *(spell.began_at, spell.ended_at, spell.is_kept),
    )
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO volume_spells VALUES ({marks})", values)  # noqa: S608


def _account(spell: VolumeSpell) -> str:
    return json.dumps(account_out(spell.account))


def _rows(
    db: sqlite3.Connection, world: str, owner: str = ""
) -> tuple[tuple[int, VolumeSpell], ...]:
    """The row id of each cost, oldest first; its other fields need not be unique."""
    rows = db.execute(
        "SELECT rowid, owner, spec, native_id, account, micro_usd, price_as_of, began_at, ended_at,"
        " kept FROM volume_spells WHERE world = ? AND ? IN ('', owner) ORDER BY began_at, rowid",
        (world, owner),
    ).fetchall()
    return tuple(
        (
            row[0],
            VolumeSpell(
                owner=row[1],
                spec=VolumeSpec(*json.loads(row[2])),
                native_id=row[3],
                account=account_in(json.loads(row[4])),
                micro_usd=row[5],
                price_as_of=row[6],
                began_at=row[7],
                ended_at=row[8],
                is_kept=bool(row[9]),
            ),
        )
        for row in rows
    )
