"""What a project can look up: machine types, regions with quota, images. Owns their bodies; reads
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import images, machines, place, wish
from providers.rehearsal.clouds.gcp.wire import ROOT, Json, invalid, missing

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


def _id(kind: int, text: str) -> str:
    import zlib

    return str(kind * 10**18 + zlib.crc32(text.encode()))


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


def _quotas(rows: Rows, vms: list[Vm], region_name: str) -> list[Json]:
    """The GPU metrics that the API has: each with what the scenario allows and what runs. There is
    none for H200, B200 and newer.
    """
    out = []
    for metric in sorted(set(place.QUOTA_METRICS.values())):
        for name in (metric, f"PREEMPTIBLE_{metric}"):
            if name not in place.NO_METRIC:
                usage = place.used(vms, region_name, name)
                out.append(
                    {
                        "metric": name,
                        "limit": place.quota_limit(rows, region_name, name),
                        "usage": usage,
                    }
                )
    return out


def _region(call: Call, name: str, vms: list[Vm]) -> Json:
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
        "quotas": _quotas(call.rows, vms, name),
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
    vms = place.holding(call.rows, call.project)
    return [("global", _region(call, name, vms)) for name in machines.regions()]


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


def known_region(call: Call) -> str:
    """The path's region, or 400."""
    if call.path["region"] not in machines.regions():
        raise invalid("region", call.path["region"], "Unknown region.")
    return call.path["region"]
