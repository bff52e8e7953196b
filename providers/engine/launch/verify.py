"""What was delivered, against what was ordered: type, count, number, place, and that nothing is
wrong with it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.record import ended_itself, healthy
from providers.errors import HalfMade, NotWhatWasSold
from providers.model.machine import NO_GPU
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.machine import Node, Ticket
    from providers.model.offer import Candidate
    from providers.model.placement import Placement

SHAPE = ("machine_type", "gpu_type", "gpu_count", "region", "zone", "capacity")


def delivered(ticket: Ticket, nodes: Sequence[Node]) -> Candidate:
    """The candidate that was acquired, once the machines are what was ordered: type, count, number,
    one place. Raises HalfMade when they are not.
    """
    candidates = ticket.order.candidates if ticket.placed is None else (ticket.placed,)
    found, other = "", False
    for placed in candidates:
        found, other = _differs(placed, nodes)
        if not found:
            return placed
    first = candidates[0]
    wanted = (
        f"{first.nodes} x {first.machine_type} with {first.placement.gpu} in"
        f" {first.placement.where}"
    )
    kind = NotWhatWasSold if other else HalfMade
    where = [Scope(first.provider, first.region, first.zone, first.machine_type)] if other else []
    raise kind(
        f"wanted {wanted}, found {found}",
        provider=first.provider,
        scopes=where,
        handles=[*ticket.handles],
    )


def _differs(placed: Candidate, nodes: Sequence[Node]) -> tuple[str, bool]:
    """What is not as ordered, or nothing; and whether it is another machine. What a cloud does not
    tell about a machine is not held against it.
    """
    if len(nodes) != placed.nodes:
        return f"{len(nodes)} machines", False
    zones = {node.zone for node in nodes if node.zone}
    if len(zones) > 1:
        return f"machines in {', '.join(sorted(zones))}", False
    for node in nodes:
        if node.status not in healthy(placed.kind) and not ended_itself(node, placed.kind):
            return f"{node.name} {node.status}", False
        if node.contradiction:
            return (
                f"{node.name}, of which {node.handle.provider} reports {node.contradiction}",
                True,
            )
        for name, found in differences(placed.placement, node).items():
            return f"{node.name} with {found} instead of {getattr(placed, name)}", True
    return "", False


def differences(bought: Placement, node: Node) -> dict[str, object]:
    """The properties of a machine that are not as bought, with what its cloud reports now."""
    found = {name: getattr(node, name) for name in SHAPE}
    reported = {
        name: value
        for name, value in found.items()
        if value or (name == "gpu_count" and node.gpu_type == NO_GPU)
    }
    return {
        name: value
        for name, value in reported.items()
        if getattr(bought, name) and value != getattr(bought, name)
    }
