"""EBS volumes that are made on their own. Owns their rows' bodies and the calls on them, with EC2's
own refusals (EC2 API reference, 2026-11).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import filters, places, things
from providers.rehearsal.clouds.aws.state import FORGOTTEN
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.state import Rows

KIND = "volume"
_SIZES = {"gp3": (1, 65_536), "gp2": (1, 16_384), "io1": (4, 16_384), "io2": (4, 65_536)}
QUOTA_GIB = 50 * 1024
"""What an account begins with of gp3 in a region (Service Quotas, L-7A658B76: 50 TiB)."""


def create(call: Call) -> Json:
    """A blank volume in a zone."""
    given, zones = call.given, places.names(call.region)
    zone = zones.get(str(given.get("AvailabilityZone")), str(given.get("AvailabilityZoneId", "")))
    if zone not in zones.values():
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"Value ({given.get('AvailabilityZone')}) for parameter availabilityZone is invalid.",
        )
    kind, size = str(given.get("VolumeType", "gp2")), int(given.get("Size", 0))
    _sized(kind, size)
    there = call.rows.things(call.region, KIND)
    if sum(int(each["size"]) for each in there) + size > QUOTA_GIB:
        raise Refusal(400, "VolumeLimitExceeded", "Maximum number of bytes for volumes exceeded.")
    if call.planned:
        raise call.planned
    number = call.rows.db.execute("SELECT coalesce(max(id), 0) + 1 FROM aws_thing").fetchone()[0]
    name = places.made_up("vol", call.region, str(number), repr(call.rows.now))
    body = {
        "id": name,
        "zone": zone,
        "type": kind,
        "size": size,
        "tags": things.tags_given(call, "volume"),
        "ready": call.rows.now + call.rows.latency("edit") + call.slower_s,
        "instance": "",
        "device": "",
    }
    call.rows.add_thing(call.region, KIND, name, body)
    return _shown(call.rows, call.region, call.rows.things(call.region, KIND, name)[0])


def describe(call: Call) -> Json:
    """The region's volumes, page by page."""
    found = [_shown(call.rows, call.region, each) for each in call.rows.things(call.region, KIND)]
    ids = ("VolumeIds", lambda item: item["VolumeId"], "InvalidVolume.NotFound")
    return filters.paged(
        {"Volumes": filters.chosen(found, call.given, _FIELDS, ids=ids)}, call.given
    )


def attach(call: Call) -> Json:
    """Attaches a volume to a machine of its zone that runs or is stopped."""
    thing = named(call.rows, call.region, call.given["VolumeId"])
    instance = next(
        (
            each
            for each in call.rows.instances(call.region)
            if each.name == call.given["InstanceId"]
        ),
        None,
    )
    if instance is None:
        raise Refusal(
            400,
            "InvalidInstanceID.NotFound",
            f"The instance ID '{call.given['InstanceId']}' does not exist",
        )
    shown = _shown(call.rows, call.region, thing)
    if shown["State"] != "available":
        code = "VolumeInUse" if shown["State"] == "in-use" else "IncorrectState"
        raise Refusal(400, code, f"{thing['id']} is {shown['State']}")
    if instance.zone != thing["zone"]:
        raise Refusal(
            400,
            "InvalidVolume.ZoneMismatch",
            f"The volume '{thing['id']}' is not in the same availability zone as instance"
            f" '{instance.name}'",
        )
    if (state := instance.state(call.rows.now)) not in ("running", "stopped"):
        raise Refusal(
            400, "IncorrectState", f"Instance '{instance.name}' is not 'running'. It is '{state}'."
        )
    call.rows.write_thing({**thing, "instance": instance.name, "device": call.given["Device"]})
    return _attachment(thing["id"], instance.name, call.given["Device"])


def modify(call: Call) -> Json:
    """Makes a volume larger, whatever uses it."""
    thing = named(call.rows, call.region, call.given["VolumeId"])
    size = int(call.given.get("Size") or thing["size"])
    _sized(thing["type"], size)
    if size < thing["size"]:
        raise Refusal(400, "InvalidParameterValue", "New size cannot be smaller than existing size")
    call.rows.write_thing({**thing, "size": size})
    return {
        "VolumeModification": {
            "VolumeId": thing["id"],
            "ModificationState": "optimizing",
            "OriginalSize": thing["size"],
            "TargetSize": size,
        }
    }


def delete(call: Call) -> Json:
    """Deletes a volume with its data, unless a machine has it."""
    thing = named(call.rows, call.region, call.given["VolumeId"])
    if _holder(call.rows, call.region, thing):
        raise Refusal(
            400, "VolumeInUse", f"Volume {thing['id']} is currently attached to {thing['instance']}"
        )
    call.rows.end_thing(thing)
    return {}


def everywhere(rows: Rows) -> list[Json]:
    """The bodies of the volumes of all regions."""
    query = "SELECT body FROM aws_thing WHERE kind = ? AND (gone IS NULL OR gone > ?)"
    return [json.loads(body) for (body,) in rows.db.execute(query, (KIND, rows.now))]


def named(rows: Rows, region: str, name: str) -> Json:
    """The volume. Raises Refusal for one that does not exist."""
    found = rows.things(region, KIND, name)
    if not found:
        raise Refusal(400, "InvalidVolume.NotFound", f"The volume '{name}' does not exist.")
    return found[0]


def _sized(kind: str, size: int) -> None:
    least, most = _SIZES.get(kind, (0, 0))
    if not most:
        raise Refusal(400, "InvalidParameterValue", f"Unknown volume type '{kind}'")
    if not least <= size <= most:
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"Volume of {size}GiB is {'smaller' if size < least else 'larger'} than the"
            f" {'minimum' if size < least else 'maximum'} for {kind}: {least} to {most} GiB",
        )


def _holder(rows: Rows, region: str, thing: Json) -> str:
    """The machine that has it: until that is terminated."""
    return next(
        (
            each.name
            for each in rows.instances(region)
            if each.name == thing["instance"]
            and each.state(rows.now) not in (FORGOTTEN, "terminated")
        ),
        "",
    )


def _attachment(volume: str, instance: str, device: str) -> Json:
    return {
        "VolumeId": volume,
        "InstanceId": instance,
        "Device": device,
        "State": "attached",
        "DeleteOnTermination": False,
    }


def _shown(rows: Rows, region: str, thing: Json) -> Json:
    holder = _holder(rows, region, thing)
    state = "in-use" if holder else "available" if thing["ready"] <= rows.now else "creating"
    return {
        "VolumeId": thing["id"],
        "AvailabilityZone": places.name_of(thing["zone"]),
        "AvailabilityZoneId": thing["zone"],
        "Size": thing["size"],
        "VolumeType": thing["type"],
        "State": state,
        "CreateTime": thing["_created"],
        "Encrypted": False,
        "Tags": things.tag_list(thing["tags"]),
        "Attachments": [_attachment(thing["id"], holder, thing["device"])] if holder else [],
    }


_FIELDS: dict[str, Callable[[Json], list[str]]] = {
    "volume-id": lambda item: [item["VolumeId"]],
    "status": lambda item: [item["State"]],
    "volume-type": lambda item: [item["VolumeType"]],
    "availability-zone-id": lambda item: [item["AvailabilityZoneId"]],
    "attachment.instance-id": lambda item: [each["InstanceId"] for each in item["Attachments"]],
}
