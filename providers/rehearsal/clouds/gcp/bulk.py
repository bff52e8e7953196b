"""Bulk inserts, zonal and regional: which zone and type, how many, and the rolling back of what
falls short. Owns nothing that outlives a call.

As Google documents them: `minCount` defaults to `count`; short of it everything is deleted again; a
regional call puts all machines into one zone unless its target shape says otherwise; lower ranks of
an instance flexibility policy come first; pairs that do not exist are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.gcp import machines, place, wish
from providers.rehearsal.clouds.gcp.state import GONE, vm_number
from providers.rehearsal.clouds.gcp.wire import (
    ROOT,
    Json,
    Refusal,
    exists,
    invalid,
    min_count_error,
    quota_error,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from providers.rehearsal.clouds.gcp.call import Call
    from providers.rehearsal.clouds.gcp.wish import Wish

FIELD = "resource.instanceProperties"


class Names(NamedTuple):
    """What to make, and the fewest that are worth keeping. `hosts` gives own host names."""

    total: int
    least: int
    names: tuple[str, ...]
    hosts: dict[str, str]


def zonal(call: Call) -> Json:
    """Several machines of one kind in one zone."""
    zone = wish.zone_known(call.path["zone"])
    spec = call.body
    if spec.get("locationPolicy") or spec.get("instanceFlexibilityPolicy"):
        field = "locationPolicy" if spec.get("locationPolicy") else "instanceFlexibilityPolicy"
        raise invalid(f"resource.{field}", "", "Only for regional bulk inserts.")
    properties = _properties(spec)
    machine = wish.machine_type(
        properties.get("machineType"), zone, f"{FIELD}.machineType", bare=True
    )
    region = machines.region_of(zone)
    wanted = wish.read(
        call.rows, call.project, region, zone, machine, properties, {}, FIELD, bulk=True
    )
    names = _names(call, spec, [zone])
    return _carry_out(call, f"zones/{zone}", region, names, [(zone, wanted)], "ANY_SINGLE_ZONE")


def regional(call: Call) -> Json:
    """Several machines where Google finds room in a region."""
    spec, region = call.body, call.path["region"]
    if region not in machines.regions():
        raise invalid("region", region, "Unknown region.")
    properties = _properties(spec)
    zones, shape = _zones(spec.get("locationPolicy") or {}, region)
    selections = _selections(spec, properties)
    options: list[tuple[str, Wish]] = []
    known = False
    for kind, changed in selections:
        machine = machines.types().get(kind)
        if machine is None:
            continue
        known = known or machine.in_region(region)
        wanted = wish.read(
            call.rows, call.project, region, "", machine, changed, {}, FIELD, bulk=True
        )
        options += [
            (zone, wanted)
            for zone in zones
            if zone in machine.zones
            and (not wanted.attachment or zone in machines.attachable()[wanted.accelerator][1])
        ]
    if not known:
        raise wish.no_such_type(
            f"{FIELD}.machineType", ", ".join(kind for kind, _ in selections), ""
        )
    names = _names(call, spec, list(zones))
    if not options:
        # The region has the type, but in no zone that is allowed or known: asked for in good order,
        # and out of capacity.
        machine = machines.types()[selections[0][0]]
        wanted = wish.read(
            call.rows, call.project, region, "", machine, selections[0][1], {}, FIELD, bulk=True
        )
        return _end(
            call,
            f"regions/{region}",
            [min_count_error(names.least), place.stockout(call.rows, call.project, region, wanted)],
            {},
            "",
        )
    return _carry_out(call, f"regions/{region}", region, names, options, shape)


def _properties(spec: Json) -> Json:
    if spec.get("sourceInstanceTemplate"):
        raise invalid(
            "resource.sourceInstanceTemplate",
            spec["sourceInstanceTemplate"],
            "Templates are not served by this stand-in.",
        )
    properties: Json | None = spec.get("instanceProperties")
    if not properties:
        raise Refusal(400, "required", f"Required field '{FIELD}' not specified")
    return properties


def _names(call: Call, spec: Json, zones: Sequence[str]) -> Names:
    chosen = spec.get("perInstanceProperties") or {}
    pattern = spec.get("namePattern")
    if bool(chosen) == bool(pattern):
        raise invalid(
            "resource.namePattern",
            pattern or "",
            "Exactly one of namePattern and perInstanceProperties must be given.",
        )
    count = int(spec.get("count") or len(chosen) or 1)
    least = int(spec.get("minCount") or count)
    if not 1 <= count <= 1000 or not 1 <= least <= count:
        raise invalid(
            "resource.count",
            count,
            "count must be between 1 and 1000, minCount between 1 and count.",
        )
    if chosen:
        if len(chosen) != count:
            raise invalid(
                "resource.perInstanceProperties", len(chosen), "Must hold as many entries as count."
            )
        names = tuple(wish.name(tail(key), "resource.perInstanceProperties") for key in chosen)
    else:
        names = _numbered(call, str(pattern), count)
    for name in names:
        for zone in zones:
            if call.rows.vm(call.project, zone, name):
                raise exists(f"projects/{call.project}/zones/{zone}/instances/{name}")
    return Names(
        count,
        least,
        names,
        {tail(key): (value or {}).get("hostname", "") for key, value in chosen.items()},
    )


def _numbered(call: Call, pattern: str, count: int) -> tuple[str, ...]:
    head, hashes = pattern.rstrip("#"), len(pattern) - len(pattern.rstrip("#"))
    if not 1 <= hashes <= 18:
        raise invalid("resource.namePattern", pattern, "Must end with 1 to 18 '#'.")
    used = [
        vm.name[len(head) :]
        for vm in call.rows.vms("project = ?", (call.project,))
        if vm.name.startswith(head)
    ]
    highest = max((int(rest) for rest in used if rest.isdigit()), default=0)
    return tuple(
        wish.name(f"{head}{highest + 1 + index:0{hashes}d}", "resource.namePattern")
        for index in range(count)
    )


def _zones(policy: Json, region: str) -> tuple[tuple[str, ...], str]:
    shape = policy.get("targetShape") or "ANY_SINGLE_ZONE"
    of_region = [zone for zone in machines.zones() if machines.region_of(zone) == region]
    given = [tail(item.get("zone", "")) for item in policy.get("zones") or []]
    rules = {
        tail(key): (value or {}).get("preference", "ALLOW")
        for key, value in (policy.get("locations") or {}).items()
    }
    for zone in [*given, *rules]:
        if zone not in of_region:
            raise invalid(
                "resource.locationPolicy.locations", zone, f"Must be a zone of region '{region}'."
            )
    allowed = [zone for zone, preference in rules.items() if preference != "DENY"]
    chosen = given or allowed or of_region
    return tuple(zone for zone in chosen if rules.get(zone) != "DENY"), shape


def _selections(spec: Json, properties: Json) -> list[tuple[str, Json]]:
    """(machine type, properties) in the order of rank."""
    given = (spec.get("instanceFlexibilityPolicy") or {}).get("instanceSelections") or {}
    if not given:
        kind = properties.get("machineType")
        if not kind:
            raise Refusal(400, "required", f"Required field '{FIELD}.machineType' not specified")
        if "/" in kind:
            raise invalid(
                f"{FIELD}.machineType", kind, "Must be the name of a machine type, not a URL."
            )
        return [(kind, properties)]
    if properties.get("machineType") or properties.get("guestAccelerators"):
        raise invalid(
            f"{FIELD}.machineType",
            properties.get("machineType", ""),
            "Must not be set together with an instance flexibility policy.",
        )
    out = []
    for _, selection in sorted(
        given.items(), key=lambda item: (int(item[1].get("rank") or 0), item[0])
    ):
        disks = {"disks": selection["disks"]} if selection.get("disks") else {}
        out += [
            (kind, {**properties, "machineType": kind, **disks})
            for kind in selection.get("machineTypes") or []
        ]
    if not out:
        raise invalid(
            "resource.instanceFlexibilityPolicy", "", "At least one machine type must be given."
        )
    return out


def _carry_out(
    call: Call,
    scope: str,
    region: str,
    names: Names,
    options: Sequence[tuple[str, Wish]],
    shape: str,
) -> Json:
    rows = call.rows
    if planned := call.planned_errors():
        return _end(call, scope, planned, {}, "")
    if over := place.over_quota(rows, call.project, region, options[0][1], names.least):
        return _end(call, scope, [min_count_error(names.least), quota_error(*over)], {}, "")
    shares = _shares(call, names, options, shape)
    got = sum(count for _, _, count in shares)
    enough = got >= names.least
    begin = rows.now
    fail_at = begin + rows.latency("stockout") + call.slower_s
    group = _group(call)
    places: Json = {}
    left = iter(names.names)
    done = begin
    for zone, wanted, count in shares:
        for name in _take(left, count):
            if enough:
                timeline = place.running(rows, begin, wanted.run_s, wanted.action, call.slower_s)
                end = next(at for at, status in timeline if status == "RUNNING")
            else:
                # What has capacity is made and taken back: it can be seen meanwhile, and it holds
                # its stock.
                timeline, end = (
                    [
                        (begin, "PROVISIONING"),
                        (begin + (fail_at - begin) / 2, "STOPPING"),
                        (fail_at, GONE),
                    ],
                    fail_at,
                )
            vm = place.make(
                rows, call.project, zone, name, wanted, timeline, names.hosts.get(name, "")
            )
            place.foresee_limit(rows, vm) if enough else None
            call.operation(
                f"zones/{zone}",
                "insert",
                vm.link(),
                end,
                target_id=vm_number(vm.id),
                group=group,
                own=False,
            )
            done = max(done, end)
        places[zone] = {
            "target": count,
            "created": count,
            "failed": 0,
            "deleted": 0 if enough else count,
        }
    short = names.total - got
    if short:
        zone, wanted = options[0] if not shares else (shares[0][0], shares[0][1])
        status = places.setdefault(zone, {"target": 0, "created": 0, "failed": 0, "deleted": 0})
        status["target"] += short
        status["failed"] += short
        for name in _take(left, short):
            link = f"{ROOT}/projects/{call.project}/zones/{zone}/instances/{name}"
            call.operation(
                f"zones/{zone}",
                "insert",
                link,
                fail_at,
                errors=[place.stockout(rows, call.project, zone, wanted)],
                group=group,
                own=False,
            )
    if enough:
        return _end(call, scope, [], places, group, done)
    causes = [place.stockout(rows, call.project, zone, wanted) for zone, wanted in _tried(options)]
    return _end(call, scope, [min_count_error(names.least), *causes], places, group)


def _tried(options: Sequence[tuple[str, Wish]]) -> Iterator[tuple[str, Wish]]:
    seen = set()
    for zone, wanted in options:
        if (zone, wanted.machine.name) not in seen:
            seen.add((zone, wanted.machine.name))
            yield zone, wanted


def _take(names: Iterator[str], count: int) -> list[str]:
    return [next(names) for _ in range(count)]


def _shares(
    call: Call, names: Names, options: Sequence[tuple[str, Wish]], shape: str
) -> list[tuple[str, Wish, int]]:
    """(zone, kind, how many) that have capacity, best first.
    One entry unless machines may be spread.
    """
    room = [(zone, wanted, place.free(call.rows, zone, wanted)) for zone, wanted in options]
    if shape == "ANY_SINGLE_ZONE":
        whole = next(
            ((zone, wanted, names.total) for zone, wanted, free in room if free >= names.total),
            None,
        )
        if whole:
            return [whole]
        most = max(room, key=lambda item: item[2])
        return [(most[0], most[1], most[2])] if most[2] else []
    shares: dict[tuple[str, str], tuple[str, Wish, int]] = {}
    left = names.total
    while left:
        open_rooms = [
            item
            for item in room
            if item[2] > shares.get((item[0], item[1].machine.name), ("", item[1], 0))[2]
        ]
        if not open_rooms:
            break
        # BALANCED gives to the zone that has least so far; ANY fills the first with room.
        taken = {
            zone: sum(count for where, _, count in shares.values() if where == zone)
            for zone, _, _ in room
        }
        zone, wanted, _ = (
            min(open_rooms, key=lambda item: taken[item[0]])
            if shape == "BALANCED"
            else open_rooms[0]
        )
        key = (zone, wanted.machine.name)
        shares[key] = (zone, wanted, shares.get(key, (zone, wanted, 0))[2] + 1)
        left -= 1
    return list(shares.values())


def _group(call: Call) -> str:
    import uuid

    return str(
        uuid.uuid5(
            uuid.NAMESPACE_URL, f"{call.rows.now}/{call.query.get('requestId', uuid.uuid4())}"
        )
    )


def _end(
    call: Call,
    scope: str,
    errors: Sequence[Json],
    places: Json,
    group: str,
    done: float | None = None,
) -> Json:
    finish = call.rows.now + call.rows.latency("stockout") + call.slower_s if done is None else done
    target = f"{ROOT}/projects/{call.project}/{scope}/instances"
    return call.operation(
        scope,
        "bulkInsert",
        target,
        finish,
        errors=errors,
        group=group or _group(call),
        locations=places,
    )
