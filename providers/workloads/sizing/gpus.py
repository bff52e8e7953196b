"""Which GPUs hold a model, how many, split how, at which price; and why the others do not. Reads
the bundled catalog; otherwise pure.

Owns the verdict on a placement and the search over everything that is sold. Sizes in GiB, money in
micro-dollars per hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.catalog import names
from providers.catalog.offers import load
from providers.model.ask import ON_DEMAND, SPOT
from providers.workloads.sizing import memory, parallelism, throughput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from providers.workloads.sizing.architecture import Architecture
    from providers.workloads.sizing.memory import Need
    from providers.workloads.sizing.parallelism import Layout

FITS, TIGHT, NO, UNKNOWN = "fits", "tight", "no", "unknown"
METHODS = ("full", "lora", "qlora")


class Serve(NamedTuple):
    """Serving as wanted: `context` tokens for each of `concurrency` sequences at once."""

    dtype: str
    context: int
    concurrency: int = 1
    cache_dtype: str = "bf16"
    split: str = ""
    """The only way that the program splits a model (`parallel.TENSOR`, `parallel.LAYERS`); nothing
    where it has both.
    """
    layout: Layout | None = None
    """The split that is asked for; None: the best one."""
    share: float = 0.0
    """What part of a card the program takes; 0: what sizing assumes."""
    static: bool = False
    """Whether that part is for weights and cache alone."""
    gpu_layers: int = -1
    """How many of llama.cpp's layers are on the GPUs, the output being one more; -1: all."""


class Train(NamedTuple):
    """Training as wanted: `tokens` in all (0: memory only), `batch` sequences of `sequence` tokens
    on each GPU at once.
    """

    method: str
    tokens: float = 0.0
    sequence: int = 2048
    batch: int = 1
    recompute: bool = True
    dtype: str = "bf16"
    rank: int = 16
    efficiency: float = throughput.EFFICIENCY


class Verdict(NamedTuple):
    """What one placement means for the model. `need` is on the fullest GPU, `usable_gib` what is
    planned with there.
    """

    gpu_type: str
    gpu_count: int
    nodes: int
    answer: str
    reason: str
    layout: Layout | None = None
    need: Need | None = None
    usable_gib: float | None = None
    tokens_per_s: float | None = None
    limited_by: str = ""
    hours: float | None = None
    split: str = ""
    """The split in a word or two: `TP4 x PP2`, `FSDP x 8`."""


class Sold(NamedTuple):
    """The cheapest way to have so many of a card in one machine: dollars are micro, per hour of
    that machine.
    """

    gpu_type: str
    gpu_count: int
    micro_usd: int
    provider: str
    machine_type: str
    capacity: str
    as_of: str


class Sized(NamedTuple):
    """A verdict with its price. `job_micro_usd` is the whole training run, `per_million_micro_usd`
    a million output tokens.
    """

    verdict: Verdict
    sold: Sold | None
    job_micro_usd: int | None = None
    per_million_micro_usd: int | None = None


def judge(
    model: Architecture, work: Serve | Train, gpu_type: str, gpu_count: int, nodes: int = 1
) -> Verdict:
    """The verdict on one placement, with the best split of the model over it. Pure."""
    usable = memory.usable_gib(gpu_type, work.dtype)
    if usable is None:
        return Verdict(gpu_type, gpu_count, nodes, UNKNOWN, "the memory of this card is not known")
    if why := memory.lacks(gpu_type, work.dtype):
        return Verdict(gpu_type, gpu_count, nodes, NO, why, usable_gib=usable)
    if isinstance(work, Serve):
        return _serve(model, work, gpu_type, gpu_count, nodes, usable)
    return _train(model, work, gpu_type, gpu_count, nodes, usable)


def _serve(
    model: Architecture, work: Serve, gpu_type: str, gpu_count: int, nodes: int, usable: float
) -> Verdict:
    if model.max_context is not None and work.context > model.max_context and not model.estimated:
        reason = (
            f"{model.name} knows {model.max_context} tokens of context at most, asked are"
            f" {work.context}"
        )
        return Verdict(gpu_type, gpu_count, nodes, NO, reason, usable_gib=usable)
    split = work.split or (parallelism.LAYERS if work.dtype in memory.LLAMA_CPP else "")
    if work.layout is not None and (
        why := parallelism.refused(model, work.layout, gpu_count * nodes, work.dtype)
    ):
        return Verdict(gpu_type, gpu_count, nodes, NO, why, work.layout, usable_gib=usable)
    possible = (
        [work.layout]
        if work.layout
        else parallelism.layouts(model, gpu_type, gpu_count, nodes, dtype=work.dtype, split=split)
    )
    tried = [(layout, _serving_need(model, work, layout)) for layout in possible]
    # One copy on all of them first; several copies only where one fits on fewer.
    whole = [(layout, need) for layout, need in tried if layout.replicas == 1] or tried
    advice = (
        ""
        if work.layout or split == parallelism.LAYERS
        else parallelism.advice(model, gpu_count, work.dtype)
    )
    if not whole:
        return Verdict(
            gpu_type,
            gpu_count,
            nodes,
            NO,
            advice or "no split of the model over these",
            usable_gib=usable,
        )
    fitting = [pair for pair in whole if pair[1].total <= _usable(work, gpu_type, pair[1], usable)]
    layout, need = fitting[0] if fitting else min(whole, key=lambda pair: pair[1].total)
    usable = _usable(work, gpu_type, need, usable)
    if not fitting:
        note = f"; {advice}" if advice and layout.tensor != gpu_count else ""
        reason = f"{need.total:.1f} GiB on each GPU ({_parts(need)}), {usable:.1f} are usable{note}"
        return Verdict(gpu_type, gpu_count, nodes, NO, reason, layout, need, usable)
    # Stages that only divide what one GPU or a group of them holds anyway make nothing faster;
    # copies do. Over several nodes there is one server, so one copy.
    copies = [
        pair
        for pair in tried
        if nodes == 1
        and pair[0].replicas > 1
        and pair[0].pipeline == 1
        and pair[1].total <= usable * (1 - memory.TIGHT)
    ]
    if copies and layout.pipeline > 1:
        layout, need = copies[0]
    tight = need.total > usable * (1 - memory.TIGHT)
    spare = int(
        (usable - need.total)
        * memory.GIB
        * layout.pipeline
        / memory.cache_bytes_per_token(model, layout.tensor, work.cache_dtype)
    )
    bound = throughput.serving_bound(
        model,
        gpu_type,
        dtype=work.dtype,
        context=work.context,
        concurrency=-(-work.concurrency // layout.replicas),
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        cache_dtype=work.cache_dtype,
    )
    notes = [
        advice if layout.tensor != gpu_count else "",
        memory.weights_only(gpu_type, work.dtype),
    ]
    if layout.gpus < gpu_count * nodes:
        notes.append(f"{layout.gpus} of {gpu_count * nodes} GPUs are used")
    if 0 <= work.gpu_layers <= model.layers:
        notes.append(
            f"{work.gpu_layers} of {model.layers} layers on the GPUs, the rest in the machine's own"
            " memory"
        )
    reason = "; ".join([f"room for {spare:,} more tokens of cache", *filter(None, notes)])
    if tight:
        reason = f"only {usable - need.total:.1f} GiB to spare on each GPU; {reason}"
    return Verdict(
        gpu_type,
        gpu_count,
        nodes,
        TIGHT if tight else FITS,
        reason,
        layout,
        need,
        usable,
        None if bound is None else bound.tokens_per_s * layout.replicas,
        "" if bound is None else bound.limited_by,
        split=str(layout),
    )


def _usable(work: Serve, gpu_type: str, need: Need, assumed: float) -> float:
    """GiB of a card that this need may take, by what the program is told to take of it."""
    card = memory.card_gib(gpu_type)
    if not work.share or card is None:
        return assumed
    return min(card, card * work.share + (need.activations + need.overhead if work.static else 0.0))


def _serving_need(model: Architecture, work: Serve, layout: Layout) -> Need:
    return memory.serving(
        model,
        work.dtype,
        context=work.context,
        concurrency=-(-work.concurrency // layout.replicas),
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        cache_dtype=work.cache_dtype,
        gpu_layers=work.gpu_layers,
    )


def _train(
    model: Architecture, work: Train, gpu_type: str, gpu_count: int, nodes: int, usable: float
) -> Verdict:
    gpus = gpu_count * nodes

    def need(shards: int) -> Need:
        return memory.training(
            model,
            work.method,
            sequence=work.sequence,
            batch=work.batch,
            shards=shards,
            recompute=work.recompute,
            dtype=work.dtype,
            rank=work.rank,
        )

    alone, sharded = need(1), need(gpus)
    if alone.total <= usable:
        best, how, split = (
            alone,
            "a copy on each GPU (DDP)" if gpus > 1 else "one GPU",
            f"DDP x {gpus}" if gpus > 1 else "one GPU",
        )
    else:
        best, how, split = sharded, f"split over {gpus} (FSDP, ZeRO-3)", f"FSDP x {gpus}"
    if best.total > usable:
        reason = f"{best.total:.1f} GiB on each GPU ({_parts(best)}), {usable:.1f} are usable"
        return Verdict(gpu_type, gpu_count, nodes, NO, reason, None, best, usable)
    if work.method == "lora" and model.quantization is not None:
        how += f"; its {model.dtype} weights are unpacked to 16 bit for training"
    hours = None
    if work.tokens:
        flops = throughput.training_flops(
            model, work.tokens, work.method, sequence=work.sequence, recompute=work.recompute
        )
        fast = parallelism.fast_links(gpu_type)
        hours = throughput.training_hours(
            flops,
            gpu_type,
            gpu_count,
            nodes=nodes,
            dtype=work.dtype,
            efficiency=work.efficiency,
            fast=fast,
        )
    tight = best.total > usable * (1 - memory.TIGHT)
    reason = f"only {usable - best.total:.1f} GiB to spare on each GPU; {how}" if tight else how
    return Verdict(
        gpu_type,
        gpu_count,
        nodes,
        TIGHT if tight else FITS,
        reason,
        None,
        best,
        usable,
        hours=hours,
        split=split,
    )


def sold(capacity: str = ON_DEMAND, providers: Iterable[str] = ()) -> tuple[Sold, ...]:
    """The cheapest machine of the bundled catalog for each card and count, on demand or as spot.
    Whole cards only. Unknown prices are left out.
    """
    table = load()
    column = cast("Any", table.column)
    wanted = frozenset(providers)
    kinds = {SPOT} if capacity == SPOT else {ON_DEMAND}
    best: dict[tuple[str, int], Sold] = {}
    rows = zip(
        *(
            column(name)
            for name in (
                "gpu_type",
                "gpu_count",
                "node_micro_usd",
                "provider",
                "machine_type",
                "capacity",
                "price_as_of",
                "restriction",
            )
        ),
        strict=True,
    )
    for gpu_type, count, price, provider, machine_type, kind, as_of, restriction in rows:
        if (
            kind not in kinds
            or restriction
            or not price
            or count != int(count)
            or (wanted and provider not in wanted)
        ):
            continue
        key = (gpu_type, int(count))
        if key not in best or price < best[key].micro_usd:
            best[key] = Sold(gpu_type, int(count), int(price), provider, machine_type, kind, as_of)
    return tuple(sorted(best.values(), key=lambda each: (each.micro_usd, each.gpu_type)))


def sizes(
    model: Architecture, work: Serve | Train, offers: Sequence[Sold], nodes: int = 1
) -> tuple[Sized, ...]:
    """Every card and count that is sold, judged and priced: what fits first, by what it costs, then
    what does not.
    """
    found = [
        priced(judge(model, work, each.gpu_type, each.gpu_count, nodes), each) for each in offers
    ]

    def rank(each: Sized) -> tuple[object, ...]:
        cost = (
            each.job_micro_usd
            if isinstance(work, Train) and work.tokens
            else each.sold.micro_usd
            if each.sold
            else None
        )
        order = {FITS: 0, TIGHT: 1, NO: 2, UNKNOWN: 3}[each.verdict.answer]
        return (order, cost is None, cost or 0, each.verdict.gpu_type, each.verdict.gpu_count)

    return tuple(sorted(found, key=rank))


def priced(verdict: Verdict, offer: Sold | None) -> Sized:
    """The verdict with what the run, or a million tokens, costs there; None where hours, speed or
    price are unknown.
    """
    if offer is None:
        return Sized(verdict, None)
    hourly = offer.micro_usd * verdict.nodes
    job = None if verdict.hours is None else round(hourly * verdict.hours)
    tokens = (
        None
        if not verdict.tokens_per_s
        else round(hourly / 3600 / verdict.tokens_per_s * 1_000_000)
    )
    return Sized(verdict, offer._replace(micro_usd=hourly), job, tokens)


def bigger(found: Sequence[Sized]) -> str:
    """Whether a faster card pays beside the cheapest that fits: one line, or nothing where there is
    no faster one.
    """
    fitting = [each for each in found if each.verdict.answer == FITS and each.sold is not None]
    if not fitting or fitting[0].sold is None:
        return ""
    best = fitting[0]
    assert best.sold is not None
    for other in fitting[1:]:
        assert other.sold is not None
        gain = _gain(best.verdict, other.verdict)
        if gain is None or gain < 1.3 or other.verdict.gpu_type == best.verdict.gpu_type:
            continue
        price = other.sold.micro_usd / best.sold.micro_usd
        name = f"{other.verdict.gpu_type}:{other.verdict.gpu_count}"
        limit = f"; it is limited by {best.verdict.limited_by}" if best.verdict.limited_by else ""
        if price > gain * 1.05:
            return (
                f"a bigger card does not pay here: {name} is {gain:.1f} x as fast at {price:.1f} x"
                f" the price{limit}"
            )
        return (
            f"a bigger card pays if it is kept busy: {name} is {gain:.1f} x as fast at {price:.1f}"
            " x the price"
        )
    return ""


def _gain(one: Verdict, other: Verdict) -> float | None:
    if one.hours and other.hours:
        return one.hours / other.hours
    if one.tokens_per_s and other.tokens_per_s:
        return other.tokens_per_s / one.tokens_per_s
    return None


def measured(
    hours: Mapping[str, float], offers: Sequence[Sold]
) -> tuple[tuple[str, float, Sold | None, int | None], ...]:
    """(card, hours, cheapest single-card machine, micro-dollars of the run) from hours measured on
    each card, the cheapest run first.
    """
    found = []
    for gpu, spent in hours.items():
        accepted = names.accepts(gpu)
        offer = next(
            (each for each in offers if each.gpu_type in accepted and each.gpu_count == 1), None
        )
        found.append((gpu, spent, offer, None if offer is None else round(offer.micro_usd * spent)))
    return tuple(sorted(found, key=lambda each: (each[3] is None, each[3] or 0)))


def _parts(need: Need) -> str:
    named = {
        "weights": need.weights,
        "cache": need.cache,
        "activations": need.activations,
        "optimizer": need.optimizer,
        "overhead": need.overhead,
    }
    return ", ".join(f"{part} {value:.1f}" for part, value in named.items() if value >= 0.05)
