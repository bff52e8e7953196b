"""The Clore adapter with its real HTTP client beside the stand-in on loopback; the test moves the
clock.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.clore.adapter import CloreAdapter
from providers.adapters.clore.client import Client
from providers.adapters.clore.gate import LIVE_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.options import Options
from providers.model.machine import Label, Order, Setup, Ticket
from providers.model.offer import Candidate
from providers.rehearsal.clouds.clore.access import KEY, Pace
from providers.rehearsal.clouds.clore.server import start
from providers.rehearsal.clouds.clore.state import State
from providers.rehearsal.store import Store

LABEL = Label("owner-1", "bench", "g1", "f00d")
SSH = "ssh-ed25519 AAAAC3Nz me"


class Clock:
    def __init__(self) -> None:
        self.at = 1_795_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class Bench:
    """One stand-in, one adapter, one clock; the pace is the real one."""

    def __init__(
        self, folder: Path, options: Options | None = None, key: str = KEY, not_configured: str = ""
    ) -> None:
        self.folder = folder
        self.clock = Clock()
        self.store = Store(folder / "rehearsal.db", clock=self.clock)
        self.store.begin()
        for step, seconds in (("create", 3.0), ("start", 3.0), ("delete", 4.0)):
            self.store.set_latency("clore", step, seconds)
        self.state = State(self.store)
        self.server = start(self.store, Pace(*LIVE_PACE))
        self.memory = Memory(folder / "memory.db")
        self.client, self.adapter = self.opened(self.memory, options, key, not_configured)
        self.count = 0

    def opened(
        self,
        memory: Memory,
        options: Options | None = None,
        key: str = KEY,
        not_configured: str = "",
    ) -> tuple[Client, CloreAdapter]:
        gate = Gate(self.folder / "pace", LIVE_PACE, self.clock, self.clock.sleep)
        client = Client(key, gate, lambda: self.server.url, trust_environment=False)
        return client, CloreAdapter(
            "rehearsal",
            client,
            memory,
            options or Options(),
            self.clock,
            "test",
            not_configured=not_configured,
        )

    def another_machine(self) -> CloreAdapter:
        """The same key elsewhere: no memory of what was ordered."""
        return self.opened(Memory(self.folder / "elsewhere.db"))[1]

    def candidate(self, server: int = 71001, capacity: str = "on-demand", **more: Any) -> Candidate:
        offer = next(
            o
            for o in self.adapter.offers()
            if o.machine_type == f"server-{server}" and o.capacity == capacity
        )
        return Candidate(1, 0, offer, 1, "", offer.node_micro_usd)._replace(**more)

    def order(
        self,
        server: int = 71001,
        capacity: str = "on-demand",
        label: Label = LABEL,
        setup: Setup | None = None,
        max_micro_usd: int | None = None,
        **more: Any,
    ) -> Order:
        self.count += 1
        setup = setup or Setup(ssh_public_key=SSH)
        return Order(
            label,
            f"token-{self.count}",
            (self.candidate(server, capacity, **more),),
            ("bench-0",),
            setup,
            900,
            max_micro_usd,
        )

    def up(self, ticket: Ticket, after_s: float = 10.0) -> Ticket:
        self.clock.at += after_s
        ticket = self.adapter.poll(ticket)
        assert ticket.state == "done"
        return ticket

    def posts(self) -> list[Any]:
        return list(self.store.requests("create_order"))

    def alive(self) -> list[Any]:
        return [made for made in self.state.orders() if self.state.ends_at(made) is None]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.client.close()
    made.server.close()
