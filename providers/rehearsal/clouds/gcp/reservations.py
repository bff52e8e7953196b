"""Reservations, and the future reservations that deliver them. Owns their bodies.

A rehearsal approves a future reservation at once and delivers it whole at its start; live, Google
decides, and an account team is asked for the large ones. Its reservation, and the machines bound to
it, end with its time window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import surroundings, things, wish
from providers.rehearsal.clouds.gcp.state import HOLDING
from providers.rehearsal.clouds.gcp.wire import (
    ROOT,
    Json,
    Refusal,
    delivered,
    exists,
    invalid,
    moment,
    tail,
    timestamp,
)

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call, Scoped


def insert(call: Call) -> Json:
    """Capacity kept for a machine type in a zone."""
    zone = things.zone(call)
    specific = call.body.get("specificReservation")
    if not specific:
        raise Refusal(
            400, "required", "Required field 'resource.specificReservation' not specified"
        )
    machine = _machine(specific, zone, "resource.specificReservation")
    count = _count(specific.get("count"), "resource.specificReservation.count")
    if machine.startswith("a4x-"):
        raise Refusal(400, "badRequest", f"{machine} is reserved by a future reservation only.")
    body = {
        "specificReservation": {
            **specific,
            "count": str(count),
            "assuredCount": str(count),
            "inUseCount": "0",
        },
        "specificReservationRequired": bool(call.body.get("specificReservationRequired", False)),
        "status": "READY",
        "zone": f"{ROOT}/projects/{call.project}/zones/{zone}",
    }
    return surroundings.added(call, body)


def _machine(holder: Json, zone: str, field: str) -> str:
    properties = holder.get("instanceProperties") or {}
    return wish.machine_type(
        properties.get("machineType"), zone, f"{field}.instanceProperties.machineType", bare=True
    ).name


def _count(given: object, field: str) -> int:
    count = int(str(given or 0))
    if count < 1:
        raise invalid(field, count, "Must be at least 1.")
    return count


def _with_use(call: Call, body: Json) -> Json:
    zone = tail(body["zone"])
    same = call.rows.vms("zone = ? AND reservation = ?", (zone, body["name"]))
    used = sum(vm.status(call.rows.now) in HOLDING for vm in same)
    return {**body, "specificReservation": {**body["specificReservation"], "inUseCount": str(used)}}


def listed(call: Call) -> Scoped:
    """The reservations of all zones."""
    found = call.rows.resources(call.project, "reservations")
    return [(scope, _with_use(call, body)) for _, scope, _, body in found]


# Future reservations


def insert_future(call: Call) -> Json:
    """Capacity for a machine type in a zone from a start to an end. Its reservation is there from
    the start on, under `reservationName`.
    """
    zone, rows = things.zone(call), call.rows
    sku, window = call.body.get("specificSkuProperties") or {}, call.body.get("timeWindow") or {}
    _machine(sku, zone, "resource.specificSkuProperties")
    count = _count(sku.get("totalCount"), "resource.specificSkuProperties.totalCount")
    start = moment(window.get("startTime", ""), "resource.timeWindow.startTime")
    seconds = float((window.get("duration") or {}).get("seconds", 0))
    end = (
        start + seconds
        if seconds
        else moment(window.get("endTime", ""), "resource.timeWindow.endTime")
    )
    if end <= max(start, rows.now):
        raise invalid(
            "resource.timeWindow", timestamp(end), "Must end after its start, and in the future."
        )
    name = wish.name(
        call.body.get("reservationName") or f"{call.body.get('name')}-0", "resource.reservationName"
    )
    scope = f"zones/{zone}"
    if rows.resources(call.project, "reservations", scope, name):
        raise exists(f"projects/{call.project}/{scope}/reservations/{name}")
    planned = call.planned_errors()
    answer = surroundings.added(
        call, {"reservationName": name, "zone": f"{ROOT}/projects/{call.project}/{scope}"}
    )
    if planned:
        return answer
    reservation = {
        "kind": "compute#reservation",
        "name": name,
        "zone": f"{ROOT}/projects/{call.project}/{scope}",
        "specificReservation": {
            "count": str(count),
            "assuredCount": str(count),
            "inUseCount": "0",
            "instanceProperties": sku["instanceProperties"],
        },
        "specificReservationRequired": bool(call.body.get("specificReservationRequired", True)),
        "status": "READY",
        "creationTimestamp": timestamp(start),
        "deleteAtTime": timestamp(end),
        "selfLink": f"{ROOT}/projects/{call.project}/{scope}/reservations/{name}",
    }
    if call.body.get("deploymentType"):
        reservation["deploymentType"] = call.body["deploymentType"]
    number = rows.add_resource(
        call.project, "reservations", scope, name, {}, start, max(start, rows.now)
    )
    rows.write_resource(number, {**reservation, "id": str(8_000_000_000_000_000_000 + number)})
    rows.end_resource(number, end)
    return answer


def _with_status(call: Call, body: Json) -> Json:
    begun = call.rows.now >= moment(body["timeWindow"]["startTime"])
    status: Json = {"procurementStatus": "FULFILLED" if begun else "APPROVED"}
    if begun:
        status |= {
            "autoCreatedReservations": delivered(body),
            "fulfilledCount": body["specificSkuProperties"]["totalCount"],
        }
    return {**body, "status": status}


def listed_future(call: Call) -> Scoped:
    """The future reservations of all zones."""
    found = call.rows.resources(call.project, "futureReservations")
    return [(scope, _with_status(call, body)) for _, scope, _, body in found]
