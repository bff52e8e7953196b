"""What became of an order that was sent: listed, up, outbid, lost. Owns how long each may take
before it is certain.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from providers.adapters.clore import bids, market, nodes, orders, purchase
from providers.adapters.clore.refusals import Refuse
from providers.errors import HalfMade, OutcomeUnknown
from providers.model.ask import SPOT
from providers.model.duration import text as duration_text
from providers.model.machine import Handle, Order, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.clore.client import Client
    from providers.adapters.clore.memory import Intent, Memory, Rental

SETTLE_S = 60.0
"""An order whose answer was lost is listed within 2 to 50 s if it was made (recorded by public
clients, read 2026-11-27).
"""

ACCEPTED_S = 600.0
"""An order that the service accepted and never listed. No source says how long that can take; after
this long it runs nowhere and costs nothing.
"""

HEARD_S = 5.0
"""A server that is taken counts as a stranger's once nothing on the key has it after this long. An
order that is listed later still (see `SETTLE_S`) is found by its label.
"""


def poll(client: Client, memory: Memory, clock: Callable[[], float], ticket: Ticket) -> Ticket:
    """Looks the order up; done once its container runs and ssh is mapped. A bid that was beaten
    meanwhile is raised, up to the cap.

    Calls: my_orders, once more if it is not there; for a bid that waits spot_marketplace and
    set_spot_price. Raises OutcomeUnknown when an accepted order is not listed in time, HalfMade
    when it is not as ordered or not up by its deadline, OfferGone when it ended before.
    """
    order, token = ticket.order, ticket.order.token
    intent = memory.intent(token)
    row = _locate(client, memory, token, intent)
    if intent is None or row is None:
        if intent is not None and clock() - intent.started_at < ACCEPTED_S:
            return ticket
        if intent is None and row is not None and not orders.has_ended(row):
            return ticket._replace(
                state="done", handles=(nodes.handle_of(orders.order_id(row)),), detail=""
            )
        raise OutcomeUnknown(
            f"clore: order {token} was accepted and is not listed",
            provider=market.PROVIDER,
            token=token,
            code="not-listed",
        )
    number = orders.order_id(row)
    handles = (nodes.handle_of(number),)
    if orders.has_ended(row):
        memory.settle(token)
        raise Refuse(market.PROVIDER, intent.server).offer(
            "the order ended before it was up", "ended"
        )
    if orders.capacity(row) not in {"", intent.capacity}:
        raise HalfMade(
            f"clore: wanted {intent.capacity}, found {orders.capacity(row)}",
            provider=market.PROVIDER,
            code="capacity",
            handles=handles,
        )
    if orders.is_up(row):
        memory.settle(token)
        placed = purchase.placed_at_price(order.candidates[0], intent)
        return ticket._replace(state="done", placed=placed, handles=handles, detail="")
    if clock() - intent.started_at >= intent.deadline_s:
        stage = (
            "no address"
            if not orders.host(row)
            else "no ssh port"
            if orders.SSH_PORT not in orders.ports(row)
            else "no container"
        )
        limit = duration_text(intent.deadline_s)
        raise HalfMade(
            f"clore: not up within {limit}: {stage}",
            provider=market.PROVIDER,
            code="not-up",
            handles=handles,
            block_s=3_600.0,
        )
    if intent.capacity == SPOT:
        intent = _keep_up(client, memory, number, intent, handles)
    return ticket._replace(
        placed=purchase.placed_at_price(order.candidates[0], intent),
        handles=handles,
        detail="starting",
    )


def _keep_up(
    client: Client, memory: Memory, number: int, intent: Intent, handles: tuple[Handle, ...]
) -> Intent:
    """Raises our bid when another took the server before it was up; beyond the cap that is the
    end of it.
    """
    view = client.spot_market(intent.server)
    if not bids.outbid(view):
        return intent
    old, usd = Decimal(intent.per_day), Decimal(intent.usd_per_day)
    per_day = bids.needed(view, intent.coin, old, usd / old)
    usd_per_day = per_day * usd / old
    if usd_per_day > Decimal(intent.cap_usd_per_day):
        cap = Decimal(intent.cap_usd_per_day)
        message = f"clore: outbid at ${usd_per_day / 24:.4f}/h, over the cap of ${cap / 24:.4f}/h"
        raise HalfMade(
            message, provider=market.PROVIDER, code="outbid", handles=handles, block_s=600.0
        )
    if per_day > old:
        client.set_spot_price(number, float(per_day))
        intent = intent._replace(per_day=str(per_day), usd_per_day=str(usd_per_day))
        memory.intend(intent)
    return intent


def resume(
    client: Client, memory: Memory, clock: Callable[[], float], order: Order
) -> Ticket | None:
    """See the protocol. None at once when no intent was written, for then nothing was sent.
    Calls: none, or my_orders once or twice.

    An unclear answer is settled after `SETTLE_S` of the order not being listed, an accepted one
    after `ACCEPTED_S`.
    """
    intent = memory.intent(order.token)
    if intent is None and _rental(memory, order.token) is None:
        return None
    row = _locate(client, memory, order.token, intent)
    if row is not None:
        if orders.has_ended(row):
            memory.settle(order.token)
            return None
        placed = (
            order.candidates[0]
            if intent is None
            else purchase.placed_at_price(order.candidates[0], intent)
        )
        return Ticket(
            order,
            "waiting",
            (("server", str(orders.whole(row, "si"))),),
            placed,
            (nodes.handle_of(orders.order_id(row)),),
            "found",
        )
    if intent is None:
        return None
    if intent.refused:
        _strangers(client, memory, clock, order, intent)
        return None
    window = ACCEPTED_S if intent.answered else SETTLE_S
    left = window - (clock() - intent.started_at)
    if left > 0:
        message = (
            f"clore: order {order.token} for server-{intent.server} is not listed yet; certain"
            f" in {duration_text(left + 1)}"
        )
        raise OutcomeUnknown(
            message, provider=market.PROVIDER, token=order.token, code="not-listed"
        )
    memory.settle(order.token)
    return None


def _strangers(
    client: Client, memory: Memory, clock: Callable[[], float], order: Order, intent: Intent
) -> None:
    """Returns once no order of the key on that server, made since, could be this one. Raises
    OutcomeUnknown until then. Calls: my_orders.

    The intent stays for `DOUBT_S`: should such an order carry our label once it is up, `find`
    knows it.
    """
    age, known = clock() - intent.started_at, memory.rentals()
    sent = intent._replace(refused=False)
    here = [
        row
        for row in client.my_orders()
        if orders.order_id(row) not in known and orders.is_order_of(row, sent)
    ]
    if age < (SETTLE_S if here else HEARD_S):
        message = (
            f"clore: order {order.token}: server-{intent.server} is taken, by whom shows in"
            f" {duration_text(SETTLE_S - age + 1)} at most"
        )
        raise OutcomeUnknown(message, provider=market.PROVIDER, token=order.token, code="taken")


def _rental(memory: Memory, token: str) -> Rental | None:
    return next(
        (rental for rental in memory.rentals().values() if token and rental.token == token),
        None,
    )


def _locate(
    client: Client, memory: Memory, token: str, intent: Intent | None
) -> Mapping[str, object] | None:
    """The row of an order, active or ended, kept as ours once seen."""
    rental, known = _rental(memory, token), memory.rentals()
    for completed in (False, True):
        rows = client.my_orders(completed=completed)
        if rental is not None:
            found = [row for row in rows if orders.order_id(row) == rental.order_id]
        else:
            found = [
                row
                for row in rows
                if intent is not None
                and orders.order_id(row) not in known
                and orders.is_order_of(row, intent)
            ]
        if found:
            newest = max(found, key=lambda row: orders.made(row) or 0.0)
            newest = orders.from_completed(newest) if completed else newest
            if rental is None and intent is not None:
                memory.keep(orders.order_id(newest), intent.label, token)
            return newest
    return None
