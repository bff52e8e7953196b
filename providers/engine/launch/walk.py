"""The walk: one order after another, in the plan's order, until machines are there.

Owns attempts, and what each end of an order means for the next one. An order is never sent before
its intent is on the disk, and none is sent while something of an earlier one may exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from providers.engine.journal import orders as order_table
from providers.engine.launch.afford import unaffordable
from providers.engine.launch.candidates import Candidates
from providers.engine.launch.compose import compose
from providers.engine.launch.lane import Lane
from providers.engine.launch.order import (
    Delivered,
    Partial,
    Purchase,
    Refused,
    Unfinished,
    Unknown,
    Unobserved,
)
from providers.engine.launch.result import (
    ACQUIRED,
    UNCONFIRMED,
    WAITING_ON,
    LaunchResult,
    attempt_of,
)
from providers.engine.market import closed_places
from providers.engine.messages import (
    all_failed,
    ended_line,
    line,
    refusal_lines,
    too_slow,
    trimmed,
    waits_for_window,
    wrong_anywhere,
)
from providers.engine.readiness.wait import LOADING, WRONG
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.tasks import DELAYS_S, StopSignal, pause, repeated
from providers.engine.termination.settle import Remainder, may_cost
from providers.errors import CloudError, GpusError, HalfMade, OfferGone, PriceRose
from providers.model.machine import CANCELLED, QUEUED, Handle, Label, Order, Ticket
from providers.planner.suggest import hints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.market.snapshot import Market
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.machine import Attempt
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan


def begun(
    world: World,
    plan: Plan,
    spec: ClusterSpec,
    generation: str,
    stop: StopSignal | None = None,
    *,
    market: Market | None = None,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> Walk:
    """The walk through a plan's candidates, before its first order.

    `market` is what the plan was made of: a provider whose market moved is listed again into it.
    `keep` are machines of this generation that exist already and stay. `accept` narrows the
    candidates. `before` are earlier attempts of the same purchase: the numbering continues from
    them.
    """
    walk = Walk(world, spec, generation, stop or StopSignal(world), frozenset(keep))
    walk.candidates = Candidates(world, plan, spec, market, accept)
    walk.attempts, walk.numbered = list(before), len(before)
    return walk


async def resumed(
    world: World,
    spec: ClusterSpec,
    entry: order_table.OrderRow,
    lane: Lane,
    *,
    keep: Collection[Handle] = (),
) -> LaunchResult | CloudError | None:
    """Goes on with an order of the journal: waits for it within its time, and checks what was made.

    None: nothing was made. A CloudError: it ended with that refusal, nothing is left. The journal
    is brought up to date.
    """
    generation = entry.order.label.generation
    walk = Walk(world, spec, generation, lane.stop, frozenset(keep))
    ended = await walk.resume(entry, lane)
    return ended._replace(account=entry.account) if isinstance(ended, LaunchResult) else ended


class Bought(NamedTuple):
    """One order under way: where it is placed, and which attempt it is."""

    purchase: Purchase
    lane: Lane
    account: Account
    number: int
    started: float

    @property
    def order(self) -> Order:
        return self.purchase.order


class Walk:
    """What one run has tried, and what is still to be tried."""

    def __init__(
        self,
        world: World,
        spec: ClusterSpec,
        generation: str,
        stop: StopSignal,
        keep: frozenset[Handle],
    ) -> None:
        self.world, self.spec, self.stop, self.keep = world, spec, stop, keep
        self.label = Label(spec.owner, spec.cluster, generation, spec.fingerprint)
        self.candidates = Candidates(world, None, spec, None, None)
        self.attempts: list[Attempt] = []
        self.numbered = 0
        """How many attempts have a number."""
        self.resuming = False
        """What is waited for was ordered by an earlier run: how long it took is not known."""

    @property
    def now(self) -> float:
        return self.world.clock.now()

    async def run(self, joins: tuple[Handle, ...] = ()) -> LaunchResult:
        """Launches the first candidate that has room, and says how. `joins` are machines that the
        new ones must stand beside.

        Raises AllFailed when nothing could be launched and nothing is left; NotConfigured,
        BadCredentials or InsufficientFunds when the only allowed provider says so; GpusError when
        stopped, or when the journal can't be written.
        """
        candidates = self.candidates
        while True:
            if self.stop.on:
                raise self.stopped(self.stop)
            candidates.drop()
            if not candidates.pending:
                raise self.all_failed()
            lane = Lane(candidates.pending[0], self.stop, [])
            if (result := await self.step(lane, joins)) is not None:
                return result

    async def step(self, lane: Lane, joins: tuple[Handle, ...] = ()) -> LaunchResult | None:
        """One order that begins with the lane's head, to its end. None: it came to nothing, and
        nothing of it is left.
        """
        candidates, head, provider = self.candidates, (lane.head,), lane.head.provider
        try:
            adapter = await self.world.call(provider, self.world.adapter, provider)
            # Some clouds are asked whose account the credentials are.
            account = await repeated(self.world, provider, self.world.account, provider)
        except CloudError as error:
            self._show_refusal(self._number(), head, error, self.now)
            candidates.block(head, error, (), wide=True)
            candidates.check_pinned(error)
            return None
        pending = lane.next_of(candidates.pending)
        if lane.stop.on or not pending:
            return None
        order = compose(self.world, self.spec, self.label, adapter, pending, joins)
        candidates.take(order)
        lane.orders.append(order)
        self.world.journal.intend(self.world.name, order, self.now, account, lane.race)
        result = await self._attempt(self._bought(adapter, order, lane, account))
        return None if result is None else result._replace(account=account)

    async def _attempt(self, bought: Bought) -> LaunchResult | None:
        """One order, to its end. None: it came to nothing, nothing of it is left, and what it
        blocks is noted. The walk ends where something of it may still exist.
        """
        purchase = bought.purchase
        self.world.report("progress", f"{purchase.heading}: asking")
        try:
            result = await purchase.place(bought.started + bought.order.wait_s)
            if isinstance(result, (Delivered, Unobserved)):
                return self._launched(bought, result)
        except GpusError as broken:
            # The journal broke after the call: nothing is kept that cannot be remembered.
            left = await purchase.abandon()
            end = "nothing is left running" if left.clean else left.said(purchase.micro_usd)
            raise GpusError(f"{broken}; {end}") from broken
        match result:
            case Unfinished(ticket):
                return await self._unfinished(bought, ticket)
            case Unknown(error):
                return self._unsettled(bought, error)
            case Partial(error):
                return await self._half_made(bought, error)
            case Refused(error, remainder):
                if not remainder.clean:
                    return self._stuck(bought, error, remainder)
                await self._refused(bought, error)
                return None
            case _:
                assert_never(result)

    async def resume(
        self, entry: order_table.OrderRow, lane: Lane
    ) -> LaunchResult | CloudError | None:
        """See `resumed`."""
        order, started = entry.order, self.now
        self.resuming = True
        account = entry.account or ()
        adapter = await adapter_of(self.world, entry.provider, entry.account)
        bought = self._bought(adapter, order, lane, account)
        purchase = bought.purchase
        error: CloudError
        result = await purchase.resume(entry, started + order.wait_s)
        match result:
            case None:
                why = "nothing was made, or nothing of it is left"
                self._settled(order, order_table.FAILED, why)
                return None
            case Delivered() | Unobserved():
                return self._launched(bought, result)
            case Unknown(error):
                return self._unsettled(bought, error)
            case Unfinished(ticket):
                if ticket.state == QUEUED and not lane.stop.beaten:
                    return self._queued(ticket)
                remainder = await purchase.give_up(ticket)
                error = purchase.none_came()
                if lane.stop.beaten and remainder.clean:
                    self._beaten(bought, remainder)
                    return None
            case Partial(error):
                remainder = await purchase.release(error.handles)
            case Refused(error, remainder):
                pass
            case _:
                assert_never(result)
        if not remainder.clean:
            return self._stuck(bought, error, remainder)
        self._show_refusal(bought.number, order.candidates, error, started)
        self.candidates.block(order.candidates, error, account)
        self._settled(order, order_table.FAILED, trimmed(error))
        return error

    def _bought(self, adapter: Cloud, order: Order, lane: Lane, account: Account) -> Bought:
        number = self._number()
        purchase = Purchase(
            self.world,
            adapter,
            order,
            lane.stop,
            keep=self.keep,
            probe=self.spec.probe,
            accept=self.spec.accept,
            heading=self._line(number, order.candidates),
            wins=lane.wins,
        )
        return Bought(purchase, lane, account, number, self.now)

    def _number(self) -> int:
        self.numbered += 1
        return self.numbered

    # How an order can end

    def _launched(self, bought: Bought, result: Delivered | Unobserved) -> LaunchResult:
        """The machines exist: writes that down."""
        purchase, order, ticket = bought.purchase, bought.order, result.ticket
        if isinstance(result, Unobserved):
            self.world.report("warning", f"{purchase.heading}: {result.reason}")
            self._settled(order, order_table.UNSETTLED, result.reason, ticket.handles)
            placed = ticket.placed or order.candidates[0]
            return self._result(
                UNCONFIRMED, order, placed, handles=ticket.handles, reasons=(result.reason,)
            )
        placed, nodes, surplus = result.placed, result.nodes, result.surplus
        self.world.journal.made(ticket._replace(placed=placed), self.now)
        self.world.journal.clear(self.world.name, placed)
        closed_places.opened(self.world, bought.account, placed)
        self._record(bought.number, (placed,), ("acquired", "", ""), bought.started)
        if not self.resuming:
            self.candidates.remember((placed,), self.now - bought.started)
        names = ", ".join(node.name for node in nodes)
        heading = self._line(bought.number, (placed,))
        self.world.report("info", ended_line(heading, "acquired", f", {names}"))
        reasons: tuple[str, ...] = ()
        if not surplus.clean:
            what = "half-made: more machines than ordered, and they could not be deleted"
            reasons = (f"{what}: {surplus.said(None)}",)
        handles, tried = ticket.handles, self.tried
        return LaunchResult(
            ACQUIRED, ticket.order, placed, tried, handles, nodes, surplus.handles, reasons
        )

    async def _unfinished(self, bought: Bought, ticket: Ticket) -> LaunchResult | None:
        """What still waits is given up, unless a queue is the last hope there is. What is paid for
        is never given up.
        """
        purchase, stop = bought.purchase, bought.lane.stop
        if ticket.begins_at:
            return self._queued(ticket)
        self.candidates.drop()
        last = not self.candidates.pending and bought.lane.alone()
        if not stop.on and ticket.state == QUEUED and last:
            return self._queued(ticket)
        remainder = await purchase.give_up(ticket)
        if stop.on and remainder.clean:
            self._beaten(bought, remainder)
            if not stop.beaten:
                raise self.stopped(stop)
            return None
        if not remainder.clean:
            return self._stuck(bought, purchase.none_came(), remainder)
        await self._refused(bought, purchase.none_came())
        return None

    def _beaten(self, bought: Bought, left: Remainder) -> None:
        """It was stopped, or another order had machines before; nothing is left of it. What two at
        once made is paid for.
        """
        stop, made = bought.lane.stop, left.deleted if bought.lane.race else None
        self._settled(bought.order, order_table.RELEASED, stop.why, made)
        if not stop.beaten:
            return
        end = (CANCELLED, "", stop.beaten)
        self.world.report("info", ended_line(bought.purchase.heading, "cancelled", f", {end[2]}"))
        self._record(bought.number, bought.order.candidates, end, bought.started)

    async def _half_made(self, bought: Bought, error: HalfMade) -> LaunchResult | None:
        purchase, order = bought.purchase, bought.order
        self.world.report("warning", f"{purchase.heading}: {trimmed(error)}; deleting it")
        remainder = await purchase.release(error.handles)
        if not remainder.clean:
            return self._stuck(bought, error, remainder)
        self._show_refusal(bought.number, order.candidates, error, bought.started, told=True)
        if error.code != WRONG:
            self.candidates.block(order.candidates, error, bought.account)
        self.candidates.block_unready(order, error)
        self._settled(order, order_table.RELEASED, trimmed(error))
        if error.code == LOADING:
            raise too_slow(self.spec.cluster, self.tried, order.wait_s)
        if error.code == WRONG:
            raise wrong_anywhere(self.spec.cluster, self.tried)
        return None

    async def _refused(self, bought: Bought, error: CloudError) -> None:
        order, candidates, stop = bought.order, self.candidates, bought.lane.stop
        self._show_refusal(bought.number, order.candidates, error, bought.started)
        if candidates.is_last(order, error, stopped=stop.on):
            self._settled(order, order_table.FAILED, trimmed(error))
            candidates.try_again(order)
            await pause(self.world, DELAYS_S[0], stop)
            return
        candidates.block(order.candidates, error, bought.account)
        self._settled(order, order_table.FAILED, trimmed(error))
        candidates.check_pinned(error)
        candidates.block_unresponsive(order, error)
        if isinstance(error, (OfferGone, PriceRose)):
            await candidates.refresh(bought.purchase.adapter)
        candidates.prefer_hinted(order, error)

    def _stuck(self, bought: Bought, error: CloudError, left: Remainder) -> LaunchResult:
        """Something of the order exists or may, and could not be deleted: the end of this walk."""
        order = bought.order
        self._record_refusal(bought.number, order.candidates, error, bought.started)
        reason = (
            f"half-made: {trimmed(error)}; it could not be deleted:"
            f" {left.said(bought.purchase.micro_usd)}"
        )
        self.world.report("error", f"{bought.purchase.heading}: {reason}")
        self._settled(order, order_table.UNSETTLED, reason, left.handles)
        return self._result(
            UNCONFIRMED, order, order.candidates[0], leftovers=left.handles, reasons=(reason,)
        )

    def _unsettled(self, bought: Bought, error: CloudError) -> LaunchResult:
        """It is not known what the order made: the end of this walk."""
        order = bought.order
        self._record_refusal(bought.number, order.candidates, error, bought.started)
        reason = (
            f"unsettled: {trimmed(error)}; nothing else is bought until that is known;"
            f" {may_cost((), bought.purchase.micro_usd)}"
        )
        self.world.report("error", f"{bought.purchase.heading}: {reason}")
        self._settled(order, order_table.UNSETTLED, reason)
        return self._result(UNCONFIRMED, order, order.candidates[0], reasons=(reason,))

    def _queued(self, ticket: Ticket) -> LaunchResult:
        order = ticket.order
        placed = ticket.placed or order.candidates[0]
        detail = f" ({ticket.detail})" if ticket.detail else ""
        in_queue = (
            f"queued: {placed.provider} has the order in its queue{detail}; the next `up` waits on,"
            " `destroy` ends it"
        )
        reason = waits_for_window(ticket) if ticket.begins_at else in_queue
        return self._result(WAITING_ON, order, placed, handles=ticket.handles, reasons=(reason,))

    def _result(
        self,
        state: str,
        order: Order,
        placed: Candidate,
        *,
        handles: tuple[Handle, ...] = (),
        leftovers: tuple[Handle, ...] = (),
        reasons: tuple[str, ...] = (),
    ) -> LaunchResult:
        return LaunchResult(state, order, placed, self.tried, handles, (), leftovers, reasons)

    # Records and messages

    @property
    def tried(self) -> tuple[Attempt, ...]:
        """The attempts that have ended, by number."""
        return tuple(sorted(self.attempts, key=lambda attempt: attempt.number))

    def stopped(self, stop: StopSignal) -> GpusError:
        """The end of a walk that is stopped here."""
        rest = (
            "nothing of this run is left"
            if stop.taken_over
            else "what ran before still runs"
            if self.keep
            else "nothing is left running"
        )
        return stop.stopped(self.spec.cluster, rest)

    def all_failed(self) -> GpusError:
        """The end of a walk that has nothing left to try."""
        plan = self.candidates.plan
        by_rule = plan.rejected_by_rule.items() if plan is not None else ()
        return all_failed(
            self.spec.cluster,
            self.spec.ask,
            self.tried,
            [*by_rule, *self.candidates.skipped.items()],
            hints(plan) if plan is not None and not self.attempts else (),
            unaffordable(self.world, self.spec, plan),
        )

    def _line(self, number: int, candidates: Sequence[Candidate]) -> str:
        return line(number, candidates, machine=self.candidates.twinned(candidates[0]))

    def _settled(
        self, order: Order, state: str, why: str, handles: Sequence[Handle] | None = None
    ) -> None:
        self.world.journal.settled(order.token, state, self.now, why, handles)

    def _show_refusal(
        self,
        number: int,
        candidates: Sequence[Candidate],
        error: CloudError,
        started: float,
        *,
        told: bool = False,
    ) -> None:
        """Shows and records an attempt that came to nothing. `told`: what was wrong was reported
        already.
        """
        heading, capacity = self._line(number, candidates), candidates[0].capacity
        self.world.report("info", refusal_lines(heading, capacity, error, told=told))
        self._record_refusal(number, candidates, error, started)
        if not self.resuming:
            self.candidates.remember(candidates, self.now - started, error)

    def _record_refusal(
        self, number: int, candidates: Sequence[Candidate], error: CloudError, started: float
    ) -> None:
        end = (type(error).__name__, error.code, trimmed(error))
        self._record(number, candidates, end, started)

    def _record(
        self,
        number: int,
        candidates: Sequence[Candidate],
        end: tuple[str, str, str],
        started: float,
    ) -> None:
        self.attempts.append(attempt_of(number, candidates, end, started, self.now))
