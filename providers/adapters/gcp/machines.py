"""What the adapter must know of a machine type to order it and to recognise it. Owns families and
accelerator names; pure, imports nothing.

Figures: Google's "GPU machine types" page, stamp 2026-04-14; boot disk rules: SkyPilot 0.14.1 and
cluster-toolkit as of 2026; accelerator strings: the API's own list, 2026-08-17.
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


class Nics(NamedTuple):
    """The interfaces of a machine type at its full network: `host` of type `host_type`, the first
    of them the primary, then `rdma` of type MRDMA.
    """

    host_type: str
    host: int
    rdma: int

    def __str__(self) -> str:
        name = {"GVNIC": "gVNIC"}.get(self.host_type, self.host_type)
        return f"{self.host} {name}" + (f" + {self.rdma} MRDMA" if self.rdma else "")


class Family(NamedTuple):
    """`disks` are the boot disk types it takes, the default first. `bundled_ssd`: local SSD comes
    with the machine type (save `-nolssd`).

    `never` are the kinds of capacity that Google does not sell of it. `bound`: where a future
    reservation delivered the reservation, machines are bound to it. `nics` is its full network
    where that is more than one interface.
    """

    prefix: str
    disks: tuple[str, ...]
    gvnic: bool
    bundled_ssd: bool
    never: tuple[str, ...] = ()
    bound: bool = False
    nics: Nics | None = None
    arm: bool = False


_A3 = ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
_HYPERDISK = ("hyperdisk-balanced",)
_TCPX, _TCPXO = Nics("GVNIC", 5, 0), Nics("GVNIC", 9, 0)
_ROCE, _ROCE_NVL72, _ROCE_METAL = Nics("GVNIC", 2, 8), Nics("GVNIC", 2, 4), Nics("IDPF", 2, 8)
_RESERVED_ONLY = ("on-demand", "spot", "flex-start")

FAMILIES = (
    # Longest prefixes first. Kinds of capacity: the ordering notes of the page above; G4 and
    # Flex-start: "About Flex-start VMs" excludes it, a table of AI Hypercomputer does not, so it is
    # not relied upon. Bound: "About instances that use the reservation-bound model", 2026.
    Family(
        "a4x-maxgpu-",
        _HYPERDISK,
        gvnic=False,
        bundled_ssd=True,
        never=_RESERVED_ONLY,
        bound=True,
        nics=_ROCE_METAL,
        arm=True,
    ),
    Family(
        "a4x-highgpu-",
        _HYPERDISK,
        gvnic=True,
        bundled_ssd=True,
        never=_RESERVED_ONLY,
        bound=True,
        nics=_ROCE_NVL72,
        arm=True,
    ),
    Family(
        "a4-highgpu-",
        _HYPERDISK,
        gvnic=True,
        bundled_ssd=True,
        never=("on-demand",),
        bound=True,
        nics=_ROCE,
    ),
    Family(
        "a3-ultragpu-",
        _HYPERDISK,
        gvnic=True,
        bundled_ssd=True,
        never=("on-demand",),
        bound=True,
        nics=_ROCE,
    ),
    Family("a3-megagpu-", _A3, gvnic=True, bundled_ssd=True, bound=True, nics=_TCPXO),
    Family("a3-edgegpu-", _A3, gvnic=True, bundled_ssd=True, bound=True, nics=_TCPX),
    Family("a3-highgpu-8g", _A3, gvnic=True, bundled_ssd=True, bound=True, nics=_TCPX),
    Family("a3-highgpu-", _A3, gvnic=True, bundled_ssd=True, never=("on-demand", "reservation")),
    Family("a2-ultragpu-", ("pd-balanced", "pd-ssd", "pd-standard"), gvnic=True, bundled_ssd=True),
    Family("a2-", ("pd-balanced", "pd-ssd", "pd-standard"), gvnic=True, bundled_ssd=False),
    Family("g2-", ("pd-balanced", "pd-ssd"), gvnic=True, bundled_ssd=False),
    Family("g4-", _HYPERDISK, gvnic=True, bundled_ssd=False, never=("flex-start",)),
    Family(
        "n1-",
        ("pd-balanced", "pd-ssd", "pd-standard"),
        gvnic=False,
        bundled_ssd=False,
        never=("flex-start",),
    ),
)

NICS: dict[Nics, tuple[str, ...]] = {}
"""Every full network, with the machine type prefixes that have it."""
for _row in FAMILIES:
    if _row.nics is not None:
        NICS[_row.nics] = (*NICS.get(_row.nics, ()), _row.prefix.rstrip("-"))

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
    "a3-edgegpu-8g": ("nvidia-h100-80gb", 8),
    "a3-edgegpu-8g-nolssd": ("nvidia-h100-80gb", 8),
    "a3-ultragpu-8g": ("nvidia-h200-141gb", 8),
    "a3-ultragpu-8g-nolssd": ("nvidia-h200-141gb", 8),
    "a4-highgpu-8g": ("nvidia-b200", 8),
    "a4x-highgpu-4g": ("nvidia-gb200", 4),
    "a4x-maxgpu-4g-metal": ("nvidia-gb300", 4),
    "g4-standard-48": ("nvidia-rtx-pro-6000", 1),
    "g4-standard-96": ("nvidia-rtx-pro-6000", 2),
    "g4-standard-192": ("nvidia-rtx-pro-6000", 4),
    "g4-standard-384": ("nvidia-rtx-pro-6000", 8),
}


def family(machine_type: str) -> Family:
    """The family of a machine type that the adapter sells. Raises KeyError for another."""
    for row in FAMILIES:
        if machine_type.startswith(row.prefix):
            return row
    raise KeyError(machine_type)


def built_in(machine_type: str) -> tuple[str, int]:
    """(accelerator type, count) that the machine type brings, or ("", 0)."""
    return _BUILT_IN.get(machine_type, ("", 0))


def known() -> frozenset[str]:
    """The machine types that bring GPUs."""
    return frozenset(_BUILT_IN)


def bundled_ssd(machine_type: str) -> bool:
    """True where local SSD comes with the machine type."""
    return family(machine_type).bundled_ssd and not machine_type.endswith("-nolssd")


def most_local_ssds(machine_type: str) -> int:
    """How many 375 GiB local SSDs may be added: none in a family that bundles them; G2 takes one
    for each GPU, G4 four.
    """
    row = family(machine_type)
    if row.bundled_ssd:
        return 0
    return (
        built_in(machine_type)[1] * {"g2-": 1, "g4-": 4}[row.prefix]
        if row.prefix in ("g2-", "g4-")
        else 8
    )
