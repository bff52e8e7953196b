"""The orders on the key as nodes: whose they are, and in which state. Owns how an order is known
and its handle.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from providers.adapters.clore import bids, figures, label, market, orders
from providers.adapters.clore import errors as codes
from providers.adapters.clore.memory import unusable
from providers.errors import NotConfigured, Unsupported
from providers.model.ask import SPOT
from providers.model.machine import (
    ENDED,
    GONE,
    PREEMPTED,
    RUNNING,
    STARTING,
    STOPPING,
    Handle,
    Label,
    Node,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.clore.client import Client
    from providers.adapters.clore.memory import Memory, Rental

DOUBT_S = 3_600.0
"""A container is up within this long, and its order shows the label then."""


def handle_of(number: int) -> Handle:
    """The handle of an order."""
    return Handle(market.PROVIDER, f"orders/{number}")


def order_of(handle: Handle) -> int:
    """The order's id. Raises Unsupported for what is no order of Clore."""
    word = handle.native_id.removeprefix("orders/")
    if not (word.isascii() and word.isdigit()):
        message = f'clore: wanted an order such as "orders/12345", found {handle.native_id!r}'
        raise Unsupported(message, provider=codes.PROVIDER, code="native-id", block_s=0.0)
    return int(word)


def find(
    client: Client,
    memory: Memory,
    clock: Callable[[], float],
    sole: bool,
    not_configured: str,
    owner: str,
    cluster: str = "",
    generation: str = "",
) -> Sequence[Node]:
    """See the protocol. Calls: 1, and spot_marketplace for each bid found that is not up.

    An order is known by this machine's memory, by an intent it fits, or only by its label. The
    label holds no generation: such an order is listed for an owner or a cluster, not for a
    generation, so that one generation's clean-up never takes another's machine. Of any owner, an
    order that only its label tells of has an empty owner: the ports hold no more than a digest of
    it.
    """
    rentals, intents = memory.readable()
    for intent in intents:
        if intent.refused and clock() - intent.started_at > DOUBT_S:
            with suppress(*unusable()):
                memory.settle(intent.token)

    def meant(whose: Label) -> bool:
        return bool(whose.owner) and owner in {"", whose.owner}

    if (
        sole
        and not intents
        and all(rental.cancelled or not meant(rental.label) for rental in rentals.values())
    ):
        return ()
    if not_configured:
        parsed = [
            rental for rental in rentals.values() if meant(rental.label) and not rental.cancelled
        ]
        if parsed or any(meant(intent.label) for intent in intents):
            raise NotConfigured(
                f"clore: {not_configured}; {len(parsed)} orders of this owner may run",
                provider=market.PROVIDER,
            )
        return ()
    nodes: list[Node] = []
    for row in client.my_orders():
        number = orders.order_id(row)
        if orders.has_ended(row):
            continue
        rental = rentals.get(number)
        whose = rental.label if rental is not None and rental.label.owner else None
        if whose is None:
            sent = next((intent for intent in intents if orders.is_order_of(row, intent)), None)
            if sent is not None:
                # The run that ordered it was cut short before it saw the order: whoever finds
                # it can take it over.
                whose = sent.label
                with suppress(*unusable()):
                    memory.keep(number, whose, sent.token)
        if whose is None and not owner and label.is_label(orders.ports(row)):
            whose = Label("", "", "", "")
        elif whose is None and owner and label.belongs(orders.ports(row), owner, cluster):
            whose = Label(owner, cluster, "", "")
            if cluster:
                with suppress(*unusable()):
                    memory.keep(number, whose, "")
        if whose is None or any(
            asked and asked != found
            for asked, found in zip((owner, cluster, generation), whose, strict=False)
        ):
            continue
        nodes.append(node_of(client, clock, number, row, rental, whose))
    return nodes


def node_of(
    client: Client,
    clock: Callable[[], float],
    number: int,
    row: Mapping[str, object] | None,
    rental: Rental | None,
    whose: Label | None,
) -> Node:
    """An order as the engine sees it; gone where there is no row of it."""
    handle, name = handle_of(number), f"order-{number}"
    cancelled = rental is not None and rental.cancelled
    if rental is not None and rental.label.owner and whose is None:
        whose = rental.label
    if row is None:
        return Node(
            handle, name, GONE, whose, detail="" if cancelled else "not among the key's orders"
        )
    parsed = figures.gpus(row)
    status, detail = _status(client, clock, row, cancelled=cancelled)
    server = orders.whole(row, "si")
    mapped = orders.ports(row)
    return Node(
        handle=handle,
        name=name,
        status=status,
        label=whose,
        region="" if (place := figures.region(row)) == "XX" else place,
        machine_type=figures.machine_type(server) if server else "",
        gpu_type="" if isinstance(parsed, str) else parsed.model.name,
        gpu_count=0 if isinstance(parsed, str) else parsed.gpu_count,
        contradiction=parsed if isinstance(parsed, figures.Contradiction) else "",
        capacity=orders.capacity(row),
        external_ip=orders.host(row),
        created_at=orders.made(row) or 0.0,
        detail=detail,
        ports=tuple(sorted(mapped.items())),
        ssh_user="root",
    )


def _status(
    client: Client, clock: Callable[[], float], row: Mapping[str, object], *, cancelled: bool
) -> tuple[str, str]:
    """A status and why. No state stands in a row: it is read from what is there and what is
    not.
    """
    spot = orders.capacity(row) == SPOT
    if orders.has_ended(row):
        made_at, hours = orders.made(row), figures.longest_hours(row)
        if cancelled:
            return GONE, ""
        if spot:
            return PREEMPTED, "outbid, or ended by the host"
        if made_at is not None and hours is not None and made_at + hours * 3_600 <= clock():
            return ENDED, f"the longest rental of {hours:g} h is over"
        return GONE, "ended by the host or by hand"
    if cancelled:
        return STOPPING, ""
    if orders.is_up(row):
        return RUNNING, (
            "the host is offline" if row.get("online") is False else orders.web_address(row)
        )
    if spot and bids.outbid(client.spot_market(orders.whole(row, "si"))):
        return PREEMPTED, "outbid"
    return STARTING, "the host is offline" if row.get("online") is False else ""
