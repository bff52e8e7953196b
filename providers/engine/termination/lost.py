"""Orders that have lost a race with another one: ended, confirmed, and what is said of one where
that is not certain. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import orders as order_table
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.deadlines import while_answering
from providers.engine.termination.settle import Remainder, abandon, may_cost
from providers.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from providers.engine.journal.orders import OrderRow
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle


class Lost(NamedTuple):
    """An order that has lost, of which it is not known that nothing is left. `handles` are what is
    known of it.
    """

    row: OrderRow
    handles: tuple[Handle, ...] = ()
    why: str = "it is not known what it made"

    @property
    def reason(self) -> str:
        """What may still cost money."""
        return (
            f"half-made: {self.row.provider} was asked at once too, and that order could not be"
            f" ended: {self.why}; {may_cost(self.handles, self.row.micro_usd)}"
        )


async def released(world: World, row: OrderRow, keep: Collection[Handle] = ()) -> Lost | None:
    """Ends an order that has lost, confirmed, and writes down what became of it. None where nothing
    is left. Raises no CloudError.
    """
    world.report(
        "info",
        f"{row.order.label.cluster}: an earlier run asked {row.provider} too, and keeps another"
        " place; ending that order",
    )
    try:
        with while_answering():
            adapter = await adapter_of(world, row.provider, row.account)
            left = await abandon(world, adapter, row.order, row.ticket, keep)
    except CloudError as error:
        left = Remainder.by(error, row.handles)
    state = order_table.RELEASED if left.clean else order_table.UNSETTLED
    handles = left.handles or left.deleted or row.handles
    why = left.why or "another order was first"
    world.journal.settled(row.order.token, state, world.clock.now(), why, handles)
    return None if left.clean else Lost(row, handles, left.why)


def with_lost(record: ClusterRecord, lost: Iterable[Lost]) -> ClusterRecord:
    """The record with orders that could not be ended yet: what they made is left over, and why is a
    reason.
    """
    found = tuple(lost)
    handles = (handle for each in found for handle in each.handles)
    leftovers = dict.fromkeys((*record.leftovers, *handles))
    reasons = dict.fromkeys((*record.reasons, *(each.reason for each in found)))
    return record._replace(leftovers=tuple(leftovers), reasons=tuple(reasons))
