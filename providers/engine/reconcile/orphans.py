"""Machines that bear a cluster's mark beside what its state holds: found at every look, told, and
taken over where they are what was meant.

A run that was killed while it placed the cluster anew, or reclaimed it, leaves such machines, or
leaves only them. Owns where a record moves to, with the terms it was bought on. Buys and deletes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.launch.verify import delivered
from providers.engine.reconcile.adopt import Place, price_of
from providers.engine.record import applied, began, healthy
from providers.engine.runtime.accounts import adapter_of, home_of
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import bill
from providers.errors import HalfMade
from providers.model.machine import GONE, QUEUED, Ticket, is_foreign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node
    from providers.model.offer import Candidate


async def orphans(world: World, held: ClusterRecord) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Existing machines of the cluster that are not among the held ones: of this generation, and of
    others. One search in each account that it has orders in.

    Those of others are what runs left that no state tells of: from another home, or overwritten
    there. Raises CloudErrors.
    """
    entries = world.journal.orders(world.name, held.owner, held.cluster, held.generation)
    adapters: dict[int, Cloud] = {}
    if held.provider:
        home = await home_of(world, held)
        adapters[id(home)] = home
    for provider, account in dict.fromkeys((entry.provider, entry.account) for entry in entries):
        adapter = await adapter_of(world, provider, account)
        adapters[id(adapter)] = adapter
    found: dict[Handle, Node] = {}
    for adapter in adapters.values():
        marked = (
            await repeated(world, adapter.name, adapter.find, held.owner, held.cluster)
            if held.owner
            else ()
        )
        found.update(
            {
                node.handle: node
                for node in marked
                if node.status != GONE and node.handle not in held.handles
            }
        )
    for entry in entries:
        # Some clouds have no marks: there the journal is what knows.
        unseen = [
            handle
            for handle in entry.handles
            if handle not in found and handle not in held.handles and handle not in held.leftovers
        ]
        if entry.state != order_table.MADE or not unseen:
            continue
        adapter = await adapter_of(world, entry.provider, entry.account)
        nodes = await repeated(world, adapter.name, adapter.observe, unseen)
        found.update({node.handle: node for node in nodes if node.status != GONE})
        if len(unseen) == len(entry.handles) and all(node.status == GONE for node in nodes):
            world.journal.settled(
                entry.order.token, order_table.RELEASED, world.clock.now(), "gone"
            )
    foreign = [node for node in found.values() if is_foreign(node.mark, held.generation)]
    return tuple(node for node in found.values() if node not in foreign), tuple(foreign)


def unclaimed(world: World, held: ClusterRecord, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Those that no other resource of a state names, as of the owner's last look: an imported one
    carries its old cluster's label.
    """
    claims = world.journal.claims(world.name, held.owner) or ()
    named = {
        handle
        for claim in claims
        if claim.generation != held.generation
        for handle in claim.handles
    }
    return tuple(node for node in nodes if node.handle not in named)


def told(nodes: Sequence[Node]) -> str:
    """Why the cluster is not as it should be while these exist."""
    return (
        f"half-made: {', '.join(node.name or node.handle.native_id for node in nodes)} bears this"
        " cluster's mark and is not in its state: a run was cut short;"
        f" {bill([node.handle for node in nodes], None)}; the next `up` releases it, or keeps it"
        " where it is the one that was meant"
    )


def relabelled(nodes: Sequence[Node]) -> str:
    """Why the cluster is not as it should be while its machines bear another run's label: no delete
    would take them for its own.
    """
    names = ", ".join(node.name or node.handle.native_id for node in nodes)
    return f"half-made: another run took {names} over; the next `up` labels it as this state's"


async def replacement(
    world: World, held: ClusterRecord, nodes: Sequence[Node]
) -> ClusterRecord | None:
    """The record moved to a whole placement among these machines, the latest bought first; None
    when none is whole and well.

    Price, entry and limits are those of the order that made it; without that order, today's price
    of the place.
    """
    well = [node for node in nodes if node.status in healthy(held.kind) and node.status != QUEUED]
    known: set[Handle] = set()
    for entry in reversed(
        world.journal.orders(world.name, held.owner, held.cluster, held.generation)
    ):
        mine = [
            node
            for node in well
            if node.handle in entry.handles or node.name in entry.order.node_names
        ]
        known.update(node.handle for node in mine)
        if mine and not entry.order.joins and len(mine) == len(entry.order.node_names):
            return _moved(held, mine, entry, world.clock.now())
    rest = [node for node in well if node.handle not in known]
    kinds = {
        (
            node.handle.provider,
            node.zone or node.region,
            node.machine_type,
            node.gpu_type,
            node.capacity,
        )
        for node in rest
    }
    if len(kinds) != 1:
        return None
    first = rest[0]
    where = Place(
        first.handle.provider,
        first.region,
        first.gpu_type,
        first.gpu_count,
        len(rest),
        first.capacity,
    )
    price = await price_of(world, None, where, first, None)
    moved = _moved(held, rest, None, world.clock.now())
    return moved._replace(
        micro_usd=price.micro_usd, price_as_of=price.as_of, price_source=price.source
    )


def _moved(
    held: ClusterRecord, nodes: Sequence[Node], entry: order_table.OrderRow | None, now: float
) -> ClusterRecord:
    first = nodes[0]
    launched = began(nodes, now, held.launched_at)
    moved = held._replace(
        handles=tuple(node.handle for node in nodes),
        machines=tuple(nodes),
        provider=first.handle.provider,
        region=first.region,
        zone=first.zone,
        machine_type=first.machine_type,
        gpu_type=first.gpu_type,
        gpu_count=first.gpu_count,
        nodes=len(nodes),
        capacity=first.capacity,
        reservation="",
        launched_at=launched,
        ends_at=launched + held.ends_at - held.launched_at if held.ends_at else 0.0,
        leftovers=(),
        reasons=(),
    )
    if entry is None:
        return moved
    ttl_s = entry.order.setup.ttl_s
    moved = moved._replace(
        applied=applied(entry.order.setup, held.kind),
        ends_at=launched + ttl_s if ttl_s else 0.0,
        account=entry.account,
    )
    placed = _placed(entry, nodes)
    if placed is None:
        return moved
    return moved._replace(
        micro_usd=placed.micro_usd,
        price_as_of=placed.price_as_of,
        price_source=placed.price_source,
        entry=placed.entry,
        reservation=placed.reservation,
        machine_type=placed.machine_type,
        gpu_type=placed.gpu_type,
        gpu_count=placed.gpu_count,
    )


def _placed(entry: order_table.OrderRow, nodes: Sequence[Node]) -> Candidate | None:
    """The candidate that these machines are."""
    if entry.ticket is not None and entry.ticket.placed is not None:
        return entry.ticket.placed
    try:
        return delivered(Ticket(entry.order, "done"), nodes)
    except HalfMade:
        return None
