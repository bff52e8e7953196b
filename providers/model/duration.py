"""Durations as people write them. Pure."""

from __future__ import annotations

import re

from providers.errors import Problem
from providers.model import foreign
from providers.model.wording import FOUND_MAX

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BARE = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"(\d{1,3}):(\d\d)(?::\d\d)?")
_NAMED = re.compile(
    r"(\d+(?:\.\d+)?)\s*([dhmsw])(?:ays?|ours?|rs?|in(?:ute)?s?|ec(?:ond)?s?|eeks?)?\b"
)
_LENGTH_MAX = 40
"""Characters of a duration."""
LONGEST_S = 3_650 * 86_400
"""Ten years: the longest that anything is declared to take. Far beyond it a moment has no date."""


class TooLongError(ValueError):
    """A duration of more seconds than any number here holds."""


def seconds(text: str | float) -> int:
    """Whole seconds of `"20h"`, `"1h30m"`, `"7d"`, or of a number of seconds. Raises TooLongError
    beyond all bounds, and ValueError.

    A text without a unit is refused: `remedy` says what to write.
    """
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is no duration")
    if isinstance(text, (int, float)):
        return _whole(text, text)
    cleaned = text[:_LENGTH_MAX].strip().lower()
    if len(text) > _LENGTH_MAX:
        if cleaned.isdigit():
            raise TooLongError(f"{cleaned!r}... is too long")
        raise ValueError(f"{cleaned!r}... is no duration")
    parts = _PART.findall(cleaned)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != cleaned.replace(
        " ", ""
    ):
        raise ValueError(f"{text!r} is no duration")
    return _whole(sum(float(number) * _SECONDS[unit] for number, unit in parts), text)


def declared(value: str | float) -> int:
    """As `seconds`, of what somebody wrote: only 0 goes without a unit. Raises ValueError."""
    if isinstance(value, (int, float)) and value:
        raise ValueError(f"{value!r} has no unit")
    return seconds(value)


def seconds_of(
    value: str | float | None, path: str, problems: list[Problem], least_s: int = 0
) -> int | None:
    """A duration of the declaration; None for none, and for one with a problem, which is added."""
    if value is None:
        return None
    field = path.rpartition(".")[2]
    try:
        total = declared(value)
    except TooLongError:
        problems.append(_too_long(path, value))
        return None
    except ValueError:
        found = repr(value)[:FOUND_MAX]
        todo = remedy(value, least_s, field)
        problems.append(Problem(path, 'a duration such as "20h", "15m" or "1h30m"', found, todo))
        return None
    if total < least_s:
        problems.append(Problem(path, f"at least {text(least_s)}", text(total)))
    if total > LONGEST_S:
        problems.append(_too_long(path, value))
    return total


def _too_long(path: str, value: object) -> Problem:
    return Problem(path, f"at most {text(LONGEST_S)}", repr(value)[:FOUND_MAX])


def meant(value: object, least_s: int = 0) -> tuple[str, ...]:
    """How a number without a unit, `6 hours` or `6:30` is written: each way that makes at least
    `least_s` seconds. Empty for anything else.
    """
    words = "" if isinstance(value, bool) or value is None else str(value).strip().lower()
    if len(words) > _LENGTH_MAX or not words.isascii():
        return ()
    found: tuple[str, ...] = ()
    if _BARE.fullmatch(words):
        number = words.removesuffix(".0")
        found = tuple(f"{number}{unit}" for unit in ("s", "m", "h"))
        if _seconds(found[-1]) < least_s:
            found = (f"{number}d",)
    elif clock := _CLOCK.fullmatch(words):
        found = (f"{int(clock[1])}h{int(clock[2])}m",)
    elif _NAMED.sub("", words).strip(" ,and") == "":
        parts = _NAMED.findall(words)
        # A week is no unit here.
        found = ("".join(f"{float(n) * 7:g}d" if u == "w" else f"{n}{u}" for n, u in parts),)
    return tuple(each for each in found if _seconds(each) >= max(least_s, 1))


def _seconds(text: str) -> int:
    try:
        return seconds(text)
    except ValueError:
        return 0


def remedy(value: object, least_s: int = 0, field: str = "") -> str:
    """`write 15s, 15m or 15h` for what `meant` knows, as the line of a field where one is named;
    empty for anything else.
    """
    *others, last = meant(value, least_s) or ("",)
    listed = f"{', '.join(others)} or {last}" if others else last
    return f"write {field}: {listed}" if field and last else f"write {listed}" * bool(last)


def _whole(found: str | float, told: object) -> int:
    total = foreign.real(found, foreign.SECONDS)
    if total is not None:
        return int(total)
    if foreign.impossible(found, foreign.SECONDS) and (isinstance(found, str) or found > 0):
        raise TooLongError(f"{told!r} is too long")
    raise ValueError(f"{told!r} is no duration")


def text(total_s: float) -> str:
    """`20h`, `1h30m`, `45s`: the shortest exact form."""
    rest = int(total_s)
    out = ""
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            out += f"{count}{unit}"
    return out or "0s"


def timestamp(seconds: float) -> str:
    """`2026-11-28T10:00:00Z`, of seconds since the epoch; empty for 0, which is never."""
    if not seconds:
        return ""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
