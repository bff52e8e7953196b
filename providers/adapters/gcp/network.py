"""A managed network on Google Cloud, declared in a Pulumi program: a network, a subnet in each
region, all traffic among the nodes, ssh through Identity-Aware Proxy, and the public ports.

Owns the use of `pulumi_gcp`, whose import takes 3 s. In a rehearsal the same resources are served
by the stand-in plugin, which forwards them to the rehearsal's Compute Engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import NetworkRequest

_IAP_RANGE = "35.235.240.0/20"
"""Where Google's Identity-Aware Proxy comes from: Google's "TCP forwarding" page, 2026-11."""
STAND_IN_VERSION = "999.0.0"
"""As in Pulumi.yaml: the version that only the stand-in plugin has (Pulumi takes exactly the one
that is asked for), so that it can never serve a live network.
"""


def declare(request: NetworkRequest) -> Mapping[str, Any]:
    """The network's resources; their ids, as `links` of a managed network holds them."""
    import pulumi
    from pulumi_gcp import compute

    name, project = request.name, request.settings.get("project")
    inner = pulumi.ResourceOptions(
        parent=request.parent,
        provider=_stand_in(request) if request.world == REHEARSAL else None,
    )
    network = compute.Network(
        f"{name}-network",
        project=project,
        auto_create_subnetworks=False,
        description="made by gpus for one cluster",
        opts=inner,
    )
    links = {"network": network.id}
    blocks = subnets(request.regions)
    for region, block in blocks.items():
        subnet = compute.Subnetwork(
            f"{name}-{region}",
            project=project,
            region=region,
            network=network.id,
            ip_cidr_range=block,
            private_ip_google_access=True,
            opts=inner,
        )
        links[f"subnetwork.{region}"] = subnet.id

    def firewall(what: str, ranges: Sequence[str], allows: Sequence[dict[str, Any]]) -> None:
        compute.Firewall(
            f"{name}-{what}",
            project=project,
            network=network.id,
            direction="INGRESS",
            source_ranges=list(ranges),
            allows=[compute.FirewallAllowArgs(**allow) for allow in allows],
            opts=inner,
        )

    firewall(
        "inside",
        list(blocks.values()),
        [{"protocol": "tcp"}, {"protocol": "udp"}, {"protocol": "icmp"}],
    )
    firewall("ssh", [_IAP_RANGE], [{"protocol": "tcp", "ports": ["22"]}])
    if request.ports:
        firewall(
            "public",
            ["0.0.0.0/0"],
            [{"protocol": "tcp", "ports": [str(port) for port in request.ports]}],
        )
    return links


def subnets(regions: Sequence[str]) -> dict[str, str]:
    """A /20 of 10.0.0.0/8 for each region, by the region's name: another region in the list moves
    none of the others (unless two meet).
    """
    taken: dict[int, str] = {}
    for region in regions:
        slot = crc32(region.encode()) % 4_096
        while slot in taken:
            slot = (slot + 1) % 4_096
        taken[slot] = region
    return {region: f"10.{slot >> 4}.{(slot & 15) << 4}.0/20" for slot, region in taken.items()}


def _stand_in(request: NetworkRequest) -> Any:
    """The stand-in plugin's provider, made once for all networks of a program."""
    if "stand_in" not in request.made:
        import pulumi
        import pulumi_gcp

        request.made["stand_in"] = pulumi_gcp.Provider(
            "rehearsal-google",
            project=request.settings.get("project") or "rehearsal",
            opts=pulumi.ResourceOptions(version=STAND_IN_VERSION),
        )
    return request.made["stand_in"]
