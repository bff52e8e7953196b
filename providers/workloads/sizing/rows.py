"""Sizing as plain rows: what is asked, and each answer as a named tuple. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError
from providers.model.money import usd
from providers.workloads.sizing import memory, throughput
from providers.workloads.sizing.gpus import METHODS, Serve, Train

if TYPE_CHECKING:
    from providers.workloads.sizing.architecture import Architecture
    from providers.workloads.sizing.gpus import Sized

_CONTEXT = 8192
_TRAINED_IN = ("bf16", "fp16", "fp32")


class SizeRow(NamedTuple):
    """Whether so many of a GPU hold a model, and for how much. `answer` is fits, tight, no or
    unknown, with its `reason`; sizes in GiB, money in US dollars, None where it is not known.
    """

    gpu: str
    gpu_count: int
    nodes: int
    answer: str
    reason: str
    tensor: int | None
    pipeline: int | None
    replicas: int | None
    needed_gib_per_gpu: float | None
    usable_gib_per_gpu: float | None
    provider: str | None
    machine_type: str | None
    capacity: str | None
    price_usd_per_hour: float | None
    price_as_of: str | None
    hours: float | None
    job_usd: float | None
    tokens_per_s_at_most: float | None
    usd_per_million_tokens_at_least: float | None


def row(each: Sized) -> SizeRow:
    """The verdict on one count of one GPU, with its price."""
    verdict, sold, layout = each.verdict, each.sold, each.verdict.layout
    million = each.per_million_micro_usd
    return SizeRow(
        gpu=verdict.gpu_type,
        gpu_count=verdict.gpu_count,
        nodes=verdict.nodes,
        answer=verdict.answer,
        reason=verdict.reason,
        tensor=layout.tensor if layout else None,
        pipeline=layout.pipeline if layout else None,
        replicas=layout.replicas if layout else None,
        needed_gib_per_gpu=round(verdict.need.total, 2) if verdict.need else None,
        usable_gib_per_gpu=round(verdict.usable_gib, 2) if verdict.usable_gib else None,
        provider=sold.provider if sold else None,
        machine_type=sold.machine_type if sold else None,
        capacity=sold.capacity if sold else None,
        price_usd_per_hour=usd(sold.micro_usd) if sold else None,
        price_as_of=sold.as_of if sold else None,
        hours=round(verdict.hours, 2) if verdict.hours is not None else None,
        job_usd=usd(each.job_micro_usd) if each.job_micro_usd is not None else None,
        tokens_per_s_at_most=round(verdict.tokens_per_s, 1) if verdict.tokens_per_s else None,
        usd_per_million_tokens_at_least=None if million is None else usd(million),
    )


def serving(
    model: Architecture,
    dtype: str | None = None,
    context: int | None = None,
    concurrency: int = 1,
    *,
    path: str = "dtype",
) -> Serve:
    """Serving in a number format (the model's own, if none is named) and a context (8k, or what the
    model knows). Raises SpecError.
    """
    return Serve(
        _known(dtype or model.dtype, path),
        context or min(_CONTEXT, model.max_context or _CONTEXT),
        concurrency,
    )


def training(
    method: str, dtype: str | None = None, tokens: float = 0.0, *, path: str = "dtype"
) -> Train:
    """Training all weights or adapters, in bf16 if nothing else is named. Raises SpecError."""
    if method not in METHODS:
        raise SpecError([Problem("train", f"one of {', '.join(METHODS)}", repr(method))])
    found = _known(dtype or _TRAINED_IN[0], path)
    if found not in _TRAINED_IN:
        wanted, todo = "bf16, fp16 or fp32 for training", "for a quantised base: --train qlora"
        raise SpecError([Problem(path, wanted, repr(found), todo)])
    return Train(method, tokens=tokens, dtype=found)


def _known(dtype: str, path: str) -> str:
    if not throughput.supports(dtype):
        raise SpecError([Problem(path, f"one of {', '.join(memory.BITS)}", repr(dtype))])
    return dtype
