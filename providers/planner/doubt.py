"""Prices that can hardly be true: a typo, a trap, or a unit that was read wrong. Pure.

Owns the limits and the words. A price that the user gave is never doubted. Must not import the
engine or an adapter.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, cast

from providers.model.ask import ON_DEMAND, SPOT
from providers.model.money import per_hour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.catalog.table import OfferTable

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


class _Level:
    """What one GPU type costs: on demand by machine, and each GPU by (provider, capacity)."""

    __slots__ = ("listed", "on_demand")

    def __init__(self) -> None:
        self.on_demand: dict[tuple[object, ...], int] = {}
        self.listed: dict[tuple[str, str], list[float]] = {}

    def others(self, provider: str) -> Sequence[float]:
        return [
            each
            for (name, capacity), found in self.listed.items()
            if capacity == ON_DEMAND and name != provider
            for each in found
        ]


class Doubts:
    """What is to be said of the prices of a table, by row. Medians are made once for each GPU type,
    when first asked for.
    """

    def __init__(self, table: OfferTable) -> None:
        self._table = table
        column = cast("Any", table.column)
        self._where = [
            column(name) for name in ("provider", "region", "zone", "machine_type", "gpu_count")
        ]
        self._capacities, self._prices, self._gpus = (
            column("capacity"),
            column("node_micro_usd"),
            column("gpu_type"),
        )
        self._restrictions = column("restriction")
        self._known: dict[str, _Level] = {}

    def why(self, row: int) -> str:
        """Why the price of this row can hardly be true, with figures; empty where nothing speaks
        against it.
        """
        price, count = self._prices[row], self._where[4][row]
        if not price or not 0 < price < float("inf"):
            return ""
        level = self._known.get(self._gpus[row])
        if level is None:
            level = self._known[self._gpus[row]] = self._level(self._gpus[row])
        provider, region, zone, machine, _ = (column[row] for column in self._where)
        capacity = self._capacities[row]
        same = (
            level.on_demand.get((provider, zone or region, machine, count))
            if capacity == SPOT
            else None
        )
        if same is not None and not SPOT_LEAST * same <= price <= SPOT_MOST * same:
            share = f"{price / same:.1%} of" if price < same else "more than"
            return (
                f"spot at {per_hour(int(price))} is {share} the {per_hour(same)} on demand for the"
                " same machine"
            )
        each = price / count
        for others, least, what in (
            (
                level.listed.get((provider, capacity), ()),
                LISTED_LEAST,
                f"{provider} asks for others of this GPU",
            ),
            (level.others(provider), MARKET_LEAST, "other providers ask for this GPU on demand"),
        ):
            if len(others) >= ENOUGH and each < least * (usual := median(others)):
                return (
                    f"{_each(each)} a GPU is {each / usual:.1%} of what {what}, {_each(usual)} (the"
                    " median)"
                )
        return ""

    def _level(self, gpu_type: str) -> _Level:
        level = _Level()
        for row in self._table.by_gpu.get(gpu_type, ()):
            price = self._prices[row]
            if not price or not 0 < price < float("inf") or self._restrictions[row]:
                continue
            provider, region, zone, machine, count = (column[row] for column in self._where)
            each, capacity = price / count, self._capacities[row]
            level.listed.setdefault((provider, capacity), []).append(each)
            if capacity == ON_DEMAND:
                place = (provider, zone or region, machine, count)
                level.on_demand[place] = min(int(price), level.on_demand.get(place, int(price)))
        return level


def _each(micro: float) -> str:
    return f"${micro / 1e6:,.4f}/h" if micro < 1e6 else per_hour(int(micro))
