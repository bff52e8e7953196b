"""The update column of `steps.STEPS`: what an `up` does about each condition, under the same id.

Each function gets what was observed and the declaration, and returns the record of what there is
then; with `reasons` while something is still to be done. Runs under the cluster's lease. What a
step calls is imported when it is taken: a preview reads the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.messages import why_ended
from providers.engine.reconcile import drift
from providers.engine.reconcile.condition import (
    NOTHING_YET,
    Classified,
    Condition,
    classify,
    condition_of,
)
from providers.engine.reconcile.lost_place import block_lost_place
from providers.engine.reconcile.status import REPLACE_NODE, REPORT
from providers.engine.record import UNTOLD, to_release
from providers.errors import GpusError
from providers.model.machine import DRIFTED, ENDED, STOPPED
from providers.planner.check import satisfied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from providers.engine.desired import ClusterSpec
    from providers.engine.reconcile.observe import Observation
    from providers.engine.reconcile.on_workload import WorkloadCase, WorkloadEdit
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World


class UpdateCase(NamedTuple):
    """`before` is the record with everything in `leftovers` that must go besides; `classified`
    leaves that out. `spec` is the declaration.
    """

    world: World
    before: ClusterRecord
    observation: Observation
    classified: Classified
    spec: ClusterSpec
    stop: StopSignal
    follow: Callable[[UpdateCase], Awaitable[ClusterRecord]]
    """Does what the row of a case's condition says."""
    another: Callable[[WorkloadCase], WorkloadEdit]
    """What a record's row says of another workload."""

    @property
    def after(self) -> ClusterRecord:
        """The record as it was observed."""
        return self.classified.record

    @property
    def stops(self) -> bool:
        """Whether the declaration has it stopped."""
        return self.spec.setup.state == STOPPED

    def report(self, level: str, text: str) -> None:
        """One line of this cluster."""
        self.world.report(level, f"{self.before.cluster}: {text}")

    def became(self, after: ClusterRecord) -> UpdateCase:
        """The case with another record, at the condition that this one shows."""
        return self._replace(classified=Classified(condition_of(after), after))


async def keep(case: UpdateCase) -> ClusterRecord:
    """Releases what must go besides, and edits in place what changed of the declaration."""
    from providers.engine.reconcile.edit import edit

    if (stuck := await _release_leftovers(case)) is not None:
        return stuck
    before, after, spec = case.before, case.after, case.spec
    if spec.ask.replicated:
        after = await _replicas(case)
        if after.reasons:
            return after
    entry = satisfied(spec.ask, drift.as_bought(after).placement)
    if entry is None:
        place = before.placement
        raise GpusError(
            f"{before.cluster}: {place.gpu} x {place.nodes} {place.capacity} in {place.region} no"
            " longer satisfies the declaration; it has to be replaced"
        )
    after = after._replace(entry=entry, fingerprint=spec.fingerprint)
    return await edit(case.world, after, spec, case.another, case.stop)


async def wait(case: UpdateCase) -> ClusterRecord:
    """Waits on in the cloud's queue."""
    _refuse_stop(case)
    return case.after


async def redeploy(case: UpdateCase) -> ClusterRecord:
    """Redeploys the service in place."""
    drifted = next(node.drift for node in case.after.machines if node.drift)
    case.report("warning", f"{drifted}; redeploying it")
    # What was written last is not there any more: it is written again.
    applied = tuple(pair for pair in case.after.applied if pair[0] != "service")
    after = case.after._replace(reasons=(), applied=applied)
    return await keep(case._replace(classified=case.classified._replace(record=after)))


async def accept_drift(case: UpdateCase) -> ClusterRecord:
    """Keeps the machine as it is now where it serves the declaration, or is only reported; else
    replaces it.
    """
    world, before, after = case.world, case.before, case.after
    if satisfied(case.spec.ask, after.placement) is not None:
        case.report(
            "info",
            f"{drift.text(after)}; it serves the declaration, and is kept as it is now",
        )
        accepted = await drift.priced(world, before, after)
        accepted = accepted._replace(bought=(), detail="")
        world.journal.launched(accepted)
        return await case.follow(case.became(accepted))
    if case.spec.setup.on_loss == REPORT or case.stops:
        after = await drift.priced(world, before, after)
        return await keep(case._replace(classified=case.classified._replace(record=after)))
    after = after._replace(reasons=(drift.text(after),))
    return await replace(case._replace(classified=case.classified._replace(record=after)))


async def repair(case: UpdateCase) -> ClusterRecord:
    """Does what the declaration's `on_loss` says about machines that are lost."""
    from providers.engine.reconcile.rejoin import rejoin

    on_loss = case.spec.setup.on_loss
    if on_loss == REPORT or case.spec.ask.replicated:
        return await keep(case)
    _refuse_stop(case)
    if on_loss == REPLACE_NODE:
        repaired = await rejoin(case.world, case.before, case.spec, case.after, case.stop)
        if repaired is not None:
            return repaired
        case.report(
            "warning",
            f"{case.before.provider} sells nothing more beside the rest of it, so all of it is"
            " bought again",
        )
    if any(node.status == DRIFTED for node in case.after.machines):
        return await replace(case)
    return await replace_lost(case)


async def replace_lost(case: UpdateCase) -> ClusterRecord:
    """Blocks the place, deletes what is left of it, and acquires another placement."""
    _refuse_stop(case)
    block_lost_place(case.world, case.before)
    return await replace(case)


async def replace(case: UpdateCase) -> ClusterRecord:
    """Deletes what is left of it, and acquires another placement."""
    from providers.engine.reconcile.relocate import place_anew

    _refuse_stop(case)
    return await place_anew(case.world, case.before, case.spec, _why(case), case.stop)


async def look_again(case: UpdateCase) -> ClusterRecord:
    """Asks the places that may have room by now, and acquires the first that has."""
    from providers.engine.launch.search import look_again as again
    from providers.engine.reconcile.relocate import unless_abandoned

    _refuse_stop(case)
    if (stuck := await _release_leftovers(case)) is not None:
        return stuck
    after = await again(case.world, case.after, case.spec, case.stop)
    return await unless_abandoned(case.world, after, case.stop)


async def start_or_replace(case: UpdateCase) -> ClusterRecord:
    """Takes it for stopped where the declaration has it stopped by now; else replaces it."""
    return await (rest(case) if case.stops else replace(case))


async def rest(case: UpdateCase) -> ClusterRecord:
    """Releases what must go besides; stays stopped, or is started again where it is."""
    from providers.engine.reconcile.edit import edit

    if (stuck := await _release_leftovers(case)) is not None:
        return stuck
    return await edit(case.world, case.after, case.spec, case.another, case.stop)


async def end(case: UpdateCase) -> ClusterRecord:
    """Stays ended: nothing is bought. Releases what is left of machines that need not stay."""
    from providers.engine.reconcile.relocate import release_ended

    if (stuck := await _release_leftovers(case)) is not None:
        return stuck
    world, before, after, setup = case.world, case.before, case.after, case.spec.setup
    if after.status == ENDED and before.status != ENDED and before.kind != "job":
        why = world.journal.ended_why(before)
        why = why_ended(before, after.detail, world.clock.now(), why)
        world.journal.concluded(before, ENDED, why)
    powered_off = (
        bool(after.machines)
        and bool(setup.idle_s)
        and setup.on_ttl == "release"
        and before.kind == "machine"
    )
    if not (powered_off or to_release(after)):
        return after._replace(reasons=())
    return await release_ended(world, before, after, saves=not powered_off)


async def take_over(case: UpdateCase) -> ClusterRecord:
    """Keeps the placement that a run which was cut short left, and releases the rest; where that
    one does not satisfy the declaration, does what its own condition says.
    """
    from providers.engine.reconcile.adopt import exchange

    found = case.classified.found
    other = None if found is None else serving(case.spec, found.record)
    observation = case.observation._replace(extra=(), foreign=(), orders=(), ended_why="")
    if other is not None:
        kept = await exchange(case.world, case.before, other)
        if kept.reasons:
            return kept
        case = case._replace(before=kept)
        observation = observation._replace(nodes=kept.machines)
    now, on_loss = case.world.clock.now(), case.spec.setup.on_loss
    classified = classify(case.before._replace(leftovers=()), observation, now, on_loss)
    return await case.follow(case._replace(classified=classified))


def serving(spec: ClusterSpec, record: ClusterRecord) -> ClusterRecord | None:
    """The record at the choice of the declaration that it satisfies; None where it does not."""
    entry = satisfied(spec.ask, record.placement)
    return None if entry is None else record._replace(entry=entry, fingerprint=spec.fingerprint)


async def _replicas(case: UpdateCase) -> ClusterRecord:
    """As many replicas as are declared, each told of all; those that serve go on."""
    from providers.engine.reconcile.replicas import resized, shared

    after = await resized(case.world, case.before, case.spec, case.after, case.stop)
    others = after.handles != case.before.handles or case.classified.joined is not None
    if after.reasons or not (others or UNTOLD in dict(after.applied)):
        return after
    return await shared(case.world, after)


async def _release_leftovers(case: UpdateCase) -> ClusterRecord | None:
    """Deletes what must go besides; the record that says so where that is not certain."""
    from providers.engine.termination.end import release_all, stuck

    world, before = case.world, case.before
    if not before.leftovers:
        return None
    left = await release_all(world, before, before.leftovers, keep=before.handles)
    if not left.clean:
        return stuck(case.after, left)
    world.journal.release(
        world.name, before.owner, before.cluster, "", world.clock.now(), before.leftovers
    )
    return None


def _refuse_stop(case: UpdateCase) -> None:
    """Raises GpusError where the declaration has it stopped, and it is lost, failed or not there
    yet.
    """
    failed = case.classified.condition is Condition.FAILED
    if case.stops and (case.after.reasons or failed or not _there(case)):
        raise GpusError(
            f"{case.before.cluster}: wanted it stopped, found it {_found(case)}; set state: running"
            " to have it bought again, or destroy it"
        )


def _there(case: UpdateCase) -> bool:
    absent = {Condition.GONE, Condition.UNSETTLED} | NOTHING_YET
    return case.classified.condition not in absent


def _found(case: UpdateCase) -> str:
    if _there(case):
        return ": ".join((case.after.status, *case.after.reasons[:1]))
    return "never acquired" if case.classified.condition in NOTHING_YET else "gone"


def _why(case: UpdateCase) -> str:
    """Why it is placed again."""
    if not _there(case):
        return "all of it is gone"
    return case.after.reasons[0] if case.after.reasons else f"it is {case.after.status}"
