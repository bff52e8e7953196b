"""Offers: the bundled ones, those that follow from them for an ask, and live ones over both."""

from __future__ import annotations

from collections import deque
from itertools import accumulate, compress
from typing import TYPE_CHECKING

from providers.catalog.table import OfferTable, table
from providers.engine.market.host_fit import asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.adapters.base import Manifest
    from providers.adapters.guard import Cloud
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.offer import Offer

_LAST: deque[tuple[OfferTable, Mapping[str, Sequence[Offer]], OfferTable]] = deque(maxlen=4)
"""The tables that were made last, of what: the plans of a stack's clusters share one, which is two
megabytes.
"""


def at_option_prices(
    world: World, base: OfferTable, ask: Ask, names: Iterable[str]
) -> dict[str, Sequence[Offer]]:
    """The bundled offers of each provider whose options change what they cost, at that cost."""
    found: dict[str, Sequence[Offer]] = {}
    for name in names:
        manifest, section = world.manifests[name], ask.options.get(name) or {}
        changes = section or ask.kind != "machine"
        if (
            manifest.pricing.priced is not None
            and changes
            and ask.kind in manifest.capabilities.kinds
            and not manifest.check_options(section)
        ):
            column = base.column("provider")
            found[name] = [
                manifest.pricing.priced(base.offer(row), section, ask.kind)
                for row in range(len(base))
                if column[row] == name
            ]
    return found


def whole(base: OfferTable, ask: Ask, manifests: Mapping[str, Manifest]) -> OfferTable:
    """The bundled offers with those that follow from them for this ask: what is for sale before
    anybody is asked. Pure.
    """
    rows = derived_offers(
        base,
        ask,
        manifests,
        [
            name
            for name in manifests
            if ask.allows(name, marketplace=manifests[name].capabilities.marketplace)
        ],
    )
    return overlay(base, rows) if rows else base


def derived_offers(
    base: OfferTable, ask: Ask, manifests: Mapping[str, Manifest], names: Iterable[str]
) -> dict[str, Sequence[Offer]]:
    """The offers of each provider whose own follow from another's, where this kind of cluster, or
    the ask by name, concerns it.
    """
    found: dict[str, Sequence[Offer]] = {}
    for name in names:
        derived, kinds = manifests[name].pricing.derived, manifests[name].capabilities.kinds
        if derived is not None and (ask.kind in kinds or name in ask.providers):
            from providers.planner.rules import types

            source, make = derived
            column = base.column("provider")
            wanted = dict.fromkeys(gpu for entry in ask.entries for gpu in types(entry))
            found[name] = make(
                ask,
                [
                    base.offer(row)
                    for gpu in wanted
                    for row in base.by_gpu.get(gpu, ())
                    if column[row] == source
                ],
            )
    return found


def own(base: OfferTable, name: str) -> list[Offer]:
    """A provider's bundled offers. Pure."""
    column = base.column("provider")
    return [base.offer(row) for row in range(len(base)) if column[row] == name]


def overlay(base: OfferTable, rows: Mapping[str, Sequence[Offer]]) -> OfferTable:
    """The table in which each provider of `rows` has these offers instead of its bundled ones.
    Pure; by column, of thousands of rows.
    """
    for bundled, laid, found in tuple(_LAST):
        if bundled is base and laid == rows:
            return found
    made = _laid_over(base, rows)
    _LAST.append((base, rows, made))
    return made


def _laid_over(base: OfferTable, rows: Mapping[str, Sequence[Offer]]) -> OfferTable:
    fresh = table([offer for name in sorted(rows) for offer in rows[name]])
    parts = None
    if base.places.keys().isdisjoint(rows):
        by_gpu: dict[str, Sequence[int]] = dict(base.by_gpu)
        kept: Sequence[Sequence[object]] = base.columns
        parts = (base, fresh)
    else:
        stays = [name not in rows for name in base.column("provider")]
        place = list(accumulate(stays, initial=0))
        by_gpu = {
            gpu: left
            for gpu, found in base.by_gpu.items()
            if (left := [place[row] for row in found if stays[row]])
        }
        kept = [list(compress(column, stays)) for column in base.columns]
    size = len(kept[0])
    for gpu, found in fresh.by_gpu.items():
        by_gpu[gpu] = [*by_gpu.get(gpu, ()), *(size + row for row in found)]
    return OfferTable(
        tuple([*old, *new] for old, new in zip(kept, fresh.columns, strict=True)),
        by_gpu,
        base.warnings,
        parts,
    )


def listed(
    adapter: Cloud, ask: Ask | None, manifest: Manifest | None = None
) -> Sequence[Offer] | None:
    """The live offers, as the declaration decides over them where the adapter's depend on it."""
    if ask is None:
        return adapter.offers()
    from providers.planner.rules import types

    wanted = frozenset(gpu for entry in ask.entries for gpu in types(entry))
    return adapter.offers_for(asked(ask, manifest)._replace(gpu_types=wanted))


def at_todays_prices(
    adapter: Cloud, base: OfferTable, ask: Ask | None, lines: list[str]
) -> Sequence[Offer] | None:
    """The bundled offers at today's prices, where the adapter can tell; what it says of that goes
    to the lines.
    """
    from providers.engine.market import prices

    offers, said = prices.today(adapter, base, ask)
    lines.extend(said)
    return offers
