"""Making good what was lost of several machines: others in the same place, beside the rest, bought
as an order that says which ones it joins.

Owns where such an order may go (the same provider, zone, machine type and kind of capacity; nowhere
else), what it may cost (what the cap leaves beside the rest) and how long its machines live (as
long as the rest). Runs under the cluster's lease.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.engine.desired import ClusterSpec, limit_of, ttl
from providers.engine.journal import orders as order_table
from providers.engine.launch.result import ACQUIRED, WAITING_ON, LaunchResult
from providers.engine.launch.walk import acquire
from providers.engine.market.collect import market
from providers.engine.market.planning import presentable
from providers.engine.reconcile import placements
from providers.engine.record import HEALTHY, UNSETTLED, ClusterRecord
from providers.engine.runtime.accounts import home_of
from providers.engine.termination.end import release_all, stuck
from providers.engine.termination.settle import abandon
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
    world: World, held: ClusterRecord, wanted: ClusterSpec, after: ClusterRecord, brake: StopSignal
) -> ClusterRecord | None:
    """Gets what is missing in the place of the rest. What is left of the lost ones is deleted
    first, confirmed.

    None: nothing can be added there at all (the rest no longer satisfies the declaration, or
    nothing of the kind is on sale there), so that the whole has to be placed anew. Returns with
    `reasons`, still degraded, while there is no room: the rest goes on, and the next update asks
    again.
    """
    well = [node for node in after.machines if node.status in HEALTHY]
    rest = tuple(node.handle for node in well)
    index = satisfied(wanted.ask, held)
    if index is None or await home_of(world, held) is not await world.call(
        held.provider, world.adapter, held.provider
    ):
        return None
    missing = held.nodes - len(well)
    part = _part(world, held, wanted, index, missing)
    on_sale = await world.call("", market, world, part.ask)
    # Where one was taken back just now there may be room all the same: asking costs nothing.
    plan = presentable(on_sale.plan(part.ask, setup=part.setup), held.cluster)
    here = tuple(_here(candidate, held) for candidate in plan.candidates if _same(candidate, held))
    if not here:
        return None
    if wanted.budget is not None and not (
        fit := tuple(
            candidate for candidate in here if _paid(world, wanted, held, candidate, missing)
        )
    ):
        short = Plan(plan.terms, here, plan.kept, plan.refused, plan.warnings)
        raise wanted.budget.refusal(part.cluster, short, partial(limit_of, part), world.clock.now())
    here = fit if wanted.budget is not None else here
    left = await release_all(
        world,
        held,
        [handle for handle in (*held.handles, *held.leftovers) if handle not in rest],
        keep=rest,
    )
    if not left.clean:
        return stuck(after, left)
    lost = [handle for handle in held.handles if handle not in rest]
    world.journal.forget(
        world.name, held.owner, held.cluster, held.generation, lost, world.clock.now()
    )
    what = f"{missing} of {held.nodes} machines"
    world.report(
        "info",
        f"{held.cluster}: {what} lost; asking for as many in {held.zone or held.region}, beside the"
        " rest",
    )
    try:
        narrowed = Plan(plan.terms, here, plan.kept, plan.refused, plan.warnings)
        outcome = await acquire(
            world, narrowed, part, held.generation, stop=brake, keep=rest, joins=rest
        )
    except AllFailed as failed:
        why = next(
            (attempt.message for attempt in reversed(failed.attempts)), "no place is left to try"
        )
        reason = (
            f"degraded: {len(well)} of {held.nodes} machines are left, and"
            f" {held.zone or held.region} has no further one now ({why}); the next `up` asks again,"
            " `on_loss: replace-all` places all of it anew"
        )
        return after._replace(
            handles=rest, leftovers=(), reasons=(reason,), attempts=failed.attempts
        )
    return await _added(world, after._replace(handles=rest, leftovers=()), outcome, well, brake)


async def _added(
    world: World,
    after: ClusterRecord,
    outcome: LaunchResult,
    well: Sequence[Node],
    brake: StopSignal,
) -> ClusterRecord:
    if outcome.state == WAITING_ON:
        left = await abandon(
            world,
            await world.call(after.provider, world.adapter, after.provider),
            outcome.order,
            None,
            after.handles,
        )
        if not left.clean:
            return stuck(after, left)
        world.journal.settled(
            outcome.order.token, order_table.RELEASED, world.clock.now(), "taken out of the queue"
        )
        return after._replace(attempts=outcome.attempts)
    if outcome.state != ACQUIRED:
        return after._replace(
            status=UNSETTLED,
            attempts=outcome.attempts,
            reasons=outcome.reasons,
            leftovers=(*outcome.handles, *outcome.leftovers),
        )
    if brake.abandoned:
        left = await release_all(world, after, outcome.handles, keep=after.handles)
        return after if left.clean else stuck(after, left)
    whole = placements.whole(after, well, outcome.nodes, outcome.placed.micro_usd)
    whole = whole._replace(
        attempts=outcome.attempts, leftovers=outcome.leftovers, reasons=outcome.reasons
    )
    world.journal.launched(whole)
    return whole


def _part(
    world: World, held: ClusterRecord, wanted: ClusterSpec, index: int, missing: int
) -> ClusterSpec:
    """The declaration of what is missing alone: as many machines of that entry, for what the cap
    leaves, and for as long as the rest has.
    """
    entry = wanted.ask.entries[index]
    cap = wanted.ask.max_price_micro_usd
    if cap is not None:
        well = held.nodes - missing
        # Without a price of the rest, each machine may cost its share of the cap.
        spent = (
            cap * well // held.nodes
            if held.micro_usd is None
            else held.micro_usd * well // held.nodes
        )
        cap = max(1, cap - spent)
    left_s = (
        None
        if ttl(wanted, index) is None
        else max(_LEAST_S, int((held.ends_at or 0.0) - world.clock.now()))
    )
    entries = (entry._replace(nodes=missing, ttl_s=left_s),)
    ask = wanted.ask._replace(entries=entries, max_price_micro_usd=cap, providers=(held.provider,))
    return wanted._replace(ask=ask, setup=wanted.setup._replace(ttl_s=left_s))


def _paid(
    world: World, wanted: ClusterSpec, held: ClusterRecord, candidate: Candidate, missing: int
) -> bool:
    """Whether the stack can pay for the whole, the rest and what is added, as long as it may live."""
    assert wanted.budget is not None
    now = world.clock.now()
    rest = None if held.micro_usd is None else held.micro_usd * (held.nodes - missing) // held.nodes
    price = None if rest is None or candidate.micro_usd is None else rest + candidate.micro_usd
    limit_s = int(held.ends_at - now) if held.ends_at else None
    return wanted.budget.fits(candidate._replace(micro_usd=price), limit_s, now, wanted.cluster)


def _same(candidate: Candidate, held: ClusterRecord) -> bool:
    offer = candidate.offer
    found = (
        offer.provider,
        offer.region,
        offer.machine_type,
        offer.gpu_type,
        candidate.gpu_count,
        offer.capacity,
        candidate.reservation,
    )
    kind = (
        held.provider,
        held.region,
        held.machine_type,
        held.gpu_type,
        held.gpu_count,
        held.capacity,
        held.reservation,
    )
    return found == kind and offer.zone in ("", held.zone)


def _here(candidate: Candidate, held: ClusterRecord) -> Candidate:
    """In the zone of the rest, where the catalog names the region alone."""
    return candidate._replace(offer=candidate.offer._replace(zone=held.zone))
