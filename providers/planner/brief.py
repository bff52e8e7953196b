"""A plan in a few lines: what would be bought, what it costs, and what else there is. Owns layout;
pure. The whole table is `render.as_text`'s, and is shown where nothing is acceptable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model.money import per_hour
from providers.planner import render, rules
from providers.planner.describe import capacity_text, place_text, run_text, size_text
from providers.planner.summary import summarize

if TYPE_CHECKING:
    from providers.model.ask import Ask
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost, ProviderRow

_HEAD = 11
_ASKED_LINES = 2


def as_text(
    plan: Plan,
    width: int = render.WIDTH,
    *,
    title: str = "",
    current: CurrentCost | None = None,
    details: str = "",
) -> str:
    """The choice first, at most `width` columns. `details` is the command that shows the whole
    plan.
    """
    summary = summarize(plan, current)
    best, worst = summary.chosen, plan.worst_micro_usd
    if best is None or worst is None:
        return render.as_text(plan, width, title=title, current=current)
    lines = render.wrapped(f"{title}: " if title else "", summary.asked, width)
    if len(lines) > _ASKED_LINES:
        lines = [*lines[: _ASKED_LINES - 1], f"{lines[_ASKED_LINES - 1][: width - 2]} …"]
    rows = [
        ("buys", place_text(best)),
        ("price", _price(plan.ask, best) + _more(best)),
    ]
    dearest = max(plan.candidates, key=lambda each: each.micro_usd or 0)
    if worst != best.micro_usd:
        rows.append(("at worst", f"{_price(plan.ask, dearest, short=True)}: {_place(dearest)}"))
    others = [row for row in summary.per_provider if row.candidate is not best and not row.refused]
    rows += [("" if index else "or", _other(row)) for index, row in enumerate(others)]
    if more := len(plan.candidates) - 1 - len(others):
        rows.append(("" if others else "or", f"{more:,} more place{'s' if more > 1 else ''}"))
    if passed := _passed_over(plan, best.entry):
        rows.append(("instead of", passed))
    rows += [(name, text) for name, text in summary.facts if name != "worst case"]
    chosen = next(row for row in summary.per_provider if row.candidate is best)
    rows += [("note", text) for text in chosen.notes]
    rows += [("warning", text) for text in summary.warnings]
    rows += [("details", details)] if details else []
    for name, text in rows:
        lines += render.wrapped(f"{name:<{_HEAD}} ", text, width)
    return "\n".join(lines)


def _place(candidate: Candidate) -> str:
    """`gcp us-central1-a H100:8 spot`: without its machine, which the details name."""
    placement = candidate.placement
    return f"{candidate.provider} {placement.where} {placement.gpu} {capacity_text(candidate)}"


def _other(row: ProviderRow) -> str:
    """`modal any H100:8 on-demand $31.61/h with 0.25 vCPUs and 0.125 GiB`: CPU and memory only
    where they are much less than elsewhere.
    """
    other = row.candidate
    with_ = f" with {size_text(other.offer)}" if row.smaller else ""
    return f"{_place(other)} {per_hour(other.micro_usd)}{with_}"


def _price(ask: Ask, candidate: Candidate, *, short: bool = False) -> str:
    """`$9.71/h, $194.20 for its ttl of 20h`; a month where nothing ends it."""
    run = run_text(ask, candidate, short=short)
    return f"{per_hour(candidate.micro_usd)}{f', {run}' if run else ''}"


def _more(candidate: Candidate) -> str:
    """`; each node $3.24/h; not in it: egress`: what one of several costs, and what is left out."""
    offer = candidate.offer
    one = f"; each node {per_hour(offer.node_micro_usd)}" if candidate.nodes > 1 else ""
    without = offer.left_out.replace("; ", ", ")
    return f"{one}; not in it: {without}" if without else one


def _passed_over(plan: Plan, chosen: int) -> str:
    """The choices before the one that is taken, of which no place is acceptable, and by which
    rules.
    """
    texts = []
    acceptable = {each.entry for each in plan.candidates}
    for index, entry in enumerate(plan.ask.entries[:chosen]):
        if index in acceptable:
            continue
        counts = plan.counted(index)
        why = ", ".join(f"{count:,} by {name}" for name, count in counts.items())
        texts.append(
            f"{rules.title(entry)}:{entry.gpu_count}: no place is acceptable"
            f" ({why or 'none is listed'})"
        )
    return "; ".join(texts)
