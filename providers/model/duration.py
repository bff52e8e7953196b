"""Durations as people write them. Pure."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
LONGEST_S = 3_650 * 86_400
"""Ten years: the longest that anything is declared to take. Far beyond it a moment has no date."""


def seconds(text: str | float) -> int:
    """Whole seconds of `"20h"`, `"1h30m"`, `"7d"`, or of a number of seconds. Raises ValueError for anything else."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is no duration")
    if isinstance(text, (int, float)):
        if not 0 <= text < float("inf"):
            raise ValueError(f"{text!r} is no duration")
        return int(text)
    cleaned = text.strip().lower()
    if cleaned.isdigit():
        return int(cleaned)
    parts = _PART.findall(cleaned)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != cleaned.replace(" ", ""):
        raise ValueError(f"{text!r} is no duration")
    return int(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def text(total_s: float) -> str:
    """`20h`, `1h30m`, `45s`: the shortest exact form."""
    rest = int(total_s)
    out = ""
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            out += f"{count}{unit}"
    return out or "0s"
