"""Certainty: what became of a call, and that what should be gone is gone. Owns every bounded retry;
buys nothing.

The rule behind all of it: nothing else is bought while something of an earlier try may exist, and
"gone" is only ever the cloud's own word.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal.orders import RELEASED
from providers.engine.messages import bare, kept_paid, trimmed
from providers.engine.runtime.deadlines import NO_ANSWER, left_s
from providers.engine.runtime.tasks import DELAYS_S, Polling, pause
from providers.engine.runtime.world import CALLS_AT_ONCE
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NotConfigured,
    OutcomeUnknown,
    RateLimited,
    Transient,
)
from providers.model.machine import GONE, QUEUED, Handle, Order, Ticket
from providers.model.money import per_hour

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from concurrent.futures import Future

    from providers.adapters.guard import Cloud
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World


GONE_LIMIT_S = 600.0
"""How long a deletion that the cloud accepted may take. A GPU machine takes one to three minutes.
"""
AGAIN_S = 60.0
"""A deletion that was accepted is asked for again after this long."""


class Remainder(NamedTuple):
    """What is left after a release. `why` is empty when everything is confirmed gone; else it says
    what is in the way. `silent` is the provider where it gave no answer. `deleted` is what was
    there, once all of it is gone.
    """

    handles: tuple[Handle, ...] = ()
    why: str = ""
    silent: str = ""
    deleted: tuple[Handle, ...] = ()

    @property
    def clean(self) -> bool:
        """True when nothing is left, on the cloud's word."""
        return not self.why

    def said(self, micro_usd: int | None) -> str:
        """What is in the way, and what that may cost per hour: the end of a message."""
        return f"{self.why}; {may_cost(self.handles, micro_usd)}"

    @classmethod
    def by(cls, error: CloudError, handles: Iterable[Handle]) -> Remainder:
        """What is left where this error is in the way."""
        return cls(
            tuple(handles), trimmed(error), error.provider if error.code == NO_ANSWER else ""
        )


async def certain(
    world: World,
    adapter: Cloud,
    order: Order,
    inflight: Future[Ticket] | None = None,
    stop: StopSignal | None = None,
) -> Ticket | None:
    """What became of an order whose answer was lost: its ticket, or None when the cloud is certain
    that nothing was made.

    `inflight` is the creating call itself if it may still be under way: until it has ended,
    "nothing was made" proves nothing. Asks by the order's token with growing pauses; not again
    where there was no answer and another order has won, whose user waits. Raises OutcomeUnknown
    when it is still not known, HalfMade when something else than the order exists.
    """
    why = ""
    # Once more than elsewhere: a cloud may be certain only after a minute, and one look may fail.
    for delay in (*DELAYS_S, DELAYS_S[-1], 0.0):
        landed = inflight is None or inflight.done()
        if inflight is not None and landed and inflight.exception() is None:
            return inflight.result()
        try:
            ticket = await world.call(adapter.name, adapter.resume, order)
        except HalfMade:
            raise
        except (NotConfigured, BadCredentials) as error:
            why = trimmed(error)
            break
        except (OutcomeUnknown, Transient, RateLimited) as error:
            why = trimmed(error)
            if error.code == NO_ANSWER and stop is not None and stop.beaten:
                break
        except CloudError:
            # A refusal in the order's own name: it was carried out and made nothing.
            return None
        else:
            if ticket is not None or landed:
                return ticket
            why = "the creating call is still under way"
        await pause(world, delay)
    raise OutcomeUnknown(
        f"{adapter.name}: it is not known whether order {order.token} made"
        f" {', '.join(order.node_names)}: {bare(adapter.name, why)}",
        provider=adapter.name,
        token=order.token,
    )


async def release(
    world: World,
    adapter: Cloud,
    owner: str,
    cluster: str,
    generation: str,
    handles: Iterable[Handle] = (),
    keep: Collection[Handle] = (),
) -> Remainder:
    """Deletes these machines and every other with the label, and confirms that they are gone.

    An empty cluster or generation is any. Nothing in `keep` is touched. Deletions that fail are
    tried again with growing pauses, up to seven times; one that the cloud accepted has
    `GONE_LIMIT_S` to take effect. An account that gives no answer is given up earlier where
    `deadlines.while_answering` holds. Never raises a CloudError: what is not confirmed is returned.
    """
    targets = {handle: -AGAIN_S for handle in handles if handle not in keep}
    gone: set[Handle] = set()
    failures, looked, polling, rounds = 0, False, Polling(world), 0
    until = world.clock.now() + GONE_LIMIT_S
    while True:
        trouble: CloudError | None = None
        try:
            if not looked or gone.issuperset(targets):
                found = await _labelled(world, adapter, owner, cluster, generation)
                looked = True
                for handle in found:
                    if handle not in keep:
                        targets.setdefault(handle, -AGAIN_S)
                        gone.discard(handle)
                if gone.issuperset(targets):
                    return Remainder(deleted=tuple(targets))
        except CloudError as error:
            trouble = error
        trouble = await _delete_due(world, adapter, targets, gone) or trouble
        left = tuple(handle for handle in targets if handle not in gone)
        if left:
            try:
                nodes = await world.call(adapter.name, adapter.observe, left)
                gone.update(
                    handle for handle, node in zip(left, nodes, strict=True) if node.status == GONE
                )
            except CloudError as error:
                trouble = error
        left = tuple(handle for handle in targets if handle not in gone)
        if trouble is None:
            failures = 0
            if not left and rounds == 0:
                rounds += 1
                continue
            if world.clock.now() >= until:
                return Remainder(
                    left,
                    "the deletion was accepted but has not taken effect within"
                    f" {GONE_LIMIT_S / 60:.0f} min",
                )
            await polling.pause()
            continue
        if (
            isinstance(trouble, (NotConfigured, BadCredentials))
            or failures >= len(DELAYS_S)
            or left_s() <= 0
        ):
            return Remainder.by(trouble, left)
        await pause(world, max(DELAYS_S[failures], getattr(trouble, "retry_after_s", 0.0)))
        failures += 1


async def _labelled(
    world: World, adapter: Cloud, owner: str, cluster: str, generation: str
) -> list[Handle]:
    """The machines with these labels that are not gone. An empty owner would be everybody: then
    nothing but what was named is meant, so none.
    """
    if not owner:
        return []
    found = await world.call(adapter.name, adapter.find, owner, cluster, generation)
    return [node.handle for node in found if node.status != GONE]


async def _delete_due(
    world: World, adapter: Cloud, targets: dict[Handle, float], gone: Collection[Handle]
) -> CloudError | None:
    """Asks for every deletion that was not asked for within `AGAIN_S`, so many at once as other
    calls, and notes in `targets` when one was accepted. Returns the last machine's error.
    """
    turns = asyncio.Semaphore(CALLS_AT_ONCE)

    async def ask(handle: Handle) -> CloudError | None:
        try:
            async with turns:
                await world.call(adapter.name, adapter.delete, handle)
        except CloudError as error:
            return error
        targets[handle] = world.clock.now()
        return None

    due = [
        handle
        for handle, asked in targets.items()
        if handle not in gone and world.clock.now() - asked >= AGAIN_S
    ]
    troubles = await asyncio.gather(*map(ask, due))
    return next(filter(None, reversed(troubles)), None)


async def abandon(
    world: World,
    adapter: Cloud,
    order: Order,
    ticket: Ticket | None,
    keep: Collection[Handle] = (),
) -> Remainder:
    """Ends an order that is under way: deletes what it has made so far and what it still makes,
    until the call itself has ended.

    Returns what could not be confirmed. Never raises a CloudError.
    """
    label = order.label
    handles: set[Handle] = set(ticket.handles) if ticket is not None else set()
    why = ""
    for delay in (*DELAYS_S, 0.0):
        ended = False
        try:
            if ticket is None or ticket.begins_at:
                # A poll would start machines in the window that was paid for.
                ticket = await world.call(adapter.name, adapter.resume, order)
                ended = ticket is None or ticket.state == "done" or bool(ticket.begins_at)
                if ticket is not None and ticket.state == QUEUED and order.candidates[0].offer.term:
                    world.journal.note(ticket, world.clock.now())
                if ticket is not None and ticket.begins_at:
                    world.report("warning", f"{label.cluster}: {kept_paid(ticket.detail)}")
            else:
                ticket = await world.call(adapter.name, adapter.poll, ticket)
                ended = ticket.state == "done"
            if ticket is not None:
                handles.update(ticket.handles)
        except HalfMade as error:
            handles.update(error.handles)
            ended = True
        except (OutcomeUnknown, Transient, RateLimited, NotConfigured, BadCredentials) as error:
            # Whether it goes on cannot be told from the ticket: ask by the token next.
            why, ticket = trimmed(error), None
        except CloudError:
            ended = True
        left = await release(world, adapter, *label[:3], handles=handles, keep=keep)
        if ended or not left.clean:
            return left
        handles.update(left.deleted)
        why = why or "the cloud still works on it"
        await pause(world, delay)
    return Remainder(tuple(handles), f"order {order.token} could not be ended: {why}")


async def leave_queue(
    world: World,
    adapter: Cloud,
    order: Order,
    ticket: Ticket | None,
    keep: Collection[Handle] = (),
) -> Remainder:
    """Ends an order that waits in its cloud's queue, as `abandon`, and writes that down once
    nothing is left of it.
    """
    left = await abandon(world, adapter, order, ticket, keep)
    if left.clean:
        world.journal.settled(order.token, RELEASED, world.clock.now(), "taken out of the queue")
    return left


def may_cost(handles: Collection[Handle], micro_usd: int | None) -> str:
    """`projects/p/zones/z/instances/n may still cost $10.21/h`: what a message must say
    about machines that are left.
    """
    names = ", ".join(handle.native_id for handle in handles) or "whatever it made"
    cost = per_hour(micro_usd) if micro_usd is not None else "money, at a price that is not known"
    return f"{names} may still cost {cost}"
