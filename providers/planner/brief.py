"""A plan in a few lines: what would be bought, what it costs, and what else there is. Owns layout;
pure. The whole table is `render.as_text`'s, and is shown where nothing is acceptable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.model.ask import SPOT
from providers.model.money import per_hour
from providers.model.note import COSTS, STOPS, urgency
from providers.planner import outlook, refusals, render, rules, suggest
from providers.planner.describe import capacity_text, place_text, run_text, with_name, work_text
from providers.planner.summary import ProviderRow, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from providers.model.ask import Ask
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost, PlanSummary

LINES = 12
"""How many lines one cluster has, as long as only what is of further use is left out of them."""
WOULD_BUY = "would buy"
"""What the first place is called where nobody asked what runs already."""
_HEAD = 11
_STOPS = "watch out"
"""What notes on what will not work are called."""
_ASKED_LINES = 2
_WORK = 67
"""How much is said of what runs: one line of 80 columns."""
_OTHERS = (2, 1, 0)
"""How many other providers' best places are shown where there are too many lines."""
_PRICED, _RUNS, _SMALLER, _NOTE = 0, 1, 2, 6
_LEFT_OUT_TOO = 3
_RANKS = {"spot": 0, "left alone": 3, "not at": 5, "suspect": 5}
"""What stands there only if there is room, the least number first; everything else always does."""


class _Row(NamedTuple):
    name: str
    text: str
    rank: int | None = None
    """Which of those that stand there only if there is room come first; None always does."""


def as_text(
    plan: Plan,
    width: int = render.WIDTH,
    *,
    title: str = "",
    current: CurrentCost | None = None,
    details: str = "",
) -> str:
    """The choice first, at most `width` columns; where that can be, in LINES lines. `details` is
    the command that shows the whole plan.
    """
    summary = summarize(plan, current)
    best = summary.chosen
    if best is None:
        return render.as_text(plan, width, title=title, current=current)
    head = render.wrapped(f"{title}: " if title else "", summary.asked, width)
    if len(head) > _ASKED_LINES:
        head = [*head[: _ASKED_LINES - 1], f"{head[_ASKED_LINES - 1][: width - 2]} …"]
    if current is not None and current.kept:
        rows = list(_kept(plan, current, best))
        return "\n".join([*head, *_laid(rows, details, width)])
    buys = WOULD_BUY if current is None else "buys"
    for others in (len(plan.candidates), *_OTHERS):
        rows = [
            row._replace(text=with_name(row.text, title))
            for row in _bought(plan, summary, best, buys, others)
        ]
        lines = [*head, *_fitted(rows, details, LINES - len(head), width)]
        if len(lines) <= LINES:
            return "\n".join(lines)
    for each in (2, 1):
        lines = [*head, *_fitted(_clipped(rows, width, each), details, LINES - len(head), width)]
        if len(lines) <= LINES:
            break
    return "\n".join(lines)


def _clipped(rows: Sequence[_Row], width: int, lines: int) -> list[_Row]:
    """The rows with so many lines of each note that stops something."""
    most = (width - _HEAD - 1) * lines - (2 if lines == 1 else width // 4)
    return [
        row._replace(text=f"{row.text[:most]}…")
        if row.name == _STOPS and len(row.text) > most
        else row
        for row in rows
    ]


def _fitted(rows: Sequence[_Row], details: str, most: int, width: int) -> list[str]:
    """The rows as lines: those that must stand there, and of the others what there is room for."""
    shown = [row for row in rows if row.rank is None]
    for each in sorted(rows, key=lambda row: row.rank or 0):
        if each.rank is not None:
            more = [row for row in rows if row is each or row in shown]
            if len(_laid(more, details, width, len(rows) - len(more))) <= most:
                shown = more
    return _laid(shown, details, width, len(rows) - len(shown))


def _laid(rows: Sequence[_Row], details: str, width: int, left: int = 0) -> list[str]:
    """The rows as lines; `left` is how many are not among them."""
    more = f" ({left} more note{'s' if left > 1 else ''})" if left else ""
    last = [_Row("details", f"{details}{more}")] if details else []
    return [
        line
        for name, text, _ in (*rows, *last)
        for line in render.wrapped(f"{name:<{_HEAD}} ", text, width)
    ]


def _bought(
    plan: Plan, summary: PlanSummary, best: Candidate, buys: str, most: int
) -> Iterator[_Row]:
    """All there is to say of a purchase, in the order in which it is read; of the places of other
    providers at most so many.
    """
    if work := work_text(plan.ask, _WORK):
        yield _Row("runs", work, _RUNS)
    chosen = next(row for row in summary.per_provider if row.candidate is best)
    notes = sorted(chosen.notes, key=urgency)
    yield from _purchase(buys, plan, best)
    if likely := outlook.likely(plan):
        yield _Row("likely", likely)
    yield from _worst(plan, best)
    yield from (_Row(_STOPS, text) for text in notes if urgency(text) == STOPS)
    if after := _next(plan, summary):
        yield _Row("if sold out", after)
    told = plan.candidates[:2]
    others = [row for row in summary.per_provider if row.candidate not in told and not row.refused]
    for index, row in enumerate(others[:most]):
        yield _Row("" if index else "elsewhere", _other(row))
    if passed := _passed_over(plan, best.entry):
        yield _Row("instead of", passed)
    facts = [(name, text) for name, text in summary.facts if name != "worst case"]
    for index, (name, text) in enumerate(facts):
        is_more = name == "left out" and index > 0 and facts[index - 1][0] == name
        yield _Row(name, text, _LEFT_OUT_TOO if is_more else _RANKS.get(name))
    for text in notes:
        if urgency(text) != STOPS:
            is_smaller = chosen.smaller and text == chosen.notes[0]
            rank = _PRICED if urgency(text) == COSTS else _NOTE
            yield _Row("note", text, _SMALLER if is_smaller else rank)
    yield from (_Row("warning", text) for text in summary.warnings)


def _next(plan: Plan, summary: PlanSummary) -> str:
    """What an `up` tries where the first place has no room; nothing where it is the only one."""
    if len(plan.candidates) < 2:
        return ""
    after = plan.candidates[1]
    more = len(plan.candidates) - 2
    rest = f", then {more:,} more place{'s' if more > 1 else ''}" if more else ""
    own = (row for row in summary.per_provider if row.candidate is after)
    return f"{_other(next(own, ProviderRow(after, '')))}{rest}"


def _kept(plan: Plan, current: CurrentCost, best: Candidate) -> Iterator[_Row]:
    """What stays as it is, and what would be bought instead, each with its price in its own row:
    what else could be cheaper is no question now. Where nothing is there yet, what would be bought
    is.
    """
    if current.kept is not None:
        yield _Row(*current.kept)
    if current.what:
        yield _Row(current.bought_if, f"{_machine(best)}, at {_price(plan.ask, best)}")
    else:
        yield from _purchase(current.bought_if, plan, best)
        yield from _worst(plan, best)
    yield from (_Row(*fact) for fact in current.facts)
    yield from (_Row("warning", text) for text in plan.warnings)


def _purchase(name: str, plan: Plan, best: Candidate) -> Iterator[_Row]:
    """The first place and its price."""
    yield _Row(name, _machine(best))
    yield _Row("price", _price(plan.ask, best) + _more(best))
    if best.capacity == SPOT:
        yield _Row("spot", outlook.taken_back(best))


def _machine(best: Candidate) -> str:
    """Its place and machine, and its size where a GPU has several."""
    size = names.told_apart(best.gpu_type)
    return f"{place_text(best)}{f', {size} per GPU' if size else ''}"


def _worst(plan: Plan, best: Candidate) -> Iterator[_Row]:
    """The most that it may come to."""
    dearest = max(plan.candidates, key=lambda each: each.micro_usd or 0)
    if dearest.micro_usd != best.micro_usd:
        yield _Row("at worst", f"{_price(plan.ask, dearest, short=True)}: {_place(dearest)}")


def _place(candidate: Candidate) -> str:
    """`gcp us-central1-a H100:8 spot`: without its machine, which the details name."""
    placement = candidate.placement
    return f"{candidate.provider} {placement.where} {placement.gpu} {capacity_text(candidate)}"


def _other(row: ProviderRow) -> str:
    """`modal any region H100:8 on-demand $31.61/h (CPU and RAM extra)`: that only where its price
    holds much less of them than elsewhere.
    """
    other = row.candidate
    extra = " (CPU and RAM extra)" if row.smaller else ""
    return f"{_place(other)} {per_hour(other.micro_usd)}{extra}"


def _price(ask: Ask, candidate: Candidate, *, short: bool = False) -> str:
    """`$9.71/h, $194.20 if it runs 20h (ttl)`; a month where nothing ends it."""
    run = run_text(ask, candidate, short=short)
    return f"{per_hour(candidate.micro_usd)}{f', {run}' if run else ''}"


def _more(candidate: Candidate) -> str:
    """`; each node $3.24/h, plus egress`: what one of several costs, and what is left out."""
    offer = candidate.offer
    one = f"; each node {per_hour(offer.node_micro_usd)}" if candidate.nodes > 1 else ""
    without = offer.left_out.replace("; ", ", ")
    return f"{one}, plus {without}" if without else one


def _passed_over(plan: Plan, chosen: int) -> str:
    """The choices before the one that is taken, of which no place is acceptable, and why."""
    texts = []
    acceptable = {each.entry for each in plan.candidates}
    told = suggest.left_out(plan)
    for index, entry in enumerate(plan.ask.entries[:chosen]):
        if index in acceptable or entry.path in told:
            continue
        why = refusals.in_words(plan, index) or "no place"
        texts.append(f"{rules.title(entry)}:{entry.gpu_count} ({why})")
    return ", ".join(texts)
