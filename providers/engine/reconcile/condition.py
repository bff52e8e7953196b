"""What is held, made from what was had or seen: the table of what an observation means. Pure.

Owns how several machines' statuses become one, and what was last written on machines of what can be
edited in place.
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
    REPLACE_ALL: "releases the rest and places it anew",
    REPLACE_NODE: "gets what is lost again in the same place, beside the rest",
}


def classify(
    held: ClusterRecord, nodes: Sequence[Node], now: float, on_loss: str = REPLACE_ALL
) -> ClusterRecord | None:
    """What is held after a look at its machines, in the shape that they have now; None when all are
    gone and not by their own limit.

    See `_classified` and `engine.drift`.
    """
    held, nodes = drift.compared(held, nodes)
    after = _classified(held, nodes, now, on_loss)
    return (
        after._replace(detail=drift.text(after))
        if after is not None and drift.acts(after)
        else after
    )


def _classified(
    held: ClusterRecord, nodes: Sequence[Node], now: float, on_loss: str
) -> ClusterRecord | None:
    """What is held after a look at its machines; None when all are gone and not by their own limit.

    `on_loss` says what is to be done when some are lost: `report` leaves no reason, so that nothing
    is.

    Some well and some not: degraded. None well: preempted if any was, else ended, failed, stopped,
    stopping, in this order. Where they were stopped on purpose, a machine that does not run is
    stopped, whatever a cloud makes of it later. A job that has ended stays what it was, however
    long its cloud remembers it.
    """
    over = finished(held)
    former, held = (
        held.detail if over or held.status == ENDED else "",
        held._replace(detail="", to_release=False),
    )
    if over and {node.status for node in nodes} <= {*DONE, GONE}:
        return held._replace(
            machines=tuple(node for node in nodes if node.status != GONE), reasons=(), detail=former
        )
    if kept_stopped(held):
        nodes = [
            node._replace(status=STOPPED) if node.status in (PREEMPTED, ENDED, FAILED) else node
            for node in nodes
        ]
    well = [node for node in nodes if node.status in HEALTHY]
    statuses = {node.status for node in nodes}
    if nodes and len(well) == len(nodes):
        if QUEUED in statuses:
            return held._replace(
                status=QUEUED,
                machines=tuple(nodes),
                reasons=("queued: waits in the cloud's queue; the next `up` waits on",),
            )
        if drifted := [node.drift for node in nodes if node.drift]:
            reason = f"drifted: {drifted[0]}; the next `up` deploys it anew"
            return held._replace(status=status_of(nodes), machines=tuple(nodes), reasons=(reason,))
        whole = len(nodes) == held.nodes
        detail = next(
            (node.detail for node in nodes if node.status == RUNNING and says_more(node)), ""
        )
        return (
            held._replace(status=status_of(nodes), machines=tuple(nodes), reasons=(), detail=detail)
            if whole
            else _degraded(held, nodes, on_loss)
        )
    if well and held.kind == "job" and statuses <= {*HEALTHY, *DONE} and len(nodes) == held.nodes:
        # The machines of one job do not end in the same moment: it runs until the last one has.
        return held._replace(status=status_of(well), machines=tuple(nodes), reasons=())
    if well:
        return _degraded(held, nodes, on_loss)
    if DRIFTED in statuses:
        return _degraded(held, nodes, on_loss)
    if statuses <= {GONE}:
        told = bool(nodes) and all(node.ended for node in nodes)
        ended = (
            told
            or held.status == ENDED
            or (bool(held.ends_at) and now >= held.ends_at - ENDS_SLACK_S)
        )
        return (
            held._replace(
                status=ENDED, machines=(), reasons=(), detail=nodes[0].detail if told else former
            )
            if ended
            else None
        )
    there = tuple(node for node in nodes if node.status != GONE)
    # A job over several machines has failed where it failed on one, whatever the others ended with.
    worst = (
        (PREEMPTED, FAILED, ENDED, STOPPED, STOPPING)
        if held.kind == "job"
        else (PREEMPTED, ENDED, FAILED, STOPPED, STOPPING)
    )
    status = next((status for status in worst if status in statuses), FAILED)
    why = next((node.detail for node in nodes if node.status == status and says_more(node)), "")
    return held._replace(status=status, machines=there, reasons=(), detail=why)


def _degraded(held: ClusterRecord, nodes: Sequence[Node], on_loss: str) -> ClusterRecord:
    reasons = (
        () if on_loss == REPORT else (f"{loss(held, nodes)}; the next `up` {_LOSS_DOES[on_loss]}",)
    )
    there = tuple(node for node in nodes if node.status != GONE)
    return held._replace(
        status=DEGRADED,
        machines=there,
        reasons=reasons,
        detail=loss(held, nodes).removeprefix("degraded: "),
    )


def drift_does(on_loss: str) -> str:
    """What follows where a machine is not what was bought."""
    return (
        "`on_loss: report` leaves it so"
        if on_loss == REPORT
        else "the next `up` replaces it, unless it serves the declaration as it is now"
    )


def loss(held: ClusterRecord, nodes: Sequence[Node]) -> str:
    """`degraded: 1 of 2 machines are left: train-1 is preempted`: how many are well, and what
    became of each other one, in the cloud's words.
    """
    well = sum(node.status in HEALTHY for node in nodes)
    lost = ", ".join(
        f"{node.name or node.handle.native_id} is {became(node)}"
        for node in nodes
        if node.status not in HEALTHY
    )
    return f"degraded: {well} of {held.nodes} machines are left{f': {lost}' if lost else ''}"
