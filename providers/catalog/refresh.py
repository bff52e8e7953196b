"""Refreshes a provider's prices from its own source: what moved, and whether it may be kept.

Owns the rules: a source is taken whole or not at all, and what moved too far has to be accepted.
Never read on the way to a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import price_sources, refreshed
from providers.catalog.price_sources import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.catalog.refreshed import Key, Priced
    from providers.catalog.table import OfferTable
    from providers.model.offer import Offer

FAR = 0.5
"""A price that moves by more than this part of itself has to be accepted."""
LEAST = 0.8
"""The part of the prices that a source had before which it must still have: less is half a list."""


class Moved(NamedTuple):
    """One price that is another one now, in micro-dollars an hour. `old` is None where none was
    known.
    """

    key: Key
    old: int | None
    new: int

    @property
    def part(self) -> float | None:
        """By which part of itself it moved: 0.1 is a tenth dearer."""
        return None if self.old is None else self.new / self.old - 1

    @property
    def far(self) -> bool:
        return self.part is not None and abs(self.part) > FAR


class Found(NamedTuple):
    """What a source says against what plans use now. `missing` counts prices that it no longer
    has: those stay as they were. `kept` is false where a price moved too far.
    """

    provider: str
    region: str
    prices: int
    moved: tuple[Moved, ...]
    missing: int
    unknown: Sequence[str]
    kept: bool


def _said(
    provider: str, address: str, region: str, today: str, offers: Sequence[Offer]
) -> price_sources.Said:
    """What a provider's source says of these offers now. Raises SourceError."""
    if provider == price_sources.AWS:
        return price_sources.aws(address, region, offers)
    if provider == price_sources.GCP:
        from providers.catalog import google_prices

        return google_prices.google(address, today, offers)
    return price_sources.modal(address, today, offers)


def refresh(
    table: OfferTable,
    provider: str,
    region: str,
    today: str,
    *,
    address: str = "",
    accept: bool = False,
) -> Found:
    """Asks a provider's source, of one region where it has them by region, and keeps what it says.
    Raises SourceError, and keeps nothing, where that cannot be trusted; OSError where it cannot be
    written.
    """
    offers = [
        offer for offer in refreshed.on_demand(table, provider) if region in {"", offer.region}
    ]
    known = {price_sources.key_of(offer): offer.node_micro_usd for offer in offers}
    where = (address or price_sources.ADDRESSES[provider]).rstrip("/")
    said = _said(provider, where, region, today, offers)
    before = [key for key, micro in known.items() if micro is not None]
    missing = sum(key not in said.prices for key in before)
    if not said.prices or missing > (1 - LEAST) * len(before):
        raise SourceError(
            f"{where}: wanted the prices of {len(before)} kinds of machines, found"
            f" {len(before) - missing}: half a list is not taken"
        )
    moved = tuple(
        Moved(key, known[key], price.micro_usd)
        for key, price in said.prices.items()
        if price.micro_usd != known[key]
    )
    kept = accept or not any(each.far for each in moved)
    if kept:
        refreshed.write(provider, {**_last(provider), **said.prices})
    return Found(provider, region, len(said.prices), moved, missing, said.unknown, kept)


def _last(provider: str) -> dict[Key, Priced]:
    """What was refreshed before; nothing where its file is broken: this writes it again."""
    try:
        return refreshed.read(provider)
    except ValueError:
        return {}
