"""The conditions that a cluster can be in, and how observation and record give one. Pure.

`condition_of` reads only a record (a preview works from the state's); `classify` takes what was
observed besides. What follows from a condition stands in `steps.STEPS`, one row a condition. That
something must be released besides (`leftovers`, orphans) is no condition: it holds beside any.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.reconcile import drift
from providers.engine.reconcile.placements import Replacement, joined, replacement
from providers.engine.reconcile.status import REPLACE_ALL, with_status
from providers.engine.record import (
    DEGRADED,
    GAVE_UP,
    SEARCHING,
    UNSETTLED,
    WAITING,
    ClusterRecord,
    finished,
    kept_stopped,
)
from providers.model.machine import (
    ENDED,
    FAILED,
    GONE,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
)

if TYPE_CHECKING:
    from providers.engine.reconcile.observe import Observation
    from providers.model.machine import Node


class Condition(StrEnum):
    """What a cluster is, taken together. See `steps.STEPS` for what follows from each."""

    HEALTHY = "healthy"
    QUEUED = "queued"
    OUTDATED = "outdated"
    """A provider's own service that is not deployed as it was declared."""
    DRIFTED = "drifted"
    """Its machines run, and somebody changed what was bought."""
    DEGRADED = "degraded"
    """Some of several machines are lost."""
    PREEMPTED = "preempted"
    FAILED = "failed"
    STOPPING = "stopping"
    HALTED = "halted"
    """Stopped, though the declaration has it running."""
    STOPPED = "stopped"
    """Stopped because the declaration says so."""
    ENDED = "ended"
    """By its own limit."""
    DONE = "done"
    """A job that has ended, successfully or not."""
    GONE = "gone"
    MOVED = "moved"
    """Lost, and a run that was cut short has placed it again elsewhere."""
    WAITING = "waiting"
    """Every place is sold out, and they are asked again."""
    GAVE_UP = "gave-up"
    """The time for that is over."""
    UNSETTLED = "unsettled"
    """Its machines are gone or not known, and something of it may still exist."""


_BY_STATUS = {
    PENDING: Condition.HEALTHY,
    STARTING: Condition.HEALTHY,
    RUNNING: Condition.HEALTHY,
    QUEUED: Condition.QUEUED,
    DEGRADED: Condition.DEGRADED,
    PREEMPTED: Condition.PREEMPTED,
    FAILED: Condition.FAILED,
    STOPPING: Condition.STOPPING,
    STOPPED: Condition.HALTED,
    ENDED: Condition.ENDED,
    GONE: Condition.GONE,
    WAITING: Condition.WAITING,
    GAVE_UP: Condition.GAVE_UP,
    UNSETTLED: Condition.UNSETTLED,
}
LOST = frozenset(
    {
        Condition.PREEMPTED,
        Condition.DEGRADED,
        Condition.FAILED,
        Condition.STOPPING,
        Condition.GONE,
    }
)
"""Where a whole placement among the orphans is taken over instead."""
OVER = frozenset({Condition.ENDED, Condition.DONE})
"""It has ended as it should: no other placement is bought instead."""
NOTHING_YET = frozenset({Condition.WAITING, Condition.GAVE_UP})
"""It was never acquired."""
AT_REST = OVER | NOTHING_YET | {Condition.HALTED, Condition.STOPPED}
"""Nothing runs that a preferred place could replace: it is over, stopped and kept, or was never
acquired.
"""


class Classified(NamedTuple):
    """A condition, and the record that goes with it.

    `orphans` are machines of the cluster that no state names and that must go. `joined` is set
    where a run that was cut short had already bought what was lost: the whole record. `found` is a
    whole placement among the orphans; in MOVED, `record` stands at it.
    """

    condition: Condition
    record: ClusterRecord
    orphans: tuple[Node, ...] = ()
    joined: ClusterRecord | None = None
    found: Replacement | None = None


def condition_of(record: ClusterRecord) -> Condition:
    """The condition that a record shows. One of a status that is not known here is unsettled."""
    if finished(record):
        return Condition.DONE
    if drift.acts(record):
        return Condition.DRIFTED
    if record.status in (STOPPED, STOPPING) and kept_stopped(record):
        return Condition.STOPPED
    condition = _BY_STATUS.get(record.status, Condition.UNSETTLED)
    if condition is Condition.HEALTHY and any(node.drift for node in record.machines):
        return Condition.OUTDATED
    return condition


def classify(
    record: ClusterRecord, observation: Observation, now: float, on_loss: str = REPLACE_ALL
) -> Classified:
    """What the cluster is after this observation, with the record that says so.

    `on_loss` is the declaration's: with `report`, a partial loss leaves no reason to act.
    """
    if not observation.complete:
        if record.status in SEARCHING or (record.status == GONE and not observation.pending):
            return Classified(condition_of(record), record)
        queued = record.status == QUEUED
        return Classified(Condition.QUEUED if queued else Condition.UNSETTLED, record)
    leftovers = observation.leftovers
    before = record._replace(leftovers=leftovers, reasons=record.reasons if leftovers else ())
    after = with_status(before, observation.nodes, now, on_loss)
    extra, whole = observation.extra, None
    if after is not None and after.status == DEGRADED:
        whole = joined(before, after, extra, observation.made)
    if whole is not None:
        extra = tuple(node for node in extra if node.handle not in whole.handles)
        before, after = whole, with_status(whole, whole.machines, now, on_loss)
    if after is None and not extra and observation.ended_why:
        why = observation.ended_why
        after = before._replace(status=ENDED, machines=(), reasons=(), detail=why)
    if after is not None and leftovers and not after.reasons and whole is None:
        after = after._replace(reasons=before.reasons)
    condition = Condition.GONE if after is None else condition_of(after)
    found = replacement(before, extra, observation.orders, now) if extra else None
    lost = condition in LOST and (after is None or not kept_stopped(before))
    if found is not None and lost:
        return _moved(observation, extra, found, now)
    orphans = (*extra, *observation.foreign)
    if after is None and record.status in SEARCHING and not leftovers:
        return Classified(condition_of(record), record, orphans)
    if after is None and not leftovers and not extra and not observation.lost:
        return Classified(condition, before._replace(status=GONE, machines=(), reasons=()))
    if after is None:
        # What it was is gone, and something is left that must go.
        after, condition = before._replace(status=UNSETTLED, machines=()), Condition.UNSETTLED
    return Classified(condition, after, orphans, whole, found)


def _moved(
    observation: Observation, extra: tuple[Node, ...], found: Replacement, now: float
) -> Classified:
    there = found.record
    others = (*observation.nodes, *extra, *observation.foreign)
    orphans = tuple(
        node for node in others if node.status != GONE and node.handle not in there.handles
    )
    after = with_status(there, there.machines, now) or there
    return Classified(Condition.MOVED, after, orphans, None, found)
