"""How a model is split over GPUs: tensor parallelism (every layer's matrices in slices) and pipeline parallelism (whole layers on each stage).

Owns which splits are possible and which is better. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.catalog.hardware import hardware

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.workloads.architecture import Architecture

NVLINK_GB_S = 300.0
"""The least link speed between the GPUs of a machine, both directions summed, at which every layer's exchange is cheap: NVLink begins there, PCIe
ends below."""


class Layout(NamedTuple):
    """`tensor` x `pipeline` GPUs hold one copy; `replicas` copies of it run side by side."""

    tensor: int
    pipeline: int
    replicas: int = 1

    def __str__(self) -> str:
        return (
            f"TP{self.tensor}" + (f" x PP{self.pipeline}" if self.pipeline > 1 else "") + (f" x {self.replicas} copies" if self.replicas > 1 else "")
        )


def divides(tensor: int, heads: int, kv_heads: int, intermediate: int | None = None) -> bool:
    """Whether a layer can be cut into so many slices: each has whole attention heads, and KV heads are split or doubled evenly."""
    return heads % tensor == 0 and (kv_heads % tensor == 0 or tensor % kv_heads == 0) and (intermediate is None or intermediate % tensor == 0)


def tensor_sizes(heads: int, kv_heads: int, most: int = 64, intermediate: int | None = None) -> tuple[int, ...]:
    """Every tensor-parallel size up to `most` that divides the model."""
    return tuple(size for size in range(1, most + 1) if divides(size, heads, kv_heads, intermediate))


def fast_links(gpu_type: str) -> bool:
    """Whether the GPUs of one machine are joined by NVLink or the like, by the catalog. Unknown is slow."""
    found = hardware(gpu_type)
    return found is not None and found.form_factor.startswith(("SXM", "OAM")) and (found.interconnect_gb_s or 0.0) >= NVLINK_GB_S


def layouts(model: Architecture, gpu_type: str, gpu_count: int, nodes: int = 1, *, by_layers: bool = False) -> tuple[Layout, ...]:
    """Every split of the model over all of these GPUs, the best first. `by_layers`: stages alone, as llama.cpp splits.

    Tensor parallelism stays inside a machine. Where its GPUs have fast links it is as wide as possible (lowest latency); over PCIe a wide split
    waits for its links, so pipeline stages come first there once a split of two is reached. Nodes are joined by pipeline stages or by copies.
    """
    found: list[Layout] = []
    for tensor in tensor_sizes(model.heads, model.kv_heads, gpu_count, None if model.active_parameters < model.parameters else model.intermediate):
        if gpu_count % tensor or (by_layers and tensor > 1):
            continue
        stages = gpu_count // tensor * nodes
        found.extend(
            Layout(tensor, each, stages // each)
            for each in range(stages if by_layers else 1, stages + 1)
            if stages % each == 0 and each <= model.layers
        )
    wide = fast_links(gpu_type)

    def rank(layout: Layout) -> tuple[int, ...]:
        width = layout.tensor if wide else -abs(layout.tensor - min(2, gpu_count))
        return (layout.replicas, layout.pipeline, -width) if wide else (layout.replicas, -width, layout.pipeline)

    return tuple(sorted(found, key=rank))


def advice(model: Architecture, gpu_count: int) -> str:
    """Why so many GPUs can't be one tensor-parallel group, and which sizes can; nothing where they can."""
    if divides(gpu_count, model.heads, model.kv_heads):
        return ""
    sizes = _listed(tensor_sizes(model.heads, model.kv_heads))
    stages = next(
        (f"TP{t} x PP{gpu_count // t}" for t in range(gpu_count - 1, 0, -1) if gpu_count % t == 0 and divides(t, model.heads, model.kv_heads)), ""
    )
    return f"{model.heads} heads with {model.kv_heads} KV heads can't be cut into {gpu_count}: valid are {sizes}{f'; or {stages}' if stages else ''}"


def _listed(sizes: Iterable[int]) -> str:
    return ", ".join(map(str, sizes))
