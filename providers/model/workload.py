"""What runs on the machines: as it is wanted (Workload), and as it is started on one placement
(Program). Plain records; pure, but for `with_files`.

The typed face that users write is `providers.model.workload_spec`; what turns the one into the
other is `providers.workloads`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from providers.model.volume_mount import VolumeMount

LED = frozenset({"mpi", "vllm", "sglang"})
"""Launchers that, over several nodes, start the command or take the requests on the first one."""
BY_SSH = frozenset({"mpi"})
"""Those whose nodes log into each other."""
RELEASE, KEEP = "release", "keep"

ROOT = "/var/lib/gpus/work"
"""The start-up script's folder on a machine: `status` is its last word, `log` all output; `peers`,
`between.sh` and `token` are written there by login.
"""
WORKDIR = f"{ROOT}/workdir"
"""The folder that is sent to a machine; `WORKDIR.digest` says that all of it has arrived."""
BOOT_SCRIPT, CONTAINER_SCRIPT = "/var/lib/gpus/start.sh", "/root/gpus-start.sh"
"""Where the script of a machine lies, and that of a container which is the machine."""
CONSOLE = "gpus-work"
"""The word that begins each line of the console: `gpus-work DIGEST STATE [DETAIL]`."""
SETUP_FAILED, READY, SUCCEEDED, FAILED = "setup-failed", "ready", "succeeded", "failed"
"""The states that somebody waits for; before them a script says `starting` and `running`."""
SETUP_WRONG = "setup-wrong"
"""The set-up ended by the declaration's own lines or image: it would end so on any machine.
`setup-failed` may be the machine's fault.
"""
NOT_SET_UP = (SETUP_FAILED, SETUP_WRONG)
FREE_PORT = 1_024
"""The first port that every user may listen at."""


def here(port: int) -> int:
    """The port of this machine to which one there is carried: the same, or 8000 above one that only
    an administrator may open.
    """
    return port if port >= FREE_PORT else port + 8_000


class Task(NamedTuple):
    """One program as wanted. `command` is a line for the shell; with a `launcher` it is what the
    launcher starts (a script and its arguments), or nothing for a server. `gpus` are the GPUs of
    the machine that it sees; none: all. `health` is the path that answers 200 once it works.
    """

    name: str = "main"
    launcher: str = ""
    command: str = ""
    model: str = ""
    dtype: str = ""
    context: int = 0
    concurrency: int = 0
    args: tuple[tuple[str, str | int | float | bool], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    gpus: tuple[int, ...] = ()
    port: int = 0
    health: str = ""


def is_path(model: str) -> bool:
    """Whether a task's `model` is a path on its machine, not a name that a library knows."""
    return model.startswith(("/", "~/"))


class Checkpoint(NamedTuple):
    """Where the work saves itself (`path`, on the machine), and where that is kept (`to`, a
    bucket's URL or a volume), synced every so often.
    """

    path: str
    to: str
    every_s: int = 300


STORE_KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_ACCESS_KEY_ID", "GOOGLE_ACCESS_KEY_SECRET"),
}
"""The secrets by which a store is reached from anywhere, by its scheme: S3 (AWS CLI reference,
"Environment variables", 2026-11); Cloud Storage by an HMAC key (Modal's client 1.6.4,
`CloudBucketMount`).
"""


class Mount(NamedTuple):
    """A bucket's folder as a folder of the machine: `source` is its URL (`gs://`, `s3://`)."""

    path: str
    source: str
    writable: bool = False

    @property
    def scheme(self) -> str:
        """`gs` or `s3`."""
        return self.source.partition(":")[0]

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self.source.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        """The folder in it, ending in /; empty for the whole bucket."""
        inside = self.source.partition("://")[2].partition("/")[2].strip("/")
        return f"{inside}/" if inside else ""


class Registry(NamedTuple):
    """Where a machine signs in before it pulls the image: with a password among its secrets, or
    without a `username` as itself.
    """

    host: str
    username: str = ""


def registry_host(image: str) -> str:
    """The registry that an image's name means, by Docker's rule: what stands before the first /
    where it has a dot or a port, or is localhost; else Docker Hub (Docker reference, "docker image
    tag", 2026-11).
    """
    host, slash, _ = image.partition("/")
    return host if slash and (set(host) & {".", ":"} or host == "localhost") else "docker.io"


class Training(NamedTuple):
    """What a training run is, for its time and cost: tokens in all and the method; or hours that it
    took on one GPU of a type.
    """

    method: str = "full"
    tokens: float = 0.0
    sequence: int = 2048
    batch: int = 1
    hours: float = 0.0
    hours_on: str = ""


class Override(NamedTuple):
    """What a fallback entry changes. Empty fields are as in the workload."""

    dtype: str = ""
    command: str = ""
    args: tuple[tuple[str, str | int | float | bool], ...] = ()


class Workload(NamedTuple):
    """Everything that runs, as wanted. `files` are (path there, base64 of gzip of the content)."""

    tasks: tuple[Task, ...]
    image: str = ""
    setup: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    checkpoint: Checkpoint | None = None
    resume: str = ""
    """What is added to the command when a checkpoint is there, as in `--resume latest`."""
    on_done: str = RELEASE
    training: Training | None = None
    mounts: tuple[Mount, ...] = ()
    registry: Registry | None = None
    workdir: str = ""
    """The digest of the folder that is sent to its machines."""
    volumes: tuple[VolumeMount, ...] = ()


class Process(NamedTuple):
    """One program as started: a line for the shell, its own environment, what it listens at and
    answers when it works.
    """

    name: str
    line: str
    env: tuple[tuple[str, str], ...] = ()
    port: int = 0
    health: str = ""


class Program(NamedTuple):
    """A workload, compiled for one placement. `kind` is machine, job or service. `digest` changes
    with anything that asks for a new start.

    `resume` is added to the first process's line when a checkpoint is there. `rendezvous` says that
    its nodes must know each other's addresses.
    """

    kind: str
    processes: tuple[Process, ...]
    image: str = ""
    setup: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    checkpoint: Checkpoint | None = None
    resume: str = ""
    on_done: str = RELEASE
    nodes: int = 1
    rendezvous: bool = False
    token_env: str = ""
    """The variable in which a service finds the token that its callers must show; nothing where it
    has none.
    """
    models: tuple[str, ...] = ()
    """Paths of models on the machine, which its containers see read-only."""
    mounts: tuple[Mount, ...] = ()
    registry: Registry | None = None
    workdir: str = ""
    """The digest of the folder that it waits for and runs in."""
    volumes: tuple[VolumeMount, ...] = ()
    led: bool = False
    """Its first node starts the command or takes the requests; what becomes of it there counts."""
    proxy_port: int = 0
    """Where the proxy of several replicas listens; 0 without one."""

    @property
    def digest(self) -> str:
        """Twelve hex digits over everything that is started."""
        import hashlib

        # Without the later fields it is as it was before there were any: what runs need not start
        # anew.
        content = list(self)
        while len(content) > _FIRST_FIELDS and not content[-1]:
            content.pop()
        return hashlib.sha256(
            json.dumps(content, sort_keys=True, default=str).encode()
        ).hexdigest()[:12]

    @property
    def port(self) -> int:
        """The port that callers use: the proxy's, else the first one that something listens at; 0
        for none.
        """
        listening = next((process.port for process in self.processes if process.port), 0)
        return self.proxy_port or listening


_FIRST_FIELDS = Program._fields.index("models")
"""How many fields a program's digest has at least."""
_PACKED = "H4sI"
"""How base64 of gzip begins."""


def packed(content: bytes) -> str:
    """The content as one word of a script: base64 of gzip. The same content is the same word."""
    import base64
    import gzip

    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


_FILES_MAX, _FILE_MAX = 64, 1 << 20
"""Files of a workload, and bytes of one before it is packed; packed, they have a limit of their
own.
"""


def with_files(raw: Any, root: Path) -> Any:
    """A cluster's entry in whose workload each file stands as its content: local paths become {path
    there: base64 of gzip}.

    `files` is {path here: path there}, relative to `root`. Reads the files. Content that is packed
    already, and all else, is left as it is. Raises SpecError.
    """
    from pathlib import Path

    from providers.model import regular

    workload = raw.get("workload") if isinstance(raw, dict) else None
    files = workload.get("files") if isinstance(workload, dict) else None
    if (
        not isinstance(files, dict)
        or not files
        or any(str(content).startswith(_PACKED) for content in files.values())
    ):
        return raw
    if len(files) > _FILES_MAX:
        raise SpecError(
            [
                Problem(
                    "workload.files",
                    f"at most {_FILES_MAX} files",
                    str(len(files)),
                    "fetch them from a bucket in the command",
                )
            ]
        )
    found: dict[str, str] = {}
    for here, there in files.items():
        path = root / str(here)
        try:
            path = root / Path(str(here)).expanduser()
            found[str(there)] = packed(regular.content(path, _FILE_MAX))
        except (OSError, ValueError, RuntimeError) as error:  # a name with a NUL; a home of nobody
            why = getattr(error, "strerror", None) or str(error)
            raise SpecError(
                [
                    Problem(
                        f"workload.files.{here}",
                        f"a plain file of at most {regular.size(_FILE_MAX)} at {path}",
                        why,
                    )
                ]
            ) from None
    return {**raw, "workload": {**raw["workload"], "files": found}}
