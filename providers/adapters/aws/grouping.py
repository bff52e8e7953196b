"""Which candidates may share one creating call, and which of them are a region's all. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws import machines, optin
from providers.adapters.aws.region_facts import options_of
from providers.model.ask import ON_DEMAND, SPOT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from providers.model.machine import Order
    from providers.model.offer import Candidate

MOST_OVERRIDES = 50
"""Of one fleet. EC2's own limit is higher; a region has fewer zones times types for one ask."""


def group(candidates: Sequence[Candidate]) -> int:
    """How many leading candidates one creating call may choose among without changing the plan's
    order; at least 1.

    A fleet on demand tries its overrides strictly by priority (`prioritized`), so a region's whole
    run goes out as one, types mixed. On Spot EC2 looks at capacity first and at priorities second
    (`capacity-optimized-prioritized`), so only candidates that rank equal (one entry, one price) go
    together. A named reservation is at one place that EC2 is asked for first, so all candidates of
    it in a region are one call. Several nodes go zone by zone.
    """
    first = candidates[0]
    if first.offer.term is not None:
        return 1
    if first.nodes > 1 and not first.reservation:
        return 1
    if not first.zone and not first.reservation:
        return 1
    seen: set[tuple[str, str]] = set()
    for candidate in candidates:
        pool = (candidate.machine_type, candidate.zone)
        alike = (
            candidate.region == first.region
            and candidate.capacity == first.capacity
            and candidate.reservation == first.reservation
            and candidate.nodes == first.nodes
            and pool not in seen
            and len(seen) < MOST_OVERRIDES
        )
        if alike and not first.reservation:
            alike = bool(candidate.zone) and machines.architecture(
                candidate.machine_type
            ) == machines.architecture(first.machine_type)
        if alike and first.capacity == SPOT:
            alike = candidate.entry == first.entry and candidate.micro_usd == first.micro_usd
        if not alike:
            break
        seen.add(pool)
    return max(1, len(seen))


def spreads(order: Order) -> bool:
    """Whether EC2 may choose the zone of an order, if its zones are all that the region has: one
    machine of one type on demand, at one price, in no network of the user's.

    A run that names no zone is answered with a machine from any zone that has one: EC2's own
    refusals of a zone recommend it, and one of such a run speaks of all zones (fedora-copr/copr
    #3279, danvk/mapsnap#432, read 2026-11-29). It needs no launch template, which a fleet does.
    """
    first, options = order.candidates[0], options_of(order)
    return (
        first.capacity == ON_DEMAND
        and len(order.candidates) > 1
        and len(order.node_names) == 1
        and not (order.joins or options.subnets or options.efa or options.placement_group)
        and len({(each.machine_type, each.micro_usd) for each in order.candidates}) == 1
        and not any(optin.zone_group(each.region, each.zone) for each in order.candidates)
    )


def covers(candidates: Sequence[Candidate], zones: Collection[str]) -> bool:
    """Whether these candidates are in every one of these zones, and there are some."""
    return bool(zones) and {each.zone for each in candidates}.issuperset(zones)
