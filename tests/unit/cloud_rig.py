"""What the adapters of AWS and Google are tested with: orders, a store, a clock that the test moves."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from providers.model.machine import Label, Order, Setup, Ticket
from providers.model.offer import Candidate
from providers.rehearsal.store import Store


def orders(default: Callable[[], Candidate]) -> Callable[..., Order]:
    """A maker of orders: of the given candidates, else of the default one."""

    def order(
        *candidates: Candidate,
        nodes: int = 1,
        generation: str = "gen1",
        cluster: str = "train",
        owner: str = "own1",
        wait_s: int = 900,
        **setup: Any,
    ) -> Order:
        names = tuple(f"{cluster}-{generation}-{index}" for index in range(nodes))
        return Order(
            Label(owner, cluster, generation, "0123456789abcdef"),
            str(uuid.uuid4()),
            candidates or (default(),),
            names,
            Setup(**setup),
            wait_s,
        )

    return order


class _Buys(Protocol):
    def submit(self, order: Order) -> Ticket: ...

    def poll(self, ticket: Ticket) -> Ticket: ...


class CloudRig:
    """A store and the test's clock; a cloud's own rig adds its stand-in and an adapter on it."""

    def __init__(self, path: Path) -> None:
        self.moment = 1_800_000_000.0
        self.store = Store(path / "rehearsal.db", clock=lambda: self.moment)
        self.store.hold_at_most(0.0)

    def sleep(self, seconds: float) -> None:
        self.moment += seconds

    def done(self, adapter: _Buys, ticket: Ticket, polls: int = 60) -> Ticket:
        """The ticket once it is done."""
        for _ in range(polls):
            if ticket.state == "done":
                return ticket
            self.moment += 0.5
            ticket = adapter.poll(ticket)
        raise AssertionError(f"still {ticket.state}")
