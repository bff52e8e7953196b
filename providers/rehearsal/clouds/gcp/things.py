"""What a project can look up: machine types, accelerators, regions with quota, zones, images,
disks. Owns their bodies; reads rows.

The only edit here is the deletion of a disk that its machine left behind.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import images, machines, place, wish
from providers.rehearsal.clouds.gcp.wire import ROOT, Json, Refusal, invalid, missing, timestamp

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call, Scoped
    from providers.rehearsal.clouds.gcp.state import Rows, Vm

_SINCE = "2020-01-01T00:00:00.000+00:00"


def zone(call: Call) -> str:
    """The path's zone, or 400."""
    return wish.zone_known(call.path["zone"])


def zone_scopes() -> list[str]:
    """`zones/Z` of every zone."""
    return [f"zones/{name}" for name in machines.zones()]


def region_scopes() -> list[str]:
    """`regions/R` of every region."""
    return [f"regions/{name}" for name in machines.regions()]


def _id(kind: int, text: str) -> str:
    import zlib

    return str(kind * 10**18 + zlib.crc32(text.encode()))


def _zones_asked(call: Call) -> tuple[str, ...]:
    return (zone(call),) if "zone" in call.path else machines.zones()


def _machine_type(project: str, where: str, found: machines.MachineType) -> Json:
    link = f"{ROOT}/projects/{project}/zones/{where}/machineTypes/{found.name}"
    out: Json = {
        "kind": "compute#machineType",
        "id": _id(3, found.name),
        "name": found.name,
        "zone": where,
        "guestCpus": found.vcpus,
        "memoryMb": found.memory_mib,
        "isSharedCpu": False,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "architecture": "ARM64" if found.name.startswith("a4x-") else "X86_64",
        "creationTimestamp": _SINCE,
        "selfLink": link,
    }
    if found.gpu_count >= 1:
        out["accelerators"] = [
            {
                "guestAcceleratorType": found.accelerator,
                "guestAcceleratorCount": int(found.gpu_count),
            }
        ]
    if found.bundled_ssd_gib:
        out["bundledLocalSsds"] = {
            "defaultInterface": "NVME",
            "partitionCount": max(1, found.bundled_ssd_gib // 375),
        }
    return out


def machine_type(call: Call) -> Json:
    """One machine type in one zone. Raises 404."""
    where, name = zone(call), call.path["machineType"]
    found = machines.types().get(name)
    if found is None or where not in found.zones:
        raise missing(f"projects/{call.project}/zones/{where}/machineTypes/{name}")
    return _machine_type(call.project, where, found)


def machine_types(call: Call) -> Scoped:
    """Every machine type of the zone, or of all zones."""
    kinds = machines.types().values()
    return [
        (f"zones/{where}", _machine_type(call.project, where, kind))
        for where in _zones_asked(call)
        for kind in kinds
        if where in kind.zones
    ]


def _accelerator(project: str, where: str, name: str, most: int) -> Json:
    return {
        "kind": "compute#acceleratorType",
        "id": _id(6, name),
        "name": name,
        "description": name,
        "zone": f"{ROOT}/projects/{project}/zones/{where}",
        "maximumCardsPerInstance": most,
        "creationTimestamp": _SINCE,
        "selfLink": f"{ROOT}/projects/{project}/zones/{where}/acceleratorTypes/{name}",
    }


def accelerator_type(call: Call) -> Json:
    """One accelerator type in one zone. Raises 404."""
    where, name = zone(call), call.path["acceleratorType"]
    most, zones_of = machines.accelerators().get(name, (0, frozenset()))
    if where not in zones_of:
        raise missing(f"projects/{call.project}/zones/{where}/acceleratorTypes/{name}")
    return _accelerator(call.project, where, name, most)


def accelerator_types(call: Call) -> Scoped:
    """Every accelerator type of the zone, or of all zones."""
    return [
        (f"zones/{where}", _accelerator(call.project, where, name, most))
        for where in _zones_asked(call)
        for name, (most, zones_of) in sorted(machines.accelerators().items())
        if where in zones_of
    ]


def _quotas(rows: Rows, held: list[Vm], region_name: str) -> list[Json]:
    """The GPU metrics that the API has: each with what the scenario allows and what runs. There is
    none for H200, B200 and newer.
    """
    out = []
    for metric in sorted(set(place.QUOTA_METRICS.values())):
        for name in (metric, f"PREEMPTIBLE_{metric}"):
            if name not in place.NO_METRIC:
                usage = place.used(held, region_name, name)
                out.append(
                    {
                        "metric": name,
                        "limit": place.quota_limit(rows, region_name, name),
                        "usage": usage,
                    }
                )
    return out


def _region(call: Call, name: str, held: list[Vm]) -> Json:
    link = f"{ROOT}/projects/{call.project}"
    return {
        "kind": "compute#region",
        "id": _id(1, name),
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [
            f"{link}/zones/{where}"
            for where in machines.zones()
            if machines.region_of(where) == name
        ],
        "quotas": _quotas(call.rows, held, name),
        "creationTimestamp": _SINCE,
        "selfLink": f"{link}/regions/{name}",
    }


def region(call: Call) -> Json:
    """One region with its quotas. Raises 404."""
    if call.path["region"] not in machines.regions():
        raise missing(f"projects/{call.project}/regions/{call.path['region']}")
    return _region(call, call.path["region"], place.holding(call.rows, call.project))


def regions(call: Call) -> Scoped:
    """Every region."""
    held = place.holding(call.rows, call.project)
    return [("global", _region(call, name, held)) for name in machines.regions()]


def _zone(project: str, name: str) -> Json:
    link = f"{ROOT}/projects/{project}"
    return {
        "kind": "compute#zone",
        "id": _id(2, name),
        "name": name,
        "description": name,
        "status": "UP",
        "region": f"{link}/regions/{machines.region_of(name)}",
        "creationTimestamp": _SINCE,
        "selfLink": f"{link}/zones/{name}",
    }


def one_zone(call: Call) -> Json:
    """One zone. Raises 404."""
    if call.path["zone"] not in machines.zones():
        raise missing(f"projects/{call.project}/zones/{call.path['zone']}")
    return _zone(call.project, call.path["zone"])


def zones(call: Call) -> Scoped:
    """Every zone."""
    return [("global", _zone(call.project, name)) for name in machines.zones()]


def project(call: Call) -> Json:
    """The project, with its global GPU quota."""
    metric = place.GLOBAL_METRIC
    usage = place.quota_usage(call.rows, call.project, "", metric)
    return {
        "kind": "compute#project",
        "id": _id(9, call.project),
        "name": call.project,
        "quotas": [
            {"metric": metric, "limit": place.quota_limit(call.rows, "", metric), "usage": usage}
        ],
        "defaultServiceAccount": (
            f"{_id(1, call.project)[:12]}-compute@developer.gserviceaccount.com"
        ),
        "defaultNetworkTier": "PREMIUM",
        "creationTimestamp": _SINCE,
        "selfLink": f"{ROOT}/projects/{call.project}",
    }


def image(call: Call) -> Json:
    """One public image. Raises 404."""
    return images.by_name(call.project, call.path["image"])


def image_family(call: Call) -> Json:
    """The newest image of a family. Raises 404."""
    return images.resource(call.project, call.path["family"])


def images_of(call: Call) -> Scoped:
    """The images of a project."""
    return [("global", item) for item in images.listed(call.project)]


# Disks


def _disks(call: Call, where: str) -> list[tuple[int, str, Json]]:
    """(id, zone, body) of the disks that exist now: those with autoDelete go with their machine."""
    rows = call.rows
    owners = {vm.id: vm for vm in rows.vms("project = ?", (call.project,), existing=False)}
    query = (
        "SELECT id, zone, vm, auto_delete, created, gone, body FROM gcp_disk WHERE project = ? AND"
        " ? IN ('', zone) ORDER BY id"
    )
    out = []
    for number, at, vm_id, auto_delete, created, gone, text in rows.db.execute(
        query, (call.project, where)
    ):
        owner = owners.get(vm_id)
        attached = owner is not None and owner.exists(rows.now)
        if (gone is not None and rows.now >= gone) or (auto_delete and not attached):
            continue
        link = f"{ROOT}/projects/{call.project}/zones/{at}"
        body = json.loads(text)
        body |= {
            "kind": "compute#disk",
            "id": str(6_000_000_000_000_000_000 + number),
            "status": "READY",
            "zone": link,
            "creationTimestamp": timestamp(created),
            "labelFingerprint": "bGFiZWxz",
            "selfLink": f"{link}/disks/{body['name']}",
        }
        if attached and owner is not None:
            body["users"] = [owner.link()]
        out.append((number, at, {key: value for key, value in body.items() if value != ""}))
    return out


def disks(call: Call) -> Scoped:
    """The disks of the zone, or of all zones."""
    return [
        (f"zones/{at}", body)
        for _, at, body in _disks(call, zone(call) if "zone" in call.path else "")
    ]


def _disk(call: Call) -> tuple[int, str, Json]:
    for number, at, body in _disks(call, zone(call)):
        if body["name"] == call.path["disk"]:
            return number, at, body
    raise missing(f"projects/{call.project}/zones/{call.path['zone']}/disks/{call.path['disk']}")


def disk(call: Call) -> Json:
    """One disk. Raises 404."""
    return _disk(call)[2]


def delete_disk(call: Call) -> Json:
    """Deletes a disk that no machine uses."""
    number, at, body = _disk(call)
    if body.get("users"):
        used = body["users"][0].removeprefix(f"{ROOT}/")
        raise Refusal(
            400,
            "resourceInUseByAnotherResource",
            f"The disk resource '{call.path['disk']}' is already being used by '{used}'",
        )
    done = call.rows.now + call.rows.latency("delete") + call.slower_s
    planned = call.planned_errors()
    if not planned:
        call.rows.db.execute("UPDATE gcp_disk SET gone = ? WHERE id = ?", (done, number))
    return call.operation(
        f"zones/{at}", "delete", body["selfLink"], done, target_id=body["id"], errors=planned
    )


def known_region(call: Call) -> str:
    """The path's region, or 400."""
    if call.path["region"] not in machines.regions():
        raise invalid("region", call.path["region"], "Unknown region.")
    return call.path["region"]
