"""Replaces the lost ones of several machines in the same place: an order that joins the rest.

Owns where such an order may go (the same provider, machine type and kind of capacity, in the same
zone; a replica, which runs by itself, also in another zone of the region; nowhere else), what it
may cost (what the cap leaves beside the rest) and how long its machines live (as long as the rest).
Runs under the cluster's lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.desired import ClusterSpec, ttl
from providers.engine.launch.afford import refusal
from providers.engine.launch.helpers import removed_after
from providers.engine.launch.result import WAITING_ON, LaunchResult
from providers.engine.launch.walk import begun
from providers.engine.market.collect import market
from providers.engine.market.planning import presentable
from providers.engine.reconcile import placements
from providers.engine.reconcile.relocate import left_without
from providers.engine.record import HEALTHY, ClusterRecord
from providers.engine.runtime.accounts import home_of
from providers.engine.termination.end import release_all, stuck
from providers.engine.termination.settle import leave_queue
from providers.errors import AllFailed
from providers.planner.check import satisfied
from providers.planner.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Node
    from providers.model.offer import Candidate

_LEAST_S = 600
"""No machine is bought to live shorter than the spec's shortest ttl."""


async def rejoin(
    world: World, record: ClusterRecord, spec: ClusterSpec, after: ClusterRecord, stop: StopSignal
) -> ClusterRecord | None:
    """Gets what is missing in the place of the rest. What is left of the lost ones is deleted
    first, confirmed.

    None: nothing can be added there at all (the rest no longer satisfies the declaration, or
    nothing of the kind is on sale there), so that the whole has to be placed anew. Returns with
    `reasons`, still degraded, while there is no room: the rest goes on, and the next update asks
    again.
    """
    healthy = [node for node in after.machines if node.status in HEALTHY]
    rest = tuple(node.handle for node in healthy)
    index = satisfied(spec.ask, record.placement)
    if index is None or await home_of(world, record) is not await world.call(
        record.provider, world.adapter, record.provider
    ):
        return None
    place = record.placement
    missing = place.nodes - len(healthy)
    part = _part(world, record, spec, index, missing)
    on_sale = await world.call("", market, world, part.ask)
    # Where one was taken back just now there may be room all the same: asking costs nothing.
    plan = presentable(on_sale.plan(part.ask, setup=part.setup), record.cluster)
    here = _near(plan.candidates, record, zones=spec.ask.replicated)
    if not here:
        return None
    if spec.budget is not None and not (
        fit := tuple(
            candidate for candidate in here if _paid(world, spec, record, candidate, missing)
        )
    ):
        raise refusal(spec.budget, part, here, world.clock.now())
    here = fit if spec.budget is not None else here
    left = await release_all(
        world,
        record,
        [handle for handle in (*record.handles, *record.leftovers) if handle not in rest],
        keep=rest,
    )
    if not left.clean:
        return stuck(after, left)
    lost = [handle for handle in record.handles if handle not in rest]
    world.journal.forget(
        world.name, record.owner, record.cluster, record.generation, lost, world.clock.now()
    )
    what = f"{missing} of {place.nodes} machines"
    world.report(
        "info",
        f"{record.cluster}: {what} lost; asking for as many in {place.where}, beside the rest",
    )
    try:
        narrowed = Plan(plan.terms, here, plan.kept, plan.refused, plan.warnings)
        walk = begun(world, narrowed, part, record.generation, stop, keep=rest)
        result = await removed_after(walk.run(rest), world, part, stop)
    except AllFailed as failed:
        why = next(
            (attempt.message for attempt in reversed(failed.attempts)), "no place is left to try"
        )
        where = place.region if spec.ask.replicated else place.where
        reason = (
            f"degraded: {len(healthy)} of {place.nodes} machines are left, and"
            f" {where} has no further one now ({why});"
            " the next `up` asks again, `on_loss: replace-all` replaces all of it"
        )
        return after._replace(
            handles=rest, leftovers=(), reasons=(reason,), attempts=failed.attempts
        )
    return await _added(world, after._replace(handles=rest, leftovers=()), result, healthy, stop)


async def _added(
    world: World,
    after: ClusterRecord,
    result: LaunchResult,
    healthy: Sequence[Node],
    stop: StopSignal,
) -> ClusterRecord:
    if result.state == WAITING_ON:
        adapter = await world.call(after.provider, world.adapter, after.provider)
        left = await leave_queue(world, adapter, result.order, None, after.handles)
        if not left.clean:
            return stuck(after, left)
        return after._replace(attempts=result.attempts)
    if (without := await left_without(world, after, result, stop)) is not None:
        return without
    whole = placements.whole(after, healthy, result.nodes, result.placed.micro_usd)
    whole = whole._replace(
        attempts=result.attempts, leftovers=result.leftovers, reasons=result.reasons
    )
    world.journal.launched(whole)
    return whole


def _part(
    world: World, record: ClusterRecord, spec: ClusterSpec, index: int, missing: int
) -> ClusterSpec:
    """The declaration of what is missing alone: as many machines of that entry, for what the cap
    leaves, and for as long as the rest has.
    """
    entry = spec.ask.entries[index]
    cap = spec.ask.max_price_micro_usd
    if cap is not None:
        nodes, now = record.placement.nodes, record.price.micro_usd
        # Without a price of the rest, each machine may cost its share of the cap.
        spent = (cap if now is None else now) * (nodes - missing) // nodes
        cap = max(1, cap - spent)
    left_s = (
        None
        if ttl(spec, index) is None
        else max(_LEAST_S, int((record.ends_at or 0.0) - world.clock.now()))
    )
    entries = (entry._replace(nodes=missing, ttl_s=left_s),)
    ask = spec.ask._replace(entries=entries, max_price_micro_usd=cap, providers=(record.provider,))
    return spec._replace(ask=ask, setup=spec.setup._replace(ttl_s=left_s))


def _paid(
    world: World, spec: ClusterSpec, record: ClusterRecord, candidate: Candidate, missing: int
) -> bool:
    """Whether the stack can pay for the whole, the rest and what is added,
    as long as it may live.
    """
    assert spec.budget is not None
    now = world.clock.now()
    nodes, rest = record.placement.nodes, record.price.micro_usd
    price = (
        None
        if rest is None or candidate.micro_usd is None
        else rest * (nodes - missing) // nodes + candidate.micro_usd
    )
    limit_s = int(record.ends_at - now) if record.ends_at else None
    return spec.budget.fits(candidate._replace(micro_usd=price), limit_s, now, spec.cluster)


def _near(
    candidates: Sequence[Candidate], record: ClusterRecord, *, zones: bool
) -> tuple[Candidate, ...]:
    """Those of the rest's own zone; after them, with `zones`, those of its region's others."""
    place = record.placement
    alike = [
        each
        for each in candidates
        if each.placement._replace(zone=place.zone, nodes=place.nodes) == place
    ]
    same = [_here(each, record) for each in alike if each.zone in ("", place.zone)]
    others = [each for each in alike if each.zone != place.zone] if zones and place.zone else []
    return (*same, *others)


def _here(candidate: Candidate, record: ClusterRecord) -> Candidate:
    """In the zone of the rest, where the catalog names the region alone."""
    return candidate._replace(offer=candidate.offer._replace(zone=record.placement.zone))
