"""Places a cluster elsewhere under the same id: if it is lost, or if another place is preferred.

Owns the order of it: what is lost is deleted before anything is bought, a healthy placement is
released only once the preferred one is there. Runs under the cluster's lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.launch.buy import walk
from providers.engine.launch.result import ACQUIRED, WAITING_ON, launched
from providers.engine.launch.search import buy_or_wait
from providers.engine.market.snapshot import fitting
from providers.engine.readiness import output
from providers.engine.reconcile.lost_both import emptied
from providers.engine.record import UNSETTLED, ClusterRecord
from providers.engine.runtime.accounts import adapter_of, home_of
from providers.engine.termination.end import release_all, stuck
from providers.engine.termination.settle import leave_queue
from providers.errors import AllFailed, GpusError, TakenOver
from providers.planner import rank

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.engine.desired import ClusterSpec
    from providers.engine.launch.result import LaunchResult
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle
    from providers.model.offer import Candidate


def prefers(spec: ClusterSpec, record: ClusterRecord, other: ClusterRecord | Candidate) -> bool:
    """Whether the declaration prefers the other placement, by what it ranks by."""
    return rank.prefers(spec.ask, record, other, fitting(spec.ask))


async def place_anew(
    world: World, record: ClusterRecord, spec: ClusterSpec, why: str, stop: StopSignal
) -> ClusterRecord:
    """Deletes what is left of it, confirmed, and buys again under the same generation: the id is
    the cluster's, not the machine's.
    """
    world.report("info", f"{record.cluster}: {why}; releasing what is left, then buying it again")
    left = await release_all(world, record, (*record.handles, *record.leftovers))
    if not left.clean:
        return stuck(record, left)
    _released(world, record)
    try:
        placed = await buy_or_wait(world, spec, record.generation, stop, record.search)
    except TakenOver:
        # What the cluster has by now is the other run's, and for its state to tell.
        raise
    except GpusError as error:
        raise emptied(record, spec, record.generation, error) from error
    return await unless_abandoned(world, placed, stop)


async def unless_abandoned(world: World, placed: ClusterRecord, stop: StopSignal) -> ClusterRecord:
    """What was bought. It is released if no one waits for it any more, since no state would name
    it.
    """
    if stop.abandoned and (await release_all(world, placed, placed.handles)).clean:
        _released(world, placed)
    return placed


async def release_ended(
    world: World, before: ClusterRecord, after: ClusterRecord, *, saves: bool
) -> ClusterRecord:
    """Deletes what is left of machines that have ended, after their output is saved where it is to
    be: some clouds only stop a machine that powered itself off, and bill its disks.
    """
    if saves:
        await output.save_output(world, await home_of(world, before), after)
    left = await release_all(world, before, before.handles)
    if not left.clean:
        return stuck(after, left)
    _released(world, before)
    if saves:
        world.report("info", f"{before.cluster}: the job is done; its machine is released")
    return after._replace(machines=(), reasons=())


async def upgrade_placement(
    world: World, record: ClusterRecord, spec: ClusterSpec, stop: StopSignal
) -> ClusterRecord:
    """Walks the places that the declaration prefers to the present one; once one of them is
    acquired, the present one is released.
    """
    try:
        result = await walk(
            world,
            spec,
            record.generation,
            stop,
            keep=record.handles,
            # A block is paid for long before it can be moved to.
            accept=lambda candidate: (
                candidate.offer.term is None and prefers(spec, record, candidate)
            ),
        )
    except AllFailed as failed:
        world.report(
            "warning",
            f"{record.cluster}: nothing preferred could be acquired, so the present one"
            f" stays\n{failed}",
        )
        return record._replace(attempts=failed.attempts)
    if result.state == WAITING_ON:
        return await _leave_queue(world, record, result)
    if (without := await left_without(world, record, result, stop)) is not None:
        return without
    new = launched(world.name, spec, record.generation, result, world.clock.now())
    return await release_previous(world, record, new, record.handles)


async def left_without(
    world: World, record: ClusterRecord, result: LaunchResult, stop: StopSignal
) -> ClusterRecord | None:
    """The record after a purchase that added nothing to what runs: it is not settled, or the run is
    over, so that it was released again. None where it is there to be used.
    """
    if result.state != ACQUIRED:
        return record._replace(
            status=UNSETTLED,
            attempts=result.attempts,
            reasons=result.reasons,
            leftovers=(*result.handles, *result.leftovers),
        )
    if stop.abandoned:
        left = await release_all(world, record, result.handles, keep=record.handles)
        return record if left.clean else stuck(record, left)
    return None


async def release_previous(
    world: World, record: ClusterRecord, new: ClusterRecord, handles: Collection[Handle]
) -> ClusterRecord:
    """Releases the previous placement, and writes the new one down; what could not be deleted is in
    its `leftovers` and `reasons`.
    """
    left = await release_all(world, record, handles, keep=new.handles)
    if left.clean:
        _released(world, record, record.handles)
    else:
        reason = (
            f"half-made: the previous placement could not be deleted:"
            f" {left.said(record.price.micro_usd)}"
        )
        new = new._replace(
            leftovers=(*new.leftovers, *left.handles), reasons=(*new.reasons, reason)
        )
    world.journal.launched(new)
    return new


async def _leave_queue(world: World, record: ClusterRecord, result: LaunchResult) -> ClusterRecord:
    adapter = await adapter_of(world, result.placed.provider)
    left = await leave_queue(world, adapter, result.order, None, record.handles)
    if not left.clean:
        return stuck(record, left)
    world.report(
        "warning",
        f"{record.cluster}: the preferred one would have to be waited for in a queue, so the"
        " present one stays",
    )
    return record


def _released(
    world: World, record: ClusterRecord, handles: Collection[Handle] | None = None
) -> None:
    world.journal.release(
        world.name, record.owner, record.cluster, record.generation, world.clock.now(), handles
    )
