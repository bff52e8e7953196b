"""The verdict on a machine: pass, degraded, or not what was sold, each with its reasons.

Owns the records of a verdict. What leads to one is in `judge`.
"""

from __future__ import annotations

from typing import NamedTuple

PASS, DEGRADED, NOT_SOLD = "pass", "degraded", "not what was sold"
OK, POOR, WRONG, UNKNOWN = "ok", "poor", "wrong", "unknown"
"""Of one check: as expected; worse than that; another thing than what was sold; not known."""


class Check(NamedTuple):
    """One line: what was looked at, what was found beside what is expected, and why it is not ok.

    `explains`: what is poor here makes a card slow, whatever card it is.
    """

    name: str
    found: str
    expected: str = ""
    state: str = OK
    why: str = ""
    explains: bool = False


class Verdict(NamedTuple):
    """What a machine is worth, by all its checks."""

    checks: tuple[Check, ...]

    @property
    def word(self) -> str:
        """PASS, DEGRADED or NOT_SOLD."""
        states = {check.state for check in self.checks}
        return NOT_SOLD if WRONG in states else DEGRADED if POOR in states else PASS

    @property
    def is_other(self) -> bool:
        """True for another thing than what was sold."""
        return self.word == NOT_SOLD

    @property
    def speed(self) -> str:
        """The most telling rate, as in `bf16 824.8 TFLOP/s`; empty where none was measured."""
        return next(
            (f"{check.name} {check.found}" for check in self.checks if "TFLOP/s" in check.found), ""
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not pass, the gravest first."""
        order = (WRONG, POOR)
        return tuple(check.why for state in order for check in self.checks if check.state == state)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be looked at, and why."""
        return tuple(
            f"{check.name}: {check.why}" for check in self.checks if check.state == UNKNOWN
        )

    def __str__(self) -> str:
        return f"{self.word}: {'; '.join(self.reasons)}" if self.reasons else self.word
