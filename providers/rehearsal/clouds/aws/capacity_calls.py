"""Capacity beside the machines: Capacity Reservations, Capacity Blocks and Spot requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.aws import blocks, filters, machines, places
from providers.rehearsal.clouds.aws.state import ACCOUNT, HOLDING, PROVIDER
from providers.rehearsal.clouds.aws.things import tag_list, tags_given
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.state import Rows


def create_reservation(call: Call) -> Json:
    """A new reservation on demand, as a user makes it outside this product."""
    given = call.given
    zone = given.get("AvailabilityZoneId") or places.names(call.region).get(
        given.get("AvailabilityZone", ""), ""
    )
    if zone not in places.zones(call.region) or not places.has(zone, given["InstanceType"]):
        raise Refusal(
            400, "Unsupported", f"{given['InstanceType']} is not supported in {zone or 'that zone'}"
        )
    return {
        "CapacityReservation": reservation(
            call.rows,
            own_reservation(
                call.rows,
                zone,
                given["InstanceType"],
                given["InstanceCount"],
                tags_given(call, "capacity-reservation"),
            ),
        )
    }


def purchase_block(call: Call) -> Json:
    """Buys a Capacity Block, once more each time that it is asked."""
    offering = blocks.offered(call)
    if call.planned:
        raise call.planned
    made = own_reservation(
        call.rows,
        offering["zone"],
        offering["kind"],
        offering["count"],
        tags_given(call, "capacity-reservation"),
        block=True,
        state="scheduled",
        window=(offering["begins"], offering["ends"]),
        fee=offering["fee"],
    )
    return {"CapacityReservation": reservation(call.rows, made)}


def own_reservation(
    rows: Rows,
    zone: str,
    machine_type: str,
    count: int,
    tags: dict[str, str],
    *,
    block: bool = False,
    state: str = "active",
    window: tuple[float, float] | None = None,
    fee: str = "",
) -> Json:
    """Writes a reservation that the account owns, or a Capacity Block, with window and price."""
    region = places.region_of(zone)
    name = places.made_up(
        "cr", zone, machine_type, repr(rows.now), str(len(rows.things(region, "reservation")))
    )
    body = {
        "CapacityReservationId": name,
        "InstanceType": machine_type,
        "AvailabilityZoneId": zone,
        "TotalInstanceCount": count,
        "State": state,
        "block": block,
        "tags": tags,
        "created": rows.now,
        "window": window,
        "fee": fee,
    }
    rows.add_thing(region, "reservation", name, body)
    return body


def reservation(rows: Rows, item: Json) -> Json:
    """A reservation as EC2 shows it now."""
    region = places.region_of(item["AvailabilityZoneId"])
    name = item["CapacityReservationId"]
    taken = sum(
        reserved.reservation == name and reserved.state(rows.now) in HOLDING
        for reserved in rows.instances(region)
    )
    return {
        "CapacityReservationId": name,
        "InstanceType": item["InstanceType"],
        "AvailabilityZone": places.name_of(item["AvailabilityZoneId"]),
        "AvailabilityZoneId": item["AvailabilityZoneId"],
        "TotalInstanceCount": item["TotalInstanceCount"],
        "AvailableInstanceCount": item["TotalInstanceCount"] - taken,
        "State": blocks.state(item, rows.now),
        "CreateDate": item["created"],
        **(
            {"StartDate": item["window"][0], "EndDate": item["window"][1]} if item["window"] else {}
        ),
        "ReservationType": "capacity-block" if item["block"] else "default",
        "OwnerId": ACCOUNT,
        "Tags": tag_list(item["tags"]),
    }


def reservations(call: Call) -> Json:
    """Reservations, with what is free in each."""
    found = [reservation(call.rows, item) for item in call.rows.things(call.region, "reservation")]
    ids = (
        "CapacityReservationIds",
        lambda item: item["CapacityReservationId"],
        "InvalidCapacityReservationId.NotFound",
    )
    return filters.paged(
        {"CapacityReservations": filters.chosen(found, call.given, {}, ids=ids)}, call.given
    )


def cancel_reservation(call: Call) -> Json:
    """Ends a reservation."""
    found = call.rows.things(call.region, "reservation", call.given["CapacityReservationId"])
    if found and found[0]["block"]:
        raise Refusal(400, "UnsupportedOperation", "A Capacity Block cannot be cancelled")
    if not found:
        raise Refusal(
            400, "InvalidCapacityReservationId.NotFound", "The capacity reservation does not exist"
        )
    call.rows.end_thing(found[0])
    return {"Return": True}


def spot_requests(call: Call) -> Json:
    """Spot requests, with the machine under each."""
    found = []
    for item in call.rows.things(call.region, "spot-request"):
        under = [
            reserved
            for reserved in call.rows.instances(call.region)
            if reserved.body["spot_request"] == item["id"]
        ]
        entry: dict[str, Any] = {
            "SpotInstanceRequestId": item["id"],
            "Type": item["type"],
            "State": item["state"],
            "Tags": tag_list(item["tags"]),
        }
        if under:
            entry["InstanceId"] = under[-1].name
        found.append(entry)
    fields = {
        "spot-instance-request-id": lambda item: [item["SpotInstanceRequestId"]],
        "state": lambda item: [item["State"]],
    }
    ids = (
        "SpotInstanceRequestIds",
        lambda item: item["SpotInstanceRequestId"],
        "InvalidSpotInstanceRequestID.NotFound",
    )
    return filters.paged(
        {"SpotInstanceRequests": filters.chosen(found, call.given, fields, ids=ids)}, call.given
    )


def cancel_spot(call: Call) -> Json:
    """Cancels Spot requests; the machines under them go on."""
    out = []
    for name in call.given["SpotInstanceRequestIds"]:
        found = call.rows.things(call.region, "spot-request", name)
        if not found:
            raise Refusal(
                400,
                "InvalidSpotInstanceRequestID.NotFound",
                f"The spot instance request ID '{name}' does not exist",
            )
        call.rows.write_thing({**found[0], "state": "cancelled"})
        out.append({"SpotInstanceRequestId": name, "State": "cancelled"})
    return {"CancelledSpotInstanceRequests": out}


FEW_TYPES, LOW = 3, 3
"""Of fewer types than this the score is never above LOW (EC2's user guide)."""


def placement_scores(call: Call) -> Json:
    """How likely each region has room for Spot machines of these types: the scenario's stock."""
    types = call.given.get("InstanceTypes") or ()
    size = int(call.given["TargetCapacity"])
    if not types or call.given.get("SingleAvailabilityZone"):
        raise Refusal(
            400, "InvalidParameterCombination", "the rehearsal cloud scores regions, of named types"
        )
    if unknown := [name for name in types if name not in places.known_types()]:
        raise Refusal(400, "InvalidParameterValue", f"Invalid instance types: {unknown}")
    most = 10 if len(types) >= FEW_TYPES else LOW
    found = [
        {"Region": region, "Score": most if _has_room(call.rows, region, types, size) else 1}
        for region in call.given.get("RegionNames") or places.regions()
    ]
    return {"SpotPlacementScores": found[: int(call.given.get("MaxResults") or 10)]}


def _has_room(rows: Rows, region: str, types: Sequence[str], size: int) -> bool:
    return any(
        line is None or line >= size
        for zone in places.zones(region)
        for name in types
        if places.has(zone, name)
        for line in [
            rows.store.stock(
                *(PROVIDER, region, zone, name, (machines.gpus_of(name)[0],), "spot")
            ).machines
        ]
    )
