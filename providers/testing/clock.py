"""A clock for tests: it jumps instead of waiting. Owns nothing else."""

from __future__ import annotations


class JumpingClock:
    """Time that passes only when somebody sleeps, or when the test says so. `slept` adds up the
    sleeps, in seconds.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self.slept = 0.0

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        import asyncio

        self._now += seconds
        self.slept += seconds
        await asyncio.sleep(0)
