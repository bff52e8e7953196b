"""Compares what a machine is now with what was bought: drift. Owns the properties that are
compared, at a purchase and at each read.

A property that the cloud does not report is unknown, and never a difference. Pure, but for
`priced`, which asks what the machine costs as it is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.launch.verify import SHAPE, differences
from providers.model.machine import (
    DRIFTED,
    ENDED,
    FAILED,
    GONE,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STARTING,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node

PRICE = ("micro_usd", "price_as_of", "price_source")
UNKNOWN_GPU = "unknown"
"""The GPU of a machine whose type was changed to one that is not known here: it satisfies nothing.
"""
_OVER = frozenset({GONE, ENDED, FAILED, PREEMPTED})
"""What is over is compared with nothing."""
_RUNS = frozenset({QUEUED, PENDING, STARTING, RUNNING})


def as_bought(record: ClusterRecord) -> ClusterRecord:
    """The record with every property, and the price, as it was bought."""
    return record.with_terms(dict(record.bought))._replace(bought=())


def compared(record: ClusterRecord, nodes: Sequence[Node]) -> tuple[ClusterRecord, list[Node]]:
    """The record with the shape that all its machines have now, and the machines. Those that differ
    from the others are `drifted`: lost to it.
    """
    original = as_bought(record)
    compare = [node for node in nodes if node.status not in _OVER]
    zones = _zones(record)
    odd = {
        node.handle: differences(
            original.placement._replace(zone=zones.get(node.handle, original.placement.zone)), node
        )
        for node in compare
    }
    if not odd or nodes[0].kind == "service":
        # A provider's own service runs on any of its choices; what of it changed is `Node.drift`.
        return record, list(nodes)
    first = next(iter(odd.values()))
    if len(odd) < len(nodes) or any(other != first for other in odd.values()):
        return original, [
            (
                node._replace(status=DRIFTED, detail=_lines(original, odd[node.handle]))
                if odd.get(node.handle)
                else node
            )
            for node in nodes
        ]
    if not first:
        return original, list(nodes)
    if "machine_type" in first and not nodes[0].gpu_type:
        first = {**first, "gpu_type": UNKNOWN_GPU}
    terms = original.terms()
    bought = tuple(sorted((name, terms[name]) for name in (*first, *PRICE)))
    price = record.price if bought == record.bought else original.price
    return original.with_terms(first)._replace(price=price, bought=bought), list(nodes)


def _zones(record: ClusterRecord) -> dict[Handle, str]:
    """The zone that each machine was bought in, as far as it is known: replicas may stand in
    several.
    """
    if "zone" in dict(record.bought):
        return {}
    known = (node for node in record.machines if node.zone and node.status != DRIFTED)
    return {node.handle: node.zone for node in known}


def text(record: ClusterRecord) -> str:
    """`gpu_count: 4 -> 1, changed at gcp`: what differs from what was bought; empty where nothing
    does.
    """
    terms, previous = record.terms(), dict(record.bought)
    now = {name: terms[name] for name in SHAPE if name in previous}
    return f"{_lines(as_bought(record), now)}, changed at {record.provider}" if now else ""


def acts(record: ClusterRecord) -> bool:
    """True where something is to be done about a difference: the machines run, and are not as they
    were bought.
    """
    return bool(record.bought) and record.status in _RUNS


async def priced(world: World, before: ClusterRecord, after: ClusterRecord) -> ClusterRecord:
    """The record at what its place and shape cost now: another shape than at the last read has
    another price, or an unknown one.
    """
    from providers.engine.reconcile.pricing import price_of
    from providers.errors import CloudError
    from providers.model.placement import Price

    same = after.bought == before.bought and all(
        getattr(after.placement, name) == getattr(before.placement, name) for name in SHAPE
    )
    if same or not after.bought or not after.machines:
        return after
    try:
        price = await price_of(world, None, after.placement, after.machines[0], None)
    except CloudError:
        price = Price()
    return after._replace(price=price)


def _lines(bought: ClusterRecord, now: Mapping[str, object]) -> str:
    previous = bought.terms()
    return ", ".join(f"{name}: {previous[name]} -> {value}" for name, value in now.items())
