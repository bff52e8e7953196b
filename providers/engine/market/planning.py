"""Plans for a world: the bundled offers under the live ones, what each adapter can do, who is not
configured, what was refused lately.

Owns the collecting; the planner decides. Lean: the command line's first answer comes through here,
so no asyncio, no SDK in a rehearsal, and SQLite only where a journal exists.
"""

from __future__ import annotations

from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.catalog.table import OfferTable, table
from providers.engine.market.host_fit import asked, hosting
from providers.errors import GpusError, NoHome, NotConfigured
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from providers.adapters.base import Manifest
    from providers.adapters.guard import Cloud
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.model.machine import Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.place import Block
    from providers.planner.plan import Plan
    from providers.workloads.sizing.fit import Fit

LOOK_LIMIT_S = 8.0
"""Seconds that one provider has to connect and list its offers before the plan is made without it.
"""
LONGER_S = (20.0, 45.0)
"""The same where something is to be bought, and nothing can be without it: slow is not sold out."""


class Market(NamedTuple):
    """What is for sale as far as this moment knows. `unavailable` is provider -> why it is not
    configured.
    """

    table: OfferTable
    capabilities: Mapping[str, Capabilities]
    unavailable: Mapping[str, str]
    notes: Mapping[str, Callable[[Candidate, Setup], Sequence[str]]] = {}
    """Provider -> what its adapter has to say about a candidate."""
    manifests: Mapping[str, Manifest] = {}
    """Provider -> its manifest, which says what its machines boot from."""
    silent: Mapping[str, str] = {}
    """Provider -> why it is not known what it sells now."""
    closed: Sequence[Block] = ()
    """What the accounts cannot use until somebody changes them."""

    def plan(
        self, ask: Ask, blocks: Iterable[Block] = (), now: float = 0.0, setup: Setup | None = None
    ) -> Plan:
        """The plan of an ask over this market. `setup` is what its notes depend on (none: the
        defaults). Pure.
        """
        from providers.model.machine import Setup
        from providers.planner.plan import make

        known = setup or Setup()

        fits, hosted = fitting(ask), hosting(ask, self.manifests)

        def noted(candidate: Candidate) -> Sequence[str]:
            note = self.notes.get(candidate.provider)
            lines = list(note(candidate, known)) if note is not None else []
            if fits is not None:
                found = fits(ask.entries[candidate.entry], candidate.gpu_type, candidate.gpu_count)
                lines += [found.note] if found.note else []
                if found.job_hours is not None and candidate.micro_usd is not None:
                    lines.append(
                        f"the run: about {found.job_hours:,.1f} h,"
                        f" ${found.job_hours * candidate.micro_usd / 1e6:,.2f}"
                    )
            host = hosted(ask.entries[candidate.entry], candidate.provider, candidate.machine_type)
            lines += [host.note] if host is not None and host.note else []
            able = self.capabilities.get(candidate.provider)
            if able is not None:
                lines += (
                    _workload_notes(ask, known, candidate.provider, able)
                    if ask.workload is not None
                    else ()
                )
                lines += _idle_notes(candidate, able) if known.idle_s else ()
            return lines

        return make(
            ask,
            with_warnings(self, _unchecked(ask)).table,
            self.capabilities,
            unavailable=self.unavailable,
            blocks=(*self.closed, *blocks),
            now=now,
            noted=noted,
            fits=fits,
            closed=untold(ask, known),
            hosted=hosted,
        )


def untold(ask: Ask, setup: Setup) -> Callable[[str, str, int], str] | None:
    """What says why machines of (provider, machine type, nodes) can't be told by login what their
    workload waits for; None where none waits. Pure.
    """
    from providers.adapters import registry

    token = setup.expose == "token" and ask.kind == "service"
    if ask.workload is None or not (token or any(entry.nodes > 1 for entry in ask.entries)):
        return None
    manifests = registry.manifests()
    sections = dict(setup.options)

    def why(provider: str, machine_type: str, nodes: int) -> str:
        manifest = manifests.get(provider)
        own = (
            manifest is not None
            and ask.kind in manifest.capabilities.kinds
            and ask.kind != "machine"
        )
        if (
            manifest is None
            or own
            or manifest.limits.unreachable is None
            or not (token or nodes > 1)
        ):
            return ""  # a function is told by its provider
        section = sections.get(provider)
        options = tuple(sorted(section.items())) if isinstance(section, dict) else ()
        return manifest.limits.unreachable(
            _Of(machine_type, nodes), setup._replace(options=options)
        )

    return why


class _Of(NamedTuple):
    machine_type: str
    nodes: int


def fitting(ask: Ask) -> Callable[[Choice, str, int], Fit] | None:
    """What judges a GPU type and a count for an entry of this ask; None where nothing is declared
    to run. Pure.
    """
    workload = ask.workload
    if workload is None:
        return None
    from providers.workloads.sizing.fit import fit

    return lambda entry, gpu_type, count: fit(
        workload, entry.override, gpu_type, count, entry.nodes
    )


def _workload_notes(ask: Ask, setup: Setup, provider: str, able: Capabilities) -> Sequence[str]:
    from providers.engine.market.notes import notes

    return notes(ask, setup, provider, able)


def _unchecked(ask: Ask) -> tuple[str, ...]:
    """Why it can't be said whether a place holds what is to run, in lines."""
    if ask.workload is None:
        return ()
    from providers.workloads.sizing.fit import unchecked

    return unchecked(ask.workload, [entry.override for entry in ask.entries])


def _idle_notes(candidate: Candidate, able: Capabilities) -> tuple[str, ...]:
    """What of `idle_after` somebody else must do at this place, or nobody does."""
    if able.ends_idle and candidate.nodes == 1:
        return ()
    if not able.ssh:
        return ("idle_after does nothing here: nobody can measure its GPUs from outside",)
    return ("idle_after needs `gpus watch` here: no timer of its own ends it",)


def plan(
    ask: Ask,
    *,
    world: str = REHEARSAL,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    use_journal: bool = True,
    use_closed: bool = False,
    setup: Setup | None = None,
) -> Plan:
    """The ranked plan of an ask, now. Buys nothing. `setup` is what the notes on its candidates
    depend on.

    Without `use_journal`, places that were sold out lately count too; with `use_closed`, also those
    that the account cannot use as far as is known.

    Calls made: reads of the bundled catalog and of the journal if there is one; live listings of
    the providers that have them, at once, each within `LOOK_LIMIT_S`; in the live world a local
    look for each provider's credentials. Whatever of this fails is a line in `warnings`.
    """
    from providers.engine.runtime.world import open_world

    lines: list[str] = []
    opened = open_world(world, settings, lambda _severity, text: lines.append(text))
    try:
        seen = market(opened, ask, warnings=lines, compared=True)
        if use_closed:
            seen = seen._replace(closed=())
        if not use_journal:
            return seen.plan(ask, setup=setup)
        blocks, now, trouble = standing_blocks(opened)
        return (with_warnings(seen, trouble) if trouble else seen).plan(ask, blocks, now, setup)
    finally:
        opened.close()


def insistent(world: World, ask: Ask, setup: Setup) -> Market:
    """As `market`, to buy in: where nothing can be bought and somebody did not answer, all are
    asked again, and waited for longer. Blocking.
    """
    seen = market(world, ask)
    for limit_s in LONGER_S:
        if not seen.silent or seen.plan(ask, setup=setup).candidates:
            break
        world.report(
            "info",
            f"nothing is for sale elsewhere, and no answer from {', '.join(seen.silent)}; asking"
            f" again, for up to {limit_s:.0f}s",
        )
        seen = market(world, ask, limit_s=limit_s)
    return seen


def walked(
    ask: Ask,
    *,
    world: str = REHEARSAL,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    setup: Setup | None = None,
    replaces: bool = False,
) -> Plan:
    """The plan that an `up` would walk: where everything acceptable was refused lately, those
    places are asked again, and at last those that the account cannot use as far as is known. For
    the latter nothing that runs is given up: not where it `replaces`.
    """
    made = plan(ask, world=world, settings=settings, setup=setup)
    if not made.candidates and "blocked" in made.rejected_by_rule:
        made = plan(ask, world=world, settings=settings, setup=setup, use_journal=False)
    if not made.candidates and "enabled" in made.rejected_by_rule and not replaces:
        made = plan(
            ask, world=world, settings=settings, setup=setup, use_journal=False, use_closed=True
        )
    return made


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

    from providers.engine.market import closed_places
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
        return _today(adapter, base, ask, lines) if only is None or adapter.name in only else None

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
        _repriced(world, base, ask, [name for name in allowed if name not in rows])
        if ask is not None and changed
        else {}
    )
    rows = {
        **base_rows,
        **(_derived(base, ask, world.manifests, allowed) if ask is not None else {}),
        **rows,
    }
    for name in allowed if ask is not None and ask.regions else ():
        manifest = world.manifests[name]
        if manifest.pricing.in_regions is not None and ask is not None:
            column = base.column("provider")
            free = rows.get(name) or [
                base.offer(row) for row in range(len(base)) if column[row] == name
            ]
            rows[name] = [*free, *manifest.pricing.in_regions(free, ask.regions)]
    notes = {
        name: manifest.pricing.notes
        for name, manifest in world.manifests.items()
        if manifest.pricing.notes is not None
    }
    closed: Sequence[Block] = ()
    with suppress(GpusError, OSError):  # a journal that cannot be read is told where it matters
        closed = closed_places.closed(
            world, begin, {name: usable for name, (_, _, usable) in looked.items()}, allowed
        )
    seen = Market(
        overlay(base, rows) if rows else base,
        able,
        unavailable,
        notes,
        world.manifests,
        silent,
        closed,
    )
    return with_warnings(seen, lines) if lines else seen


def _repriced(
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
            and not manifest.options(section)
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
    rows = _derived(
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


def _derived(
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


def with_warnings(seen: Market, lines: Iterable[str]) -> Market:
    """The same market with more lines for the user."""
    old = seen.table
    return seen._replace(
        table=OfferTable(old.columns, old.by_gpu, tuple(dict.fromkeys((*old.warnings, *lines))))
    )


def overlay(base: OfferTable, rows: Mapping[str, Sequence[Offer]]) -> OfferTable:
    """The table in which each provider of `rows` has these offers instead of its bundled ones.
    Pure; by column, of thousands of rows.
    """
    fresh = table([offer for name in sorted(rows) for offer in rows[name]])
    stays = [name not in rows for name in base.column("provider")]
    if all(stays):
        by_gpu: dict[str, Sequence[int]] = dict(base.by_gpu)
        kept: Sequence[Sequence[object]] = base.columns
    else:
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
    )


def standing_blocks(world: World) -> tuple[tuple[Block, ...], float, tuple[str, ...]]:
    """(blocks, the world's moment, warnings). Reads the journal if its file exists; a broken one is
    a warning.
    """
    from providers.home import home

    try:
        if not (home() / "journal.db").exists():
            return (), 0.0, ()
        blocks = world.journal.blocks(world.name)
        # The rehearsal's clock is another file to open; most of the time there is nothing to
        # compare it with.
        return (blocks, world.clock.now(), ()) if blocks else ((), 0.0, ())
    except NoHome as error:
        return (), 0.0, (str(error),)
    except (GpusError, OSError) as error:
        return (), 0.0, (f"what was refused lately is not known: {error}",)


def _today(
    adapter: Cloud, base: OfferTable, ask: Ask | None, lines: list[str]
) -> Sequence[Offer] | None:
    """The bundled offers at today's prices, where the adapter can tell; what it says of that goes
    to the lines.
    """
    from providers.engine.market import prices

    offers, said = prices.today(adapter, base, ask)
    lines.extend(said)
    return offers


def presentable(plan: Plan, cluster: str) -> Plan:
    """The plan, once it is certain that it can be shown. Raises GpusError where it cannot: then
    nothing is bought by it either.
    """
    from providers.planner import render

    try:
        render.as_text(plan)
    except Exception as error:
        text = (
            f"{cluster}: wanted a plan to show before anything is bought, found one that cannot be"
            f" written ({type(error).__name__}: {error})"
        )
        raise GpusError(
            f"{text}; nothing was bought: leave out the provider whose offers are odd, and"
            " report it"
        ) from error
    return plan


def listed(
    adapter: Cloud, ask: Ask | None, manifest: Manifest | None = None
) -> Sequence[Offer] | None:
    """The live offers, as the declaration decides over them where the adapter's depend on it."""
    return adapter.offers() if ask is None else adapter.offers_for(asked(ask, manifest))


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
    import threading
    import time

    from providers.engine.market import closed_places

    results: dict[str, Any] = {}
    missing: dict[str, str] = {}
    usable: dict[str, frozenset[tuple[str, str]]] = {}

    def look(name: str) -> None:
        try:
            adapter = world.adapter(name)
            # What is missing to buy there is known without an answer.
            missing[name] = adapter.not_configured
            results[name] = (
                listed(adapter, ask, world.manifests.get(name))
                if name in live
                else today(adapter)
                if world.name == LIVE
                else None
            )
            lines.extend(f"{name}: {remark}" for remark in adapter.remarks)
            if world.name == LIVE and name in begin_closed:
                usable[name] = closed_places.usable(adapter, begin_closed[name])
        except Exception as error:
            results[name] = error

    threads = [
        threading.Thread(target=look, args=(name,), name=f"gpus-look-{name}", daemon=True)
        for name in names
    ]
    deadline = time.monotonic() + limit_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = TimeoutError(f"no answer within {limit_s:.0f}s")
    return {
        name: (results.get(name, late), missing.get(name, ""), usable.get(name, frozenset()))
        for name in names
    }
