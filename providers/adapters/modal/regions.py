"""Where Modal can be told to run a container, and what that costs. Pure.

Owns the names and the multipliers, on the whole bill: those of Modal's own page. What is not in the
table is never asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model.note import Costs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.offer import Offer

SOURCE, SEEN = "modal.com/docs/guide/region-selection", "2026-07-29"


class Region(NamedTuple):
    """`percent` of the plain price; `later` is the percentage that notes of 2026-09 and 2026-10
    quote from the same page, where it differs.
    """

    percent: int
    later: int = 0


BROAD, NARROW = Region(150, 115), Region(175)
COUNTRY = Region(150, 175)
"""Stands in the page's column of broad regions; the later notes count it as narrow."""

REGIONS = {
    **dict.fromkeys(("us", "eu", "ap"), BROAD),
    **dict.fromkeys(
        ("us-east", "us-central", "us-south", "us-west", "eu-west", "eu-north", "eu-south"), NARROW
    ),
    **dict.fromkeys(
        ("ap-northeast", "ap-southeast", "ap-south", "ap-melbourne", "jp", "au"), NARROW
    ),
    **dict.fromkeys(("uk", "ca", "me", "sa", "af", "mx"), COUNTRY),
}
"""Source: a copy of Modal's page as it stood at SEEN; a comparison of prices that was checked
against it on 2026-06-27 has the same x1.5 and x1.75 (beam.cloud/blog/modal-pricing-explained). The
page of 2024 had x1.25 and x2.5. Where later notes differ the page's own figures stand, and the plan
says so.
"""


def offers(free: Sequence[Offer], wanted: Sequence[str]) -> list[Offer]:
    """These offers in each of the wanted regions that Modal knows, at the region's price. `free`
    are those that Modal may place anywhere.
    """
    return [_placed(offer, name) for name in wanted if name in REGIONS for offer in free]


def _placed(offer: Offer, region: str) -> Offer:
    percent = REGIONS[region].percent
    price = None if offer.node_micro_usd is None else -(-offer.node_micro_usd * percent // 100)
    left_out = "; ".join(part for part in offer.left_out.split("; ") if "region" not in part)
    return offer._replace(
        region=region,
        node_micro_usd=price,
        parts=f"({offer.parts}) x {percent / 100:g} for a chosen region",
        left_out=left_out,
    )


def notes(region: str) -> tuple[str, ...]:
    """What a reader of the plan should know of a region's price; nothing of anywhere."""
    found = REGIONS.get(region)
    if found is None:
        return ()
    later = f"; later notes on that page say x{found.later / 100:g}" if found.later else ""
    return (
        Costs(
            f"Modal bills all of it x{found.percent / 100:g} for a region such as {region}"
            f" ({SOURCE}, {SEEN}){later}"
        ),
    )
