"""What the engine's tests share: two fake clouds, a small market, a world on a folder of its own."""

import asyncio
from pathlib import Path

import pytest

from providers.catalog.table import table
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import World, open_world
from providers.model.ask import Ask, Capacity, Choice
from providers.model.machine import Setup
from providers.model.offer import Offer
from providers.testing.clock import JumpingClock
from providers.testing.fake_adapter import FakeCloud

USD = 1_000_000
PLAIN = Setup()


def offer(
    provider, region, zone, gpu="H100", capacity="spot", usd=10.0, machine="a3-highgpu-8g", count=8
):
    return Offer(
        provider,
        region,
        zone,
        machine,
        gpu,
        count,
        capacity,
        int(usd * USD),
        "2026-01-01",
        "a test",
        gpu_memory_gib=80.0,
    )


MARKET = (
    offer("alpha", "north", "north-a", usd=10),
    offer("alpha", "north", "north-b", usd=10),
    offer("alpha", "south", "south-a", usd=12),
    offer("beta", "east", "east-a", usd=14, machine="p5"),
    offer("alpha", "north", "north-a", gpu="A100-80GB", machine="a2-ultragpu-8g", usd=20),
    offer("beta", "east", "east-a", gpu="A100-80GB", machine="p4de", usd=21),
)


def ask(*gpus, spot=("spot",), nodes=1, wait_s=900, ttl_s=None, **more):
    ways = tuple(Capacity(way) if isinstance(way, str) else way for way in spot)
    entries = tuple(
        Choice(
            gpu,
            8,
            path="gpu" if index == 0 else f"fallback[{index - 1}]",
            nodes=nodes,
            capacity=ways,
            wait_s=wait_s,
            ttl_s=ttl_s,
        )
        for index, gpu in enumerate(gpus or ("H100",))
    )
    return Ask(entries, **more)


def wanted(an_ask=None, *, fingerprint="f1", owner="own", name="train", setup=PLAIN):
    return ClusterSpec(owner, name, an_ask or ask(), setup, fingerprint)


class Lab:
    """Two clouds and the lines that the user saw. `world()` opens the world as another process
    would.
    """

    home: Path

    def __init__(self, offers=MARKET, name="rehearsal") -> None:
        self.name = name
        self.clock = JumpingClock()
        self.alpha, self.beta = FakeCloud("alpha", self.clock), FakeCloud("beta", self.clock)
        self.offers, self.offers_list = table(offers), offers
        self.lines: list[str] = []
        self.worlds: list[World] = []

    def world(self, **more):
        manifests = {cloud.name: cloud.manifest() for cloud in (self.alpha, self.beta)}
        opened = open_world(
            self.name,
            {},
            lambda severity, text: self.lines.append(f"{severity}: {text}"),
            manifests=manifests,
            offers=self.offers,
            clock=self.clock,
            **more,
        )
        self.worlds.append(opened)
        return opened

    @property
    def alive(self):
        return self.alpha.alive + self.beta.alive

    @property
    def creates(self):
        return self.alpha.calls["submit"] + self.beta.calls["submit"]

    def said(self, text):
        """The lines that have the text, wherever they are broken."""
        return [line for line in self.lines if text in line or text in " ".join(line.split())]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Lab()
    made.home = tmp_path
    yield made
    for world in made.worlds:
        world.close()


def run(work):
    return asyncio.run(work)


class Killed(BaseException):
    """The process ends here: nothing after it runs."""
