"""What a plan notes of a place, and which of its notes come first. Pure."""

from __future__ import annotations

STOPS, COSTS, REST = 0, 1, 2
"""What a note is about, the most urgent first."""


class Stops(str):
    """A note on what will not work as declared there, or will be lost."""

    __slots__ = ()


class Costs(str):
    """A note on what costs money without a figure."""

    __slots__ = ()


def urgency(text: str) -> int:
    """STOPS, COSTS or REST."""
    if isinstance(text, Stops):
        return STOPS
    return COSTS if isinstance(text, Costs) or "$" in text else REST
