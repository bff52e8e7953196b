"""What a placement costs at its place now. Asks its cloud; buys nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model.placement import Price

if TYPE_CHECKING:
    from providers.engine.journal import orders as order_table
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Node
    from providers.model.offer import Offer
    from providers.model.placement import Placement


async def price_of(
    world: World, ask: Ask | None, where: Placement, node: Node, made: order_table.OrderRow | None
) -> Price:
    """The price when it was bought, else today's of the same place, else unknown."""
    if made is not None and made.ticket is not None and made.ticket.placed is not None:
        placed = made.ticket.placed
        whole = placed.micro_usd
        if whole is not None and placed.nodes != where.nodes:
            # Not all of them were bought at once.
            whole = whole * where.nodes // placed.nodes
        return placed.price._replace(micro_usd=whole)
    from providers.engine.market.collect import market

    offers = (await world.call(node.handle.provider, market, world, ask)).table
    for row in offers.by_gpu.get(node.gpu_type, ()):
        offer = offers.offer(row)
        same = (offer.provider, offer.region, offer.machine_type, offer.capacity) == (
            where.provider,
            node.region,
            node.machine_type,
            where.capacity,
        )
        if (
            same
            and offer.zone in {"", node.zone}
            and offer.gpu_count == node.gpu_count
            and offer.node_micro_usd is not None
        ):
            each = offer.node_micro_usd + _disk(world, ask, offer)
            return Price(each * where.nodes, offer.price_as_of, offer.price_source)
    return Price()


def _disk(world: World, ask: Ask | None, offer: Offer) -> int:
    """Micro-dollars an hour for the disk that is ordered with such a node."""
    from providers.engine.market.host_fit import hosting

    hosted = None if ask is None else hosting(ask, world.manifests)
    host = hosted and ask and hosted(ask.entries[0], offer.provider, offer.machine_type)
    return host.cost(offer.region)[0] if host else 0
