"""Observes a cluster: asks its cloud for the machines that its record names, and for those of its
label that the record does not.

Owns which calls a read and an update make to learn what is there, and nothing of what it means (see
`condition`). Buys and deletes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import orders as order_table
from providers.engine.readiness.workload import observed
from providers.engine.record import SEARCHING, UNSETTLED
from providers.engine.runtime.accounts import adapter_of, by_adapter, home_of
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.lost import Lost
from providers.errors import CloudError
from providers.model.machine import GONE, QUEUED, is_foreign

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.journal.orders import OrderRow
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node, Ticket


class Observation(NamedTuple):
    """What clouds and journal say of a cluster.

    `nodes` are the machines of the record; `extra` and `foreign` carry the cluster's label and are
    not in it, of this generation and of others. `leftovers` are those of the record's that still
    exist (of an update: none, it deletes them unasked). `orders` are the journal's of this
    generation, `ticket` how far the one is that waits in a queue. `search_error` is why `extra` and
    `foreign` are unknown. Not `complete`: the record names nothing that a cloud could be asked for.
    `lost` are orders that another one has beaten, and which are not known to be gone.
    """

    nodes: tuple[Node, ...] = ()
    extra: tuple[Node, ...] = ()
    foreign: tuple[Node, ...] = ()
    leftovers: tuple[Handle, ...] = ()
    orders: tuple[OrderRow, ...] = ()
    ended_why: str = ""
    ticket: Ticket | None = None
    search_error: CloudError | None = None
    complete: bool = True
    lost: tuple[Lost, ...] = ()

    @property
    def pending(self) -> tuple[OrderRow, ...]:
        """Orders of which it is not known what they made."""
        return tuple(row for row in self.orders if row.state in order_table.PENDING)

    @property
    def made(self) -> tuple[OrderRow, ...]:
        """Orders that made machines."""
        return tuple(row for row in self.orders if row.state == order_table.MADE)


async def observe(world: World, record: ClusterRecord, *, updates: bool = False) -> Observation:
    """Asks for all of it. Raises CloudErrors; of a read's search for orphans they are returned.

    What a pending order made is settled by an update or a deletion, which may change things: a read
    polls the one that waits in a queue, and no more.
    """
    orders = _orders(world, record)
    if not (updates or record.handles or record.leftovers):
        observation = Observation(orders=orders, complete=False)
        if observation.pending or record.status in (GONE, UNSETTLED, *SEARCHING):
            return observation._replace(ticket=await _polled(world, record, observation.pending))
    nodes: tuple[Node, ...] = ()
    if record.handles or not updates:
        adapter = await home_of(world, record)
        nodes = await observed(world, adapter, record) if record.handles else ()
    leftovers = () if updates else await _existing(world, record, record.leftovers)
    error: CloudError | None = None
    extra: tuple[Node, ...] = ()
    foreign: tuple[Node, ...] = ()
    try:
        extra, foreign = await search(world, record)
    except CloudError as failed:
        if updates:
            raise
        error = failed
    if not updates and (extra or foreign) and world.is_at_work(record.owner, record.cluster):
        # While another process is at work on it, what is there is that one's business.
        extra, foreign = (), ()
    return Observation(
        nodes,
        extra,
        foreign,
        leftovers,
        _orders(world, record),
        "" if error is not None else world.journal.ended_why(record),
        search_error=error,
        lost=() if updates else _lost(world, record, orders),
    )


def _orders(world: World, record: ClusterRecord) -> tuple[OrderRow, ...]:
    return world.journal.orders_of(world.name, record.owner, record.cluster, record.generation)


def _lost(world: World, record: ClusterRecord, orders: Sequence[OrderRow]) -> tuple[Lost, ...]:
    """Those of the orders that have lost and are not known to be gone; none while a process is at
    work on them.
    """
    if world.is_at_work(record.owner, record.cluster):
        return ()
    pending = (row for row in orders if row.race and row.state in order_table.PENDING)
    return tuple(Lost(row, row.handles) for row in pending if world.journal.has_lost(row))


async def _polled(
    world: World, record: ClusterRecord, pending: Sequence[OrderRow]
) -> Ticket | None:
    """How far the order is that waits in a cloud's queue; one call."""
    if not pending or pending[0].ticket is None or record.status != QUEUED:
        return None
    if pending[0].ticket.begins_at:
        return None  # only an `up` starts machines in it
    adapter = await adapter_of(world, pending[0].provider, pending[0].account)
    return await repeated(world, adapter.name, adapter.poll, pending[0].ticket)


async def _existing(
    world: World, record: ClusterRecord, handles: Collection[Handle]
) -> tuple[Handle, ...]:
    """Those of the machines that still exist."""
    found: set[Handle] = set()
    for adapter, own in await by_adapter(world, record, handles):
        found.update(
            node.handle
            for node in await repeated(world, adapter.name, adapter.observe, own)
            if node.status != GONE
        )
    return tuple(handle for handle in handles if handle in found)


async def search(world: World, record: ClusterRecord) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Existing machines of the cluster that the record does not name: of this generation, and of
    others. One search in each account that it has orders in.

    Those of others are what runs left that no state names: from another home, or overwritten there.
    Raises CloudErrors.
    """
    orders = _orders(world, record)
    adapters: dict[int, Cloud] = {}
    if record.provider:
        home = await home_of(world, record)
        adapters[id(home)] = home
    for provider, account in dict.fromkeys((row.provider, row.account) for row in orders):
        adapter = await adapter_of(world, provider, account)
        adapters[id(adapter)] = adapter
    found: dict[Handle, Node] = {}
    for adapter in adapters.values():
        labelled = (
            await repeated(world, adapter.name, adapter.find, record.owner, record.cluster)
            if record.owner
            else ()
        )
        found.update(
            {
                node.handle: node
                for node in labelled
                if node.status != GONE and node.handle not in record.handles
            }
        )
    for row in orders:
        found.update(await _journaled(world, record, row, found))
    foreign = [node for node in found.values() if is_foreign(node.label, record.generation)]
    return tuple(node for node in found.values() if node not in foreign), tuple(foreign)


async def _journaled(
    world: World, record: ClusterRecord, row: OrderRow, found: Collection[Handle]
) -> dict[Handle, Node]:
    """Machines of an order that neither a search nor the record names: some clouds have no labels,
    and there the journal is what knows them.
    """
    known = {*found, *record.handles, *record.leftovers}
    handles = [handle for handle in row.handles if handle not in known]
    if row.state != order_table.MADE or not handles:
        return {}
    adapter = await adapter_of(world, row.provider, row.account)
    nodes = await repeated(world, adapter.name, adapter.observe, handles)
    if len(handles) == len(row.handles) and all(node.status == GONE for node in nodes):
        world.journal.settled(row.order.token, order_table.RELEASED, world.clock.now(), "gone")
    return {node.handle: node for node in nodes if node.status != GONE}
