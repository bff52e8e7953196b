"""Collects the market: asks every provider that an ask allows for its offers, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    from providers.catalog.table import OfferTable
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.offer import Offer
    from providers.model.place import Block
    from providers.planner.expected import Tried

LOOK_LIMIT_S = 8.0
"""Seconds that one provider has to connect and list its offers before the plan is made without it.
"""


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

    lines, limit_s = [*warnings], limit_s or LOOK_LIMIT_S
    base = _bundled(world, lines)
    asked, compared_with = _asked(world, ask)
    allowed = [*asked, *(compared_with if compared else ())]
    live = [
        name
        for name in allowed
        if world.manifests[name].capabilities.live_offers and (only is None or name in only)
    ]
    begins_closed = closed_places.begin_closed(world, base, allowed)

    def at_todays(adapter: Cloud) -> Sequence[Offer] | None:
        if only is not None and adapter.name not in only:
            return None
        return at_todays_prices(adapter, base, ask, lines)

    names = [name for name in allowed if world.name == LIVE or name in live]
    looked = _look(world, names, live, ask, at_todays, begins_closed, lines, limit_s)
    answers = _answers(looked, compared_with, lines)
    rows, silent = answers.rows, answers.silent
    if ask is not None:
        rows = _of_the_ask(world, base, ask, allowed, rows)
    if ask is not None and ask.block is not None:
        from providers.engine.market import blocks

        sold, said, unlisted = blocks.listed(world, ask, base, allowed, limit_s)
        lines.extend(said)
        silent |= unlisted
        for name, found in sold.items():
            rows[name] = [*(rows.get(name) or own(base, name)), *found]
    closed: Sequence[Block] = ()
    tried: Tried | None = None
    with suppress(GpusError, OSError):  # a journal that cannot be read is told where it matters
        usable = {name: each.usable for name, each in looked.items()}
        closed = closed_places.closed(world, begins_closed, usable, allowed)
        tried = _tried(world)
    notes = {
        name: manifest.pricing.notes
        for name, manifest in world.manifests.items()
        if manifest.pricing.notes is not None
    }
    seen = advice.advised(
        world,
        Market(
            overlay(base, rows) if rows else base,
            {name: manifest.capabilities for name, manifest in world.manifests.items()},
            answers.unavailable,
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


def _bundled(world: World, lines: list[str]) -> OfferTable:
    """The world's own offers, else the bundled ones, with a line where these are old."""
    if world.offers is not None:
        return world.offers
    import datetime

    from providers.catalog.offers import load, stale

    lines.extend(stale(datetime.datetime.now(tz=datetime.UTC).date()))
    return load()


def _asked(world: World, ask: Ask | None) -> tuple[list[str], list[str]]:
    """The providers that the ask allows, and the marketplaces that it does not, though it names no
    provider: those only show what they would cost.
    """
    if ask is None:
        return list(world.manifests), []
    markets = {name: each.capabilities.marketplace for name, each in world.manifests.items()}
    asked = [name for name in markets if ask.allows(name, marketplace=markets[name])]
    others = [name for name in markets if markets[name] and name not in asked]
    return asked, [] if ask.providers else others


class _Looked(NamedTuple):
    """What looking at one provider gave: its offers, None or the exception; what is missing to buy
    there; and which of the places that begin closed are open in a live account.
    """

    result: Any
    missing: str
    usable: frozenset[tuple[str, str]]


class _Answers(NamedTuple):
    """Offers by provider; why nothing can be bought there; and which gave no answer, and why."""

    rows: dict[str, Sequence[Offer]]
    unavailable: dict[str, str]
    silent: dict[str, str]


def _answers(
    looked: Mapping[str, _Looked], compared_with: Collection[str], lines: list[str]
) -> _Answers:
    """What each result means. A provider that is only compared with is in no line."""
    from providers.engine.messages import bare

    out = _Answers({}, {}, {})
    for name, (result, missing, _) in looked.items():
        if missing:
            # A market that anybody may read: its offers are shown, and refused for what is missing
            # to buy them.
            out.unavailable[name] = missing
        if isinstance(result, NotConfigured):
            out.unavailable[name] = bare(name, result)
        elif isinstance(result, NoHome):
            lines.append(str(result))  # the same for all of them, and for the journal: said once
        elif isinstance(result, Exception):
            if name not in compared_with:
                why = out.silent[name] = bare(name, result)
                lines.append(f"{name}: could not be looked at, its bundled offers are shown: {why}")
        elif result is not None:
            out.rows[name] = result
    return out


def _of_the_ask(
    world: World,
    base: OfferTable,
    ask: Ask,
    allowed: Sequence[str],
    live: Mapping[str, Sequence[Offer]],
) -> dict[str, Sequence[Offer]]:
    """The live offers, and those that the ask makes: at the prices of its options, derived from its
    kind, and in the regions that it names.
    """
    priced: Mapping[str, Sequence[Offer]] = {}
    if ask.options or ask.kind != "machine":
        bundled = [name for name in allowed if name not in live]
        priced = at_option_prices(world, base, ask, bundled)
    rows = {**priced, **derived_offers(base, ask, world.manifests, allowed), **live}
    for name in allowed if ask.regions else ():
        in_regions = world.manifests[name].pricing.in_regions
        if in_regions is not None:
            free = rows.get(name) or own(base, name)
            rows[name] = [*free, *in_regions(free, ask.regions)]
    return rows


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
    at_todays: Callable[[Cloud], Sequence[Offer] | None],
    begins_closed: Mapping[str, Mapping[tuple[str, str], str]],
    lines: list[str],
    limit_s: float,
) -> dict[str, _Looked]:
    """Looks at each provider, all at once, each within its time."""
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
            else at_todays(adapter)
            if world.name == LIVE
            else None
        )
        lines.extend(f"{name}: {remark}" for remark in adapter.remarks)
        if world.name == LIVE and name in begins_closed:
            usable[name] = closed_places.usable(adapter, begins_closed[name])
        return result

    found = all_at_once(look, names, limit_s, "look")
    return {
        name: _Looked(result, missing.get(name, ""), usable.get(name, frozenset()))
        for name, result in found.items()
    }
