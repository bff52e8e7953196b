"""A reservation of Google's that is used up: told as that, the walk goes on, and nothing else at
its place is closed by it.
"""

import asyncio
from typing import Any

import pytest

from providers.catalog.table import table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.machine import Setup
from providers.model.offer import Offer
from providers.model.spec import Cluster
from providers.rehearsal.clouds.gcp.console import reserve
from providers.rehearsal.store import open_store

ZONE, TYPE = "us-central1-a", "a3-highgpu-8g"
MARKET = [
    Offer("gcp", "us-central1", ZONE, TYPE, "H100", 8, kind, 88_490_000, "2026-07-30", "list")
    for kind in ("reservation", "on-demand")
]


class Cloud:
    """Google's rehearsal cloud, in which `mine` holds one machine and another run uses it."""

    def __init__(self) -> None:
        self.store = open_store()
        self.lines: list[Any] = []
        for step in ("create", "stockout", "delete"):
            self.store.set_latency("gcp", step, 0.0)
        self.reserve("mine")
        self.up("other", "reservation(mine)")
        self.lines.clear()

    def reserve(self, name, count=1) -> None:
        reserve(self.store, name, ZONE, TYPE, count)

    def up(self, name, *capacity, nodes=1):
        """One run, as a process of its own."""
        world = open_world(
            "rehearsal", {}, lambda _severity, text: self.lines.append(text), offers=table(MARKET)
        )
        spec = Cluster(name=name, gpu="H100:8", nodes=nodes, providers=("gcp",), capacity=capacity)
        try:
            cluster_spec = ClusterSpec(
                "own1",
                name,
                spec.ask(),
                Setup(ssh_public_key="ssh-ed25519 AAAA me"),
                spec.fingerprint(),
            )
            return asyncio.run(operations.create(world, cluster_spec, f"gen-{name}"))
        finally:
            world.close()


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    return Cloud()


@pytest.mark.parametrize("after", ["on-demand", "reservation(yours)"])
def test_walk_goes_on_past_a_reservation_that_is_used_up(cloud, after) -> None:
    """The next choice is taken at once, at the same place too; the line says which reservation it
    is and what to do.
    """
    cloud.reserve("yours")
    record = cloud.up("train", "reservation(mine)", after)
    assert record.status == "running" and (
        record.placement.capacity,
        record.placement.reservation,
    ) == (
        after.partition("(")[0],
        "yours" if "yours" in after else "",
    )
    (told,) = [line for line in cloud.lines if line.startswith("#1") and "sold out" in line]
    assert "sold out" in told
    said = " ".join(told.split())
    assert (
        "reservation mine has too little free: end what uses it, enlarge it, or list another"
        " capacity after it; " in said
    )
    assert (
        f"`gcloud compute reservations describe mine --zone={ZONE}` shows how much is in use"
        in said
    )


def test_reservation_too_small_for_all_nodes_is_used_up(cloud) -> None:
    """One of two machines is free: none is kept."""
    cloud.reserve("wide", 2)
    cloud.up("half", "reservation(wide)")
    record = cloud.up("train", "reservation(wide)", "on-demand", nodes=2)
    assert record.placement.capacity == "on-demand" and len(record.handles) == 2
    assert "reservation wide has too little free" in " ".join(" ".join(cloud.lines).split())


def test_with_nothing_after_it_the_end_says_what_to_do(cloud) -> None:
    """No place is left; once somebody frees it, the next run has it at once, and so it has another
    reservation there.
    """
    with pytest.raises(AllFailed) as ended:
        cloud.up("train", "reservation(mine)")
    assert [(attempt.capacity, attempt.outcome) for attempt in ended.value.attempts] == [
        ("reservation", "NoCapacity")
    ]
    assert "reservation mine has too little free: end what uses it" in " ".join(
        str(ended.value).split()
    )
    cloud.reserve("yours")
    assert cloud.up("train", "reservation(yours)").placement.reservation == "yours"
