"""Which reservation of the account serves an order. Owns the look-up before a reserved machine is
ordered; reads only.

A Name tag may be on several, of several types and zones: one with room that is for what is ordered
serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import compile as native
from providers.adapters.aws import region_facts
from providers.adapters.aws.errors import PROVIDER, Context
from providers.errors import CloudError, NoCapacity, Unsupported
from providers.model import foreign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.aws.client import Client
    from providers.model.machine import Order

MISSING, FULL, STATE = (
    "InvalidCapacityReservationId.NotFound",
    "ReservationCapacityExceeded",
    "InvalidCapacityReservationState",
)


def named(client: Client, zone_ids: Mapping[str, str], order: Order) -> region_facts.Reservation:
    """The reservation that an order names, by its id or its Name tag, with room for all nodes; of
    several the one that leaves the least room. Raises NoCapacity or Unsupported.
    """
    first = order.candidates[0]
    region, name, nodes = first.region, first.reservation, len(order.node_names)
    context = Context(
        f"aws {region}: looking for reservation {name}", region, candidates=order.candidates
    )
    wanted: dict[str, Any] = (
        {"CapacityReservationIds": [name]}
        if name.startswith("cr-")
        else {"Filters": [{"Name": "tag:Name", "Values": [name]}]}
    )
    found = [
        item
        for page in client.pages("describe_capacity_reservations", context, **wanted)
        for item in page["CapacityReservations"]
    ]
    if not found:
        raise Unsupported(
            f"{context.what}: there is none of that name",
            provider=PROVIDER,
            code=MISSING,
            block_s=0.0,
        )
    fitting = [item for item in found if native.matching(order, of(item, zone_ids)) is not None]
    if not fitting:
        kinds = " and ".join(
            f"{each.machine_type} in {each.zone}" for each in (of(item, zone_ids) for item in found)
        )
        raise Unsupported(
            f"{context.what}: it is for {kinds}, which this plan does not ask for",
            provider=PROVIDER,
            code="RESERVATION_DIFFERS",
            block_s=0.0,
        )
    open_ones = [item for item in fitting if item.get("State") == "active"]
    roomy = [item for item in open_ones if free(item) >= nodes]
    if roomy:
        return of(min(roomy, key=free), zone_ids)
    raise _without_room(context, fitting, open_ones, nodes)


def of(item: Mapping[str, Any], zone_ids: Mapping[str, str]) -> region_facts.Reservation:
    """One reservation as EC2 describes it."""
    zone = item.get("AvailabilityZoneId") or zone_ids.get(str(item.get("AvailabilityZone")), "")
    return region_facts.Reservation(
        str(item["CapacityReservationId"]),
        str(item.get("InstanceType", "")),
        str(zone),
        item.get("ReservationType") == "capacity-block",
    )


def free(item: Mapping[str, Any]) -> int:
    """How many more machines a reservation takes; none where EC2 does not say."""
    return foreign.whole(item.get("AvailableInstanceCount"), foreign.COUNT) or 0


def _without_room(
    context: Context,
    fitting: list[dict[str, Any]],
    open_ones: list[dict[str, Any]],
    nodes: int,
) -> CloudError:
    if open_ones:
        most = max(free(item) for item in open_ones)
        each = f" in any of {len(open_ones)}" if len(open_ones) > 1 else ""
        return NoCapacity(
            f"{context.what}: {most} of its machines are free{each}, {nodes} are wanted",
            provider=PROVIDER,
            code=FULL,
        )
    item = fitting[0]
    begins = (
        f", begins {item['StartDate']:%Y-%m-%d %H:%M} UTC"
        if item.get("State") == "scheduled" and item.get("StartDate")
        else ""
    )
    return NoCapacity(
        f"{context.what}: it is {item.get('State', '')}{begins}", provider=PROVIDER, code=STATE
    )
