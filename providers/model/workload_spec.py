"""The section `workload` of a cluster as users write it. Owns its fields, their types and the rules
between them. No I/O.

Imported with `providers.model.spec`, never on the way to a plan without a workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from providers.model import duration
from providers.model.volume_mount import VolumeMount
from providers.model.workload import Checkpoint as CheckpointRecord
from providers.model.workload import Mount as MountRecord
from providers.model.workload import Registry as RegistryRecord
from providers.model.workload import Task as TaskRecord
from providers.model.workload import Training as TrainingRecord
from providers.model.workload import Workload as WorkloadRecord
from providers.model.workload import registry_host

Value = str | int | float | bool
WholeNumber = Annotated[int, Field(strict=True)]
"""Never a boolean, which pydantic else takes for 0 or 1."""
RealNumber = Annotated[float, Field(strict=True)]
"""Of a whole number too; never a boolean, nor a text."""
Number = WholeNumber | RealNumber
Launcher = Literal[
    "torchrun",
    "accelerate",
    "deepspeed",
    "kohya",
    "lightning",
    "ray",
    "mpi",
    "vllm",
    "sglang",
    "tgi",
    "ollama",
    "llama.cpp",
    "comfyui",
    "sd-webui",
    "flux",
]
SERVERS = frozenset({"vllm", "sglang", "tgi", "ollama", "llama.cpp", "comfyui", "sd-webui", "flux"})
"""Launchers whose program listens; all others run a command to its end."""
DTYPES = Literal[
    "fp32",
    "bf16",
    "fp16",
    "fp8",
    "int8",
    "awq",
    "gptq",
    "int4",
    "nf4",
    "fp4",
    "mxfp4",
    "q8_0",
    "q6_k",
    "q5_k_m",
    "q4_k_m",
]


def tokens_of(value: object) -> object:
    """`32k` of a sequence's tokens as 32768, `"8192"` as 8192, `1m` as a million; anything else as
    it is, for a type to refuse.
    """
    match = (
        re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([kKmM]?)\s*", value, re.ASCII)
        if isinstance(value, str)
        else None
    )
    total = float(match[1]) * {"": 1, "k": 1024, "m": 1_000_000}[match[2].lower()] if match else 0.5
    return int(total) if total == int(total) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Checkpoint(_Part):
    """`path` on the machine is kept at `to` (`gs://`, `s3://` or `volume:NAME` on Modal), every so
    often and at the end.
    """

    path: str
    to: str
    every: str | WholeNumber = "5m"


class Mount(_Part):
    """A bucket's folder (`gs://`, `s3://`), read-only unless `mode` is `rw`."""

    source: str
    mode: Literal["ro", "rw"] = "ro"


class VolumeUse(_Part):
    """A volume of the stack as the folder `path`. Where it stands is filled in from its
    declaration.
    """

    path: str
    mode: Literal["ro", "rw"] = "rw"
    provider: str = ""
    place: str = ""
    type: str = ""


def _volume(value: object) -> object:
    """A path stands for a volume that is written to."""
    return {"path": value} if isinstance(value, str) else value


def _mount(value: object) -> object:
    """A bucket's URL stands for a mount of it."""
    return {"source": value} if isinstance(value, str) else value


class Registry(_Part):
    """How a machine signs in to the registry of its image: with a `username` and a reference to its
    password for each provider, or by its own `identity`.
    """

    username: str = ""
    password: Mapping[str, str] = {}
    identity: Annotated[bool, Field(strict=True)] = False


class Train(_Part):
    """For time and cost in the plan: tokens and method, or hours measured on one GPU of a type."""

    method: Literal["full", "lora", "qlora"] = "full"
    tokens: RealNumber | str = 0
    sequence: Annotated[
        int, BeforeValidator(tokens_of), Field(ge=1, le=10_000_000, strict=True)
    ] = 2048
    batch: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 1
    hours: Mapping[str, RealNumber] = {}


class Program(_Part):
    """What one program is, whether it is the only one or one of several."""

    launcher: Launcher | None = None
    command: str = ""
    model: str = ""
    dtype: DTYPES | None = None
    context: (
        Annotated[int, BeforeValidator(tokens_of), Field(ge=1, le=100_000_000, strict=True)] | None
    ) = None
    concurrency: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None
    args: Mapping[str, Value] = {}
    env: Mapping[str, str] = {}
    port: Annotated[int, Field(ge=1, le=65_535, strict=True)] | None = None
    health: str = ""


class Task(Program):
    """One of several programs on a machine, pinned to some of its GPUs."""

    name: str
    gpus: tuple[Annotated[int, Field(ge=0, le=63, strict=True)], ...] = ()


class Workload(Program):
    """What runs: a `command`, or a `launcher` with its own fields, or several `services`. See
    docs/how-to/workloads.md.
    """

    services: tuple[Task, ...] = ()
    image: str = ""
    registry: Registry | None = None
    setup: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    mounts: Mapping[str, Annotated[Mount, BeforeValidator(_mount)]] = {}
    volumes: Mapping[str, Annotated[VolumeUse, BeforeValidator(_volume)]] = {}
    checkpoint: Checkpoint | None = None
    resume: str = ""
    on_done: Literal["release", "keep"] = "release"
    train: Train | None = None

    def record(self) -> WorkloadRecord:
        """The plain form. Of a section that `problems` found nothing wrong with."""
        own = _task(self, "main") if self.launcher or self.command else None
        tasks = tuple(_task(each, each.name) for each in self.services) if own is None else (own,)
        kept, trained = self.checkpoint, self.train
        return WorkloadRecord(
            tasks=tasks,
            image=self.image,
            setup=tuple(self.setup),
            files=tuple(sorted(self.files.items())),
            checkpoint=(
                None
                if kept is None
                else CheckpointRecord(kept.path, kept.to, duration.seconds(kept.every))
            ),
            resume=self.resume,
            on_done=self.on_done,
            training=None if trained is None else _training(trained),
            mounts=tuple(
                MountRecord(path, each.source, each.mode == "rw")
                for path, each in sorted(self.mounts.items())
            ),
            volumes=tuple(
                VolumeMount(
                    name, each.path, each.mode == "rw", each.provider, each.place, each.type
                )
                for name, each in sorted(self.volumes.items())
            ),
            registry=(
                None
                if self.registry is None
                else RegistryRecord(registry_host(self.image), self.registry.username)
            ),
        )


def amount(text: str) -> float | None:
    """`1.5B` as a number; None for what is none."""
    match = re.match(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMbBtT]?)\s*$", text)
    return (
        float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[match[2].lower()]
        if match
        else None
    )


def _training(train: Train) -> TrainingRecord:
    tokens = amount(train.tokens) or 0.0 if isinstance(train.tokens, str) else float(train.tokens)
    gpu, hours = next(iter(train.hours.items()), ("", 0.0))
    return TrainingRecord(train.method, tokens, train.sequence, train.batch, float(hours), gpu)


def _task(task: Program, name: str) -> TaskRecord:
    return TaskRecord(
        name=name,
        launcher=task.launcher or "",
        command=task.command.strip(),
        model=task.model,
        dtype=task.dtype or "",
        context=task.context or 0,
        concurrency=task.concurrency or 0,
        args=tuple(task.args.items()),
        env=tuple(sorted(task.env.items())),
        gpus=tuple(task.gpus) if isinstance(task, Task) else (),
        port=task.port or 0,
        health=task.health,
    )
