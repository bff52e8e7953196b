"""Numbers that others send: bounds first, conversion after. Owns the one way from a reply's value
to a number, and from a reply's text to JSON.

A text such as `1e99999` is short and its whole number is not: turned into an int, it takes seconds
to minutes, and no float holds it. So nothing is converted before its size is known. Pure, and
constant in time whatever was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

_LENGTH_MAX = 40
"""Characters. Longer than any number that means something."""
_DIGITS_MAX = 30
"""Decimal places before or after the point."""
_SMALLEST = 10.0**-_DIGITS_MAX
_PLAIN = 2**63
"""Whole numbers within this need no further look."""
LEVELS_MAX = 50
LEVELS = f"at most {LEVELS_MAX} levels of lists and mappings"
"""How that is said to users."""


class Bounds(NamedTuple):
    """The least and the most that a field can hold, both included. Nothing outside of them is
    converted.
    """

    least: float
    most: float


ANY = Bounds(-1e15, 1e15)
COUNT = Bounds(0, 1_000_000)
"""GPUs, machines, status codes."""
ID = Bounds(1, 2**53)
"""A record's number: the largest that JSON carries exactly."""
PORT = Bounds(1, 65_535)
MICRO_USD = Bounds(0, 1e15)
"""What was paid for something."""
MONEY = Bounds(0, 1e9)
"""Dollars, or coins of any worth, for an hour or a day."""
SECONDS = Bounds(0, 1e10)
"""A duration, or seconds since 1970."""


def number(value: object, bounds: Bounds = ANY) -> Decimal | None:
    """The exact number; None for anything else, and for one outside the bounds."""
    if type(value) is int or type(value) is float:
        return _decimal(value) if bounds.least <= value <= bounds.most else None
    found = _decimal(value)
    return found if found is not None and bounds.least <= found <= bounds.most else None


def whole(value: object, bounds: Bounds = ANY) -> int | None:
    """A whole number; None for anything else, and for one outside the bounds."""
    found = number(value, bounds)
    return int(found) if found is not None and found == found.to_integral_value() else None


def real(value: object, bounds: Bounds = ANY) -> float | None:
    """The number as a float; None for anything else, and for one outside the bounds."""
    found = number(value, bounds)
    return None if found is None else float(found)


def impossible(value: object, bounds: Bounds) -> bool:
    """True for what is meant as a number and cannot be this one: outside the bounds, not finite, or
    of more digits than any number has.

    False for a number within them, and for what is none: nothing, a word, a mapping.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        within = bounds.least <= value <= bounds.most
        return not (within and (not value or abs(value) >= _SMALLEST))
    if not isinstance(value, str) or number(value, bounds) is not None:
        return False
    head = value[:_LENGTH_MAX].strip().lstrip("+-")
    if head.lower().startswith(("inf", "nan", "snan")) or (
        len(value) > _LENGTH_MAX and head.isdigit()
    ):
        return True
    if len(value) > _LENGTH_MAX or not value.isascii() or "_" in value:
        return False
    try:
        return Decimal(head).is_finite()
    except InvalidOperation:
        return False


class TooDeepError(ValueError):
    """Lists and mappings in each other, more than any reader follows."""


def loads(text: str | bytes) -> Any:
    """The JSON in a reply. Raises ValueError for what is none, however it is nested; a whole number
    of too many digits stays a text.
    """
    import json

    try:
        return json.loads(
            text, parse_int=lambda digits: int(digits) if len(digits) <= _LENGTH_MAX else digits
        )
    except RecursionError:
        raise TooDeepError("nested too deep") from None


def too_deep(value: object) -> bool:
    """Whether lists and mappings stand inside each other more than `LEVELS_MAX` times.
    Without recursion.
    """
    level = [value]
    for _ in range(LEVELS_MAX + 1):
        level = [
            inner
            for each in level
            if isinstance(each, (list, tuple, Mapping))
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def _decimal(value: object) -> Decimal | None:
    """Finite and of a size that costs nothing to convert; else None."""
    if type(value) is int and -_PLAIN < value < _PLAIN:
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    if isinstance(value, int) and value.bit_length() > 128:
        return None
    if isinstance(value, str) and (len(value) > _LENGTH_MAX or not value.isascii() or "_" in value):
        return None
    try:
        found = value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except InvalidOperation:
        return None
    if not found.is_finite():
        return None
    if not found:
        return Decimal(0)
    return found if abs(found.adjusted()) <= _DIGITS_MAX else None
