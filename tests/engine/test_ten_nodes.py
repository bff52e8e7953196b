"""Ten machines are told what they wait for in about the time of one: each is spoken to over one
connection, and all at once.
"""

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from providers.engine.readiness import access, handover
from providers.engine.runtime.tasks import StopSignal
from providers.model.workload import ROOT
from providers.rehearsal.node import StandInProbe
from providers.remote.line import LocalCommand
from tests.present import present

CONNECTS_S = 1.0
"""What a login takes across an ocean. On two cores ten of them at once still take longer than one:
hence not 1.0 times."""
JOB = {
    "kind": "job",
    "nodes": 10,
    "spot": "prefer",
    "gpu": "H100:8",
    "workload": {"launcher": "torchrun", "command": "train.py"},
}


class Far(NamedTuple):
    """A stand-in's line, whose login takes time."""

    near: Any

    def __getattr__(self, name):
        return getattr(self.near, name)

    def command(self, text) -> LocalCommand:
        made: LocalCommand = self.near.command(text)
        words = ("sh", "-c", f'sleep {CONNECTS_S}; exec "$@"', "sh", *made.argv)
        return made._replace(argv=words)


@pytest.mark.long
def test_ten_machines_are_told_in_the_time_of_one(rig, monkeypatch) -> None:
    """At most 1.5 times, with every file that a start-up script may wait for."""
    lab = rig("gcp")
    record = lab.create(lab.wanted(JOB))
    assert len(record.machines) == 10
    order = lab.world.journal.orders("rehearsal", "owner1")[0].order
    order = order._replace(setup=order.setup._replace(gated=True))
    adapter = lab.world.adapter("gcp")
    near = StandInProbe.line
    monkeypatch.setattr(StandInProbe, "line", lambda self, node: Far(near(self, node)))

    def took(nodes):
        began = time.monotonic()
        stop = StopSignal(lab.world)
        told = handover.deliver_files(lab.world, adapter, order, nodes, stop)
        assert asyncio.run(told)
        return time.monotonic() - began

    one = took(record.machines[:1])
    ten = took(record.machines)
    assert one >= CONNECTS_S
    assert ten <= 1.5 * one, f"{ten:.2f}s for ten, {one:.2f}s for one"
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    for node in record.machines:
        peers = Path(present(near(looker, node)).path(f"{ROOT}/peers"))
        assert len(peers.read_text().split()) == 10
        assert peers.with_name("go").read_text() == "accepted\n"
        assert peers.stat().st_mode & 0o777 == 0o600
