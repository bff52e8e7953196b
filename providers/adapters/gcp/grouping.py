"""Which candidates may share one creating call, and in which scope it is made. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.gcp import fabric, machines
from providers.adapters.gcp.options import read as read_options
from providers.model.ask import FLEX_START, RESERVATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Order
    from providers.model.offer import Candidate
REGIONAL, ZONAL, INSERT = "regionInstances.bulkInsert", "instances.bulkInsert", "instances.insert"


def group(candidates: Sequence[Candidate]) -> int:
    """How many leading candidates one regional bulkInsert may choose among without changing the
    plan's order; at least 1.

    Google tries machine types by rank and, within one, picks a zone itself; so a group is every
    zone of the first type, then every zone of the next: one region, one entry (entries may differ
    in time limits), one capacity kind, equal price within a type, and the same zones for each type,
    since Google would also try the pairs that the plan refused. One body serves all of them, so
    disks, image and interfaces must be alike. GPUs on N1 cannot vary there; Flex-start's queue and
    a named reservation are zonal.
    """
    first = candidates[0]
    if not first.zone or first.offer.accelerator or first.capacity in (FLEX_START, RESERVATION):
        return 1
    blocks: list[tuple[str, list[str]]] = []
    price: int | None = None
    best = 1
    for taken, candidate in enumerate(candidates, 1):
        alike = (
            candidate.region == first.region
            and candidate.zone
            and candidate.entry == first.entry
            and candidate.capacity == first.capacity
            and candidate.nodes == first.nodes
            and candidate.gpu_count == first.gpu_count
            and not candidate.offer.accelerator
            and _alike(first.machine_type, candidate.machine_type)
        )
        if not alike:
            break
        if blocks and blocks[-1][0] == candidate.machine_type:
            if candidate.micro_usd != price or candidate.zone in blocks[-1][1]:
                break
            blocks[-1][1].append(candidate.zone)
        elif any(machine_type == candidate.machine_type for machine_type, _ in blocks):
            break
        else:
            blocks.append((candidate.machine_type, [candidate.zone]))
            price = candidate.micro_usd
        if all(set(zones) == set(blocks[0][1]) for _, zones in blocks):
            best = taken
    return best


def _alike(one: str, other: str) -> bool:
    first, second = machines.family(one), machines.family(other)
    return first._replace(prefix="") == second._replace(prefix="") and machines.bundled_ssd(
        one
    ) == machines.bundled_ssd(other)


def together(candidates: Sequence[Candidate], section: Mapping[str, object]) -> int:
    """How many leading candidates take the same interfaces under these options, so that one call
    can hold them; at least 1.
    """
    named = read_options(section).fabric
    if not named:
        return len(candidates)
    first = fabric.chosen(named, candidates[0].zone, candidates[0].machine_type)
    for taken, candidate in enumerate(candidates):
        if fabric.chosen(named, candidate.zone, candidate.machine_type) != first:
            return taken
    return len(candidates)


def scope_of(order: Order) -> str:
    """Where the order's operation lives: `zones/Z` or `regions/R`."""
    first = order.candidates[0]
    return (
        f"zones/{first.zone}"
        if first.zone and len(order.candidates) == 1
        else f"regions/{first.region}"
    )
