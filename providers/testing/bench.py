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
from typing import TYPE_CHECKING, NamedTuple, Protocol

from providers.catalog.table import table
from providers.engine.desired import ClusterSpec
from providers.engine.market.collect import market
from providers.engine.runtime.world import connected, open_world
from providers.errors import QuotaExceeded
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
from providers.model.machine import GONE, Mark, Order, Setup
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from providers.adapters.base import Adapter, Manifest
    from providers.engine.runtime.world import World
    from providers.errors import CloudError
    from providers.model.machine import Handle, Node, Ticket
    from providers.model.offer import Candidate, Offer
    from providers.planner.plan import Plan
    from providers.rehearsal.store import RehearsedMachine, Store

    T = TypeVar("T")

OWNER, OTHER = "owner-a1", "owner-b2"
CLUSTER, GENERATION, LATER, FINGERPRINT = "train", "gen1", "gen2", "0123456789abcdef"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb someone"

PATIENCE_S = 1_800.0
"""World seconds after which a case says that something never happens."""
STEP_S, STEP_MOST_S = 0.5, 30.0


class Console(Protocol):
    """What a stand-in's `console` module tells and does beside the wire. `preemptible()` is
    optional: which kinds of capacity can be taken back.

    So is `edit(store, name, machine_type, gpu, count)`: somebody changes the machines of this name,
    their type or their GPUs; how many that were.
    """

    def running(self, store: Store) -> tuple[RehearsedMachine, ...]:
        """Every machine that exists now, whoever made it."""

    def preempt(self, store: Store, name: str) -> int:
        """Takes back the machines of this name that run; how many that were."""


class Harness(NamedTuple):
    """What the suite must know about one adapter.

    `gpu` is what the cases order (`"L4:1"`), cheap and with several places where the cloud has
    them. `create` and `delete` are the calls that make and end machines, as the stand-in's log
    names them (with `*`). `provoke(code)` is the adapter's own reading of an answer to a creating
    call that bears a code of its error table. `page` is how many machines one page of the cloud's
    list holds (0: no pages). `limit` is what the account's limit reads as. `regions` narrows what
    is ordered, `settings` is what `connect` gets. `setup` holds the provider's own options.
    `offers` replaces the bundled catalog.

    `raise_price` is needed where offers are live, `reserve` (makes one, returns its name) where
    reservations are declared. `leftovers` names what else costs money in the stand-in, such as
    disks. `offline` is the environment in which live credentials can't be found without a network.
    """

    manifest: Manifest
    console: Console
    gpu: str
    create: tuple[str, ...]
    delete: str
    provoke: Callable[[str], CloudError]
    page: int = 0
    limit: type[CloudError] = QuotaExceeded
    regions: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    setup: Setup = Setup(ssh_public_key=SSH_KEY)
    offers: tuple[Offer, ...] = ()
    raise_price: Callable[[Store, Candidate], None] | None = None
    reserve: Callable[[Store, Candidate], str] | None = None
    leftovers: Callable[[Store], Sequence[str]] | None = None
    offline: Mapping[str, str] = {}
    knobs: Callable[[Harness, Store], Knobs] | None = None
    """Other knobs than those over the store's common scenario, for a stand-in that keeps another
    one.
    """
    edited: Mapping[str, object] = {}
    """What a machine of `gpu` is once somebody has made it another one at the cloud, as far as that
    can be done: property and value. It no longer is what was declared.
    """
    kind: str = "machine"
    """The kind of cluster that the cases order."""

    @property
    def name(self) -> str:
        """The provider."""
        return self.manifest.name


class Knobs(Protocol):
    """What a case may do to a stand-in, and ask of it."""

    def sell_out(self, candidate: Candidate | None = None, *, left: int = 0) -> None:
        """So many machines exist there (or everywhere, of each kind), those that run included."""

    def restock(self) -> None:
        """No end of machines, everywhere."""

    def refuse(self, kind: str, *, times: int | None = 1, **settings: Any) -> None:
        """The next creating calls fail by this kind of fault, before any work is done."""

    def lose_reply(self, kind: str = "reply-lost") -> None:
        """The next creating call does its work, and its answer is lost (`malformed`: garbled,
        `error-after`: an error instead, `twice`: the call is delivered twice, and the answer is
        that to the second).
        """

    def slow_start(self, seconds: float) -> None:
        """The machines of the next creating call take so much longer to come up."""

    def garble(self, *, times: int | None = 1) -> None:
        """The next calls of any kind are answered with a web page."""

    def refuse_delete(self, kind: str = "unavailable") -> None:
        """The next deleting call fails before any work."""

    def delay_delete(self, seconds: float) -> None:
        """A deletion takes so long."""

    def preempt(self, node: Node) -> int:
        """The cloud takes a machine back; how many that were."""

    def edit(self, name: str, machine_type: str, gpu: str, count: int) -> int:
        """Somebody makes the machines of this name another type, or gives them other GPUs; how many
        that were.
        """

    def heal(self) -> None:
        """No more faults."""

    def running(self) -> tuple[RehearsedMachine, ...]:
        """Every machine that exists, on the stand-in's own word."""

    def creates(self) -> int:
        """How many creating calls arrived so far, failed ones too."""


class StandIn:
    """The knobs of a stand-in that keeps its scenario in the rehearsal store."""

    def __init__(self, harness: Harness, store: Store) -> None:
        self._harness = harness
        self._store = store

    def sell_out(self, candidate: Candidate | None = None, *, left: int = 0) -> None:
        """See Knobs."""
        if candidate is None:
            self._store.set_stock(self._harness.name, "", "", "", left)
            return
        self._store.set_stock(
            self._harness.name,
            candidate.zone or candidate.region,
            candidate.machine_type,
            candidate.capacity,
            left,
        )

    def restock(self) -> None:
        """See Knobs."""
        for line in self._store.stock_lines(self._harness.name):
            self._store.set_stock(
                line.provider, line.place, line.machine_type, line.capacity, None, line.gpu
            )

    def refuse(self, kind: str, *, times: int | None = 1, **settings: Any) -> None:
        """See Knobs."""
        for call in self._harness.create:
            self._store.add_fault(self._harness.name, call, kind, times, **settings)

    def lose_reply(self, kind: str = "reply-lost") -> None:
        """See Knobs."""
        self.refuse(kind)

    def slow_start(self, seconds: float) -> None:
        """See Knobs."""
        self.refuse("slow", seconds=seconds)

    def garble(self, *, times: int | None = 1) -> None:
        """See Knobs."""
        self._store.add_fault(self._harness.name, "*", "html", times)

    def refuse_delete(self, kind: str = "unavailable") -> None:
        """See Knobs."""
        self._store.add_fault(self._harness.name, self._harness.delete, kind, 1)

    def delay_delete(self, seconds: float) -> None:
        """See Knobs."""
        self._store.set_latency(self._harness.name, "delete", seconds)

    def preempt(self, node: Node) -> int:
        """See Knobs."""
        return self._harness.console.preempt(self._store, node.name)

    def edit(self, name: str, machine_type: str, gpu: str, count: int) -> int:
        """See Knobs."""
        changed: int = self._harness.console.edit(self._store, name, machine_type, gpu, count)  # type: ignore[attr-defined]
        return changed

    def heal(self) -> None:
        """See Knobs."""
        self._store.clear_faults()

    def running(self) -> tuple[RehearsedMachine, ...]:
        """See Knobs."""
        return self._harness.console.running(self._store)

    def creates(self) -> int:
        """See Knobs."""
        return sum(len(self._store.requests(call)) for call in self._harness.create)


class StoreClock:
    """The rehearsal's clock, which jumps instead of waiting."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> float:
        """The world's moment."""
        return self._store.now()

    async def sleep(self, seconds: float) -> None:
        """Moves the world ahead."""
        await asyncio.sleep(0)
        self._store.advance(max(0.0, seconds))


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
        """The engine's world in this process, with this provider alone."""
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
        """Where the harness's GPU can be had, best first; at least one."""
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
        mark = Mark(owner, cluster, generation, FINGERPRINT)
        chosen = candidates or self.candidates(nodes=nodes)[:1]
        return Order(mark, token, chosen, names, self.harness.setup._replace(ttl_s=ttl_s), wait_s)

    def wanted(
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
