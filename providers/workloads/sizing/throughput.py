"""How long work takes and what it costs: training from tokens, or from hours measured on another
GPU; serving as a bound. Pure.

Owns the assumptions. A training time is an estimate at a stated efficiency; a serving figure is a
roofline, so the truth is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog.hardware import achieved_tflops, hardware
from providers.workloads.sizing.memory import BITS, cache_bytes_per_token, weight_bytes

if TYPE_CHECKING:
    from providers.workloads.sizing.architecture import Architecture

EFFICIENCY = 0.5
"""Part of the achievable matmul speed that a training run keeps over hours: attention, exchange and
input eat the rest. About 40 % of the dense peak on H100, which is what published runs of dense
models reach (Llama 3 report, 2024: 38 to 43 %). Plain transformers, not compiled, is slower: 0.39
to 0.42, measured with a 1B model on an H100 (2026-11-28).
"""
LINK_EFFICIENCY = {True: 1.0, False: 0.6}
"""What remains of it with several GPUs on fast links, and over PCIe. The second is an assumption.
"""
NODES_EFFICIENCY = 0.9
"""What remains of it over several nodes. An assumption."""


class Serving(NamedTuple):
    """Upper bounds for one placement: output tokens per second over all requests, and what limits
    them.
    """

    tokens_per_s: float
    limited_by: str


def training_flops(
    model: Architecture,
    tokens: float,
    method: str = "full",
    *,
    sequence: int = 4096,
    recompute: bool = True,
) -> float:
    """Floating point operations for so many tokens: 2 per active parameter forward; three times
    that with the backward pass, four with recompute.

    With LoRA the frozen weights need no gradient of their own: two times, three with recompute.
    Attention over half the sequence on average.
    """
    forward = (
        2.0 * model.active_parameters + 2.0 * model.layers * sequence * model.heads * model.head_dim
    )
    passes = (3.0 if method == "full" else 2.0) + (1.0 if recompute else 0.0)
    return forward * passes * tokens


def training_hours(
    flops: float,
    gpu_type: str,
    gpu_count: int,
    *,
    nodes: int = 1,
    dtype: str = "bf16",
    efficiency: float = EFFICIENCY,
    fast: bool = True,
) -> float | None:
    """Hours on all of these GPUs; None where the catalog has no speed for the card
    in this format.
    """
    speed = achieved_tflops(
        gpu_type, "fp16" if dtype not in {"fp32", "tf32", "bf16", "fp16", "fp8"} else dtype
    )
    if not speed:
        return None
    kept = (
        efficiency
        * (LINK_EFFICIENCY[fast] if gpu_count > 1 else 1.0)
        * (NODES_EFFICIENCY if nodes > 1 else 1.0)
    )
    return flops / (speed * 1e12 * gpu_count * nodes * kept) / 3600


def scaled_hours(
    hours: float, measured_on: str, gpu_type: str, dtype: str = "bf16"
) -> tuple[float, float] | None:
    """(least, most) hours on another card from hours measured on one: by the larger and by the
    smaller of their ratios of matmul speed and memory bandwidth. None where the catalog lacks a
    figure. A format that either card lacks is compared in fp16.
    """
    here, there = hardware(measured_on), hardware(gpu_type)
    if here is None or there is None or not here.bandwidth_tb_s or not there.bandwidth_tb_s:
        return None
    chosen = (
        dtype
        if achieved_tflops(measured_on, dtype) and achieved_tflops(gpu_type, dtype)
        else "fp16"
    )
    old, new = achieved_tflops(measured_on, chosen), achieved_tflops(gpu_type, chosen)
    if not old or not new:
        return None
    ratios = sorted((new / old, there.bandwidth_tb_s / here.bandwidth_tb_s))
    return hours / ratios[1], hours / ratios[0]


def serving_bound(
    model: Architecture,
    gpu_type: str,
    *,
    dtype: str,
    context: int,
    concurrency: int,
    tensor: int = 1,
    pipeline: int = 1,
    cache_dtype: str = "bf16",
) -> Serving | None:
    """The roofline of generation over one copy: each step reads the weights once and every
    sequence's cache (half full on average).

    Pipeline stages work side by side only as far as there are sequences to keep them busy. None
    where the catalog lacks a figure.
    """
    found = hardware(gpu_type)
    native = dtype if dtype in {"fp32", "bf16", "fp16", "fp8"} else "fp16"
    speed = achieved_tflops(gpu_type, native)
    if found is None or not found.bandwidth_tb_s or not speed:
        return None
    share = model.active_parameters / model.parameters
    # A batch over a mixture of experts meets more of them than one token does, at most all.
    weights = weight_bytes(model, dtype) * min(1.0, share * concurrency)
    cache = cache_bytes_per_token(model, tensor, cache_dtype) * tensor * (context / 2) * concurrency
    gpus = tensor * min(pipeline, concurrency)
    memory_s = (weights + cache) / (found.bandwidth_tb_s * 1e12 * gpus)
    compute_s = 2.0 * model.active_parameters * concurrency / (speed * 1e12 * gpus)
    step = max(memory_s, compute_s)
    return Serving(
        concurrency / step, "memory bandwidth" if memory_s >= compute_s else "arithmetic"
    )


def supports(dtype: str) -> bool:
    """Whether the format is one that sizing knows."""
    return dtype in BITS
