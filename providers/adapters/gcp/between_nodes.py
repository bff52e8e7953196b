"""What carries the data between the nodes of a cluster at Google, and what its machines need for
it. Owns the names, rates and the plugin's installation; pure.

GPUDirect-TCPX and -TCPXO: Google, "Create an A3 Mega or A3 High instance with GPUDirect enabled"
(Container-Optimized OS, and a daemon, the receive-datapath manager, beside each job). RoCE with
NCCL/gIB: "Run NCCL on Compute Engine instances", 2026-04-06 (the package nccl-gib; an image
optimised for accelerators, since others lack the driver of the network cards). Rates: "GPU machine
types", 2026-04-14, without the host's own interfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.gcp import fabric, machines
from providers.model import shell
from providers.model.fabric import Fabric

if TYPE_CHECKING:
    from providers.adapters.gcp.options import Options
    from providers.model.placement import Placement

ACCELERATOR_IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/family"
    "/ubuntu-accelerator-2204-amd64-with-nvidia-580"
)
"""Driver 580 and that of the network cards on Ubuntu 22.04: what Google's Cluster Toolkit boots A4
from, 2026-06-25.
"""
GIB = "nccl_gib"
"""A word of the start-up script that installs NCCL/gIB."""
_COS = "needs Google's Container-Optimized OS and its daemon beside each job"
_NAMES = {
    "a3-edgegpu-": ("GPUDirect-TCPX", 0),
    "a3-highgpu-8g": ("GPUDirect-TCPX", 800),
    "a3-megagpu-": ("GPUDirect-TCPXO", 1_600),
    "a3-ultragpu-": ("RoCE (gIB)", 3_200),
    "a4-highgpu-": ("RoCE (gIB)", 3_200),
    "a4x-highgpu-": ("RoCE (gIB)", 1_600),
    "a4x-maxgpu-": ("RoCE (gIB)", 3_200),
}


def between(placed: Placement, options: Options) -> Fabric | None:
    """The network beside TCP between the nodes of a placement; None where the type has none."""
    family = machines.family(placed.machine_type)
    if placed.nodes < 2 or family.nics is None:
        return None
    name, gbit_s = _NAMES[family.prefix]
    if not family.nics.rdma:
        return Fabric(name, gbit_s, f"{name} {_COS}")
    if not fabric.chosen(options.fabric, placed.zone, placed.machine_type):
        return Fabric(name, gbit_s, f"{name} needs the zone's networks in options.gcp.fabric")
    own = "the driver of the network cards (DOCA-OFED)" if _own_image(options) else ""
    return Fabric(name, gbit_s, needs=own)


def by_rdma(placed: Placement, options: Options) -> bool:
    """Whether its machines get interfaces for RDMA among several nodes, and so NCCL/gIB."""
    nics = machines.family(placed.machine_type).nics
    found = between(placed, options)
    return found is not None and nics is not None and bool(nics.rdma) and not found.missing


def source_image(placed: Placement, options: Options) -> str:
    """The boot image as the API takes it, for machines of this placement."""
    arm = machines.family(placed.machine_type).arm
    if arm or _own_image(options) or not by_rdma(placed, options):
        return options.source_image(arm=arm)
    return ACCELERATOR_IMAGE


def installing() -> str:
    """What a machine runs at each boot to have NCCL/gIB."""
    return shell.program(__file__, "nccl_gib")


def _own_image(options: Options) -> bool:
    return bool(options.image or options.image_family)
