"""Networks and subnetworks as machines see them. Owns the project's default network and the
resolving of interfaces; reads rows, writes none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import machines
from providers.rehearsal.clouds.gcp.wire import ROOT, Json, invalid, missing, tail

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.state import Rows

EXTERNAL_RANGE = "198.18"
"""Half of the range that is kept for benchmarks (RFC 2544): in no network but the rehearsal's own
does such an address lead anywhere.
"""


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
        "subnetworks": [
            f"{link}/regions/{region}/subnetworks/default" for region in machines.regions()
        ],
        "selfLink": f"{link}/global/networks/default",
        "creationTimestamp": "2026-01-01T00:00:00.000+00:00",
    }


def auto_subnetwork(project: str, network: str, region: str) -> Json:
    """The subnetwork that an auto-mode network has in a region:
    one /20 of 10.128.0.0/9 for each.
    """
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
    return (
        auto_subnetwork(project, name, region)
        if owner and owner.get("autoCreateSubnetworks") and region in machines.regions()
        else None
    )


def check_nics(
    rows: Rows, project: str, region: str, zone: str, machine: str, nics: list[Json], field: str
) -> None:
    """Raises 400 or 404 unless the interfaces are ones that the machine takes, in networks that are
    there and of their kind.

    As Google's pages on networks of GPU machines have it (2026-04): RDMA interfaces share one
    network with a RoCE profile of the machine's zone, each in a subnetwork of its own; every other
    interface is in a network of its own; the first is no RDMA interface.
    """
    most = machines.first_of(machines.MOST_NICS, machine, machines.MOST_OTHER_NICS)
    if not 1 <= len(nics) <= most:
        raise invalid(field, len(nics), f"{machine} takes between 1 and {most} network interfaces.")
    metal = machine.endswith("-metal")
    seen: set[str] = set()
    roce: set[str] = set()
    for index, nic in enumerate(nics):
        where = f"{field}[{index}]"
        kind = nic.get("nicType") or (
            "IDPF" if metal else "GVNIC" if machine.startswith(("a3-", "a4")) else "VIRTIO_NET"
        )
        owner, subnet, _ = resolve(rows, project, region, nic, where)
        profile = tail((network(rows, project, tail(owner)) or {}).get("networkProfile", ""))
        if kind == "MRDMA":
            if index == 0 or not machine.startswith(machines.RDMA):
                raise invalid(
                    f"{where}.nicType",
                    kind,
                    "Only for further interfaces of machine types with RDMA.",
                )
            if (
                not profile
                or profile_zone(profile) != (zone or profile_zone(profile))
                or profile.endswith("-metal") != metal
            ):
                raise invalid(
                    f"{where}.network",
                    owner,
                    f"MRDMA needs a network with the RoCE profile of zone '{zone}'.",
                )
            if nic.get("accessConfigs"):
                raise invalid(
                    f"{where}.accessConfigs",
                    "",
                    "Interfaces of type MRDMA have no external address.",
                )
            roce.add(owner)
        elif profile:
            raise invalid(
                f"{where}.nicType",
                kind,
                f"Network profile '{profile}' takes interfaces of type MRDMA only.",
            )
        elif (kind == "IDPF") != metal or (
            kind == "VIRTIO_NET" and machine.startswith(("a3-", "a4"))
        ):
            raise invalid(
                f"{where}.nicType", kind, f"{machine} needs {'IDPF' if metal else 'GVNIC'}."
            )
        if (subnet if kind == "MRDMA" else owner) in seen:
            raise invalid(
                where,
                subnet if kind == "MRDMA" else owner,
                "Each interface needs a network (with RDMA: a subnetwork) of its own.",
            )
        seen.add(subnet if kind == "MRDMA" else owner)
    if len(roce) > 1:
        raise invalid(
            field, ", ".join(sorted(roce)), "All interfaces of type MRDMA must be in one network."
        )


def profile_zone(name: str) -> str:
    """The zone that a network profile is for; empty for a name that is none
    (`us-central1-b-vpc-roce`, `...-vpc-roce-metal`).
    """
    hit = re.fullmatch(r"(.+)-vpc-roce(-metal)?", name)
    return hit[1] if hit and hit[1] in machines.zones() else ""


def resolve(rows: Rows, project: str, region: str, nic: Json, field: str) -> tuple[str, str, str]:
    """(network link, subnetwork link, IPv4 range) of an interface. Raises 400 or 404."""
    if nic.get("subnetwork"):
        hit = re.search(r"regions/([^/]+)/subnetworks/([^/]+)$", nic["subnetwork"])
        if hit is None or hit[1] != region:
            raise invalid(
                f"{field}.subnetwork",
                nic["subnetwork"],
                f"Must be a subnetwork of region '{region}'.",
            )
        found = subnetwork(rows, project, region, hit[2])
        if found is None:
            raise missing(f"projects/{project}/regions/{region}/subnetworks/{hit[2]}")
        return found["network"], found["selfLink"], found["ipCidrRange"]
    name = tail(nic.get("network") or "global/networks/default")
    owner = network(rows, project, name)
    if owner is None:
        raise missing(f"projects/{project}/global/networks/{name}")
    if not owner.get("autoCreateSubnetworks"):
        raise invalid(
            f"{field}.network",
            nic.get("network"),
            "Network has custom subnet mode: a subnetwork must be specified.",
        )
    found = auto_subnetwork(project, name, region)
    return owner["selfLink"], found["selfLink"], found["ipCidrRange"]


def internal_ip(cidr: str, number: int) -> str:
    """The address of the machine with this number, within its subnetwork."""
    import ipaddress

    block = ipaddress.ip_network(cidr)
    return str(block[2 + number % max(1, block.num_addresses - 4)])


def external_ip(number: int) -> str:
    """The outside address of the machine with this number."""
    return f"{EXTERNAL_RANGE}.{number // 250 % 250}.{2 + number % 250}"
