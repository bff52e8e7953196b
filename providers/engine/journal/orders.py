"""Orders: written down before the call that may create a machine, and what became of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.journal.codec import (
    handles_in,
    handles_out,
    order_in,
    order_out,
    ticket_in,
    ticket_out,
)
from providers.engine.record import account_in, account_out
from providers.model.machine import BLOCK_ENDS_AT, BLOCK_NAME, PAID_AT, UPFRONT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from providers.engine.journal.database import Database
    from providers.engine.record import Account
    from providers.model.machine import Handle, Order, Ticket

INTENT, MADE, FAILED, RELEASED, UNSETTLED = "intent", "made", "failed", "released", "unsettled"
PENDING = (INTENT, UNSETTLED)
"""Orders of which it is not known, or not yet, what they made."""
OPEN = (INTENT, UNSETTLED, MADE)
"""Orders of which something may exist."""
EVERY = (*OPEN, FAILED, RELEASED)


class OrderRow(NamedTuple):
    """One order as the journal has it. `state` is intent, made, failed, released or unsettled.
    `account` is whose settings it was placed with; None where that was not written down (an older
    journal).
    """

    order: Order
    provider: str
    state: str
    ticket: Ticket | None
    handles: tuple[Handle, ...]
    micro_usd: int | None
    detail: str
    created_at: float
    account: Account | None = None
    updated_at: float = 0.0
    """When its state last changed."""
    race: str = ""
    """The race that it runs in with another order; see `races`."""


def intend(
    journal: Database,
    world: str,
    order: Order,
    now: float,
    account: Account | None = None,
    race: str = "",
) -> None:
    """Writes an order down before its call is made. When this returns it is on the disk; when
    it raises, nothing may be bought.

    `account` says where it is placed: a later run with other settings still finds it there. Of the
    orders of one `race` at most one is kept.
    """
    first = order.candidates[0]
    values = (
        order.token,
        world,
        *order.label,
        first.provider,
        json.dumps(order.node_names),
        "[]",
        INTENT,
        max(
            (
                candidate.micro_usd
                for candidate in order.candidates
                if candidate.micro_usd is not None
            ),
            default=None,
        ),
        json.dumps(
            {**order_out(order), "account": account_out(account), "race": race}, default=str
        ),
        "",
        "",
        now,
        now,
    )
    with journal.change() as db:
        db.execute(f"INSERT INTO orders VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608 - only placeholders


def note(journal: Database, ticket: Ticket, now: float) -> None:
    """Keeps where a pending order stands, so that any later process can go on with it."""
    _set(
        journal,
        ticket.order.token,
        now,
        ticket=json.dumps(ticket_out(ticket)),
        native_ids=handles_out(ticket.handles),
    )


def made(journal: Database, ticket: Ticket, now: float) -> None:
    """The order's machines exist."""
    price = ticket.placed.micro_usd if ticket.placed is not None else None
    _set(
        journal,
        ticket.order.token,
        now,
        state=MADE,
        ticket=json.dumps(ticket_out(ticket)),
        native_ids=handles_out(ticket.handles),
        micro_usd=price,
    )


def settled(
    journal: Database,
    token: str,
    state: str,
    now: float,
    detail: str = "",
    handles: Sequence[Handle] | None = None,
) -> None:
    """The order ended (`failed`: nothing of it is left; `released`: deleted, confirmed), or is
    `unsettled`, with what is known of it.
    """
    more: dict[str, Any] = {} if handles is None else {"native_ids": handles_out(handles)}
    _set(journal, token, now, state=state, detail=detail, **more)


def release(
    journal: Database,
    world: str,
    owner: str,
    cluster: str,
    generation: str,
    now: float,
    handles: Collection[Handle] | None = None,
) -> None:
    """Everything with this label is confirmed gone: closes its orders and its launches. An empty
    cluster or generation is any.

    With `handles`, only these machines are gone: the orders that made them are closed, and
    their launches have ended.
    """
    which = (world, owner, cluster, generation)
    match = "world = ? AND owner = ? AND ? IN ('', cluster) AND ? IN ('', generation)"
    ids = None if handles is None else {handle.native_id for handle in handles}
    with journal.change() as db:
        for token, known in db.execute(
            f"SELECT token, native_ids FROM orders WHERE {match} AND state IN {OPEN}",  # noqa: S608
            which,
        ).fetchall():
            if ids is None or ids & {native for _, native in json.loads(known)}:
                db.execute(
                    "UPDATE orders SET state = 'released', updated_at = ? WHERE token = ?",
                    (now, token),
                )
        for rowid, known in db.execute(
            f"SELECT rowid, native_ids FROM launches WHERE {match} AND ended_at IS NULL",  # noqa: S608
            which,
        ).fetchall():
            if ids is None or ids & {native for _, native in json.loads(known)}:
                db.execute("UPDATE launches SET ended_at = ? WHERE rowid = ?", (now, rowid))


def forget(
    journal: Database,
    world: str,
    owner: str,
    cluster: str,
    generation: str,
    handles: Collection[Handle],
    now: float,
) -> None:
    """These machines are confirmed gone, and others of their orders are not: the orders stay
    open for the others.
    """
    ids = {handle.native_id for handle in handles}
    with journal.change() as db:
        for token, known in db.execute(
            "SELECT token, native_ids FROM orders WHERE (world, owner, cluster, generation) ="  # noqa: S608
            f" (?, ?, ?, ?) AND state IN {OPEN}",
            (world, owner, cluster, generation),
        ).fetchall():
            remaining = [pair for pair in json.loads(known) if pair[1] not in ids]
            if remaining != json.loads(known):
                db.execute(
                    "UPDATE orders SET native_ids = ?, state = ?, updated_at = ? WHERE token = ?",
                    (json.dumps(remaining), MADE if remaining else RELEASED, now, token),
                )


def adopt(
    journal: Database,
    world: str,
    owner: str,
    cluster: str,
    generation: str,
    handles: Sequence[Handle],
    now: float,
) -> None:
    """The orders that made these machines belong to this generation from now on; the launches
    of previous ones have ended.
    """
    ids = {handle.native_id for handle in handles}
    with journal.change() as db:
        for token, known in db.execute(
            "SELECT token, native_ids FROM orders WHERE (world, owner, cluster) = (?, ?, ?)"  # noqa: S608
            f" AND state IN {OPEN}",
            (world, owner, cluster),
        ).fetchall():
            if ids & {native for _, native in json.loads(known)}:
                db.execute(
                    "UPDATE orders SET generation = ?, state = 'made', updated_at = ? WHERE"
                    " token = ?",
                    (generation, now, token),
                )
        db.execute(
            "UPDATE launches SET ended_at = ? WHERE (world, owner, cluster) = (?, ?, ?) AND"
            " generation != ? AND ended_at IS NULL",
            (now, world, owner, cluster, generation),
        )


def find(
    journal: Database,
    world: str,
    owner: str,
    cluster: str | None = None,
    generation: str | None = None,
    states: Sequence[str] = OPEN,
) -> tuple[OrderRow, ...]:
    """The orders in these states, oldest first."""
    query = (
        "SELECT intent, provider, state, ticket, native_ids, micro_usd, detail, created_at,"
        " generation, updated_at FROM orders WHERE world = ? AND owner = ? AND (? IS NULL OR"
        " cluster = ?) AND (? IS NULL OR generation = ?) ORDER BY rowid"
    )
    with journal.read() as db:
        rows = db.execute(
            query, (world, owner, cluster, cluster, generation, generation)
        ).fetchall()
        return tuple(_row(row) for row in rows if row[2] in states)


class Prepaid(NamedTuple):
    """What a cluster paid at once for a block, whatever became of its machines: 0 where its payment
    failed, None where it is not known.
    """

    cluster: str
    block: str
    provider: str
    paid_at: float
    ends_at: float
    micro_usd: int | None


def payers(journal: Database, world: str) -> tuple[str, ...]:
    """The owners that paid for something at once, whether or not it was used."""
    with journal.read() as db:
        rows = db.execute(
            "SELECT DISTINCT owner FROM orders WHERE world = ? AND ticket LIKE ?",
            (world, f'%"{UPFRONT}"%'),
        ).fetchall()
    return tuple(owner for (owner,) in rows)


def prepaid(journal: Database, world: str, owner: str) -> tuple[Prepaid, ...]:
    """Every block of the owner's orders, once, however many of them used it."""
    with journal.read() as db:
        clusters = db.execute(
            "SELECT DISTINCT cluster FROM orders WHERE world = ? AND owner = ? AND ticket LIKE ?",
            (world, owner, f'%"{UPFRONT}"%'),
        ).fetchall()
    found = [
        Prepaid(
            cluster,
            known.get(BLOCK_NAME, row.order.token),
            row.provider,
            float(known.get(PAID_AT) or row.created_at),
            float(known.get(BLOCK_ENDS_AT, 0)),
            row.ticket.upfront_micro_usd,
        )
        for (cluster,) in clusters
        for row in find(journal, world, owner, cluster, states=EVERY)
        if row.ticket is not None
        for known in (dict(row.ticket.native),)
        if UPFRONT in known
    ]
    # A payment that failed is nothing for all of them, and what one knows all do.
    found.sort(key=lambda each: (each.micro_usd is not None, -(each.micro_usd or 0)))
    return tuple({(each.cluster, each.block): each for each in found}.values())


def _set(journal: Database, token: str, now: float, **values: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    with journal.change() as db:
        db.execute(
            f"UPDATE orders SET {names}, updated_at = ? WHERE token = ?",  # noqa: S608
            (*values.values(), now, token),
        )


def _row(row: Sequence[Any]) -> OrderRow:
    intent, provider, state, ticket, ids, price, detail, created, generation, updated = row
    raw = json.loads(intent)
    order = order_in(raw)
    order = order._replace(label=order.label._replace(generation=generation))
    handles = handles_in(ids)
    known = ticket_in(json.loads(ticket), order) if ticket else None
    return OrderRow(
        order,
        provider,
        state,
        known,
        handles,
        price,
        detail,
        created,
        account_in(raw.get("account")),
        updated,
        raw.get("race", ""),
    )
