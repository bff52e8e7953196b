"""Prices that can hardly be true: a typo, a trap, or a unit that was read wrong. Pure.

Owns the limits and the words. A price that the user gave is never doubted. Must not import the
engine or an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog.table import is_price
from providers.model.ask import SPOT
from providers.model.money import per_hour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.catalog.table import Lot, OfferTable
    from providers.model.offer import Offer

SPOT_LEAST = 0.08
"""Of the on-demand price of the same machine. Google and EC2 advertise spot at up to 91 % and 90 %
off (their pricing pages, 2026-11).
"""
SPOT_MOST = 1.01
"""Of the same. EC2 sells spot at the on-demand price at most; what is above is another machine's
price, or an old one.
"""
LISTED_LEAST = 0.10
"""Of the median that the same seller's list asks for this GPU, sold in the same way: the list's own
level, whatever kind of market it is.
"""
MARKET_LEAST = 0.01
"""Of the median of everybody else's on-demand prices for this GPU: marketplaces sell old cards at a
thirtieth of a cloud's price, no more.
"""
ENOUGH = 5
"""Fewer offers than this have no level to compare with."""


class Doubts:
    """What is to be said of the prices of a table, by row."""

    def __init__(self, table: OfferTable) -> None:
        self._table = table
        self._least: dict[tuple[str, str, str], float] = {}

    def clear(self, gpu_type: str, lot: Lot) -> bool:
        """Whether nothing can speak against any price of a lot, so that none needs `sound`."""
        prices = self._table.listed(gpu_type).prices.get((lot.provider, lot.capacity))
        if lot.capacity == SPOT or not prices:
            return False
        return prices[0] >= self._believed(gpu_type, lot)

    def sound(self, gpu_type: str, lot: Lot, place: str, price: int | None) -> bool:
        """Whether nothing speaks against the price of a node of a lot at a zone, or at a region
        where it names none. `why` has the words.
        """
        if price is None or not is_price(price):
            return True
        return price / lot.gpu_count >= self._believed(gpu_type, lot) and not (
            lot.capacity == SPOT and self._unlike_on_demand(gpu_type, lot, place, price)
        )

    def _believed(self, gpu_type: str, lot: Lot) -> float:
        """The least price of one GPU that every level allows; 0 where there is none."""
        key = (gpu_type, lot.provider, lot.capacity)
        least = self._least.get(key)
        if least is None:
            levels = self._levels(*key)
            least = self._least[key] = max((part * usual for usual, part, _ in levels), default=0.0)
        return least

    def why(self, row: int) -> str:
        """Why the price of this row can hardly be true, with figures; empty where nothing speaks
        against it.
        """
        offer = self._table.offer(row)
        price = offer.node_micro_usd
        if price is None or not is_price(price):
            return ""
        if offer.capacity == SPOT and (
            same := self._unlike_on_demand(offer.gpu_type, offer, offer.zone or offer.region, price)
        ):
            share = f"{price / same:.1%} of" if price < same else "more than"
            return (
                f"spot at {per_hour(int(price))} is {share} the {per_hour(same)} on demand for the"
                " same machine"
            )
        each = price / offer.gpu_count
        for usual, least, what in self._levels(offer.gpu_type, offer.provider, offer.capacity):
            if each < least * usual:
                return (
                    f"{_each(each)} a GPU is {each / usual:.1%} of what {what}, {_each(usual)} (the"
                    " median)"
                )
        return ""

    def _unlike_on_demand(
        self, gpu_type: str, sold: Lot | Offer, place: str, price: float
    ) -> int | None:
        """The on-demand price of the same machine there, where this spot price is too far from
        it.
        """
        same = self._table.listed(gpu_type).on_demand.get(
            (sold.provider, place, sold.machine_type, sold.gpu_count)
        )
        unlike = same is not None and not SPOT_LEAST * same <= price <= SPOT_MOST * same
        return same if unlike else None

    def _levels(
        self, gpu_type: str, provider: str, capacity: str
    ) -> Sequence[tuple[float, float, str]]:
        """(median for a GPU, the least part of it that is believed, whose it is) of each level that
        a price is compared with.
        """
        listed = self._table.listed(gpu_type)
        levels = (
            (
                listed.prices.get((provider, capacity), ()),
                LISTED_LEAST,
                f"{provider} asks for others of this GPU",
            ),
            (
                listed.elsewhere(provider),
                MARKET_LEAST,
                "other providers ask for this GPU on demand",
            ),
        )
        return [
            (_middle(prices), least, what)
            for prices, least, what in levels
            if len(prices) >= ENOUGH
        ]


def _middle(ascending: Sequence[float]) -> float:
    """The median of what is sorted already."""
    half = len(ascending) // 2
    return ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2


def _each(micro: float) -> str:
    return f"${micro / 1e6:,.4f}/h" if micro < 1e6 else per_hour(int(micro))
