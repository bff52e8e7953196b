"""Collects the market: asks every provider that an ask allows for its offers, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.engine.market.at_once import all_at_once
from providers.engine.market.offers import (
    at_option_prices,
    at_todays_prices,
    derived_offers,
    listed,
    overlay,
    own,
)
from providers.engine.market.snapshot import Market, with_warnings
from providers.errors import GpusError, NoHome, NotConfigured
from providers.model.worlds import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.offer import Offer
    from providers.model.place import Block
    from providers.planner.expected import Tried


def market(
    world: World,
    ask: Ask | None = None,
    *,
    warnings: Iterable[str] = (),
    only: Collection[str] | None = None,
    limit_s: float = 0.0,
    compared: bool = False,
) -> Market:
    """Looks at every provider that the ask allows. Blocking: at most a little over `limit_s`
    (default `LOOK_LIMIT_S`).

    `only` narrows the live look to these providers; the others are shown from the catalog.
    `compared` also looks at marketplaces that are not asked for, so that a plan can say what they
    would cost; what goes wrong there is no line.
    """
    from contextlib import suppress

    from providers.engine.market import advice, closed_places
    from providers.engine.messages import bare

    base = world.offers
    lines = [*warnings]
    if base is None:
        import datetime

        from providers.catalog.offers import load, stale

        base = load()
        lines.extend(stale(datetime.datetime.now(tz=datetime.UTC).date()))
    able = {name: manifest.capabilities for name, manifest in world.manifests.items()}
    allowed = [
        name for name in able if ask is None or ask.allows(name, marketplace=able[name].marketplace)
    ]
    beside = [
        name
        for name in able
        if able[name].marketplace
        and ask is not None
        and not ask.providers
        and name not in allowed
        and compared
    ]
    allowed += beside
    live = [
        name
        for name in allowed
        if world.manifests[name].capabilities.live_offers and (only is None or name in only)
    ]
    looking = [name for name in allowed if world.name == LIVE or name in live]
    begin = closed_places.begin_closed(world, base, allowed)

    def now(adapter: Cloud) -> Sequence[Offer] | None:
        return (
            at_todays_prices(adapter, base, ask, lines)
            if only is None or adapter.name in only
            else None
        )

    looked = _look(world, looking, live, ask, now, begin, lines, limit_s or LOOK_LIMIT_S)
    unavailable: dict[str, str] = {}
    silent: dict[str, str] = {}
    rows: dict[str, Sequence[Offer]] = {}
    for name, (result, missing, _) in looked.items():
        if missing:
            # A market that anybody may read: its offers are shown, and refused for what is missing
            # to buy them.
            unavailable[name] = missing
        if isinstance(result, NotConfigured):
            unavailable[name] = bare(name, result)
        elif isinstance(result, NoHome):
            lines.append(str(result))  # the same for all of them, and for the journal: said once
        elif isinstance(result, Exception):
            if name not in beside:
                lines.append(
                    f"{name}: could not be looked at, its bundled offers are shown:"
                    f" {bare(name, result)}"
                )
                silent[name] = bare(name, result)
        elif result is not None:
            rows[name] = result
    changed = ask is not None and (ask.options or ask.kind != "machine")
    base_rows = (
        at_option_prices(world, base, ask, [name for name in allowed if name not in rows])
        if ask is not None and changed
        else {}
    )
    rows = {
        **base_rows,
        **(derived_offers(base, ask, world.manifests, allowed) if ask is not None else {}),
        **rows,
    }
    for name in allowed if ask is not None and ask.regions else ():
        manifest = world.manifests[name]
        if manifest.pricing.in_regions is not None and ask is not None:
            free = rows.get(name) or own(base, name)
            rows[name] = [*free, *manifest.pricing.in_regions(free, ask.regions)]
    if ask is not None and ask.block is not None:
        from providers.engine.market import blocks

        sold, said, unlisted = blocks.listed(world, ask, base, allowed, limit_s or LOOK_LIMIT_S)
        lines.extend(said)
        silent |= unlisted
        for name, found in sold.items():
            rows[name] = [*(rows.get(name) or own(base, name)), *found]
    notes = {
        name: manifest.pricing.notes
        for name, manifest in world.manifests.items()
        if manifest.pricing.notes is not None
    }
    closed: Sequence[Block] = ()
    tried: Tried | None = None
    with suppress(GpusError, OSError):  # a journal that cannot be read is told where it matters
        closed = closed_places.closed(
            world, begin, {name: usable for name, (_, _, usable) in looked.items()}, allowed
        )
        tried = _tried(world)
    seen = advice.advised(
        world,
        Market(
            overlay(base, rows) if rows else base,
            able,
            unavailable,
            notes,
            world.manifests,
            silent,
            closed,
            tried,
        ),
        ask,
        lines,
    )
    return with_warnings(seen, lines) if lines else seen


def _tried(world: World) -> Tried | None:
    """What the journal remembers of tries; None where nothing was ever tried."""
    if not world.has_journal:
        return None
    from providers.planner.expected import Tried

    found = world.journal.tries(world.name)
    # The rehearsal's clock is another file to open: only where there is something to compare.
    return Tried(found, world.clock.now(), rehearsed=world.name != LIVE) if found else None


def _look(
    world: World,
    names: Sequence[str],
    live: Collection[str],
    ask: Ask | None,
    today: Callable[[Cloud], Sequence[Offer] | None],
    begin_closed: Mapping[str, Mapping[tuple[str, str], str]],
    lines: list[str],
    limit_s: float,
) -> dict[str, tuple[Any, str, frozenset[tuple[str, str]]]]:
    """For each provider its live offers, or None, or the exception, what is missing to buy there,
    and which of the places that begin closed are open in a live account; all at once, each within
    its time.
    """
    if not names:
        return {}
    from providers.engine.market import closed_places

    missing: dict[str, str] = {}
    usable: dict[str, frozenset[tuple[str, str]]] = {}

    def look(name: str) -> Sequence[Offer] | None:
        adapter = world.adapter(name)
        # What is missing to buy there is known without an answer.
        missing[name] = adapter.not_configured
        result = (
            listed(adapter, ask, world.manifests.get(name))
            if name in live
            else today(adapter)
            if world.name == LIVE
            else None
        )
        lines.extend(f"{name}: {remark}" for remark in adapter.remarks)
        if world.name == LIVE and name in begin_closed:
            usable[name] = closed_places.usable(adapter, begin_closed[name])
        return result

    found = all_at_once(look, names, limit_s, "look")
    return {
        name: (result, missing.get(name, ""), usable.get(name, frozenset()))
        for name, result in found.items()
    }


LOOK_LIMIT_S = 8.0
"""Seconds that one provider has to connect and list its offers before the plan is made without it.
"""
