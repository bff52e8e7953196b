"""A server's price: from the listing's coins and dollars to whole micro-dollars an hour. Money is
Decimal until it is whole micro-dollars. Owns the renter's fee; pure.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore.figures import flat, section
from providers.model import foreign
from providers.model.ask import ON_DEMAND, SPOT
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USD = "USD-Blockchain"
RENTER_FEE = {ON_DEMAND: Decimal("0.05"), SPOT: Decimal("0.0125")}
"""The renter's half of the fee, on top of the listed price: 10 % and 2.5 % in all (docs.clore.ai
fee-structure, read 2026-11-27). Holders of 2 million CLORE pay less; that is not reckoned with.
"""
_QUOTES = {"bitcoin": "on_demand_btc", "CLORE-Blockchain": "on_demand_clore", USD: "on_demand_usd"}
_APART = Decimal("1.30")
"""A coin's dollar quote further than this from the same server's dollar price is no price: the
quotes of a listing are known to disagree.
"""


class Terms(NamedTuple):
    """What a server costs in one coin: the listed price for the whole server and day, and the same
    in dollars (None: no rate is known).
    """

    coin: str
    per_day: Decimal
    usd_per_day: Decimal | None


def terms(
    server: Mapping[str, object],
    capacity: str,
    pay_with: Sequence[str],
    rates: Mapping[str, Decimal] | None = None,
) -> Terms | str:
    """What a server costs in the first coin of `pay_with` that it takes, the first with a known
    dollar value if there is one; or why none.

    `rates` are dollars per coin from elsewhere; without one a coin is worth what this listing's own
    quote says, else its dollar price is unknown.
    """
    price = section(server, "price")
    listed = section(price, "on_demand" if capacity == ON_DEMAND else "spot")
    quotes = section(price, "usd")
    if capacity == SPOT and foreign.number(quotes.get("spot")) == 0:
        return "no spot"
    allowed = server.get("allowed_coins")
    coins = [coin for coin in flat(allowed) if coin in _QUOTES]
    amounts = {
        coin: amount
        for coin in coins
        if (amount := foreign.number(listed.get(coin), foreign.MONEY)) is not None and amount > 0
    }
    if not amounts:
        return "no spot" if capacity == SPOT else "no price in a coin that it takes"
    payable = [coin for coin in pay_with if coin in amounts]
    if not payable:
        return f"takes {', '.join(sorted(amounts))} only"
    for coin in payable:
        if (rate := _rate(coin, price, rates or {})) is not None:
            return Terms(coin, amounts[coin], amounts[coin] * rate)
    return Terms(payable[0], amounts[payable[0]], None)


def _rate(coin: str, price: Mapping[str, object], rates: Mapping[str, Decimal]) -> Decimal | None:
    if coin == USD:
        return Decimal(1)
    if coin in rates:
        return rates[coin]
    listed, quotes = section(price, "on_demand"), section(price, "usd")
    amount, quote, dollars = (
        foreign.number(value, foreign.MONEY)
        for value in (listed.get(coin), quotes.get(_QUOTES[coin]), listed.get(USD))
    )
    if amount is None or quote is None or amount <= 0 or quote <= 0:
        return None
    if dollars is not None and dollars > 0 and not dollars / _APART <= quote <= dollars * _APART:
        return None
    return quote / amount


def hourly_micro_usd(usd_per_day: Decimal, capacity: str) -> int:
    """Whole micro-dollars per hour for the whole server, the renter's fee included, from dollars
    per day.
    """
    return micro_usd(usd_per_day / 24 * (1 + RENTER_FEE[capacity]))


def daily_usd(micro_usd_per_hour: int, capacity: str) -> Decimal:
    """The reverse: the listed dollars per day that cost at most this much per hour."""
    return Decimal(micro_usd_per_hour) / 1_000_000 * 24 / (1 + RENTER_FEE[capacity])
