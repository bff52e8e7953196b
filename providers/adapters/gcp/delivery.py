"""What an order's operation has made, compared with the order. Owns the judgement: delivered, half
made, refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.gcp.client import Client
    from providers.model.machine import Order, Ticket

PREEMPTED_BLOCK_S = 180.0


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


def half_made(
    code: str,
    found: str,
    instances: Iterable[Mapping[str, Any]],
    context: Context,
    scopes: Sequence[Scope] = (),
) -> HalfMade:
    """The error for machines that are not what was ordered."""
    handles = [read.handle(instance) for instance in instances]
    text = (
        f"{context.what}: wanted what was ordered, found that {found}; they are deleted before"
        " anything else is bought"
    )
    return HalfMade(
        text,
        handles=handles,
        provider=PROVIDER,
        code=code,
        scopes=scopes,
        block_s=PREEMPTED_BLOCK_S if scopes else None,
    )


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
    if len(made) != len(order.node_names):
        raise half_made(
            "WRONG_COUNT",
            f"{len(made)} machines exist instead of {len(order.node_names)}",
            made,
            context,
        )
    placed = read.placed(order, made)
    if placed is None:
        what = "; ".join(sorted({read.describe(instance) for instance in made}))
        raise half_made("NOT_AS_ORDERED", f"Google made {what}", made, context)
    states = {str(instance.get("status")) for instance in made}
    if states & read.LEAVING:
        raise half_made(
            "TAKEN_WHILE_STARTING",
            f"a machine is already {', '.join(sorted(states & read.LEAVING))}",
            made,
            context,
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
