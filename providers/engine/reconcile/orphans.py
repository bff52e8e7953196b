"""Machines that carry a cluster's label and are in no state: which of them are whose, and what is
said of them.

A run that was killed while it placed the cluster again, or reclaimed it, leaves such machines, or
leaves only them. `observe.search` finds them. Buys and deletes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.termination.settle import may_cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Node


def unclaimed(world: World, record: ClusterRecord, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Those that no other resource of a state names, as of the owner's last read: an imported one
    carries its old cluster's label.
    """
    claims = world.journal.claims(world.name, record.owner) or ()
    named = {
        handle
        for claim in claims
        if claim.generation != record.generation
        for handle in claim.handles
    }
    return tuple(node for node in nodes if node.handle not in named)


def with_orphans(record: ClusterRecord, orphans: Sequence[Node]) -> ClusterRecord:
    """The record with machines that must go besides."""
    if not orphans:
        return record
    leftovers = dict.fromkeys((*record.leftovers, *(node.handle for node in orphans)))
    return record._replace(
        leftovers=tuple(leftovers), reasons=(*record.reasons, orphan_message(orphans))
    )


def orphan_message(nodes: Sequence[Node]) -> str:
    """Why the cluster is not as it should be while these exist."""
    names = ", ".join(node.name or node.handle.native_id for node in nodes)
    return (
        f"half-made: {names} carries this cluster's label and is not in its state:"
        " a run was cut short;"
        f" {may_cost([node.handle for node in nodes], None)}; the next `up` releases it, or keeps"
        " it where that one satisfies the declaration"
    )


def taken_over_message(nodes: Sequence[Node]) -> str:
    """Why the cluster is not as it should be while its machines carry another run's label (no
    delete would take them for its own), or nobody can log in to them.
    """
    names = ", ".join(node.name or node.handle.native_id for node in nodes)
    if closed := next((node.closed for node in nodes if node.closed), ""):
        return f"half-made: {names} is {closed}; the next `up` puts that right"
    return f"half-made: another run took {names} over; the next `up` labels it as this state's"
