"""Whole placements among machines that no state names: what a run that was cut short has bought.
Pure.

Owns the terms a record has at such a placement: price, entry and limits are those of the order that
made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.launch.verify import delivered
from providers.engine.record import (
    HEALTHY,
    ClusterRecord,
    applied,
    began,
    healthy,
    limit_at,
    status_of,
)
from providers.errors import HalfMade
from providers.model.machine import QUEUED, Ticket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.journal.orders import OrderRow
    from providers.model.machine import Handle, Node
    from providers.model.offer import Candidate


class Replacement(NamedTuple):
    """The record moved to another placement. `order` made that one; without it the price is not
    known yet.
    """

    record: ClusterRecord
    order: OrderRow | None = None


def replacement(
    record: ClusterRecord, nodes: Sequence[Node], orders: Sequence[OrderRow], now: float
) -> Replacement | None:
    """The record moved to a whole placement among these machines, the latest bought first; None
    when none is whole and healthy.
    """
    good = [node for node in nodes if node.status in healthy(record.kind) and node.status != QUEUED]
    known: set[Handle] = set()
    for row in reversed(orders):
        own = [
            node for node in good if node.handle in row.handles or node.name in row.order.node_names
        ]
        known.update(node.handle for node in own)
        if own and not row.order.joins and len(own) == len(row.order.node_names):
            return Replacement(_moved(record, own, row, now), row)
    rest = [node for node in good if node.handle not in known]
    kinds = {
        (where.provider, where.where, where.machine_type, where.gpu_type, where.capacity)
        for where in (node.placement for node in rest)
    }
    return Replacement(_moved(record, rest, None, now)) if len(kinds) == 1 else None


def joined(
    record: ClusterRecord, after: ClusterRecord, extra: Sequence[Node], made: Sequence[OrderRow]
) -> ClusterRecord | None:
    """The degraded record made whole by machines that were bought to stand beside the rest; None
    where there are none. `made` are the orders that made something.
    """
    left = [node for node in after.machines if node.status in HEALTHY]
    rest = {node.handle for node in left}
    for row in reversed(made):
        own = [node for node in extra if node.status in HEALTHY and node.handle in row.handles]
        if (
            rest & set(row.order.joins)
            and len(own) == len(row.order.node_names)
            and len(left) + len(own) == record.placement.nodes
        ):
            placed = row.ticket.placed if row.ticket is not None else None
            return whole(record, left, own, None if placed is None else placed.micro_usd)
    return None


def whole(
    record: ClusterRecord, left: Sequence[Node], new: Sequence[Node], new_micro_usd: int | None
) -> ClusterRecord:
    """The record of what is left with what was bought beside it, at the price of both."""
    nodes = (*left, *new)
    old, micro_usd = record.price.micro_usd, None
    if old is not None and new_micro_usd is not None:
        micro_usd = old * len(left) // record.placement.nodes + new_micro_usd
    return record._replace(
        status=status_of(nodes),
        handles=tuple(node.handle for node in nodes),
        machines=nodes,
        price=record.price._replace(micro_usd=micro_usd),
        leftovers=(),
        reasons=(),
    )


def _moved(
    record: ClusterRecord, nodes: Sequence[Node], row: OrderRow | None, now: float
) -> ClusterRecord:
    first = nodes[0]
    launched = began(nodes, now, record.launched_at)
    moved = record._replace(
        handles=tuple(node.handle for node in nodes),
        machines=tuple(nodes),
        placement=first.placement._replace(nodes=len(nodes)),
        launched_at=launched,
        ends_at=launched + record.ends_at - record.launched_at if record.ends_at else 0.0,
        leftovers=(),
        reasons=(),
        bought=(),
    )
    if row is None:
        return moved
    ttl_s = row.order.setup.ttl_s
    moved = moved._replace(
        applied=applied(row.order.setup, record.kind),
        ends_at=launched + ttl_s if ttl_s else 0.0,
        account=row.account,
    )
    placed = _placed(row, nodes)
    if placed is None:
        return moved
    return moved._replace(
        ends_at=limit_at(launched, ttl_s, placed.offer.term),
        placement=moved.placement._replace(
            machine_type=placed.machine_type,
            gpu_type=placed.gpu_type,
            gpu_count=placed.gpu_count,
            reservation=placed.reservation,
        ),
        price=placed.price,
        entry=placed.entry,
    )


def _placed(row: OrderRow, nodes: Sequence[Node]) -> Candidate | None:
    """The candidate that these machines are."""
    if row.ticket is not None and row.ticket.placed is not None:
        return row.ticket.placed
    try:
        return delivered(Ticket(row.order, "done"), nodes)
    except HalfMade:
        return None
