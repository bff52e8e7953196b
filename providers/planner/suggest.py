"""What would help, and what should be known of a plan's prices and choices: one line each. Pure.

Owns what is suggested; nothing of it is ever done by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import in_words
from providers.model.ask import PRICE, SPOT, Capacity
from providers.model.money import per_hour
from providers.planner import advised, check, rules
from providers.planner.describe import place_text, size_text
from providers.planner.refusals import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.model.ask import Ask
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan

_SAID = frozenset(
    rules.NAMES[rule]
    for rule in (
        rules.FIT,
        rules.REGISTRY,
        rules.SECRET,
        rules.CHECKPOINT,
        rules.MOUNT,
        rules.DISK,
        rules.DRIVER,
        rules.ENABLED,
    )
)
"""Rules whose reason is no choice among places: it is said also where the table of refusals is not
shown.
"""


def hints(plan: Plan) -> list[str]:
    """What would make something acceptable, where nothing is: what nobody sells, missing
    credentials, then prices, marketplaces and spot.
    """
    if plan.candidates:
        return []
    ask, terms = plan.ask, plan.terms
    markets = [name for name, skills in terms.capabilities.items() if skills.marketplace]
    # Who names no machines of their own need not hear that there are none.
    own = {name for name, skills in terms.capabilities.items() if skills.owned} - {*ask.providers}
    allowed = [
        name
        for name in terms.unavailable
        if name not in own and ask.allows(name, marketplace=name in markets)
    ]
    out = [text for _, text in remarks(plan)]
    out.extend(
        f"not configured: {name}: {terms.unavailable[name]}"
        for name in allowed
        if terms.unavailable[name]
    )
    out.extend(
        f"refused by the rule {each.rule}: {each.found}"
        for each in examples(plan)
        if each.rule in _SAID
    )
    cap = ask.max_price_micro_usd
    for what, freed in (
        ("providers", ask._replace(providers=())),
        ("regions", ask._replace(regions=())),
    ):
        if getattr(ask, what) and (least := _cheapest(plan, freed)) is not None:
            out.append(
                f"other {what} have it: from {per_hour(least.micro_usd)}, {place_text(least)}"
            )
    if (
        cap is not None
        and (least := _cheapest(plan, ask._replace(max_price_micro_usd=None))) is not None
        and (least.micro_usd or 0) > cap
    ):
        out.append(
            f"the cheapest is {per_hour(least.micro_usd)}, above the cap of {per_hour(cap)}:"
            f" {place_text(least)}"
        )
    if (least := stranger(plan)) is not None:
        out.append(
            f"a stranger's host has it for {per_hour(least.micro_usd)}, {place_text(least)}:"
            f" {_consent(plan, least)}"
        )
    if not any(way.kind == SPOT for entry in ask.entries for way in entry.capacity):
        spotted = tuple(entry._replace(capacity=(Capacity(SPOT),)) for entry in ask.entries)
        if (
            least := _cheapest(plan, ask._replace(entries=spotted, max_price_micro_usd=None))
        ) is not None:
            does = (
                "spot: prefer would do: from"
                if cap is None or (least.micro_usd or 0) <= cap
                else "spot is above the cap too:"
            )
            out.append(f"{does} {per_hour(least.micro_usd)}, {place_text(least)}")
    # A host that somebody has: said where nothing else would help.
    return out or [
        f"refused by the rule {each.rule}: {each.found}"
        for each in examples(plan)
        if each.rule == rules.NAMES[rules.SOLD]
    ]


def remarks(plan: Plan) -> list[tuple[str, str]]:
    """(topic, text) of what should be known beside the candidates: choices that nobody sells, what
    another choice or a marketplace would save, cheaper places that are left alone, doubtful prices.
    """
    out = [("left out", text) for text in left_out(plan).values()]
    best = plan.best
    if best is not None and (text := _other_counts(plan, best)):
        out.append(("not at", text))
    if best is not None and (text := _dearer_order(plan, best) or _cheaper_choice(plan, best)):
        out.append(("cheaper", text))
    if best is not None and (text := _left_alone(plan, best)):
        out.append(("left alone", text))
    if best is not None and (text := _by_spot(plan, best)):
        out.append(("spot", text))
    if text := advised.changed(plan):
        out.append(("advice", text))
    if (
        best is not None
        and (least := stranger(plan)) is not None
        and (least.micro_usd or 0) < (best.micro_usd or 0)
    ):
        out.append(
            (
                "cheaper",
                (
                    f"a marketplace host would cost {per_hour(least.micro_usd)},"
                    f" {place_text(least)}: {_consent(plan, least)}"
                ),
            )
        )
    doubted = next(
        (each for each in examples(plan) if each.rule == rules.NAMES[rules.PRICE_DOUBT]), None
    )
    if doubted is not None:
        more = f", and {doubted.offers - 1:,} more" if doubted.offers > 1 else ""
        out.append(
            ("suspect", f"not bought: {doubted.text}{more}; accept_suspect_prices: true would")
        )
    return out


def left_out(plan: Plan) -> dict[str, str]:
    """The choices that nobody sells so, by their path: why, and what to write."""
    out = _absent(plan)
    for problem in plan.alternatives:
        first = problem.todo.partition("; ")[0]
        todo = f"; {first}" if first else ""
        out[problem.path] = f"{in_words(problem.path)}: {problem.wanted}: {problem.found}{todo}"
    return out


def _dearer_order(plan: Plan, best: Candidate) -> str:
    """What the declared order costs more than the cheapest place of the same choice and kind of
    capacity; nothing where that is the first.
    """
    least = min(
        (
            each
            for each in plan.candidates
            if (each.entry, each.capacity) == (best.entry, best.capacity)
        ),
        key=lambda each: each.micro_usd or 0,
    )
    more = (best.micro_usd or 0) - (least.micro_usd or 0)
    if more <= 0 or plan.ask.rank == PRICE:
        return ""
    return (
        f"rank: {plan.ask.rank} costs {per_hour(more)} more than the cheapest: rank: price takes"
        f" {place_text(least)} at {per_hour(least.micro_usd)}"
    )


def _cheaper_choice(plan: Plan, best: Candidate) -> str:
    """Another of the declared choices that costs less than the one that is tried first; nothing
    where none does.
    """
    least = min(plan.candidates, key=lambda each: each.micro_usd or 0)
    if least.entry == best.entry or (least.micro_usd or 0) >= (best.micro_usd or 0):
        return ""
    placed = least.placement
    place = f"{least.provider} {placed.where} {placed.times}{placed.gpu} {least.capacity}"
    return f"{place} {per_hour(least.micro_usd)}, with rank: price"


def _left_alone(plan: Plan, best: Candidate) -> str:
    """Cheaper places of the same choice that were refused lately; nothing where there are none."""
    nodes, prices = plan.ask.entries[best.entry].nodes, plan.offers.column("node_micro_usd")
    providers = plan.offers.column("provider")
    cheaper = [
        price * nodes
        for row, (rule, entry) in plan.refused.items()
        if rule == rules.BLOCKED and entry == best.entry
        and (price := rules.known(prices[row], plan.terms.capabilities.get(str(providers[row]))))
        is not None
        and price * nodes < (best.micro_usd or 0)
    ]  # fmt: skip
    if not cheaper:
        return ""
    places = f"{len(cheaper):,} cheaper {'place' if len(cheaper) == 1 else 'places'}"
    return f"{places}, from {per_hour(min(cheaper))}, refused lately: see gpus memory"


def _by_spot(plan: Plan, best: Candidate) -> str:
    """What the chosen GPU costs as spot, where no choice allows it and it is cheaper."""
    if any(way.kind == SPOT for entry in plan.ask.entries for way in entry.capacity):
        return ""
    entry = plan.ask.entries[best.entry]._replace(capacity=(Capacity(SPOT),))
    least = _cheapest(plan, plan.ask._replace(entries=(entry,)))
    if least is None or (least.micro_usd or 0) >= (best.micro_usd or 0):
        return ""
    where = f"{least.provider} {least.placement.where}"
    return f"would be {per_hour(least.micro_usd)} at {where}, with spot: prefer"


def _other_counts(plan: Plan, best: Candidate) -> str:
    """Who sells the chosen GPU only by other counts, as `aws (sells A100 only by 8)`: they
    would go without a word.
    """
    ask, entry, skills = plan.ask, plan.ask.entries[best.entry], plan.terms.capabilities
    providers, counts, regions, capacities = (
        plan.offers.column(name) for name in ("provider", "gpu_count", "region", "capacity")
    )
    others = {
        name: set[float]()
        for name, able in skills.items()
        if ask.allows(name, marketplace=able.marketplace)
        and not able.live_offers
        and able.can_be(ask.kind, workload=ask.workload is not None)
    }
    wanted = {way.kind for way in entry.capacity}
    for gpu_type in rules.types(entry):
        for row in plan.offers.by_gpu.get(gpu_type, ()):
            if capacities[row] in wanted and (not ask.regions or regions[row] in ask.regions):
                others.get(str(providers[row]), set()).add(float(str(counts[row])))
    return ", ".join(
        f"{name} (sells {rules.title(entry)} only by {_counts(found)})"
        for name, found in others.items()
        if found and entry.gpu_count not in found
    )


def _counts(found: Iterable[float]) -> str:
    """`1, 4 or 8`; parts of a GPU only where nothing else is there."""
    *first, last = (f"{n:g}" for n in sorted([n for n in found if n >= 1] or found))
    return f"{', '.join(first)} or {last}" if first else last


def unlike(plan: Plan) -> dict[str, str]:
    """Provider -> what its best place's price holds of CPU and memory, where that is less than half
    of what the first machine of another provider has; and which options change that.
    """
    able = plan.terms.capabilities
    best = plan.best_per_provider()
    whole = [each for each in best if not able[each.provider].reserves and each.offer.vcpus]
    out = {}
    for each in best if whole else ():
        offer, other = each.offer, whole[0].offer
        if not able[each.provider].reserves or not (
            offer.vcpus * 2 < other.vcpus or offer.memory_gib * 2 < other.memory_gib
        ):
            continue
        options = f"options.{each.provider} ({', '.join(able[each.provider].reserves)})"
        out[each.provider] = (
            f"its price holds {size_text(offer)} ({other.provider}'s {other.machine_type}:"
            f" {size_text(other)}); {options} sets more"
        )
    return out


def stranger(plan: Plan) -> Candidate | None:
    """The cheapest host of a marketplace that would do for the chosen entry or an earlier one,
    where none is allowed; None where there is none.
    """
    if rules.NAMES[rules.MARKETPLACE] not in plan.rejected_by_rule:
        return None
    last = len(plan.ask.entries) if plan.best is None else plan.best.entry
    return _cheapest(
        plan,
        plan.ask._replace(marketplaces=True, entries=plan.ask.entries[: last + 1]),
        strangers=True,
    )


def _cheapest(plan: Plan, changed: Ask, *, strangers: bool = False) -> Candidate | None:
    """The cheapest candidate of the same market under a changed ask. What cannot hold the work, or
    cannot be told of it, is no help at any price.
    """
    from providers.planner.plan import make

    terms = plan.terms
    skills, unavailable = terms.capabilities, terms.unavailable
    if strangers:
        # Keys are needed to buy there, not to know the price.
        skills = {name: able for name, able in skills.items() if able.marketplace}
        unavailable = {}
    priced = changed._replace(rank=PRICE)
    again = make(
        priced,
        terms.table,
        skills,
        unavailable=unavailable,
        now=terms.now,
        fits=terms.fits,
        closed=terms.closed,
        hosted=terms.hosted,
    )
    return again.best


def _consent(plan: Plan, candidate: Candidate) -> str:
    name = candidate.provider
    trust = rules.entrusting(plan.ask, [name], plan.terms.capabilities)
    return f"write marketplaces: true, or add {name} to providers{trust}"


def _absent(plan: Plan) -> dict[str, str]:
    """The choices of which the allowed providers list not one offer now, where what is listed moves
    by the hour, by their path; the others are problems.
    """
    ask, skills = plan.ask, plan.terms.capabilities
    if not any(
        able.live_offers and ask.allows(name, marketplace=able.marketplace)
        for name, able in skills.items()
    ):
        return {}
    providers = plan.offers.column("provider")
    markets = {name for name, able in skills.items() if able.marketplace}
    out = {}
    for entry in ask.entries:
        rows = [row for gpu in rules.types(entry) for row in plan.offers.by_gpu.get(gpu, ())]
        if not any(
            ask.allows(str(providers[row]), marketplace=providers[row] in markets) for row in rows
        ):
            here = f"of {' or '.join(ask.providers)}" if ask.providers else "here"
            sellers = {str(providers[row]) for row in rows}
            todo = check.sellers_hint(entry, ask, sellers, skills)
            out[entry.path] = (
                f"{in_words(entry.path)}: {rules.title(entry)}: nobody {here} sells it now"
                + (f"; {todo}" if todo else "")
            )
    return out
