"""A plan as text, as Markdown and as plain JSON types. Owns wording and layout; pure.

The text fits the width it is given (96 columns: what Pulumi's log shows whole). Must not import the
engine or an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.catalog import names
from providers.model.ask import PREFERENCE
from providers.model.money import HOURS_PER_MONTH, per_hour, usd
from providers.model.offer import Candidate, Offer
from providers.planner import rules, suggest
from providers.planner.summary import (
    capacity_text,
    closed_places,
    examples,
    gpu_text,
    machine_text,
    place_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.ask import Ask, Choice
    from providers.planner.plan import Plan

WIDTH = 96
WALK = 5
"""How many places of the walk, after the chosen one, are written out in the text."""


class Running(NamedTuple):
    """What runs now: its price from launch in micro-dollars per hour (0: nothing runs; None: no
    price was known), and what it is.

    `change` says what becomes of it where more is known than the prices; `facts` are further (name,
    text) lines about it.
    """

    micro_usd: int | None
    what: str = ""
    change: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class _Row(NamedTuple):
    """The best row of one provider. `refused` is empty for a candidate; else the refusal in words
    (then `rank` is 0).
    """

    candidate: Candidate
    refused: str


def as_json(plan: Plan, running: Running | None = None) -> dict[str, Any]:
    """An object with `candidates`, `rejections` and `summary`; prices in dollars per hour for all
    nodes, None where unknown.
    """
    best = plan.best
    summary: dict[str, Any] = {
        "asked": ask_text(plan.ask),
        "chosen": None if best is None else best.rank,
        "price_usd_per_hour": None if best is None else best.price_usd_per_hour,
        "price_usd_per_month": None if best is None else month_usd(best.micro_usd),
        "worst_usd_per_hour": None if plan.worst_micro_usd is None else usd(plan.worst_micro_usd),
        "max_price_usd_per_hour": (
            None if plan.ask.max_price_micro_usd is None else usd(plan.ask.max_price_micro_usd)
        ),
        "hours_per_month": HOURS_PER_MONTH,
        "per_provider": [
            {**_candidate(row.candidate), "refused": row.refused or None} for row in best_rows(plan)
        ],
        "rejected_by_rule": plan.rejected_by_rule,
        "meanings": meanings(plan.ask),
        "left_out": left_out(plan),
        "remarks": dict(suggest.remarks(plan)),
        "notes": {text: list(ranks) for text, ranks in plan.notes.items()},
        "warnings": list(plan.warnings),
    }
    if running is not None:
        new = None if best is None else best.micro_usd
        summary["running"] = {
            "what": running.what,
            "price_usd_per_hour": None if running.micro_usd is None else usd(running.micro_usd),
        }
        summary["change_usd_per_hour"] = (
            None if running.micro_usd is None or new is None else usd(new - running.micro_usd)
        )
    return {
        "candidates": [_candidate(candidate) for candidate in plan.candidates],
        "rejections": _rejections(plan),
        "summary": summary,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    offer = candidate.offer
    return {
        "rank": candidate.rank,
        "entry": candidate.entry,
        "provider": offer.provider,
        "region": offer.region,
        "zone": offer.zone,
        "machine_type": offer.machine_type,
        "gpu_type": offer.gpu_type,
        "gpu_count": candidate.gpu_count,
        "nodes": candidate.nodes,
        "capacity": offer.capacity,
        "reservation": candidate.reservation,
        "price_usd_per_hour": candidate.price_usd_per_hour,
        "price_as_of": offer.price_as_of,
        "price_source": offer.price_source,
        "parts": offer.parts,
        "left_out": offer.left_out,
    }


def _rejections(plan: Plan) -> list[dict[str, str]]:
    """Every refusal, `offer` as its id. Rows of GPUs that nobody asked for share one text, so that
    thousands of them cost little.
    """
    ids = plan.offers.ids()
    gpus = cast("Sequence[str]", plan.offers.column("gpu_type"))
    gpu_rule, asked = rules.NAMES[rules.GPU], rules.asked(plan.ask)
    out: list[dict[str, str]] = []
    for rule, entry, row in plan.refusals():
        if rule == rules.GPU:
            out.append({"offer": ids[row], "rule": gpu_rule, "wanted": asked, "found": gpus[row]})
        else:
            wanted, found = plan.explain(rule, entry, row)
            out.append(
                {"offer": ids[row], "rule": rules.NAMES[rule], "wanted": wanted, "found": found}
            )
    return out


def as_text(
    plan: Plan, width: int = WIDTH, *, title: str = "", running: Running | None = None
) -> str:
    """For a terminal: the chosen place first, then why not another, at most `width` columns."""
    best, ask = plan.best, plan.ask
    lines = _wrapped(f"{title}: " if title else "", ask_text(ask), width)
    lines += [line for text in meanings(ask) for line in _wrapped("  ", text, width)]
    rows = best_rows(plan)
    rest = plan.candidates[1 : 1 + WALK]
    sizes = _sizes([row.candidate for row in rows] + list(rest), width)
    if rows:
        span = sum(sizes[:6]) + 5
        lines += [
            "",
            _clip(
                f"{'best per provider':<{span}} {'$/h':>{sizes[6]}} {'$/month':>{sizes[7]}}", width
            ),
        ]
    indent = " " * (sizes[0] + 1)
    for row in rows:
        lines.append(_line(row.candidate, sizes, width, ">" if row.candidate is best else ""))
        lines += _wrapped(indent, price_text(row.candidate), width)
        lines += [
            line
            for text in _notes_of(plan, row.candidate)
            for line in _wrapped(indent, text, width)
        ]
        if row.refused:
            lines += _wrapped(f"{indent}not taken: ", row.refused, width)
    if best is None:
        lines += [
            "",
            (
                "nothing acceptable: every offer was refused by a rule below"
                if plan.refused
                else "nothing acceptable"
            ),
        ]
        lines += [line for text in suggest.hints(plan) for line in _wrapped("  ", text, width)]
    if rest:
        more = len(plan.candidates) - 1 - len(rest)
        lines += ["", "if that is sold out, in this order"]
        lines += [_line(candidate, sizes, width, "") for candidate in rest]
        lines += [f"{'':{sizes[0]}} and {more:,} more"] if more else []
    lines.append("")
    facts: list[tuple[str, str]] = []
    if best is not None:
        facts.append(("worst case", worst_text(plan)))
    if running is not None:
        facts += [("change", _change(plan, running)), *running.facts]
    facts += suggest.remarks(plan) if best is not None else ()
    refused = plan.rejected_by_rule
    if refused:
        facts.append(("refused", f"{sum(refused.values()):,} offers"))
    for name, text in facts:
        lines += _wrapped(f"{name:<11} ", text, width)
    pad = max((len(name) for name in refused), default=0)
    lines += [
        _clip(f"  {example.rule:<{pad}} {example.offers:>6,}  {example.text}", width)
        for example in examples(plan)
    ]
    for place in closed_places(plan):
        lines += _wrapped("  to use it: ", place, width)
    lines += _wrapped(f"{'prices':<11} ", prices_text(plan), width) if rows else []
    for text in _further_notes(plan):
        lines += _wrapped(f"{'note':<11} ", text, width)
    for warning in plan.warnings:
        lines += _wrapped(f"{'warning':<11} ", warning, width)
    return "\n".join(lines)


def as_markdown(plan: Plan, *, title: str = "", running: Running | None = None) -> str:
    """For a pull request: the same content as the text."""
    best = plan.best
    lines = [f"**{title}**: {ask_text(plan.ask)}" if title else f"**{ask_text(plan.ask)}**", ""]
    lines += [f"- {text}" for text in meanings(plan.ask)] + ([""] if meanings(plan.ask) else [])
    head = [
        "| # | provider | place | machine | GPU | capacity | $/h | $/month | price | |",
        "|--:|---|---|---|---|---|--:|--:|---|---|",
    ]
    rows = best_rows(plan)
    if rows:
        lines += ["Best per provider:", "", *head]
        lines += [
            _table_row(
                row.candidate,
                "; ".join(
                    [
                        "**chosen**" if row.candidate is best else row.refused,
                        *_notes_of(plan, row.candidate),
                    ]
                ),
            )
            for row in rows
        ]
        lines.append("")
    if best is None:
        lines += [
            "Nothing acceptable: every offer was refused by a rule below.",
            *(f"- {text}" for text in suggest.hints(plan)),
            "",
        ]
    rest = plan.candidates[1 : 1 + WALK]
    if rest:
        more = len(plan.candidates) - 1 - len(rest)
        lines += [
            f"If that is sold out, in this order{f' (and {more:,} more)' if more else ''}:",
            "",
            *head,
        ]
        lines += [*(_table_row(candidate, "") for candidate in rest), ""]
    if best is not None:
        lines.append(f"- worst case: {worst_text(plan)}")
    if running is not None:
        lines += [
            f"- {name}: {text}"
            for name, text in (("change", _change(plan, running)), *running.facts)
        ]
    lines += (
        [f"- {name}: {text}" for name, text in suggest.remarks(plan)] if best is not None else []
    )
    lines += [f"- prices: {prices_text(plan)}"] if rows else []
    lines += [f"- note: {text}" for text in _further_notes(plan)]
    lines += [f"- warning: {warning}" for warning in plan.warnings]
    if plan.rejected_by_rule:
        total = sum(plan.rejected_by_rule.values())
        lines += [
            "",
            f"<details><summary>{total:,} offers refused</summary>",
            "",
            "| rule | offers | wanted | found, for example |",
            "|---|--:|---|---|",
        ]
        lines += [
            f"| {example.rule} | {example.offers:,} | {_cell(example.wanted)} |"
            f" {_cell(example.text)} |"
            for example in examples(plan)
        ]
        lines += ["", "</details>"]
    return "\n".join(lines)


_RANKS = {
    "price": "cheapest first",
    "performance_per_dollar": "most TFLOPS per dollar first",
    "job_cost": "cheapest job first",
}


def ask_text(ask: Ask) -> str:
    """`H100:8, else A100-80GB:8; spot, then on-demand; at most $60.00/h`: the whole ask in one
    line.
    """
    same = len({(entry.capacity, entry.nodes) for entry in ask.entries}) == 1
    texts = [
        f"{rules.title(entry)}:{entry.gpu_count}" + ("" if same else f" ({_terms(entry)})")
        for entry in ask.entries
    ]
    parts = [", else ".join(texts), *([_terms(ask.entries[0])] if same else [])]
    if ask.max_price_micro_usd is not None:
        parts.append(f"at most {per_hour(ask.max_price_micro_usd)}")
    if ask.providers:
        parts.append("at " + (", then " if ask.rank == PREFERENCE else " or ").join(ask.providers))
    if ask.marketplaces and not ask.providers:
        parts.append("strangers' hosts too")
    if ask.regions:
        parts.append("in " + " or ".join(ask.regions))
    if ask.rank in _RANKS:
        parts.append(_RANKS[ask.rank])
    return "; ".join(parts)


def _terms(entry: Choice) -> str:
    nodes = f"{entry.nodes} nodes, " if entry.nodes > 1 else ""
    return f"{nodes}{', then '.join(map(str, entry.capacity))}"


def meanings(ask: Ask) -> list[str]:
    """What the bare names of an ask mean, one line each; none for names that speak for themselves."""
    asked = (names.canonical(entry.gpu) for entry in ask.entries if entry.gpu and not entry.exact)
    return [text for name in dict.fromkeys(asked) if name and (text := names.meaning(name))]


def best_rows(plan: Plan) -> list[_Row]:
    """The best row of each provider: candidates in the order of the walk, then what was refused for
    another reason than what it is.
    """
    rows: dict[str, _Row] = {}
    for candidate in plan.candidates:
        if candidate.provider not in rows:
            rows[candidate.provider] = _Row(candidate, "")
    others: dict[str, tuple[tuple[int, int, int], int, int]] = {}
    providers, prices, capacities = (
        plan.offers.column(name) for name in ("provider", "node_micro_usd", "capacity")
    )
    for row, (rule, entry) in plan.refused.items():
        provider = str(providers[row])
        price = rules.known(prices[row])
        if rule <= rules.MARKETPLACE or provider in rows or price is None:
            continue
        kinds = [way.kind for way in plan.ask.entries[entry].capacity]
        key = (entry, kinds.index(str(capacities[row])), price)
        if provider not in others or key < others[provider][0]:
            others[provider] = (key, rule, row)
    for provider, ((entry, _, price), rule, row) in sorted(others.items()):
        chosen = plan.ask.entries[entry]
        _, found = plan.explain(rule, entry, row)
        rows[provider] = _Row(
            Candidate(0, entry, plan.offers.offer(row), chosen.nodes, "", price * chosen.nodes),
            found,
        )
    return list(rows.values())


def worst_text(plan: Plan) -> str:
    """`$88.49/h ($64,597.70/month): gcp ..., the dearest place that is accepted`."""
    worst = max(plan.candidates, key=lambda candidate: candidate.micro_usd or 0)
    return (
        f"{per_hour(worst.micro_usd)} ({per_month(worst.micro_usd)}), the dearest place accepted:"
        f" #{worst.rank} {place_text(worst)}"
    )


def change_line(now_micro: int | None, new_micro: int | None, what: str = "") -> str:
    """The change per hour: `+$26.11/h; nothing runs now`. `now_micro` is 0 when nothing runs, None
    when its price is unknown.
    """
    runs = f"{what} runs now at {per_hour(now_micro)}" if what else f"{per_hour(now_micro)} now"
    if now_micro == 0:
        runs = "nothing runs now"
    if new_micro is None:
        return f"none: there is nothing to change to; {runs}"
    if now_micro is None:
        return f"unknown: {what or 'what runs now'} has no known price; then {per_hour(new_micro)}"
    step = new_micro - now_micro
    return f"{'-' if step < 0 else '+'}{per_hour(abs(step))}; {runs}" if step else f"none; {runs}"


def _change(plan: Plan, running: Running) -> str:
    new = None if plan.best is None else plan.best.micro_usd
    return running.change or change_line(running.micro_usd, new, running.what)


def month_usd(micro: int | None) -> float | None:
    """Dollars for a month of 730 hours."""
    return None if micro is None else usd(micro * HOURS_PER_MONTH)


def per_month(micro: int | None) -> str:
    """`$64,598/month`, cents under a thousand dollars."""
    if micro is None:
        return "no price"
    month = micro * HOURS_PER_MONTH / 1_000_000
    return f"${month:,.0f}/month" if month >= 1_000 else f"${month:,.2f}/month"


def _seen(plan: Plan) -> list[Offer]:
    """The offers whose prices are on the screen or may be paid."""
    return [candidate.offer for candidate in plan.candidates] + [
        row.candidate.offer for row in best_rows(plan) if row.refused
    ]


def prices_text(plan: Plan) -> str:
    """The dates of the prices, by provider."""
    dates: dict[str, set[str]] = {}
    for offer in _seen(plan):
        said = (
            "your own (prices.overrides)"
            if offer.price_source == rules.OVERRIDE_SOURCE
            else offer.price_as_of or "no date"
        )
        dates.setdefault(offer.provider, set()).add(said)
    texts = []
    for provider, found in dates.items():
        days = sorted(day for day in found if day[:1].isdigit())
        spans = [days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"] if days else []
        texts.append(f"{provider} {' and '.join(spans + sorted(found.difference(days)))}")
    return f"all nodes, all-in, as of: {'; '.join(texts)}" if texts else ""


def price_text(candidate: Candidate) -> str:
    """`2026-07-30: vCPU + RAM + 8 x H100; not in it: boot disk, egress`: the price's date, its
    parts and what is left out.
    """
    offer = candidate.offer
    if offer.price_source == rules.OVERRIDE_SOURCE:
        text = "your own price (prices.overrides)"
    else:
        text = (
            f"{offer.price_as_of or 'no date'}:"
            f" {'each node ' if candidate.nodes > 1 else ''}{offer.parts or 'whole machine'}"
        )
    return f"{text}; not in it: {offer.left_out.replace('; ', ', ')}" if offer.left_out else text


def left_out(plan: Plan) -> list[str]:
    """What the prices do not hold, by provider."""
    notes: dict[str, list[str]] = {}
    for offer in _seen(plan):
        known = notes.setdefault(offer.provider, [])
        if offer.left_out and offer.left_out not in known:
            known.append(offer.left_out)
    return [
        f"{provider}: {', '.join(found).replace('; ', ', ')}"
        for provider, found in notes.items()
        if found
    ]


def _notes_of(plan: Plan, candidate: Candidate) -> list[str]:
    """The notes on one candidate."""
    return [text for text, ranks in plan.notes.items() if candidate.rank in ranks]


def _further_notes(plan: Plan) -> list[str]:
    """The notes that hold for no row written out per provider: `#3 and 4 more: single NIC: ...`."""
    told = {row.candidate.rank for row in best_rows(plan)}
    return [
        f"#{ranks[0]}{f' and {len(ranks) - 1} more' if len(ranks) > 1 else ''}: {text}"
        for text, ranks in plan.notes.items()
        if told.isdisjoint(ranks)
    ]


def _cells(candidate: Candidate) -> tuple[str, ...]:
    micro = candidate.micro_usd or 0
    return (
        candidate.provider,
        candidate.zone or candidate.region,
        machine_text(candidate),
        gpu_text(candidate),
        capacity_text(candidate),
        per_hour(micro).removeprefix("$").removesuffix("/h"),
        per_month(micro).removeprefix("$").removesuffix("/month"),
    )


def _sizes(candidates: Sequence[Candidate], width: int) -> list[int]:
    """Column widths: the mark and rank, then each cell's widest; machine, place and capacity give
    way when the line is too long.
    """
    table = [_cells(candidate) for candidate in candidates]
    widest = [max((len(row[i]) for row in table), default=0) for i in range(7)]
    sizes = [2 + max((len(str(candidate.rank)) for candidate in candidates), default=1), *widest]
    sizes[6], sizes[7] = max(sizes[6], 6), max(sizes[7], 7)
    for column, least in ((3, 14), (2, 14), (5, 11)):
        over = sum(sizes) + len(sizes) - 1 - width
        if over > 0:
            sizes[column] = max(min(least, sizes[column]), sizes[column] - over)
    return sizes


def _line(candidate: Candidate, sizes: list[int], width: int, mark: str) -> str:
    rank = str(candidate.rank) if candidate.rank else "-"
    return _columns((f"{mark:<1} {rank:>{sizes[0] - 2}}", *_cells(candidate)), sizes, width)


def _columns(cells: tuple[str, ...], sizes: list[int], width: int) -> str:
    texts = [
        f"{_clip(text, size):<{size}}" if place < 6 else f"{text:>{size}}"
        for place, (text, size) in enumerate(zip(cells, sizes, strict=True))
    ]
    return _clip(" ".join(texts).rstrip(), width)


def _table_row(candidate: Candidate, note: str) -> str:
    return (
        "| "
        + " | ".join(
            map(
                _cell, (str(candidate.rank or "-"), *_cells(candidate), price_text(candidate), note)
            )
        )
        + " |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """The text behind its head, broken at spaces; further lines are indented as far as the head
    reaches.
    """
    import textwrap

    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head.rstrip()]
