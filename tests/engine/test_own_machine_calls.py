"""How often a launch asks a machine of one's own: each call is a round trip, and a process on either
side.
"""

import asyncio
import os
import resource
import shutil
from collections import Counter
from typing import Any

import pytest

from providers.adapters.ssh import MANIFEST, transport
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.readiness import access
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock
from tests.unit.own_machine_rig import here

__all__ = ["here"]

JOB: dict[str, Any] = {
    "kind": "job",
    "gpu": "RTX-4090:2",
    "providers": ["ssh"],
    "workload": {"launcher": "torchrun", "command": "train.py"},
}
SETTINGS = {"ssh": {"inventory": "rehearsal"}}


def cluster(nodes: int) -> ClusterSpec:
    made = read_cluster("t", {**JOB, "nodes": nodes})
    return ClusterSpec("owner1", "t", made.ask(), made.setup(), made.fingerprint(), ready="checked")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_launch_asks_a_machine_as_often_as_it_has_to(nodes, tmp_path, monkeypatch) -> None:
    """What is free once, the cards once; whether they were begun, what was taken, what else there
    is, and at last whether somebody else took some. What was just told is not asked again.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    asked: list[tuple[str, str]] = []
    real = transport.call

    def call(inventory, machine, program, **more):
        asked.append((machine.name, program.verb))
        return real(inventory, machine, program, **more)

    monkeypatch.setattr(transport, "call", call)
    world = open_world("rehearsal", SETTINGS, lambda *_: None, clock=StoreClock(open_store()))
    record = asyncio.run(operations.create(world, cluster(nodes), "g1"))
    world.close()
    assert record.status == "running"
    wanted = {"facts": 1, "take": 1, **({"start": 1} if nodes > 1 else {})}
    for handle in record.handles:
        box = handle.native_id.partition("/")[0]
        verbs = Counter(verb for name, verb in asked if name == box)
        # Of two machines, two are one call where they meet, which a busy machine may prevent.
        assert verbs.pop("look") <= 4, asked
        assert verbs == wanted, asked


def test_a_machine_is_asked_by_a_process_with_many_files_open(tmp_path, monkeypatch) -> None:
    """More than the 1,024 descriptors that select() knows."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        world = open_world("rehearsal", SETTINGS, lambda *_: None, clock=StoreClock(open_store()))
        record = asyncio.run(operations.create(world, cluster(1), "g1"))
        asyncio.run(operations.delete(world, record))
        world.close()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert record.status == "running"


@pytest.mark.long
def test_this_machine_itself_needs_no_openssh(here, tmp_path, monkeypatch) -> None:
    """Nobody logs in to it: its job runs and is ended where ssh-keygen and ssh are not."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name.startswith("ssh") else which(name)
    )
    file = tmp_path / "inventory.yaml"
    file.write_text('{"machines": [{"host": "local", "usd_per_gpu_hour": 0}]}')
    sold = {"ssh": {"inventory": str(file)}}
    world = open_world("live", sold, lambda *_: None, manifests={"ssh": MANIFEST})
    made = read_cluster("t", {**JOB, "gpu": "RTX-4090:1", "workload": {"command": "sleep 60"}})
    spec = ClusterSpec("owner1", "t", made.ask(), made.setup(), "f", ready="checked")
    record = asyncio.run(operations.create(world, spec, "g1"))
    assert record.status == "running"
    assert access.key_probe(world, "owner1", "t", "ssh") is not None
    asyncio.run(operations.delete(world, record))
    world.close()
    assert here.cards() == []
