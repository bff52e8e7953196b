"""The section `options.modal` of a spec. Owns its fields and their checks, by kind of cluster;
pure, imports no client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters import sections
from providers.errors import Problem
from providers.model import duration, shell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.model.machine import Setup
    from providers.model.workload import Program

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
DEFAULT_PYTHON = "3.12"
MAX_TTL_S = 86_400
"""A sandbox lives at most 24 hours. Source: modal.com/docs/guide/sandbox and /guide/timeouts,
copies of 2026-09.
"""

MAX_TIMEOUT_S = 86_400
"""One attempt of a function lives 1 s to 24 h. The client checks neither end. Source:
modal.com/docs/guide/timeouts, copy of 2026-09.
"""
DEFAULT_TIMEOUT_S = 3_600
"""Of a job that has neither `timeout` nor a ttl: Modal's own five minutes end most work."""
MAX_RETRIES = 10
"""As the client's page on retries says; the client itself checks no upper bound."""
STARTUP_S = 600
"""How long a service's command may take until its port answers: a model has to be loaded first.
Modal's own five seconds end most.
"""
SCALEDOWN_S = 60
"""Modal's own, said so that the plan can state it. Source: modal.com/docs/guide/scale, copy of
2026-09.
"""

NO_NONPREEMPTIBLE = (
    "it left out: Modal gives it (x3 on CPU and memory) only to containers without a GPU, and each"
    " one here has a GPU"
)
"""The client takes `nonpreemptible=True` with a GPU as well. Source:
modal.com/docs/guide/preemption, copy of 2026-09.
"""

JOB_ONLY = frozenset({"retries", "timeout"})
SERVICE_ONLY = frozenset(
    {
        "port",
        "startup_timeout",
        "min_containers",
        "max_containers",
        "buffer_containers",
        "scaledown_window",
        "max_inputs",
    }
)
FUNCTION_ONLY = frozenset({"secrets", "volumes"})

_OBJECT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
_MOUNT = re.compile(r"^/[A-Za-z0-9._/-]+$")
_IMAGE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")
_PACKAGE = re.compile(r"^[A-Za-z0-9][^\s]*$")


class Options(NamedTuple):
    """What is run. `image` is a registry tag; without one it is Debian with Python and the packages
    of `pip`.

    `cpu` is in physical cores and `memory_gib` in GiB: both are request and limit at once, so that
    the bill can't pass them. 0 means as the offer says. Volumes (mount path, name) and secrets are
    named, never made nor read. `max_containers` is 0 where it follows from the others.
    """

    image: str = ""
    add_python: str = ""
    python: str = DEFAULT_PYTHON
    pip: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    cpu: float = 0.0
    memory_gib: float = 0.0
    secrets: tuple[str, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    retries: int = 0
    timeout_s: int = 0
    port: int = 0
    startup_timeout_s: int = STARTUP_S
    min_containers: int = 0
    max_containers: int = 0
    buffer_containers: int = 0
    scaledown_window_s: int = SCALEDOWN_S
    max_inputs: int = 0

    @property
    def most_containers(self) -> int:
        """How many containers a service has at most; Modal itself would set no limit, and the bill
        none.
        """
        return self.max_containers or max(1, self.min_containers + self.buffer_containers)

    @property
    def image_part(self) -> Options:
        """What decides on the image alone."""
        return Options(self.image, self.add_python, self.python, self.pip)


def problems(section: Mapping[str, object]) -> list[Problem]:
    """Everything wrong with the section; paths are relative to it."""
    return _read(section)[1]


def read(section: Mapping[str, object]) -> Options:
    """The options of a section that `problems` found nothing wrong with."""
    return _read(section)[0]


def _read(section: Mapping[str, object]) -> tuple[Options, list[Problem]]:
    named = {key: value for key, value in section.items() if key != "nonpreemptible"}
    found: list[Problem] = []
    if section.get("nonpreemptible", False) is not False:
        found.append(
            Problem("nonpreemptible", NO_NONPREEMPTIBLE, repr(section["nonpreemptible"])[:80])
        )
    by_key, wrong = sections.values(named, _READERS)
    found.extend(wrong)
    values = {_FIELDS.get(key, key): value for key, value in by_key.items()}
    if "image" in values and "python" in values:
        found.append(
            Problem(
                "python",
                "either image or python",
                "both",
                "to add Python to a registry image, write add_python",
            )
        )
    if "add_python" in values and "image" not in values:
        found.append(
            Problem(
                "add_python",
                "an image to add Python to",
                "none",
                "write python for the version of the default image",
            )
        )
    chosen = Options(**values)  # type: ignore[arg-type]
    least = chosen.min_containers + chosen.buffer_containers
    if chosen.max_containers and least > chosen.max_containers:
        found.append(
            Problem(
                "max_containers",
                f"at least {least}, as min_containers and buffer_containers together",
                str(chosen.max_containers),
            )
        )
    return chosen, found


def local_python() -> str:
    """The Python that a job's or a service's function is written in here, and has to be read by
    there.
    """
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}"


def for_kind(section: Mapping[str, object], kind: str) -> Options:
    """The options of a section that is fit for this kind: a function's default image has the Python
    that its function is written in.
    """
    chosen = read(section)
    return (
        chosen
        if kind == "machine" or "python" in section or chosen.image
        else chosen._replace(python=local_python())
    )


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> list[Problem]:
    """What is missing or out of place for this kind of cluster."""
    foreign = {
        "machine": JOB_ONLY | SERVICE_ONLY | FUNCTION_ONLY,
        "job": SERVICE_ONLY,
        "service": JOB_ONLY,
    }[kind]
    found = [
        Problem(key, f"only what a {kind} has", repr(key), _whose(key))
        for key in section
        if key in foreign
    ]
    if kind == "machine":
        return found
    chosen = read(section)
    if not chosen.command:
        found.append(Problem("command", f"the command that the {kind} runs", "none"))
    if kind == "service" and not chosen.port:
        found.append(Problem("port", "the port that the command listens on", "none"))
    here = local_python()
    for key, version in (
        ("python", chosen.python if "python" in section else here),
        ("add_python", chosen.add_python or here),
    ):
        if version != here:
            found.append(
                Problem(
                    key,
                    f"{here}, the Python that runs here: the {kind}'s function is handed over in"
                    " its form",
                    version,
                )
            )
    attempts = chosen.retries + 1
    if kind == "job" and setup.ttl_s and chosen.timeout_s * attempts > setup.ttl_s:
        told = f"{attempts} x {duration.text(chosen.timeout_s)}"
        found.append(
            Problem(
                "timeout",
                f"all attempts within the ttl of {duration.text(setup.ttl_s)}",
                told,
                "a timeout is per attempt",
            )
        )
    return found


def running(
    program: Program, script: str, kind: str, section: Mapping[str, object]
) -> dict[str, object]:
    """The section with what is to run. A registry image gets the Python
    that a function is handed over in.
    """
    made: dict[str, object] = {
        "command": ["bash", "-c", f"{shell.assignments(GPUS_ROOT='/tmp/gpus')}{script}"]  # noqa: S108
    }
    if program.image and "python" not in section:
        made["image"] = program.image
        if kind != "machine":
            made["add_python"] = local_python()
    if kind == "service" and program.port:
        made["port"] = program.port
    kept = program.checkpoint
    if kept is not None and kept.to.startswith("volume:") and kind != "machine":
        mounted = section.get("volumes")
        made["volumes"] = {
            **(mounted if isinstance(mounted, dict) else {}),
            kept.path: kept.to.removeprefix("volume:"),
        }
    return {
        **made,
        **{
            key: value
            for key, value in section.items()
            if key != "volumes" or "volumes" not in made
        },
    }


def timeout_s(chosen: Options, ttl_s: int | None) -> int:
    """How long one attempt of a job may run: as it says, else its share of the ttl,
    else an hour.
    """
    return chosen.timeout_s or (
        max(1, min(MAX_TIMEOUT_S, ttl_s // (chosen.retries + 1))) if ttl_s else DEFAULT_TIMEOUT_S
    )


def _whose(key: str) -> str:
    return (
        f"{key} is for a"
        f" {'job' if key in JOB_ONLY else 'service' if key in SERVICE_ONLY else 'job or a service'}"
    )


def _image(value: object) -> str:
    if isinstance(value, str) and _IMAGE.match(value):
        return value
    raise ValueError('a registry image such as "nvidia/cuda:12.8.1-devel-ubuntu24.04"')


def _python(value: object) -> str:
    # A version that is written without quotes in YAML arrives as a number, and 3.10 as 3.1.
    if isinstance(value, str) and value in PYTHONS:
        return value
    raise ValueError(f"one of {', '.join(PYTHONS)}, in quotes")


def _pip(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(
        isinstance(item, str) and _PACKAGE.match(item) for item in value
    ):
        return tuple(value)
    raise ValueError('a list of packages such as ["torch==2.9.0"]')


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


def _cpu(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.125 <= value <= 64:
        return float(value)
    raise ValueError("physical cores, from 0.125 to 64")


def _memory(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.125 <= value <= 2048:
        return float(value)
    raise ValueError("GiB of memory, from 0.125 to 2048")


def _secrets(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(
        isinstance(item, str) and _OBJECT.match(item) for item in value
    ):
        return tuple(value)
    raise ValueError(
        "a list of names of Modal's secrets (`modal secret create NAME`), never their values"
    )


def _volumes(value: object) -> tuple[tuple[str, str], ...]:
    good = isinstance(value, dict) and all(
        isinstance(path, str)
        and _MOUNT.match(path)
        and isinstance(name, str)
        and _OBJECT.match(name)
        for path, name in value.items()
    )
    if isinstance(value, dict) and good:
        return tuple(sorted(value.items()))
    raise ValueError("volumes by the path they are mounted at, as in {/data: my-volume}")


def _within(least: int, most: int, what: str) -> Callable[[object], int]:
    def reader(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{what}, from {least} to {most}")

    return reader


def _span(least: int, most: int) -> Callable[[object], int]:
    def reader(value: object) -> int:
        try:
            found = (
                duration.declared(value)
                if isinstance(value, (str, int, float)) and not isinstance(value, bool)
                else -1
            )
        except ValueError:
            found = -1
        if least <= found <= most:
            return found
        raise ValueError(
            f'a duration such as "30m", from {duration.text(least)} to {duration.text(most)}'
        )

    return reader


_FIELDS = {
    "timeout": "timeout_s",
    "startup_timeout": "startup_timeout_s",
    "scaledown_window": "scaledown_window_s",
}
"""The fields whose unit stands in the name."""

_READERS: dict[str, Callable[[object], object]] = {
    "image": _image,
    "add_python": _python,
    "python": _python,
    "pip": _pip,
    "command": _command,
    "cpu": _cpu,
    "memory_gib": _memory,
    "secrets": _secrets,
    "volumes": _volumes,
    "retries": _within(0, MAX_RETRIES, "further attempts"),
    "timeout": _span(1, MAX_TIMEOUT_S),
    "port": _within(1, 65_535, "a port"),
    "startup_timeout": _span(1, 3_600),
    "min_containers": _within(0, 1_000, "containers that always run"),
    "max_containers": _within(1, 1_000, "containers at most"),
    "buffer_containers": _within(0, 1_000, "idle containers beyond what is busy"),
    "scaledown_window": _span(2, 3_600),
    "max_inputs": _within(1, 1_000, "requests at once in one container"),
}
