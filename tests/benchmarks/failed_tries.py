"""What a try that fails costs the walk: the engine's own, with its journal, at a cloud that refuses
everything at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from providers.engine.desired import ClusterSpec
from providers.engine.launch.walk import begun
from providers.engine.runtime.world import open_world
from providers.errors import GpusError, NoCapacity
from providers.model.machine import Setup
from providers.testing.clock import JumpingClock
from providers.testing.fake_adapter import FakeCloud
from tests.benchmarks.timing import Figures, quick_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.adapters.base import Manifest
    from providers.engine.runtime.world import World
    from providers.model.machine import Order
    from providers.planner.plan import Plan

TRIES = 40
LONGEST = 20
"""Tries of one walk, so that walks over few places and over many are alike."""


class _SoldOut(FakeCloud):
    """Refuses, and notes the processor's time at which it was asked."""

    def __init__(self, name: str, asked: list[float], world: list[World]) -> None:
        super().__init__(name, JumpingClock())
        self._asked, self._opened = asked, world

    def manifest(self) -> Manifest:
        return super().manifest()._replace(connect=lambda *_: self)

    def submit(self, order: Order) -> NoReturn:
        self._asked.append(time.process_time())
        if len(self._asked) > LONGEST:
            self._opened[0].stop.set()
        raise NoCapacity("none there", provider=self.name, code="FULL")


def failed(plan: Plan) -> Figures:
    """Seconds of the processor's time from one try of the plan's walk to the next."""
    taken: list[float] = []
    while len(taken) < TRIES:
        found = _walked(plan)
        assert found, "wanted a plan of several places"
        taken += found
    return Figures(tuple(taken))


def _walked(plan: Plan) -> list[float]:
    asked: list[float] = []
    with _sold_out(asked) as world, suppress(GpusError):
        spec = ClusterSpec("owner", "train", plan.ask, Setup(), "f1")
        asyncio.run(begun(world, plan, spec, "g1").run())
    return [later - earlier for earlier, later in pairwise(asked)]


@contextmanager
def _sold_out(asked: list[float]) -> Iterator[World]:
    previous = os.environ.get("GPUS_HOME")
    opened: list[World] = []
    clouds = [_SoldOut(name, asked, opened) for name in ("gcp", "aws")]
    with quick_folder() as home:
        os.environ["GPUS_HOME"] = str(home)
        world = open_world(
            "rehearsal",
            manifests={cloud.name: cloud.manifest() for cloud in clouds},
            clock=JumpingClock(),
        )
        opened.append(world)
        try:
            yield world
        finally:
            world.close()
            del os.environ["GPUS_HOME"]
            if previous is not None:
                os.environ["GPUS_HOME"] = previous
