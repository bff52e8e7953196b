"""Blocks for sale: asked of the providers that sell them, where a declaration asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.messages import bare
from providers.errors import GpusError
from providers.model.ask import RESERVATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.catalog.table import OfferTable
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.offer import Offer


def listed(
    world: World, ask: Ask, base: OfferTable, names: Iterable[str], limit_s: float
) -> tuple[dict[str, Sequence[Offer]], list[str]]:
    """Each provider's blocks that the ask's terms allow, and what could not be learnt, in lines.
    Blocking: at most a little over `limit_s`.
    """
    import threading
    import time

    found: dict[str, Sequence[Offer]] = {}
    lines: list[str] = []

    def look(name: str) -> None:
        try:
            offers, said = world.adapter(name).block_offers(ask, like(world, ask, base, name))
            lines.extend(f"{name}: {line}" for line in said)
            found[name] = offers
        except GpusError as error:
            lines.append(f"{name}: its blocks could not be listed: {bare(name, error)}")

    selling = [name for name in names if world.manifests[name].capabilities.blocks]
    threads = [
        threading.Thread(target=look, args=(name,), name=f"gpus-blocks-{name}", daemon=True)
        for name in selling
    ]
    until = time.monotonic() + limit_s
    for thread in threads:
        thread.start()
    for name, thread in zip(selling, threads, strict=True):
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            lines.append(f"{name}: its blocks could not be listed within {limit_s:.0f}s")
    return dict(found), list(lines)


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
