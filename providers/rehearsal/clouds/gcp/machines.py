"""What Compute Engine has where: machine types, their GPUs, zones and regions. Reads the committed
`machines.json` (see `generate`) once.

Owns the N1 rules for attached GPUs, which disks, interfaces and kinds of capacity a family takes
(Google's GPU machine type and network bandwidth pages, 2026-04), and where a type is sold whose
zones no source names. Imports nothing of the package.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class MachineType(NamedTuple):
    """One size. `accelerator` and `gpu` (the catalog's name) are empty for plain hosts; `gpu_count`
    is a fraction for a slice of a GPU.
    """

    name: str
    vcpus: int
    memory_mib: int
    accelerator: str
    gpu: str
    gpu_count: float
    bundled_ssd_gib: int
    zones: frozenset[str]
    regions: frozenset[str]
    """Regions that have the type in a zone no source names: there it can be asked for, but never
    had.
    """

    def in_region(self, region: str) -> bool:
        """True where the region has this type, be its zone known or not."""
        return region in self.regions or any(region_of(zone) == region for zone in self.zones)

    @property
    def family(self) -> str:
        """`a3-highgpu`, `g2-standard`: the name without its size."""
        return self.name.rsplit("-", 1)[0]


N1_LIMITS = {
    "nvidia-tesla-t4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
    "nvidia-tesla-p4": {1: (24, 156), 2: (48, 312), 4: (96, 624)},
    "nvidia-tesla-v100": {1: (12, 78), 2: (24, 156), 4: (48, 312), 8: (96, 624)},
    "nvidia-tesla-p100": {1: (16, 104), 2: (32, 208), 4: (96, 624)},
}
"""GPUs on N1: count -> the most vCPUs and GB of memory beside them."""

HYPERDISK_ONLY = ("a3-ultragpu", "a4-", "a4x-", "g4-")
NO_PD_STANDARD = ("a3-", "g2-")
NO_PD_EXTREME = ("n1-", "a2-", "g2-")
NO_HYPERDISK_BALANCED = ("n1-", "a2-", "g2-")


NEVER = (
    ("a4x-", ("on-demand", "spot", "flex-start")),
    ("a4-", ("on-demand",)),
    ("a3-ultragpu-", ("on-demand",)),
    ("a3-highgpu-8g", ()),
    ("a3-highgpu-", ("on-demand", "reservation")),
    ("g4-", ("flex-start",)),
)
"""Machine types by prefix, the first that fits: the kinds of capacity that are not sold."""

BOUND = ("a4x-", "a4-", "a3-ultragpu-", "a3-megagpu-", "a3-edgegpu-", "a3-highgpu-8g")
"""Types whose machines are bound to the reservation that a future reservation delivered."""

MOST_NICS = (
    ("a4x-maxgpu-", 10),
    ("a4x-highgpu-", 6),
    ("a4-", 10),
    ("a3-ultragpu-", 10),
    ("a3-megagpu-", 9),
    ("a3-edgegpu-", 5),
    ("a3-highgpu-8g", 5),
    ("a3-highgpu-", 1),
    ("g4-standard-384", 2),
    ("g4-", 1),
)
MOST_OTHER_NICS = 8
RDMA = ("a4x-", "a4-", "a3-ultragpu-")


def first_of(table: tuple[tuple[str, Any], ...], name: str, otherwise: Any) -> Any:
    """The entry of the first prefix that fits."""
    return next((value for prefix, value in table if name.startswith(prefix)), otherwise)


@cache
def _table() -> dict[str, Any]:
    import json

    content: dict[str, Any] = json.loads(
        (Path(__file__).parent / "machines.json").read_text(encoding="utf-8")
    )
    return content


@cache
def types() -> dict[str, MachineType]:
    """Every machine type by name.

    A type whose zones no source names at all (G4, A4X) is sold in the first zone of each of its
    regions: the rehearsal's own choice, not a fact.
    """
    rows = _table()["types"]
    known = sorted(
        {
            zone
            for row in [*rows.values(), *_table()["attachable"].values()]
            for zone in row["zones"]
        }
    )
    out = {}
    for name, row in rows.items():
        zones, regions_of = set(row["zones"]), set(row["regions"])
        if not zones:
            zones = {
                found
                for region in regions_of
                if (found := next((zone for zone in known if region_of(zone) == region), ""))
            }
            regions_of -= {region_of(zone) for zone in zones}
        out[name] = MachineType(
            name, **{**row, "zones": frozenset(zones), "regions": frozenset(regions_of)}
        )
    return out


@cache
def attachable() -> dict[str, tuple[str, frozenset[str]]]:
    """GPUs that attach to N1: accelerator type -> (the catalog's name, zones)."""
    return {
        name: (row["gpu"], frozenset(row["zones"])) for name, row in _table()["attachable"].items()
    }


@cache
def zones() -> tuple[str, ...]:
    """Every zone that any source names, in order."""
    found = {zone for machine in types().values() for zone in machine.zones} | {
        zone for _, where in attachable().values() for zone in where
    }
    return tuple(sorted(found))


@cache
def regions() -> tuple[str, ...]:
    """Every region that any source names, in order."""
    return tuple(
        sorted(
            {region_of(zone) for zone in zones()}
            | {region for machine in types().values() for region in machine.regions}
        )
    )


@cache
def accelerators() -> dict[str, tuple[int, frozenset[str]]]:
    """Accelerator type -> (most cards on one machine, zones)."""
    found: dict[str, tuple[int, frozenset[str]]] = {
        name: (max(N1_LIMITS[name]), where) for name, (_, where) in attachable().items()
    }
    for machine in types().values():
        if machine.accelerator:
            most, where = found.get(machine.accelerator, (0, frozenset()))
            found[machine.accelerator] = max(most, int(machine.gpu_count)), where | machine.zones
    return found


def region_of(zone: str) -> str:
    """`us-central1-a` is in `us-central1`."""
    return zone.rsplit("-", 1)[0]


def disk_refusal(machine_type: str, disk_type: str) -> bool:
    """True when this machine type does not take this kind of disk to boot from."""
    if any(machine_type.startswith(prefix) for prefix in HYPERDISK_ONLY):
        return disk_type != "hyperdisk-balanced"
    return (
        (disk_type == "pd-standard" and machine_type.startswith(NO_PD_STANDARD))
        or (disk_type == "pd-extreme" and machine_type.startswith(NO_PD_EXTREME))
        or (disk_type == "hyperdisk-balanced" and machine_type.startswith(NO_HYPERDISK_BALANCED))
        or disk_type == "local-ssd"
    )
