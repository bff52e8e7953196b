"""What is held, made from what was had or seen: the table of what an observation means. Pure.

Owns how several machines' statuses become one, and what was last written on machines of what can be edited in place.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from providers.engine.launch.verify import DONE, HEALTHY
from providers.engine.launch.walk import ACQUIRED, WAITING_ON, Outcome
from providers.engine.reconcile import drift
from providers.engine.record import DEGRADED, UNSETTLED, Held, Wanted
from providers.model.machine import DRIFTED, ENDED, FAILED, GONE, PENDING, PREEMPTED, QUEUED, RUNNING, STARTING, STOPPED, STOPPING
from providers.model.workload import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.model.machine import Node, Setup

WORK, ON_DONE = "work", "on_done"
"""In `Held.applied`: the digest of what runs there, and what becomes of the machine once it is done."""
DISK = "disk_gib"
"""In `Held.applied`: the size of the disk that was bought; not there for the default one."""
REPLACE_ALL, REPLACE_NODE, REPORT = "replace-all", "replace-node", "report"
"""What is done when some of several machines are lost: the declaration's `on_loss`."""
_LOSS_DOES = {
    REPLACE_ALL: "releases the rest and places it anew",
    REPLACE_NODE: "gets what is lost again in the same place, beside the rest",
}

_NATIVE = frozenset({"terminated", "stopped", "stopping", "shutting-down", "running", "deleted"})
"""Statuses as clouds name them, which say no more than the product's own words for them."""

ENDS_SLACK_S = 180.0
"""A machine that is gone this shortly before its limit counts as ended by it: clouds count from the start of the creation, and round."""


def began(nodes: Iterable[Node], now: float, otherwise: float) -> float:
    """When the first of the machines was made, as their cloud says. A moment that cannot be, such as one still to come, is none: what they cost is
    counted from it.
    """
    return min((node.created_at for node in nodes if 0 < node.created_at <= now + ENDS_SLACK_S), default=otherwise)


def had(world: str, wanted: Wanted, generation: str, outcome: Outcome, now: float) -> Held:
    """The record of a purchase, whatever it came to."""
    placed = outcome.placed
    ttl_s = ttl(wanted, placed.entry)
    made = outcome.state == ACQUIRED
    launched = began(outcome.nodes, now, now)
    done = next((node.status for node in outcome.nodes if placed.kind == "job" and node.status in DONE), "")
    detail = next((node.detail for node in outcome.nodes if node.status == RUNNING and _more(node)), "")
    status = (done or status_of(outcome.nodes)) if made else QUEUED if outcome.state == WAITING_ON else UNSETTLED
    return Held(
        world=world,
        owner=wanted.owner,
        cluster=wanted.cluster,
        generation=generation,
        fingerprint=wanted.fingerprint,
        status=status,
        provider=placed.provider,
        region=placed.region,
        zone=placed.zone or next((node.zone for node in outcome.nodes if node.zone), ""),
        machine_type=placed.machine_type,
        gpu_type=placed.gpu_type,
        gpu_count=placed.gpu_count,
        nodes=placed.nodes,
        capacity=placed.capacity,
        reservation=placed.reservation,
        micro_usd=placed.micro_usd,
        price_as_of=placed.price_as_of,
        price_source=placed.price_source,
        handles=outcome.handles,
        machines=outcome.nodes,
        attempts=outcome.attempts,
        launched_at=launched if made else 0.0,
        ends_at=launched + ttl_s if made and ttl_s else 0.0,
        entry=placed.entry,
        reasons=outcome.reasons,
        leftovers=outcome.leftovers,
        applied=applied(outcome.order.setup, placed.kind),
        kind=placed.kind,
        account=outcome.account,
        detail=detail,
    )


def status_of(nodes: Sequence[Node]) -> str:
    """The status of machines that all exist and are well: the least far one's."""
    return next((status for status in (QUEUED, PENDING, STARTING) if any(node.status == status for node in nodes)), RUNNING)


def kept_stopped(held: Held) -> bool:
    """True when its machines were stopped because the declaration said so."""
    return bool(dict(held.applied).get("state"))


def seen(held: Held, nodes: Sequence[Node], now: float, on_loss: str = REPLACE_ALL) -> Held | None:
    """What is held after a look at its machines, in the shape that they have now; None when all are gone and not by their own limit.

    See `_classified` and `engine.drift`.
    """
    held, nodes = drift.compared(held, nodes)
    after = _classified(held, nodes, now, on_loss)
    return after._replace(detail=drift.text(after)) if after is not None and drift.acts(after) else after


def _classified(held: Held, nodes: Sequence[Node], now: float, on_loss: str) -> Held | None:
    """What is held after a look at its machines; None when all are gone and not by their own limit.

    `on_loss` says what is to be done when some are lost: `report` leaves no reason, so that nothing is.

    Some well and some not: degraded. None well: preempted if any was, else ended, failed, stopped, stopping, in this order. Where they were
    stopped on purpose, a machine that does not run is stopped, whatever a cloud makes of it later. A job that has ended stays what it was, however
    long its cloud remembers it.
    """
    over = finished(held)
    former, held = held.detail if over or held.status == ENDED else "", held._replace(detail="", to_release=False)
    if over and {node.status for node in nodes} <= {*DONE, GONE}:
        return held._replace(machines=tuple(node for node in nodes if node.status != GONE), reasons=(), detail=former)
    if kept_stopped(held):
        nodes = [node._replace(status=STOPPED) if node.status in (PREEMPTED, ENDED, FAILED) else node for node in nodes]
    well = [node for node in nodes if node.status in HEALTHY]
    statuses = {node.status for node in nodes}
    if nodes and len(well) == len(nodes):
        if QUEUED in statuses:
            return held._replace(status=QUEUED, machines=tuple(nodes), reasons=("queued: waits in the cloud's queue; the next `up` waits on",))
        if drifted := [node.drift for node in nodes if node.drift]:
            reason = f"drifted: {drifted[0]}; the next `up` deploys it anew"
            return held._replace(status=status_of(nodes), machines=tuple(nodes), reasons=(reason,))
        whole = len(nodes) == held.nodes
        detail = next((node.detail for node in nodes if node.status == RUNNING and _more(node)), "")
        return held._replace(status=status_of(nodes), machines=tuple(nodes), reasons=(), detail=detail) if whole else _degraded(held, nodes, on_loss)
    if well and held.kind == "job" and statuses <= {*HEALTHY, *DONE} and len(nodes) == held.nodes:
        # The machines of one job do not end in the same moment: it runs until the last one has.
        return held._replace(status=status_of(well), machines=tuple(nodes), reasons=())
    if well:
        return _degraded(held, nodes, on_loss)
    if DRIFTED in statuses:
        return _degraded(held, nodes, on_loss)
    if statuses <= {GONE}:
        told = bool(nodes) and all(node.ended for node in nodes)
        ended = told or held.status == ENDED or (bool(held.ends_at) and now >= held.ends_at - ENDS_SLACK_S)
        return held._replace(status=ENDED, machines=(), reasons=(), detail=nodes[0].detail if told else former) if ended else None
    there = tuple(node for node in nodes if node.status != GONE)
    # A job over several machines has failed where it failed on one, whatever the others ended with.
    worst = (PREEMPTED, FAILED, ENDED, STOPPED, STOPPING) if held.kind == "job" else (PREEMPTED, ENDED, FAILED, STOPPED, STOPPING)
    status = next((status for status in worst if status in statuses), FAILED)
    why = next((node.detail for node in nodes if node.status == status and _more(node)), "")
    return held._replace(status=status, machines=there, reasons=(), detail=why)


def _degraded(held: Held, nodes: Sequence[Node], on_loss: str) -> Held:
    reasons = () if on_loss == REPORT else (f"{loss(held, nodes)}; the next `up` {_LOSS_DOES[on_loss]}",)
    there = tuple(node for node in nodes if node.status != GONE)
    return held._replace(status=DEGRADED, machines=there, reasons=reasons, detail=loss(held, nodes).removeprefix("degraded: "))


def drift_does(on_loss: str) -> str:
    """What follows where a machine is not what was bought."""
    return "`on_loss: report` leaves it so" if on_loss == REPORT else "the next `up` replaces it, unless it serves the declaration as it is now"


def loss(held: Held, nodes: Sequence[Node]) -> str:
    """`degraded: 1 of 2 machines are left: train-1 is preempted`: how many are well, and what became of each other one, in the cloud's words."""
    well = sum(node.status in HEALTHY for node in nodes)
    lost = ", ".join(f"{node.name or node.handle.native_id} is {became(node)}" for node in nodes if node.status not in HEALTHY)
    return f"degraded: {well} of {held.nodes} machines are left{f': {lost}' if lost else ''}"


def became(node: Node) -> str:
    """What became of a machine that is not well: its status, and what its cloud says of it where that is more."""
    return f"{node.status} ({node.detail})" if _more(node) else node.status


def _more(node: Node) -> bool:
    """True where the cloud's words say more than its own name of the status does."""
    return bool(node.detail) and node.detail.casefold() not in {node.status, *_NATIVE} and "://" not in node.detail


def ttl(wanted: Wanted, entry: int) -> int | None:
    """The time limit of that entry, in seconds; None for none."""
    own = wanted.ask.entries[entry].ttl_s if 0 <= entry < len(wanted.ask.entries) else None
    return wanted.setup.ttl_s if own is None else own


def finished(held: Held) -> bool:
    """True for a job that has ended, well or not."""
    return held.kind == "job" and held.status in DONE


def applied(setup: Setup, kind: str = "machine") -> tuple[tuple[str, str], ...]:
    """Digests of what can be edited in place, as it stands on the machines; an empty one where nothing is set. And the disk, which no edit changes.

    `setup.options` holds the section of the provider it runs at alone.
    """
    values: dict[str, object] = {
        "labels": dict(setup.labels),
        "ssh_key": [setup.ssh_user, setup.ssh_public_key] if setup.ssh_public_key else "",
        "ttl": [setup.ttl_s, setup.on_ttl] if setup.ttl_s else "",
        "state": setup.state if setup.state != RUNNING else "",
    }
    if kind == "service" and not setup.script_digest:
        values["service"] = [[list(pair) for pair in setup.options], setup.expose, *([list(setup.secrets)] if setup.secrets else [])]
    texts = {name: json.dumps(value, sort_keys=True, default=str) if value else "" for name, value in values.items()}
    found = {name: hashlib.sha256(text.encode()).hexdigest()[:12] if text else "" for name, text in texts.items()}
    # As they are: they are read again.
    if setup.disk_gib is not None:
        found[DISK] = str(setup.disk_gib)
    if setup.script_digest:
        found |= {WORK: setup.script_digest, ON_DONE: setup.on_done}
    return tuple(sorted(found.items()))


def works(held: Held) -> bool:
    """True where a start-up script of ours runs what it is for."""
    return bool(dict(held.applied).get(WORK))


def to_release(held: Held) -> bool:
    """True for a job's machines that are still there though it is done, and need not stay."""
    return finished(held) and works(held) and bool(held.machines) and dict(held.applied).get(ON_DONE) == RELEASE


def runs_on(held: Held, ends_itself: str) -> bool:
    """True for a job that is over while its machines cost what they did: they are kept, their cloud has no way to end itself from inside
    (`Manifest.ends_itself`), or what the job saved last did not arrive.
    """
    from providers.workloads.launch.start_script import UNSAVED

    if not (finished(held) and works(held)):
        return False
    return dict(held.applied).get(ON_DONE) != RELEASE or not ends_itself or held.detail == f"exit code {UNSAVED}"
