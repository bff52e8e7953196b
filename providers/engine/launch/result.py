"""The result of a launch: what was acquired, or what is not certain yet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.desired import ClusterSpec, ttl
from providers.engine.record import (
    DONE,
    UNSETTLED,
    ClusterRecord,
    applied,
    began,
    limit_at,
    says_more,
    status_of,
)
from providers.model.machine import ENDED, QUEUED, RUNNING, Attempt, Handle, Node, Order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.record import Account
    from providers.model.offer import Candidate
ACQUIRED, WAITING_ON, UNCONFIRMED = "acquired", "queued", "unsettled"


class LaunchResult(NamedTuple):
    """How a walk ended. `state` is acquired, queued (it waits in a cloud's queue) or unsettled
    (something may exist; see `reasons`).

    `handles` and `nodes` are the machines had; `leftovers` those that must still be deleted.
    `account` is where the order was placed.
    """

    state: str
    order: Order
    placed: Candidate
    attempts: tuple[Attempt, ...]
    handles: tuple[Handle, ...] = ()
    nodes: tuple[Node, ...] = ()
    leftovers: tuple[Handle, ...] = ()
    reasons: tuple[str, ...] = ()
    account: Account | None = None


def attempt_of(
    number: int,
    candidates: Sequence[Candidate],
    end: tuple[str, str, str],
    started: float,
    ended: float,
) -> Attempt:
    """The record of one order of these candidates. `end` is its outcome, the cloud's code and the
    message.
    """
    first = candidates[0]
    return Attempt(
        number,
        first.provider,
        first.region,
        tuple(dict.fromkeys(each.zone for each in candidates if each.zone)),
        tuple(dict.fromkeys(each.machine_type for each in candidates)),
        first.placement.gpu,
        first.capacity,
        first.micro_usd,
        *end,
        started,
        round(ended - started, 3),
    )


def launched(
    world: str, spec: ClusterSpec, generation: str, outcome: LaunchResult, now: float
) -> ClusterRecord:
    """The record of a purchase, whatever it came to."""
    placed = outcome.placed
    ttl_s = ttl(spec, placed.entry)
    made = outcome.state == ACQUIRED
    launched = began(outcome.nodes, now, now)
    done = ""
    if placed.kind == "job":
        over = ENDED if outcome.nodes and all(node.ended for node in outcome.nodes) else ""
        done = next((node.status for node in outcome.nodes if node.status in DONE), over)
    detail = next(
        (
            node.detail
            for node in outcome.nodes
            if node.status in {RUNNING, done} and says_more(node)
        ),
        "",
    )
    status = (
        (done or status_of(outcome.nodes))
        if made
        else QUEUED
        if outcome.state == WAITING_ON
        else UNSETTLED
    )
    return ClusterRecord(
        world=world,
        owner=spec.owner,
        cluster=spec.cluster,
        generation=generation,
        fingerprint=spec.fingerprint,
        status=status,
        placement=placed.placement._replace(
            zone=placed.zone or next((node.zone for node in outcome.nodes if node.zone), "")
        ),
        price=placed.price,
        handles=outcome.handles,
        machines=outcome.nodes,
        attempts=outcome.attempts,
        launched_at=launched if made else 0.0,
        ends_at=limit_at(launched, ttl_s, placed.offer.term) if made else 0.0,
        entry=placed.entry,
        reasons=outcome.reasons,
        leftovers=outcome.leftovers,
        applied=applied(outcome.order.setup, placed.kind),
        kind=placed.kind,
        account=outcome.account,
        detail=detail,
    )
