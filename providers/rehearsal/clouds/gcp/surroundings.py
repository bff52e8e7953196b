"""Networks, subnetworks and firewalls, and how any of these is written and removed, disks and
reservations too. Owns their rows' bodies.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import machines, networks, things, wish
from providers.rehearsal.clouds.gcp.wire import (
    ROOT,
    Json,
    Refusal,
    exists,
    invalid,
    missing,
    tail,
    timestamp,
)

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.call import Call

_KINDS = {
    "networks": "network",
    "subnetworks": "subnetwork",
    "firewalls": "firewall",
    "disks": "disk",
    "reservations": "reservation",
    "futureReservations": "futureReservation",
}


def _kind(call: Call) -> str:
    return call.method.split(".")[0]


def _scope(call: Call) -> str:
    if "zone" in call.path:
        return f"zones/{things.zone(call)}"
    return f"regions/{things.known_region(call)}" if "region" in call.path else "global"


def one(call: Call, named: str = "") -> tuple[int, str, str, Json]:
    """(id, scope, name, body) of the one that the path names, by this part of it. Raises 404."""
    kind, scope = _kind(call), _scope(call)
    name = call.path[named or _KINDS[kind]]
    found = call.rows.resources(call.project, kind, scope, name)
    if not found:
        raise missing(f"projects/{call.project}/{scope}/{kind}/{name}")
    return found[0]


def added(call: Call, body: Json) -> Json:
    """Writes what an insert names, with these fields on top of the caller's, and answers with the
    operation.
    """
    kind, scope = _kind(call), _scope(call)
    name = wish.name(call.body.get("name"))
    where = f"projects/{call.project}/{scope}"
    if call.rows.resources(call.project, kind, scope, name):
        raise exists(f"{where}/{kind}/{name}")
    done = call.rows.now + call.rows.latency("edit") + call.slower_s
    link = f"{ROOT}/{where}/{kind}/{name}"
    planned = call.planned_errors()
    if planned:
        return call.operation(scope, "insert", link, done, errors=planned)
    whole = {
        **call.body,
        **body,
        "kind": f"compute#{_KINDS[kind]}",
        "name": name,
        "creationTimestamp": timestamp(call.rows.now),
        "selfLink": link,
    }
    number = call.rows.add_resource(call.project, kind, scope, name, {}, done)
    whole["id"] = str(8_000_000_000_000_000_000 + number)
    call.rows.write_resource(number, whole)
    return call.operation(scope, "insert", link, done, target_id=whole["id"])


def delete(call: Call) -> Json:
    """Removes one of these, unless something uses it."""
    number, scope, _, body = one(call)
    user = _user(call, body)
    if user:
        own, other = body["selfLink"].removeprefix(f"{ROOT}/"), user.removeprefix(f"{ROOT}/")
        text = f"The {_KINDS[_kind(call)]} resource '{own}' is already being used by '{other}'"
        raise Refusal(400, "resourceInUseByAnotherResource", text)
    done = call.rows.now + call.rows.latency("edit") + call.slower_s
    planned = call.planned_errors()
    if not planned:
        call.rows.end_resource(number, done)
    return call.operation(
        scope, "delete", body["selfLink"], done, target_id=body["id"], errors=planned
    )


def _user(call: Call, body: Json) -> str:
    """The link of whatever still uses this; empty if nothing does."""
    kind, link = _kind(call), body["selfLink"]
    if kind == "networks":
        for other in ("subnetworks", "firewalls"):
            for _, _, _, found in call.rows.resources(call.project, other):
                if found.get("network") == link:
                    return str(found["selfLink"])
    if kind in {"networks", "subnetworks"}:
        for vm in call.rows.vms("project = ?", (call.project,)):
            if any(
                link in (nic["network"], nic["subnetwork"]) for nic in vm.body["networkInterfaces"]
            ):
                return vm.link()
    if kind == "disks":
        for vm in call.rows.vms("project = ?", (call.project,)):
            if any(disk.get("source") == link for disk in vm.body["disks"]):
                return vm.link()
    return ""


# Networks


def insert_network(call: Call) -> Json:
    """A network of custom mode unless `autoCreateSubnetworks` is true."""
    if call.body.get("name") == "default":
        raise exists(f"projects/{call.project}/global/networks/default")
    profile = tail(call.body.get("networkProfile", ""))
    if profile and not networks.profile_zone(profile):
        raise missing(f"projects/{call.project}/global/networkProfiles/{profile}")
    if profile and call.body.get("autoCreateSubnetworks"):
        raise invalid(
            "resource.autoCreateSubnetworks",
            "true",
            f"Network profile '{profile}' needs custom subnet mode.",
        )
    mtu = call.body.get("mtu", 8896 if profile else 1460)
    if not 1300 <= mtu <= 8896:
        raise invalid("resource.mtu", mtu, "Must be between 1300 and 8896.")
    if "IPv4Range" in call.body:
        raise invalid(
            "resource.IPv4Range", call.body["IPv4Range"], "Legacy networks can no longer be made."
        )
    auto = bool(call.body.get("autoCreateSubnetworks", False))
    return added(
        call,
        {
            "autoCreateSubnetworks": auto,
            "mtu": mtu,
            "routingConfig": call.body.get("routingConfig") or {"routingMode": "REGIONAL"},
        },
    )


def _with_subnetworks(call: Call, body: Json) -> Json:
    if "subnetworks" in body:
        return body
    link, name = f"{ROOT}/projects/{call.project}", body["name"]
    auto = (
        [f"{link}/regions/{region}/subnetworks/{name}" for region in machines.regions()]
        if body.get("autoCreateSubnetworks")
        else []
    )
    own = [
        found["selfLink"]
        for _, _, _, found in call.rows.resources(call.project, "subnetworks")
        if found["network"] == body["selfLink"]
    ]
    return {**body, "subnetworks": auto + own} if auto or own else body


def get_network(call: Call) -> Json:
    """One network; `default` is always there."""
    found = networks.network(call.rows, call.project, call.path["network"])
    if found is None:
        raise missing(f"projects/{call.project}/global/networks/{call.path['network']}")
    return _with_subnetworks(call, found)


def insert_subnetwork(call: Call) -> Json:
    """A range of a network in a region; ranges of one network must not overlap."""
    region = things.known_region(call)
    owner = networks.network(call.rows, call.project, tail(call.body.get("network", "")))
    if owner is None:
        raise missing(
            f"projects/{call.project}/global/networks/{tail(call.body.get('network', ''))}"
        )
    try:
        block = ipaddress.IPv4Network(call.body.get("ipCidrRange", ""))
    except ValueError:
        raise invalid(
            "resource.ipCidrRange",
            call.body.get("ipCidrRange", ""),
            "Must be a CIDR address range.",
        ) from None
    if not block.is_private or not 4 <= block.prefixlen <= 29:
        raise invalid("resource.ipCidrRange", block, "Must be a private range between /4 and /29.")
    for _, _, _, other in call.rows.resources(call.project, "subnetworks"):
        if other["network"] == owner["selfLink"] and block.overlaps(
            ipaddress.IPv4Network(other["ipCidrRange"])
        ):
            link = other["selfLink"].removeprefix(ROOT + "/")
            raise invalid(
                "resource.ipCidrRange",
                block,
                f"Invalid IPCidrRange: {block} conflicts with existing subnetwork '{link}'.",
            )
    body = {
        "network": owner["selfLink"],
        "region": f"{ROOT}/projects/{call.project}/regions/{region}",
        "gatewayAddress": str(block[1]),
        "privateIpGoogleAccess": bool(call.body.get("privateIpGoogleAccess", False)),
        "purpose": call.body.get("purpose", "PRIVATE"),
        "stackType": call.body.get("stackType", "IPV4_ONLY"),
        "fingerprint": "c3VibmV0",
    }
    return added(call, body)


def get_subnetwork(call: Call) -> Json:
    """One subnetwork, those of auto-mode networks included."""
    region, name = things.known_region(call), call.path["subnetwork"]
    found = networks.subnetwork(call.rows, call.project, region, name)
    if found is None:
        raise missing(f"projects/{call.project}/regions/{region}/subnetworks/{name}")
    return found


def get_firewall(call: Call) -> Json:
    """One rule. Raises 404."""
    return one(call)[3]


def insert_firewall(call: Call) -> Json:
    """A rule of a network: allowed or denied, never both."""
    owner = networks.network(call.rows, call.project, tail(call.body.get("network") or "default"))
    if owner is None:
        raise missing(
            f"projects/{call.project}/global/networks/{tail(call.body.get('network', ''))}"
        )
    if bool(call.body.get("allowed")) == bool(call.body.get("denied")):
        raise invalid("resource.allowed", "", "Exactly one of allowed and denied must be given.")
    for key in ("sourceRanges", "destinationRanges"):
        for text in call.body.get(key) or []:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise invalid(f"resource.{key}", text, "Must be a CIDR address range.") from None
    direction = call.body.get("direction", "INGRESS")
    body: Json = {
        "network": owner["selfLink"],
        "direction": direction,
        "priority": call.body.get("priority", 1000),
        "disabled": bool(call.body.get("disabled", False)),
        "logConfig": call.body.get("logConfig") or {"enable": False},
    }
    if direction == "INGRESS" and not any(
        call.body.get(key) for key in ("sourceRanges", "sourceTags", "sourceServiceAccounts")
    ):
        body["sourceRanges"] = ["0.0.0.0/0"]
    return added(call, body)
