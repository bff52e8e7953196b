"""Derives a cluster's status from the nodes that its cloud reports. Pure.

Owns how several machines' statuses become one, and what is said of machines that are lost. What is
done about a status is in `steps`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.reconcile import drift
from providers.engine.record import (
    DEGRADED,
    DONE,
    ENDS_SLACK_S,
    HEALTHY,
    ClusterRecord,
    became,
    finished,
    kept_stopped,
    says_more,
    status_of,
)
from providers.model.machine import (
    DRIFTED,
    ENDED,
    FAILED,
    GONE,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STOPPED,
    STOPPING,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.machine import Node

REPLACE_ALL, REPLACE_NODE, REPORT = "replace-all", "replace-node", "report"
"""What is done when some of several machines are lost: the declaration's `on_loss`."""
_LOSS_DOES = {
    REPLACE_ALL: "releases the rest and buys it again",
    REPLACE_NODE: "gets what is lost again in the same place, beside the rest",
}


def with_status(
    record: ClusterRecord, nodes: Sequence[Node], now: float, on_loss: str = REPLACE_ALL
) -> ClusterRecord | None:
    """The record as these nodes make it; None when all of them are gone, and not by their own
    limit.

    `nodes` are all machines of the record. Properties that changed at the provider are in the
    record as they are now (see `drift`). With `on_loss: report` a partial loss leaves no reason.
    """
    record, nodes = drift.compared(record, nodes)
    after = _with_status(record, nodes, now, on_loss)
    return (
        after._replace(detail=drift.text(after))
        if after is not None and drift.acts(after)
        else after
    )


def _with_status(
    record: ClusterRecord, nodes: Sequence[Node], now: float, on_loss: str
) -> ClusterRecord | None:
    """Some healthy and some not: degraded. None healthy: preempted if any was, else ended, failed,
    stopped, stopping, in this order.

    Where they were stopped on purpose, a machine that does not run is stopped, whatever its cloud
    calls it later. A job that has ended keeps its status for as long as its cloud reports it.
    """
    if finished(record) and {node.status for node in nodes} <= {*DONE, GONE}:
        there = tuple(node for node in nodes if node.status != GONE)
        return record._replace(machines=there, reasons=(), to_release=False)
    previous = record.detail if record.status == ENDED or finished(record) else ""
    record = record._replace(detail="", to_release=False)
    if kept_stopped(record):
        nodes = [
            node._replace(status=STOPPED) if node.status in (PREEMPTED, ENDED, FAILED) else node
            for node in nodes
        ]
    healthy = [node for node in nodes if node.status in HEALTHY]
    statuses = {node.status for node in nodes}
    if nodes and len(healthy) == len(nodes):
        return _all_healthy(record, nodes, on_loss)
    if (
        healthy
        and record.kind == "job"
        and statuses <= {*HEALTHY, *DONE}
        and len(nodes) == record.placement.nodes
    ):
        # The machines of one job do not end at the same time: it runs until the last one has ended.
        return record._replace(status=status_of(healthy), machines=tuple(nodes), reasons=())
    if healthy or DRIFTED in statuses:
        return _degraded(record, nodes, on_loss)
    if statuses <= {GONE}:
        return _all_gone(record, nodes, now, previous)
    return _none_healthy(record, nodes)


def _all_healthy(record: ClusterRecord, nodes: Sequence[Node], on_loss: str) -> ClusterRecord:
    if any(node.status == QUEUED for node in nodes):
        return record._replace(
            status=QUEUED,
            machines=tuple(nodes),
            reasons=("queued: waits in the cloud's queue; the next `up` waits on",),
        )
    if drifted := [node.drift for node in nodes if node.drift]:
        reason = f"drifted: {drifted[0]}; the next `up` redeploys it"
        return record._replace(status=status_of(nodes), machines=tuple(nodes), reasons=(reason,))
    if len(nodes) != record.placement.nodes:
        return _degraded(record, nodes, on_loss)
    running = (node for node in nodes if node.status == RUNNING and says_more(node))
    detail = next((node.detail for node in running), "")
    return record._replace(
        status=status_of(nodes), machines=tuple(nodes), reasons=(), detail=detail
    )


def _all_gone(
    record: ClusterRecord, nodes: Sequence[Node], now: float, previous: str
) -> ClusterRecord | None:
    """Ended where its cloud says so, where it had ended before, or at its own limit."""
    reported = bool(nodes) and all(node.ended for node in nodes)
    at_limit = bool(record.ends_at) and now >= record.ends_at - ENDS_SLACK_S
    if not (reported or at_limit or record.status == ENDED):
        return None
    detail = nodes[0].detail if reported else previous
    return record._replace(status=ENDED, machines=(), reasons=(), detail=detail)


def _none_healthy(record: ClusterRecord, nodes: Sequence[Node]) -> ClusterRecord:
    there = tuple(node for node in nodes if node.status != GONE)
    # A job over several machines has failed where it failed on one, whatever the others ended with.
    worst = (
        (PREEMPTED, FAILED, ENDED, STOPPED, STOPPING)
        if record.kind == "job"
        else (PREEMPTED, ENDED, FAILED, STOPPED, STOPPING)
    )
    statuses = {node.status for node in nodes}
    status = next((status for status in worst if status in statuses), FAILED)
    why = next((node.detail for node in nodes if node.status == status and says_more(node)), "")
    return record._replace(status=status, machines=there, reasons=(), detail=why)


def _degraded(record: ClusterRecord, nodes: Sequence[Node], on_loss: str) -> ClusterRecord:
    text = loss(record, nodes)
    reasons = () if on_loss == REPORT else (f"{text}; the next `up` {_LOSS_DOES[on_loss]}",)
    there = tuple(node for node in nodes if node.status != GONE)
    return record._replace(
        status=DEGRADED, machines=there, reasons=reasons, detail=text.removeprefix("degraded: ")
    )


def drift_does(on_loss: str) -> str:
    """What follows where a machine is not what was bought."""
    return (
        "`on_loss: report` leaves it so"
        if on_loss == REPORT
        else "the next `up` replaces it, unless it serves the declaration as it is now"
    )


def loss(record: ClusterRecord, nodes: Sequence[Node]) -> str:
    """`degraded: 1 of 2 machines are left: train-1 is preempted`: how many are healthy, and
    what became of each other one, in the cloud's words.
    """
    healthy = sum(node.status in HEALTHY for node in nodes)
    lost = ", ".join(
        f"{node.name or node.handle.native_id} is {became(node)}"
        for node in nodes
        if node.status not in HEALTHY
    )
    left = f"degraded: {healthy} of {record.placement.nodes} machines are left"
    return f"{left}: {lost}" if lost else left
