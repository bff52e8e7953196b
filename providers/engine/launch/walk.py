"""The walk: one creating call after another, in the plan's order, until machines are there. Owns
attempts, waits and what a refusal blocks.

What each error class means for the walk is written at `_Walk._attempt`. A call is never sent before
its intent is on the disk, and nothing is sent while something of an earlier call may exist.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.launch.refusals import PROVIDER_WIDE, Silence, ahead, of_account, refused
from providers.engine.launch.result import ACQUIRED, UNCONFIRMED, WAITING_ON, LaunchResult
from providers.engine.launch.taken_over import of_another, theirs
from providers.engine.launch.verify import delivered
from providers.engine.market import closed_places
from providers.engine.market.host_fit import hosting, with_disk
from providers.engine.market.planning import listed, overlay
from providers.engine.messages import (
    WAITED,
    all_failed,
    bare,
    clipped,
    line,
    moment,
    refusal_lines,
    said,
    too_slow,
    trimmed,
    wrong_anywhere,
)
from providers.engine.readiness.wait import LOADING, SETUP, WRONG, until_ready
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.tasks import (
    DELAYS_S,
    POLL_FIRST_S,
    POLL_GROWTH,
    POLL_MOST_S,
    StopSignal,
    pause,
    repeated,
)
from providers.engine.setup import start, started
from providers.engine.termination.settle import Remainder, abandon, bill, certain, release
from providers.errors import (
    BadCredentials,
    CloudError,
    GpusError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    NotReady,
    OfferGone,
    OutcomeUnknown,
    PriceRose,
    RateLimited,
    Transient,
    Unclassified,
)
from providers.model import duration
from providers.model.ask import RESERVATION
from providers.model.machine import GONE, QUEUED, Attempt, Handle, Mark, Node, Order, Ticket
from providers.model.place import Scope
from providers.model.secret import narrowed
from providers.planner.suggest import hints
from providers.remote.probe import REACH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.market.planning import Market
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan

OUT_OF_REACH = 2
"""Machines in a row that could not be reached or were not ready in time, after which a cloud is
left alone.
"""


class _Unsure(Exception):
    """Not a fault of the program: it is not known what an order made, and the walk ends here."""

    def __init__(self, error: CloudError) -> None:
        self.error = error


class _Late(Exception):
    """The wait ran out, or the brake came on."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket


async def acquire(
    world: World,
    plan: Plan,
    wanted: ClusterSpec,
    generation: str,
    *,
    brake: StopSignal | None = None,
    market: Market | None = None,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
    joins: Sequence[Handle] = (),
) -> LaunchResult:
    """Gets the first candidate of the plan that can be had, and says how.

    `market` is what the plan was made of: a provider whose market moved is listed again into it.
    `keep` are machines of this generation that exist already and stay. `accept` narrows the
    candidates. `before` are earlier attempts of the same purchase, which the numbering goes on
    from. `joins` are machines that what is had is to stand beside. Raises AllFailed when nothing
    could be had and nothing is left; NotConfigured, BadCredentials or InsufficientFunds when the
    only allowed provider says so; GpusError when stopped, or when the journal can't be written.
    """
    walk = _Walk(
        world,
        plan,
        wanted,
        generation,
        brake or StopSignal(world),
        frozenset(keep),
        market,
        accept,
        before,
    )
    walk.joins = tuple(joins)
    return await walk.run()


async def resumed(
    world: World,
    wanted: ClusterSpec,
    entry: order_table.OrderRow,
    *,
    brake: StopSignal | None = None,
    keep: Collection[Handle] = (),
) -> LaunchResult | CloudError | None:
    """Goes on with an order of the journal: waits for it within its time and looks at what was
    made.

    None: nothing was made. A CloudError: it ended with that refusal, nothing is left. The journal
    is brought up to date.
    """
    walk = _Walk(
        world,
        None,
        wanted,
        entry.order.mark.generation,
        brake or StopSignal(world),
        frozenset(keep),
    )
    return await walk.resume(entry)


class _Walk:
    def __init__(
        self,
        world: World,
        plan: Plan | None,
        wanted: ClusterSpec,
        generation: str,
        brake: StopSignal,
        keep: frozenset[Handle],
        market: Market | None = None,
        accept: Callable[[Candidate], bool] | None = None,
        before: Sequence[Attempt] = (),
    ) -> None:
        self.world, self.plan, self.wanted, self.brake, self.keep, self.market = (
            world,
            plan,
            wanted,
            brake,
            keep,
            market,
        )
        self.accept = accept or (lambda _candidate: True)
        self.mark = Mark(wanted.owner, wanted.cluster, generation, wanted.fingerprint)
        self.pending = (
            [candidate for candidate in plan.candidates if self.accept(candidate)]
            if plan is not None
            else []
        )
        self.attempts: list[Attempt] = list(before)
        self.joins: tuple[Handle, ...] = ()
        self.blocked: list[tuple[Scope, str, str]] = []
        """(scope, the one reservation that is meant or nothing, why)"""
        self.again: set[str] = set()
        self.skipped: Counter[str] = Counter()
        self.tried: set[tuple[object, ...]] = set()
        self.refreshed: set[str] = set()
        self.unreached: Counter[str] = Counter()
        self.silence = Silence()
        self.account: Account = ()
        """Where the present order is placed."""

    @property
    def now(self) -> float:
        return self.world.clock.now()

    async def run(self) -> LaunchResult:
        while True:
            if self.brake.on:
                raise self._stopped()
            self._drop()
            if not self.pending:
                refused = self.plan.rejected_by_rule.items() if self.plan is not None else ()
                helps = hints(self.plan) if self.plan is not None and not self.attempts else ()
                raise all_failed(
                    self.wanted.cluster,
                    self.wanted.ask,
                    self.attempts,
                    [*refused, *self.skipped.items()],
                    helps,
                )
            provider = self.pending[0].provider
            try:
                adapter = await self.world.call(provider, self.world.adapter, provider)
                # Some clouds are asked whose account the credentials are.
                account = await repeated(self.world, provider, self.world.account, provider)
            except CloudError as error:
                self._refused((self.pending[0],), error, self.now)
                self._block((self.pending[0],), error, wide=True)
                self._pinned(error)
                continue
            if self.brake.taken_over:
                continue
            self.account = account
            order = self._order(adapter)
            self.world.journal.intend(self.world.name, order, self.now, account)
            if (outcome := await self._attempt(adapter, order)) is not None:
                return outcome._replace(account=account)

    def _order(self, adapter: Cloud) -> Order:
        """The next order: as many of the leading candidates as the cloud can choose among by
        itself, all of one provider and one set of terms.
        """
        head = self.pending[0]
        terms = self._terms(head)
        run: list[Candidate] = []
        for candidate in self.pending:
            if candidate.provider != head.provider or self._terms(candidate) != terms:
                break
            run.append(candidate)
        # A declaration has a section of options for each provider; an order holds its own
        # provider's alone.
        found = dict(self.wanted.setup.options).get(head.provider)
        section: dict[str, object] = found if isinstance(found, dict) else {}
        manifest = self.world.manifests.get(head.provider)
        if manifest is not None and manifest.limits.together is not None:
            run = run[: max(1, manifest.limits.together(tuple(run), section))]
        size = min(max(1, adapter.group(tuple(run))), len(run))
        chosen, self.pending = tuple(run[:size]), self.pending[size:]
        self.tried.update(map(_key, chosen))
        token = str(uuid.uuid4())
        entry = self.wanted.ask.entries[head.entry]
        setup = (
            self.wanted.setup
            if entry.ttl_s is None
            else self.wanted.setup._replace(ttl_s=entry.ttl_s)
        )
        setup = with_disk(
            setup,
            hosting(self.wanted.ask, self.world.manifests)(entry, head.provider, head.machine_type),
        )
        begun = start(
            self.wanted.ask, entry, head.gpu_type, head.gpu_count, setup.expose, manifest, section
        )
        setup = started(
            setup._replace(
                options=tuple(sorted(section.items())),
                secrets=narrowed(setup.secrets, head.provider),
            ),
            begun,
        )
        names = tuple(f"{self.wanted.cluster}-{token[:8]}-{index}" for index in range(head.nodes))
        return Order(
            self.mark,
            token,
            chosen,
            names,
            setup,
            entry.wait_s,
            self.wanted.ask.max_price_micro_usd,
            self.joins,
        )

    def _terms(self, candidate: Candidate) -> tuple[object, ...]:
        entry = self.wanted.ask.entries[candidate.entry]
        return (entry.wait_s, entry.ttl_s, entry.override, candidate.nodes, candidate.gpu_count)

    async def _attempt(self, adapter: Cloud, order: Order) -> LaunchResult | None:
        """One creating call, to its end. None: it came to nothing, nothing of it is left, and what
        it blocks is noted.

        RateLimited, Transient: tried again by the order's token. OutcomeUnknown, Unclassified:
        found by it; unsettled ends the walk. HalfMade: deleted and confirmed, else the walk ends.
        Everything else is a refusal: it blocks its scopes and the walk goes on.
        """
        started = self.now
        deadline = started + order.wait_s
        self.world.report("progress", f"{self._line(order)}: asking")
        ticket: Ticket | None = None
        try:
            ticket = await self._submit(adapter, order, deadline)
            return await self._finish(adapter, ticket, started, deadline)
        except _Late as late:
            return await self._late(adapter, order, late.ticket, started)
        except _Unsure as unsure:
            return self._unsettled(order, unsure.error, started)
        except HalfMade as error:
            return await self._half_made(adapter, order, error, started)
        except CloudError as error:
            if ticket is not None:
                # The cloud took the order and then refused it. Some report a failure and create
                # anyway: look before going on.
                left = await release(self.world, adapter, *self.mark[:3], keep=self.keep)
                if not left.clean:
                    return self._stuck(order, error, left, started)
            await self._refusal(adapter, order, error, started)
            return None
        except GpusError as error:
            # The journal broke after the call: nothing is kept that cannot be remembered.
            left = await abandon(self.world, adapter, order, ticket, self.keep)
            end = (
                "nothing is left running"
                if left.clean
                else f"{left.why}; {bill(left.handles, self._price(order))}"
            )
            raise GpusError(f"{error}; {end}") from error

    async def resume(self, entry: order_table.OrderRow) -> LaunchResult | CloudError | None:
        """See `resumed`."""
        ended = await self._resume(entry)
        return ended._replace(account=entry.account) if isinstance(ended, LaunchResult) else ended

    async def _resume(self, entry: order_table.OrderRow) -> LaunchResult | CloudError | None:
        order, started = entry.order, self.now
        self.account = entry.account or ()
        adapter = await adapter_of(self.world, entry.provider, entry.account)
        ticket = entry.ticket
        try:
            if ticket is None:
                ticket = await self._certain(adapter, order)
            if ticket is None:
                left = (
                    await release(
                        self.world, adapter, *order.mark[:3], handles=entry.handles, keep=self.keep
                    )
                    if entry.handles
                    else Remainder()
                )
                if left.clean:
                    self.world.journal.settled(
                        order.token,
                        order_table.FAILED,
                        self.now,
                        "nothing was made, or nothing of it is left",
                    )
                    return None
                return self._stuck(
                    order,
                    HalfMade("an earlier order left machines", provider=adapter.name),
                    left,
                    started,
                )
            return await self._finish(adapter, ticket, started, started + order.wait_s)
        except _Late as late:
            if late.ticket.state == QUEUED:
                return self._queued(late.ticket)
            left = await self._released(adapter, order, late.ticket)
            error: CloudError = self._none_came(adapter, order)
        except _Unsure as unsure:
            return self._unsettled(order, unsure.error, started)
        except HalfMade as half:
            left, error = (
                await release(
                    self.world, adapter, *order.mark[:3], handles=half.handles, keep=self.keep
                ),
                half,
            )
        except CloudError as refusal:
            left, error = (
                await release(self.world, adapter, *order.mark[:3], keep=self.keep),
                refusal,
            )
        if not left.clean:
            return self._stuck(order, error, left, started)
        self._refused(order.candidates, error, started)
        self._block(order.candidates, error)
        self.world.journal.settled(order.token, order_table.FAILED, self.now, trimmed(error))
        return error

    # One order

    async def _submit(self, adapter: Cloud, order: Order, deadline: float) -> Ticket:
        """The order's ticket. Sends it once; again only after the cloud said by its token that
        nothing was made.

        After a lost answer it is sent again only where the cloud does the work of one token once:
        the first request may still be on its way.
        """
        again = self.world.manifests[adapter.name].capabilities.deduplicates
        for delay in (*DELAYS_S, None):
            call = self.world.begin(adapter.submit, order)
            try:
                ticket = await self.world.wait_for(adapter.name, call, creates=True)
            except (RateLimited, Transient) as error:
                patience = max(delay or 0.0, getattr(error, "retry_after_s", 0.0))
                found = await self._certain(adapter, order)
                if found is None:
                    if delay is None or self.brake.on or self.now + patience > deadline:
                        raise
                    await pause(self.world, patience, self.brake)
                    continue
                ticket = found
            except HalfMade:
                raise
            except (OutcomeUnknown, OfferGone) as error:
                # "Somebody has it": where a request was delivered twice, that is this order's own
                # first delivery.
                if isinstance(error, Unclassified):
                    self.world.report(
                        "warning",
                        f"{self._line(order)}: unknown code {error.code or '(none)'}:"
                        f" {trimmed(error)}",
                    )
                found = await self._certain(
                    adapter, order, call if isinstance(error, OutcomeUnknown) else None
                )
                if found is None:
                    if (
                        not again
                        or isinstance(error, (Unclassified, OfferGone))
                        or self.brake.on
                        or self.now > deadline
                    ):
                        raise
                    again = False
                    continue
                ticket = found
            self.world.journal.note(ticket, self.now)
            return ticket
        raise AssertionError("the last try either returns or raises")

    async def _certain(self, adapter: Cloud, order: Order, call: object = None) -> Ticket | None:
        try:
            return await certain(self.world, adapter, order, call)  # type: ignore[arg-type]
        except HalfMade:
            raise
        except OutcomeUnknown as error:
            raise _Unsure(error) from error

    async def _finish(
        self, adapter: Cloud, ticket: Ticket, started: float, deadline: float
    ) -> LaunchResult:
        """Waits until the order's machines are made, compares them with what was ordered, and says
        what was had.
        """
        ticket = await self._wait(adapter, ticket, deadline)
        order = ticket.order
        self.world.journal.note(ticket, self.now)
        if self.brake.taken_over:
            raise _Late(ticket)
        try:
            nodes: tuple[Node, ...] = tuple(
                await repeated(self.world, adapter.name, adapter.observe, ticket.handles)
            )
            marked = await repeated(self.world, adapter.name, adapter.find, *order.mark[:3])
        except CloudError as error:
            reason = (
                f"made, but not looked at yet: {trimmed(error)};"
                f" {bill(ticket.handles, self._price(order))}"
            )
            self.world.report("warning", f"{self._line(order)}: {reason}")
            self.world.journal.settled(
                order.token, order_table.UNSETTLED, self.now, reason, ticket.handles
            )
            return LaunchResult(
                UNCONFIRMED,
                order,
                ticket.placed or order.candidates[0],
                tuple(self.attempts),
                ticket.handles,
                (),
                (),
                (reason,),
            )
        known = {*ticket.handles, *self.keep}
        if rivals := [
            node.name
            for node in marked
            if node.status != GONE and node.handle not in known and self._strange(node, order)
        ]:
            # Where no lease is shared: another run placed the same cluster anew, of the same state,
            # and so under the same generation.
            self.brake.rival = f"another run has bought {', '.join(rivals)} for it"
            raise _Late(ticket)
        placed = delivered(ticket, nodes)
        extra = [
            node.handle
            for node in marked
            if node.handle not in ticket.handles
            and node.handle not in self.keep
            and node.status != "gone"
        ]
        left = Remainder()
        if extra:
            self.world.report(
                "warning",
                f"{self._line(order)}: {len(extra)} machines more than ordered; deleting them",
            )
            left = await release(
                self.world,
                adapter,
                *order.mark[:3],
                handles=extra,
                keep={*ticket.handles, *self.keep},
            )
        if self.wanted.probe is not None:
            seen = await until_ready(
                self.world, adapter, placed, ticket.handles, self.wanted.probe, deadline, self.brake
            )
            if seen is None:
                raise _Late(ticket)
            nodes = seen
        if order.setup.script_digest:
            from providers.engine.readiness import workload
            from providers.engine.readiness.handover import deliver_files

            await deliver_files(self.world, adapter, order, nodes)
            if placed.kind == "service":
                working = await workload.until_working(
                    self.world, adapter, placed, nodes, order, deadline, self.brake
                )
                if working is None:
                    raise _Late(ticket)
                nodes = working
        self.world.journal.made(ticket._replace(placed=placed), self.now)
        self.world.journal.clear(self.world.name, placed)
        closed_places.opened(self.world, self.account, placed)
        self._record((placed,), "acquired", "", "", started)
        names = ", ".join(node.name for node in nodes)
        self.world.report(
            "info", clipped(f"{self._line(order, placed, len(self.attempts))}: acquired, {names}")
        )
        reasons = (
            ()
            if left.clean
            else (
                (
                    "half-made: more machines than ordered, and they could not be deleted:"
                    f" {left.why}; {bill(left.handles, None)}"
                ),
            )
        )
        return LaunchResult(
            ACQUIRED,
            order,
            placed,
            tuple(self.attempts),
            ticket.handles,
            nodes,
            left.handles,
            reasons,
        )

    async def _wait(self, adapter: Cloud, ticket: Ticket, deadline: float) -> Ticket:
        """Polls until it is done. Raises the refusal, `_Late` when the time is over or the brake is
        on, `_Unsure`, or HalfMade.
        """
        interval, told, waits = POLL_FIRST_S, False, None
        while ticket.state != "done":
            if ticket.detail != waits:
                waits = ticket.detail
                self.world.report(
                    "progress", f"{self._line(ticket.order)}: {self._until(ticket, deadline)}"
                )
            if ticket.state == QUEUED and not told:
                told = True
                self.world.report(
                    "info",
                    f"{self._line(ticket.order)}: in the cloud's queue {ticket.detail}".rstrip(),
                )
            await pause(self.world, min(interval, max(0.0, deadline - self.now)), self.brake)
            interval = min(interval * POLL_GROWTH, POLL_MOST_S)
            try:
                seen = await self.world.call(adapter.name, adapter.poll, ticket)
            except (RateLimited, Transient) as error:
                interval = max(interval, getattr(error, "retry_after_s", 0.0))
            except HalfMade:
                raise
            except (OutcomeUnknown, NotConfigured, BadCredentials) as error:
                # Credentials that are refused here say nothing about the order, which the cloud
                # took before.
                if isinstance(error, Unclassified):
                    self.world.report(
                        "warning",
                        f"{self._line(ticket.order)}: unknown code {error.code or '(none)'}:"
                        f" {trimmed(error)}",
                    )
                found = await self._certain(adapter, ticket.order)
                if found is None:
                    raise
                ticket = found
            else:
                if seen != ticket:
                    self.world.journal.note(seen, self.now)
                ticket = seen
            if ticket.state != "done" and (self.brake.on or self.now >= deadline):
                raise _Late(ticket)
        return ticket

    def _until(self, ticket: Ticket, deadline: float) -> str:
        """`sb-1 queues for H200:8, until 2026-11-28 22:10 UTC at most (wait: 15m)`: what is waited
        for, and when it is given up.
        """
        at_most = f"until {moment(deadline)} at most (wait: {duration.text(ticket.order.wait_s)})"
        return f"{ticket.detail or 'waiting for the cloud'}, {at_most}"

    # How an order can end, other than well

    async def _late(
        self, adapter: Cloud, order: Order, ticket: Ticket, started: float
    ) -> LaunchResult | None:
        """The one time-out: what still waits is given up, unless a queue is the last hope there is."""
        self._drop()
        if not self.brake.on and ticket.state == QUEUED and not self.pending:
            return self._queued(ticket)
        left = await self._released(adapter, order, ticket)
        if self.brake.on and left.clean:
            self.world.journal.settled(order.token, order_table.RELEASED, self.now, self.brake.why)
            raise self._stopped()
        error = self._none_came(adapter, order)
        if not left.clean:
            return self._stuck(order, error, left, started)
        await self._refusal(adapter, order, error, started)
        return None

    def _strange(self, node: Node, order: Order) -> bool:
        """Whether a machine is of an order of the cluster that was never placed from this home."""
        if not of_another(node, order):
            return False
        every = self.world.journal.orders(
            self.world.name, order.mark.owner, order.mark.cluster, states=order_table.EVERY
        )
        return all(node.name not in entry.order.node_names for entry in every)

    async def _released(self, adapter: Cloud, order: Order, ticket: Ticket) -> Remainder:
        """Ends the order. Where another run has the cluster by now, only what this order made, and
        only if that run did not adopt it.
        """
        others: set[Handle] = set()
        if self.brake.taken_over:
            try:
                others = await theirs(self.world, adapter, order, ticket.handles, self.brake)
            except CloudError as error:
                return Remainder(ticket.handles, trimmed(error))
        return await abandon(self.world, adapter, order, ticket, {*self.keep, *others})

    def _none_came(self, adapter: Cloud, order: Order) -> NoCapacity:
        """The cloud took the order and delivered no machine by the deadline."""
        why = (
            self.brake.why if self.brake.on else f"no machine within {duration.text(order.wait_s)}"
        )
        return NoCapacity(why, provider=adapter.name, code=WAITED)

    async def _half_made(
        self, adapter: Cloud, order: Order, error: HalfMade, started: float
    ) -> LaunchResult | None:
        self.world.report("warning", f"{self._line(order)}: {trimmed(error)}; deleting it")
        left = await release(
            self.world, adapter, *self.mark[:3], handles=error.handles, keep=self.keep
        )
        if not left.clean:
            return self._stuck(order, error, left, started)
        self._refused(order.candidates, error, started, told=True)
        if error.code != WRONG:
            self._block(order.candidates, error)
        self._out_of_reach(order, error)
        self.world.journal.settled(order.token, order_table.RELEASED, self.now, trimmed(error))
        if error.code == LOADING:
            raise too_slow(self.wanted.cluster, self.attempts, order.wait_s)
        if error.code == WRONG:
            raise wrong_anywhere(self.wanted.cluster, self.attempts)
        return None

    def _out_of_reach(self, order: Order, error: HalfMade) -> None:
        """Leaves a cloud alone for this run once two machines in a row could not be reached or set
        up, or were not ready in time: each costs its whole wait, and it is the network, the image
        or the `wait`, not the place. Where ports are mapped, each host is a network of its own.
        """
        provider = order.candidates[0].provider
        self.unreached[provider] = (
            self.unreached[provider] + 1
            if error.code in (*REACH, SETUP) or isinstance(error, NotReady)
            else 0
        )
        manifest = self.world.manifests.get(provider)
        if self.unreached[provider] >= OUT_OF_REACH and not (
            manifest is not None and manifest.capabilities.maps_ports
        ):
            found = {
                SETUP: "could not be set up",
                **dict.fromkeys(REACH, "could not be reached from here"),
            }.get(error.code, f"were not ready within {duration.text(order.wait_s)}")
            reason = f"{provider}: {OUT_OF_REACH} machines in a row {found}"
            self.world.report(
                "warning",
                f"{reason}; no more are bought there in this run; see"
                " docs/how-to/reach-a-machine.md, `ready` and `wait`",
            )
            self.blocked.append((Scope(provider), "", reason))

    async def _refusal(
        self, adapter: Cloud, order: Order, error: CloudError, started: float
    ) -> None:
        self._refused(order.candidates, error, started)
        if self._last(order, error):
            self.world.journal.settled(order.token, order_table.FAILED, self.now, trimmed(error))
            self.pending = [*order.candidates]
            await pause(self.world, DELAYS_S[0], self.brake)
            return
        self._block(order.candidates, error)
        self.world.journal.settled(order.token, order_table.FAILED, self.now, trimmed(error))
        self._pinned(error)
        self._given_up(adapter.name, order, error)
        if isinstance(error, (OfferGone, PriceRose)):
            await self._refresh(adapter)
        self.pending = ahead(
            self.pending, {candidate.region for candidate in order.candidates}, error.hints
        )

    def _last(self, order: Order, error: CloudError) -> bool:
        """True, once for each place, when an answer was lost, nothing was made for certain, and
        there is no other place to try: a passing fault there must not be the end of the walk. It is
        asked again as a new order.
        """
        if (
            not isinstance(error, OutcomeUnknown)
            or isinstance(error, Unclassified)
            or self.brake.on
        ):
            return False
        self._drop()
        place = str([_key(candidate) for candidate in order.candidates])
        if self.pending or place in self.again:
            return False
        self.again.add(place)
        return True

    def _stuck(
        self, order: Order, error: CloudError, left: Remainder, started: float
    ) -> LaunchResult:
        """Something of the order exists or may, and could not be deleted: the end of this walk."""
        self._record(order.candidates, type(error).__name__, error.code, trimmed(error), started)
        reason = (
            f"half-made: {trimmed(error)}; it could not be deleted: {left.why};"
            f" {bill(left.handles, self._price(order))}"
        )
        self.world.report("error", f"{self._line(order)}: {reason}")
        self.world.journal.settled(
            order.token, order_table.UNSETTLED, self.now, reason, left.handles
        )
        return LaunchResult(
            UNCONFIRMED,
            order,
            order.candidates[0],
            tuple(self.attempts),
            (),
            (),
            left.handles,
            (reason,),
        )

    def _unsettled(self, order: Order, error: CloudError, started: float) -> LaunchResult:
        self._record(order.candidates, type(error).__name__, error.code, trimmed(error), started)
        reason = (
            f"unsettled: {trimmed(error)}; nothing else is bought until that is known;"
            f" {bill((), self._price(order))}"
        )
        self.world.report("error", f"{self._line(order)}: {reason}")
        self.world.journal.settled(order.token, order_table.UNSETTLED, self.now, reason)
        return LaunchResult(
            UNCONFIRMED, order, order.candidates[0], tuple(self.attempts), (), (), (), (reason,)
        )

    def _queued(self, ticket: Ticket) -> LaunchResult:
        order = ticket.order
        placed = ticket.placed or order.candidates[0]
        detail = f" ({ticket.detail})" if ticket.detail else ""
        reason = (
            f"queued: {placed.provider} has the order in its queue{detail}; the next `up` waits on,"
            " `destroy` ends it"
        )
        return LaunchResult(
            WAITING_ON, order, placed, tuple(self.attempts), ticket.handles, (), (), (reason,)
        )

    # What a refusal means for the rest of the walk

    def _drop(self) -> None:
        """Takes out what was refused meanwhile, and what is above the cap."""
        cap = self.wanted.ask.max_price_micro_usd
        kept: list[Candidate] = []
        for candidate in self.pending:
            reason = next(
                (
                    why
                    for scope, name, why in self.blocked
                    if scope.covers(candidate) and name in {"", candidate.reservation}
                ),
                "",
            )
            if cap is not None and (candidate.micro_usd is None or candidate.micro_usd > cap):
                reason = "price cap"
            if reason:
                self.skipped[reason] += 1
            else:
                kept.append(candidate)
        self.pending = kept

    def _block(
        self, candidates: Sequence[Candidate], error: CloudError, *, wide: bool = False
    ) -> None:
        """Leaves the refused scopes alone for the rest of this run, and in the journal for as long
        as the error says.
        """
        reason = f"{said(error)}{f' ({error.code})' if error.code and error.code != WAITED else ''}"
        for scope in refused(candidates, error, wide=wide):
            # A refusal of one reservation says nothing about another at the same place.
            name = candidates[0].reservation if scope.capacity == RESERVATION else ""
            self.blocked.append((scope, name, f"{scope}: {reason}"))
            if error.closed:
                closed_places.close(self.world, self.account, scope, error)
            elif error.block_s > 0 and not isinstance(error, PROVIDER_WIDE):
                self.world.journal.block(self.world.name, scope, error.block_s, reason, self.now)

    def _given_up(self, provider: str, order: Order, error: CloudError) -> None:
        """Leaves a provider alone for the rest of this run that answers nowhere. The next run asks
        it again.
        """
        self._drop()
        rest = [candidate for candidate in self.pending if candidate.provider == provider]
        why = self.silence.heard(
            provider, error, {c.region for c in order.candidates}, {c.region for c in rest}
        )
        if why and rest:
            self.world.report(
                "warning",
                f"{provider}: {why}: it is left alone for the rest of this run, with {len(rest)}"
                " places not tried",
            )
            self.blocked.append((Scope(provider), "", f"{provider}: {why}"))

    def _pinned(self, error: CloudError) -> None:
        """Where nobody else could serve it, what is wrong with the account is all there is to say."""
        others = self.plan is not None and any(
            candidate.provider != error.provider for candidate in self.plan.candidates
        )
        if of_account(error) and (
            len(self.wanted.ask.providers) == 1 or (self.plan is not None and not others)
        ):
            raise error

    async def _refresh(self, adapter: Cloud) -> None:
        """The market moved: lists this provider's offers again, once a run, and ranks what is left
        by them.
        """
        if adapter.name in self.refreshed or self.market is None:
            return
        self.refreshed.add(adapter.name)
        try:
            rows = await repeated(
                self.world,
                adapter.name,
                listed,
                adapter,
                self.wanted.ask,
                self.world.manifests.get(adapter.name),
            )
        except CloudError as error:
            self.world.report(
                "warning",
                f"{adapter.name}: its offers could not be listed again:"
                f" {bare(adapter.name, trimmed(error))}",
            )
            return
        if rows is None:
            return
        self.market = self.market._replace(table=overlay(self.market.table, {adapter.name: rows}))
        self.plan = self.market.plan(
            self.wanted.ask, self.world.journal.blocks(self.world.name), self.now, self.wanted.setup
        )
        self.pending = [
            candidate
            for candidate in self.plan.candidates
            if _key(candidate) not in self.tried and self.accept(candidate)
        ]

    # What is told

    def _stopped(self) -> GpusError:
        rest = (
            "nothing of this run is left"
            if self.brake.taken_over
            else "what ran before still runs"
            if self.keep
            else "nothing is left running"
        )
        return self.brake.stopped(self.wanted.cluster, rest)

    def _price(self, order: Order) -> int | None:
        return max(
            (
                candidate.micro_usd
                for candidate in order.candidates
                if candidate.micro_usd is not None
            ),
            default=None,
        )

    def _line(self, order: Order, placed: Candidate | None = None, number: int = 0) -> str:
        return line(
            number or len(self.attempts) + 1, (placed,) if placed is not None else order.candidates
        )

    def _refused(
        self,
        candidates: Sequence[Candidate],
        error: CloudError,
        started: float,
        *,
        told: bool = False,
    ) -> None:
        """Shows and records an attempt that came to nothing; `told`: what was wrong was said when
        it was seen, and is not said again.
        """
        self.world.report(
            "info", refusal_lines(len(self.attempts) + 1, candidates, error, told=told)
        )
        self._record(candidates, type(error).__name__, error.code, trimmed(error), started)

    def _record(
        self, candidates: Sequence[Candidate], outcome: str, code: str, message: str, started: float
    ) -> None:
        first = candidates[0]
        self.attempts.append(
            Attempt(
                number=len(self.attempts) + 1,
                provider=first.provider,
                region=first.region,
                zones=tuple(
                    dict.fromkeys(candidate.zone for candidate in candidates if candidate.zone)
                ),
                machine_types=tuple(
                    dict.fromkeys(candidate.machine_type for candidate in candidates)
                ),
                gpu=f"{first.gpu_type}:{first.gpu_count}",
                capacity=first.capacity,
                micro_usd=first.micro_usd,
                outcome=outcome,
                code=code,
                message=message,
                started_at=started,
                seconds=round(self.now - started, 3),
            )
        )


def _key(candidate: Candidate) -> tuple[object, ...]:
    return (candidate.offer.id, candidate.entry, candidate.reservation, candidate.micro_usd)
