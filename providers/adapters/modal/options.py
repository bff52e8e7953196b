"""The section `options.modal` of a spec. Owns its fields and their checks; pure, imports no client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
DEFAULT_PYTHON = "3.12"
MAX_TTL_S = 86_400
"""A sandbox lives at most 24 hours. Source: modal.com/docs/guide/sandbox and /guide/timeouts, copies of 2026-09."""

_IMAGE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")
_PACKAGE = re.compile(r"^[A-Za-z0-9][^\s]*$")


class Options(NamedTuple):
    """What a sandbox runs. `image` is a registry tag; without one it is Debian with Python and the packages of `pip`.

    `cpu` is in physical cores and `memory_gib` in GiB: both are request and limit at once, so that the bill can't pass them. 0 means as the
    offer says.
    """

    image: str = ""
    add_python: str = ""
    python: str = DEFAULT_PYTHON
    pip: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    cpu: float = 0.0
    memory_gib: float = 0.0


def problems(section: Mapping[str, object]) -> list[Problem]:
    """Everything wrong with the section; paths are relative to it."""
    return _read(section)[1]


def read(section: Mapping[str, object]) -> Options:
    """The options of a section that `problems` found nothing wrong with."""
    return _read(section)[0]


def _read(section: Mapping[str, object]) -> tuple[Options, list[Problem]]:
    found: list[Problem] = []
    values: dict[str, object] = {}
    for key, value in section.items():
        reader = _READERS.get(key)
        if reader is None:
            found.append(Problem(key, f"one of {', '.join(_READERS)}", repr(key)))
            continue
        try:
            values[key] = reader(value)
        except ValueError as error:
            found.append(Problem(key, str(error), repr(value)[:80]))
    if "image" in values and "python" in values:
        found.append(Problem("python", "either image or python", "both", "to add Python to a registry image, write add_python"))
    if "add_python" in values and "image" not in values:
        found.append(Problem("add_python", "an image to add Python to", "none", "write python for the version of the default image"))
    return Options(**values), found  # type: ignore[arg-type]


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
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) and _PACKAGE.match(item) for item in value):
        return tuple(value)
    raise ValueError('a list of packages such as ["torch==2.9.0"]')


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) and item for item in value):
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


_READERS: dict[str, Callable[[object], object]] = {
    "image": _image,
    "add_python": _python,
    "python": _python,
    "pip": _pip,
    "command": _command,
    "cpu": _cpu,
    "memory_gib": _memory,
}
