"""One order under way: what ends it, and which other one it may run beside. Buys nothing."""

from __future__ import annotations

from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.launch.compose import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.engine.runtime.tasks import StopSignal
    from providers.model.machine import Order
    from providers.model.offer import Candidate


class Lane(NamedTuple):
    """One order under way, of one or of two at once: where it begins, and what ends it.

    `orders` gets it once it is composed. Of two: the `race` they are in, what says that an order
    `wins` it, the provider that is `busy` with the other, which candidates it `fits` beside that,
    and whether it is `alone` by now.
    """

    head: Candidate
    stop: StopSignal
    orders: list[Order]
    race: str = ""
    wins: Callable[[Order], bool] | None = None
    busy: Callable[[], str] = lambda: ""
    fits: Callable[[Candidate], bool] = lambda _candidate: True
    alone: Callable[[], bool] = lambda: True

    def next_of(self, pending: Sequence[Candidate]) -> Sequence[Candidate]:
        """What of these may be in the lane's next order: its head and what follows, without those
        of the provider that is busy; nothing where the head is not among them any more.
        """
        if not self.race:
            return pending
        busy = self.busy()
        open_ones = (each for each in pending if each.provider != busy)
        own = dropwhile(lambda each: each is not self.head, open_ones)
        return list(islice(takewhile(self.fits, own), AT_ONCE))
