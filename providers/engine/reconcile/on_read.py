"""The read column of `steps.STEPS`: what a refresh reports and writes down of each condition.

Each function gets what was observed and returns the record that the state keeps; None drops the
cluster from it. Nothing is bought, changed or deleted at a cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.messages import LIMIT, rerun_command, why_ended
from providers.engine.reconcile.lost_place import block_lost_place
from providers.engine.reconcile.status import drift_does
from providers.engine.record import kept_stopped, runs_on
from providers.model.machine import ENDED, FAILED, GONE
from providers.model.money import per_hour

if TYPE_CHECKING:
    from providers.engine.reconcile.condition import Classified
    from providers.engine.reconcile.observe import Observation
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Node


class ReadCase(NamedTuple):
    """`before` is the state's record, `observation` what was asked, `classified` what it means."""

    world: World
    before: ClusterRecord
    observation: Observation
    classified: Classified
    on_loss: str

    @property
    def after(self) -> ClusterRecord:
        """The record as it was observed."""
        return self.classified.record

    def report(self, level: str, text: str) -> None:
        """One line of this cluster."""
        self.world.report(level, f"{self.before.cluster}: {text}")

    def released(self) -> None:
        """Notes in the journal that nothing of this generation exists any more."""
        self.world.journal.release(
            self.world.name,
            self.before.owner,
            self.before.cluster,
            self.before.generation,
            self.world.clock.now(),
        )


def as_observed(case: ReadCase) -> ClusterRecord:
    """Nothing to say besides what the record says."""
    return case.after


def queued(case: ReadCase) -> ClusterRecord:
    """Notes how far the order is."""
    if case.observation.ticket is not None:
        case.world.journal.note(case.observation.ticket, case.world.clock.now())
    return case.after


def outdated(case: ReadCase) -> ClusterRecord:
    """Says what of the service is not as declared."""
    case.report("warning", case.after.reasons[0])
    return case.after


def drifted(case: ReadCase) -> ClusterRecord:
    """Says which property differs."""
    case.report("warning", f"{case.after.detail}; {drift_does(case.on_loss)}")
    return case.after


def degraded(case: ReadCase) -> ClusterRecord:
    """Says how many are left, and what `on_loss` does about it."""
    left_so = f"degraded: {case.after.detail}; `on_loss: report` leaves it so"
    case.report("warning", case.after.reasons[0] if case.after.reasons else left_so)
    return case.after


def preempted(case: ReadCase) -> ClusterRecord:
    """Blocks the place."""
    owned = case.world.manifests[case.before.provider].capabilities.owned
    # Nobody takes a machine of one's own back.
    what = "it was lost" if owned else f"{case.before.provider} took it back"
    case.report("warning", f"{what}{_because(case.after)}; the next `up` replaces it")
    block_lost_place(case.world, case.before)
    return case.after


def stays_so(case: ReadCase) -> ClusterRecord:
    """Says that no `up` does anything about it, and what the user can do."""
    after = case.after
    if case.before.kind == "machine" and not kept_stopped(case.before):
        case.report(
            "warning",
            f"{after.status}{_because(after)}; it stays so: start it at its cloud, or"
            f" {rerun_command(case.before.cluster)} gets a new one",
        )
    return after


def ended(case: ReadCase) -> ClusterRecord:
    """Notes once why it ended."""
    if case.before.status != ENDED:
        journal, before = case.world.journal, case.before
        now = case.world.clock.now()
        why = why_ended(before, case.after.detail, now, journal.ended_why(before))
        journal.concluded(before, ENDED, why)
        case.report("info", f"ended by its own limit{_because(case.after)}")
        _over(case)
    return case.after


def done(case: ReadCase) -> ClusterRecord:
    """Notes once how the job ended."""
    before, after, nodes = case.before, case.after, case.observation.nodes
    if before.status == after.status:
        return after
    if after.status == FAILED:
        why = next((node.detail for node in nodes if node.detail), "no reason given")
        case.report(
            "warning", f"the job failed: {why}; {rerun_command(before.cluster)} starts a new one"
        )
        return after
    detail = next((f" ({node.detail})" for node in nodes if node.detail), "")
    if all(node.status == GONE for node in nodes):
        detail = f": {LIMIT}"
        case.world.journal.concluded(before, ENDED, LIMIT)
    case.report("info", f"the job is done{detail}")
    _over(case)
    return after


def gone(case: ReadCase) -> None:
    """Blocks the place, and drops the cluster: what another run left is adopted by the next create,
    or cleared away by it.
    """
    if case.before.status == GONE:
        return
    ends = "; ".join(_end(node) for node in case.observation.nodes) or "all of it is gone"
    case.report("warning", ends)
    block_lost_place(case.world, case.before)
    case.released()


def waits(case: ReadCase) -> ClusterRecord:
    """Says until when it waits, and who goes on looking."""
    case.report("info", f"{case.after.status}: {case.after.detail}")
    return case.after


def moved(case: ReadCase) -> ClusterRecord:
    """Takes the new placement for the cluster's; what remains of the previous one must go."""
    world, before, after = case.world, case.before, case.after
    if all(node.status == GONE for node in case.observation.nodes):
        world.journal.release(
            world.name,
            before.owner,
            before.cluster,
            before.generation,
            world.clock.now(),
            before.handles,
        )
    world.journal.launched(after)
    case.report(
        "info",
        f"a run that was cut short had placed it in {after.placement.where}; that is where it"
        " is now",
    )
    return after


def _over(case: ReadCase) -> None:
    """Notes what goes on being billed of a cluster that has ended."""
    world, before, after = case.world, case.before, case.after
    if not after.machines and not case.observation.extra:
        case.released()
    elif runs_on(after, world.manifests[before.provider].programs.ends_itself):
        case.report("info", f"its machine runs on, at {per_hour(before.price.micro_usd)}")
    else:
        world.journal.stopped(before, world.clock.now())


def _because(record: ClusterRecord) -> str:
    """` (outbid)`: what the cloud says of the status, if that is more than the status."""
    return f" ({record.detail})" if record.detail and record.detail != record.status else ""


def _end(node: Node) -> str:
    """What became of a machine that is not there any more."""
    if not node.detail:
        return f"{node.handle.native_id} is gone"
    named = node.handle.native_id.rsplit("/", 1)[-1]
    return f"{named} ({node.zone or node.region}) is gone: {node.detail}"
