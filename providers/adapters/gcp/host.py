"""What Google's machines boot from and what their boot disks can be. Owns the figures; pure.

Prices and limits: Google's disk pricing page (us-central1) and "About Persistent Disk" / "About
Hyperdisk", as remembered 2026-11.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.gcp import machines
from providers.adapters.gcp.options import IMAGE_PROJECT
from providers.adapters.gcp.options import read as read_options
from providers.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_DISK_GIB = 100
MOST_DISK_GIB = 65_536
IMAGE_GIB = 50
"""The size of Google's Deep Learning images, below which no boot disk can be (their `diskSizeGb`,
2026).
"""
USED_GIB = 30
"""What of it is full: the system, driver and CUDA. Assumed."""
_DRIVER = re.compile(r"nvidia-(\d{3})")


class Kind(NamedTuple):
    """A kind of disk: micro-dollars for a GiB and month, and MiB/s of writing, fixed and for each
    GiB.
    """

    micro_usd_per_gib_month: int
    write_mib_s: float
    write_mib_s_per_gib: float = 0.0


KINDS = {
    "pd-standard": Kind(40_000, 12.0, 0.12),
    "pd-balanced": Kind(100_000, 140.0, 0.28),
    "pd-ssd": Kind(170_000, 240.0, 0.48),
    "hyperdisk-balanced": Kind(80_000, 155.0),
}


def host(machine_type: str, section: Mapping[str, object]) -> Host | None:
    """The figures of a machine type under the options; None for a type that is not sold here."""
    try:
        family = machines.family(machine_type)
    except KeyError:
        return None
    options = read_options(section)
    image = options.source_image(arm=family.arm)
    name = options.boot_disk_type if options.boot_disk_type in family.disks else family.disks[0]
    kind = KINDS[name]
    driver = _DRIVER.search(image)
    return Host(
        image=image.rpartition("/")[2],
        image_gib=IMAGE_GIB if f"projects/{IMAGE_PROJECT}/" in image else 0,
        used_gib=USED_GIB,
        default_gib=DEFAULT_DISK_GIB,
        most_gib=MOST_DISK_GIB,
        disk=name,
        micro_usd_per_gib_month=kind.micro_usd_per_gib_month,
        priced_in="us-central1",
        write_mib_s=kind.write_mib_s,
        write_mib_s_per_gib=kind.write_mib_s_per_gib,
        driver=int(driver[1]) if driver else 0,
    )
