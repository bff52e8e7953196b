"""Networks and subnetworks as machines see them. Owns the project's default network and the resolving of interfaces; reads rows, writes none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.adapters.gcp.standin import machines
from providers.adapters.gcp.standin.wire import ROOT, Json, invalid, missing, tail

if TYPE_CHECKING:
    from providers.adapters.gcp.standin.state import Rows

EXTERNAL_RANGES = ("192.0.2", "198.51.100", "203.0.113")
"""Ranges kept for documentation (RFC 5737): no such address leads anywhere."""


def default_network(project: str) -> Json:
    """The network that every project has from the beginning."""
    link = f"{ROOT}/projects/{project}"
    return {
        "kind": "compute#network",
        "id": "1000000000000000001",
        "name": "default",
        "description": "Default network for the project",
        "autoCreateSubnetworks": True,
        "mtu": 1460,
        "routingConfig": {"routingMode": "REGIONAL"},
        "subnetworks": [f"{link}/regions/{region}/subnetworks/default" for region in machines.regions()],
        "selfLink": f"{link}/global/networks/default",
        "creationTimestamp": "2026-01-01T00:00:00.000+00:00",
    }


def auto_subnetwork(project: str, network: str, region: str) -> Json:
    """The subnetwork that an auto-mode network has in a region: one /20 of 10.128.0.0/9 for each."""
    index = machines.regions().index(region)
    link = f"{ROOT}/projects/{project}"
    block = f"10.{128 + index // 16}.{index % 16 * 16}"
    return {
        "kind": "compute#subnetwork",
        "id": str(2_000_000_000_000_000_000 + index),
        "name": network,
        "network": f"{link}/global/networks/{network}",
        "region": f"{link}/regions/{region}",
        "ipCidrRange": f"{block}.0/20",
        "gatewayAddress": f"{block}.1",
        "privateIpGoogleAccess": False,
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "fingerprint": "YXV0bw==",
        "selfLink": f"{link}/regions/{region}/subnetworks/{network}",
        "creationTimestamp": "2026-01-01T00:00:00.000+00:00",
    }


def network(rows: Rows, project: str, name: str) -> Json | None:
    """A network by name."""
    found = rows.resources(project, "networks", "global", name)
    return found[0][3] if found else default_network(project) if name == "default" else None


def subnetwork(rows: Rows, project: str, region: str, name: str) -> Json | None:
    """A subnetwork by name, those of auto-mode networks included."""
    found = rows.resources(project, "subnetworks", f"regions/{region}", name)
    if found:
        return found[0][3]
    owner = network(rows, project, name)
    return auto_subnetwork(project, name, region) if owner and owner.get("autoCreateSubnetworks") and region in machines.regions() else None


def check_nic(rows: Rows, project: str, region: str, nic: Json, field: str) -> None:
    """Raises 400 or 404 unless the interface names a network or subnetwork that is there."""
    resolve(rows, project, region, nic, field)


def resolve(rows: Rows, project: str, region: str, nic: Json, field: str) -> tuple[str, str, str]:
    """(network link, subnetwork link, IPv4 range) of an interface. Raises 400 or 404."""
    if nic.get("subnetwork"):
        hit = re.search(r"regions/([^/]+)/subnetworks/([^/]+)$", nic["subnetwork"])
        if hit is None or hit[1] != region:
            raise invalid(f"{field}.subnetwork", nic["subnetwork"], f"Must be a subnetwork of region '{region}'.")
        found = subnetwork(rows, project, region, hit[2])
        if found is None:
            raise missing(f"projects/{project}/regions/{region}/subnetworks/{hit[2]}")
        return found["network"], found["selfLink"], found["ipCidrRange"]
    name = tail(nic.get("network") or "global/networks/default")
    owner = network(rows, project, name)
    if owner is None:
        raise missing(f"projects/{project}/global/networks/{name}")
    if not owner.get("autoCreateSubnetworks"):
        raise invalid(f"{field}.network", nic.get("network"), "Network has custom subnet mode: a subnetwork must be specified.")
    found = auto_subnetwork(project, name, region)
    return owner["selfLink"], found["selfLink"], found["ipCidrRange"]


def internal_ip(cidr: str, number: int) -> str:
    """The address of the machine with this number, within its subnetwork."""
    import ipaddress

    block = ipaddress.ip_network(cidr)
    return str(block[2 + number % max(1, block.num_addresses - 4)])


def external_ip(number: int) -> str:
    """An address that is kept for documentation."""
    return f"{EXTERNAL_RANGES[number // 250 % len(EXTERNAL_RANGES)]}.{1 + number % 250}"
