"""A cloud in memory, behind the adapter protocol: for tests of the engine and of programs that use
it.

It does what it says: a machine it reports exists in it, a refusal made nothing, and what an
injected fault leaves behind can be found by its label. Outcomes are injected (`fail`, `stock`,
`twist`, `preempt`), every call is counted. Time comes from the clock it is given.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.base import Limits, Manifest, PlaceAccess
from providers.errors import CloudError, NoCapacity, OutcomeUnknown
from providers.model.capability import Capabilities
from providers.model.machine import (
    ENDED,
    GONE,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STOPPED,
    STOPPING,
    CheckLine,
    Handle,
    Node,
    Order,
    Ticket,
)
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.engine.runtime.clock import Clock
    from providers.errors import Problem
    from providers.model.offer import Candidate, Offer

FOREVER = float("inf")


class Fault(NamedTuple):
    """The next `times` calls of a method raise this: before any work, or after it was done (the
    answer is lost).
    """

    error: BaseException
    after: bool
    times: float


class _Operation:
    """One creating call that the cloud took. Its machines run from `done_at` on; with `error` it
    makes none and ends with that.
    """

    def __init__(
        self,
        placed: Candidate,
        done_at: float,
        handles: tuple[Handle, ...],
        error: CloudError | None,
    ) -> None:
        self.placed, self.done_at, self.handles, self.error = placed, done_at, handles, error
        self.done = False


class FakeCloud(PlaceAccess):
    """The cloud and its adapter in one. `machines` is every machine that was ever made, gone ones
    too.
    """

    def __init__(self, name: str, clock: Clock, capabilities: Capabilities | None = None) -> None:
        self.name = name
        self.world = ""
        self.capabilities = capabilities or Capabilities(
            name,
            capacities=frozenset({"on-demand", "spot", "flex-start", "reservation"}),
            max_nodes=8,
            in_place=frozenset({"labels", "ssh_key", "state"}),
        )
        self.clock = clock
        self.machines: dict[Handle, Node] = {}
        self.calls: Counter[str] = Counter()
        self.orders: list[Order] = []
        self.updates: list[tuple[Handle, dict[str, object]]] = []
        self.stock: dict[tuple[str, str], int] = {}
        """(zone, capacity) -> machines that can still be launched there; without an entry there is
        no end of them.
        """
        self.create_s, self.delete_s, self.queue_s = 1.0, 1.0, 0.0
        self.made_as = PENDING
        """What a machine is until it runs."""
        self.twist: Callable[[list[Node]], list[Node]] | None = None
        """What the cloud makes instead of what was ordered, once: nodes in, nodes out."""
        self.refuse_late: CloudError | None = None
        """The next order is taken, then ends with this and makes nothing."""
        self.refuse_update: Handle | None = None
        """A machine that cannot be edited: there is no room to start it again."""
        self.labelled = True
        """False for a cloud without labels: `find` finds nothing there."""
        self.listed: list[Offer] | None = None
        self.connect_error: CloudError | None = None
        self.closed: Callable[[str, str], str] | None = None
        """How a place is enabled that an account begins without; see `Limits.closed`."""
        self.enabled: set[tuple[str, str]] = set()
        """The places that the account has enabled since."""
        self._faults: dict[str, list[Fault]] = {}
        self._operations: dict[str, _Operation] = {}
        self._leaving: dict[Handle, float] = {}
        self._lock = threading.RLock()

    def manifest(self) -> Manifest:
        """As a folder would present it."""

        def connect(world: str, _config: Mapping[str, str]) -> FakeCloud:
            if self.connect_error is not None:
                raise self.connect_error
            self.world = world
            return self

        return Manifest(
            self.name, self.capabilities, connect, _no_problems, limits=Limits(closed=self.closed)
        )

    # What tests say and ask

    def fail(
        self, method: str, error: BaseException, *, after: bool = False, times: float = 1
    ) -> None:
        """The next `times` calls of `method` raise `error`; with `after` the work is done first."""
        self._faults.setdefault(method, []).append(Fault(error, after, times))

    def heal(self, method: str = "") -> None:
        """Takes back what `fail` said of this method, or of every one."""
        for healed in (method,) if method else tuple(self._faults):
            self._faults.pop(healed, None)

    @property
    def alive(self) -> list[Node]:
        """Every machine that costs money now."""
        with self._lock:
            self._pass()
            return [node for node in self.machines.values() if node.status != GONE]

    def preempt(self, handle: Handle, *, remains: bool = False) -> None:
        """The cloud takes a machine back: it is gone, or stays as a stopped one."""
        self.set_status(handle, PREEMPTED if remains else GONE)

    def end(self, handle: Handle, *, remains: bool = False) -> None:
        """Its own limit ends a machine."""
        self.set_status(handle, ENDED if remains else GONE)

    def set_status(self, handle: Handle, status: str) -> None:
        self.machines[handle] = self.machines[handle]._replace(status=status)

    # The adapter

    def offers(self) -> Sequence[Offer] | None:
        self._begin("offers")
        return self.listed

    def usable(self, places: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        self._begin("usable")
        return [place for place in places if place in self.enabled]

    def check(self) -> Sequence[CheckLine]:
        self._begin("check")
        return (CheckLine(self.name, "credentials", "ok", "none are needed"),)

    def group(self, candidates: Sequence[Candidate]) -> int:
        """Equals of one region go out as one call."""
        first = candidates[0]
        size = 0
        for candidate in candidates:
            same = (
                candidate.region,
                candidate.machine_type,
                candidate.capacity,
                candidate.micro_usd,
                candidate.reservation,
                candidate.entry,
            )
            if same != (
                first.region,
                first.machine_type,
                first.capacity,
                first.micro_usd,
                first.reservation,
                first.entry,
            ):
                break
            size += 1
        return size

    def submit(self, order: Order) -> Ticket:
        fault = self._begin("submit")
        with self._lock:
            self.orders.append(order)
            if order.token not in self._operations:
                placed = next(
                    (candidate for candidate in order.candidates if self._has(candidate)), None
                )
                if placed is None:
                    scopes = [
                        Scope(
                            self.name,
                            candidate.region,
                            candidate.zone,
                            candidate.machine_type,
                            capacity=candidate.capacity,
                        )
                        for candidate in order.candidates
                    ]
                    raise NoCapacity("none there", provider=self.name, code="FULL", scopes=scopes)
                key = (placed.zone, placed.capacity)
                if key in self.stock:
                    self.stock[key] -= placed.nodes
                self._operations[order.token] = self._start(order, placed)
            self._end(fault)
            return self.ticket_of(order)

    def poll(self, ticket: Ticket) -> Ticket:
        fault = self._begin("poll")
        with self._lock:
            self._end(fault)
            self._pass()
            operation = self._operations[ticket.order.token]
            if operation.done and operation.error is not None:
                raise operation.error
            return self.ticket_of(ticket.order)

    def resume(self, order: Order) -> Ticket | None:
        fault = self._begin("resume")
        with self._lock:
            self._end(fault)
            self._pass()
            operation = self._operations.get(order.token)
            if operation is None or (operation.done and operation.error is not None):
                return None
            return self.ticket_of(order)

    def observe(self, handles: Sequence[Handle]) -> Sequence[Node]:
        fault = self._begin("observe")
        with self._lock:
            self._end(fault)
            self._pass()
            return [
                self.machines.get(handle) or Node(handle, handle.native_id.rpartition("/")[2], GONE)
                for handle in handles
            ]

    def find(self, owner: str, cluster: str = "", generation: str = "") -> Sequence[Node]:
        fault = self._begin("find")
        with self._lock:
            self._end(fault)
            if not self.labelled:
                return []
            return [
                node
                for node in self.alive
                if node.label is not None
                and owner in {"", node.label.owner}
                and cluster in {"", node.label.cluster}
                and generation in {"", node.label.generation}
            ]

    def delete(self, handle: Handle) -> None:
        fault = self._begin("delete")
        with self._lock:
            if handle in self.machines and self.machines[handle].status != GONE:
                self._leaving.setdefault(handle, self.clock.now() + self.delete_s)
                self.set_status(handle, STOPPING)
            self._end(fault)

    def relabel(self, handle: Handle, generation: str) -> None:
        fault = self._begin("relabel")
        with self._lock:
            node = self.machines[handle]
            if node.label is not None:
                self.machines[handle] = node._replace(
                    label=node.label._replace(generation=generation)
                )
            self._end(fault)

    def update(self, handle: Handle, change: Mapping[str, object]) -> None:
        fault = self._begin("update")
        if handle == self.refuse_update:
            raise NoCapacity("none there", provider=self.name, code="FULL")
        self.updates.append((handle, dict(change)))
        if "state" in change:
            self.set_status(handle, STOPPED if change["state"] == "stopped" else RUNNING)
        self._end(fault)

    # Inside

    def _begin(self, method: str) -> Fault | None:
        """Counts the call; raises a fault that comes before the work, returns one that comes after
        it.
        """
        with self._lock:
            self.calls[method] += 1
            waiting = self._faults.get(method, [])
            if not waiting:
                return None
            fault = waiting[0]
            waiting[0] = fault._replace(times=fault.times - 1)
            if waiting[0].times <= 0:
                waiting.pop(0)
            if fault.after:
                return fault
            raise fault.error

    def _end(self, fault: Fault | None) -> None:
        if fault is not None:
            raise fault.error

    def _has(self, candidate: Candidate) -> bool:
        return self.stock.get((candidate.zone, candidate.capacity), 1_000) >= candidate.nodes

    def _start(self, order: Order, placed: Candidate) -> _Operation:
        queued = placed.capacity == "flex-start"
        done_at = self.clock.now() + self.create_s + (self.queue_s if queued else 0.0)
        error, self.refuse_late = self.refuse_late, None
        nodes = (
            []
            if error is not None
            else [
                self.node_of(order, placed, name, QUEUED if queued else self.made_as)
                for name in order.node_names
            ]
        )
        if self.twist is not None:
            nodes, self.twist = self.twist(nodes), None
        self.machines.update({node.handle: node for node in nodes})
        return _Operation(placed, done_at, tuple(node.handle for node in nodes), error)

    def ticket_of(self, order: Order) -> Ticket:
        self._pass()
        operation = self._operations[order.token]
        native = (("token", order.token),)
        if operation.done:
            return Ticket(order, "done", native, operation.placed, operation.handles)
        return Ticket(
            order, "queued" if operation.placed.capacity == "flex-start" else "waiting", native
        )

    def _pass(self) -> None:
        """What has happened by now."""
        now = self.clock.now()
        for handle, at in list(self._leaving.items()):
            if now >= at:
                self.set_status(handle, GONE)
                del self._leaving[handle]
        for operation in self._operations.values():
            if operation.done:
                continue
            if operation.handles and all(
                self.machines[handle].status in {STOPPING, GONE} for handle in operation.handles
            ):
                operation.done, operation.error = (
                    True,
                    NoCapacity(
                        "deleted while it was being made", provider=self.name, code="DELETED"
                    ),
                )
            elif now >= operation.done_at:
                operation.done = True
                for handle in operation.handles:
                    if self.machines[handle].status in {self.made_as, QUEUED}:
                        self.set_status(handle, RUNNING)

    def node_of(self, order: Order, placed: Candidate, name: str, status: str) -> Node:
        return Node(
            handle=Handle(self.name, f"{placed.zone or placed.region}/{name}"),
            name=name,
            status=status,
            label=order.label if self.labelled else None,
            region=placed.region,
            zone=placed.zone,
            machine_type=placed.machine_type,
            gpu_type=placed.gpu_type,
            gpu_count=placed.gpu_count,
            capacity=placed.capacity,
            external_ip="203.0.113.7",
            created_at=self.clock.now(),
        )


def lost(provider: str) -> OutcomeUnknown:
    """The answer to a creating call did not come."""
    return OutcomeUnknown(
        "the connection closed before the answer came", provider=provider, code="reset"
    )


def _no_problems(_options: Mapping[str, object]) -> Sequence[Problem]:
    return ()
