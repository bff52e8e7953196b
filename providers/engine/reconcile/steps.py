"""What follows from each condition of a cluster: one table, one row a condition.

A refresh observes, classifies and takes the row's `read`; an `up` takes its `update`; a diff and a
preview print from the same row. To learn what happens on a spot loss, read the row PREEMPTED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.reconcile import on_preview, on_read, on_update, on_workload
from providers.engine.reconcile.condition import Condition, condition_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from providers.engine.reconcile.on_preview import DiffCase, Difference, PreviewCase
    from providers.engine.reconcile.on_read import ReadCase
    from providers.engine.reconcile.on_update import UpdateCase
    from providers.engine.reconcile.on_workload import WorkloadCase, WorkloadEdit
    from providers.engine.record import ClusterRecord


class Step(NamedTuple):
    """One row.

    `read` and `update` act (`update` only once a diff has reported a change); `preview` says what
    an `up` comes to that does not replace the cluster, `replaced` what one that does takes away,
    `replaces` whether a diff replaces it where no edit does, `workload` what becomes of another
    workload. `observed`, `records` and `next_up` are the same for people (see `as_markdown`).
    """

    read: Callable[[ReadCase], ClusterRecord | None]
    update: Callable[[UpdateCase], Awaitable[ClusterRecord]]
    preview: Callable[[PreviewCase], str]
    replaced: Callable[[PreviewCase], str]
    replaces: Callable[[DiffCase], Difference]
    workload: Callable[[WorkloadCase], WorkloadEdit]
    observed: str
    records: str
    next_up: str


STEPS = {
    Condition.HEALTHY: Step(
        read=on_read.as_observed,
        update=on_update.keep,
        preview=on_preview.stays,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.restarts,
        observed="runs, or is about to",
        records="status `pending`, `starting` or `running`",
        next_up="nothing; edits in place what you changed",
    ),
    Condition.QUEUED: Step(
        read=on_read.queued,
        update=on_update.wait,
        preview=on_preview.stays,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.restarts,
        observed="waits in a cloud's queue (Flex-start), or for its block to begin",
        records="status `queued`, as an unhealthy resource",
        next_up="waits on",
    ),
    Condition.OUTDATED: Step(
        read=on_read.outdated,
        update=on_update.redeploy,
        preview=on_preview.redeployed,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.restarts,
        observed="a provider's own service runs, not deployed as you declared it",
        records="what differs, as an unhealthy resource",
        next_up="redeploys it in place",
    ),
    Condition.DRIFTED: Step(
        read=on_read.drifted,
        update=on_update.accept_drift,
        preview=on_preview.stays_drifted,
        replaced=on_preview.replaced,
        replaces=on_preview.unless_it_serves,
        workload=on_workload.restarts,
        observed="runs, and somebody changed what was bought",
        records="the properties as they are now, with their price",
        next_up="keeps it if it satisfies the declaration; else replaces it, or with"
        " `on_loss: report` keeps it",
    ),
    Condition.DEGRADED: Step(
        read=on_read.degraded,
        update=on_update.repair,
        preview=on_preview.repaired,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.restarts,
        observed="some machines are gone, or are not what was bought",
        records="status `degraded`, as an unhealthy resource",
        next_up="acts by `on_loss`",
    ),
    Condition.PREEMPTED: Step(
        read=on_read.preempted,
        update=on_update.replace_lost,
        preview=on_preview.replaced_preempted,
        replaced=on_preview.replaced_preempted,
        replaces=on_preview.taken_back,
        workload=on_workload.with_the_next,
        observed="preempted, remains stopped",
        records="status `preempted`, and the place is blocked for a while",
        next_up="replaces it, deleted first",
    ),
    Condition.FAILED: Step(
        read=on_read.stays_so,
        update=on_update.replace,
        preview=on_preview.stays_failed,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="failed",
        records="status `failed`, and a warning",
        next_up="nothing; an edit of the cluster, or `gpus rerun`, replaces it",
    ),
    Condition.STOPPING: Step(
        read=on_read.as_observed,
        update=on_update.start_or_replace,
        preview=on_preview.stays_halted,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.where_it_stays,
        observed="is being stopped, and not by you",
        records="status `stopping`",
        next_up="nothing; an edit of the cluster, or `gpus rerun`, replaces it",
    ),
    Condition.HALTED: Step(
        read=on_read.stays_so,
        update=on_update.start_or_replace,
        preview=on_preview.stays_halted,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.where_it_stays,
        observed="stopped at its cloud, though you declare it running",
        records="status `stopped`, and a warning",
        next_up="nothing; an edit of the cluster, or `gpus rerun`, replaces it",
    ),
    Condition.STOPPED: Step(
        read=on_read.as_observed,
        update=on_update.rest,
        preview=on_preview.stays_stopped,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.once_it_runs,
        observed="stopped as you declare it (`state: stopped`)",
        records="status `stopped`",
        next_up="nothing; `state: running` starts it again where it is",
    ),
    Condition.ENDED: Step(
        read=on_read.ended,
        update=on_update.end,
        preview=on_preview.stays_ended,
        replaced=on_preview.replaced_ended,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="ended by its own limit",
        records="status `ended`",
        next_up="nothing; `gpus rerun` gets a new one",
    ),
    Condition.DONE: Step(
        read=on_read.done,
        update=on_update.end,
        preview=on_preview.stays_done,
        replaced=on_preview.replaced_done,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="a job that has ended, successfully or not",
        records="status `ended` or `failed`",
        next_up="releases its machine, unless it is to be kept; `gpus rerun` gets a new one",
    ),
    Condition.GONE: Step(
        read=on_read.gone,
        update=on_update.replace_lost,
        preview=on_preview.bought_again,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="all gone, or preempted and deleted",
        records="the cluster is dropped, and the place is blocked for a while",
        next_up="creates it by the plan",
    ),
    Condition.MOVED: Step(
        read=on_read.moved,
        update=on_update.take_over,
        preview=on_preview.stays,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="lost, and an interrupted run has placed it elsewhere",
        records="the new place; what remains of the previous one, as an unhealthy resource",
        next_up="keeps it if it satisfies the declaration, and releases the rest",
    ),
    Condition.WAITING: Step(
        read=on_read.waits,
        update=on_update.look_again,
        preview=on_preview.looks_again,
        replaced=on_preview.looks_anew,
        replaces=on_preview.asked_again,
        workload=on_workload.with_the_next,
        observed="every place is sold out, and `acquire` is declared",
        records="status `waiting`: until when, and when the next place is asked",
        next_up="asks the places that may have room by now, and acquires the first that has; at"
        " the end of `within` gives up",
    ),
    Condition.GAVE_UP: Step(
        read=on_read.waits,
        update=on_update.look_again,
        preview=on_preview.given_up,
        replaced=on_preview.looks_anew,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="waited for capacity for as long as `acquire` says",
        records="status `gave-up`, as an unhealthy resource",
        next_up="fails; with an edit of the cluster, or `gpus rerun`, looks again",
    ),
    Condition.UNSETTLED: Step(
        read=on_read.as_observed,
        update=on_update.replace_lost,
        preview=on_preview.bought_again,
        replaced=on_preview.replaced,
        replaces=on_preview.not_replaced,
        workload=on_workload.with_the_next,
        observed="gone or unknown, and something of it may still exist",
        records="status `unsettled`, as an unhealthy resource",
        next_up="settles what an interrupted run ordered, releases what is left, and creates it"
        " by the plan",
    ),
}


def another_workload(case: WorkloadCase) -> WorkloadEdit:
    """What becomes of another workload in the condition that the record shows."""
    return STEPS[condition_of(case.record)].workload(case)


def as_markdown() -> str:
    """The table for people, as `docs/reference/edits.md` has it."""
    lines = [
        "| condition | observed | what the refresh records | what the next `up` does |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {condition} | {step.observed} | {step.records} | {step.next_up} |"
        for condition, step in STEPS.items()
    ]
    return "\n".join(lines)
