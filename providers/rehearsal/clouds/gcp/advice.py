"""What Compute Engine says of room for Spot machines: in a rehearsal, the scenario's stock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import machines, place
from providers.rehearsal.clouds.gcp.wire import Json, Refusal, invalid, tail
from providers.rehearsal.clouds.gcp.wish import Wish

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call

ROOM, NONE = 0.9, 0.1
"""The score of a region with a zone that can give all of them, and of another one."""


def capacity(call: Call) -> Json:
    """One recommendation, for the first of the machine types; nothing is kept for anybody."""
    properties = call.body.get("instanceProperties") or {}
    model = (properties.get("scheduling") or {}).get("provisioningModel")
    if model != "SPOT":
        raise invalid("instanceProperties.scheduling.provisioningModel", model, "Must be SPOT.")
    size = int(call.body.get("size") or 0)
    if size < 1:
        raise invalid("size", size, "Must be at least 1.")
    wishes = [each for each in _wishes(call) if each.machine]
    if not wishes:
        raise Refusal(400, "required", "Required field 'instanceSelections' not specified")
    region = call.path["region"]
    policy = call.body.get("distributionPolicy") or {}
    named = [tail(str(each.get("zone", ""))) for each in policy.get("zones") or ()]
    if wrong := [zone for zone in named if machines.region_of(zone) != region]:
        raise invalid("distributionPolicy.zones", wrong[0], f"Must be in region {region}.")
    zones = named or [zone for zone in machines.zones() if machines.region_of(zone) == region]
    rooms = [zone for zone in zones if place.free(call.rows, zone, wishes[0]) >= size]
    shard = {
        "machineType": wishes[0].machine.name,
        "instanceCount": size,
        "provisioningModel": "SPOT",
        **({"zone": rooms[0]} if rooms else {}),
    }
    scores = {"obtainability": ROOM if rooms else NONE, "estimatedUptime": "3600s"}
    return {"recommendations": [{"scores": scores, "shards": [shard]}]}


def _wishes(call: Call) -> list[Wish]:
    policy = call.body.get("instanceFlexibilityPolicy") or {}
    out = []
    for selection in (policy.get("instanceSelections") or {}).values():
        attached = (selection.get("guestAccelerators") or [{}])[0]
        for name in selection.get("machineTypes") or ():
            machine = machines.types().get(name)
            if machine is None:
                raise invalid("instanceSelections.machineTypes", name, "Unknown machine type.")
            kind = tail(str(attached.get("acceleratorType", "")))
            accelerator = machine.accelerator or kind
            gpu = machine.gpu or machines.attachable().get(kind, ("",))[0]
            count = machine.gpu_count or float(attached.get("acceleratorCount") or 0)
            out.append(
                Wish(
                    *(call.project, machine, accelerator, gpu, count, "spot"),
                    *("", 0.0, "DELETE", None, {}),
                )
            )
    return out
