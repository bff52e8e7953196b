"""How much disk a declared program needs, part by part, and how long it takes to get there. Pure,
apart from bundled tables.

Owns the arithmetic: the weights as they are downloaded (in the checkpoint's own format, not the one
that they are served in), the container image unpacked, what a training run saves, and room. What a
model needs that nobody knows is not counted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from providers.model import images
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.sizing import memory
from providers.workloads.sizing.architecture import known
from providers.workloads.sizing.flag_effects import settled

if TYPE_CHECKING:
    from providers.model.host import Host
    from providers.model.workload import Override, Workload
    from providers.workloads.sizing.architecture import Architecture

ROOM = 0.10
ROOM_GIB = 10.0
"""What is left free: a tenth, for what is unpacked or converted on the way, and 10 GiB for logs and
packages. Assumed.
"""
STEP_GIB = 10
GB_IN_GIB = 2**30 / 1e9
SAVED_BYTES = 14.0
"""Bytes of a checkpoint for each trained parameter: the weight in 16 bit, its fp32 copy and Adam's
two moments (ZeRO, 2019).
"""
CHECKPOINTS = 2
"""The last one stays until the next is whole."""

DOWNLOADED = {"fp8", "awq", "gptq", "fp4", "mxfp4"}
"""Formats of which a checkpoint is published as such. A bf16 checkpoint that is served in fp8, int8
or nf4 is downloaded in 16 bit.
"""

NETWORK_MIB_S = 500.0
"""How fast a published model arrives where the disk is no limit. Assumed: several files at once
from the hub to a data centre.
"""
TO_GPU_MIB_S = 1_000.0
"""How fast weights go from the page cache to the GPUs, with their checks and layouts. Assumed."""
START_S = 180.0
"""Boot, imports, compilation and captured graphs. Assumed."""


class Disk(NamedTuple):
    """GiB by part. `image_known` says that the image's size is no assumption."""

    weights: float = 0.0
    image: float = 0.0
    saved: float = 0.0
    image_known: bool = False

    @property
    def least(self) -> float:
        """Without this it can't start."""
        return self.weights + (self.image if self.image_known else 0.0)

    @property
    def known(self) -> bool:
        """Whether there is anything to size a disk by."""
        return bool(self.weights or self.saved or (self.image and self.image_known))

    def parts(self, used_gib: float = 0.0) -> str:
        """`weights 131.4, container image 30, system 45`."""
        named = {
            "weights": self.weights,
            "container image": self.image,
            "checkpoints": self.saved,
            "system": used_gib,
        }
        return ", ".join(
            f"{name} {value:.1f}".removesuffix(".0")
            for name, value in named.items()
            if value >= 0.05
        )


def image(workload: Workload) -> str:
    """The container image that it runs in; nothing where it runs on the machine itself."""
    recipe = RECIPES.get(workload.tasks[0].launcher) if workload.tasks else None
    return workload.image or (recipe.image if recipe is not None else "")


@lru_cache(maxsize=256)
def needed(workload: Workload, override: Override | None) -> Disk:
    """What a program puts on each machine's disk, in the formats of this choice."""
    weights = {
        (model.name, dtype): memory.weight_bytes(model, dtype)
        for model, dtype in _downloads(workload, override)
    }
    container = image(workload)
    size = images.size_gib(container) if container else 0.0
    return Disk(
        sum(weights.values()) / memory.GIB,
        images.ASSUMED_GIB if size is None else size,
        _saved(workload),
        bool(container) and size is not None,
    )


def sized(disk: Disk, host: Host) -> int:
    """GiB of the disk that is ordered for it: all parts, the system and room, in steps of 10; never
    less than the default.
    """
    total = (disk.weights + disk.image + disk.saved + host.used_gib) * (1 + ROOM) + ROOM_GIB
    return max(host.default_gib, host.image_gib, int(-(-total // STEP_GIB)) * STEP_GIB)


def rate_mib_s(disk_gib: int, host: Host) -> float:
    """How fast a download lands there: at the network's speed or the disk's, whichever is less."""
    return (
        min(NETWORK_MIB_S, host.write_mib_s + host.write_mib_s_per_gib * disk_gib)
        if host.write_mib_s
        else NETWORK_MIB_S
    )


def load_s(disk: Disk, disk_gib: int, host: Host) -> float:
    """Seconds from boot to the first answer: image and weights fetched, then loaded. Assumes what
    stands above.
    """
    return (
        START_S
        + (disk.image + disk.weights) * 1024 / rate_mib_s(disk_gib, host)
        + disk.weights * 1024 / TO_GPU_MIB_S
    )


def downloaded(model: Architecture, task_dtype: str) -> str:
    """The format in which a model's weights are fetched."""
    if model.dtype in DOWNLOADED:
        return model.dtype
    return (
        task_dtype
        if task_dtype in DOWNLOADED - {"fp8"} or task_dtype in memory.LLAMA_CPP
        else model.dtype
    )


def _downloads(workload: Workload, override: Override | None) -> list[tuple[Architecture, str]]:
    tasks = [
        settled(
            task._replace(dtype=override.dtype) if override is not None and override.dtype else task
        )
        for task in workload.tasks
    ]
    found = [(known(task.model), task.dtype) for task in tasks]
    return [(model, downloaded(model, dtype)) for model, dtype in found if model is not None]


def _saved(workload: Workload) -> float:
    """Checkpoints of a training run whose model is known."""
    training = workload.training
    model = known(workload.tasks[0].model) if training is not None and workload.tasks else None
    if training is None or model is None:
        return 0.0
    trained = (
        model.parameters
        if training.method == "full"
        else memory.adapter_parameters(model, ADAPTER_RANK)
    )
    return CHECKPOINTS * trained * SAVED_BYTES / memory.GIB


ADAPTER_RANK = 16
"""The rank that sizing assumes of adapters."""
