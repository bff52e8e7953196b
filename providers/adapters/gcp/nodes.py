"""From Google's instance to a node. Owns statuses, why a machine is not running, and the comparison
with what was ordered. Pure.

Operation types of endings: `compute.instances.preempted`, `deferredStop` and `deferredDelete` (the
end of maxRunDuration), `guestTerminate` (shut down from inside), as public operation lists of 2026
show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.gcp import compile as native
from providers.adapters.gcp import machines
from providers.errors import Problem, SpecError
from providers.model import foreign, idle
from providers.model.ask import FLEX_START, ON_DEMAND, RESERVATION, SPOT
from providers.model.machine import (
    ENDED,
    NO_GPU,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    Handle,
    Label,
    Node,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Order
    from providers.model.offer import Candidate

STATUSES = {
    "PENDING": QUEUED,
    "PROVISIONING": PENDING,  # not set aside yet: it may still turn out that there is no room
    "STAGING": STARTING,
    "REPAIRING": STARTING,
    "RUNNING": RUNNING,
    "PENDING_STOP": STOPPING,
    "STOPPING": STOPPING,
    "SUSPENDING": STOPPING,
    "DEPROVISIONING": STOPPING,
    "STOPPED": STOPPED,
    "SUSPENDED": STOPPED,
    "TERMINATED": STOPPED,
}
LEAVING = frozenset(
    {
        "PENDING_STOP",
        "STOPPING",
        "STOPPED",
        "SUSPENDING",
        "SUSPENDED",
        "TERMINATED",
        "DEPROVISIONING",
    }
)

ENDINGS = {
    "compute.instances.preempted": PREEMPTED,
    "compute.instances.deferredStop": ENDED,
    "compute.instances.deferredDelete": ENDED,
    "compute.instances.guestTerminate": STOPPED,
    "stop": STOPPED,
    "suspend": STOPPED,
    "delete": STOPPED,
}
"""What an operation on a machine says about why it stopped."""

_RUN_LIMIT_SLACK_S = 60.0


def tail(link: str) -> str:
    """The last part of a link."""
    return link.rsplit("/", 1)[-1]


def moment(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 for none."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


def handle(instance: Mapping[str, Any]) -> Handle:
    """The handle of an instance: its own link from `projects/` on."""
    return Handle("gcp", native.partial(str(instance["selfLink"])))


def parse(handle: Handle) -> tuple[str, str, str]:
    """(project, zone, name) of a handle. Raises SpecError for what is none."""
    parts = handle.native_id.split("/")
    if (
        len(parts) != 6
        or (parts[0], parts[2], parts[4]) != ("projects", "zones", "instances")
        or not all(parts)
    ):
        raise SpecError([Problem("", "projects/P/zones/Z/instances/N", repr(handle.native_id))])
    return parts[1], parts[3], parts[5]


def accelerator(instance: Mapping[str, Any]) -> tuple[str, int]:
    """(accelerator type, count): as the API says, or as the machine type implies where it says
    nothing.
    """
    listed = instance.get("guestAccelerators") or ()
    if listed:
        return tail(str(listed[0].get("acceleratorType", ""))), sum(
            foreign.whole(item.get("acceleratorCount"), foreign.COUNT) or 0 for item in listed
        )
    return machines.built_in(tail(str(instance.get("machineType", ""))))


def capacity(instance: Mapping[str, Any]) -> str:
    """How it was bought."""
    model = (instance.get("scheduling") or {}).get("provisioningModel", "STANDARD")
    if model in ("SPOT", "FLEX_START"):
        return {"SPOT": SPOT, "FLEX_START": FLEX_START}[model]
    consumed = (instance.get("reservationAffinity") or {}).get("consumeReservationType")
    return (
        RESERVATION
        if consumed == "SPECIFIC_RESERVATION" or model == "RESERVATION_BOUND"
        else ON_DEMAND
    )


def label(instance: Mapping[str, Any]) -> Label | None:
    """Whose it is, by its labels; None for a machine that carries no owner."""
    labels = instance.get("labels") or {}
    if not labels.get(native.OWNER):
        return None
    return Label(
        *(
            str(labels.get(key, ""))
            for key in (native.OWNER, native.CLUSTER, native.GENERATION, native.FINGERPRINT)
        )
    )


def node(handle: Handle, instance: Mapping[str, Any], status: str = "") -> Node:
    """An existing machine. `status` replaces what the instance's own status would mean."""
    zone = tail(str(instance.get("zone", "")))
    kind, count = accelerator(instance)
    machine_type = tail(str(instance.get("machineType", "")))
    interface = (instance.get("networkInterfaces") or [{}])[0]
    outside = (interface.get("accessConfigs") or [{}])[0]
    raw = str(instance.get("status", ""))
    return Node(
        handle=handle,
        name=str(instance.get("name", "")),
        status=status or STATUSES.get(raw, STARTING),
        label=label(instance),
        region=zone.rsplit("-", 1)[0],
        zone=zone,
        machine_type=machine_type,
        # To N1 GPUs are attached, and the API names them.
        gpu_type=machines.GPU_OF.get(kind, kind)
        or (NO_GPU if machine_type.startswith("n1-") else ""),
        gpu_count=count,
        capacity=capacity(instance),
        internal_ip=str(interface.get("networkIP", "")),
        external_ip=str(outside.get("natIP", "")),
        created_at=moment(str(instance.get("creationTimestamp", ""))),
        detail=raw + (f": {instance['statusMessage']}" if instance.get("statusMessage") else ""),
    )


def gone(handle: Handle, status: str, detail: str, *, ended: bool = False) -> Node:
    """A machine that Google says does not exist."""
    _, zone, name = parse(handle)
    return Node(
        handle=handle,
        name=name,
        status=status,
        region=zone.rsplit("-", 1)[0],
        zone=zone,
        detail=detail,
        ended=ended,
    )


def why(
    operations: Sequence[Mapping[str, Any]], name: str, instance: Mapping[str, Any] | None
) -> str:
    """Why a machine stops, stopped or is gone: preempted, ended (run limit), or the plain status
    ("" when nothing tells).

    By the newest operation that ended it (of this very machine, if its id is known); without one, a
    machine that outlived its run limit ended by it, and a Spot machine that nobody stopped was
    preempted.
    """
    for operation in operations:
        if tail(str(operation.get("targetLink", ""))) != name:
            continue
        if (
            instance is not None
            and operation.get("targetId")
            and instance.get("id")
            and str(operation["targetId"]) != str(instance["id"])
        ):
            continue
        told = ENDINGS.get(str(operation.get("operationType")), "")
        if told != STOPPED or instance is None:
            return told
        if operation.get("operationType") == "compute.instances.guestTerminate" and _timed(
            instance
        ):
            return ENDED
        return STATUSES.get(str(instance.get("status")), STOPPED)
    if instance is None:
        return ""
    plan = instance.get("scheduling") or {}
    limit_s = (
        foreign.real((plan.get("maxRunDuration") or {}).get("seconds"), foreign.SECONDS) or 0.0
    )
    started, stopped = (
        moment(str(instance.get(key, ""))) for key in ("lastStartTimestamp", "lastStopTimestamp")
    )
    if limit_s and started and stopped >= started + limit_s - _RUN_LIMIT_SLACK_S:
        return ENDED
    status = STATUSES.get(str(instance.get("status")), STOPPED)
    return (
        PREEMPTED
        if capacity(instance) == SPOT
        and str(instance.get("status")) in ("STOPPING", "TERMINATED", "STOPPED")
        else status
    )


def _timed(instance: Mapping[str, Any]) -> bool:
    """True when the machine was given a timer of its own that powers it off once it is idle."""
    items = (instance.get("metadata") or {}).get("items") or ()
    return any(
        item.get("key") == "startup-script" and idle.limit_s(str(item.get("value", "")))
        for item in items
    )


def has_local_ssd(instance: Mapping[str, Any]) -> bool:
    """True when it has local SSD: added to it, or bundled with its machine type (of a machine that
    somebody else made, as far as that is known).
    """
    kind = tail(str(instance.get("machineType", "")))
    bundled = kind in machines.known() and machines.bundled_ssd(kind)
    return bundled or any(disk.get("type") == "SCRATCH" for disk in instance.get("disks") or ())


def describe(instance: Mapping[str, Any]) -> str:
    """What a machine is, for a message."""
    kind, count = accelerator(instance)
    where, machine_type = (
        tail(str(instance.get("zone", ""))),
        tail(str(instance.get("machineType", ""))),
    )
    return (
        f"{machine_type} with {count} x {machines.GPU_OF.get(kind, kind or 'no GPU')}"
        f" {capacity(instance)} in {where}"
    )


def placed(order: Order, instances: Sequence[Mapping[str, Any]]) -> Candidate | None:
    """The candidate that all instances are, or None when they are not what was ordered.

    A zone that no candidate names is filled in where a candidate names only the region.
    """
    for candidate in order.candidates:
        zones = {tail(str(instance.get("zone", ""))) for instance in instances}
        zone = next(iter(zones))
        if (
            len(zones) != 1
            or (candidate.zone and candidate.zone != zone)
            or zone.rsplit("-", 1)[0] != candidate.region
        ):
            continue
        if all(_is(candidate, instance) for instance in instances):
            return (
                candidate
                if candidate.zone
                else candidate._replace(offer=candidate.offer._replace(zone=zone))
            )
    return None


def _is(candidate: Candidate, instance: Mapping[str, Any]) -> bool:
    kind, count = accelerator(instance)
    wanted = candidate.offer.accelerator or machines.built_in(candidate.machine_type)[0]
    return (
        tail(str(instance.get("machineType", ""))) == candidate.machine_type
        and count == candidate.gpu_count
        and (kind == wanted if wanted else machines.GPU_OF.get(kind, kind) == candidate.gpu_type)
        and capacity(instance) == candidate.capacity
    )
