"""Disks that are made on their own and outlive machines. Owns their bodies, and what Compute Engine
refuses of them and of a machine that attaches one.

Sizes and modes: Google, "About Persistent Disk", "About Hyperdisk" and "Share a disk between
instances", 2026-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import attachments, machines, place, surroundings, things, wish
from providers.rehearsal.clouds.gcp.vms import fingerprint
from providers.rehearsal.clouds.gcp.wire import (
    ROOT,
    Json,
    Refusal,
    invalid,
    quota_refusal,
    tail,
    timestamp,
)

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call, Scoped
    from providers.rehearsal.clouds.gcp.state import Rows

_LEAST_GB = {
    "pd-standard": 10,
    "pd-balanced": 10,
    "pd-ssd": 10,
    "pd-extreme": 500,
    "hyperdisk-balanced": 4,
}
_MOST_GB = 65_536
QUOTA = "SSD_TOTAL_GB"


def insert(call: Call) -> Json:
    """A blank disk. Raises 400 for a type or size that there is not, 403 beyond the quota."""
    zone, given = things.zone(call), call.body
    kind = tail(str(given.get("type") or "pd-standard"))
    if kind not in _LEAST_GB:
        raise invalid("resource.type", given.get("type"), "The referenced resource does not exist.")
    wish.labels(given.get("labels"), "resource.labels")
    size = _size(given.get("sizeGb") or 500, kind, "resource.sizeGb")
    region = machines.region_of(zone)
    limit = place.quota_limit(call.rows, region, QUOTA)
    if kind != "pd-standard" and _used_gb(call, region) + size > limit:
        raise quota_refusal(QUOTA, limit, region)
    link = f"{ROOT}/projects/{call.project}/zones/{zone}"
    return surroundings.added(
        call,
        {
            "sizeGb": str(size),
            "type": f"{link}/diskTypes/{kind}",
            "zone": link,
            "status": "READY",
            "labels": given.get("labels") or {},
            "physicalBlockSizeBytes": "4096",
        },
    )


def get(call: Call) -> Json:
    """One disk. Raises 404."""
    return _shown(call.rows, surroundings.one(call)[3])


def listed(call: Call) -> Scoped:
    """Every disk that was made on its own."""
    return [
        (scope, _shown(call.rows, body))
        for _, scope, _, body in call.rows.resources(call.project, attachments.KIND)
    ]


def resize(call: Call) -> Json:
    """Makes a disk larger, whatever uses it. Raises 400 for a smaller size."""
    number, _, _, body = surroundings.one(call)
    size = _size(call.body.get("sizeGb") or 0, tail(body["type"]), "sizeGb")
    if size < int(body["sizeGb"]):
        raise invalid(
            "sizeGb",
            size,
            f"New disk size '{size}' GiB must be larger than '{body['sizeGb']}' GiB.",
        )
    return _edited(call, number, body, "resizeDisk", sizeGb=str(size))


def set_labels(call: Call) -> Json:
    """Replaces a disk's labels; the caller must give the fingerprint of those it read."""
    number, _, _, body = surroundings.one(call, "resource")
    wish.labels(call.body.get("labels"), "labels")
    if call.body.get("labelFingerprint") != fingerprint(body["labels"]):
        raise Refusal(
            412,
            "conditionNotMet",
            "Labels fingerprint either invalid or resource labels have changed",
        )
    return _edited(call, number, body, "setLabels", labels=call.body.get("labels") or {})


def _edited(call: Call, number: int, body: Json, kind: str, **change: object) -> Json:
    done = call.rows.now + call.rows.latency("edit") + call.slower_s
    planned = call.planned_errors()
    if not planned:
        call.rows.write_resource(number, {**body, **change})
    scope = body["zone"].removeprefix(f"{ROOT}/projects/{call.project}/")
    return call.operation(scope, kind, body["selfLink"], done, target_id=body["id"], errors=planned)


def _shown(rows: Rows, body: Json) -> Json:
    there = attachments.users(rows, body)
    out = {**body, "labelFingerprint": fingerprint(body["labels"])}
    if there:
        out |= {"users": [link for link, _ in there], "lastAttachTimestamp": timestamp(rows.now)}
    return out


def _size(value: object, kind: str, field: str) -> int:
    size = int(str(value))
    if not _LEAST_GB[kind] <= size <= _MOST_GB:
        raise invalid(
            field,
            size,
            f"Disk size: '{size}' GB must be between {_LEAST_GB[kind]} GB and {_MOST_GB} GB for"
            f" disk type {kind}.",
        )
    return size


def _used_gb(call: Call, region: str) -> int:
    return sum(
        int(body["sizeGb"])
        for _, scope, _, body in call.rows.resources(call.project, attachments.KIND)
        if machines.region_of(tail(scope)) == region
    )
