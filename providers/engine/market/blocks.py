"""Blocks for sale: asked of the providers that sell them, where a declaration asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.market.at_once import all_at_once
from providers.engine.messages import bare
from providers.model.ask import RESERVATION

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
    """Each provider's blocks that the ask's terms allow; what it said besides, in lines; and why
    those of the others could not be listed. Blocking: at most a little over `limit_s`.
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
    return found, [*lines, *(f"{name}: {why}" for name, why in silent.items())], silent


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
