"""What a rehearsed cloud has, and how arguments of `gpus rehearse` name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import Problem, SpecError
from providers.model.duration import TooLongError
from providers.model.duration import seconds as duration
from providers.model.duration import text as duration_text
from providers.rehearsal.scenario import ANY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


def clouds() -> list[str]:
    """The names of the rehearsed clouds."""
    return sorted(_consoles())


def _consoles() -> dict[str, str]:
    """The module of each cloud's console, by provider."""
    from pathlib import Path

    from providers.rehearsal import clouds

    found = (
        path.parent.name for base in clouds.__path__ for path in Path(base).glob("*/console.py")
    )
    return {name: f"{clouds.__name__}.{name}.console" for name in found}


def console(provider: str) -> ModuleType:
    """The cloud's `console` module. Raises SpecError for an unknown cloud."""
    from importlib import import_module

    if provider not in clouds():
        raise wrong("provider", f"one of {', '.join(clouds())}", provider)
    return import_module(_consoles()[provider])


def unplaced(provider: str) -> dict[str, frozenset[tuple[str, str]]]:
    """Place -> the (machine type, GPU) of which a stand-in never has any there, since nobody says
    in which zone.
    """
    told = getattr(console(provider), "unplaced", None)
    return {} if told is None else dict(told())


def wrong(path: str, wanted: str, found: str, todo: str = "") -> SpecError:
    """An error about one argument."""
    return SpecError([Problem(path, wanted, repr(found), todo)])


def known(path: str, text: str, known: Iterable[str], what: str) -> str:
    """The text itself if it is known, empty for everything. Raises SpecError with near names."""
    import difflib

    if text in {EVERYTHING, ANY}:
        return ANY
    names = {name.lower(): name for name in known}
    if text.lower() in names:
        return names[text.lower()]
    near = difflib.get_close_matches(text.lower(), names, 3, 0.6)
    raise wrong(
        path,
        what,
        text,
        f"near: {', '.join(names[name] for name in near)}" if near else "'*' means all",
    )


def whole(path: str, text: str) -> int:
    """The text as a whole number. Raises SpecError."""
    if not (
        text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and int(text) <= _MOST
    ):
        raise wrong(
            path,
            f"a whole number from 0 to {_MOST:,}",
            text if len(text) <= 40 else f"{text[:40]}...",
        )
    return int(text)


def seconds(path: str, text: str, longest_s: float) -> float:
    """The text as seconds, at most so many. Raises SpecError."""
    try:
        found = (
            float(text.removesuffix("s"))
            if text.removesuffix("s").replace(".", "", 1).isdigit()
            else float(duration(text))
        )
    except (OverflowError, TooLongError):
        found = float("inf")
    except ValueError:
        raise wrong(path, "a duration such as 10m or 2s", text) from None
    if found > longest_s:
        raise wrong(
            path,
            f"at most {duration_text(longest_s)}",
            text if len(text) <= 40 else f"{text[:40]}...",
        )
    return found


def setting(provider: str, key: str, text: str) -> object:
    """A setting's value: a number where it is one.
    Raises SpecError for what no stand-in could do.
    """
    number = float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else None
    statuses: tuple[str, ...] = getattr(console(provider), "STATUSES", ())
    if (
        key == "status"
        and text not in statuses
        and (number is None or not number.is_integer() or not 100 <= number <= 599)
    ):
        raise wrong(
            f"set {key}",
            f"one of {', '.join(statuses)}" if statuses else "an HTTP status from 100 to 599",
            text,
        )
    if key in {"seconds", "lag_s"} and (number is None or number > LONGEST_S):
        raise wrong(f"set {key}", f"a number of seconds, at most {LONGEST_S:.0f}", text)
    if key in {"count", "mib"} and (number is None or number > _MOST):
        raise wrong(f"set {key}", f"a number, at most {_MOST:,}", text)
    if number is None or number > _MOST:
        return text
    return int(number) if number.is_integer() and "." not in text else number


EVERYTHING = "*"
_MOST = 1_000_000_000
LONGEST_S = 86_400.0
"""The longest step and the longest planned delay."""
