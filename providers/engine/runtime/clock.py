"""The world's clock. Owns how the engine tells the time and waits; nothing else of the engine reads
a clock or sleeps.

asyncio is imported when something first sleeps: a plan needs only the time.
"""

from __future__ import annotations

from typing import Protocol

_STEP_S = 0.1


class Clock(Protocol):
    """`now` is in seconds since the epoch, on the world's clock."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class _Moment(Protocol):
    def now(self) -> float: ...


class RealClock:
    """The machine's own clock."""

    def now(self) -> float:
        import time

        return time.time()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(max(0.0, seconds))


class RehearsalClock:
    """The rehearsal world's clock, which `gpus rehearse advance` moves ahead in every process at
    once.

    A sleep takes real time in small steps and ends as soon as the world's moment is reached,
    however it got there.
    """

    def __init__(self, store: _Moment) -> None:
        self._store = store

    def now(self) -> float:
        return self._store.now()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        until = self._store.now() + seconds
        await asyncio.sleep(0)
        while (left := until - self._store.now()) > 0:  # noqa: ASYNC110 - another process moves this clock, and no event tells
            await asyncio.sleep(min(left, _STEP_S))
