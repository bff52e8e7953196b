"""Which call does what. Owns the table from method to function, and the lists: filter and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import (
    advice,
    bulk,
    disks,
    filters,
    reservations,
    surroundings,
    things,
    vms,
)
from providers.rehearsal.clouds.gcp.wire import ROOT, Json, Refusal, invalid, missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.rehearsal.clouds.gcp.call import Call, Scoped


def _page(call: Call, items: Scoped, kind: str, scope: str) -> Json:
    """One page of a plain list."""
    chosen, token = _chosen(call, items)
    out: Json = {
        "kind": f"compute#{kind}",
        "id": f"projects/{call.project}/{scope}",
        "selfLink": f"{ROOT}/projects/{call.project}/{scope}",
    }
    if chosen:
        out["items"] = [item for _, item in chosen]
    if token:
        out["nextPageToken"] = token
    return out


def _chosen(call: Call, items: Scoped) -> tuple[Scoped, str]:
    test = filters.compile_filter(str(call.query.get("filter", "")))
    kept = [(scope, item) for scope, item in items if test(item)]
    kept.sort(key=lambda pair: (pair[0], pair[1]["name"]))
    size = int(call.query.get("maxResults", 500))
    if not 0 <= size <= 500:
        raise invalid("maxResults", size, "Must be between 0 and 500.")
    token = str(call.query.get("pageToken", ""))
    if token and not (token.startswith("p") and token[1:].isdigit()):
        raise invalid("pageToken", token, "The page token is invalid.")
    begin = int(token[1:]) if token else 0
    end = begin + (size or 500)
    return kept[begin:end], f"p{end}" if end < len(kept) else ""


def _aggregated(call: Call, items: Scoped, kind: str, key: str) -> Json:
    """One page of an aggregated list. Zones without a result are there too, with a warning, as at
    Google.
    """
    chosen, token = _chosen(call, items)
    grouped: Json = {}
    for scope, item in chosen:
        grouped.setdefault(scope, {key: []})[key].append(item)
    for scope in things.zone_scopes():
        if scope not in grouped:
            text = f"There are no results for scope '{scope}' on this page."
            grouped[scope] = {
                "warning": {
                    "code": "NO_RESULTS_ON_PAGE",
                    "message": text,
                    "data": [{"key": "scope", "value": scope}],
                }
            }
    where = f"projects/{call.project}/aggregated/{key}"
    out: Json = {
        "kind": f"compute#{kind}",
        "id": where,
        "items": dict(sorted(grouped.items())),
        "selfLink": f"{ROOT}/{where}",
    }
    if token:
        out["nextPageToken"] = token
    return out


# Operations


def scope(path: dict[str, str]) -> str:
    """Where a call's path is: `zones/Z`, `regions/R` or `global`. Pure."""
    return (
        f"zones/{path['zone']}"
        if "zone" in path
        else f"regions/{path['region']}"
        if "region" in path
        else "global"
    )


def _operation(call: Call) -> Json:
    where, name = scope(call.path), call.path["operation"]
    found = call.rows.operations(call.project, "scope = ? AND name = ?", (where, name))
    if not found:
        raise missing(f"projects/{call.project}/{where}/operations/{name}")
    return found[0]


def _operations(call: Call) -> Json:
    where = scope(call.path)
    return _page(
        call,
        [(where, item) for item in call.rows.operations(call.project, "scope = ?", (where,))],
        "operationList",
        f"{where}/operations",
    )


# Machines


def _vms(call: Call) -> Json:
    zone = things.zone(call)
    found = call.rows.vms("project = ? AND zone = ?", (call.project, zone))
    return _page(
        call,
        [(f"zones/{zone}", vms.body(call.rows, vm)) for vm in found],
        "instanceList",
        f"zones/{zone}/instances",
    )


def _all_vms(call: Call) -> Json:
    # Of hundreds of machines, those are read that the filter may want.
    values = filters.label_values(str(call.query.get("filter", "")))
    where = " AND ".join(["project = ?", *["instr(lower(body), ?)"] * len(values)])
    found = call.rows.vms(where, (call.project, *values))
    return _aggregated(
        call,
        [(f"zones/{vm.zone}", vms.body(call.rows, vm)) for vm in found],
        "instanceAggregatedList",
        "instances",
    )


def _gather(kind: str, items: Callable[[Call], Scoped]) -> Callable[[Call], Json]:
    """An aggregated list call."""

    def call_it(call: Call) -> Json:
        return _aggregated(call, items(call), f"{kind}AggregatedList", f"{kind}s")

    return call_it


HANDLERS: dict[str, Callable[[Call], Json]] = {
    "advice.capacity": advice.capacity,
    "instances.insert": vms.insert,
    "instances.bulkInsert": bulk.zonal,
    "regionInstances.bulkInsert": bulk.regional,
    "instances.get": lambda call: vms.body(call.rows, vms.named(call)),
    "instances.list": _vms,
    "instances.aggregatedList": _all_vms,
    "instances.delete": vms.delete,
    "instances.stop": vms.stop,
    "instances.start": vms.start,
    "instances.getSerialPortOutput": vms.serial_port,
    "instances.setLabels": vms.set_labels,
    "instances.setMetadata": vms.set_metadata,
    **{f"{kind}Operations.get": _operation for kind in ("zone", "region", "global")},
    **{f"{kind}Operations.wait": _operation for kind in ("zone", "region")},
    **{f"{kind}Operations.list": _operations for kind in ("zone", "region")},
    "machineTypes.get": things.machine_type,
    "regions.get": things.region,
    "regions.list": lambda call: _page(call, things.regions(call), "regionList", "regions"),
    "projects.get": things.project,
    "images.get": things.image,
    "images.getFromFamily": things.image_family,
    "networks.insert": surroundings.insert_network,
    "networks.get": surroundings.get_network,
    "networks.delete": surroundings.delete,
    "subnetworks.insert": surroundings.insert_subnetwork,
    "subnetworks.get": surroundings.get_subnetwork,
    "subnetworks.delete": surroundings.delete,
    "firewalls.insert": surroundings.insert_firewall,
    "firewalls.get": surroundings.get_firewall,
    "firewalls.delete": surroundings.delete,
    "disks.insert": disks.insert,
    "disks.get": disks.get,
    "disks.aggregatedList": _gather("disk", disks.listed),
    "disks.resize": disks.resize,
    "disks.setLabels": disks.set_labels,
    "disks.delete": surroundings.delete,
    "futureReservations.insert": reservations.insert_future,
    "futureReservations.aggregatedList": _gather("futureReservation", reservations.listed_future),
    "reservations.insert": reservations.insert,
    "reservations.aggregatedList": _gather("reservation", reservations.listed),
}


def again(call: Call) -> Json | None:
    """The operation of an earlier request with the same id: nothing is done twice. 409 where that
    was another kind of call.
    """
    request = str(call.query.get("requestId", ""))
    found = (
        call.rows.db.execute(
            "SELECT * FROM gcp_operation WHERE request = ? AND project = ?", (request, call.project)
        ).fetchone()
        if request
        else None
    )
    if found is None:
        return None
    if found[8] != call.method:
        raise Refusal(
            409, "conflict", f"The request id '{request}' was used for {found[8]} before."
        )
    return call.rows.operation_body(found)
