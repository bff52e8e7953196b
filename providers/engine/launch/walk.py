"""The walk: one order after another, in the plan's order, until machines are there.

Owns attempts, and what each end of an order means for the next one. An order is never sent before
its intent is on the disk, and none is sent while something of an earlier one may exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from providers.engine.journal import orders as order_table
from providers.engine.launch import helpers
from providers.engine.launch.candidates import Candidates
from providers.engine.launch.compose import compose
from providers.engine.launch.order import (
    Delivered,
    Late,
    Partial,
    Purchase,
    Refused,
    Unknown,
    Unobserved,
)
from providers.engine.launch.result import ACQUIRED, UNCONFIRMED, WAITING_ON, LaunchResult
from providers.engine.market import closed_places
from providers.engine.messages import (
    all_failed,
    clipped,
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
from providers.engine.termination.settle import Remainder, bill
from providers.errors import CloudError, GpusError, HalfMade, OfferGone, PriceRose
from providers.model.machine import QUEUED, Attempt, Handle, Label, Order, Ticket
from providers.planner.suggest import hints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.market.snapshot import Market
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan


async def acquire(
    world: World,
    plan: Plan,
    spec: ClusterSpec,
    generation: str,
    *,
    stop: StopSignal | None = None,
    market: Market | None = None,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
    joins: Sequence[Handle] = (),
) -> LaunchResult:
    """Launches the first candidate of the plan that has room, and says how.

    `market` is what the plan was made of: a provider whose market moved is listed again into it.
    `keep` are machines of this generation that exist already and stay. `accept` narrows the
    candidates. `before` are earlier attempts of the same purchase: the numbering continues from
    them. `joins` are machines that the new ones must stand beside.

    Raises AllFailed when nothing could be launched and nothing is left; NotConfigured,
    BadCredentials or InsufficientFunds when the only allowed provider says so; GpusError when
    stopped, or when the journal can't be written.
    """
    walk = _Walk(world, spec, generation, stop or StopSignal(world), frozenset(keep))
    walk.candidates = Candidates(world, plan, spec, market, accept)
    walk.attempts = list(before)
    try:
        return await walk.run(tuple(joins))
    finally:
        if not walk.stop.taken_over:
            await helpers.removed(world, spec.owner, spec.cluster)


async def resumed(
    world: World,
    spec: ClusterSpec,
    entry: order_table.OrderRow,
    *,
    stop: StopSignal | None = None,
    keep: Collection[Handle] = (),
) -> LaunchResult | CloudError | None:
    """Goes on with an order of the journal: waits for it within its time, and checks what was made.

    None: nothing was made. A CloudError: it ended with that refusal, nothing is left. The journal
    is brought up to date.
    """
    generation = entry.order.label.generation
    walk = _Walk(world, spec, generation, stop or StopSignal(world), frozenset(keep))
    ended = await walk.resume(entry)
    return ended._replace(account=entry.account) if isinstance(ended, LaunchResult) else ended


class _Walk:
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
        self.account: Account = ()
        """Where the present order is placed."""
        self.resuming = False
        """What is waited for was ordered by an earlier run: how long it took is not known."""

    @property
    def now(self) -> float:
        return self.world.clock.now()

    async def run(self, joins: tuple[Handle, ...]) -> LaunchResult:
        candidates = self.candidates
        while True:
            if self.stop.on:
                raise self._stopped()
            candidates.drop()
            if not candidates.pending:
                raise self._all_failed()
            provider = candidates.pending[0].provider
            try:
                adapter = await self.world.call(provider, self.world.adapter, provider)
                # Some clouds are asked whose account the credentials are.
                account = await repeated(self.world, provider, self.world.account, provider)
            except CloudError as error:
                head = (candidates.pending[0],)
                self._show_refusal(head, error, self.now)
                candidates.block(head, error, self.account, wide=True)
                candidates.check_pinned(error)
                continue
            if self.stop.taken_over:
                continue
            self.account = account
            order = compose(self.world, self.spec, self.label, adapter, candidates.pending, joins)
            candidates.take(order)
            self.world.journal.intend(self.world.name, order, self.now, account)
            if (result := await self._attempt(adapter, order)) is not None:
                return result._replace(account=account)

    async def _attempt(self, adapter: Cloud, order: Order) -> LaunchResult | None:
        """One order, to its end. None: it came to nothing, nothing of it is left, and what it
        blocks is noted. The walk ends where something of it may still exist.
        """
        started = self.now
        purchase = self._purchase(adapter, order)
        self.world.report("progress", f"{purchase.heading}: asking")
        try:
            result = await purchase.place(started + order.wait_s)
            if isinstance(result, (Delivered, Unobserved)):
                return self._launched(purchase, result, started)
        except GpusError as broken:
            # The journal broke after the call: nothing is kept that cannot be remembered.
            left = await purchase.abandon()
            rest = f"{left.why}; {bill(left.handles, purchase.micro_usd)}"
            end = "nothing is left running" if left.clean else rest
            raise GpusError(f"{broken}; {end}") from broken
        match result:
            case Late(ticket):
                return await self._late(purchase, ticket, started)
            case Unknown(error):
                return self._unsettled(purchase, error, started)
            case Partial(error):
                return await self._half_made(purchase, error, started)
            case Refused(error, remainder):
                if not remainder.clean:
                    return self._stuck(purchase, error, remainder, started)
                await self._refused(purchase, error, started)
                return None
            case _:
                assert_never(result)

    async def resume(self, entry: order_table.OrderRow) -> LaunchResult | CloudError | None:
        """See `resumed`."""
        order, started = entry.order, self.now
        self.resuming = True
        self.account = entry.account or ()
        adapter = await adapter_of(self.world, entry.provider, entry.account)
        purchase = self._purchase(adapter, order)
        error: CloudError
        result = await purchase.resume(entry, started + order.wait_s)
        match result:
            case None:
                why = "nothing was made, or nothing of it is left"
                self._settled(order, order_table.FAILED, why)
                return None
            case Delivered() | Unobserved():
                return self._launched(purchase, result, started)
            case Unknown(error):
                return self._unsettled(purchase, error, started)
            case Late(ticket):
                if ticket.state == QUEUED:
                    return self._queued(ticket)
                remainder = await purchase.give_up(ticket)
                error = purchase.none_came()
            case Partial(error):
                remainder = await purchase.release(error.handles)
            case Refused(error, remainder):
                pass
            case _:
                assert_never(result)
        if not remainder.clean:
            return self._stuck(purchase, error, remainder, started)
        self._show_refusal(order.candidates, error, started)
        self.candidates.block(order.candidates, error, self.account)
        self._settled(order, order_table.FAILED, trimmed(error))
        return error

    def _purchase(self, adapter: Cloud, order: Order) -> Purchase:
        return Purchase(
            self.world,
            adapter,
            order,
            self.stop,
            keep=self.keep,
            probe=self.spec.probe,
            accept=self.spec.accept,
            heading=self._line(order.candidates),
        )

    # How an order can end

    def _launched(
        self, purchase: Purchase, result: Delivered | Unobserved, started: float
    ) -> LaunchResult:
        """The machines exist: writes that down."""
        order, ticket = purchase.order, result.ticket
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
        closed_places.opened(self.world, self.account, placed)
        self._record((placed,), "acquired", "", "", started)
        if not self.resuming:
            self.candidates.remember((placed,), self.now - started)
        names = ", ".join(node.name for node in nodes)
        heading = self._line((placed,), 0)
        self.world.report("info", clipped(f"{heading}: acquired, {names}"))
        reasons = (
            ()
            if surplus.clean
            else (
                "half-made: more machines than ordered, and they could not be deleted:"
                f" {surplus.why}; {bill(surplus.handles, None)}",
            )
        )
        return LaunchResult(
            ACQUIRED,
            ticket.order,
            placed,
            tuple(self.attempts),
            ticket.handles,
            nodes,
            surplus.handles,
            reasons,
        )

    async def _late(
        self, purchase: Purchase, ticket: Ticket, started: float
    ) -> LaunchResult | None:
        """What still waits is given up, unless a queue is the last hope there is. What is paid for
        is never given up.
        """
        if ticket.begins_at:
            return self._queued(ticket)
        self.candidates.drop()
        if not self.stop.on and ticket.state == QUEUED and not self.candidates.pending:
            return self._queued(ticket)
        remainder = await purchase.give_up(ticket)
        if self.stop.on and remainder.clean:
            self._settled(purchase.order, order_table.RELEASED, self.stop.why)
            raise self._stopped()
        error = purchase.none_came()
        if not remainder.clean:
            return self._stuck(purchase, error, remainder, started)
        await self._refused(purchase, error, started)
        return None

    async def _half_made(
        self, purchase: Purchase, error: HalfMade, started: float
    ) -> LaunchResult | None:
        order = purchase.order
        self.world.report("warning", f"{purchase.heading}: {trimmed(error)}; deleting it")
        remainder = await purchase.release(error.handles)
        if not remainder.clean:
            return self._stuck(purchase, error, remainder, started)
        self._show_refusal(order.candidates, error, started, told=True)
        if error.code != WRONG:
            self.candidates.block(order.candidates, error, self.account)
        self.candidates.block_unready(order, error)
        self._settled(order, order_table.RELEASED, trimmed(error))
        if error.code == LOADING:
            raise too_slow(self.spec.cluster, self.attempts, order.wait_s)
        if error.code == WRONG:
            raise wrong_anywhere(self.spec.cluster, self.attempts)
        return None

    async def _refused(self, purchase: Purchase, error: CloudError, started: float) -> None:
        order, candidates = purchase.order, self.candidates
        self._show_refusal(order.candidates, error, started)
        if candidates.is_last(order, error, stopped=self.stop.on):
            self._settled(order, order_table.FAILED, trimmed(error))
            candidates.try_again(order)
            await pause(self.world, DELAYS_S[0], self.stop)
            return
        candidates.block(order.candidates, error, self.account)
        self._settled(order, order_table.FAILED, trimmed(error))
        candidates.check_pinned(error)
        candidates.block_unresponsive(order, error)
        if isinstance(error, (OfferGone, PriceRose)):
            await candidates.refresh(purchase.adapter)
        candidates.prefer_hinted(order, error)

    def _stuck(
        self, purchase: Purchase, error: CloudError, left: Remainder, started: float
    ) -> LaunchResult:
        """Something of the order exists or may, and could not be deleted: the end of this walk."""
        order = purchase.order
        self._record(order.candidates, type(error).__name__, error.code, trimmed(error), started)
        reason = (
            f"half-made: {trimmed(error)}; it could not be deleted: {left.why};"
            f" {bill(left.handles, purchase.micro_usd)}"
        )
        self.world.report("error", f"{self._line(order.candidates)}: {reason}")
        self._settled(order, order_table.UNSETTLED, reason, left.handles)
        return self._result(
            UNCONFIRMED, order, order.candidates[0], leftovers=left.handles, reasons=(reason,)
        )

    def _unsettled(self, purchase: Purchase, error: CloudError, started: float) -> LaunchResult:
        """It is not known what the order made: the end of this walk."""
        order = purchase.order
        self._record(order.candidates, type(error).__name__, error.code, trimmed(error), started)
        reason = (
            f"unsettled: {trimmed(error)}; nothing else is bought until that is known;"
            f" {bill((), purchase.micro_usd)}"
        )
        self.world.report("error", f"{self._line(order.candidates)}: {reason}")
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
        attempts = tuple(self.attempts)
        return LaunchResult(state, order, placed, attempts, handles, (), leftovers, reasons)

    # Records and messages

    def _stopped(self) -> GpusError:
        rest = (
            "nothing of this run is left"
            if self.stop.taken_over
            else "what ran before still runs"
            if self.keep
            else "nothing is left running"
        )
        return self.stop.stopped(self.spec.cluster, rest)

    def _all_failed(self) -> GpusError:
        plan = self.candidates.plan
        by_rule = plan.rejected_by_rule.items() if plan is not None else ()
        return all_failed(
            self.spec.cluster,
            self.spec.ask,
            self.attempts,
            [*by_rule, *self.candidates.skipped.items()],
            hints(plan) if plan is not None and not self.attempts else (),
        )

    def _line(self, candidates: Sequence[Candidate], ahead: int = 1) -> str:
        machine = self.candidates.twinned(candidates[0])
        return line(len(self.attempts) + ahead, candidates, machine=machine)

    def _settled(
        self, order: Order, state: str, why: str, handles: Sequence[Handle] | None = None
    ) -> None:
        self.world.journal.settled(order.token, state, self.now, why, handles)

    def _show_refusal(
        self,
        candidates: Sequence[Candidate],
        error: CloudError,
        started: float,
        *,
        told: bool = False,
    ) -> None:
        """Shows and records an attempt that came to nothing. `told`: what was wrong was reported
        already.
        """
        heading, capacity = self._line(candidates), candidates[0].capacity
        self.world.report("info", refusal_lines(heading, capacity, error, told=told))
        self._record(candidates, type(error).__name__, error.code, trimmed(error), started)
        if not self.resuming:
            self.candidates.remember(candidates, self.now - started, error)

    def _record(
        self, candidates: Sequence[Candidate], outcome: str, code: str, message: str, started: float
    ) -> None:
        first = candidates[0]
        self.attempts.append(
            Attempt(
                number=len(self.attempts) + 1,
                provider=first.provider,
                region=first.region,
                zones=tuple(dict.fromkeys(each.zone for each in candidates if each.zone)),
                machine_types=tuple(dict.fromkeys(each.machine_type for each in candidates)),
                gpu=first.placement.gpu,
                capacity=first.capacity,
                micro_usd=first.micro_usd,
                outcome=outcome,
                code=code,
                message=message,
                started_at=started,
                seconds=round(self.now - started, 3),
            )
        )
