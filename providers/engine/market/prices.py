"""Today's prices over the bundled ones, for the providers that tell an account theirs. Owns which
offers are asked about; adapters ask.

Only in the live world: in a rehearsal the catalog is the market.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.planner import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.guard import Cloud
    from providers.catalog.table import OfferTable
    from providers.model.ask import Ask
    from providers.model.offer import Offer


def today(
    adapter: Cloud, base: OfferTable, ask: Ask | None
) -> tuple[Sequence[Offer] | None, Sequence[str]]:
    """(the provider's bundled offers, those that the ask could take at today's prices; lines for
    the user).

    (None, ()) where the adapter has no prices of its own to tell. Calls: the adapter's. Without
    entries in the ask, every offer is asked about.
    """
    if not adapter.reprices:
        return None, ()
    column = base.column("provider")
    offers = [base.offer(row) for row in range(len(base)) if column[row] == adapter.name]
    gpus = (
        {gpu for entry in ask.entries for gpu in rules.types(entry)}
        if ask is not None and ask.entries
        else None
    )
    asked = [offer for offer in offers if gpus is None or offer.gpu_type in gpus]
    if not asked:
        return None, ()
    found = adapter.repriced(asked)
    fresh = {offer.id: offer for offer in found.offers}
    return [fresh.get(offer.id, offer) for offer in offers], found.lines
