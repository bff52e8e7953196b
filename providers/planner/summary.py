"""The content of a plan's table: `summarize` makes a plain `PlanSummary`. Pure.

Owns what a plan's table says, and nothing of how it looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model.money import per_hour
from providers.model.offer import Candidate, Offer, dated
from providers.planner import describe, refusals, rules, suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from providers.planner.plan import Plan

WALK = 5
"""How many places of the walk, after the chosen one, a summary lists."""


class CurrentCost(NamedTuple):
    """The cost of what runs now: its price from launch in micro-dollars per hour (0: nothing runs;
    None: unknown), and what it is.

    `change` says what becomes of it where more is known than the prices; `facts` are further (name,
    text) lines about it. `kept` (a name and a text) is what stays as it is where nothing is bought,
    and `bought_if` says when the plan's place would be.
    """

    micro_usd: int | None
    what: str = ""
    change: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, str] | None = None
    bought_if: str = ""


class ProviderRow(NamedTuple):
    """The best offer of one provider, with its notes. `refused` is empty for a candidate; else the
    refusal in words (then `rank` is 0).
    """

    candidate: Candidate
    refused: str
    notes: tuple[str, ...] = ()
    smaller: bool = False
    """Its price holds much less CPU or memory than the machines that it is compared with."""


class PlanSummary(NamedTuple):
    """What a plan's table says, in the order in which it is read."""

    asked: str
    meanings: Sequence[str]
    """What bare names of the ask mean."""
    kept: tuple[str, str] | None
    """(name, text): what stays as it is, where nothing is bought."""
    bought_if: str
    """When the chosen place would be bought then."""
    chosen: Candidate | None
    per_provider: Sequence[ProviderRow]
    hints: Sequence[str]
    """What would help, where nothing is acceptable."""
    walk: Sequence[Candidate]
    """The next places, in order, should the chosen one be sold out."""
    beyond_walk: int
    """How many candidates follow those."""
    facts: Sequence[tuple[str, str]]
    """(name, text): the worst case, the change against what runs now, remarks."""
    refused_by_rule: Mapping[str, int]
    """How many offers that could have mattered each rule refused."""
    examples: Sequence[refusals.Example]
    closed_places: Sequence[str]
    prices: str
    """The dates of the prices, by provider; empty where no offer is listed."""
    further_notes: Sequence[str]
    warnings: Sequence[str]


def summarize(plan: Plan, current: CurrentCost | None = None) -> PlanSummary:
    """What the plan's table says, against what runs now if that is given."""
    best, rows = plan.best, best_rows(plan)
    walk = plan.candidates[1 : 1 + WALK]
    facts: list[tuple[str, str]] = []
    if best is not None:
        facts.append(("worst case", _worst(plan)))
    kept = None if current is None else current.kept
    if current is not None:
        facts += [] if kept else [("change", _change(plan, current))]
        facts += current.facts
    if best is not None:
        facts += suggest.remarks(plan)
    counts = plan.counted()
    return PlanSummary(
        describe.ask_text(plan.ask),
        describe.meanings(plan.ask),
        kept,
        current.bought_if if current is not None and kept else "",
        best,
        rows,
        suggest.hints(plan),
        walk,
        max(len(plan.candidates) - 1 - len(walk), 0),
        facts,
        counts,
        [each for each in refusals.examples(plan) if each.rule in counts],
        refusals.closed_places(plan),
        _prices(plan, rows) if rows else "",
        _further_notes(plan, rows),
        plan.warnings,
    )


def best_rows(plan: Plan) -> list[ProviderRow]:
    """The best row of each provider: candidates in the order of the walk, then the cheapest offers
    that only a rule after `marketplace` refused.
    """
    rows: dict[str, ProviderRow] = {}
    unlike = suggest.unlike(plan)
    for candidate in plan.best_per_provider():
        notes = [text for text, ranks in plan.notes.items() if candidate.rank in ranks]
        smaller = unlike.get(candidate.provider, "")
        rows[candidate.provider] = ProviderRow(
            candidate, "", (*([smaller] if smaller else ()), *notes), bool(smaller)
        )
    for provider, (rule, entry, row) in sorted(_cheapest_refused(plan, rows).items()):
        chosen, offer = plan.ask.entries[entry], plan.offers.offer(row)
        host = plan.terms.hosted and plan.terms.hosted(chosen, provider, offer.machine_type)
        if host and offer.node_micro_usd is not None:
            micro_usd, disk = host.cost(offer.region)
            offer = rules.with_disk(offer, offer.node_micro_usd + micro_usd, disk)
        price = (offer.node_micro_usd or 0) * chosen.nodes
        found = plan.explain(rule, entry, row)[1]
        rows[provider] = ProviderRow(Candidate(0, entry, offer, chosen.nodes, "", price), found)
    return list(rows.values())


def _cheapest_refused(plan: Plan, accepted: Collection[str]) -> dict[str, tuple[int, int, int]]:
    """Provider → (rule, entry, row) of its best refused offer with a known price, for providers
    that have no candidate.
    """
    best: dict[str, tuple[tuple[int, int, int, int], tuple[int, int, int]]] = {}
    providers, prices, capacities = (
        plan.offers.column(name) for name in ("provider", "node_micro_usd", "capacity")
    )
    for row, (rule, entry) in plan.refused.items():
        provider = str(providers[row])
        price = rules.known(prices[row], plan.terms.capabilities.get(provider))
        if rule <= rules.MARKETPLACE or provider in accepted or price is None:
            continue
        kinds = [way.kind for way in plan.ask.entries[entry].capacity]
        key = (entry, kinds.index(str(capacities[row])), price, row)
        if provider not in best or key < best[provider][0]:
            best[provider] = (key, (rule, entry, row))
    return {provider: refusal for provider, (_, refusal) in best.items()}


def left_out(plan: Plan) -> list[str]:
    """What the prices do not hold, by provider."""
    notes: dict[str, list[str]] = {}
    for offer in _priced_offers(plan, best_rows(plan)):
        known = notes.setdefault(offer.provider, [])
        if offer.left_out and offer.left_out not in known:
            known.append(offer.left_out)
    return [
        f"{provider}: {', '.join(found).replace('; ', ', ')}"
        for provider, found in notes.items()
        if found
    ]


def _worst(plan: Plan) -> str:
    """`$88.49/h ($64,598/month), the dearest place accepted: gcp ...`."""
    worst = max(plan.candidates, key=lambda candidate: candidate.micro_usd or 0)
    run = describe.run_text(plan.ask, worst)
    return (
        f"{per_hour(worst.micro_usd)}{f' ({run})' if run else ''}, the dearest place accepted:"
        f" #{worst.rank} {describe.place_text(worst)}"
    )


def _change(plan: Plan, current: CurrentCost) -> str:
    new = None if plan.best is None else plan.best.micro_usd
    return current.change or describe.change_line(current.micro_usd, new, current.what)


def _priced_offers(plan: Plan, rows: Sequence[ProviderRow]) -> list[Offer]:
    """The offers whose prices are shown or may be paid."""
    return [candidate.offer for candidate in plan.candidates] + [
        row.candidate.offer for row in rows if row.refused
    ]


def _prices(plan: Plan, rows: Sequence[ProviderRow]) -> str:
    dates: dict[str, set[str]] = {}
    for offer in _priced_offers(plan, rows):
        date = (
            "your own (prices.overrides)"
            if offer.price_source == rules.OVERRIDE_SOURCE
            else dated(offer.price_as_of) or "no date"
        )
        dates.setdefault(offer.provider, set()).add(date)
    texts = []
    for provider, found in dates.items():
        days = sorted(day for day in found if day[:1].isdigit())
        spans = [days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"] if days else []
        texts.append(f"{provider} {' and '.join(spans + sorted(found.difference(days)))}")
    return f"all nodes, all-in, as of: {'; '.join(texts)}" if texts else ""


def _further_notes(plan: Plan, rows: Sequence[ProviderRow]) -> list[str]:
    """The notes that hold for no row of `per_provider`: `#3 and 4 more: one network ...`."""
    shown = {row.candidate.rank for row in rows}
    return [
        f"#{ranks[0]}{f' and {len(ranks) - 1} more' if len(ranks) > 1 else ''}: {text}"
        for text, ranks in plan.notes.items()
        if shown.isdisjoint(ranks)
    ]
