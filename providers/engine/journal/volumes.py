"""Volumes that are being made: written down before the call, until it is known what became of
it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.model.volume import VolumeOrder, VolumeSpec

if TYPE_CHECKING:
    from providers.engine.journal.database import Database


def intend_volume(journal: Database, world: str, order: VolumeOrder, now: float) -> None:
    """Writes an order down before its call is made. When this raises, nothing may be made."""
    with journal.change() as db:
        db.execute(
            "INSERT INTO volumes VALUES (?, ?, ?, ?, ?)",
            (world, order.owner, order.spec.name, json.dumps(order), now),
        )


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


def settled_volume(journal: Database, world: str, owner: str, name: str) -> None:
    """It is known what became of the order: the volume was seen, or certainly refused."""
    with journal.change() as db:
        db.execute(
            "DELETE FROM volumes WHERE (world, owner, name) = (?, ?, ?)", (world, owner, name)
        )
