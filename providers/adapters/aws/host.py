"""What EC2's machines boot from and what their volumes can be. Owns the figures; pure.

Prices and limits: Amazon's EBS pricing (us-east-1) and volume type pages, as remembered 2026-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.aws.options import AMI_PARAMETER
from providers.adapters.aws.options import read as read_options
from providers.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DISK_GIB = 100
IMAGE_GIB = 75
"""The snapshot of the Deep Learning base image, below which EC2 makes no volume (its refusals,
2026).
"""
USED_GIB = 45
"""What of it is full: it brings several releases of CUDA. Assumed."""
DRIVER = 580
"""NVIDIA's driver in the newest Deep Learning base image with the open driver (AWS DLAMI release
notes, as remembered 2026-11).
"""


class Kind(NamedTuple):
    """A kind of volume: micro-dollars for a GiB and month, the largest, and MiB/s of writing."""

    micro_usd_per_gib_month: int
    most_gib: int
    write_mib_s: float


KINDS = {
    "gp3": Kind(80_000, 65_536, 125.0),
    "gp2": Kind(100_000, 16_384, 250.0),
    "io1": Kind(125_000, 16_384, 500.0),
    "io2": Kind(125_000, 65_536, 500.0),
}
GP3_IOPS, GP3_MIB_S = 3_000, 125
"""What a gp3 volume has without being paid for."""
MICRO_USD_PER_IOPS = {"gp3": 5_000, "io1": 65_000, "io2": 65_000}
MICRO_USD_PER_MIB_S = 40_000


def host(_machine_type: str, section: Mapping[str, object]) -> Host:
    """The figures under the options. Of an image of the user's own neither size nor driver is
    known.
    """
    options = read_options(section)
    kind = KINDS[options.volume_type]
    own = options.ami or options.ami_ssm_parameter
    free = GP3_IOPS if options.volume_type == "gp3" else 0
    speed = max(0, options.volume_iops - free) * MICRO_USD_PER_IOPS.get(options.volume_type, 0)
    speed += max(0, options.volume_throughput - GP3_MIB_S) * MICRO_USD_PER_MIB_S
    return Host(
        image=own or AMI_PARAMETER.partition("{architecture}/")[2].partition("/")[0],
        image_gib=0 if own else IMAGE_GIB,
        used_gib=USED_GIB,
        default_gib=DEFAULT_DISK_GIB,
        most_gib=kind.most_gib,
        disk=options.volume_type,
        micro_usd_per_gib_month=kind.micro_usd_per_gib_month,
        priced_in="us-east-1",
        micro_usd_per_month=speed,
        write_mib_s=float(options.volume_throughput or kind.write_mib_s),
        driver=0 if own else DRIVER,
    )
