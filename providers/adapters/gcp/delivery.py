"""What an order's operation has made, compared with the order. Owns the judgement: delivered, half
made, refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.delivery import PREEMPTED_BLOCK_S, Delivery
from providers.adapters.gcp import lookup, refusals
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.errors import PROVIDER, Context, from_operation
from providers.errors import (
    CloudError,
    HalfMade,
    NoCapacity,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Transient,
)
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from providers.adapters.gcp.client import Client
    from providers.model.machine import Order, Ticket


def refused(
    client: Client, operation: Mapping[str, Any], order: Order, context: Context
) -> CloudError:
    """What a failed operation means, after a look at whether it left anything.

    A passing fault ends the operation for good all the same: the same token would only return
    it, so it is to be settled, not asked again.
    """
    error = from_operation(operation, context)
    left = lookup.made_for(client, order, context)
    if not left and isinstance(error, (RateLimited, Transient)):
        return OutcomeUnknown(
            f"{error.message}; the operation is over",
            words=error.words,
            provider=PROVIDER,
            code=error.code,
            token=order.token,
        )
    if not left:
        return (
            refusals.named(client, error, order, context)
            if isinstance(error, QuotaExceeded)
            else error
        )
    return HalfMade(
        f"{error.message}; {len(left)} of {len(order.node_names)} machines are still there",
        words=error.words,
        handles=[read.handle(instance) for instance in left],
        provider=PROVIDER,
        code=error.code,
        scopes=error.scopes,
        hints=error.hints,
        block_s=error.block_s,
    )


def of(instances: Iterable[Mapping[str, Any]], context: Context) -> Delivery:
    """These machines as a delivery."""
    return Delivery(PROVIDER, context.what, tuple(read.handle(each) for each in instances))


def delivered(ticket: Ticket, made: list[dict[str, Any]], context: Context) -> Ticket:
    """Compares the machines with the order; the finished ticket once all of them run."""
    order = ticket.order
    places = tuple(
        Scope(
            PROVIDER,
            candidate.region,
            candidate.zone,
            candidate.machine_type,
            capacity=candidate.capacity,
        )
        for candidate in order.candidates
    )
    if not made:
        raise NoCapacity(
            f"{context.what}: made, and gone again before it ran",
            provider=PROVIDER,
            code="GONE_AFTER_CREATE",
            scopes=places,
            block_s=PREEMPTED_BLOCK_S,
        )
    delivery = of(made, context)
    placed = delivery.as_ordered(
        order, read.placed(order, made), "Google", (read.describe(instance) for instance in made)
    )
    states = {str(instance.get("status")) for instance in made}
    if states & read.LEAVING:
        raise delivery.half_made(
            "TAKEN_WHILE_STARTING",
            f"a machine is already {', '.join(sorted(states & read.LEAVING))}",
            places,
        )
    if states == {"RUNNING"}:
        by_name = {str(instance["name"]): read.handle(instance) for instance in made}
        return ticket._replace(
            state="done",
            placed=placed,
            handles=tuple(by_name[name] for name in order.node_names),
        )
    return ticket._replace(state="queued" if "PENDING" in states else "waiting")
