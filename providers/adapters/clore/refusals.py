"""Refusals that are made here and not by the market, about one server: gone, unfit, dearer than
planned. Owns their words and scopes. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.clore import figures, pricing
from providers.errors import OfferGone, PriceRose, Unsupported
from providers.model.place import Scope

if TYPE_CHECKING:
    from decimal import Decimal


class Refuse(NamedTuple):
    """What is said of this server."""

    provider: str
    server: int

    @property
    def scope(self) -> Scope:
        return Scope(self.provider, machine_type=figures.machine_type(self.server))

    def offer(self, why: str, code: str) -> OfferGone:
        """The server is not what it was listed as."""
        return OfferGone(
            f"clore: server-{self.server}: {why}",
            provider=self.provider,
            code=code,
            scopes=(self.scope,),
        )

    def unfit(self, why: str) -> Unsupported:
        """The server does not do for this order; it may do for the next, so it is not blocked
        beyond this run.
        """
        return Unsupported(
            f"clore: server-{self.server}: {why}",
            provider=self.provider,
            code="unfit",
            scopes=(self.scope,),
            block_s=0.0,
        )

    def price(self, capacity: str, usd_per_day: Decimal, cap: Decimal) -> PriceRose:
        """It costs more than was planned, or than may be paid."""
        found = pricing.hourly_micro_usd(usd_per_day, capacity) / 1_000_000
        limit = pricing.hourly_micro_usd(cap, capacity) / 1_000_000
        scope = self.scope._replace(capacity=capacity)
        text = (
            f"clore: server-{self.server}: wanted at most ${limit:.4f}/h, found ${found:.4f}/h"
            f" {capacity}"
        )
        return PriceRose(text, provider=self.provider, code="price", scopes=(scope,))
