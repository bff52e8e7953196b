"""What a server's flags say of the fields, the split and the memory that a plan counts with. Pure.

Owns these flags' names and how their values are read. A flag runs, so it is what counts. One that
can't be read, or whose effect nobody counts, is named in a line. Sources: each program's own
documentation, as named with its recipe, 2026-11.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.workloads.launch.flags import RUNNERS, Given, dashes, given, plain
from providers.workloads.sizing.parallelism import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.workload import Task

CONTEXT = {
    "vllm": ("max-model-len",),
    "sglang": ("context-length",),
    "tgi": ("max-total-tokens",),
    "ollama": ("OLLAMA_CONTEXT_LENGTH",),
}
CONCURRENCY = {
    "vllm": ("max-num-seqs",),
    "sglang": ("max-running-requests",),
    "tgi": ("max-concurrent-requests",),
    "llama.cpp": ("parallel", "np", "n-parallel"),
    "ollama": ("OLLAMA_NUM_PARALLEL",),
}
"""The flags that say what the fields `context` and `concurrency` say; Ollama has variables in their
place.
"""
SLOTS = ("ctx-size", "c")
"""llama.cpp's context, which its slots share."""
TENSOR = {
    "vllm": ("tensor-parallel-size", "tp"),
    "sglang": ("tp-size", "tp", "tensor-parallel-size"),
    "tgi": ("num-shard",),
}
PIPELINE = {
    "vllm": ("pipeline-parallel-size", "pp"),
    "sglang": ("pp-size", "pp", "pipeline-parallel-size"),
}
COPIES = {"vllm": ("data-parallel-size", "dp"), "sglang": ("dp-size", "dp", "data-parallel-size")}
WHOLE_EXPERTS = ("enable-expert-parallel", "ep", "ep-size", "expert-parallel-size", "enable-ep-moe")
SHARE = {
    "vllm": ("gpu-memory-utilization",),
    "sglang": ("mem-fraction-static",),
    "tgi": ("cuda-memory-fraction",),
}
CACHE = {
    "vllm": ("kv-cache-dtype",),
    "sglang": ("kv-cache-dtype",),
    "tgi": ("kv-cache-dtype",),
    "ollama": ("OLLAMA_KV_CACHE_TYPE",),
}
CACHE_KEYS, CACHE_VALUES = ("cache-type-k", "ctk"), ("cache-type-v", "ctv")
GPU_LAYERS = ("n-gpu-layers", "gpu-layers", "ngl")
ONE_GPU = ("split-mode", "sm")
UNEVEN = ("tensor-split", "ts")

UNCOUNTED = {
    "vllm": (
        "config",
        "cpu-offload-gb",
        "kv-cache-memory-bytes",
        "hf-overrides",
        "decode-context-parallel-size",
        "dcp",
    ),
    "sglang": ("config", "cpu-offload-gb", "enable-dp-attention", "json-model-override-args"),
    "llama.cpp": (
        "override-tensor",
        "ot",
        "cpu-moe",
        "cmoe",
        "n-cpu-moe",
        "ncmoe",
        "no-kv-offload",
        "nkvo",
        "device",
        "dev",
        "rpc",
    ),
}
"""Flags with which the GPUs hold something else, in a way that nobody counts: nothing is refused
then.
"""
BESIDE = {
    "vllm": ("speculative-config", "enable-lora", "max-num-batched-tokens"),
    "sglang": ("speculative-algorithm", "enable-lora", "lora-paths", "chunked-prefill-size"),
    "tgi": ("speculate", "lora-adapters", "max-batch-prefill-tokens"),
    "llama.cpp": (
        "model-draft",
        "md",
        "hf-repo-draft",
        "hfd",
        "lora",
        "mmproj",
        "mm",
        "ubatch-size",
        "ub",
    ),
}
"""Flags that add to what is counted."""

_DTYPES = {
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "float32": "fp32",
}
_QUANTIZED = {
    "fp8": "fp8",
    "w8a8-fp8": "fp8",
    "ptpc-fp8": "fp8",
    "fbgemm-fp8": "fp8",
    "awq": "awq",
    "awq-marlin": "awq",
    "gptq": "gptq",
    "gptq-marlin": "gptq",
    "marlin": "gptq",
    "bitsandbytes-nf4": "nf4",
    "bitsandbytes-fp4": "nf4",
    "eetq": "int8",
    "w8a8-int8": "int8",
    "experts-int8": "int8",
    "modelopt-fp4": "fp4",
    "mxfp4": "mxfp4",
}
_BITSANDBYTES = {"vllm": "nf4", "sglang": "nf4", "tgi": "int8"}
"""What `bitsandbytes` by itself means to each."""
_OWN = frozenset({"compressed-tensors", "modelopt", "auto-round", "quark", "moe-wna16"})
"""Quantisations that only name what the checkpoint is already."""
_PRECISIONS = {"no": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
"""Accelerate's words for the number format of a training run."""
_CACHE_DTYPES = {
    **dict.fromkeys(("auto", "bfloat16", "bf16", "float16", "f16", "fp16"), "bf16"),
    **dict.fromkeys(("fp8", "fp8-e4m3", "fp8-e4m3fn", "fp8-e5m2", "fp8-inc"), "fp8"),
    "f32": "fp32",
    "q8-0": "q8_0",
    **dict.fromkeys(("fp4-e2m1", "q4-0", "iq4-nl"), "fp4"),  # 4.5 bits all
}


class Counted(NamedTuple):
    """What flags say of a server beyond its fields. `share` is what part of a card it takes (0: as
    sizing assumes): all of what it needs, or with `static` weights and cache alone. `gpu_layers` of
    the model are on the GPUs (-1: all). `unread` says why nothing is judged, `without` what is left
    out of the judgement.
    """

    layout: Layout | None = None
    share: float = 0.0
    static: bool = False
    cache_dtype: str = "bf16"
    gpu_layers: int = -1
    whole_experts: bool = False
    unread: str = ""
    without: str = ""


def settled(task: Task) -> Task:
    """The task whose fields say what its flags say. A value that can't be read leaves the field
    alone.
    """
    asked = _asked(task)
    context = _number(asked, CONTEXT.get(task.launcher, ()))
    concurrency = _number(asked, CONCURRENCY.get(task.launcher, ()))
    if task.launcher == "llama.cpp" and (shared := _number(asked, SLOTS)):
        context = max(1, shared // max(1, concurrency or task.concurrency))
    dtype = _quantization(task, asked) or _DTYPES.get(_word(asked, ("dtype",)))
    if task.launcher not in TENSOR:
        dtype = (
            _PRECISIONS.get(_word(asked, ("mixed-precision",)))
            if task.launcher in {"accelerate", "kohya"}
            else None
        )
    return task._replace(
        context=context or task.context,
        concurrency=concurrency or task.concurrency,
        dtype=dtype or task.dtype,
    )


def counted(task: Task) -> Counted:
    """What the flags of a server say of its split and its memory."""
    if not task.launcher or task.launcher in RUNNERS:
        return Counted()
    asked = _asked(task)
    return Counted(
        layout=_layout(task.launcher, asked),
        share=_share(asked, SHARE.get(task.launcher, ())) or 0.0,
        static=task.launcher == "sglang",
        cache_dtype=_cache(task.launcher, asked) or "bf16",
        gpu_layers=_gpu_layers(asked) if task.launcher == "llama.cpp" else -1,
        whole_experts=task.launcher in COPIES
        and any(_word(asked, (name,)) not in {"", "1"} for name in WHOLE_EXPERTS),
        unread=_unread(task, asked),
        without=next(
            (_flag(task.launcher, name) for name in BESIDE.get(task.launcher, ()) if name in asked),
            "",
        ),
    )


def _asked(task: Task) -> Mapping[str, Given]:
    if task.launcher == "ollama":
        return {name: Given(value, f"env.{name}") for name, value in task.env}
    return given(task)


def _layout(launcher: str, asked: Mapping[str, Given]) -> Layout | None:
    """The split that flags ask for; what they leave out is then 1, as the program has it."""
    if launcher == "tgi" and _word(asked, ("sharded",)) == "false":
        return Layout(1, 1)
    if launcher == "llama.cpp":
        return Layout(1, 1) if _word(asked, ONE_GPU) == "none" else None
    tensor, pipeline, copies = (
        _number(asked, table.get(launcher, ())) for table in (TENSOR, PIPELINE, COPIES)
    )
    return Layout(tensor or 1, pipeline or 1, copies or 1) if tensor or pipeline or copies else None


def _gpu_layers(asked: Mapping[str, Given]) -> int:
    word = _word(asked, GPU_LAYERS)
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 9 else -1


def _cache(launcher: str, asked: Mapping[str, Given]) -> str | None:
    """The number format of the cache; None where it can't be read, or is not one."""
    if launcher == "llama.cpp":
        both = {_word(asked, names) or "f16" for names in (CACHE_KEYS, CACHE_VALUES)}
        return _CACHE_DTYPES.get(plain(both.pop())) if len(both) == 1 else None
    return _CACHE_DTYPES.get(plain(_word(asked, CACHE.get(launcher, ()))) or "auto")


def _share(asked: Mapping[str, Given], flags: Sequence[str]) -> float | None:
    try:
        value = float(_word(asked, flags) or "0")
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _quantization(task: Task, asked: Mapping[str, Given]) -> str | None:
    word = plain(_word(asked, ("quantization", "q", "quantize")).lower())
    return _BITSANDBYTES.get(task.launcher) if word == "bitsandbytes" else _QUANTIZED.get(word)


def _unread(task: Task, asked: Mapping[str, Given]) -> str:
    """The first flag that keeps the fit from being judged, and why;
    nothing where all is counted.
    """
    launcher = task.launcher
    for name in UNCOUNTED.get(launcher, ()):
        if name in asked:
            return f"{_flag(launcher, name)} changes what the GPUs hold, which is not counted"
    numbers: list[Mapping[str, Sequence[str]]] = [CONTEXT, CONCURRENCY, TENSOR, PIPELINE, COPIES]
    read: list[tuple[Sequence[str], bool]] = [
        (table.get(launcher, ()), _number(asked, table.get(launcher, ())) > 0) for table in numbers
    ]
    read.append((SHARE.get(launcher, ()), _share(asked, SHARE.get(launcher, ())) is not None))
    read.append((CACHE.get(launcher, ()), _cache(launcher, asked) is not None))
    if launcher == "llama.cpp":
        parts = set(re.split(r"[,/]", _word(asked, UNEVEN)))
        layers = _word(asked, GPU_LAYERS)
        read += [
            (SLOTS, _number(asked, SLOTS) > 0),
            ((*CACHE_KEYS, *CACHE_VALUES), _cache(launcher, asked) is not None),
            (GPU_LAYERS, layers in {"all", "-1"} or _gpu_layers(asked) >= 0),
            (UNEVEN, len(parts) == 1),
        ]
    if launcher in TENSOR:
        word = plain(_word(asked, ("quantization", "q", "quantize")).lower())
        read.append(
            (
                ("quantization", "q", "quantize"),
                word in _OWN or _quantization(task, asked) is not None,
            )
        )
    for names, known in read:
        for name in names:
            if (
                name in asked
                and not known
                and not (name == "max-model-len" and _word(asked, (name,)) in {"auto", "-1"})
            ):
                return f"{_flag(launcher, name)} {_word(asked, (name,))[:40]} is not counted"
    return ""


def _flag(launcher: str, name: str) -> str:
    return name if name.isupper() else f"{dashes(launcher, name)}{name}"


def _word(asked: Mapping[str, Given], flags: Sequence[str]) -> str:
    return next((str(asked[name].value) for name in flags if name in asked), "")


_THOUSANDS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _number(asked: Mapping[str, Given], flags: Sequence[str]) -> int:
    """A whole number, also as vLLM reads it: `32k` is 32,000 and `32K` 32,768;
    0 for what is none.
    """
    match = re.fullmatch(
        r"([0-9]{1,9})(?:(\.[0-9]{1,6})?([kmgKMG]))?", _word(asked, flags), re.ASCII
    )
    return int(float(match[1] + (match[2] or "")) * _THOUSANDS.get(match[3], 1)) if match else 0
