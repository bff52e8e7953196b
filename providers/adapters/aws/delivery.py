"""What an order has made, compared with the order. Owns the judgement: delivered, half made,
refused; the machines' names,
and their way into the security group.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.adapters.aws import admission, tagging
from providers.adapters.aws import nodes as read
from providers.adapters.aws.error_codes import NO_RIGHT
from providers.adapters.aws.errors import PROVIDER, Context, from_state
from providers.adapters.delivery import Delivery
from providers.errors import BadCredentials, CloudError, NoCapacity
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.surroundings import Surroundings
    from providers.model.machine import Order, Ticket

_RIGHTS = (
    "ec2:CreateSecurityGroup, AuthorizeSecurityGroupIngress, AuthorizeSecurityGroupEgress and"
    " ModifyNetworkInterfaceAttribute"
)


def of(instances: Iterable[Mapping[str, Any]], context: Context) -> Delivery:
    """These machines as a delivery."""
    handles = (read.handle(context.region, str(instance["InstanceId"])) for instance in instances)
    return Delivery(PROVIDER, context.what, tuple(handles))


def delivered(
    client: Client,
    around: Surroundings,
    ticket: Ticket,
    made: list[dict[str, Any]],
    context: Context,
) -> Ticket:
    """Compares the machines with the order; the finished ticket once all of them run."""
    order = ticket.order
    alive = [instance for instance in made if read.state(instance) != "terminated"]
    leaving = [instance for instance in made if read.state(instance) in read.LEAVING]
    ids = around.zone_ids(context.region) if made else {}
    if leaving or not made:
        candidate = read.placed(order, made, ids) if made else None
        tried = (candidate,) if candidate is not None else order.candidates
        reason: dict[str, Any] = next(
            (instance["StateReason"] for instance in leaving if instance.get("StateReason")), {}
        )
        why = (
            from_state(reason, context, tried)
            if made
            else NoCapacity(
                f"{context.what}: made, and gone", provider=PROVIDER, code="GONE_AFTER_CREATE"
            )
        )
        if not alive:
            around.drop_placement_group(order)
            raise why
        raise of(alive, context).half_made(
            why.code, f"a machine is already {read.state(leaving[0])} ({why})", why.scopes
        )
    placed = of(made, context).as_ordered(
        order,
        read.placed(order, made, ids),
        "EC2",
        (read.describe(instance, ids) for instance in made),
    )
    admitted = _admitted(client, around, made, context)
    _name_each(client, order, made, context)
    if admitted and {read.state(instance) for instance in made} == {"running"}:
        ordered = sorted(made, key=read.launch_order)
        handles = tuple(
            read.handle(context.region, str(instance["InstanceId"])) for instance in ordered
        )
        return ticket._replace(state="done", placed=placed, handles=handles)
    return ticket._replace(state="waiting")


def _admitted(
    client: Client, around: Surroundings, made: Sequence[Mapping[str, Any]], context: Context
) -> bool:
    """Puts the machines into their security group. A passing fault, or keys that ran out, is tried
    again with the next look; without the right to do it they are given up, and EC2 with them.
    """
    try:
        return admission.admit(client, around.kept, made, context)
    except BadCredentials as error:
        if error.code not in NO_RIGHT:
            raise
        raise of(made, context).half_made(
            error.code,
            f"they may not be put into their security group ({error.code}: allow {_RIGHTS}, or name"
            " one in options.aws.security_group)",
            (Scope(PROVIDER),),
        ) from error


def _name_each(
    client: Client, order: Order, made: Sequence[Mapping[str, Any]], context: Context
) -> None:
    """Gives each machine a name of its own: one call made them all, so all bear the first
    one's. Best effort, and again at the next look.
    """
    free, doubled = list(order.node_names), []
    for instance in sorted(made, key=read.launch_order):
        name = read.tags(instance).get(tagging.NAME, "")
        if name in free:
            free.remove(name)
        else:
            doubled.append(str(instance["InstanceId"]))
    with suppress(CloudError):
        for instance_id, name in zip(doubled, free, strict=False):
            client.call(
                "create_tags",
                context,
                Resources=[instance_id],
                Tags=tagging.tag_list({tagging.NAME: name}),
            )
