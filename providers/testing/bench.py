"""One adapter on its stand-in, for the contract suite: what to order, what to break, what really
runs. Owns Harness, Knobs and Bench.

Everything goes through the adapter's own `connect` in the rehearsal world, and everything that is
checked at the end is asked of the stand-in's state, never of the adapter. Time is the rehearsal
store's and only ever jumps. Imports no cloud's folder: a harness brings its own.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from providers.catalog.table import table
from providers.engine.desired import ClusterSpec
from providers.engine.market.collect import market
from providers.engine.runtime.world import connected, open_world
from providers.model.ask import (
    CAPACITIES,
    RESERVATION,
    SPOT,
    Ask,
    Capacity,
    Choice,
    PriceOverride,
    gpu_text,
)
from providers.model.machine import GONE, Label, Order, Setup
from providers.model.worlds import REHEARSAL
from providers.testing.harness import Harness, Knobs, StandIn, StoreClock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from providers.adapters.base import Adapter
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node, Ticket
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan
    from providers.rehearsal.store import Store

    T = TypeVar("T")

OWNER, OTHER = "owner-a1", "owner-b2"
CLUSTER, GENERATION, LATER, FINGERPRINT = "train", "gen1", "gen2", "0123456789abcdef"

PATIENCE_S = 1_800.0
"""World seconds after which a case says that something never happens."""
STEP_S, STEP_MOST_S = 0.5, 30.0


class Bench:
    """What a case works with: an adapter (`adapter`), others like it from other processes
    (`connect()`), knobs, and the engine on both.
    """

    def __init__(self, harness: Harness, store: Store) -> None:
        self.harness = harness
        self.store = store
        self.knobs: Knobs = (
            StandIn(harness, store) if harness.knobs is None else harness.knobs(harness, store)
        )
        self.said: list[str] = []
        """The lines that the engine reported, as `severity: text`."""
        self._worlds: list[World] = []
        self._offers = table(harness.offers) if harness.offers else None
        self.adapter = self.connect()

    def close(self) -> None:
        """Lets go of the engine's worlds."""
        for world in self._worlds:
            world.close()

    @property
    def name(self) -> str:
        """The provider."""
        return self.harness.name

    def connect(self) -> Adapter:
        """The adapter as another process would have it: nothing remembered but what is on disk and
        at the cloud.
        """
        return connected(self.harness.manifest, REHEARSAL, self.harness.settings)

    @cached_property
    def world(self) -> World:
        """The engine's world in this process, with only this provider."""
        return self.another_world()

    def another_world(self) -> World:
        """The same world as another process would open it."""
        opened = open_world(
            REHEARSAL,
            {self.name: self.harness.settings},
            lambda severity, text: self.said.append(f"{severity}: {text}"),
            manifests={self.name: self.harness.manifest},
            offers=self._offers,
            clock=StoreClock(self.store),
        )
        self._worlds.append(opened)
        return opened

    # What to order

    @property
    def usual(self) -> str:
        """The kind of capacity that cases order: on demand where the adapter has it."""
        declared = self.harness.manifest.capabilities.capacities
        return next(kind for kind in CAPACITIES if kind in declared)

    @property
    def preemptible(self) -> str:
        """A kind of capacity that the cloud may take back; empty where it has none."""
        told = getattr(self.harness.console, "preemptible", None)
        kinds = frozenset({SPOT}) if told is None else told()
        declared = self.harness.manifest.capabilities.capacities
        return next(
            (kind for kind in (SPOT, *CAPACITIES) if kind in kinds and kind in declared), ""
        )

    def ask(
        self,
        capacity: str = "",
        *,
        nodes: int = 1,
        kind: str = "",
        reservation: str = "mine",
        wait_s: int = 900,
    ) -> Ask:
        """One choice of the harness's GPU. What is not on demand gets a price, since catalogs often
        have none; live offers have their own.
        """
        gpu, chosen = gpu_text(self.harness.gpu), capacity or self.usual
        way = Capacity(chosen, reservation if chosen == RESERVATION else "")
        entry = Choice(
            gpu.type,
            gpu.gpu_count or 1,
            exact=gpu.exact,
            nodes=nodes,
            capacity=(way,),
            wait_s=wait_s,
        )
        unpriced = () if self.harness.manifest.capabilities.live_offers else CAPACITIES[1:]
        own = tuple(PriceOverride(1_000_000, self.name, capacity=kind) for kind in unpriced)
        section = (
            {self.name: dict(self.harness.setup.options)} if self.harness.setup.options else {}
        )
        kind = kind or self.harness.kind
        return Ask(
            (entry,),
            kind=kind,
            providers=(self.name,),
            regions=self.harness.regions,
            price_overrides=own,
            options=section,
        )

    def plan(self, ask: Ask) -> Plan:
        """The plan of an ask over what this provider sells, without anything that was refused
        before.
        """
        return market(self.world, ask).plan(ask)

    def candidates(
        self, capacity: str = "", *, nodes: int = 1, reservation: str = "mine"
    ) -> tuple[Candidate, ...]:
        """Where the harness's GPU has capacity, best first; at least one."""
        plan = self.plan(self.ask(capacity, nodes=nodes, reservation=reservation))
        assert plan.candidates, (
            f"{self.name}: wanted a place for {self.harness.gpu} {capacity or self.usual}, found"
            f" none; refused: {plan.rejected_by_rule}"
        )
        return plan.candidates

    def order(
        self,
        *candidates: Candidate,
        nodes: int = 1,
        owner: str = OWNER,
        cluster: str = CLUSTER,
        generation: str = GENERATION,
        wait_s: int = 900,
        ttl_s: int | None = None,
    ) -> Order:
        """An order as the engine would write it; of the best candidate unless others are given."""
        token = str(uuid.uuid4())
        names = tuple(f"{cluster}-{token[:8]}-{index}" for index in range(nodes))
        label = Label(owner, cluster, generation, FINGERPRINT)
        chosen = candidates or self.candidates(nodes=nodes)[:1]
        return Order(label, token, chosen, names, self.harness.setup._replace(ttl_s=ttl_s), wait_s)

    def spec(
        self,
        ask: Ask | None = None,
        *,
        owner: str = OWNER,
        cluster: str = CLUSTER,
        setup: Setup | None = None,
    ) -> ClusterSpec:
        """What the engine is asked for; options stand under their provider there."""
        chosen = setup or self.harness.setup
        own = ((self.name, dict(chosen.options)),) if chosen.options else ()
        return ClusterSpec(
            owner, cluster, ask or self.ask(), chosen._replace(options=own), FINGERPRINT
        )

    # Time

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.store.advance(seconds)

    def finish(self, ticket: Ticket, adapter: Adapter | None = None) -> Ticket:
        """The ticket once it is done. Raises what the adapter raises."""
        step, passed = STEP_S, 0.0
        while True:
            ticket = (adapter or self.adapter).poll(ticket)
            if ticket.state == "done":
                return ticket
            assert ticket.state in {
                "waiting",
                "queued",
            }, f"{self.name}: wanted a ticket that waits, is queued or done, found {ticket.state!r}"
            assert passed < PATIENCE_S, (
                f"{self.name}: wanted an order to end, found it {ticket.state} after {passed:.0f}s"
            )
            self.wait(step)
            step, passed = min(step * 1.6, STEP_MOST_S), passed + step

    def made(self, order: Order | None = None) -> tuple[Ticket, tuple[Node, ...]]:
        """An order carried out, and its machines as observed."""
        ticket = self.finish(self.adapter.submit(order or self.order()))
        return ticket, tuple(self.adapter.observe(ticket.handles))

    def gone(self, handles: Sequence[Handle], adapter: Adapter | None = None) -> None:
        """Waits until the adapter says that these are gone."""
        step, passed = STEP_S, 0.0
        while any(node.status != GONE for node in (adapter or self.adapter).observe(handles)):
            assert passed < PATIENCE_S, (
                f"{self.name}: wanted {handles} to be gone, found them after {passed:.0f}s"
            )
            self.wait(step)
            step, passed = min(step * 1.6, STEP_MOST_S), passed + step

    def removed(self, handles: Sequence[Handle], adapter: Adapter | None = None) -> None:
        """Deletes machines and waits until they are gone."""
        for handle in handles:
            (adapter or self.adapter).delete(handle)
        self.gone(handles, adapter)

    def vanish(self, handles: Sequence[Handle]) -> None:
        """Somebody else deletes machines, as by hand at the cloud's own console."""
        other = self.connect()
        self.removed(handles, other)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a piece of the engine's work."""
        return asyncio.run(work)

    # What is checked

    def exist(self, count: int, why: str) -> None:
        """Exactly so many machines exist, on the stand-in's own word."""
        found = self.knobs.running()
        names = ", ".join(f"{machine.name} {machine.status}" for machine in found) or "none"
        assert len(found) == count, (
            f"{self.name}: {why}: wanted {count} machines, found {len(found)}: {names}"
        )

    def clean(self) -> None:
        """Nothing is left that costs money, deletions under way having had their time."""
        for _ in range(60):
            if not self.knobs.running():
                break
            self.wait(10.0)
        self.exist(0, "after the case")
        left = self.harness.leftovers(self.store) if self.harness.leftovers is not None else ()
        assert not left, (
            f"{self.name}: after the case: wanted nothing that costs money, found {', '.join(left)}"
        )


@contextmanager
def environment(values: Mapping[str, str], without: tuple[str, ...] = ()) -> Iterator[None]:
    """These environment variables, and not those, until the block ends."""
    before = {name: os.environ.get(name) for name in (*values, *without)}
    try:
        for name in without:
            os.environ.pop(name, None)
        os.environ.update(values)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
