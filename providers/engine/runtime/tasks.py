"""Waiting and repeating on the world's clock, and when to stop: every bounded retry.
Buys nothing.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from providers.engine.messages import trimmed
from providers.engine.runtime.deadlines import left_s
from providers.errors import GpusError, RateLimited, TakenOver, Transient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from providers.engine.journal.shared_lease import SharedLease
    from providers.engine.runtime.deadlines import T
    from providers.engine.runtime.world import World


DELAYS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Pauses between tries of one thing, so seven tries over about a minute."""
_FIRST_S, _MOST_S, _GROWTH = 0.5, 5.0, 1.5
_SLICE_S = 1.0


class StopSignal:
    """Why a purchase should end early: the user's stop, a caller that is gone, or another run that
    has the cluster by now. One `within` another also ends with that, and where its own order was
    beaten.

    Looked at between calls, never during one.
    """

    def __init__(self, world: World, within: StopSignal | None = None) -> None:
        self._world, self._within = world, within
        self.abandoned = False
        self.beaten = ""
        """Why one of two orders at once is cancelled; empty while it goes on."""
        self.lease: SharedLease | None = None if within is None else within.lease
        """What says that another home has taken the cluster over, where the backend can."""
        self.rival = ""
        """Who else bought for the cluster meanwhile, as the labels at the cloud tell."""

    @property
    def on(self) -> bool:
        """True once any of it happened."""
        outer = self._within is not None and self._within.on
        own = self.abandoned or bool(self.beaten) or self.taken_over
        return own or outer or self._world.stop.is_set()

    @property
    def taken_over(self) -> bool:
        """True once another run has the cluster: what it has is not this one's to touch."""
        outer = self._within is not None and self._within.taken_over
        return bool(self.rival) or (self.lease is not None and self.lease.lost) or outer

    @property
    def why(self) -> str:
        """For messages."""
        if self._within is not None and self._within.on and not self.rival:
            return self._within.why
        if self.beaten:
            return self.beaten
        if self.taken_over:
            last = self.lease.last() if self.lease is not None else None
            told = f"{last.by} has it" if last is not None else "another run destroyed it"
            return f"taken over elsewhere: {self.rival or told}"
        return "the run that asked for it ended" if self.abandoned else "stopped by the user"

    def check(self, cluster: str) -> None:
        """Raises TakenOver where another run has the cluster: before anything of it is changed."""
        if self.taken_over:
            raise self.stopped(cluster, "nothing is changed")

    def stopped(self, cluster: str, rest: str) -> GpusError:
        """The end of a run that is stopped here; `rest` says what is left running."""
        if self.taken_over:
            return TakenOver(f"{cluster}: {self.why}; {rest}; run `pulumi up` again")
        return GpusError(f"{cluster}: {self.why}; {rest}")


async def pause(world: World, seconds: float, stop_signal: StopSignal | None = None) -> None:
    """Waits on the world's clock; ends early when the stop signal is on."""
    while seconds > 0 and not (stop_signal is not None and stop_signal.on):
        piece = min(seconds, _SLICE_S)
        await world.clock.sleep(piece)
        seconds -= piece


class Polling:
    """The growing pauses between looks at one thing. None goes past `deadline`, on the world's
    clock; one ends early when the stop signal is on.
    """

    def __init__(
        self,
        world: World,
        deadline: float = math.inf,
        stop_signal: StopSignal | None = None,
        *,
        first_s: float = _FIRST_S,
    ) -> None:
        self._world, self._deadline, self._stop_signal = world, deadline, stop_signal
        self._next_s, self._held_s = first_s, 0.0

    def put_off(self, error: Exception) -> None:
        """Makes the next pause as long as a cloud's refusal asks for."""
        self._next_s, self._held_s = max(self._next_s, getattr(error, "retry_after_s", 0.0)), 0.0

    def held(self, seconds: float) -> None:
        """Takes off the next pause how long a cloud has held its last answer."""
        self._held_s = seconds

    async def pause(self) -> None:
        """Waits until the next look is due."""
        left = max(0.0, self._deadline - self._world.clock.now())
        await pause(self._world, min(self._next_s - self._held_s, left), self._stop_signal)
        self._next_s, self._held_s = min(self._next_s * _GROWTH or _FIRST_S, _MOST_S), 0.0


async def repeated(
    world: World,
    provider: str,
    function: Callable[..., T],
    *arguments: Any,
    tries: int = len(DELAYS_S) + 1,
) -> T:
    """The result of a call that may be repeated at will: rate limits and passing faults are waited
    out, within bounds. Raises the last error.
    """
    for delay in DELAYS_S[: tries - 1]:
        try:
            return await world.call(provider, function, *arguments)
        except (RateLimited, Transient) as error:
            wait_s = max(delay, getattr(error, "retry_after_s", 0.0))
            if wait_s >= left_s():
                raise
            await pause(world, wait_s)
    return await world.call(provider, function, *arguments)


async def shielded(
    world: World,
    work: Callable[[StopSignal], Awaitable[T]],
    undo: Callable[[T], Awaitable[None]] | None,
) -> T:
    """The result of work that a cancelled caller must not cut short.

    When the caller is cancelled it is gone: the work is told to stop, ends by itself, and what it
    came to is undone; only then the cancellation goes on.
    """
    stop_signal = StopSignal(world)
    task = asyncio.ensure_future(work(stop_signal))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop_signal.abandoned = True
        landing = asyncio.ensure_future(_land(world, task, undo))
        while not landing.done():
            try:
                await asyncio.shield(landing)
            except asyncio.CancelledError:
                continue
        raise


async def _land(
    world: World, task: asyncio.Future[T], undo: Callable[[T], Awaitable[None]] | None
) -> None:
    try:
        result = await task
        if undo is not None:
            await undo(result)
    except Exception as error:
        # Nobody waits for it any more; what is not settled is in the journal.
        world.report("error", trimmed(error))
