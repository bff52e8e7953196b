"""A rehearsal of Clore's marketplace: its REST API on loopback over the shared rehearsal store.
Nothing here is a real host or price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.clore.access import LIMIT, Pace
from providers.rehearsal.start import Cloud, Server

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def start(store: Store, pace: Pace = LIMIT) -> Server:
    """Starts a server on a free port of loopback, on threads of this process."""
    from providers.rehearsal.clouds.clore.server import start as started

    return started(store, pace)


def untouched(store: Store) -> bool:
    """True while the market is as it was made up: no order, no change, no stock and no fault of the
    scenario. A few reads of the store.
    """
    return not (
        store.has_rows("clore_order", "clore_change")
        or store.stock_lines("clore")
        or store.faults("clore")
    )


def market() -> list[object]:
    """The market as it was made up."""
    from providers.rehearsal.clouds.clore.inventory import servers

    return list(servers())


CLOUD = Cloud(start, "", untouched, market)
