"""Reads a cluster: observes it, classifies it, and does what its condition's row says of a read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.messages import trimmed
from providers.engine.reconcile import drift
from providers.engine.reconcile.adopt import priced_replacement
from providers.engine.reconcile.condition import Classified, Condition, classify
from providers.engine.reconcile.observe import observe
from providers.engine.reconcile.on_read import ReadCase
from providers.engine.reconcile.orphans import taken_over_message, with_orphans
from providers.engine.reconcile.steps import STEPS
from providers.engine.record import finished, to_release
from providers.engine.termination.lost import with_lost

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World


async def read_cluster(world: World, record: ClusterRecord, on_loss: str) -> ClusterRecord | None:
    """The record as it is now; None: all of it is gone. Raises CloudErrors: then nothing is known.

    A search for orphans that fails is a warning only, while the cluster itself is there for sure.
    """
    observation = await observe(world, record)
    classified = classify(record, observation, world.clock.now(), on_loss)
    if observation.search_error is not None:
        if classified.condition in (Condition.GONE, Condition.UNSETTLED):
            raise observation.search_error
        world.report(
            "warning",
            f"{record.cluster}: whether anything else carries its label could not be looked up:"
            f" {trimmed(observation.search_error)}",
        )
    before = record._replace(leftovers=observation.leftovers)
    if classified.joined is not None:
        before = note_joined(world, before, classified.joined)
    classified = await _priced(world, record, classified)
    case = ReadCase(world, before, observation, classified, on_loss)
    after = STEPS[classified.condition].read(case)
    return None if after is None else _with_what_must_go(case, after)


def note_joined(world: World, record: ClusterRecord, whole: ClusterRecord) -> ClusterRecord:
    """Takes what an interrupted run bought beside the rest for the cluster's own."""
    new = [node.name for node in whole.machines if node.handle not in record.handles]
    world.report(
        "info",
        f"{record.cluster}: a run that was cut short had replaced what was lost; {', '.join(new)}"
        " is kept",
    )
    world.journal.launched(whole)
    return whole


async def _priced(world: World, record: ClusterRecord, classified: Classified) -> Classified:
    if classified.condition is not Condition.MOVED:
        after = await drift.priced(world, record, classified.record)
        return classified._replace(record=after)
    assert classified.found is not None
    found = await priced_replacement(world, classified.found)
    return classified._replace(record=classified.record._replace(price=found.price))


def _with_what_must_go(case: ReadCase, after: ClusterRecord) -> ClusterRecord:
    """The record with what the next update has to release or to label, and why."""
    world, before = case.world, case.before
    if to_release(after):
        # A job that is done well has no reason, which Pulumi would show as an unhealthy state. That
        # something is left to do stands in the record.
        done = f"done ({_ended_with(after)}); " if finished(before) else ""
        case.report("info", f"{done}what is left of its machine is released by the next `up`")
        after = after._replace(to_release=True)
    taken = [node for node in after.machines if not node.is_labelled(before.generation)]
    if taken and world.manifests[before.provider].capabilities.relabels:
        after = after._replace(reasons=(*after.reasons, taken_over_message(taken)))
    for each in case.observation.lost:
        case.report("warning", f"{each.reason}; the next run looks for it again")
    if not after.reasons:
        after = with_lost(after, case.observation.lost)
    known = after.leftovers
    return with_orphans(
        after, [node for node in case.classified.orphans if node.handle not in known]
    )


def _ended_with(record: ClusterRecord) -> str:
    details = (node.detail for node in record.machines if node.detail)
    return record.detail or next(details, record.status)
