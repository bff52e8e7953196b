"""The candidates of a walk: what is still to be tried, and what each refusal takes out of it.

Buys nothing. What is blocked here holds for this run; the journal keeps what holds for longer.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from providers.engine.launch.ranked import LeftOut, Ranked
from providers.engine.launch.refusals import PROVIDER_WIDE, Unresponsive, of_account, refused
from providers.engine.market import closed_places
from providers.engine.market.offers import listed, overlay
from providers.engine.messages import WAITED, bare, said, trimmed
from providers.engine.readiness import acceptance
from providers.engine.readiness.wait import SETUP
from providers.engine.runtime.tasks import repeated
from providers.errors import (
    CloudError,
    GpusError,
    HalfMade,
    NoCapacity,
    NotReady,
    OfferGone,
    OutcomeUnknown,
    PriceRose,
    QuotaExceeded,
    Unclassified,
)
from providers.model import duration
from providers.model.ask import RESERVATION
from providers.model.place import Scope
from providers.planner.expected import ACQUIRED, REFUSED
from providers.remote.probe import REACH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.market.snapshot import Market
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.machine import Order
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan

_OF_PLACES = (NoCapacity, QuotaExceeded, OfferGone, PriceRose, HalfMade)
"""Refusals that say something of how probably the next try there succeeds."""
OUT_OF_REACH = 2
"""Machines in a row that could not be reached or were not ready in time, after which a cloud is
left out for the run.
"""


class Candidates:
    """What one walk may still try, in the plan's order."""

    def __init__(
        self,
        world: World,
        plan: Plan | None,
        spec: ClusterSpec,
        market: Market | None,
        accept: Callable[[Candidate], bool] | None,
    ) -> None:
        self.world, self.plan, self.spec, self.market = world, plan, spec, market
        self.accept = accept or (lambda _candidate: True)
        self._left_out = LeftOut()
        self.pending = self._ranked(() if plan is None else filter(self.accept, plan.candidates))
        """What is still to be tried."""
        self.skipped: Counter[str] = Counter()
        """Why candidates were not tried, and how many."""
        self._tried: set[tuple[object, ...]] = set()
        self._asked_again: set[str] = set()
        self._refreshed: set[str] = set()
        self._unreached: Counter[str] = Counter()
        self._unresponsive = Unresponsive()

    @cached_property
    def _twins(self) -> frozenset[tuple[str, ...]]:
        machines: dict[tuple[str, ...], set[str]] = {}
        for each in self.plan.candidates if self.plan is not None else ():
            machines.setdefault(_looks(each), set()).add(each.machine_type)
        return frozenset(key for key, types in machines.items() if len(types) > 1)

    def twinned(self, candidate: Candidate) -> bool:
        """Whether the plan has another one there that differs only in its machine type."""
        return _looks(candidate) in self._twins

    def take(self, order: Order) -> None:
        """These candidates are in this order now."""
        self.pending.take(order.candidates)
        self._tried.update(map(_key, order.candidates))

    def _ranked(self, candidates: Iterable[Candidate]) -> Ranked:
        cap, left_out = self.spec.ask.max_price_micro_usd, self._left_out

        def why(candidate: Candidate) -> str:
            if cap is not None and (candidate.micro_usd is None or candidate.micro_usd > cap):
                return "price cap"
            return left_out.why(candidate)

        return Ranked(tuple(candidates), why)

    def drop(self) -> None:
        """Passes over what was refused meanwhile, and what is above the price cap."""
        self.skipped.update(self.pending.pass_over())

    def block(
        self,
        candidates: Sequence[Candidate],
        error: CloudError,
        account: Account,
        *,
        wide: bool = False,
    ) -> None:
        """Leaves the refused scopes out for the rest of this run, and in the journal for as long
        as the error says.
        """
        code = f" ({error.code})" if error.code and error.code != WAITED else ""
        reason = f"{said(error)}{code}"
        now = self.world.clock.now()
        for scope in refused(candidates, error, wide=wide):
            # A refusal of one reservation says nothing about another at the same place.
            name = candidates[0].reservation if scope.capacity == RESERVATION else ""
            self._left_out.add(scope, name, f"{scope}: {reason}")
            if error.closed:
                closed_places.close(self.world, account, scope, error)
            elif error.block_s > 0 and not isinstance(error, PROVIDER_WIDE):
                self.world.journal.block(
                    self.world.name,
                    scope,
                    error.block_s,
                    reason,
                    now,
                    searching=self.spec.is_search and isinstance(error, NoCapacity),
                )

    def remember(
        self, candidates: Sequence[Candidate], seconds: float, error: CloudError | None = None
    ) -> None:
        """Keeps for later plans what a try came to: acquired, or a refusal that says something of
        its places. A try of several places took its time for all of them together.
        """
        if error is not None and not isinstance(error, _OF_PLACES):
            return
        outcome = ACQUIRED if error is None else REFUSED
        # It is advice: where it can't be written, nothing else changes.
        with suppress(GpusError):
            self.world.journal.note_tries(
                self.world.name,
                candidates,
                outcome,
                seconds / len(candidates),
                self.world.clock.now(),
            )

    def try_again(self, order: Order) -> None:
        """Puts the candidates of an order back, alone."""
        self.pending = self._ranked(order.candidates)

    def prefer_hinted(self, order: Order, error: CloudError) -> None:
        """The zones that the cloud named as having room come first among equals."""
        regions = {candidate.region for candidate in order.candidates}
        self.pending.put_ahead(regions, error.hints)

    def is_last(self, order: Order, error: CloudError, *, stopped: bool) -> bool:
        """True, once for each place, when an answer was lost, nothing was made for certain, and
        there is no other place to try. A passing fault there must not be the end of the walk: it is
        asked again as a new order.
        """
        if not isinstance(error, OutcomeUnknown) or isinstance(error, Unclassified) or stopped:
            return False
        self.drop()
        place = str([_key(candidate) for candidate in order.candidates])
        if self.pending or place in self._asked_again:
            return False
        self._asked_again.add(place)
        return True

    def block_unready(self, order: Order, error: CloudError) -> None:
        """Leaves a cloud out for this run once two machines in a row could not be reached or set
        up, were not ready in time, or did not pass acceptance. Each costs its whole wait, and the
        cause is the network, the image, the `wait` or how the cloud builds such machines, not the
        place. Where ports are mapped, each host is a network and a machine of its own.
        """
        provider = order.candidates[0].provider
        unready = error.code in (*REACH, SETUP, acceptance.FAILED) or isinstance(error, NotReady)
        self._unreached[provider] = self._unreached[provider] + 1 if unready else 0
        manifest = self.world.manifests.get(provider)
        if self._unreached[provider] < OUT_OF_REACH or (
            manifest is not None and manifest.capabilities.maps_ports
        ):
            return
        found = {
            SETUP: "could not be set up",
            acceptance.FAILED: "did not pass acceptance",
            **dict.fromkeys(REACH, "could not be reached from here"),
        }.get(error.code, f"were not ready within {duration.text(order.wait_s)}")
        reason = f"{provider}: {OUT_OF_REACH} machines in a row {found}"
        remedy = (
            "docs/how-to/accept-a-machine.md"
            if error.code == acceptance.FAILED
            else "docs/how-to/reach-a-machine.md, `ready` and `wait`"
        )
        self.world.report(
            "warning",
            f"{reason}; no more are bought there in this run; see {remedy}",
        )
        self._left_out.add(Scope(provider), "", reason)

    def block_unresponsive(self, order: Order, error: CloudError) -> None:
        """Leaves a provider that answers nowhere out for the rest of this run. The next run asks it
        again.
        """
        provider = order.candidates[0].provider
        rest = (candidate for candidate in self.pending if candidate.provider == provider)
        regions = {candidate.region for candidate in order.candidates}
        why = self._unresponsive.heard(
            provider, error, regions, (candidate.region for candidate in rest)
        )
        left = sum(candidate.provider == provider for candidate in self.pending) if why else 0
        if left:
            self.world.report(
                "warning",
                f"{provider}: {why}: it is left out for the rest of this run, with {left}"
                " places not tried",
            )
            self._left_out.add(Scope(provider), "", f"{provider}: {why}")

    def check_pinned(self, error: CloudError) -> None:
        """Raises what is wrong with the account, where no other provider could serve instead."""
        if not of_account(error):
            return
        others = self.plan is not None and any(
            candidate.provider != error.provider for candidate in self.plan.candidates
        )
        if len(self.spec.ask.providers) == 1 or (self.plan is not None and not others):
            raise error

    async def refresh(self, adapter: Cloud) -> None:
        """The market moved: lists this provider's offers again, once a run, and ranks what remains
        by them.
        """
        world, ask = self.world, self.spec.ask
        if adapter.name in self._refreshed or self.market is None:
            return
        self._refreshed.add(adapter.name)
        manifest = world.manifests.get(adapter.name)
        try:
            rows = await repeated(world, adapter.name, listed, adapter, ask, manifest)
        except CloudError as error:
            world.report(
                "warning",
                f"{adapter.name}: its offers could not be listed again:"
                f" {bare(adapter.name, trimmed(error))}",
            )
            return
        if rows is None:
            return
        self.market = self.market._replace(table=overlay(self.market.table, {adapter.name: rows}))
        blocks = world.journal.blocks(world.name)
        self.plan = self.market.plan(ask, blocks, world.clock.now(), self.spec.setup)
        self.pending = self._ranked(
            candidate
            for candidate in self.plan.candidates
            if _key(candidate) not in self._tried and self.accept(candidate)
        )


def _looks(candidate: Candidate) -> tuple[str, ...]:
    """What a line of the walk says of it, but for its zone and its price."""
    place = candidate.placement
    return place.provider, place.region, f"{place.times}{place.gpu}", place.capacity


def _key(candidate: Candidate) -> tuple[object, ...]:
    return (candidate.offer.id, candidate.entry, candidate.reservation, candidate.micro_usd)
