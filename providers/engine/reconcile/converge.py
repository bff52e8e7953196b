"""Converges a cluster to its declaration under the same id: settles what interrupted runs left,
observes, classifies, and does what the condition's row says of an update.

Everything runs under the cluster's lease, which the caller holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.launch.pending import by_race, ended
from providers.engine.launch.result import ACQUIRED, LaunchResult, launched
from providers.engine.reconcile.adopt import priced_replacement
from providers.engine.reconcile.condition import Classified, Condition, classify
from providers.engine.reconcile.observe import Observation, observe
from providers.engine.reconcile.on_update import UpdateCase, serving
from providers.engine.reconcile.orphans import unclaimed
from providers.engine.reconcile.read import note_joined
from providers.engine.reconcile.steps import STEPS, another_workload
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.lost import Lost, with_lost
from providers.model.machine import GONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.engine.desired import ClusterSpec
    from providers.engine.journal.orders import OrderRow
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle


async def converge(
    world: World,
    record: ClusterRecord,
    spec: ClusterSpec,
    stop: StopSignal,
    preferred: Callable[[ClusterRecord, ClusterRecord], bool] | None = None,
) -> tuple[ClusterRecord, bool]:
    """The record of what there is once it is as declared; placed anew if nothing usable is left.

    `preferred(record, found)` says whether a placement that a run left beside the present one is
    kept instead. The second value is True where it is. Raises as `Walk.run` does.
    """
    record, settled = await _settle_orders(world, record, spec, stop)
    if not settled:
        return record, False
    observation = await observe(world, record, updates=True)
    now, on_loss = world.clock.now(), spec.setup.on_loss
    classified = classify(record._replace(leftovers=()), observation, now, on_loss)
    before = _with_leftovers(world, record, observation)
    await _label(world, before, observation)
    if classified.joined is not None:
        whole = note_joined(world, before, classified.joined)
        rest = tuple(handle for handle in before.leftovers if handle not in whole.handles)
        before = whole._replace(leftovers=rest)
    found = classified.found
    if found is not None:
        found = found._replace(record=await priced_replacement(world, found))
        classified = classified._replace(found=found)
        if preferred is not None and _is_preferred(spec, before, classified, preferred):
            classified = classified._replace(condition=Condition.MOVED)
    stop.check(before.cluster)
    case = UpdateCase(world, before, observation, classified, spec, stop, _follow, another_workload)
    after = await _follow(case)
    return after, found is not None and after.handles == found.record.handles


async def _follow(case: UpdateCase) -> ClusterRecord:
    """Does what the row of the case's condition says."""
    return await STEPS[case.classified.condition].update(case)


async def _settle_orders(
    world: World, record: ClusterRecord, spec: ClusterSpec, stop: StopSignal
) -> tuple[ClusterRecord, bool]:
    """The record once every order of the cluster is settled; False where one is not, and waits in a
    queue or may have made something.
    """
    which = (world.name, record.owner, record.cluster, record.generation)
    pending = Observation(orders=world.journal.orders_of(*which)).pending
    lost: list[Lost] = []
    released = world.journal.orders(*which[:3], states=(order_table.RELEASED,))
    gone = {handle for row in released for handle in row.handles}

    def keep(row: OrderRow) -> tuple[Handle, ...]:
        return tuple(each for each in record.handles if each not in (*row.handles, *gone))

    for group in by_race(pending):
        for row, result in await ended(world, spec, group, stop, keep):
            if isinstance(result, Lost):
                lost.append(result)
            if not isinstance(result, LaunchResult):
                continue
            made = launched(world.name, spec, record.generation, result, world.clock.now())
            if result.state != ACQUIRED:
                kept = record._replace(
                    status=made.status, reasons=made.reasons, leftovers=made.leftovers
                )
                return (kept if keep(row) else made._replace(search=record.search)), False
            if not keep(row):
                record = made
                world.journal.launched(record)
            # Otherwise it is found among the orphans.
    return with_lost(record._replace(reasons=()) if lost else record, lost), not lost


def _with_leftovers(world: World, record: ClusterRecord, observation: Observation) -> ClusterRecord:
    """The record with everything besides that must go: its own leftovers, and orphans that no other
    resource of a state claims.
    """
    own = {node.handle: None for node in unclaimed(world, record, observation.foreign)}
    claimed = {node.handle for node in observation.foreign} - set(own)
    extra = (node.handle for node in observation.extra)
    return record._replace(
        leftovers=tuple(
            handle
            for handle in dict.fromkeys((*record.leftovers, *own, *extra))
            if handle not in claimed
        )
    )


async def _label(world: World, record: ClusterRecord, observation: Observation) -> None:
    """Writes the generation on machines of the state that another run has taken over meanwhile, or
    has left half-made: else no delete would take them for its own.
    """
    taken = [
        node.handle
        for node in observation.nodes
        if node.status != GONE and not node.is_labelled(record.generation)
    ]
    if not taken or not world.manifests[record.provider].capabilities.relabels:
        return
    adapter = await home_of(world, record)
    for handle in taken:
        await repeated(world, adapter.name, adapter.relabel, handle, record.generation)
        world.journal.adopt(
            world.name,
            record.owner,
            record.cluster,
            record.generation,
            [handle],
            world.clock.now(),
        )


def _is_preferred(
    spec: ClusterSpec,
    before: ClusterRecord,
    classified: Classified,
    preferred: Callable[[ClusterRecord, ClusterRecord], bool],
) -> bool:
    if classified.found is None or classified.record.reasons:
        return False
    if classified.condition in (Condition.GONE, Condition.UNSETTLED, Condition.MOVED):
        return False
    other = serving(spec, classified.found.record)
    return other is not None and preferred(before, other)
