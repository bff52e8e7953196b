"""Where Modal can be told to run a container, and what that costs. Pure.

Owns the names and the multipliers. Source: modal.com/docs/guide/region-selection, stored copies of 2026: broad regions x1.5, narrow ones x1.75,
on the whole bill. The broad names are those of the page's older form; of the narrow ones only those that were seen are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.offer import Offer

BROAD, NARROW = (3, 2), (7, 4)
"""Multipliers as fractions: 1.5 and 1.75."""
REGIONS = {
    **dict.fromkeys(("us", "eu", "uk", "ap", "ca", "sa", "me", "mx", "af"), BROAD),
    **dict.fromkeys(("us-east", "us-west"), NARROW),
}
SOURCE = "a chosen region"


def offers(free: Sequence[Offer], wanted: Sequence[str]) -> list[Offer]:
    """These offers in each of the wanted regions that Modal knows, at the region's price. `free` are those that Modal may place anywhere."""
    found: list[Offer] = []
    for name in wanted:
        if name not in REGIONS:
            continue
        over, under = REGIONS[name]
        for offer in free:
            price = None if offer.node_micro_usd is None else (offer.node_micro_usd * over + under - 1) // under
            found.append(offer._replace(region=name, node_micro_usd=price, parts=f"({offer.parts}) x {over / under:g} for {SOURCE}"))
    return found
