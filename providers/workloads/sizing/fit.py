"""Whether a placement holds what is to run on it: the planner's rule `fits`, and what a run costs
there. Pure, apart from bundled tables.

Owns the joining of a workload with the sizing. A model that is neither bundled nor a size is not
judged here: nothing is refused on a guess.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.catalog.hardware import hardware
from providers.model import images
from providers.model.workload import is_path
from providers.workloads.launch.flags import given, merged
from providers.workloads.sizing import disk, gpus, memory, parallelism, throughput
from providers.workloads.sizing.architecture import known
from providers.workloads.sizing.flag_effects import Counted, counted, settled
from providers.workloads.sizing.gpus import NO, Serve, Train, Verdict
from providers.workloads.sizing.quantization import GROUPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.workload import Override, Task, Workload
    from providers.workloads.sizing.architecture import Architecture

ANY = (99, 0)
_LEAST_CUDA = (
    (12.0, (12, 8)),
    (10.0, (12, 8)),
    (8.9, (11, 8)),
    (8.6, (11, 1)),
    (8.0, (11, 0)),
    (7.5, (10, 0)),
)
"""(compute capability, first CUDA release that compiles for it), the highest first. NVIDIA's CUDA
release notes, as remembered 2026-11.
"""
_LAST_CUDA = ((7.0, (12, 9)), (6.0, (12, 9)), (3.5, (11, 8)))
"""(compute capability from which on, last release): CUDA 13 dropped Maxwell, Pascal and Volta, CUDA
12 Kepler. Same source.
"""


LAYERS = frozenset({"llama.cpp", "ollama"})
SERVED = LAYERS | {"vllm", "sglang", "tgi"}
"""Launchers that serve a language model."""


class Fit(NamedTuple):
    """What a placement means for a workload. `why` refuses it; nothing where it holds, or where
    that is not known. `job_hours` None: unknown.

    `remedy` names places that would hold what this one does not.
    """

    why: str = ""
    note: str = ""
    verdict: Verdict | None = None
    job_hours: float | None = None
    remedy: str = ""


def fit(
    workload: Workload, override: Override | None, gpu_type: str, gpu_count: int, nodes: int
) -> Fit:
    """The answer for one placement, remembered. `override` is the fallback entry's."""
    return _fit(workload, override, gpu_type, gpu_count, nodes)


@lru_cache(maxsize=4096)
def _fit(
    workload: Workload,
    override: Override | None,
    gpu_type: str,
    gpu_count: int,
    nodes: int,
    *,
    remedy: bool = True,
) -> Fit:
    if why := cuda(disk.image(workload), gpu_type):
        return Fit(why)
    best: Fit = Fit()
    for task in workload.tasks:
        changed = overridden(task, override)
        found = _task(workload, changed, gpu_type, len(task.gpus) or gpu_count, nodes)
        if found.why:
            near = (
                _remedy(workload, override, gpu_type, gpu_count, nodes)
                if remedy and len(workload.tasks) == 1
                else ""
            )
            return Fit(
                f"{task.name}: {found.why}" if len(workload.tasks) > 1 else found.why,
                verdict=found.verdict,
                remedy=near,
            )
        best = best if best.verdict is not None else found
    return best._replace(job_hours=hours(workload, override, gpu_type, gpu_count, nodes))


def overridden(task: Task, override: Override | None) -> Task:
    """The task as a fallback entry changes it, its fields saying what its flags say."""
    if override is None:
        return settled(task)
    args = merged(task.launcher, task.args, override.args)
    return settled(
        task._replace(
            dtype=override.dtype or task.dtype, command=override.command or task.command, args=args
        )
    )


def _task(workload: Workload, task: Task, gpu_type: str, gpu_count: int, nodes: int) -> Fit:
    if task.dtype and (why := memory.lacks(gpu_type, task.dtype)):
        return Fit(why)
    model = known(task.model)
    if model is None:
        return Fit()
    training = workload.training
    work: Serve | Train
    if training is not None:
        dtype = task.dtype if task.dtype in {"bf16", "fp16", "fp32"} else "bf16"
        work = Train(
            training.method, training.tokens, training.sequence, training.batch, dtype=dtype
        )
    elif task.launcher in SERVED:
        if why := _unlike(task, model):
            return Fit(why)
        said = counted(task)
        if said.unread:
            return Fit()
        if said.whole_experts:
            model = model._replace(expert_intermediate=0)  # not cut, each GPU has some of them
        split = (
            parallelism.LAYERS
            if task.launcher in LAYERS
            else parallelism.TENSOR
            if task.launcher == "tgi"
            else ""
        )
        work = Serve(
            served(model, task.dtype),
            context(task, model),
            task.concurrency or 1,
            said.cache_dtype,
            split,
            said.layout,
            said.share,
            said.static,
            said.gpu_layers,
        )
    else:
        return Fit()
    if task.launcher == "tgi":
        nodes = 1
    verdict = gpus.judge(model, work, gpu_type, gpu_count, nodes)
    if verdict.answer == NO:
        return Fit(verdict.reason, verdict=verdict)
    how = (
        verdict.reason
        if verdict.reason.startswith(verdict.split)
        else f"{verdict.split}, {verdict.reason}"
    )
    note = (
        f"{model.name} in {work.dtype}: {how}"
        if verdict.need is not None
        else f"fit not checked: {verdict.reason}"
    )
    return Fit("", note, verdict)


MAKES = {"vllm": ("fp8", "nf4"), "sglang": ("fp8",), "tgi": ("fp8", "int8", "nf4")}
"""What a server makes of 16-bit weights as it loads them, by its line; every other format must be
the checkpoint's own.
"""


def _unlike(task: Task, model: Architecture) -> str:
    """Why a server can't have the weights in the format that is wanted, of a checkpoint that is
    known; nothing where it can.
    """
    makes, own = MAKES.get(task.launcher), model.quantization
    if makes is None or model.estimated or task.dtype in {"", "bf16", "fp16", "fp32"}:
        return ""
    if own is not None:
        same = task.dtype == own.dtype or (own.dtype == "int8" and task.dtype in GROUPED)
        return (
            ""
            if same
            else (
                f"{task.model} is published in {own.dtype}, not in {task.dtype}: leave dtype out,"
                f" or name a checkpoint in {task.dtype}"
            )
        )
    if task.dtype in makes or not {"quantization", "q", "quantize"}.isdisjoint(given(task)):
        return ""
    able = f"{task.launcher} makes {' and '.join(makes)} of such weights"
    return (
        f"{task.model} is published in {model.dtype}, not in {task.dtype}: name a checkpoint in"
        f" {task.dtype} as model ({able})"
    )


def served(model: Architecture, dtype: str) -> str:
    """The format that the weights have while they are served. A quantised checkpoint stays so; a
    format of 16 bit is then that of its arithmetic.
    """
    return (
        model.dtype
        if not dtype or (model.quantization is not None and dtype in {"bf16", "fp16", "fp32"})
        else dtype
    )


def context(task: Task, model: Architecture | None) -> int:
    """How many tokens of context a server's plan counts on, and its command line asks for; 0 where
    no model is known: the program's own choice.
    """
    return task.context or (min(8192, model.max_context or 8192) if model is not None else 0)


def hours(
    workload: Workload, override: Override | None, gpu_type: str, gpu_count: int, nodes: int
) -> float | None:
    """Hours of the training run there: from tokens, or from hours measured on one GPU (the longer
    of the two ratios). None where unknown.
    """
    training = workload.training
    if training is None:
        return None
    task = overridden(workload.tasks[0], override)
    dtype = task.dtype if task.dtype in {"bf16", "fp16", "fp32"} else "bf16"
    if training.hours:
        card = names.canonical(training.hours_on)
        scaled = throughput.scaled_hours(
            training.hours,
            training.hours_on if card is None else names.accepts(card)[0],
            gpu_type,
            dtype,
        )
        return None if scaled is None else scaled[1] / (gpu_count * nodes)
    model = known(task.model)
    if model is None or not training.tokens:
        return None
    verdict = gpus.judge(
        model,
        Train(training.method, training.tokens, training.sequence, training.batch, dtype=dtype),
        gpu_type,
        gpu_count,
        nodes,
    )
    return verdict.hours


def unchecked(
    workload: Workload, overrides: Sequence[Override | None] = (None,)
) -> tuple[str, ...]:
    """Why it can't be said whether a placement holds this, one line for each program; nothing where
    it can, or where no model is named.

    `overrides` are those of the choices: what their flags say counts for them.
    """
    tasks = [overridden(task, each) for each in overrides for task in workload.tasks]
    found = (
        text
        for task in tasks
        for text in (_unloadable(task), _unfetched(workload, task), _unchecked(workload, task))
    )
    return tuple(dict.fromkeys(text for text in found if text))


def _unfetched(workload: Workload, task: Task) -> str:
    """A model that is a path on a machine on which nothing declared puts anything."""
    if (
        not is_path(task.model)
        or workload.setup
        or workload.image
        or workload.files
        or workload.checkpoint is not None
    ):
        return ""
    return (
        f"{task.model} is a path on the machine, and nothing puts a model there: setup may fetch"
        " it, an image or a disk image may hold it"
    )


def _unloadable(task: Task) -> str:
    """Why a program of llama.cpp's kind finds nothing to load in a model whose configuration is
    known: such a repository holds no GGUF.
    """
    if task.launcher not in LAYERS or known(task.model) is None:
        return ""
    how = (
        "as its library does, as in llama3.1:8b, or hf.co/OWNER/NAME-GGUF:Q4_K_M"
        if task.launcher == "ollama"
        else "as in OWNER/NAME-GGUF"
    )
    return (
        f"{task.model} holds no GGUF file, which {task.launcher} loads: name one that does, {how}"
    )


def _unchecked(workload: Workload, task: Task) -> str:
    if not task.model:
        return ""
    trained = workload.training is not None
    if known(task.model) is None:
        if trained and workload.training is not None and workload.training.hours:
            return ""  # measured where it ran
        kind = f"--train {workload.training.method}" if workload.training is not None else "--serve"
        what = (
            "SIZE"
            if task.launcher in LAYERS or task.model.lower().endswith(("gguf", ".gguf"))
            else "config.json"
        )
        how = (
            f"`gpus size {what} {kind} --dtype q4_k_m`, SIZE as in 8b,"
            if what == "SIZE"
            else f"`gpus size PATH/{what} {kind}`"
        )
        return (
            f"fit not checked: no configuration of {task.model} is known; {how} says what holds it"
        )
    if not trained and task.launcher not in SERVED:
        return (
            f"fit not checked: {task.model} may be trained or served by this command;"
            " workload.train says how it is trained (full, lora or qlora)"
        )
    said = Counted() if trained else counted(task)
    if said.unread:
        return f"fit not checked: {said.unread}"
    return f"fit checked without what {said.without} adds" if said.without else ""


CARDS = ("L4", "L40S", "A100-80GB", "RTX-PRO-6000", "H100", "H200", "B200")
"""What is proposed besides more of the same card, the smallest first."""
COUNTS = (1, 2, 4, 8)


def _remedy(
    workload: Workload, override: Override | None, gpu_type: str, gpu_count: int, nodes: int
) -> str:
    """Which placements near a refused one hold it: more of the same card, and the smallest other
    card; nothing where none does.
    """
    more = [(gpu_type, count, nodes) for count in COUNTS if count > gpu_count]
    other = [(card, gpu_count, nodes) for card in CARDS if card != gpu_type]
    larger = [("H200", 8, nodes), ("B200", 8, nodes), ("H200", 8, nodes + 1)]
    found = [
        next(
            (place for place in places if not _fit(workload, override, *place, remedy=False).why),
            None,
        )
        for places in (more, other)
    ]
    fitting = [place for place in found if place is not None] or [
        place
        for place in larger
        if place[1:] != (gpu_count, nodes)
        and not _fit(workload, override, *place, remedy=False).why
    ][:1]
    texts = [
        f"{card}:{count}" + (f" on {several} nodes" if several > 1 else "")
        for card, count, several in fitting
    ]
    return f"{' or '.join(texts)} would hold it" if texts else ""


def cuda(image: str, gpu_type: str) -> str:
    """Why an image's CUDA can't drive this card; nothing where it can, or where the image's tag
    does not say its CUDA.
    """
    release, found = images.cuda(image), hardware(gpu_type)
    if found is not None and found.vendor == "NVIDIA" and (whose := images.other(image)):
        return f"{image} is made for {whose}, {gpu_type} is NVIDIA's: take its image for CUDA"
    if release is None or found is None:
        return ""
    try:
        capability = float(found.compute_capability)
    except ValueError:
        return ""
    least = next((first for from_on, first in _LEAST_CUDA if capability >= from_on), (0, 0))
    # Of an image that says its major alone, the minor is not held against it.
    if (release.major, ANY[0] if release.minor is None else release.minor) < least:
        return (
            f"{image} has CUDA {release}, {gpu_type} (compute capability {capability}) needs"
            f" {least[0]}.{least[1]} or newer"
        )
    last = (
        next((last for from_on, last in _LAST_CUDA if capability >= from_on), ANY)
        if capability < 7.5
        else ANY
    )
    if (release.major, release.minor or 0) > last:
        return (
            f"{image} has CUDA {release}, which dropped {gpu_type} (compute capability"
            f" {capability}): {last[0]}.{last[1]} is the last"
        )
    return ""
