"""One order made ready: the server as it is listed now, its price, the coin to pay with. Owns what
is checked before an order is sent.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore import bids, figures, filters, market, pricing, request
from providers.adapters.clore.check import balances as wallet
from providers.adapters.clore.paying import Funds
from providers.adapters.clore.refusals import Refuse
from providers.model import foreign
from providers.model.ask import SPOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.clore.client import Client
    from providers.adapters.clore.memory import Intent
    from providers.adapters.clore.options import Options
    from providers.model.machine import Order
    from providers.model.offer import Candidate

MARKET_AGE_S = 30.0
"""A listing read this long ago still serves the next attempt."""

ROSE = Decimal("1.01")
"""Coins move against the dollar within a run; more than this is another price."""


class Purchase(NamedTuple):
    """One order made ready: the body to send, and what was reckoned with."""

    body: dict[str, object]
    terms: pricing.Terms
    per_day: Decimal
    usd_per_day: Decimal
    cap_usd_per_day: Decimal
    funds: Funds


def prepared(
    client: Client,
    servers: Callable[[float], list[object]],
    jupyter_token: str,
    variable: Callable[[str], str],
    order: Order,
    candidate: Candidate,
    server: int,
    chosen: Options,
) -> Purchase:
    """What to send for a server as it is listed now. Raises when it is gone, unfit, dearer than
    planned, or cannot be paid.
    """
    listed = next((row for row in servers(MARKET_AGE_S) if figures.server_id(row) == server), None)
    gone = Refuse(market.PROVIDER, server)
    if not isinstance(listed, dict) or listed.get("rented") is not False:
        raise gone.offer("no longer listed as free", "not-listed")
    parsed = figures.gpus(listed)
    if (
        isinstance(parsed, str)
        or parsed.model.name != candidate.gpu_type
        or parsed.gpu_count != candidate.gpu_count
    ):
        raise gone.offer(
            f"wanted {candidate.gpu_type}:{candidate.gpu_count}, found"
            f" {parsed if isinstance(parsed, str) else parsed.model.name}",
            "changed",
        )
    _fits(order, listed, chosen, gone)
    view: Mapping[str, object] = client.spot_market(server) if candidate.capacity == SPOT else {}
    funds = Funds(wallet(client), chosen.pay_with)
    terms = pricing.terms(
        listed,
        candidate.capacity,
        funds.coins(listed, candidate.capacity) or chosen.pay_with,
        bids.rates(view),
    )
    if isinstance(terms, str) or terms.usd_per_day is None:
        raise gone.offer(
            terms if isinstance(terms, str) else f"no dollar price in {terms.coin}", "no-price"
        )
    limits = [
        limit
        for limit in (order.max_micro_usd, int(chosen.max_bid_usd_per_hour * 1_000_000) or None)
        if limit is not None
    ]
    planned = candidate.micro_usd
    if candidate.capacity == SPOT:
        rate = terms.usd_per_day / terms.per_day
        per_day = bids.needed(view, terms.coin, terms.per_day, rate)
        cap = pricing.daily_usd(min(limits) if limits else planned or 0, SPOT)
        usd_per_day = min(per_day * rate, Decimal(foreign.MONEY.most))
    else:
        per_day, usd_per_day = terms.per_day, terms.usd_per_day
        caps = [
            limit
            for limit in (order.max_micro_usd, None if planned is None else int(planned * ROSE))
            if limit is not None
        ]
        cap = pricing.daily_usd(min(caps) if caps else 0, candidate.capacity)
    # Whole micro-dollars on both sides: a cap of exactly the price is kept.
    if pricing.hourly_micro_usd(usd_per_day, candidate.capacity) > pricing.hourly_micro_usd(
        cap, candidate.capacity
    ):
        raise gone.price(candidate.capacity, usd_per_day, cap)
    if not funds.last(terms.coin, per_day):
        raise funds.short(listed, candidate.capacity, per_day, terms.coin, servers(MARKET_AGE_S))
    body = request.body(order, candidate, chosen, terms, per_day, jupyter_token, variable)
    return Purchase(body, terms, per_day, usd_per_day, cap, funds)


def _fits(order: Order, listed: Mapping[str, object], chosen: Options, gone: Refuse) -> None:
    """The filters of this order, and what it needs of the host."""
    why = (
        filters.unfit(listed, chosen)
        or filters.short(listed, order.setup.ttl_s, order.setup.disk_gib)
        or filters.undriven(listed, chosen.image)
    )
    if why:
        raise gone.unfit(why)


def placed_at_price(candidate: Candidate, intent: Intent) -> Candidate:
    """The candidate at what is really paid: a bid may lie over the floor that the plan showed."""
    return candidate._replace(
        micro_usd=pricing.hourly_micro_usd(Decimal(intent.usd_per_day), intent.capacity)
    )
