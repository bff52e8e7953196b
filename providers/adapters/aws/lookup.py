"""What EC2 knows of machines: by tag, by id, by Spot request. Owns these reads; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import nodes as read
from providers.adapters.aws import tagging
from providers.adapters.aws.errors import PROVIDER, Context, from_exception
from providers.adapters.aws.kept import LIVE_STATES
from providers.errors import CloudError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.adapters.aws.client import Client
    from providers.model.machine import Handle, Order

PAGE = 500
NEW_S = 600.0
"""For this long a machine that EC2 made may be missing from its lists; later, one that it does not
know by its id either has ended long ago: EC2 shows an ended one for an hour.
"""


def region_and_id(handle: Handle) -> tuple[str, str]:
    """The region and id in a handle. Raises Unsupported for one that is none of EC2."""
    try:
        return read.parse(handle)
    except ValueError as error:
        raise Unsupported(
            f"aws: {error}", provider=PROVIDER, code="INVALID_HANDLE", block_s=0.0
        ) from None


def made_for(client: Client, order: Order, context: Context) -> list[dict[str, Any]]:
    """Every machine that the order made, ended ones too while EC2 still shows them."""
    return list(
        listed(client, context, [{"Name": f"tag:{tagging.ORDER}", "Values": [order.token]}])
    )


def listed(
    client: Client, context: Context, filters: list[dict[str, Any]]
) -> Iterable[dict[str, Any]]:
    """The machines that the filters let through, page by page."""
    for page in client.pages("describe_instances", context, Filters=filters, MaxResults=PAGE):
        yield from read.machines_of(page, context)


def by_id(client: Client, context: Context, instance_id: str) -> dict[str, Any] | None:
    """The machine; None where EC2 says that it does not exist. One call. Raises for an answer
    that says neither.
    """
    try:
        found = list(
            read.machines_of(
                client.call("describe_instances", context, InstanceIds=[instance_id]),
                context,
            )
        )
    except CloudError as error:
        if error.code != "InvalidInstanceID.NotFound":
            raise
        return None
    if not found:
        raise from_exception(
            ValueError("an answer without the machine, and not that it does not exist"), context
        )
    return found[0]


def forgotten(
    client: Client, order: Order, ids: Iterable[str], now: float, context: Context
) -> bool:
    """Whether EC2 knows none of these machines of an order any more, by its own word for each. Of
    an order of unknown age that is not told.
    """
    old = 0 < order.intended_at < now - NEW_S
    return old and all(by_id(client, context, each) is None for each in ids)


def under_request(client: Client, region: str, request: str) -> list[str]:
    """Machines that live under a Spot request; one that it started by itself carries no label."""
    filters: list[dict[str, Any]] = [
        {"Name": "spot-instance-request-id", "Values": [request]},
        {"Name": "instance-state-name", "Values": list(LIVE_STATES)},
    ]
    context = Context(f"aws {region}: looking under {request}", region)
    return [str(instance["InstanceId"]) for instance in listed(client, context, filters)]
