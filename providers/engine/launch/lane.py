"""One order under way: what ends it, and which other one it may run beside. Buys nothing.

Owns the end of an order that has lost its race.
"""

from __future__ import annotations

from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import orders as order_table
from providers.engine.launch.compose import AT_ONCE
from providers.engine.runtime.accounts import adapter_of
from providers.engine.termination.settle import abandon

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.engine.termination.settle import Remainder
    from providers.model.machine import Handle, Order
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


def resumed_lane(world: World, row: order_table.OrderRow, stop: StopSignal) -> Lane:
    """The lane of an order of the journal: in its race it wins if no other one has."""
    race = row.race

    def wins(order: Order) -> bool:
        return world.journal.win(race, order.token) == order.token

    return Lane(row.order.candidates[0], stop, [row.order], race, wins if race else None)


async def released(
    world: World, row: order_table.OrderRow, keep: Collection[Handle] = ()
) -> Remainder:
    """Ends an order that has lost its race, confirmed, and writes down what became of it."""
    world.report(
        "info",
        f"{row.order.label.cluster}: an earlier run asked {row.provider} too, and keeps another"
        " place; ending that order",
    )
    adapter = await adapter_of(world, row.provider, row.account)
    left = await abandon(world, adapter, row.order, row.ticket, keep)
    state = order_table.RELEASED if left.clean else order_table.UNSETTLED
    handles = left.handles or left.deleted or row.handles
    why = left.why or "another order was first"
    world.journal.settled(row.order.token, state, world.clock.now(), why, handles)
    return left
