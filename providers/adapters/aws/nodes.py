"""From EC2's instance to a node. Owns statuses, why a machine is not running, and the comparison
with what was ordered. Pure.

A terminated instance stays in EC2's answers for about an hour; it holds nothing and costs nothing,
so it is gone. State reasons as in Amazon's reference of StateReason (2026) and the codes that
public operators report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import machines, tagging
from providers.adapters.aws.errors import Context, from_exception
from providers.model import foreign
from providers.model.ask import BLOCK, ON_DEMAND, RESERVATION, SPOT
from providers.model.machine import (
    ENDED,
    FAILED,
    GONE,
    PREEMPTED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    Handle,
    Node,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.model.machine import Order
    from providers.model.offer import Candidate

STATUSES = {
    "pending": STARTING,
    "running": RUNNING,
    "shutting-down": STOPPING,
    "terminated": GONE,
    "stopping": STOPPING,
    "stopped": STOPPED,
}
DEFAULT_GROUP = "default"
"""The name of each VPC's own security group, which cannot be changed."""
LEAVING = frozenset({"shutting-down", "terminated", "stopping", "stopped"})

REASONS = {
    "Server.SpotInstanceTermination": PREEMPTED,
    "Server.SpotInstanceShutdown": PREEMPTED,
    "Server.SpotInstanceStop": PREEMPTED,
    "Server.InsufficientInstanceCapacity": FAILED,
    "Server.InternalError": FAILED,
    "Client.InternalError": FAILED,
    "Client.VolumeLimitExceeded": FAILED,
    "Client.InstanceInitiatedShutdown": ENDED,
}
"""What a state reason says about a machine that stops or stopped. A shutdown from inside is the end
of its run: its timer's, or its user's.
"""

BLOCK_SLACK_S = 180.0
"""A machine that goes this shortly before its block's end is ended by it."""

_DETAILS = {
    PREEMPTED: "preempted and deleted",
    ENDED: "shut itself down and deleted",
    FAILED: "failed and deleted",
}


def handle(region: str, instance_id: str) -> Handle:
    """The handle of an instance: `us-east-1/i-0123456789abcdef0`."""
    return Handle("aws", f"{region}/{instance_id}")


def parse(found: Handle) -> tuple[str, str]:
    """(region, instance id) of a handle. Raises ValueError for what is none."""
    region, slash, instance_id = found.native_id.partition("/")
    if not slash or not instance_id.startswith("i-") or "/" in instance_id or region.count("-") < 2:
        raise ValueError(
            f"wanted REGION/INSTANCE as in us-east-1/i-0123456789abcdef0, found {found.native_id!r}"
        )
    return region, instance_id


def tags(instance: Mapping[str, Any]) -> dict[str, str]:
    """An instance's tags."""
    return {str(tag.get("Key")): str(tag.get("Value", "")) for tag in instance.get("Tags") or ()}


def launch_order(instance: Mapping[str, Any]) -> tuple[int, str]:
    """The same order of one call's machines at every look."""
    return foreign.whole(instance.get("AmiLaunchIndex"), foreign.COUNT) or 0, str(
        instance["InstanceId"]
    )


def state(instance: Mapping[str, Any]) -> str:
    """`running`, `terminated`, ..."""
    return str((instance.get("State") or {}).get("Name", ""))


def capacity(instance: Mapping[str, Any]) -> str:
    """How it was bought. A machine on demand that fell into an open reservation was still bought on
    demand.
    """
    lifecycle = instance.get("InstanceLifecycle")
    if lifecycle == "spot":
        return SPOT
    if tags(instance).get(tagging.BLOCK):
        return BLOCK
    target = (instance.get("CapacityReservationSpecification") or {}).get(
        "CapacityReservationTarget"
    ) or {}
    return (
        RESERVATION
        if lifecycle == "capacity-block" or target.get("CapacityReservationId")
        else ON_DEMAND
    )


def zone(instance: Mapping[str, Any], zone_ids: Mapping[str, str]) -> str:
    """The zone's id; `zone_ids` maps this account's names to ids."""
    placement = instance.get("Placement") or {}
    name = str(placement.get("AvailabilityZone", ""))
    return str(placement.get("AvailabilityZoneId") or zone_ids.get(name, name))


def outside(instance: Mapping[str, Any]) -> list[str]:
    """The network interfaces in the VPC's own group, of a machine whose tag names another. What
    somebody has put into a group of his since, stays there.
    """
    wanted = tags(instance).get(tagging.GROUP, "")
    if not wanted or state(instance) in LEAVING:
        return []
    return [
        str(each["NetworkInterfaceId"])
        for each in instance.get("NetworkInterfaces") or ()
        if {group.get("GroupName") for group in each.get("Groups") or ()} <= {DEFAULT_GROUP}
    ]


def block_over(instance: Mapping[str, Any], now: float) -> bool:
    """Whether the Capacity Block that an instance is in has ended it by then, or is about to."""
    ends = foreign.real(tags(instance).get(tagging.BLOCK_ENDS), foreign.SECONDS)
    return ends is not None and now >= ends - BLOCK_SLACK_S


def node(
    region: str, instance: Mapping[str, Any], zone_ids: Mapping[str, str], now: float = 0.0
) -> Node:
    """An instance as a node. `now` tells the end of a block from a loss."""
    found = tags(instance)
    raw = state(instance)
    code = str((instance.get("StateReason") or {}).get("Code", ""))
    status, detail = STATUSES.get(raw, STARTING), raw
    why = REASONS.get(code, "") if raw in LEAVING else ""
    over = raw in LEAVING and block_over(instance, now)
    if over:
        why, code = ENDED, code or "end of the Capacity Block"
    if raw in LEAVING and code:
        detail = f"{raw}: {code}"
        if status == GONE:
            detail = f"{_DETAILS.get(why, 'deleted')} ({code})"
        elif why:
            status = why
    closed = ""
    if status in (STARTING, RUNNING) and outside(instance):
        closed = "not in its security group yet: nobody can log in"
        detail = f"{raw}, {closed}"
    gpu, count = machines.gpus_of(str(instance.get("InstanceType", "")))
    moment: Any = instance.get("LaunchTime")
    return Node(
        handle=handle(region, str(instance["InstanceId"])),
        name=found.get(tagging.NAME, "") or str(instance["InstanceId"]),
        status=status,
        label=tagging.label_of(found),
        region=region,
        zone=zone(instance, zone_ids),
        machine_type=str(instance.get("InstanceType", "")),
        gpu_type=gpu,
        gpu_count=count,
        capacity=capacity(instance),
        internal_ip=str(instance.get("PrivateIpAddress", "")),
        external_ip=str(instance.get("PublicIpAddress", "")),
        created_at=moment.timestamp() if hasattr(moment, "timestamp") else 0.0,
        detail=detail,
        ended=status == GONE and why == ENDED,
        closed=closed,
    )


def machines_of(page: Mapping[str, Any], context: Context) -> Iterable[dict[str, Any]]:
    """The machines in an answer of DescribeInstances. Raises for one that is not whole: it is not
    read as none.
    """
    if "Reservations" not in page:
        raise from_exception(ValueError("an answer without a list of machines"), context)
    for reservation in page["Reservations"]:
        # EC2 names a reservation for the machines in it.
        if not reservation.get("Instances"):
            raise from_exception(ValueError("a reservation without machines"), context)
        yield from reservation["Instances"]


def gone(found: Handle) -> Node:
    """A machine that EC2 says does not exist."""
    region, instance_id = parse(found)
    return Node(
        handle=found, name=instance_id, status=GONE, region=region, detail="EC2 does not know it"
    )


def describe(instance: Mapping[str, Any], zone_ids: Mapping[str, str]) -> str:
    """What a machine is, for a message."""
    kind = str(instance.get("InstanceType", ""))
    gpu, count = machines.gpus_of(kind)
    return (
        f"{kind} with {count} x {gpu or 'no GPU'} {capacity(instance)} in"
        f" {zone(instance, zone_ids)}"
    )


def placed(
    order: Order, instances: Sequence[Mapping[str, Any]], zone_ids: Mapping[str, str]
) -> Candidate | None:
    """The candidate that all instances are, or None when they are not what was ordered.

    A zone that no candidate names is filled in where a candidate names only the region.
    """
    zones = {zone(instance, zone_ids) for instance in instances}
    if len(zones) != 1:
        return None
    where = next(iter(zones))
    for candidate in order.candidates:
        same = all(
            str(instance.get("InstanceType")) == candidate.machine_type
            and machines.gpus_of(candidate.machine_type)
            == (candidate.gpu_type, candidate.gpu_count)
            and capacity(instance) == candidate.capacity
            for instance in instances
        )
        if same and candidate.zone in ("", where):
            return (
                candidate
                if candidate.zone
                else candidate._replace(offer=candidate.offer._replace(zone=where))
            )
    return None
