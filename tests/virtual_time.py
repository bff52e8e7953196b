"""Time that passes only once everything waits: for tests in which several things happen at once.

A sleep, and a call in a thread that takes its time (`advance`), end in the order of their times,
whatever the machine is busy with. `run` drives a coroutine of a world on such a clock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from providers.engine.runtime.world import World

T = TypeVar("T")


class VirtualClock:
    """The clock of one world. Outside of `run`, its time passes at once."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, Callable[[], object], bool]] = []
        """When, a number, what wakes it up, and whether that is a thread."""
        self._numbers = itertools.count()
        self._loop_thread: int | None = None
        self.calls = 0
        """Calls under way in threads."""
        self._waiting = 0
        """Those of them that wait for a time."""

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Takes that long: a call in a thread ends later, a test moves the time."""
        if self._loop_thread in {None, threading.get_ident()}:
            self._now += seconds
            return
        woken = threading.Event()
        with self._lock:
            self._push(seconds, woken.set, in_thread=True)
        woken.wait()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            self._push(seconds, lambda: _end(future), in_thread=False)
        await future

    def _push(self, seconds: float, wake: Callable[[], object], *, in_thread: bool) -> None:
        self._waiting += in_thread
        item = (self._now + seconds, next(self._numbers), wake, in_thread)
        heapq.heappush(self._due, item)

    def pass_on(self) -> bool:
        """Moves to the next time that anything waits for, where all that runs waits."""
        with self._lock:
            if self.calls > self._waiting or not self._due:
                return False
            at, _, wake, in_thread = heapq.heappop(self._due)
            self._now = max(self._now, at)
            self._waiting -= in_thread
            wake()
            return True


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        """Where nothing is ready, lets the clock pass on."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if found := super().select(0):
            return found
        return [] if self._clock.pass_on() else super().select(0.0005)


def run(clock: VirtualClock, world: World, work: Coroutine[Any, Any, T]) -> T:
    """The result of work of this world, in the clock's time."""
    real = world.wait_for

    async def counted(*arguments: Any, **more: Any) -> Any:
        clock.calls += 1
        try:
            return await real(*arguments, **more)
        finally:
            clock.calls -= 1

    world.wait_for = counted  # type: ignore[method-assign]
    clock._loop_thread = threading.get_ident()  # noqa: SLF001 - of this module
    try:
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(clock))
        ) as runner:
            return runner.run(work)
    finally:
        clock._loop_thread = None  # noqa: SLF001 - of this module
        world.wait_for = real  # type: ignore[method-assign]
