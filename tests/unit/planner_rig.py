"""Offers and asks for the planner's tests."""

import math
from typing import Any

from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.planner.plan import Plan

ALL_KINDS = frozenset({"on-demand", "spot", "flex-start", "reservation"})
ABLE = {
    "gcp": Capabilities(
        "gcp", capacities=ALL_KINDS, max_nodes=8, sold_types=frozenset({"a2-", "a3-", "g2-"})
    ),
    "modal": Capabilities("modal", kinds=frozenset({"job"}), capacities=frozenset({"on-demand"})),
    "shut": Capabilities("shut", opens_ports=False, ssh=False),
}


def offer(
    provider: str = "gcp",
    zone: str = "us-central1-a",
    machine: str = "a3-highgpu-8g",
    gpu: str = "H100",
    count: int = 8,
    capacity: str = "on-demand",
    usd: float | None = 88.49,
    **more: Any,
) -> Offer:
    region = more.pop("region", zone.rsplit("-", 1)[0])
    price: Any = usd if usd is None or math.isnan(usd) else int(usd * 1_000_000)
    return Offer(
        provider,
        region,
        zone,
        machine,
        gpu,
        float(count),
        capacity,
        price,
        "2026-07-30",
        "list",
        **more,
    )


def ids(plan: Plan) -> list[str]:
    return [candidate.offer.id for candidate in plan.candidates]
