"""What is wrong with a declared workload beyond types."""

from __future__ import annotations

import base64
import itertools
import re
from math import isfinite

from providers.errors import Problem
from providers.model import duration, wording
from providers.model.workload_spec import (
    SERVERS,
    Checkpoint,
    Program,
    Registry,
    Task,
    Train,
    Workload,
    amount,
)


class _Faults:
    """Collects what is wrong under one path."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.found: list[Problem] = []

    def add(self, path: str, wanted: str, value: object, todo: str = "") -> None:
        """Notes that `value`, at this path, is not what was wanted."""
        self.found.append(Problem(f"{self.at}{path}", wanted, wording.shown(value), todo))


def problems(workload: Workload, kind: str, gpu_count: int) -> list[Problem]:
    """What is wrong with a section beyond types, for a cluster of this kind with so many GPUs in a
    machine. Paths begin with `workload`.
    """
    faults = _Faults("workload.")
    single = bool(workload.launcher or workload.command)
    if single == bool(workload.services):
        faults.add(
            "services" if single else "command",
            "a command or a launcher, or services",
            "both" if single else None,
            "write launcher: vllm, which serves the model" if workload.model and not single else "",
        )
    if single:
        faults.found.extend(_of_task("workload.", workload, kind, gpu_count))
    for index, each in enumerate(workload.services):
        faults.found.extend(_of_task(f"workload.services[{index}].", each, kind, gpu_count))
    _services(workload, faults)
    _setup(workload, faults)
    _files(workload, faults)
    _mounts(workload, faults)
    _volumes(workload, faults)
    if workload.registry is not None:
        _registry(workload.registry, workload.image, faults)
    if workload.checkpoint is not None:
        _checkpoint(workload.checkpoint, faults)
    elif workload.resume:
        faults.add(
            "resume", "a checkpoint to resume from", None, "set checkpoint, or leave resume out"
        )
    if kind == "service" and workload.on_done == "keep":
        faults.add("on_done", "nothing for a service: it does not end", "keep", "leave it out")
    if workload.train is not None:
        faults.found.extend(_of_training(workload.train))
        if workload.train.tokens and not any(each.model for each in (workload, *workload.services)):
            faults.add(
                "train.tokens",
                "a model, whose size says how long so many tokens take",
                "none",
                "set model, as in model: 7b; or measured hours instead",
            )
    return faults.found


def _services(workload: Workload, faults: _Faults) -> None:
    names = [each.name for each in workload.services]
    if len(set(names)) != len(names):
        faults.add("services", "each name once", names)
    ports = [each.port for each in workload.services if each.port]
    if len(set(ports)) != len(ports):
        faults.add("services", "each port once", ports)
    pinned = [gpu for each in workload.services for gpu in each.gpus]
    if len(set(pinned)) != sum(len(set(each.gpus)) for each in workload.services):
        twice = sorted({gpu for gpu in pinned if pinned.count(gpu) > 1})
        faults.add("services", "each GPU for one of them", twice)


def _setup(workload: Workload, faults: _Faults) -> None:
    if any("\x00" in line for line in workload.setup):
        nul = next(line for line in workload.setup if "\x00" in line)
        faults.add("setup", "lines without NUL", nul)
    if not _one_line(workload.resume):
        faults.add("resume", "one line", workload.resume)
    if workload.image and not _IMAGE.match(workload.image):
        faults.add(
            "image",
            "a registry image such as pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
            workload.image,
        )


def _registry(registry: Registry, image: str, faults: _Faults) -> None:
    if not image:
        faults.add("image", "the image that the machine signs in for", None)
    if registry.identity and (registry.username or registry.password):
        faults.add(
            "registry",
            "username and password, or identity: true",
            "both",
            "leave one out",
        )
    elif not registry.identity:
        if not _USER.match(registry.username):
            faults.add(
                "registry.username",
                "a name without spaces, or identity: true for the machine's own",
                registry.username or None,
            )
        if not registry.password:
            faults.add(
                "registry.password",
                "a reference for at least one provider",
                None,
                "refer to a secret as under secrets: docs/how-to/data.md",
            )


_USER = re.compile(r"^[^\s:\x00-\x1f]{1,255}\Z")
"""No colon: it ends the name in what is sent (RFC 7617)."""


def _files(workload: Workload, faults: _Faults) -> None:
    for target, content in workload.files.items():
        if not _PATH.match(target) or ".." in target.split("/"):
            faults.add("files", "paths of letters, digits, . _ / and -, without ..", target)
        elif not _packed(content):
            faults.add(
                f"files.{target}",
                "the content of a local file, packed",
                content[:20],
                "in a stack file write the path of the local file",
            )
    total = sum(map(len, workload.files.values()))
    if total > FILES_MAX_BYTES:
        faults.add(
            "files",
            f"at most {FILES_MAX_BYTES:,} bytes, packed",
            f"{total:,} bytes",
            "put them into an image, a repository (setup: git clone ...) or a bucket",
        )


def _folder(at: str, path: str, faults: _Faults) -> None:
    """A folder that something is mounted at."""
    if not _MOUNT.match(path) or ".." in path.split("/"):
        faults.add(at, "a folder from the root, as in /data, without ..", path)
    elif _SYSTEM.match(path):
        faults.add(
            at,
            "a folder that the system does not need",
            path,
            "choose one of its own, as in /data",
        )


def _volumes(workload: Workload, faults: _Faults) -> None:
    if len(workload.volumes) > MOUNTS_MAX:
        faults.add("volumes", f"at most {MOUNTS_MAX}", len(workload.volumes))
    for name, use in workload.volumes.items():
        _folder(f"volumes.{name}", use.path, faults)
        if not use.provider:
            faults.add(
                f"volumes.{name}",
                "a volume of this stack",
                None,
                "declare it under gpus:volumes, as in {provider: NAME, place: ZONE, size_gib: 500}",
            )


def _mounts(workload: Workload, faults: _Faults) -> None:
    mounted = workload.mounts
    if len(mounted) > MOUNTS_MAX:
        faults.add("mounts", f"at most {MOUNTS_MAX}", len(mounted))
    for path, mount in mounted.items():
        _folder(f"mounts.{path}", path, faults)
        if mount.source.startswith("volume:") or not _BUCKET.match(mount.source):
            wanted, found, todo = _no_store(mount.source)
            wanted = wanted.replace(", s3://BUCKET/PATH or volume:NAME", " or s3://BUCKET/PATH")
            faults.add(f"mounts.{path}", wanted, found, todo)
    kept = [workload.checkpoint.path] if workload.checkpoint is not None else []
    volumes = [use.path for use in workload.volumes.values()]
    folders = sorted(f"{path.rstrip('/')}/" for path in (*mounted, *volumes, *kept))
    faults.found.extend(
        Problem(
            f"{faults.at}mounts",
            "folders of which none is inside another, nor the checkpoint's",
            f"{outer.rstrip('/')} and {inner.rstrip('/')}",
            "choose folders side by side",
        )
        for outer, inner in itertools.pairwise(folders)
        if inner.startswith(outer)
    )


def _checkpoint(kept: Checkpoint, faults: _Faults) -> None:
    if not _BUCKET.match(kept.to):
        faults.add("checkpoint.to", *_no_store(kept.to))
    if not _PATH.match(kept.path) or ".." in kept.path.split("/"):
        faults.add("checkpoint.path", "a path on the machine, without ..", kept.path)
    elif not kept.path.startswith("/"):
        faults.add(
            "checkpoint.path",
            "a path from the root, as in /ckpt: it is the same inside a container and outside",
            kept.path,
        )
    try:
        if duration.declared(kept.every) < 10:
            faults.add("checkpoint.every", "at least 10s", kept.every)
    except ValueError:
        faults.add(
            "checkpoint.every",
            'a duration such as "5m"',
            kept.every,
            duration.remedy(kept.every, 10, "every"),
        )


def _one_line(text: str) -> bool:
    return not any(each in text for each in "\n\r\x00")


def _packed(content: str) -> bool:
    try:
        return base64.b64decode(content, validate=True)[:2] == b"\x1f\x8b"
    except ValueError:
        return False


def _of_task(at: str, task: Program, kind: str, gpu_count: int) -> list[Problem]:
    """What is wrong with one program."""
    faults = _Faults(at)
    if isinstance(task, Task):
        _named_task(task, gpu_count, faults)
    _launched(task, kind, faults)
    _command(task, faults)
    _environment(task, faults)
    _arguments(task, faults)
    if task.health and not re.match(r"^/[A-Za-z0-9._/-]*$", task.health):
        faults.add("health", "a path such as /health", task.health)
    # Of a service the port itself is missing, and told.
    if task.health and kind != "service" and not (task.port or task.launcher in SERVERS):
        faults.add("health", "a port to ask at", None, "set port")
    return faults.found


def _named_task(task: Task, gpu_count: int, faults: _Faults) -> None:
    if not _TASK.match(task.name):
        faults.add(
            "name",
            "lowercase letters, digits and -, at most 31, starting with a letter",
            task.name,
        )
    if not task.launcher and not task.command:
        faults.add("command", "a command or a launcher", None)
    outside = [each for each in task.gpus if each >= gpu_count]
    if outside:
        faults.add("gpus", f"GPUs from 0 to {gpu_count - 1}", outside)
    if len(set(task.gpus)) != len(task.gpus):
        faults.add("gpus", "each GPU once", list(task.gpus))


def _launched(task: Program, kind: str, faults: _Faults) -> None:
    server = task.launcher in SERVERS
    if task.launcher and not server and not task.command:
        faults.add("command", f"what {task.launcher} starts, as in 'train.py --epochs 3'", None)
    if server and kind == "job":
        faults.add("launcher", "one that ends, for a job", task.launcher, "set kind: service")
    if kind == "service" and not server and not task.port:
        todo = "say which, as in port: 8000"
        faults.add("port", "the port that the service listens at", None, todo)
    if task.port == SSH_PORT:
        faults.add("port", "another one than 22, where ssh listens", task.port)
    if server and not task.model and task.launcher not in {"comfyui", "sd-webui"}:
        todo = "name it as its hub does, as in model: Qwen/Qwen2.5-7B-Instruct"
        faults.add("model", f"the model that {task.launcher} serves", None, todo)
    if task.model and not _MODEL.match(task.model):
        faults.add(
            "model", "a name such as meta-llama/Llama-3.1-70B, or a path on the machine", task.model
        )


def _command(task: Program, faults: _Faults) -> None:
    if task.command and not task.command.strip():
        faults.add("command", "a command", task.command)
    if task.launcher and not _one_line(task.command):
        faults.add(
            "command",
            f"one line: what {task.launcher} starts",
            task.command,
            "put several lines into a script and send it with files",
        )
    elif any(each in task.command for each in "\r\x00"):
        faults.add("command", "lines without NUL and carriage return", task.command)


def _environment(task: Program, faults: _Faults) -> None:
    for name in task.env:
        if not _ENV.match(name):
            faults.add("env", "names of letters, digits and _", name)
        elif _TAKEN.match(name):
            todo = (
                "GPUS_* are ours"
                if name.startswith("GPUS_")
                else f"for one program set it in the command: env {name}=... PROGRAM"
            )
            faults.add(
                f"env.{name}",
                "a variable that does not decide which programs run, or how",
                name,
                todo,
            )
    for name, value in task.env.items():
        if "\x00" in value:
            faults.add(f"env.{name}", "a text without NUL", value)


def _arguments(task: Program, faults: _Faults) -> None:
    for name in task.args:
        if not _ARG.match(name):
            faults.add("args", "names of letters, digits, . _ and -, as in max-num-seqs", name)
    for name, given in task.args.items():
        if isinstance(given, float) and not isfinite(given):
            faults.add(f"args.{name}", "a finite number", given)
        elif isinstance(given, str) and not _one_line(given):
            faults.add(f"args.{name}", "one line", given)


def _of_training(train: Train) -> list[Problem]:
    found: list[Problem] = []
    if isinstance(train.tokens, str) and amount(train.tokens) is None:
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
_MOUNT = re.compile(r"^(/[A-Za-z0-9._-]+)+/?$")
_SYSTEM = re.compile(
    r"^/(home|opt|mnt|media|srv|var|usr|tmp)/?$"
    r"|^/(bin|boot|dev|etc|gcs|lib|lib32|lib64|proc|root|run|sbin|sys)(/|$)"
    r"|^/usr/(bin|sbin|lib|lib64|share)(/|$)|^/var/(lib|log|run|cache)(/|$)"
)
"""Folders whose content a machine or its container runs on: a mount would hide it."""
MOUNTS_MAX = 16
_MODEL = re.compile(r"^[A-Za-z0-9./~_][A-Za-z0-9._:/~-]{0,254}$")
SSH_PORT = 22
FILES_MAX_BYTES = 8 * 1024
"""All files together, gzipped and in base64: they travel in the start-up script, and EC2 takes 16
KB of that.
"""
