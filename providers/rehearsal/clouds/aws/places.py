"""What EC2 has where: regions, zones, and which zone has which instance type. Reads the committed
`zones.json` (see `generate`) once; it holds EC2's own list of 2026-10 (MOT of
`providers/catalog/sources/README.md`).

Owns the account's zone names and default network, which are made up but the same in every process.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any


@cache
def table() -> dict[str, dict[str, Any]]:
    """The committed file: regions, types, machines."""
    import json

    content: dict[str, dict[str, Any]] = json.loads(
        (Path(__file__).parent / "zones.json").read_text(encoding="utf-8")
    )
    return content


def regions() -> tuple[str, ...]:
    """Every region, in order."""
    return tuple(table()["regions"])


def zones(region: str) -> tuple[str, ...]:
    """The region's zone ids, in order; none for an unknown region."""
    return tuple(table()["regions"].get(region, ()))


@cache
def region_of(zone: str) -> str:
    """The region of a zone id; empty for an unknown one."""
    return next((region for region, found in table()["regions"].items() if zone in found), "")


def has(zone: str, machine_type: str) -> bool:
    """Whether the zone has the type at all."""
    return zone in table()["types"].get(machine_type, ())


def known_types() -> frozenset[str]:
    """Every instance type that can be launched somewhere."""
    return frozenset(table()["types"])


def local(zone: str) -> bool:
    """Whether it is a Local Zone (`use1-atl2-az1`), which an account must opt into."""
    return zone.count("-") > 1


@cache
def names(region: str) -> dict[str, str]:
    """This account's zone name -> zone id; it has opted into no Local Zone.

    Letters are dealt out backwards: as in a real account, they are not in the order of the ids.
    """
    found = [zone for zone in zones(region) if not local(zone)]
    return {
        f"{region}{letter}": zone for letter, zone in zip("abcdefgh", reversed(found), strict=False)
    }


def name_of(zone: str) -> str:
    """The account's name of a zone id."""
    return next((name for name, found in names(region_of(zone)).items() if found == zone), "")


@lru_cache(maxsize=4096)
def made_up(prefix: str, *parts: str) -> str:
    """An id that is the same everywhere: `subnet-` and 17 hex digits."""
    return f"{prefix}-{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:17]}"


def default_vpc(region: str) -> str:
    """The region's default VPC."""
    return made_up("vpc", region)


def default_subnet(zone: str) -> str:
    """The zone's default subnet."""
    return made_up("subnet", zone)


@cache
def subnet_zones() -> dict[str, str]:
    """Default subnet -> zone id."""
    return {default_subnet(zone): zone for region in regions() for zone in names(region).values()}


IMAGE_SYSTEMS = {
    "ubuntu-22.04": "/dev/sda1",
    "ubuntu-24.04": "/dev/sda1",
    "amazon-linux-2023": "/dev/xvda",
}
IMAGE_GIB = 75
ARCHITECTURES = ("x86_64", "arm64")


@cache
def images(region: str) -> dict[str, dict[str, Any]]:
    """The Deep Learning images of a region: id -> {parameter, architecture, device}."""
    out: dict[str, dict[str, Any]] = {}
    for system, device in IMAGE_SYSTEMS.items():
        for architecture in ARCHITECTURES:
            parameter = (
                f"/aws/service/deeplearning/ami/{architecture}"
                f"/base-oss-nvidia-driver-gpu-{system}/latest/ami-id"
            )
            out[made_up("ami", region, parameter)] = {
                "parameter": parameter,
                "architecture": architecture,
                "device": device,
            }
    return out
