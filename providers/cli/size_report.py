"""How a sizing looks: as text that fits the terminal, and as JSON. Owns the words; computes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog import names
from providers.cli.output import table, wrapped
from providers.model.money import per_hour, usd
from providers.workloads.sizing import gpus, memory
from providers.workloads.sizing.gpus import FITS, NO, TIGHT, Serve, Sized, Train
from providers.workloads.sizing.rows import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.workloads.sizing.architecture import Architecture

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
            "tokens/s and $/M (dollars per million of them) are bounds from memory bandwidth and"
            " achievable arithmetic: real servers stay below, often by half; every sequence half"
            " full"
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
            _wrapped(
                f"KV cache: {each:,.0f} bytes a token; {work.concurrency} x {work.context:,} tokens"
                f" = {whole:,.1f} GiB",
                "  ",
            )
        )
    if model.estimated:
        lines.append(_wrapped(f"a guess: {model.source}", "  "))
    return lines


def _table(shown: Sequence[Sized], work: Serve | Train, budget: float | None) -> list[str]:
    serve = isinstance(work, Serve)
    last = ("tokens/s", "$/M") if serve else ("hours", "job $")
    rows = [("  GPUs", "split", "GiB/GPU", "$/h", "where", *last)]
    for each in shown:
        verdict = each.verdict
        need = (
            f"{verdict.need.total:.3g}/{verdict.usable_gib:.3g}"
            if verdict.need and verdict.usable_gib
            else ""
        )
        where = f"{each.sold.provider} {each.sold.machine_type}" if each.sold else "no price"
        price = f"{usd(each.sold.micro_usd):,.2f}" if each.sold else "?"
        mark = "!" if _dear(each, budget) else "~" if verdict.answer == TIGHT else " "
        figures = _served(each) if serve else _trained(each)
        rows.append((f"{mark} {_name(each)}", verdict.split, need, price, where, *figures))
    lines = [*table(rows, right=(2, 3, 5, 6), gives=(4, 1))]
    if any(each.verdict.answer == TIGHT for each in shown):
        lines.append("~ tight: it starts, with little room for more")
    if budget is not None and any(_dear(each, budget) for each in shown):
        lines.append(f"! over the budget of ${budget:,.0f}")
    return lines


def _served(each: Sized) -> tuple[str, str]:
    """Tokens a second at most, and dollars per million of them at least."""
    speed, cost = each.verdict.tokens_per_s, each.per_million_micro_usd
    return (
        f"<{speed:,.0f}" if speed is not None else "?",
        f">{usd(cost):,.2f}" if cost is not None else "?",
    )


def _trained(each: Sized) -> tuple[str, str]:
    """Hours and dollars of the run."""
    hours, cost = each.verdict.hours, each.job_micro_usd
    return (
        f"{hours:,.1f}" if hours is not None else "-",
        f"{usd(cost):,.2f}" if cost is not None else "-",
    )


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
    rows = [("GPU", "hours", "$/h", "where", "price of", "run $")]
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
        rows.append((gpu, f"{hours:.2f}", price, where, sold.as_of if sold else "", total))
    lines = [*table(rows, right=(1, 2, 5), gives=(3,))]
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


def _wrapped(text: str, indent: str = "") -> str:
    """The text in lines that fit, continued with four more blanks."""
    return "\n".join(wrapped(indent, text, f"{indent}    "))
