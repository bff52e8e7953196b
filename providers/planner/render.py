"""A plan as text, as Markdown and as plain JSON types. Owns layout; pure.

The text fits the width it is given (96 columns: what Pulumi's log shows whole). Must not import the
engine or an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model.money import HOURS_PER_MONTH, per_hour, usd
from providers.planner import advised, outlook, rules, suggest
from providers.planner.describe import (
    ask_text,
    capacity_text,
    gpu_text,
    machine_text,
    meanings,
    month_usd,
    place_text,
    price_text,
    run_cells,
    with_name,
    work_text,
)
from providers.planner.summary import best_rows, left_out, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.model.ask import Ask
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan
    from providers.planner.summary import CurrentCost, PlanSummary

WIDTH = 96
_WORK = 500
"""How much is said of what runs, image and all."""


def as_json(plan: Plan, current: CurrentCost | None = None) -> dict[str, Any]:
    """An object with `candidates`, `rejections` (of the GPUs asked for) and `summary`; prices in
    dollars per hour for all nodes, None where unknown.
    """
    best = plan.best
    summary: dict[str, Any] = {
        "asked": ask_text(plan.ask),
        "chosen": None if best is None else best.rank,
        "price_usd_per_hour": None if best is None else best.price_usd_per_hour,
        "price_usd_per_month": None if best is None else month_usd(best.micro_usd),
        "worst_usd_per_hour": None if plan.worst_micro_usd is None else usd(plan.worst_micro_usd),
        "expected": outlook.as_json(plan),
        "advice": advised.as_json(plan),
        "max_price_usd_per_hour": (
            None if plan.ask.max_price_micro_usd is None else usd(plan.ask.max_price_micro_usd)
        ),
        "hours_per_month": HOURS_PER_MONTH,
        "per_provider": [
            {**_candidate(row.candidate), "refused": row.refused or None} for row in best_rows(plan)
        ],
        "rejected_by_rule": plan.rejected_by_rule,
        "other_gpus": len(plan.offers) - len(plan.kept) - len(plan.refused),
        "meanings": meanings(plan.ask),
        "left_out": left_out(plan),
        "remarks": dict(suggest.remarks(plan)),
        "notes": {text: list(ranks) for text, ranks in plan.notes.items()},
        "warnings": list(plan.warnings),
    }
    if current is not None:
        new = None if best is None else best.micro_usd
        summary["running"] = {
            "what": current.what,
            "price_usd_per_hour": None if current.micro_usd is None else usd(current.micro_usd),
        }
        summary["change_usd_per_hour"] = (
            None if current.micro_usd is None or new is None else usd(new - current.micro_usd)
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
        "vcpus": offer.vcpus,
        "memory_gib": offer.memory_gib,
    }


def _rejections(plan: Plan) -> list[dict[str, str]]:
    """Every refused offer of the GPUs asked for, `offer` as its id. The others, thousands, are
    counted only.
    """
    out: list[dict[str, str]] = []
    for row, (rule, entry) in sorted(plan.refused.items(), key=lambda each: (each[1], each[0])):
        wanted, found = plan.explain(rule, entry, row)
        offer = plan.offers.offer(row).id
        out.append({"offer": offer, "rule": rules.NAMES[rule], "wanted": wanted, "found": found})
    return out


def as_text(
    plan: Plan, width: int = WIDTH, *, title: str = "", current: CurrentCost | None = None
) -> str:
    """For a terminal: the chosen place first, then why not another, at most `width` columns."""
    summary = summarize(plan, current)
    if title:
        summary = _named(summary, title)
    shown = _Table.of(plan.ask, summary, width)
    lines = wrapped(f"{title}: " if title else "", summary.asked, width)
    lines += _each("  ", summary.meanings, width)
    lines += _each("  runs ", filter(None, [work_text(plan.ask, _WORK)]), width)
    if summary.kept is not None:
        lines += ["", *wrapped(f"{summary.kept[0]:<11} ", summary.kept[1], width)]
    lines += _provider_lines(summary, shown)
    if summary.chosen is None:
        refused = ": every offer was refused by a rule below" if summary.refused_by_rule else ""
        lines += ["", f"nothing acceptable{refused}"]
        lines += _each("  ", summary.hints, width)
    if summary.walk:
        lines += ["", "if that is sold out, in this order"]
        lines += [line for each in summary.walk for line in shown.lines(each, "")]
        more = summary.beyond_walk
        lines += [f"{'':{shown.sizes[0]}} and {more:,} more"] if more else []
    lines.append("")
    for name, text in summary.facts:
        lines += wrapped(f"{name:<11} ", text, width)
    for index, text in enumerate(outlook.lines(plan)):
        lines += wrapped(f"{'' if index else 'expected':<11} ", text, width)
    for index, text in enumerate(advised.lines(plan)):
        lines += wrapped(f"{'' if index else 'room':<11} ", text, width)
    lines += _refused_lines(summary, width)
    lines += wrapped(f"{'prices':<11} ", summary.prices, width) if summary.per_provider else []
    lines += _each(f"{'note':<11} ", summary.further_notes, width)
    lines += _each(f"{'warning':<11} ", summary.warnings, width)
    return "\n".join(lines)


def _named(summary: PlanSummary, cluster: str) -> PlanSummary:
    """The notes with the cluster's name in their commands."""
    return summary._replace(
        further_notes=[with_name(text, cluster) for text in summary.further_notes],
        per_provider=[
            row._replace(notes=tuple(with_name(text, cluster) for text in row.notes))
            for row in summary.per_provider
        ],
    )


def _provider_lines(summary: PlanSummary, shown: _Table) -> list[str]:
    if not summary.per_provider:
        return []
    lines, width = ["", shown.head()], shown.width
    indent = " " * (shown.sizes[0] + 1)
    for row in summary.per_provider:
        chosen = row.candidate is summary.chosen
        lines += shown.lines(row.candidate, ">" if chosen else "")
        lines += wrapped(indent, price_text(row.candidate), width)
        lines += _each(indent, row.notes, width)
        if row.refused:
            lines += wrapped(f"{indent}not taken: ", row.refused, width)
    return lines


def _refused_lines(summary: PlanSummary, width: int) -> list[str]:
    counts = summary.refused_by_rule
    if not counts:
        return []
    lines = wrapped(f"{'refused':<11} ", f"{sum(counts.values()):,} offers", width)
    pad = max(map(len, counts))
    for example in summary.examples:
        lines += wrapped(f"  {example.rule:<{pad}} {example.offers:>6,}  ", example.text, width)
    return lines + _each("  to use it: ", summary.closed_places, width)


def _table_head(shown: _Table) -> tuple[str, str]:
    return (
        f"| # | provider | place | machine | GPU | capacity | $/h | {shown.run} | price | |",
        "|--:|---|---|---|---|---|--:|--:|---|---|",
    )


def as_markdown(plan: Plan, *, title: str = "", current: CurrentCost | None = None) -> str:
    """For a pull request: the same content as the text."""
    summary = summarize(plan, current)
    shown = _Table.of(plan.ask, summary, WIDTH)
    lines = [f"**{title}**: {summary.asked}" if title else f"**{summary.asked}**", ""]
    stays = [f"{summary.kept[0]}: {summary.kept[1]}"] if summary.kept is not None else []
    known = [f"- {text}" for text in (*summary.meanings, *stays)]
    lines += [*known, ""] if known else []
    if summary.per_provider:
        lines += [f"{shown.title.capitalize()}:", "", *_table_head(shown)]
        for row in summary.per_provider:
            remark = "**chosen**" if row.candidate is summary.chosen else row.refused
            lines.append(shown.row(row.candidate, "; ".join([remark, *row.notes])))
        lines.append("")
    if summary.chosen is None:
        lines.append("Nothing acceptable: every offer was refused by a rule below.")
        lines += [*(f"- {text}" for text in summary.hints), ""]
    if summary.walk:
        more = f" (and {summary.beyond_walk:,} more)" if summary.beyond_walk else ""
        lines += [f"If that is sold out, in this order{more}:", "", *_table_head(shown)]
        lines += [*(shown.row(candidate, "") for candidate in summary.walk), ""]
    lines += [f"- {name}: {text}" for name, text in summary.facts]
    lines += [f"- prices: {summary.prices}"] if summary.per_provider else []
    lines += [f"- note: {text}" for text in summary.further_notes]
    lines += [f"- warning: {warning}" for warning in summary.warnings]
    if summary.refused_by_rule:
        total = sum(summary.refused_by_rule.values())
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
            for example in summary.examples
        ]
        lines += ["", "</details>"]
    return "\n".join(lines)


class _Table(NamedTuple):
    """The rows of the best per provider and of the walk. `cells` has those of each candidate by its
    place and rank, `sizes` the column widths: the sign and rank, then each cell's widest.
    """

    cells: Mapping[int, tuple[str, ...]]
    sizes: Sequence[int]
    run: str
    """The head of the last column: `$/run`, `$/month`, or nothing."""
    width: int
    title: str

    @classmethod
    def of(cls, ask: Ask, summary: PlanSummary, width: int) -> _Table:
        """Machine, place and capacity give way when a line is too long."""
        candidates = [*(row.candidate for row in summary.per_provider), *summary.walk]
        head, runs = run_cells(ask, candidates)
        rows = [
            (
                each.provider,
                each.placement.where,
                machine_text(each),
                gpu_text(each),
                capacity_text(each),
                per_hour(each.micro_usd or 0).removeprefix("$").removesuffix("/h"),
                run,
            )
            for each, run in zip(candidates, runs, strict=True)
        ]
        sizes = [
            2 + max((len(str(candidate.rank)) for candidate in candidates), default=1),
            *(max((len(row[i]) for row in rows), default=0) for i in range(7)),
        ]
        sizes[6], sizes[7] = max(sizes[6], 6), max(sizes[7], len(head))
        for column, least in ((3, 14), (2, 14), (5, 11)):
            over = sum(sizes) + len(sizes) - 1 - width
            if over > 0:
                sizes[column] = max(min(least, sizes[column]), sizes[column] - over)
        by_candidate = zip(map(id, candidates), rows, strict=True)
        title = f"{summary.bought_if + ': ' if summary.bought_if else ''}best per provider"
        return cls(dict(by_candidate), sizes, head, width, title)

    def head(self) -> str:
        span = sum(self.sizes[:6]) + 5
        right = f"{'$/h':>{self.sizes[6]}} {self.run:>{self.sizes[7]}}"
        return _clip(f"{self.title:<{span}} {right}".rstrip(), self.width)

    def lines(self, candidate: Candidate, sign: str) -> list[str]:
        """Its line, and a second one with whole names where one of them is cut."""
        rank = str(candidate.rank) if candidate.rank else "-"
        cells = (f"{sign:<1} {rank:>{self.sizes[0] - 2}}", *self.cells[id(candidate)])
        texts = [
            f"{_clip(text, size):<{size}}" if place < 6 else f"{text:>{size}}"
            for place, (text, size) in enumerate(zip(cells, self.sizes, strict=True))
        ]
        line = _clip(" ".join(texts).rstrip(), self.width)
        if "…" not in line:
            return [line]
        return [line, *wrapped(" " * (self.sizes[0] + 1), place_text(candidate), self.width)]

    def row(self, candidate: Candidate, note: str) -> str:
        """As a row of Markdown."""
        cells = (
            str(candidate.rank or "-"),
            *self.cells[id(candidate)],
            price_text(candidate),
            note,
        )
        return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def wrapped(head: str, text: str, width: int) -> list[str]:
    """The text behind its head, broken at spaces; further lines are indented as far as the head
    reaches.
    """
    import textwrap

    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head.rstrip()]


def _each(head: str, texts: Iterable[str], width: int) -> list[str]:
    """The lines of several texts, each behind the same head."""
    return [line for text in texts for line in wrapped(head, text, width)]
