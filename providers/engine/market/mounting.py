"""Which places can mount the volumes of a declaration, and why the others can't. Pure."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from providers.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.base import Manifest
    from providers.model.ask import Ask

BUCKETS = "for several machines use a bucket under mounts:, or mode: ro once it is filled"


@cache
def zones(provider: str) -> dict[str, str]:
    """Zone -> region of every zone where this provider sells GPUs, by the bundled catalog."""
    from providers.catalog.offers import load

    table = load()
    rows = zip(*(table.column(name) for name in ("provider", "zone", "region")), strict=True)
    return {str(zone): str(region) for name, zone, region in rows if name == provider and zone}


def parted(
    ask: Ask, manifests: Mapping[str, Manifest]
) -> Callable[[str, str, str, str], str] | None:
    """What says why the volumes can't be mounted at (provider, region, zone, machine type); None
    where none are declared.
    """
    volumes = ask.workload.volumes if ask.workload is not None else ()
    if not volumes:
        return None

    @cache
    def why(provider: str, region: str, zone: str, machine_type: str) -> str:
        for volume in volumes:
            if volume.provider != provider:
                return f"its volume {volume.name} is at {volume.provider} {volume.place}".rstrip()
            if not volume.place:
                continue
            # An offer that names only its region is bought in the volume's zone.
            same = zone == volume.place if zone else region == zones(provider).get(volume.place)
            if not same:
                return f"its volume {volume.name} is in {volume.place}"
            sales = manifests[provider].storage
            if sales is None or sales.attaches is None:
                continue
            if taken := sales.attaches(machine_type, volume.type):
                return (
                    f"{machine_type} takes no {volume.type}, which its volume {volume.name} is:"
                    f" it takes {taken}"
                )
        return ""

    return why


def shared(ask: Ask, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """The volumes that several machines can't mount as declared."""
    volumes = ask.workload.volumes if ask.workload is not None else ()
    nodes = max(entry.nodes for entry in ask.entries)
    found: list[Problem] = []
    for volume in volumes if nodes > 1 else ():
        manifest = manifests.get(volume.provider)
        sales = None if manifest is None else manifest.storage
        if sales is None or not sales.types:
            continue
        if volume.writable or volume.type not in sales.shared:
            found.append(
                Problem(
                    f"workload.volumes.{volume.name}",
                    "one machine: only one can write to a disk"
                    if volume.writable
                    else f"one machine: a {volume.type} can't be mounted by several",
                    f"nodes: {nodes}",
                    BUCKETS if sales.shared else "for several machines use a bucket under mounts:",
                )
            )
    return found
