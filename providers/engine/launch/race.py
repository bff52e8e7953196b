"""Two orders at once, at two providers: the first that has machines is kept, the other is cancelled
and confirmed gone.

Owns who may be asked beside whom, and what one order's end means for the other. Both are always at
different providers, so that what is released of one can never be the other's. Which of them is kept
is written down (`journal.races`) before anything is made of it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from providers.engine.launch.lane import Lane
from providers.engine.runtime.tasks import StopSignal, pause
from providers.planner.hedge import HEAD_START_S, beside, takes_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.engine.desired import ClusterSpec
    from providers.engine.launch.result import LaunchResult
    from providers.engine.launch.walk import Walk
    from providers.model.machine import Order
    from providers.model.offer import Candidate

    Together = Callable[[Candidate, Candidate], bool]


def is_hedged(spec: ClusterSpec) -> bool:
    """Whether two providers may be asked at once. A job never: its work could begin at both."""
    return spec.hedge > 1 and spec.ask.kind != "job" and not spec.setup.volumes


async def run(walk: Walk, together: Together) -> LaunchResult:
    """As `Walk.run`, with two providers asked at once wherever two may be."""
    hurried = False
    while True:
        if walk.stop.on:
            raise walk.stopped(walk.stop)
        walk.candidates.drop()
        if not walk.candidates.pending:
            raise walk.all_failed()
        if (result := await _Race(walk, together, hurried=hurried).run()) is not None:
            return result
        hurried = True


class _Race:
    """Orders of one walk until one of them has machines, two at a time at most."""

    def __init__(self, walk: Walk, together: Together, *, hurried: bool) -> None:
        self._walk, self._together = walk, together
        self._id = str(uuid.uuid4())
        self._hurried = hurried
        """A place was refused, so that there is no head start any more."""
        self._began = walk.now
        self._winner = ""
        self._is_open = False
        """It is not known what an order made: nothing further is asked, and the other goes on."""
        self._over = False
        """Nothing further is asked, and no order wins any more."""
        self._told = hurried
        self._running: dict[asyncio.Task[LaunchResult | None], Lane] = {}
        self._won: LaunchResult | None = None
        self._others: list[LaunchResult] = []
        self._errors: list[Exception] = []

    async def run(self) -> LaunchResult | None:
        """How it ended. None: nothing is left of any order, and there may be more to try."""
        self._send()
        while self._running:
            for task in await self._ended():
                self._take(self._running.pop(task), task)
            self._send()
        return self._result()

    async def _ended(self) -> set[asyncio.Task[LaunchResult | None]]:
        """The orders that have ended by now; none once the head start is over."""
        left = self._head_start()
        if len(self._running) > 1 or left <= 0:
            return (await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED))[0]
        timer = asyncio.ensure_future(pause(self._walk.world, left, self._walk.stop))
        await asyncio.wait({*self._running, timer}, return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        return {task for task in self._running if task.done()}

    def _head_start(self) -> float:
        if self._hurried or self._over or self._is_open or self._winner:
            return 0.0
        return self._began + HEAD_START_S - self._walk.now

    def _send(self) -> None:
        """Sends orders as long as there may be one more."""
        over = self._winner or self._is_open or self._over or self._walk.stop.on
        while len(self._running) < 2 and not over:
            if self._running and self._head_start() > 0:
                return
            head = self._next()
            if head is None:
                return
            self._start(head)

    def _next(self) -> Candidate | None:
        candidates = self._walk.candidates
        candidates.drop()
        other = next(iter(self._running.values()), None)
        if other is None:
            return candidates.pending[0] if candidates.pending else None
        if not self._takes_part(other.head):
            return None
        return next((each for each in candidates.pending if self._fits(each, other)), None)

    def _start(self, head: Candidate) -> None:
        if self._running and not self._told:
            self._told = True
            self._walk.world.report(
                "info", f"{self._walk.spec.cluster}: hedge: {head.provider} is asked at once too"
            )

        def others() -> list[Lane]:
            return [each for each in self._running.values() if each is not lane]

        def fits(candidate: Candidate) -> bool:
            # What takes no part is asked by itself, as without a race.
            part = self._takes_part(candidate) or not self._takes_part(head)
            return part and all(self._fits(candidate, each) for each in others())

        lane = Lane(
            head,
            StopSignal(self._walk.world, self._walk.stop),
            [],
            self._id,
            self._wins,
            lambda: next((each.head.provider for each in others()), ""),
            fits,
            lambda: not others(),
        )
        self._running[asyncio.ensure_future(self._walk.step(lane))] = lane

    def _takes_part(self, candidate: Candidate) -> bool:
        manifests = self._walk.world.manifests
        able = {name: each.capabilities for name, each in manifests.items()}
        return takes_part(candidate, able)

    def _fits(self, candidate: Candidate, other: Lane) -> bool:
        asked = other.orders[-1].candidates if other.orders else (other.head,)
        return self._takes_part(candidate) and all(
            beside(each, candidate) and self._together(each, candidate) for each in asked
        )

    def _wins(self, order: Order) -> bool:
        """Whether the order is the one that is kept; then the other is cancelled."""
        if not self._winner and not self._over:
            self._winner = self._walk.world.journal.win(self._id, order.token)
            self._cancel(f"{order.candidates[0].provider} had room before", order.token)
        return self._winner == order.token

    def _cancel(self, why: str, token: str = "") -> None:
        for lane in self._running.values():
            if not lane.orders or lane.orders[-1].token != token:
                lane.stop.beaten = why

    def _take(self, lane: Lane, task: asyncio.Task[LaunchResult | None]) -> None:
        """Notes how an order ended. After one that is not certain nothing further is asked. What
        was asked already may still win; then that one is looked for until it is known.
        """
        provider, error = lane.head.provider, task.exception()
        if lane.stop.rival:
            self._walk.stop.rival = lane.stop.rival
        if error is not None and not isinstance(error, Exception):
            raise error
        result = None if error is not None else task.result()
        if error is not None:
            self._errors.append(error)
            self._over = True
            if not self._walk.stop.on:
                self._cancel(f"the search ended with the order at {provider}", self._winner)
        elif result is None:
            self._hurried = True
        elif lane.orders[-1].token == self._winner:
            self._won = result
        else:
            self._others.append(result)
            self._is_open = True

    def _result(self) -> LaunchResult | None:
        found = [each for each in (self._won, *self._others) if each is not None]
        if not found:
            if self._errors:
                raise self._errors[0]
            return None
        first, *rest = found
        leftovers = [handle for each in rest for handle in (*each.handles, *each.leftovers)]
        reasons = [f"{each.placed.provider}: {why}" for each in rest for why in each.reasons]
        if not self._walk.stop.on:  # else they only say that the rest of it was stopped
            reasons += map(str, self._errors)
        return first._replace(
            attempts=self._walk.tried,
            leftovers=(*first.leftovers, *leftovers),
            reasons=(*first.reasons, *reasons),
        )
