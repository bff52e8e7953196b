"""How much memory a model takes on each GPU, for serving and for training. Pure arithmetic, in GiB
(2**30 bytes).

Owns what each number format costs, what is assumed, and the margin. A figure is per GPU: what is
not split over the GPUs is counted on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog.hardware import hardware
from providers.catalog.names import nominal_memory_gib
from providers.workloads.sizing.quantization import GROUPED

if TYPE_CHECKING:
    from providers.workloads.sizing.architecture import Architecture

GIB = 2**30

BITS = {
    "fp32": 32.0,
    "bf16": 16.0,
    "fp16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "awq": 4.25,
    "gptq": 4.25,
    "int4": 4.25,
    "nf4": 4.13,
    "fp4": 4.5,
    "mxfp4": 4.25,
    "q8_0": 8.5,
    "q6_k": 6.56,
    "q5_k_m": 5.69,
    "q4_k_m": 4.85,
}
"""Bits for each weight, scales included. 4.25: 4 bits and a 16-bit scale with its zero for each
group of 128 (AWQ, GPTQ), or an 8-bit one for each 32 (MXFP4); 4.5: an 8-bit one for each 16
(NVFP4). 4.13: NF4 with doubly quantised constants (QLoRA, 2023). q*: llama.cpp's own table of bits
per weight for 7B to 8B models (tools/quantize).
"""

LLAMA_CPP = {"q8_0", "q6_k", "q5_k_m", "q4_k_m"}
"""Formats of llama.cpp and what is built on it (Ollama). It splits a model by whole layers, and
sets nothing aside for itself.
"""

KEEPS_EMBEDDINGS = {"awq", "gptq", "int4", "nf4", "fp4", "mxfp4", "fp8", "int8"}
"""Formats that leave the input and output embeddings in 16 bit."""

NEEDS = {
    "bf16": (8.0, "bf16 begins with Ampere (8.0), fp16 would do"),
    "fp8": (8.9, "fp8 arithmetic begins with Ada and Hopper (8.9)"),
    "fp4": (8.0, "kernels for 4-bit floats begin with Ampere (8.0)"),
    "mxfp4": (8.0, "kernels for 4-bit floats begin with Ampere (8.0)"),
}
"""The least compute capability of NVIDIA's cards for a format (CUDA C++ programming guide, 2026).
Weight-only formats run on older cards too: 4-bit floats by Marlin's and Triton's kernels
(vllm-project/vllm issues 22290 and 33155, 2025 and 2026).
"""

WEIGHTS_ONLY = {"fp4": 10.0, "mxfp4": 10.0}
"""Below this compute capability the weights alone have the format, and the arithmetic is done in 16
bit.
"""

USABLE = 0.90
"""What part of a card a server plans with: vLLM's default `gpu_memory_utilization`."""
USABLE_LLAMA_CPP = 0.95
"""The same for llama.cpp, which takes what it needs: the rest is the driver's, and what does not
divide evenly by layers. Assumed; two cards of 24 GB hold a 70B model in 4 bits with 8k of context,
barely, as its users report.
"""
TIGHT = 0.05
"""Less than this part of the usable memory left over is said to be tight."""
OVERHEAD_GIB = 1.5
"""CUDA context, kernels, communication buffers and captured graphs, on each GPU: 1 to 2 GiB are
usual; assumed.
"""
PREFILL_TOKENS = 8192
"""How many tokens a server works on at once at most (vLLM's default `max_num_batched_tokens` for a
server, 2026).
"""
PREFILL_TOKENS_LLAMA_CPP = 512
"""The same for llama.cpp (its default `--ubatch-size`, tools/server, 2026)."""

REPORTED_GIB = {
    "T4": 15.0,
    "L4": 22.5,
    "A10G": 22.1,
    "A10": 22.5,
    "H100": 79.6,
    "H200": 140.4,
    "B200": 179.0,
}
"""What drivers report where that is less than the nominal size: error correction on the small
cards, rounding on the large ones.
"""

FULL_BYTES = 16.0
"""Bytes for each trained parameter with Adam in mixed precision: 2 weight, 2 gradient, 12 for the
fp32 copy and two moments (ZeRO, 2019).
"""


RESIDUAL_BYTES, LOGIT_BYTES = 24, 12
"""Bytes that one token leaves for the backward pass: for each value of the residual stream in a
layer (two norms in fp32 and their 16-bit forms), and for each word of the vocabulary (logits and
gradient, in 16 bit and in fp32). Fitted to what a Llama 3.2 1B took on an H100 with PyTorch 2.11
and transformers 5.17 under autocast, batch 4 x 2048: 31.9 GiB with recompute and 48.4 without,
where this gives 31.4 and 45.5 (2026-11-28).
"""


class Need(NamedTuple):
    """GiB on the fullest GPU, by part."""

    weights: float
    cache: float
    activations: float
    optimizer: float
    overhead: float

    @property
    def total(self) -> float:
        return self.weights + self.cache + self.activations + self.optimizer + self.overhead


def card_gib(gpu_type: str) -> float | None:
    """GiB that one card of this type really has to give; None where the size is unknown."""
    return REPORTED_GIB.get(gpu_type) or nominal_memory_gib(gpu_type)


def usable_gib(gpu_type: str, dtype: str = "") -> float | None:
    """GiB that are planned with on one card: USABLE of what it has, USABLE_LLAMA_CPP in a format of
    llama.cpp's.
    """
    size = card_gib(gpu_type)
    return None if size is None else size * (USABLE_LLAMA_CPP if dtype in LLAMA_CPP else USABLE)


def lacks(gpu_type: str, dtype: str) -> str:
    """Why this card can't work in this format; nothing where it can, or where its capability is
    unknown.
    """
    if dtype not in NEEDS:
        return ""
    found = hardware(gpu_type)
    if found is None or not found.compute_capability:
        return ""
    least, why = NEEDS[dtype]
    try:
        capability = float(found.compute_capability)
    except ValueError:
        return ""
    return (
        f"no {dtype}: {why}; {gpu_type} has compute capability {found.compute_capability}"
        if capability < least
        else ""
    )


def weights_only(gpu_type: str, dtype: str) -> str:
    """What there is to know of a card that has weights in this format but no arithmetic; nothing
    where it has both, or where that is not known.
    """
    found = hardware(gpu_type)
    try:
        capability = float(found.compute_capability) if found is not None else 0.0
    except ValueError:
        return ""
    if not 0 < capability < WEIGHTS_ONLY.get(dtype, 0.0):
        return ""
    return f"{dtype} weights only: {gpu_type} computes in 16 bit with them (weight-only kernels)"


def weight_bits(model: Architecture, dtype: str) -> float:
    """Bits for each weight of this model in this format: small groups have more scales."""
    own = model.quantization
    if dtype in GROUPED and own is not None and own.dtype == dtype and own.group:
        return max(BITS[dtype], 4 + 20 / own.group)
    return BITS[dtype]


def weight_bytes(model: Architecture, dtype: str) -> float:
    """Bytes of all weights in this format."""
    if dtype in KEEPS_EMBEDDINGS:
        # MXFP4 checkpoints of mixtures have nothing in it but their experts.
        inside = (
            model.expert_parameters
            if dtype == "mxfp4" and model.expert_parameters
            else model.parameters - model.embedding_parameters
        )
        return inside * weight_bits(model, dtype) / 8 + (model.parameters - inside) * 2
    return model.parameters * BITS[dtype] / 8


def cache_bytes_per_token(model: Architecture, tensor: int = 1, cache_dtype: str = "bf16") -> float:
    """Bytes that one token takes in the KV cache of ONE GPU of a tensor-parallel group, all layers.

    With more GPUs than KV heads each head stands on several; a latent cache stands on all.
    """
    whole = model.kv_bytes_per_token(BITS[cache_dtype] / 8)
    return whole if model.latent_kv else whole / min(tensor, model.kv_heads)


def serving(
    model: Architecture,
    dtype: str,
    *,
    context: int,
    concurrency: int,
    tensor: int = 1,
    pipeline: int = 1,
    cache_dtype: str = "bf16",
    gpu_layers: int = -1,
) -> Need:
    """What serving takes on each GPU: weights, the cache of `concurrency` sequences of `context`
    tokens, activations of one prefill step.

    With `gpu_layers` from 0 on, so many layers (the output is one more) and their cache are there,
    the rest is in the machine's memory.
    """
    split = tensor * pipeline
    there = min(1.0, gpu_layers / (model.layers + 1)) if gpu_layers >= 0 else 1.0
    tokens = min(
        PREFILL_TOKENS_LLAMA_CPP if dtype in LLAMA_CPP else PREFILL_TOKENS, context * concurrency
    )
    width = (2 if model.gated else 1) * model.intermediate / tensor + 4 * model.hidden
    logits = concurrency * model.vocabulary / tensor * 4 * 2
    return Need(
        weights=weight_bytes(model, dtype) * there / split / GIB,
        cache=cache_bytes_per_token(model, tensor, cache_dtype)
        * there
        * context
        * concurrency
        / pipeline
        / GIB,
        activations=(tokens * width * 2 + logits) / GIB,
        optimizer=0.0,
        overhead=OVERHEAD_GIB,
    )


def adapter_parameters(model: Architecture, rank: int) -> int:
    """Trained parameters of LoRA of this rank on every linear layer of every block (for a mixture
    of experts: on the attention alone).
    """
    attention = 2 * (model.hidden + model.heads * model.head_dim) + 2 * (
        model.hidden + model.kv_heads * model.head_dim
    )
    plain = model.active_parameters == model.parameters
    mlp = (3 if model.gated else 2) * (model.hidden + model.intermediate) if plain else 0
    return model.layers * rank * (attention + mlp)


def training(
    model: Architecture,
    method: str,
    *,
    sequence: int,
    batch: int,
    shards: int = 1,
    tensor: int = 1,
    recompute: bool = True,
    dtype: str = "bf16",
    rank: int = 16,
) -> Need:
    """What training takes on each GPU. `method` is full, lora or qlora; `batch` is the sequences
    that one GPU works on at once.

    `shards` is over how many GPUs weights, gradients and optimizer are split (FSDP, ZeRO-3); 1 is
    plain data parallelism. Attention is a fused kernel: no matrix of scores is kept. With
    `recompute` one layer's activations are live, and of every other layer its input alone.
    """
    values = BITS[dtype] / 8
    if method == "full":
        weights, state = model.parameters * values, model.parameters * (FULL_BYTES - 2)
    else:
        trained = adapter_parameters(model, rank)
        weights = weight_bytes(model, "nf4" if method == "qlora" else dtype) + trained * 2
        state = trained * (FULL_BYTES - 2)
    tokens = sequence * batch
    per_layer = (
        RESIDUAL_BYTES * model.hidden
        + 2 * (2 * model.heads * model.head_dim + 2 * model.kv_heads * model.head_dim)
        + 2 * (4 if model.gated else 2) * model.intermediate
    )
    live = (
        per_layer + (model.layers - 1) * model.hidden * 2 if recompute else model.layers * per_layer
    )
    # A layer that is sharded is gathered whole while it is worked on.
    gathered = weights / model.layers if shards > 1 and method == "full" else 0.0
    return Need(
        weights=(weights / (shards * tensor) + gathered) / GIB,
        cache=0.0,
        activations=tokens * (live / tensor + model.vocabulary * LOGIT_BYTES / tensor) / GIB,
        optimizer=state / (shards * tensor) / GIB,
        overhead=OVERHEAD_GIB,
    )
