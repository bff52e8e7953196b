"""With which coin a host is paid, out of those the wallet holds. Owns what counts as enough, and
which hosts a wallet cannot pay; pure, no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore import figures, market, pricing
from providers.adapters.clore.options import COINS
from providers.errors import InsufficientFunds
from providers.model.ask import ON_DEMAND, SPOT
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

REMEDY = "deposit at clore.ai (Account, Deposit), or pay with another coin: pay_with"


class Funds(NamedTuple):
    """What may pay: the balances by coin (a coin whose balance is not told is absent, and stops
    nothing) and the coins allowed, in order.

    `refused` is a coin that the service itself would not take a moment ago, whatever its balance.
    """

    balances: Mapping[str, Decimal]
    pay_with: Sequence[str] = COINS
    refused: str = ""

    def last(self, coin: str, per_day: Decimal) -> bool:
        """Whether they pay at least an hour."""
        return coin != self.refused and (
            coin not in self.balances or self.balances[coin] >= per_day / 24
        )

    def coins(self, server: Mapping[str, object], capacity: str) -> tuple[str, ...]:
        """The allowed coins that this host takes and that are there."""
        priced = ((coin, pricing.terms(server, capacity, (coin,))) for coin in self.pay_with)
        return tuple(
            coin
            for coin, found in priced
            if not isinstance(found, str) and self.last(coin, found.per_day)
        )

    def short(
        self,
        server: Mapping[str, object],
        capacity: str,
        per_day: Decimal,
        coin: str,
        servers: Sequence[object],
    ) -> InsufficientFunds:
        """The refusal of a host that costs so much in this coin: every coin that it takes, those
        held, and all the hosts that cannot be paid.
        """
        prices = {
            each: found.per_day
            for each in self.pay_with
            if not isinstance(found := pricing.terms(server, capacity, (each,)), str)
        }
        wanted = " or ".join(
            f"{amount.normalize():f} {each}" for each, amount in {**prices, coin: per_day}.items()
        )
        balances = ", ".join(
            f"{balance.normalize():f} {each}" for each, balance in sorted(self.balances.items())
        )
        text = (
            f"clore: wanted at least an hour at {wanted} a day, found {balances or 'nothing'}"
            f" in the wallet; {REMEDY}"
        )
        scopes = self.unpayable(figures.server_id(server) or 0, capacity, servers)
        return InsufficientFunds(text, provider=market.PROVIDER, code="wallet", scopes=scopes)

    def unpayable(self, number: int, capacity: str, servers: Sequence[object]) -> tuple[Scope, ...]:
        """This host, and every other one of the market that these funds cannot pay; the whole
        market where they pay none.
        """
        closed, payable = [_scope(number, capacity)], False
        for each in servers:
            if (
                not isinstance(each, dict)
                or each.get("rented") is not False
                or (found := figures.server_id(each)) is None
            ):
                continue
            for kind in (ON_DEMAND, SPOT):
                if isinstance(pricing.terms(each, kind, self.pay_with), str):
                    continue
                if self.coins(each, kind):
                    payable = payable or (found, kind) != (number, capacity)
                else:
                    closed.append(_scope(found, kind))
        return tuple(dict.fromkeys(closed)) if payable else (Scope(market.PROVIDER),)


def _scope(number: int, capacity: str) -> Scope:
    return Scope(market.PROVIDER, machine_type=figures.machine_type(number), capacity=capacity)
