"""The plan: every place that could serve an ask, ranked, and every other one with the rule that
refused it.

Owns the order of candidates and the Plan. Pure: offers, capabilities, blocks and the moment are
arguments; the same input gives the same order, however the rows are arranged. Must not import the
engine, an adapter or pydantic. A refusal is (rule, row) until somebody reads it.
"""

from __future__ import annotations

from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from providers.catalog import names
from providers.model.money import per_hour
from providers.model.offer import Candidate, Offer, Rejection
from providers.planner import blocklist, expected, explain, rank, rules, sift
from providers.planner.doubt import Doubts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.catalog.table import OfferTable
    from providers.errors import Problem
    from providers.model.advice import Advice, Kind
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.model.place import Block
    from providers.planner.expected import Expected, Tried


class Plan:
    """What an ask comes to. `candidates` are in the order of the walk; `rejections` are written out
    when first read.
    """

    def __init__(
        self,
        terms: rules.Terms,
        candidates: tuple[Candidate, ...],
        kept: frozenset[int],
        refused: Mapping[int, tuple[int, int]],
        warnings: tuple[str, ...],
        noted: Callable[[Candidate], Sequence[str]] | None = None,
    ) -> None:
        self.terms = terms
        """What the plan was made from."""
        self.candidates = candidates
        self.kept = kept
        """The rows that are candidates."""
        self.refused = refused
        """Row → (rule, entry), for the other rows of the GPUs asked for."""
        self.warnings = warnings
        self.noted = noted
        """What there is to know about a candidate, asked when `notes` are first read."""
        self._accept: Callable[[Candidate], bool] | None = None

    def within(self, accept: Callable[[Candidate], bool]) -> Plan:
        """The same with only those candidates that `accept` allows."""
        candidates = tuple(filter(accept, self.candidates))
        terms, noted = self.terms, self.noted
        plan = Plan(terms, candidates, self.kept, self.refused, self.warnings, noted)
        plan._accept = accept
        return plan

    @property
    def ask(self) -> Ask:
        """What was asked for."""
        return self.terms.ask

    @property
    def offers(self) -> OfferTable:
        """Everything that was on offer."""
        return self.terms.table

    @property
    def best(self) -> Candidate | None:
        """The first of the walk, or None when nothing is acceptable."""
        return self.candidates[0] if self.candidates else None

    def best_per_provider(self) -> tuple[Candidate, ...]:
        """The first candidate of each provider, in the order of the walk."""
        first: dict[str, Candidate] = {}
        for candidate in self.candidates:
            first.setdefault(candidate.provider, candidate)
        return tuple(first.values())

    @property
    def worst_micro_usd(self) -> int | None:
        """The dearest candidate of any accepted entry, micro-dollars per hour for all nodes: what
        the walk may end with.
        """
        return max((candidate.micro_usd or 0 for candidate in self.candidates), default=None)

    @cached_property
    def expected(self) -> Expected | None:
        """What it will probably cost, and how long it will probably take; None where nothing is
        acceptable.
        """
        return expected.walk(
            self.candidates, self.ask, self.terms.tried or expected.Tried(), self.terms.now
        )

    def ranked(self, order: str) -> Plan:
        """The same places in the order of another `rank`."""
        return self._again(self.ask._replace(rank=order), self.terms.advice)

    @cached_property
    def unadvised(self) -> Plan:
        """The same places in the order that they have without the clouds' advice."""
        return self._again(self.ask, {}) if self.terms.advice else self

    def _again(self, ask: Ask, advice: Mapping[Kind, Advice]) -> Plan:
        terms = self.terms
        plan = make(
            ask,
            *(terms.table, terms.capabilities),
            unavailable=terms.unavailable,
            blocks=[block for blocks in terms.blocks.values() for block in blocks],
            now=terms.now,
            fits=terms.fits,
            closed=terms.closed,
            hosted=terms.hosted,
            parted=terms.parted,
            tried=terms.tried,
            advice=advice,
        )
        return plan if self._accept is None else plan.within(self._accept)

    @cached_property
    def notes(self) -> dict[str, tuple[int, ...]]:
        """What is to be known about candidates beyond their price: each text with the ranks that it
        holds for, ascending.
        """
        out: dict[str, list[int]] = {}
        for candidate in self.candidates if self.noted is not None else ():
            for text in self.noted(candidate):  # type: ignore[misc]
                out.setdefault(text, []).append(candidate.rank)
        return {text: tuple(ranks) for text, ranks in out.items()}

    @cached_property
    def rejected_by_rule(self) -> dict[str, int]:
        """How many offers of the GPUs asked for each rule refused, in the rules' order; rules that
        refused none are left out.
        """
        counts = [0] * len(rules.RULES)
        for rule, _ in self.refused.values():
            counts[rule] += 1
        return {name: count for name, count in zip(rules.NAMES, counts, strict=True) if count}

    def counted(self, entry: int | None = None) -> dict[str, int]:
        """The same of places that the declaration asks for, of one choice if given; where there are
        none and nothing is acceptable, of all.
        """
        mattered: dict[int, int] = {}
        others: dict[int, int] = {}
        for rule, at in self.refused.values():
            if entry in (None, at):
                counts = others if rule in rules.NOT_ASKED else mattered
                counts[rule] = counts.get(rule, 0) + 1
        counts = mattered or ({} if self.candidates and entry is None else others)
        return {rules.NAMES[rule]: counts[rule] for rule in sorted(counts)}

    @cached_property
    def rejections(self) -> tuple[Rejection, ...]:
        """Every refused offer, with the rule and what was wanted and found; by rule, then as the
        offers are listed.
        """
        out: list[Rejection] = []
        for rule, entry, row in self.refusals():
            out.append(
                Rejection(
                    self.offers.offer(row), rules.NAMES[rule], *self.explain(rule, entry, row)
                )
            )
        return tuple(out)

    def explain(self, rule: int, entry: int, row: int) -> tuple[str, str]:
        """(wanted, found) of one refusal."""
        return explain.explain(self.terms, rule, self.ask.entries[entry], row)

    def refusals(self) -> list[tuple[int, int, int]]:
        """(rule, entry, row) of every refused offer, by rule and row: the cheap form of
        `rejections`.
        """
        kept, refused = self.kept, self.refused
        # The rule `gpu` is the first one and refuses by far the most, so that only the others need
        # sorting.
        others = [
            (rules.GPU, 0, row)
            for row in range(len(self.offers))
            if row not in refused and row not in kept
        ]
        return others + sorted((rule, entry, row) for row, (rule, entry) in refused.items())

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What can never be acquired as it is declared: unknown names, counts that nobody sells,
        and the like; with their paths.
        """
        from providers.planner import check

        return tuple(check.problems(self.ask, self.offers, self.terms.capabilities))

    @cached_property
    def alternatives(self) -> tuple[Problem, ...]:
        """Why some of several choices are never sold, where others are."""
        from providers.planner import check

        return tuple(check.alternatives(self.ask, self.offers, self.terms.capabilities))

    def __repr__(self) -> str:
        if self.best is None:
            return "<Plan: no acceptable place>"
        more = f", {len(self.candidates) - 1:,} more" if len(self.candidates) > 1 else ""
        return f"<Plan: {' '.join(_cells(self.best))}{more}>"

    def _repr_html_(self) -> str:
        from providers.model.html import table
        from providers.planner.describe import ask_text

        refused = sum(self.counted().values())
        return table(
            ("#", "provider", "place", "machine", "GPU", "capacity", "price"),
            ((each.rank, *_cells(each)) for each in self.best_per_provider()),
            title=f"{ask_text(self.ask)}: the best place of each provider",
            note=(
                f"{len(self.candidates):,} places could serve it, {refused:,} offers were refused:"
                " print(plan) has the walk and the reasons"
            ),
        )


def _cells(candidate: Candidate) -> tuple[str, str, str, str, str, str]:
    """Provider, place, machine, GPU, capacity and price of all nodes, as texts."""
    place = candidate.placement
    return (
        candidate.provider,
        place.where,
        candidate.machine_type,
        f"{place.times}{place.gpu}",
        candidate.capacity,
        per_hour(candidate.micro_usd),
    )


def make(
    ask: Ask,
    offers: OfferTable,
    capabilities: Mapping[str, Capabilities],
    *,
    unavailable: Mapping[str, str] | None = None,
    blocks: Iterable[Block] = (),
    now: float = 0.0,
    noted: Callable[[Candidate], Sequence[str]] | None = None,
    fits: Callable[[Choice, str, int], rules.Fitting] | None = None,
    closed: Callable[[str, str, int], str] | None = None,
    hosted: Callable[[Choice, str, str], rules.Hosting | None] | None = None,
    parted: Callable[[str, str, str, str], str] | None = None,
    tried: Tried | None = None,
    advice: Mapping[Kind, Advice] | None = None,
) -> Plan:
    """The plan of an ask over a table of offers.

    `capabilities` says by provider what can be ordered (absent: no adapter yet), `unavailable` why
    a provider is not configured, `blocks` what to leave alone until when, `now` the moment in
    seconds since the epoch, `noted` what there is to know about a candidate (asked when first
    read), `fits` whether a GPU type and a count hold what is to run there, `closed` why it can't be
    told there by login, `hosted` what a machine type's disk and driver mean for an entry, `parted`
    why its volumes can't be mounted there, `tried` what was tried before, `advice` what clouds say
    of room. Pure; about 1 ms over some thousand offers.
    """
    standing = blocklist.by_provider(blocks, now)
    terms = rules.Terms(
        *(ask, offers, capabilities, unavailable or {}, standing, now),
        *(fits, closed, hosted, parted, tried, advice or {}),
    )
    sifted = sift.sift(terms)
    if ask.accept_suspect_prices:
        noted = _doubted(terms, sifted.kept, noted)
    return Plan(
        terms,
        _ranked(terms, sifted.kept),
        frozenset(map(itemgetter(0), sifted.kept)),
        sifted.refused,
        offers.warnings,
        noted,
    )


def _doubted(
    terms: rules.Terms,
    kept: Iterable[rules.Accepted],
    noted: Callable[[Candidate], Sequence[str]] | None,
) -> Callable[[Candidate], Sequence[str]]:
    """The notes on candidates, and what speaks against a price that is accepted all the same."""

    @cache
    def found() -> dict[str, str]:
        doubts = Doubts(terms.table)
        return {
            terms.table.offer(item.row).id: why
            for item in kept
            if not item.overridden and (why := doubts.why(item.row))
        }

    def notes(candidate: Candidate) -> Sequence[str]:
        why = found().get(candidate.offer.id)
        return [
            *(noted(candidate) if noted is not None else ()),
            *([f"suspect price, accepted: {why}"] if why else ()),
        ]

    return notes


def _ranked(terms: rules.Terms, kept: list[rules.Accepted]) -> tuple[Candidate, ...]:
    ask, table = terms.ask, terms.table
    if not kept:
        return ()
    numbers = [item.row for item in kept]
    pick: Callable[[Any], tuple[Any, ...]] = (
        itemgetter(*numbers) if len(numbers) > 1 else lambda column: (column[numbers[0]],)
    )
    offers = [
        Offer._make(values)
        for values in zip(*(pick(column) for column in table.columns), strict=True)
    ]
    rows = list(zip(kept, offers, strict=True))
    rows.sort(key=rank.order(terms, rows))
    ranked = [
        (item, _priced(offer, item) if item.overridden or item.disk else offer)
        for item, offer in rows
    ]
    volumes = ask.workload.volumes if ask.workload is not None else ()
    if volumes:
        ranked = [(item, _zoned(offer, volumes[0].place)) for item, offer in ranked]
    nodes = [entry.nodes for entry in ask.entries]
    exact = [entry.exact or names.is_narrow(entry.gpu) for entry in ask.entries]
    return tuple(
        Candidate(
            number,
            item.entry,
            offer,
            nodes[item.entry],
            item.reservation,
            item.micro_usd,
            exact[item.entry],
            ask.kind,
        )
        for number, (item, offer) in enumerate(ranked, 1)
    )


def _zoned(offer: Offer, zone: str) -> Offer:
    """The offer in the zone of the volumes that are mounted there, where it names only a region."""
    return offer if offer.zone else offer._replace(zone=zone)


def _priced(offer: Offer, item: rules.Accepted) -> Offer:
    """The offer at what it costs this ask: at the user's own rate, or with its disk."""
    if item.overridden:
        return offer._replace(
            node_micro_usd=item.node_micro_usd, price_source=rules.OVERRIDE_SOURCE, price_as_of=""
        )
    return rules.with_disk(offer, item.node_micro_usd, item.disk)
