"""Clusters that wait for capacity, so that they can be listed. What happens to them is decided only
by their states.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.engine.journal.placements import PlacementRow

if TYPE_CHECKING:
    from providers.engine.journal.database import Database
    from providers.engine.record import ClusterRecord


def waits(journal: Database, record: ClusterRecord) -> None:
    """Keeps the record of a cluster that waits, or has given up."""
    with journal.change() as db:
        db.execute(
            "INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?)",
            (record.world, record.owner, record.cluster, json.dumps(record.to_dict())),
        )


def waits_no_more(journal: Database, world: str, owner: str, cluster: str = "") -> None:
    """It was acquired, or is not wanted any more; so is every cluster of an owner."""
    with journal.change() as db:
        db.execute(
            "DELETE FROM waits WHERE world = ? AND owner = ? AND ? IN ('', cluster)",
            (world, owner, cluster),
        )


def waiting(journal: Database, world: str, cluster: str = "") -> tuple[PlacementRow, ...]:
    """Every cluster of a world that waits, as placements of nothing."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT owner, cluster, record FROM waits WHERE world = ? AND ? IN ('', cluster)"
            " ORDER BY owner, cluster",
            (world, cluster),
        ).fetchall()
    found = [(owner, name, json.loads(text)) for owner, name, text in rows]
    return tuple(
        PlacementRow(
            *(owner, name, record["generation"], "", (), 0, "", "", 0.0, None), record=record
        )
        for owner, name, record in found
    )
