"""What a contract test says of its adapter, and the rehearsal cloud that it runs against."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from providers.errors import QuotaExceeded
from providers.model.machine import Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from providers.adapters.base import Manifest
    from providers.errors import CloudError
    from providers.model.machine import Node
    from providers.model.offer import Candidate, Offer
    from providers.model.volume import VolumeSpec
    from providers.rehearsal.scenario import RehearsedMachine
    from providers.rehearsal.store import Store

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb someone"


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
    volume: VolumeSpec | None = None
    """A volume in a place where `gpu` is sold; needed where `storage` is declared."""
    volume_create: tuple[str, ...] = ()
    """The calls that make one, as `create`."""
    kind: str = "machine"
    """The kind of cluster that the cases order."""
    block: str = ""
    """A GPU that is sold in blocks; needed where `blocks` are declared, with the calls that buy one
    and what was paid on the stand-in's own word.
    """
    block_create: tuple[str, ...] = ()
    blocks_paid: Callable[[Store], Sequence[str]] | None = None

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
        store.hold_at_most(0.0)

    def now(self) -> float:
        """The world's moment."""
        return self._store.now()

    async def sleep(self, seconds: float) -> None:
        """Moves the world ahead."""
        await asyncio.sleep(0)
        self._store.advance(max(0.0, seconds))
