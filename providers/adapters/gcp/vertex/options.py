"""A spec's `options.vertex`, typed: its keys, their checks, and what a workload makes of them.
Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters import sections
from providers.adapters.gcp.options import ACCOUNT, CONTAINER
from providers.errors import Problem, too_large
from providers.model import shell
from providers.model.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.model.workload import Program

DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
DISK_MIN_GIB, DISK_MAX_GIB = 100, 64_000
"""Of a worker's boot disk (DiskSpec, discovery v1 revision 20261106)."""
USED_GIB = 30
"""What of it is full before the container comes. Assumed."""
DISK_MICRO_USD = {"pd-ssd": 195_500, "pd-standard": 46_000, "hyperdisk-balanced": 92_000}
"""For a GiB and month: Compute Engine's rates in us-central1 with Vertex AI's 15 % (its pricing
page, as remembered 2026-11).
"""
DISK_MIB_S = {"pd-ssd": 240.0, "pd-standard": 12.0, "hyperdisk-balanced": 155.0}
"""MiB/s of writing at the least size ("About Persistent Disk", as remembered 2026-11)."""
WORD_MAX = 131_072
"""Bytes of one word of a command line: Linux's own limit (MAX_ARG_STRLEN), which whatever starts
the container is bound by.
"""
ENV_MAX = 100
"""Variables of a container (ContainerSpec.env, discovery v1 revision 20261106)."""
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
_NETWORK = re.compile(r"^projects/[a-z0-9.:-]+/global/networks/[a-z]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_BUCKET = re.compile(r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?\Z")

NO_IMAGE = "a container image that the job runs in: workload.image; setup and files need one too"


class Options(NamedTuple):
    """What a user may say of a custom job. `command` are its words; none: the image's own entry
    point. `output` is where Vertex AI tells the container to leave its model (`AIP_MODEL_DIR` and
    the like), `service_account` who it runs as (Vertex AI's own agent if nobody is named).
    """

    image: str = ""
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    service_account: str = ""
    network: str = ""
    output: str = ""
    boot_disk_type: str = ""


def problems(section: Mapping[str, object]) -> list[Problem]:
    """Everything that is wrong, each with its path relative to the section."""
    return _read(section)[1]


def read(section: Mapping[str, object]) -> Options:
    """The options of a section that was checked; what is wrong in it is left at its default."""
    return _read(section)[0]


def host(section: Mapping[str, object]) -> Host:
    """The disk of a worker under the options; which driver it has, nobody says."""
    chosen = read(section)
    name = chosen.boot_disk_type or DISK_TYPES[0]
    return Host(
        used_gib=USED_GIB,
        default_gib=DISK_MIN_GIB,
        most_gib=DISK_MAX_GIB,
        disk=name,
        micro_usd_per_gib_month=DISK_MICRO_USD[name],
        priced_in="us-central1",
        write_mib_s=DISK_MIB_S[name],
        container=chosen.image,
    )


def fits(section: Mapping[str, object]) -> list[Problem]:
    """What is missing, and what is more than a container takes."""
    chosen = read(section)
    out = [] if chosen.image else [Problem("image", NO_IMAGE, "none")]
    size = max((len(word.encode()) for word in chosen.command), default=0)
    found = too_large(
        "command",
        "a command",
        size,
        WORD_MAX,
        "shorten workload.files and setup, or put them into the image",
    )
    return out if found is None else [*out, found]


def running(program: Program, script: str, section: Mapping[str, object]) -> dict[str, object]:
    """The section with what is to run.

    One program with an image alone is the container's own command and environment. Setup, files,
    checkpoints, mounts, several programs and several nodes need the start-up script, which then is
    the command; it ends with the programs' exit code.
    """
    made: dict[str, object] = {"image": program.image} if program.image else {}
    plain = len(program.processes) == 1 and not (
        program.setup or program.files or program.checkpoint or program.rendezvous or program.mounts
    )
    if plain:
        (process,) = program.processes
        made |= {"command": ["bash", "-c", process.line], "env": dict(process.env)}
    else:
        made["command"] = ["bash", "-c", _programs(program, script)]
    return {**made, **section}


def _programs(program: Program, script: str) -> str:
    """The start-up script, after what tells several nodes of each other, and what gives the
    buckets, which Vertex AI mounts under /gcs, their declared paths.
    """
    peers = shell.program(__file__, "peers") if program.rendezvous else ""
    links = (
        shell.program(
            __file__,
            "links",
            mount_paths=[mount.path.rstrip("/") for mount in program.mounts],
            mount_targets=[f"/gcs/{mount.bucket}/{mount.prefix}" for mount in program.mounts],
        )
        if program.mounts
        else ""
    )
    return f"{shell.assignments(GPUS_ROOT='/tmp/gpus')}{peers}{links}{script}"  # noqa: S108 - a container's own


def _read(section: Mapping[str, object]) -> tuple[Options, list[Problem]]:
    values, found = sections.values(section, _READERS)
    return Options(**values), found  # type: ignore[arg-type]


def _text(pattern: re.Pattern[str], wanted: str) -> Callable[[object], object]:
    def reader(value: object) -> str:
        if isinstance(value, str) and pattern.match(value):
            return value
        raise ValueError(wanted)

    return reader


def _command(value: object) -> tuple[str, ...]:
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(item, str) and item for item in value)
    ):
        return tuple(value)
    if isinstance(value, str) and value.strip():
        return ("sh", "-c", value)
    raise ValueError("a command line, or a list of its words")


def _env(value: object) -> tuple[tuple[str, str], ...]:
    good = isinstance(value, dict) and all(
        isinstance(name, str) and _NAME.match(name) and isinstance(text, str)
        for name, text in value.items()
    )
    if isinstance(value, dict) and good and len(value) <= ENV_MAX:
        return tuple(sorted(value.items()))
    raise ValueError(f"at most {ENV_MAX} variables and their texts, none of them secret")


def _disk(value: object) -> str:
    if isinstance(value, str) and value in DISK_TYPES:
        return value
    raise ValueError("one of " + ", ".join(DISK_TYPES))


_READERS: dict[str, Callable[[object], object]] = {
    "image": _text(
        CONTAINER, 'a container image such as "us-docker.pkg.dev/my-project/train/torch:1"'
    ),
    "command": _command,
    "env": _env,
    "service_account": _text(ACCOUNT, "a service account's e-mail address"),
    "network": _text(_NETWORK, 'a peered network, as in "projects/123456/global/networks/my-vpc"'),
    "output": _text(_BUCKET, 'a folder in Cloud Storage, as in "gs://my-bucket/out"'),
    "boot_disk_type": _disk,
}
