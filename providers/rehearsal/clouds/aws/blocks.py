"""Capacity Blocks: what is offered, the purchase, and where a bought one stands at a time.

EC2's rules as its user guide has them ("Capacity Blocks for ML", 2026): GPU types of the P family,
1 to 64 machines by powers of two, whole days up to 14 and whole weeks up to 26, a beginning at
11:30 UTC within 8 weeks; machines are ended 30 minutes before the end. A purchase has no client
token: each one buys. The prices are made up, near what AWS lists.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.aws import machines, places
from providers.rehearsal.clouds.aws.state import PROVIDER
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.state import Rows

USD_PER_HOUR = {
    "p4d.24xlarge": 11.80,
    "p4de.24xlarge": 14.75,
    "p5.48xlarge": 31.46,
    "p5e.48xlarge": 34.61,
    "p5en.48xlarge": 41.61,
    "p6-b200.48xlarge": 74.88,
    "p6-b300.48xlarge": 97.34,
}
"""Of one machine; a purchase is for all hours of all machines at once."""
SIZES = (1, 2, 4, 8, 16, 32, 64)
DAY_S, HOUR_S = 86_400, 3_600
OPENS_S = 11.5 * HOUR_S
"""The time of day at which blocks begin and end, UTC."""
AHEAD_S = 56 * DAY_S
ENDS_EARLY_S = 1_800
DAYS_LISTED = 3
"""How many beginnings are offered in each zone, a day apart."""
KIND = "block-offering"


def offerings(call: Call) -> Json:
    """What could be bought: in each zone that has the type and room for a block, the next days."""
    given = call.given
    kind, count = str(given.get("InstanceType") or ""), int(given.get("InstanceCount") or 0)
    hours = given["CapacityDurationHours"]
    if not kind or not count:
        raise Refusal(
            400, "MissingParameter", "The request must contain InstanceType and InstanceCount"
        )
    if kind not in USD_PER_HOUR or count not in SIZES or not _length(hours):
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"No Capacity Blocks of {count} x {kind} for {hours} hours",
        )
    earliest = max(call.rows.now, _moment(given.get("StartDateRange"), call.rows.now))
    latest = _moment(given.get("EndDateRange"), call.rows.now + AHEAD_S + hours * HOUR_S)
    first = (earliest - OPENS_S) // DAY_S * DAY_S + OPENS_S
    first += 0 if first >= earliest else DAY_S
    found = []
    for name, zone in sorted(places.names(call.region).items()):
        if not places.has(zone, kind) or _room(call.rows, zone, kind) < count:
            continue
        for day in range(DAYS_LISTED):
            begins = first + day * DAY_S
            ends = begins + hours * HOUR_S
            if ends <= latest and begins <= call.rows.now + AHEAD_S:
                found.append(_offering(call.rows, name, kind, count, begins, ends))
    return {"CapacityBlockOfferings": found}


def offered(call: Call) -> Json:
    """The offering that a purchase names. Raises Refusal where it is none, or none any more."""
    name = call.given["CapacityBlockOfferingId"]
    found = call.rows.things(call.region, KIND, name)
    if not found:
        raise Refusal(
            400, "InvalidParameterValue", f"The Capacity Block offering '{name}' does not exist"
        )
    offering = found[0]
    room = _room(call.rows, offering["zone"], offering["kind"])
    if offering["begins"] < call.rows.now or room < offering["count"]:
        raise Refusal(
            400, "InvalidParameterValue", f"The Capacity Block offering '{name}' has expired"
        )
    return offering


def state(item: Json, now: float) -> str:
    """Where a reservation stands: a block by its window, any other as it was written."""
    if not item.get("window") or item["State"] != "scheduled":
        return str(item["State"])
    begins, ends = item["window"]
    return "scheduled" if now < begins else "active" if now < ends else "expired"


def paid(rows: Rows) -> list[tuple[str, float]]:
    """Every block that was bought, by id, with what it cost in dollars."""
    return [
        (str(item["CapacityReservationId"]), float(item["fee"]))
        for region in places.regions()
        for item in rows.things(region, "reservation")
        if item.get("fee")
    ]


def ends_machines_at(rows: Rows, region: str, reservation: str) -> float:
    """When EC2 ends what runs in a reservation; 0 for never."""
    found = rows.things(region, "reservation", reservation) if reservation else []
    window = found[0].get("window") if found else None
    return float(window[1]) - ENDS_EARLY_S if window else 0.0


def _offering(
    rows: Rows, zone_name: str, kind: str, count: int, begins: float, ends: float
) -> Json:
    region = zone_name[:-1]
    hours = round((ends - begins) / HOUR_S)
    fee = f"{USD_PER_HOUR[kind] * hours * count:.2f}"
    name = places.made_up("cb", zone_name, kind, str(count), str(begins), str(ends))
    if not rows.things(region, KIND, name):
        zone = places.names(region)[zone_name]
        body = {"zone": zone, "kind": kind, "count": count, "fee": fee}
        rows.add_thing(region, KIND, name, {**body, "begins": begins, "ends": ends})
    return {
        "CapacityBlockOfferingId": name,
        "InstanceType": kind,
        "AvailabilityZone": zone_name,
        "InstanceCount": count,
        "StartDate": begins,
        "EndDate": ends,
        "CapacityBlockDurationHours": hours,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _room(rows: Rows, zone: str, kind: str) -> int:
    """How many machines of blocks the zone can still sell, by the stock of capacity `block`."""
    gpu, _ = machines.gpus_of(kind)
    region = places.region_of(zone)
    line = rows.store.stock(PROVIDER, region, zone, kind, (gpu,), "block")
    if line.machines is None:
        return max(SIZES)
    sold: int = sum(
        item["TotalInstanceCount"]
        for item in rows.things(region, "reservation")
        if item.get("window")
        and (item["AvailabilityZoneId"], item["InstanceType"]) == (zone, kind)
        and state(item, rows.now) != "expired"
    )
    return max(0, line.machines - sold)


def _length(hours: int) -> bool:
    days, rest = divmod(hours, 24)
    return not rest and (1 <= days <= 14 or (days % 7 == 0 and days <= 182))


def _moment(given: Any, otherwise: float) -> float:
    if not given:
        return otherwise
    try:
        return datetime.datetime.fromisoformat(str(given)).timestamp()
    except ValueError:
        raise Refusal(400, "InvalidParameterValue", f"{given} is no date") from None
