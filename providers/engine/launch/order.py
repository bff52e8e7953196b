"""One order: sent once, waited for, and compared with what was ordered. Returns how it ended.

Owns the certainty about one creating call. It is sent again only after the cloud said by its token
that nothing was made. It decides nothing about other places: that is the walk's.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import orders as order_table
from providers.engine.launch.taken_over import of_another, theirs
from providers.engine.launch.verify import delivered
from providers.engine.messages import WAITED, ended_line, trimmed, waits
from providers.engine.readiness.acceptance import OFF, accepted
from providers.engine.readiness.wait import until_ready
from providers.engine.runtime.deadlines import answering
from providers.engine.runtime.tasks import (
    DELAYS_S,
    Polling,
    pause,
    repeated,
)
from providers.engine.termination.settle import Remainder, abandon, certain, may_cost, release
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OfferGone,
    OutcomeUnknown,
    RateLimited,
    Transient,
    Unclassified,
)
from providers.model import duration
from providers.model.machine import GONE, QUEUED, RUNNING, STARTING, Handle, Node, Order, Ticket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from concurrent.futures import Future

    from providers.adapters.guard import Cloud
    from providers.engine.journal.orders import OrderRow
    from providers.engine.runtime.deadlines import T
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate
    from providers.remote.probe import Probe


HELD_STEP_S = 0.2
"""Real seconds between looks at the stop signal while a cloud holds its answer."""


class Delivered(NamedTuple):
    """The machines exist, are what was ordered, and are ready. `surplus` is what could not be
    deleted of machines beyond the order.
    """

    ticket: Ticket
    placed: Candidate
    nodes: tuple[Node, ...]
    surplus: Remainder


class Unobserved(NamedTuple):
    """The machines were made, but could not be observed yet."""

    ticket: Ticket
    reason: str


class Unfinished(NamedTuple):
    """The order still stands: the wait ran out, or this run has to leave it, as `stop` says."""

    ticket: Ticket


class Partial(NamedTuple):
    """Something was made that is not what was ordered. It is still there."""

    error: HalfMade


class Refused(NamedTuple):
    """The cloud refused. `remainder` is clean where nothing of the order is left."""

    error: CloudError
    remainder: Remainder


class Unknown(NamedTuple):
    """It is not known what the order made."""

    error: CloudError


class _UnknownError(Exception):
    def __init__(self, error: CloudError) -> None:
        self.error = error


class _UnfinishedError(Exception):
    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket


class Purchase:
    """One order at one cloud, from the creating call to its machines."""

    def __init__(
        self,
        world: World,
        adapter: Cloud,
        order: Order,
        stop: StopSignal,
        *,
        keep: frozenset[Handle],
        probe: Probe | None,
        heading: str,
        accept: str = OFF,
        wins: Callable[[Order], bool] | None = None,
    ) -> None:
        self.world, self.adapter, self.order, self.stop = world, adapter, order, stop
        self.keep, self.probe, self.accept = keep, probe, accept
        self.wins = wins
        """Of two orders at once: asked when the cloud has set machines aside, whether they are
        kept.
        """
        self.heading = heading
        """The order in one line, for messages."""
        self.ticket: Ticket | None = None
        """The ticket as the cloud gave it first."""

    @property
    def now(self) -> float:
        """The world's time."""
        return self.world.clock.now()

    @property
    def micro_usd(self) -> int | None:
        """The highest price that the order may be delivered at."""
        prices = (each.micro_usd for each in self.order.candidates if each.micro_usd is not None)
        return max(prices, default=None)

    async def place(
        self, deadline: float
    ) -> Delivered | Unobserved | Unfinished | Partial | Refused | Unknown:
        """Sends the order and waits for its machines. Raises no CloudError."""
        return await self._result(self._place(deadline))

    async def resume(
        self, entry: OrderRow, deadline: float
    ) -> Delivered | Unobserved | Unfinished | Partial | Refused | Unknown | None:
        """Goes on with an order of the journal.
        None: nothing was made, or nothing of it is left.
        """
        return await self._result(self._resume(entry, deadline))

    async def _result(self, work: Awaitable[T]) -> T | Unfinished | Partial | Refused | Unknown:
        try:
            return await work
        except _UnfinishedError as error:
            return Unfinished(error.ticket)
        except _UnknownError as unknown:
            return Unknown(unknown.error)
        except HalfMade as error:
            return Partial(error)
        except CloudError as error:
            # Some clouds take an order, report a failure, and create anyway.
            left = Remainder() if self.ticket is None else await self.release()
            return Refused(error, left)

    async def _place(self, deadline: float) -> Delivered | Unobserved:
        self.ticket = await self._submit(deadline)
        return await self._finish(self.ticket, deadline)

    async def _resume(
        self, entry: OrderRow, deadline: float
    ) -> Delivered | Unobserved | Refused | None:
        self.ticket = entry.ticket if entry.ticket is not None else await self._certain()
        if self.ticket is not None:
            return await self._finish(self.ticket, deadline)
        remainder = await self.release(entry.handles) if entry.handles else Remainder()
        if remainder.clean:
            return None
        error = HalfMade("an earlier order left machines", provider=self.adapter.name)
        return Refused(error, remainder)

    # Ending it

    async def release(self, handles: Collection[Handle] = ()) -> Remainder:
        """Deletes these and all else of the order's generation but `keep`."""
        label, keep = self.order.label[:3], self.keep
        work = release(self.world, self.adapter, *label, handles=handles, keep=keep)
        return await answering(work, where=self.stop.beaten)

    async def abandon(self) -> Remainder:
        """Ends the order, whatever became of it."""
        return await abandon(self.world, self.adapter, self.order, self.ticket, self.keep)

    async def give_up(self, ticket: Ticket) -> Remainder:
        """Ends a late order. Where another run has the cluster by now, only what this order made,
        and only if that run did not adopt it.
        """
        others: set[Handle] = set()
        if self.stop.taken_over:
            try:
                others = await theirs(
                    self.world, self.adapter, self.order, ticket.handles, self.stop
                )
            except CloudError as error:
                return Remainder(ticket.handles, trimmed(error))
        keep = {*self.keep, *others}
        work = abandon(self.world, self.adapter, self.order, ticket, keep)
        return await answering(work, where=self.stop.beaten)

    def none_came(self) -> NoCapacity:
        """The refusal of an order whose machines did not come by the deadline."""
        why = f"no machine within {duration.text(self.order.wait_s)}"
        if self.stop.on:
            why = self.stop.why
        return NoCapacity(why, provider=self.adapter.name, code=WAITED)

    # Sending it

    async def _submit(self, deadline: float) -> Ticket:
        """The order's ticket. Sends it once; again only after the cloud said by its token that
        nothing was made.

        After a lost answer it is sent again only where the cloud does the work of one token once:
        the first request may still be on its way.
        """
        adapter = self.adapter
        # What is paid in full is never paid again on a guess.
        again = (
            self.world.manifests[adapter.name].capabilities.deduplicates
            and self.order.candidates[0].offer.term is None
        )
        for delay in (*DELAYS_S, None):
            await self.world.turn(adapter.name)
            call = self.world.begin(adapter.submit, self.order)
            try:
                ticket = await self.world.wait_for(adapter.name, call, creates=True)
            except (RateLimited, Transient) as error:
                patience = max(delay or 0.0, getattr(error, "retry_after_s", 0.0))
                found = await self._certain()
                if found is None:
                    if delay is None or self.stop.on or self.now + patience > deadline:
                        raise
                    await pause(self.world, patience, self.stop)
                    continue
                ticket = found
            except (OutcomeUnknown, OfferGone) as error:
                # "Somebody has it": where a request was delivered twice, that is this order's own
                # first delivery.
                self._report_code(error)
                found = await self._certain(call if isinstance(error, OutcomeUnknown) else None)
                if found is None:
                    final = isinstance(error, (Unclassified, OfferGone))
                    if not again or final or self.stop.on or self.now > deadline:
                        raise
                    again = False
                    continue
                ticket = found
            self.world.journal.note(ticket, self.now)
            return ticket
        raise AssertionError("the last try either returns or raises")

    async def _certain(self, call: Future[Ticket] | None = None) -> Ticket | None:
        try:
            return await certain(self.world, self.adapter, self.order, call, self.stop)
        except OutcomeUnknown as error:
            raise _UnknownError(error) from error

    def _report_code(self, error: CloudError) -> None:
        if isinstance(error, Unclassified):
            self.world.report(
                "warning",
                f"{self.heading}: unknown code {error.code or '(none)'}: {trimmed(error)}",
            )

    # Waiting for it

    async def _wait(self, ticket: Ticket, deadline: float) -> Ticket:
        """Looks until the order is done. Raises the refusal, `_UnfinishedError`, `_UnknownError` or
        HalfMade.
        """
        # What answers when there is news is asked at once.
        first = {"first_s": 0.0} if self._is_held else {}
        polling = Polling(self.world, deadline, self.stop, **first)
        reported, waits_for = False, None
        while ticket.state != "done":
            await self._check_win(ticket)
            if ticket.detail != waits_for:
                waits_for = ticket.detail
                self._say("progress", waits(deadline, self.now), ticket)
            if ticket.state == QUEUED and not reported:
                reported = True
                self._say("info", "in the cloud's queue", ticket)
            if ticket.begins_at > deadline:
                raise _UnfinishedError(ticket)
            await polling.pause()
            try:
                polled = await self._look(ticket, deadline, polling)
            except (RateLimited, Transient) as error:
                polling.put_off(error)
            except (OutcomeUnknown, NotConfigured, BadCredentials) as error:
                # Credentials that are refused here say nothing about the order, which the cloud
                # took before.
                self._report_code(error)
                found = await self._certain()
                if found is None:
                    raise
                ticket = found
            else:
                if polled != ticket:
                    self.world.journal.note(polled, self.now)
                ticket = polled
            if ticket.state != "done" and (self.stop.on or self.now >= deadline):
                raise _UnfinishedError(ticket)
        return ticket

    def _say(self, level: str, what: str, ticket: Ticket) -> None:
        detail = f"; {ticket.detail}" if ticket.detail else ""
        self.world.report(level, ended_line(self.heading, what, detail))

    @property
    def _is_held(self) -> bool:
        """Whether the cloud's answer is waited for until there is news. Not beside another order:
        the cloud's list shows earlier which of them has machines.
        """
        return self.adapter.long_polls and self.wins is None

    async def _look(self, ticket: Ticket, deadline: float, polling: Polling) -> Ticket:
        """The ticket as it stands now, or once there is news where the cloud holds its answer;
        as it was when this has to stop before.
        """
        world, adapter = self.world, self.adapter
        call = world.begin_held(adapter.long_poll, ticket) if self._is_held else None
        if call is None:
            return await world.call(adapter.name, adapter.poll, ticket)
        began, told, loop = time.monotonic(), asyncio.Event(), asyncio.get_running_loop()

        def tell(_: object) -> None:
            # Long after it was left, nobody may be there any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(told.set)

        call.add_done_callback(tell)
        while not call.done() and not self.stop.on and self.now < deadline:
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), HELD_STEP_S)
        if not call.done():
            return ticket
        polling.held(time.monotonic() - began)
        return await world.wait_for(adapter.name, call)

    async def _check_win(self, ticket: Ticket) -> None:
        """Raises `_UnfinishedError` where it has machines, and another order had some before."""
        if self.wins is None or not (ticket.state == "done" or await self._is_granted(ticket)):
            return
        if not self.wins(ticket.order):
            raise _UnfinishedError(ticket)
        self.wins = None  # it has won; nobody else does

    async def _is_granted(self, ticket: Ticket) -> bool:
        """Whether the cloud lists every machine of the order as about to run, which it does about a
        minute before the order is done. From then on nobody else need be asked.
        """
        find = self.adapter.find
        try:
            nodes = await self.world.call(self.adapter.name, find, *ticket.order.label[:3])
        except CloudError:
            return False
        there = {node.name for node in nodes if node.status in (STARTING, RUNNING)}
        return there.issuperset(ticket.order.node_names)

    async def _finish(self, ticket: Ticket, deadline: float) -> Delivered | Unobserved:
        """Waits until the machines are made, compares them with the order, and makes them ready:
        the driver, what was sold, the workload.
        """
        ticket = await self._wait(ticket, deadline)
        self.world.journal.note(ticket, self.now)
        await self._check_win(ticket)
        if self.stop.taken_over:
            raise _UnfinishedError(ticket)
        try:
            nodes, labelled = await self._observed(ticket)
        except CloudError as error:
            cost = may_cost(ticket.handles, self.micro_usd)
            return Unobserved(ticket, f"made, but not observed yet: {trimmed(error)}; {cost}")
        known = {*ticket.handles, *self.keep}
        others = [node for node in labelled if node.status != GONE and node.handle not in known]
        if rivals := [node.name for node in others if self._is_rival(node)]:
            # Two homes without a shared lease may place the same cluster of the same state at once,
            # and so under the same generation.
            self.stop.rival = f"another run has bought {', '.join(rivals)} for it"
            raise _UnfinishedError(ticket)
        placed = delivered(ticket, nodes)
        surplus = await self._without_surplus(ticket, [node.handle for node in others])
        if self.probe is not None:
            nodes, took = await self._ready(ticket, placed, nodes, deadline, self.probe)
            deadline += took
        if ticket.order.setup.script_digest:
            nodes = await self._with_workload(ticket, placed, nodes, deadline)
        return Delivered(ticket, placed, nodes, surplus)

    async def _ready(
        self,
        ticket: Ticket,
        placed: Candidate,
        nodes: tuple[Node, ...],
        deadline: float,
        probe: Probe,
    ) -> tuple[tuple[Node, ...], float]:
        """The nodes once their driver answers and they are what was sold; and how long measuring
        that took, in seconds, which is no fault of the place.
        """
        world, adapter, handles = self.world, self.adapter, ticket.handles
        ready = await until_ready(
            world, adapter, placed, handles, probe, deadline, self.stop, observed=nodes
        )
        if ready is None:
            raise _UnfinishedError(ticket)
        began, setup = self.now, ticket.order.setup
        if self.accept != OFF and not await accepted(
            world, placed, handles, ready, probe, self.accept, setup, self.stop
        ):
            raise _UnfinishedError(ticket)
        return ready, self.now - began

    async def _observed(self, ticket: Ticket) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The order's machines, and every machine with the labels of its generation."""
        world, adapter = self.world, self.adapter
        nodes, labelled = await asyncio.gather(
            repeated(world, adapter.name, adapter.observe, ticket.handles),
            repeated(world, adapter.name, adapter.find, *ticket.order.label[:3]),
        )
        return tuple(nodes), tuple(labelled)

    def _is_rival(self, node: Node) -> bool:
        """Whether a machine is of an order of the cluster that was never placed from this home."""
        if not of_another(node, self.order):
            return False
        label = self.order.label
        every = self.world.journal.orders(
            self.world.name, label.owner, label.cluster, states=order_table.EVERY
        )
        return all(node.name not in entry.order.node_names for entry in every)

    async def _without_surplus(self, ticket: Ticket, surplus: Collection[Handle]) -> Remainder:
        """Deletes machines beyond the order."""
        if not surplus:
            return Remainder()
        self.world.report(
            "warning", f"{self.heading}: {len(surplus)} machines more than ordered; deleting them"
        )
        return await release(
            self.world,
            self.adapter,
            *ticket.order.label[:3],
            handles=surplus,
            keep={*ticket.handles, *self.keep},
        )

    async def _with_workload(
        self, ticket: Ticket, placed: Candidate, nodes: tuple[Node, ...], deadline: float
    ) -> tuple[Node, ...]:
        from providers.engine.readiness import workload
        from providers.engine.readiness.handover import deliver_files

        if placed.kind == "job" and any(node.ended for node in nodes):
            # It was short. What it came to, its log says.
            digest = ticket.order.setup.script_digest
            return await workload.seen(
                self.world, self.adapter, placed.kind, digest, nodes, ticket.order
            )
        began = self.now
        if not await deliver_files(self.world, self.adapter, ticket.order, nodes, self.stop):
            raise _UnfinishedError(ticket)
        # How long a folder takes is no fault of the place.
        deadline += self.now - began
        if placed.kind != "service":
            return nodes
        working = await workload.until_working(
            self.world, self.adapter, placed, nodes, ticket.order, deadline, self.stop
        )
        if working is None:
            raise _UnfinishedError(ticket)
        return working
