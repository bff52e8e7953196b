"""What a provider's machine boots from, and what its disk can be: the record that an adapter gives
and the planner counts with. Pure.
"""

from __future__ import annotations

from typing import NamedTuple


class Host(NamedTuple):
    """Figures of one machine type under one section of options. 0 is unknown, and nothing is
    refused for it.
    """

    image: str = ""
    """The boot image, for messages."""
    image_gib: int = 0
    """The least disk that the boot image takes."""
    used_gib: int = 0
    """What of the disk the system itself fills."""
    default_gib: int = 0
    """The disk that is ordered where nothing asks for another."""
    most_gib: int = 0
    """The largest disk on offer."""
    sized: bool = True
    """Whether an order says how large the disk is to be; elsewhere it is `default_gib`, or what the
    machine happens to have.
    """
    disk: str = ""
    """What kind of disk it is, for messages: `gp3`."""
    micro_usd_per_gib_month: int | None = None
    """What a GiB costs in a month of 730 hours where the catalog has no rate of the region; None
    where the price of the machine holds the disk.
    """
    priced_in: str = ""
    """The region whose rate that is."""
    micro_usd_per_month: int = 0
    """What the disk costs besides, whatever its size: speed bought with it."""
    write_mib_s: float = 0.0
    """How fast a download lands on the disk."""
    write_mib_s_per_gib: float = 0.0
    """How much faster that is with each GiB of the disk."""
    rate_option: str = ""
    """The option that asks for a faster download, where the rate is only the least that is
    accepted.
    """
    driver: int = 0
    """The branch of NVIDIA's driver in the boot image, as in 580."""
    container: str = ""
    """The container image that the options name, where they name one."""
