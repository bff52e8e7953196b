"""Blocks where a declaration asks for one: those for sale, asked of the providers that sell them,
and those that its cluster has paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal.orders import EVERY
from providers.engine.market.at_once import all_at_once
from providers.engine.messages import bare
from providers.model.ask import RESERVATION
from providers.model.machine import BLOCK_ENDS_AT, BLOCK_NAME, UPFRONT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.base import Repriced
    from providers.catalog.table import OfferTable
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.offer import Offer


def listed(
    world: World, ask: Ask, base: OfferTable, names: Iterable[str], limit_s: float
) -> tuple[dict[str, Sequence[Offer]], list[str], Mapping[str, str]]:
    """Each provider's blocks that the ask's terms allow, and those that are paid for; what it said
    besides, in lines; and why those of the others could not be listed. Blocking: at most a little
    over `limit_s`.
    """

    def look(name: str) -> Repriced:
        return world.adapter(name).block_offers(ask, like(world, ask, base, name))

    selling = [name for name in names if world.manifests[name].capabilities.blocks]
    found: dict[str, Sequence[Offer]] = {}
    lines: list[str] = []
    silent: dict[str, str] = {}
    for name, result in all_at_once(look, selling, limit_s, "blocks").items():
        if isinstance(result, Exception):
            silent[name] = f"its blocks could not be listed: {bare(name, result)}"
        else:
            found[name] = result.offers
            lines.extend(f"{name}: {line}" for line in result.lines)
    for offer in ask.block.paid if ask.block is not None else ():
        if offer.provider in selling:
            found[offer.provider] = [*found.get(offer.provider, ()), offer]
    return found, [*lines, *(f"{name}: {why}" for name, why in silent.items())], silent


def with_paid(world: World, ask: Ask, owner: str, cluster: str) -> Ask:
    """The ask with the blocks that the owner's cluster has paid for and that are not over, as far
    as this machine's journal knows.
    """
    if ask.block is None or not world.has_journal:
        return ask
    now = world.clock.now()
    paid: dict[str, Offer] = {}
    for row in world.journal.orders(world.name, owner, cluster, states=EVERY):
        known = {} if row.ticket is None else dict(row.ticket.native)
        offer = row.order.candidates[0].offer
        ends_at = float(known.get(BLOCK_ENDS_AT, 0))
        if offer.term is not None and UPFRONT in known and now < min(ends_at, offer.term.ends_at):
            term = offer.term._replace(upfront_micro_usd=0)
            paid.setdefault(known[BLOCK_NAME], offer._replace(term=term, restriction=""))
    return ask._replace(block=ask.block._replace(paid=tuple(paid.values())))


def like(world: World, ask: Ask, base: OfferTable, name: str) -> list[Offer]:
    """The bundled offers of a provider whose machines may be sold in blocks and that a choice of
    the ask would take, in its regions.
    """
    from providers.planner.rules import types

    kinds = tuple(world.manifests[name].capabilities.blocks)
    offers = (
        (entry, base.offer(row))
        for entry in ask.block_choices
        for gpu in types(entry)
        for row in base.by_gpu.get(gpu, ())
    )
    return [
        offer
        for entry, offer in offers
        if offer.provider == name
        and offer.capacity == RESERVATION
        and offer.gpu_count == entry.gpu_count
        and offer.machine_type.startswith(kinds)
        and (not ask.regions or offer.region in ask.regions)
    ]
