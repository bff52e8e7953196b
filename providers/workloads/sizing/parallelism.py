"""How a model is split over GPUs: tensor parallelism (every layer's matrices in slices) and
pipeline parallelism (whole layers on each stage).

Owns which splits are possible and which is better. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog.hardware import hardware
from providers.workloads.sizing.quantization import GROUPED, USUAL_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.workloads.sizing.architecture import Architecture

TENSOR, LAYERS = "tensor", "layers"
"""The only way that a program splits a model, where it has but one."""
NVLINK_GB_S = 300.0
"""The least link speed between the GPUs of a machine, both directions summed, at which every
layer's exchange is cheap: NVLink begins there, PCIe ends below.
"""


class Layout(NamedTuple):
    """`tensor` x `pipeline` GPUs hold one copy; `replicas` copies of it run side by side."""

    tensor: int
    pipeline: int
    replicas: int = 1

    @property
    def gpus(self) -> int:
        """How many it takes in all."""
        return self.tensor * self.pipeline * self.replicas

    def __str__(self) -> str:
        return (
            f"TP{self.tensor}"
            + (f" x PP{self.pipeline}" if self.pipeline > 1 else "")
            + (f" x {self.replicas} copies" if self.replicas > 1 else "")
        )


def divides(tensor: int, heads: int, kv_heads: int, intermediate: int | None = None) -> bool:
    """Whether a layer can be cut into so many slices: each has whole attention heads, and KV heads
    are split or doubled evenly.
    """
    return (
        heads % tensor == 0
        and (kv_heads % tensor == 0 or tensor % kv_heads == 0)
        and (intermediate is None or intermediate % tensor == 0)
    )


def tensor_sizes(
    heads: int, kv_heads: int, most: int = 64, intermediate: int | None = None
) -> tuple[int, ...]:
    """Every tensor-parallel size up to `most` that divides the model."""
    return tuple(
        size for size in range(1, most + 1) if divides(size, heads, kv_heads, intermediate)
    )


LEAST_EXPERT_GROUP = 32
"""How small vLLM and SGLang cut the groups of 4-bit experts (their fused kernels for such weights,
moe_wna16, as read 2026).
"""


class Cut(NamedTuple):
    """A dimension that tensor parallelism cuts, and what each slice must be a multiple of."""

    what: str
    size: int
    step: int = 1


def cuts(model: Architecture, dtype: str) -> tuple[Cut, ...]:
    """Every dimension of a model's layers that is cut, with the step that the format's groups or
    blocks ask for.

    A slice of a matrix whose rows have scales by groups must hold whole groups, whatever kernel
    runs it and in whatever order GPTQ has them (vLLM and SGLang, `create_weights` of AWQ and GPTQ;
    TGI the same); in fp8 by blocks, whole blocks both ways. MXFP4's kernels pad what does not fit.
    """
    own = model.quantization
    group, block, ordered = 0, 0, False
    if dtype in GROUPED:
        # A checkpoint that is not the one whose configuration is known is taken to have the usual
        # groups.
        group = own.group if own is not None and own.dtype == dtype else USUAL_GROUP
        ordered = own is not None and own.ordered
    elif dtype == "fp8" and own is not None and own.dtype == dtype:
        block = own.block
    step = max(1, group, block)
    found = [Cut("intermediate size", width, step) for width in dict.fromkeys(model.plain_widths)]
    if model.expert_intermediate:
        small = min(step, LEAST_EXPERT_GROUP) if group and not ordered else step
        found.append(Cut("experts' intermediate size", model.expert_intermediate, small))
    if not model.latent_kv:
        found.append(Cut("attention's width", model.heads * model.head_dim, step))
        if block:
            found.append(Cut("KV heads' width", model.kv_heads * model.head_dim, block))
    return tuple(found)


def uncut(model: Architecture, dtype: str, tensor: int) -> Cut | None:
    """The first dimension that can't be cut into so many slices; None where all can."""
    if tensor == 1:
        return None
    for each in cuts(model, dtype):
        # With more GPUs than KV heads each head stands on several, whole.
        slices = min(tensor, model.kv_heads) if each.what.startswith("KV") else tensor
        if each.size % (slices * each.step):
            return each
    return None


def _cuts_an_expert(model: Architecture, dtype: str, slices: int) -> bool:
    return any(
        each.what.startswith("experts") and each.size % (slices * each.step)
        for each in cuts(model, dtype)
    )


def sizes(model: Architecture, dtype: str, most: int = 64) -> tuple[int, ...]:
    """Every tensor-parallel size up to `most` that divides the model in this format."""
    return tuple(
        size
        for size in tensor_sizes(model.heads, model.kv_heads, most)
        if uncut(model, dtype, size) is None
    )


def fast_links(gpu_type: str) -> bool:
    """Whether the GPUs of one machine are joined by NVLink or the like, by the catalog. Unknown is
    slow.
    """
    found = hardware(gpu_type)
    return (
        found is not None
        and found.form_factor.startswith(("SXM", "OAM"))
        and (found.interconnect_gb_s or 0.0) >= NVLINK_GB_S
    )


def layouts(
    model: Architecture,
    gpu_type: str,
    gpu_count: int,
    nodes: int = 1,
    *,
    dtype: str = "",
    split: str = "",
) -> tuple[Layout, ...]:
    """Every split of the model in this format over all of these GPUs, the best first.

    `split`: LAYERS (stages alone, as llama.cpp splits) or TENSOR (one group alone, of as many of
    one machine's GPUs as divide it).

    Tensor parallelism stays inside a machine. Where its GPUs have fast links it is as wide as
    possible (lowest latency); over PCIe a wide split waits for its links, so pipeline stages come
    first there once a split of two is reached. Nodes are joined by pipeline stages or by copies.
    """
    widths = [size for size in sizes(model, dtype, gpu_count) if gpu_count % size == 0]
    if split == TENSOR:
        return (Layout(max(widths), 1),)
    found: list[Layout] = []
    for tensor in widths if split != LAYERS else [1]:
        stages = gpu_count // tensor * nodes
        found.extend(
            Layout(tensor, each, stages // each)
            for each in range(stages if split == LAYERS else 1, stages + 1)
            if stages % each == 0 and each <= model.layers
        )
    # The experts of copies are cut over all of their GPUs (vLLM, data parallelism of mixtures
    # without expert parallelism, 2026).
    found = [
        each
        for each in found
        if each.replicas == 1 or not _cuts_an_expert(model, dtype, each.tensor * each.replicas)
    ]
    wide = fast_links(gpu_type)

    def rank(layout: Layout) -> tuple[int, ...]:
        width = layout.tensor if wide else -abs(layout.tensor - min(2, gpu_count))
        return (
            (layout.replicas, layout.pipeline, -width)
            if wide
            else (layout.replicas, -width, layout.pipeline)
        )

    return tuple(sorted(found, key=rank))


def advice(model: Architecture, gpu_count: int, dtype: str = "") -> str:
    """Why so many GPUs can't be one tensor-parallel group, and which sizes can; nothing where they
    can.
    """
    valid = sizes(model, dtype, max(64, gpu_count))
    if gpu_count in valid:
        return ""
    widest = max(size for size in valid if gpu_count % size == 0)
    stages = f"; or TP{widest} x PP{gpu_count // widest}" if widest < gpu_count else ""
    if not divides(gpu_count, model.heads, model.kv_heads):
        by_heads = _listed(tensor_sizes(model.heads, model.kv_heads))
        return (
            f"{model.heads} heads with {model.kv_heads} KV heads can't be cut into {gpu_count}:"
            f" valid are {by_heads}{stages}"
        )
    cut = uncut(model, dtype, gpu_count)
    assert cut is not None
    if cut.step == 1:
        return (
            f"the {cut.what} {cut.size:,} can't be cut into {gpu_count}: valid are"
            f" {_listed(valid)}{stages}"
        )
    parts = f"{cut.size / cut.step:g} {'blocks' if dtype == 'fp8' else 'groups'} of {cut.step}"
    wider = -(-cut.size // (cut.step * 8)) * cut.step * 8
    padded = (
        f"; checkpoints padded to {wider} can"
        if cut.what == "intermediate size" and dtype in GROUPED
        else ""
    )
    spread = (
        "; or whole experts on each GPU (expert parallelism)"
        if cut.what.startswith("experts")
        else ""
    )
    return (
        f"the {cut.what} {cut.size} in {dtype} is {parts}, which can't be cut into {gpu_count}:"
        f" valid are {_listed(valid)}{stages}{spread}{padded}"
    )


def refused(model: Architecture, layout: Layout, gpus: int, dtype: str = "") -> str:
    """Why the model can't be split as asked over so many GPUs; nothing where it can."""
    if layout.gpus > gpus:
        return f"{layout} takes {layout.gpus} GPUs, here are {gpus}"
    if layout.pipeline > model.layers:
        return f"{layout} has more stages than {model.name} has layers ({model.layers})"
    return advice(model, layout.tensor, dtype)


def _listed(sizes: Iterable[int]) -> str:
    return ", ".join(map(str, sizes))
