"""What an order on two machines of one's own costs beside bare logins there: real ssh servers on
loopback, in one run, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from providers.adapters.ssh import inventory, transport
from providers.adapters.ssh.adapter import Ssh
from providers.model.ask import Ask, Choice
from providers.model.machine import Label, Order, Setup
from providers.model.offer import Candidate
from tests.benchmarks.timing import RUNS, Figures, Line, both, fresh_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.adapters.ssh.inventory import Inventory

LOGINS_MOST = 6.0
"""An order lists the cards, takes both machines, looks and releases: 3.4 to 4.5 by one connection a
machine, 6.9 by a connection a call, in two runs one after the other on a busy machine (2026-11-29).
"""


def lines() -> list[Line]:
    """An order on both machines, over one login to each at the same time."""
    from tests.plugin.boxes import SSHD

    name = "an order on two own machines, in logins to both"
    if SSHD is None:
        return [Line(name, None, None, "", "needs OpenSSH's server: openssh-server")]
    with _boxes() as known:
        logins, orders = [], []
        for turn in range(RUNS):
            with fresh_home():
                logins.append(_timed(lambda: _login(known)))
                orders.append(_timed(lambda: _order(known, f"bench-{turn}")))  # noqa: B023
    login, order = Figures(tuple(logins)), Figures(tuple(orders))
    detail = f"logins {both(login)}; order {both(order)}"
    return [Line(name, order.p50 / login.p50, LOGINS_MOST, "x", detail)]


def _timed(what: object) -> float:
    began = time.perf_counter()
    assert callable(what)
    what()
    return time.perf_counter() - began


def _login(known: Inventory) -> None:
    def one(machine: inventory.Machine) -> None:
        words = transport.words(known, machine, "-T", shared="never")
        subprocess.run([*words, "true"], check=True, capture_output=True)

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, known.machines))


def _order(known: Inventory, token: str) -> None:
    adapter = Ssh("live", lambda: known, time.time)
    offer = adapter.offers_for(Ask((Choice("RTX-4090", 1, nodes=2),)))[0]
    placed = Candidate(1, 0, offer, 2, "", 0)
    label = Label("bench", "bench", token, "f")
    order = Order(label, token, (placed,), (f"{token}-0", f"{token}-1"), Setup(script="exit"), 60)
    ticket = adapter.submit(order)
    assert ticket.state == "done", ticket.detail
    for handle in ticket.handles:
        adapter.delete(handle)


@contextmanager
def _boxes() -> Iterator[Inventory]:
    from tests.plugin.boxes import Box

    folder = Path(tempfile.mkdtemp(prefix="gpus-boxes-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    made = [
        Box(folder, f"box-{number}", f"127.0.0.{number + 1}", port, folder / "bucket")
        for number in (1, 2)
    ]
    try:
        known = inventory.loads(json.dumps({"machines": [box.entry() for box in made]}))
        with fresh_home():
            adapter, end = Ssh("live", lambda: known, time.time), time.monotonic() + 20
            while len({offer.zone for offer in adapter.offers()}) < len(made):
                assert time.monotonic() < end, adapter.remarks
        yield known
    finally:
        for box in made:
            box.power_off()
        shutil.rmtree(folder, ignore_errors=True)
