"""How fast a provider is asked once it has said that it is asked too often: one pace for all that a
process does there, whichever cluster it is for. Pure: the time is an argument.

Each refused call is still repeated by whoever made it, after its own growing pause. The pace keeps
hundreds of them from coming back at the same moment.
"""

from __future__ import annotations

FIRST_S, MOST_S = 0.1, 5.0
"""Seconds between two calls after the first refusal, and at most."""
GROWTH, EASE = 2.0, 0.8
"""What a refusal and an answer make of the time between two calls."""
AT_ONCE_S = 1.0
"""Refusals within so long are one: they answer calls that were under way already."""


class Pace:
    """The turns at one provider, in seconds on the world's clock."""

    def __init__(self) -> None:
        self.gap_s = 0.0
        """Between two calls; 0 while there is no limit."""
        self._next = self._refused_at = float("-inf")

    def turn(self, now: float) -> float:
        """Takes the next turn; how long to wait for it, in seconds."""
        at = max(now, self._next) if self.gap_s else now
        self._next = at + self.gap_s
        return at - now

    def refused(self, now: float) -> None:
        """The provider was asked too often."""
        if now - self._refused_at < max(AT_ONCE_S, self.gap_s):
            return
        self._refused_at = now
        self.gap_s = min(max(self.gap_s * GROWTH, FIRST_S), MOST_S)

    def answered(self) -> None:
        """The provider answered: it may be asked somewhat faster."""
        self.gap_s = self.gap_s * EASE if self.gap_s * EASE >= FIRST_S / 2 else 0.0
