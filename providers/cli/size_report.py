"""How a sizing looks: as text of at most 96 columns, and as JSON.
Owns the words; computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog import names
from providers.model.money import per_hour, usd
from providers.workloads.sizing import gpus, memory
from providers.workloads.sizing.gpus import FITS, NO, TIGHT, Serve, Sized, Train
from providers.workloads.sizing.rows import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.workloads.sizing.architecture import Architecture

WIDTH = 96
REFUSALS = 6
"""How many of the cards that do not hold the model are named, the nearest first."""


def as_text(
    model: Architecture,
    work: Serve | Train,
    found: Sequence[Sized],
    *,
    budget: float | None = None,
    everything: bool = False,
) -> str:
    """The whole answer: the model, what fits, what does not and why, and what was assumed."""
    lines = [*_model(model, work), ""]
    fitting = [each for each in found if each.verdict.answer in (FITS, TIGHT)]
    shown = fitting if everything else per_card(fitting)
    if shown:
        lines += [*_table(shown, work, budget), ""]
    else:
        lines += ["nothing that is sold holds it", ""]
    if note := gpus.bigger(shown):
        lines += _wrapped(note, "  "), ""
    holding = {each.verdict.gpu_type for each in fitting}
    refused = [
        each
        for each in found
        if each.verdict.answer not in (FITS, TIGHT)
        and (everything or each.verdict.gpu_type not in holding)
    ]
    if refused:
        nearest = _nearest(refused) if not everything else refused
        lines.append("not, and why")
        for each in nearest[: None if everything else REFUSALS]:
            lines += [_wrapped(f"{_name(each)}: {each.verdict.reason}", "  ")]
        if not everything and len(nearest) > REFUSALS:
            lines.append(f"  and {len(nearest) - REFUSALS} more cards; --all shows every row")
        lines.append("")
    lines += [_wrapped(text, "  ") for text in assumptions(work)]
    return "\n".join(lines)


def as_json(
    model: Architecture, work: Serve | Train, found: Sequence[Sized], budget: float | None = None
) -> dict[str, object]:
    """The same, for programs: sizes in GiB, money in dollars."""
    return {
        "model": {
            "name": model.name,
            "parameters": model.parameters,
            "active_parameters": model.active_parameters,
            "layers": model.layers,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
            "kv_bytes_per_token": model.kv_bytes_per_token(),
            "estimated": model.estimated,
            "source": model.source,
        },
        "work": {"kind": "serve" if isinstance(work, Serve) else "train", **work._asdict()},
        "assumptions": assumptions(work),
        "bigger": gpus.bigger(
            per_card([each for each in found if each.verdict.answer in (FITS, TIGHT)])
        ),
        "candidates": [_record(each, budget) for each in found],
    }


def _record(each: Sized, budget: float | None) -> dict[str, object]:
    cost = each.job_micro_usd
    within = None if budget is None or cost is None else cost <= budget * 1_000_000
    return {**row(each)._asdict(), "within_budget": within}


def per_card(found: Sequence[Sized]) -> list[Sized]:
    """One row for each card: for serving the cheapest that fits (else the cheapest tight one); for
    a training run the cheapest run, and of those that cost the same within 2 % the fastest.
    """
    best: dict[str, Sized] = {}
    for each in found:
        kept = best.get(each.verdict.gpu_type)
        if kept is None or (each.verdict.answer == kept.verdict.answer and _sooner(each, kept)):
            best[each.verdict.gpu_type] = each
    return list(best.values())


def _sooner(each: Sized, kept: Sized) -> bool:
    """Whether a run takes less time for the same money, within 2 %."""
    if (
        not each.job_micro_usd
        or not kept.job_micro_usd
        or not each.verdict.hours
        or not kept.verdict.hours
    ):
        return False
    return (
        each.job_micro_usd <= kept.job_micro_usd * 1.02 and each.verdict.hours < kept.verdict.hours
    )


def _planned(work: Serve | Train) -> float:
    return memory.USABLE_LLAMA_CPP if work.dtype in memory.LLAMA_CPP else memory.USABLE


def assumptions(work: Serve | Train) -> list[str]:
    """What the figures rest on, one sentence each."""
    lines = [
        f"memory in GiB; {_planned(work):.0%} of what a card reports is planned with;"
        f" {memory.OVERHEAD_GIB} GiB overhead on each GPU; less than {memory.TIGHT:.0%} to"
        " spare is tight"
    ]
    if isinstance(work, Serve):
        lines.append(
            "tokens/s and $ per million are bounds from memory bandwidth and achievable arithmetic:"
            " real servers stay below, often by half; every sequence half full"
        )
    else:
        lines.append(
            f"Adam in mixed precision, {memory.FULL_BYTES:.0f} bytes for each trained parameter;"
            f" sequences of {work.sequence}, {work.batch} on each GPU; activations"
            f" {'recomputed' if work.recompute else 'kept'}"
        )
        if work.tokens:
            passes = (3 if work.method == "full" else 2) + work.recompute
            lines.append(
                f"time: {passes} x the forward pass at {work.efficiency:.0%} of the achievable"
                " matmul speed (60 % of that over PCIe)"
            )
    lines.append(
        "prices are the catalog's, each with its own date; disk, egress and idle time are not in"
        " them"
    )
    return lines


def _model(model: Architecture, work: Serve | Train) -> list[str]:
    billions = f"{model.parameters / 1e9:,.2f} B parameters"
    if model.active_parameters < model.parameters:
        billions += f", {model.active_parameters / 1e9:,.2f} B of them for each token"
    weights = memory.weight_bytes(model, work.dtype)
    lines = [
        _wrapped(
            f"{model.name}: {billions}, {model.layers} layers, {model.heads} heads,"
            f" {model.kv_heads} KV heads"
        ),
        f"  weights in {work.dtype}: {weights / 1e9:,.1f} GB = {weights / memory.GIB:,.1f} GiB",
    ]
    if isinstance(work, Serve):
        each = memory.cache_bytes_per_token(model, 1, work.cache_dtype)
        whole = each * work.context * work.concurrency / memory.GIB
        lines.append(
            f"  KV cache: {each:,.0f} bytes a token; {work.concurrency} x {work.context:,} tokens ="
            f" {whole:,.1f} GiB"
        )
    if model.estimated:
        lines.append(f"  a guess: {model.source}")
    return lines


def _table(shown: Sequence[Sized], work: Serve | Train, budget: float | None) -> list[str]:
    serve = isinstance(work, Serve)
    last = ("tokens/s <", "$/M >") if serve else ("hours", "job $")
    lines = [
        f"{'':2}{'GPUs':<16}{'split':<14}{'GiB/GPU':>13} {'$/h':>8}"
        f" {'where':<22}{last[0]:>10}{last[1]:>9}"
    ]
    for each in shown:
        verdict = each.verdict
        need = (
            f"{verdict.need.total:.1f}/{verdict.usable_gib:.1f}"
            if verdict.need and verdict.usable_gib
            else ""
        )
        where = f"{each.sold.provider} {each.sold.machine_type}" if each.sold else "no price"
        price = f"{usd(each.sold.micro_usd):,.2f}" if each.sold else "?"
        if serve:
            one = f"{verdict.tokens_per_s:,.0f}" if verdict.tokens_per_s else "?"
            two = (
                f"{usd(each.per_million_micro_usd):,.2f}"
                if each.per_million_micro_usd is not None
                else "?"
            )
        else:
            one = f"{verdict.hours:,.1f}" if verdict.hours is not None else "-"
            two = f"{usd(each.job_micro_usd):,.2f}" if each.job_micro_usd is not None else "-"
        mark = "!" if _dear(each, budget) else "~" if verdict.answer == TIGHT else ""
        lines.append(
            f"{mark:2}{_name(each):<16}{verdict.split:<14}{need:>13} {price:>8}"
            f" {_clip(where, 21):<22}{one:>10}{two:>9}".rstrip()
        )
    if any(each.verdict.answer == TIGHT for each in shown):
        lines.append("~ tight: it starts, with little room for more")
    if budget is not None and any(_dear(each, budget) for each in shown):
        lines.append(f"! over the budget of ${budget:,.0f}")
    return lines


def _dear(each: Sized, budget: float | None) -> bool:
    return (
        budget is not None
        and each.job_micro_usd is not None
        and each.job_micro_usd > budget * 1_000_000
    )


def measured_text(
    found: Sequence[tuple[str, float, gpus.Sold | None, int | None]],
    offers: Sequence[gpus.Sold] = (),
) -> str:
    """The table of measured times: what one run costs on each card at the catalog's prices. One
    without a price names those of `offers` near it.
    """
    lines = [f"{'GPU':<14}{'hours':>7} {'$/h':>9} {'where':<24}{'price of':<11}{'run $':>9}"]
    for gpu, hours, sold, cost in found:
        price = f"{usd(sold.micro_usd):,.4f}" if sold else "no price"
        beside = [name for name in names.near(gpu) if any(each.gpu_type == name for each in offers)]
        where = (
            f"{sold.provider} {sold.machine_type}"
            if sold
            else f"{', '.join(beside)} sold"
            if beside
            else ""
        )
        total = f"{usd(cost):,.2f}" if cost is not None else "?"
        lines.append(
            f"{gpu:<14}{hours:>7.2f} {price:>9}"
            f" {_clip(where, 23):<24}{sold.as_of if sold else '':<11}{total:>9}"
        )
    known = [each for each in found if each[3] is not None and each[2] is not None]
    if len(known) > 1 and known[0][2] is not None:
        best = known[0]
        fastest = min(known, key=lambda each: each[1])
        lines += [
            "",
            (
                f"cheapest run: {best[0]}, {per_hour(best[2].micro_usd) if best[2] else ''} for"
                f" {best[1]:g} h"
            ),
        ]
        if fastest[0] != best[0] and fastest[3] and best[3]:
            lines.append(
                f"fastest: {fastest[0]}, {best[1] / fastest[1]:.1f} x as fast for"
                f" {fastest[3] / best[3]:.2f} x the money"
            )
    return "\n".join(lines)


def _nearest(refused: Sequence[Sized]) -> list[Sized]:
    """One for each card: the count that comes nearest to holding it."""
    best: dict[str, Sized] = {}
    for each in refused:
        kept = best.get(each.verdict.gpu_type)
        if kept is None or _over(each) < _over(kept):
            best[each.verdict.gpu_type] = each
    return sorted(best.values(), key=_over)


def _over(each: Sized) -> float:
    verdict = each.verdict
    return (
        verdict.need.total / verdict.usable_gib
        if verdict.answer == NO and verdict.need and verdict.usable_gib
        else float("inf")
    )


def _name(each: Sized) -> str:
    nodes = f" x {each.verdict.nodes}" if each.verdict.nodes > 1 else ""
    return f"{each.verdict.gpu_type}:{each.verdict.gpu_count}{nodes}"


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + ".."


def _wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most WIDTH, continued with four more blanks."""
    lines, line = [], indent
    for word in text.split():
        if len(line) + len(word) + 1 > WIDTH and line.strip():
            lines.append(line)
            line = indent + "    "
        line = f"{line}{'' if line.endswith(' ') or not line else ' '}{word}"
    return "\n".join([*lines, line])
