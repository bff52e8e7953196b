"""The section `workload` of a cluster as users write it. Owns its fields, their types and the rules
between them. No I/O.

Imported with `providers.model.spec`, never on the way to a plan without a workload.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from math import isfinite
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from providers.errors import Problem
from providers.model import duration, wording
from providers.model.workload import Checkpoint as CheckpointRecord
from providers.model.workload import Task as TaskRecord
from providers.model.workload import Training as TrainingRecord
from providers.model.workload import Workload as WorkloadRecord

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

SSH_PORT = 22
FILES_MAX_BYTES = 8 * 1024
"""All files together, gzipped and in base64: they travel in the start-up script, and EC2 takes 16
KB of that.
"""

_ENV = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")
_TAKEN = re.compile(r"^(PATH|LD_.*|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|GPUS_.*)\Z")
"""Variables that the start-up script's own shell and tools would heed, or that it tells its
programs by.
"""
_TASK = re.compile(r"^[a-z][a-z0-9-]{0,30}$")
_ARG = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")
_PATH = re.compile(r"^(/|~/)?[A-Za-z0-9._][A-Za-z0-9._/-]*$")
_IMAGE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$")
_BUCKET = re.compile(
    r"^(gs|s3)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]*)?$|^volume:[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
)
_MODEL = re.compile(r"^[A-Za-z0-9./~_][A-Za-z0-9._:/~-]{0,254}$")


def _no_store(text: str) -> tuple[str, str, str]:
    """(wanted, found, what to do) of a text that is no store: which part of it is wrong."""
    scheme, _, rest = text.partition("://")
    bucket = rest.partition("/")[0]
    if scheme not in {"gs", "s3"} or not bucket:
        return "gs://BUCKET/PATH, s3://BUCKET/PATH or volume:NAME", text, ""
    if not _BUCKET.match(f"{scheme}://{bucket}"):
        return (
            "a bucket's name of 3 to 63 lowercase letters, digits and . _ -",
            bucket,
            f"name yours, as in {scheme}://my-bucket/train",
        )
    return (
        f"a path in {scheme}://{bucket} of letters, digits and . _ - /",
        rest.partition("/")[2],
        "rename the folder",
    )


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


class Train(_Part):
    """For time and cost in the plan: tokens and method, or hours measured on one GPU of a type."""

    method: Literal["full", "lora", "qlora"] = "full"
    tokens: RealNumber | str = 0
    sequence: Annotated[
        int, BeforeValidator(tokens_of), Field(ge=1, le=10_000_000, strict=True)
    ] = 2048
    batch: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 1
    hours: Mapping[str, RealNumber] = {}


class _Program(_Part):
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


class Task(_Program):
    """One of several programs on a machine, pinned to some of its GPUs."""

    name: str
    gpus: tuple[Annotated[int, Field(ge=0, le=63, strict=True)], ...] = ()


class Workload(_Program):
    """What runs: a `command`, or a `launcher` with its own fields, or several `services`. See
    docs/how-to/workloads.md.
    """

    services: tuple[Task, ...] = ()
    image: str = ""
    setup: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
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
        )


def problems(workload: Workload, kind: str, gpu_count: int) -> list[Problem]:
    """What is wrong with a section beyond types, for a cluster of this kind with so many GPUs in a
    machine. Paths begin with `workload`.
    """
    found: list[Problem] = []

    def bad(path: str, wanted: str, value: object, todo: str = "") -> None:
        found.append(Problem(f"workload.{path}", wanted, wording.shown(value), todo))

    single = bool(workload.launcher or workload.command)
    if single == bool(workload.services):
        bad(
            "services" if single else "command",
            "a command or a launcher, or services",
            "both" if single else None,
        )
    if single:
        found.extend(_of_task("workload.", workload, kind, gpu_count))
    for index, each in enumerate(workload.services):
        found.extend(_of_task(f"workload.services[{index}].", each, kind, gpu_count))
    names = [each.name for each in workload.services]
    if len(set(names)) != len(names):
        bad("services", "each name once", names)
    ports = [each.port for each in workload.services if each.port]
    if len(set(ports)) != len(ports):
        bad("services", "each port once", ports)
    pinned = [gpu for each in workload.services for gpu in each.gpus]
    if len(set(pinned)) != sum(len(set(each.gpus)) for each in workload.services):
        bad(
            "services",
            "each GPU for one of them",
            sorted({gpu for gpu in pinned if pinned.count(gpu) > 1}),
        )
    if any("\x00" in line for line in workload.setup):
        bad("setup", "lines without NUL", next(line for line in workload.setup if "\x00" in line))
    if not _one_line(workload.resume):
        bad("resume", "one line", workload.resume)
    if workload.image and not _IMAGE.match(workload.image):
        bad(
            "image",
            "a registry image such as pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
            workload.image,
        )
    for target, content in workload.files.items():
        if not _PATH.match(target) or ".." in target.split("/"):
            bad("files", "paths of letters, digits, . _ / and -, without ..", target)
        elif not _packed(content):
            bad(
                f"files.{target}",
                "the content of a local file, packed",
                content[:20],
                "in a stack file write the path of the local file",
            )
    if sum(map(len, workload.files.values())) > FILES_MAX_BYTES:
        total = sum(map(len, workload.files.values()))
        bad(
            "files",
            f"at most {FILES_MAX_BYTES:,} bytes, packed",
            f"{total:,} bytes",
            "put them into an image, a repository (setup: git clone ...) or a bucket",
        )
    kept = workload.checkpoint
    if kept is not None:
        if not _BUCKET.match(kept.to):
            bad("checkpoint.to", *_no_store(kept.to))
        if not _PATH.match(kept.path) or ".." in kept.path.split("/"):
            bad("checkpoint.path", "a path on the machine, without ..", kept.path)
        elif not kept.path.startswith("/"):
            bad(
                "checkpoint.path",
                "a path from the root, as in /ckpt: it is the same inside a container and outside",
                kept.path,
            )
        try:
            if duration.seconds(kept.every) < 10:
                bad("checkpoint.every", "at least 10s", kept.every)
        except ValueError:
            bad(
                "checkpoint.every",
                'a duration such as "5m"',
                kept.every,
                duration.remedy(kept.every),
            )
    if workload.resume and kept is None:
        bad("resume", "a checkpoint to resume from", None, "set checkpoint, or leave resume out")
    if kind == "service" and workload.on_done == "keep":
        bad("on_done", "nothing for a service: it does not end", "keep", "leave it out")
    if workload.train is not None:
        found.extend(_of_training(workload.train))
        if workload.train.tokens and not any(each.model for each in (workload, *workload.services)):
            bad(
                "train.tokens",
                "a model, whose size says how long so many tokens take",
                "none",
                "set model, as in model: 7b; or measured hours instead",
            )
    return found


def _one_line(text: str) -> bool:
    return not any(each in text for each in "\n\r\x00")


def _packed(content: str) -> bool:
    try:
        return base64.b64decode(content, validate=True)[:2] == b"\x1f\x8b"
    except ValueError:
        return False


def _of_task(at: str, task: _Program, kind: str, gpu_count: int) -> list[Problem]:
    found: list[Problem] = []

    def bad(path: str, wanted: str, value: object, todo: str = "") -> None:
        found.append(Problem(f"{at}{path}", wanted, wording.shown(value), todo))

    server = task.launcher in SERVERS
    if isinstance(task, Task):
        if not _TASK.match(task.name):
            bad(
                "name",
                "lowercase letters, digits and -, at most 31, starting with a letter",
                task.name,
            )
        if not task.launcher and not task.command:
            bad("command", "a command or a launcher", None)
        outside = [each for each in task.gpus if each >= gpu_count]
        if outside:
            bad("gpus", f"GPUs from 0 to {gpu_count - 1}", outside)
        if len(set(task.gpus)) != len(task.gpus):
            bad("gpus", "each GPU once", list(task.gpus))
    if task.launcher and not server and not task.command:
        bad("command", f"what {task.launcher} starts, as in 'train.py --epochs 3'", None)
    if server and kind == "job":
        bad("launcher", "one that ends, for a job", task.launcher, "set kind: service")
    if kind == "service" and not server and not task.port:
        bad("port", "the port that the service listens at", None)
    if task.port == SSH_PORT:
        bad("port", "another one than 22, where ssh listens", task.port)
    if server and not task.model and task.launcher not in {"comfyui", "sd-webui"}:
        bad("model", f"the model that {task.launcher} serves", None)
    if task.model and not _MODEL.match(task.model):
        bad(
            "model", "a name such as meta-llama/Llama-3.1-70B, or a path on the machine", task.model
        )
    if task.command and not task.command.strip():
        bad("command", "a command", task.command)
    if not _one_line(task.command):
        bad(
            "command",
            "one line",
            task.command,
            "put several lines into a script and send it with files",
        )
    for name in task.env:
        if not _ENV.match(name):
            bad("env", "names of letters, digits and _", name)
        elif _TAKEN.match(name):
            todo = (
                "GPUS_* are ours"
                if name.startswith("GPUS_")
                else f"for one program set it in the command: env {name}=... PROGRAM"
            )
            bad(
                f"env.{name}",
                "a variable that does not decide which programs run, or how",
                name,
                todo,
            )
    for name, value in task.env.items():
        if "\x00" in value:
            bad(f"env.{name}", "a text without NUL", value)
    for name in task.args:
        if not _ARG.match(name):
            bad("args", "names of letters, digits, . _ and -, as in max-num-seqs", name)
    for name, given in task.args.items():
        if isinstance(given, float) and not isfinite(given):
            bad(f"args.{name}", "a finite number", given)
        elif isinstance(given, str) and not _one_line(given):
            bad(f"args.{name}", "one line", given)
    if task.health and not re.match(r"^/[A-Za-z0-9._/-]*$", task.health):
        bad("health", "a path such as /health", task.health)
    if task.health and not (task.port or server):
        bad("health", "a port to ask at", None, "set port")
    return found


def _of_training(train: Train) -> list[Problem]:
    found: list[Problem] = []
    if isinstance(train.tokens, str) and _amount(train.tokens) is None:
        found.append(
            Problem("workload.train.tokens", "a number such as 1B", repr(train.tokens)[:80])
        )
    elif not isinstance(train.tokens, str) and not 0 <= train.tokens < float("inf"):
        found.append(Problem("workload.train.tokens", "a positive number", repr(train.tokens)))
    if len(train.hours) > 1:
        found.append(
            Problem(
                "workload.train.hours",
                "hours on one GPU, as in {T4: 5}",
                repr(dict(train.hours))[:80],
            )
        )
    for gpu, hours in train.hours.items():
        if not 0 < hours < float("inf"):
            found.append(Problem(f"workload.train.hours.{gpu}", "more than 0 hours", repr(hours)))
    if train.hours and train.tokens:
        found.append(Problem("workload.train", "tokens or hours", "both"))
    return found


def _amount(text: str) -> float | None:
    match = re.match(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMbBtT]?)\s*$", text)
    return (
        float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[match[2].lower()]
        if match
        else None
    )


def _training(train: Train) -> TrainingRecord:
    tokens = _amount(train.tokens) or 0.0 if isinstance(train.tokens, str) else float(train.tokens)
    gpu, hours = next(iter(train.hours.items()), ("", 0.0))
    return TrainingRecord(train.method, tokens, train.sequence, train.batch, float(hours), gpu)


def _task(task: _Program, name: str) -> TaskRecord:
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
