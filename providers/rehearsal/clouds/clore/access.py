"""Whom the rehearsed marketplace serves, and how often: its key and its limits of calls."""

from __future__ import annotations

from typing import NamedTuple

KEY = "rehearsal"
"""The only key that the server takes."""


class Pace(NamedTuple):
    """Seconds between two calls, and between two orders."""

    call_s: float
    order_s: float


LIMIT = Pace(0.005, 0.1)
"""What the server refuses: looser than the pace that the adapter keeps in a rehearsal, since on a
busy machine two calls sent in their turns can arrive together.
"""
