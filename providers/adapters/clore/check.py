"""`gpus check clore`: the market, the key, the wallet, the fees, and orders that nothing here made.
Owns those lines; reads only.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from providers.adapters.clore import errors, figures, market, orders, pricing
from providers.adapters.clore.options import COINS
from providers.errors import BadCredentials, CloudError
from providers.model import foreign
from providers.model.ask import ON_DEMAND, SPOT
from providers.model.machine import CheckLine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.clore.client import Client

    Rows = Sequence[Mapping[str, object]]

DEPOSIT = "deposit at clore.ai (Account, Deposit)"
CLAIM = "cancel them at clore.ai, or claim them: clore:claimed_orders in the stack's configuration"


def lines(
    client: Client,
    listing: Callable[[], market.Listing],
    unknown: Callable[[Rows], Sequence[int]],
    not_configured: str,
) -> list[CheckLine]:
    """What is there and what is missing. Calls: 4; without a key 1."""
    if not_configured:
        # What somebody can do about it comes first; the market may take its time, and cannot be
        # rented without.
        return [_line("key", "missing", "no API key", not_configured), _market(listing)]
    found = [_market(listing)]
    try:
        rows = [row for row in client.my_orders() if not orders.has_ended(row)]
        found.append(_line("key", "ok", f"{len(rows)} orders run on it"))
        strangers = unknown(rows)
        if strangers:
            found.append(
                _line(
                    "orders",
                    "unknown",
                    f"made by nothing here: {', '.join(map(str, strangers))}",
                    CLAIM,
                )
            )
        found.append(_wallet(balances(client), rows))
        found.append(_fees(client.renter_fees()))
    except BadCredentials as error:
        found.append(
            _line("key", "refused", str(error), "make a new one at clore.ai and set CLORE_API_KEY")
        )
    except CloudError as error:
        found.append(
            _line("key", "unknown", str(error), _later(error, "what the key has was not read"))
        )
    return found


def balances(client: Client) -> dict[str, Decimal]:
    """The wallet by coin; a balance that is not told is left out. Calls: 1."""
    found = {
        str(row.get("name") or row.get("currency")): foreign.number(row.get("balance"))
        for row in client.wallets()
    }
    return {
        coin: balance for coin, balance in found.items() if balance is not None and coin in COINS
    }


def _line(topic: str, state: str, found: str, todo: str = "") -> CheckLine:
    return CheckLine(market.PROVIDER, topic, state, found, todo)


def _later(error: CloudError, what: str) -> str:
    """What to do about an answer that did not come; nothing where the error says it already."""
    if errors.row_for(error.code).todo:
        return ""
    return (
        f"{what}, which may pass: `gpus check clore` once more in a minute; if it lasts, look at"
        " clore.ai"
    )


def _market(listing: Callable[[], market.Listing]) -> CheckLine:
    try:
        found = listing()
    except CloudError as error:
        return _line("market", "unknown", str(error), _later(error, "the offers were not read"))
    free = sum(1 for offer in found.offers if not offer.restriction)
    unreadable = f"; {found.unreadable}" if found.unreadable else ""
    return _line("market", "ok", f"{free} offers, {len(found.refused)} hosts refused{unreadable}")


def _wallet(balances: Mapping[str, Decimal], rows: Rows) -> CheckLine:
    """What the wallet holds, and for how many hours of what runs."""
    if not balances:
        return _line("wallet", "unknown", "the service states no balance")
    burn: dict[str, Decimal] = {}
    for row in rows:
        coin, per_day = str(row.get("currency")), foreign.number(row.get("price"))
        burn[coin] = burn.get(coin, Decimal(0)) + (per_day or Decimal(0)) * (
            1 + pricing.RENTER_FEE[orders.capacity(row) or ON_DEMAND]
        )
    parts = []
    for coin, balance in sorted(balances.items()):
        per_hour = burn.get(coin, Decimal(0)) / 24
        parts.append(
            f"{balance.normalize():f} {coin}"
            + (f" ({balance / per_hour:.1f} h of what runs)" if per_hour else "")
        )
    empty = not any(balance > 0 for balance in balances.values())
    return _line("wallet", "missing" if empty else "ok", ", ".join(parts), DEPOSIT if empty else "")


def _fees(fees: Mapping[str, object]) -> CheckLine:
    """Whether the service still charges what offers reckon with. The reply's shape is known in part
    only: `on_demand.base` and `spot.base`.
    """
    stated = {
        kind: foreign.number(figures.section(fees, key).get("base"))
        for kind, key in ((ON_DEMAND, "on_demand"), (SPOT, "spot"))
    }
    parts = [f"{kind} {rate:f} % in all" for kind, rate in stated.items() if rate is not None]
    off = [
        kind
        for kind, rate in stated.items()
        if rate is not None and rate / 200 != pricing.RENTER_FEE[kind]
    ]
    if not parts:
        return _line("fees", "unknown", "the service states no base fee")
    return _line(
        "fees",
        "unknown" if off else "ok",
        ", ".join(parts),
        f"prices here reckon with another {' and '.join(off)} fee: report it" if off else "",
    )
