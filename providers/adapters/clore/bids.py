"""Spot bids on one server: what a bid must be, and whether ours holds the server. Pure.

Reads a `spot_marketplace` reply: `offers` of {bid, active, my, currency}, `server.min_pricing`,
`currency_rates_in_usd` (recorded by public clients, read 2026-11-27). Bids are per day for the
whole server; anyone may bid higher at any time, and then the rental ends without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore import figures, pricing
from providers.model import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

OVER = Decimal("1.01")
"""A bid over another's: no step is documented, so one per cent."""

_STEPS = {
    pricing.USD: Decimal("0.0001"),
    "CLORE-Blockchain": Decimal("0.0001"),
    "bitcoin": Decimal("0.00000001"),
}


class Bid(NamedTuple):
    """One bid, per day in its coin. `usd_per_day` is None where no rate is known."""

    coin: str
    per_day: Decimal
    usd_per_day: Decimal | None
    active: bool
    ours: bool


def rates(view: Mapping[str, object]) -> dict[str, Decimal]:
    """Dollars per coin, as the reply states them."""
    found = {
        str(coin): foreign.number(rate, foreign.MONEY)
        for coin, rate in figures.section(view, "currency_rates_in_usd").items()
    }
    return {pricing.USD: Decimal(1)} | {
        coin: rate for coin, rate in found.items() if rate is not None and rate > 0
    }


def bids(view: Mapping[str, object]) -> Iterator[Bid]:
    """Every bid that can be read."""
    known = rates(view)
    listed = view.get("offers")
    for row in listed if isinstance(listed, (list, tuple)) else ():
        amount = foreign.number(row.get("bid"), foreign.MONEY) if isinstance(row, Mapping) else None
        if amount is None or amount <= 0:
            continue
        coin = str(row.get("currency"))
        yield Bid(
            coin,
            amount,
            amount * known[coin] if coin in known else None,
            row.get("active") is True,
            row.get("my") is True,
        )


def outbid(view: Mapping[str, object]) -> bool:
    """True when we have a bid and none of ours holds the server."""
    ours = [bid for bid in bids(view) if bid.ours]
    return bool(ours) and not any(bid.active for bid in ours)


def needed(view: Mapping[str, object], coin: str, floor: Decimal, usd_rate: Decimal) -> Decimal:
    """The least bid per day in `coin` that takes the server: its floor, or just over the bid that
    holds it. `usd_rate` is dollars per coin.
    """
    least = foreign.number(
        figures.section(figures.section(view, "server"), "min_pricing").get(coin), foreign.MONEY
    )
    holders = [
        bid.usd_per_day
        for bid in bids(view)
        if bid.active and not bid.ours and bid.usd_per_day is not None
    ]
    over = max(holders, default=Decimal(0)) * OVER / usd_rate
    # More than anybody pays need not be exact.
    return min(max(floor, least or Decimal(0), over), Decimal(foreign.MONEY.most)).quantize(
        _STEPS[coin], rounding=ROUND_UP
    )
