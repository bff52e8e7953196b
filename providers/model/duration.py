"""Durations as people write them. Pure."""

from __future__ import annotations

import re

from providers.model import foreign

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BARE = re.compile(r"\d+(?:\.\d+)?")
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


def remedy(value: object) -> str:
    """`write 15s or 15m` for a text that is a number without a unit; empty for anything else."""
    number = value.strip() if isinstance(value, str) else ""
    short = len(number) <= _LENGTH_MAX and number.isascii() and _BARE.fullmatch(number)
    return f"write {number}s or {number}m" if short else ""


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
