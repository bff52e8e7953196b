"""A rehearsal of Clore's marketplace: its REST API on loopback over the shared rehearsal store.
Nothing here is a real host or price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.clore.gate import Pace

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

KEY = "rehearsal"
"""The only key that the stand-in takes."""

PACE = Pace(0.05, 0.25)
"""A twentieth of the real limits, so that a rehearsal does not drag."""

LIMIT = Pace(0.005, 0.1)
"""What the stand-in refuses: looser than the pace, since on a busy machine two calls sent in their
turns can arrive together.
"""

MADE_UP_ON = "2026-11-27"
SOURCE = f"rehearsal market, made up {MADE_UP_ON}"


def untouched(store: Store) -> bool:
    """True while the market is as it was made up: no order, no change, no stock and no fault of the
    scenario. A few reads of the store.
    """
    db = store.connection()
    made = {
        name
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE name IN ('clore_order', 'clore_change')"
        )
    }
    reads = [f"SELECT 1 FROM {table}" for table in made]  # noqa: S608 (one of two names)
    reads += [
        "SELECT 1 FROM stock WHERE provider = 'clore'",
        "SELECT 1 FROM fault WHERE provider = 'clore'",
    ]
    return not any(db.execute(f"{read} LIMIT 1").fetchone() for read in reads)
