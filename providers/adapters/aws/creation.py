"""The one creating call of an order, a fleet or a run, and what its refusal says. Must not retry
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws import compile as native
from providers.adapters.aws import nodes as read
from providers.adapters.aws import region_facts
from providers.adapters.aws.errors import Context, from_fleet
from providers.errors import CloudError

if TYPE_CHECKING:
    from providers.adapters.aws.client import Client
    from providers.adapters.aws.surroundings import Surroundings
    from providers.model.machine import Order


def create_fleet(
    client: Client, around: Surroundings, order: Order, call: native.Call, context: Context
) -> list[str]:
    """Sends CreateFleet, after its launch template was made. The machines' ids."""
    if call.template is not None:
        around.kept.template(order, call.template, context._replace(creating=False))
    answer = client.call("create_fleet", context, **call.body)
    ids = [
        str(found)
        for item in answer.get("Instances") or ()
        for found in item.get("InstanceIds") or ()
    ]
    if not ids:
        raise from_fleet(answer.get("Errors") or (), _with_zones(around, context))
    return ids


def run_instances(client: Client, call: native.Call, context: Context) -> list[str]:
    """Sends RunInstances. The machines' ids."""
    answer = client.call("run_instances", context, **call.body)
    return [
        str(item["InstanceId"])
        for item in sorted(answer.get("Instances") or (), key=read.launch_order)
    ]


def context_of(order: Order) -> Context:
    """What is being done for an order, as messages name it."""
    first = order.candidates[0]
    zones = list(dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone))
    types = list(dict.fromkeys(candidate.machine_type for candidate in order.candidates))
    # Messages are cut at some length: what to do about it must not be what falls off.
    where = ",".join(zones) if len(zones) <= 2 else f"{first.region} ({len(zones)} zones)"
    kinds = ",".join(types) if len(types) <= 2 else f"{types[0]} and {len(types) - 1} more types"
    own = not region_facts.options_of(order).security_group
    what = f"aws {first.reservation or where or first.region} {kinds} {first.capacity}"
    return Context(
        what, region=first.region, token=order.token, candidates=order.candidates, own=own
    )


def _with_zones(around: Surroundings, context: Context) -> Context:
    """The context with this account's zone names, for an answer that may name zones so. Best
    effort.
    """
    try:
        return context._replace(zone_ids=tuple(around.zone_ids(context.region).items()))
    except CloudError:
        return context
