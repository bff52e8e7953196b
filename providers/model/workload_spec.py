"""The section `workload` of a cluster as users write it. Owns its fields, their types and the rules
between them. No I/O.

Imported with `providers.model.spec`, never on the way to a plan without a workload.
"""

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
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Checkpoint(_Part):
    """`path` on the machine is kept at `to` (`gs://`, `s3://` or `volume:NAME` on Modal), every so
    often and at the end.
    """

    path: str = Field(description="The folder on the machine.")
    to: str = Field(description="Where it is kept.")
    every: str | WholeNumber = Field(
        default="5m", description="How often it is saved; at the end too."
    )


class Mount(_Part):
    """A bucket's folder (`gs://`, `s3://`), read-only unless `mode` is `rw`."""

    source: str = Field(description="The bucket's URL, with a folder or without.")
    mode: Literal["ro", "rw"] = Field(default="ro", description="Read-only, or read and write.")


class VolumeUse(_Part):
    """A volume of the stack as the folder `path`. Where it stands is filled in from its
    declaration.
    """

    path: str = Field(description="The folder where it is mounted.")
    mode: Literal["ro", "rw"] = Field(default="rw", description="Read-only, or read and write.")
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

    username: str = Field(default="", description="Who signs in.")
    password: Mapping[str, str] = Field(
        default={}, description="A reference to the password, for each provider. Never a value."
    )
    identity: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="`true`: the machine signs in as itself."
    )


class Train(_Part):
    """For time and cost in the plan: tokens and method, or hours measured on one GPU of a type."""

    method: Literal["full", "lora", "qlora"] = Field(
        default="full", description="All weights, or adapters."
    )
    tokens: RealNumber | str = Field(
        default=0, description="Tokens to train on in all, as in `1B`."
    )
    sequence: Annotated[
        int, BeforeValidator(tokens_of), Field(ge=1, le=10_000_000, strict=True)
    ] = Field(default=2048, description="Tokens in one training sequence, as in `2k`.")
    batch: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        default=1, description="Sequences on each GPU at once."
    )
    hours: Mapping[str, RealNumber] = Field(
        default={},
        description="Instead of `tokens`: hours measured on one GPU of a type, as in `{T4: 5}`.",
    )


class Program(_Part):
    """What one program is, whether it is the only one or one of several."""

    launcher: Launcher | None = Field(
        default=None,
        description=(
            "A recipe, whose flags follow the placement that was acquired (8 GPUs, or 4 of a "
            "fallback)."
        ),
    )
    command: str = Field(
        default="", description="Lines for the shell, which end at the first that fails."
    )
    model: str = Field(
        default="",
        description="What a launcher serves: a published name, or a path on the machine.",
    )
    dtype: DTYPES | None = Field(default=None, description="The number format of the weights.")
    context: (
        Annotated[int, BeforeValidator(tokens_of), Field(ge=1, le=100_000_000, strict=True)] | None
    ) = Field(default=None, description="Tokens in each sequence, as in `32k`.")
    concurrency: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = Field(
        default=None, description="Sequences at once."
    )
    args: Mapping[str, Value] = Field(
        default={},
        description="Further flags of the launcher; yours stay where the recipe has one too.",
    )
    env: Mapping[str, str] = Field(
        default={}, description="Plain variables; not `PATH`, `LD_*` and the like, nor `GPUS_*`."
    )
    port: Annotated[int, Field(ge=1, le=65_535, strict=True)] | None = Field(
        default=None, description="Where a service listens."
    )
    health: str = Field(
        default="",
        description=("The path that answers 200 once it works. The service is launched only then."),
    )


class Task(Program):
    """One of several programs on a machine, pinned to some of its GPUs."""

    name: str = Field(description="Its name, unique on the machine.")
    gpus: tuple[Annotated[int, Field(ge=0, le=63, strict=True)], ...] = Field(
        default=(), description="The GPUs that it sees, by number from 0."
    )


class Workload(Program):
    """What runs: a `command`, or a `launcher` with its own fields, or several `services`. See
    docs/how-to/workloads.md.
    """

    services: tuple[Task, ...] = Field(
        default=(), description="Several programs on one machine, each with fields of its own."
    )
    image: str = Field(
        default="", description="A container. Without one, the workload runs on the machine itself."
    )
    registry: Registry | None = Field(
        default=None, description="How the machine signs in to the registry of a private `image`."
    )
    setup: tuple[str, ...] = Field(
        default=(),
        description=(
            "Lines to run once, where the command runs: inside the `image` where there is one."
        ),
    )
    files: Mapping[str, str] = Field(
        default={},
        description=(
            "Path here to path there, in the home folder, where the command runs unless there is "
            "a `workdir`. 8 KB packed; for more use `workdir`, an image or a bucket."
        ),
    )
    mounts: Mapping[str, Annotated[Mount, BeforeValidator(_mount)]] = Field(
        default={},
        description=(
            "Buckets (`gs://`, `s3://`) as folders, by path: a URL, or `source` and `mode`."
        ),
    )
    volumes: Mapping[str, Annotated[VolumeUse, BeforeValidator(_volume)]] = Field(
        default={},
        description="Volumes of the stack as folders, by name: a path, or `path` and `mode`.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None,
        description=(
            "A folder that is kept elsewhere: restored at the start, saved every so often and at "
            "the end."
        ),
    )
    resume: str = Field(
        default="", description="Added to the command once a checkpoint was restored."
    )
    on_done: Literal["release", "keep"] = Field(
        default="release", description="What becomes of a job's machine when the job ends."
    )
    train: Train | None = Field(
        default=None,
        description=(
            "`hours`, or `tokens` and `method`: the plan then shows hours and dollars of the run,"
            " and `rank: performance_per_dollar` goes by it."
        ),
    )

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
