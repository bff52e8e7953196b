"""What the adapter must know of a machine type to order it and to recognise it. Owns families and accelerator names; pure, imports nothing.

Figures: Google's "GPU machine types" page, stamp 2026-04-14; boot disk rules: SkyPilot 0.14.1 and cluster-toolkit as of 2026; accelerator strings:
the API's own list, 2026-08-17.
"""

from __future__ import annotations

from typing import NamedTuple

GPU_OF = {
    "nvidia-tesla-t4": "T4",
    "nvidia-tesla-p4": "P4",
    "nvidia-tesla-p100": "P100",
    "nvidia-tesla-v100": "V100",
    "nvidia-tesla-a100": "A100",
    "nvidia-a100-80gb": "A100-80GB",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100-MEGA",
    "nvidia-h200-141gb": "H200",
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-gb300": "GB300",
    "nvidia-l4": "L4",
    "nvidia-rtx-pro-6000": "RTX-PRO-6000",
}
"""Canonical GPU name by the API's accelerator type. Anything else is shown as Google names it."""

LOCAL_SSD_GIB = 375


class Family(NamedTuple):
    """`disks` are the boot disk types it takes, the default first. `bundled_ssd`: local SSD comes with the machine type."""

    prefix: str
    disks: tuple[str, ...]
    gvnic: bool
    bundled_ssd: bool


_FAMILIES = (
    Family("a3-", ("pd-balanced", "pd-ssd", "hyperdisk-balanced"), gvnic=True, bundled_ssd=True),
    Family("a2-ultragpu-", ("pd-balanced", "pd-ssd", "pd-standard"), gvnic=True, bundled_ssd=True),
    Family("a2-", ("pd-balanced", "pd-ssd", "pd-standard"), gvnic=True, bundled_ssd=False),
    Family("g2-", ("pd-balanced", "pd-ssd"), gvnic=True, bundled_ssd=False),
    Family("n1-", ("pd-balanced", "pd-ssd", "pd-standard"), gvnic=False, bundled_ssd=False),
)

_BUILT_IN = {
    **{f"a2-highgpu-{count}g": ("nvidia-tesla-a100", count) for count in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("nvidia-tesla-a100", 16),
    **{f"a2-ultragpu-{count}g": ("nvidia-a100-80gb", count) for count in (1, 2, 4, 8)},
    **{f"a3-highgpu-{count}g": ("nvidia-h100-80gb", count) for count in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("nvidia-h100-mega-80gb", 8),
    **{f"g2-standard-{vcpus}": ("nvidia-l4", 1) for vcpus in (4, 8, 12, 16, 32)},
    "g2-standard-24": ("nvidia-l4", 2),
    "g2-standard-48": ("nvidia-l4", 4),
    "g2-standard-96": ("nvidia-l4", 8),
}


def family(machine_type: str) -> Family:
    """The family of a machine type that the adapter sells. Raises KeyError for another."""
    for row in _FAMILIES:
        if machine_type.startswith(row.prefix):
            return row
    raise KeyError(machine_type)


def built_in(machine_type: str) -> tuple[str, int]:
    """(accelerator type, count) that the machine type brings, or ("", 0)."""
    return _BUILT_IN.get(machine_type, ("", 0))


def most_local_ssds(machine_type: str) -> int:
    """How many 375 GiB local SSDs may be added: 0 where they are bundled; G2 takes one for each GPU."""
    row = family(machine_type)
    if row.bundled_ssd:
        return 0
    return built_in(machine_type)[1] if row.prefix == "g2-" else 8
