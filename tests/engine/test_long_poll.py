"""A cloud that holds its answer until there is news: known at once, few reads, and nothing hangs."""

import threading
from collections.abc import Callable

import pytest

from providers.adapters.base import LongPoll
from providers.engine import operations
from providers.engine.runtime.world import HELD_AT_ONCE
from providers.errors import GpusError
from providers.testing.clock import JumpingClock
from providers.testing.fake_adapter import FakeCloud
from tests.engine.cases import Lab, run, wanted


class HoldingCloud(FakeCloud, LongPoll):
    """Answers a long poll when `news` is set. `begun(n)` is called when the n-th has come."""

    def __init__(self, name: str, clock: JumpingClock) -> None:
        super().__init__(name, clock)
        self.jumping = clock
        self.news = threading.Event()
        self.begun: Callable[[int], None] = lambda _: None

    def long_poll(self, ticket):
        self.calls["long_poll"] += 1
        self.begun(self.calls["long_poll"])
        self.news.wait(30)
        self.jumping.advance(self.create_s)
        return self.poll(ticket)


@pytest.fixture
def holding(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab()
    lab.alpha = HoldingCloud("alpha", lab.clock)
    yield lab
    lab.alpha.news.set()
    for world in lab.worlds:
        world.close()


def test_news_ends_the_wait_and_nothing_is_asked_twice(holding) -> None:
    """One held read is all that an order costs."""
    holding.alpha.begun = lambda _: holding.alpha.news.set()
    run(operations.create(holding.world(), wanted(), "g1"))
    assert (holding.alpha.calls["long_poll"], holding.alpha.calls["poll"]) == (1, 1)
    assert len(holding.alive) == 1


def test_a_stop_does_not_wait_for_the_cloud(holding) -> None:
    """Ctrl-C ends the wait, and what was ordered is released."""
    world = holding.world()
    holding.alpha.begun = lambda _: world.stop.set()
    with pytest.raises(GpusError):
        run(operations.create(world, wanted(), "g1"))
    assert not holding.alpha.news.is_set()
    assert holding.alpha.calls["long_poll"] == 1
    assert holding.creates == 1
    assert holding.alive == []


def test_a_deadline_does_not_wait_for_the_cloud(holding) -> None:
    """When the order's time is over it is released, and the next place is asked."""

    def begun(number: int) -> None:
        if number == 1:
            holding.clock.advance(10_000)
        else:
            holding.alpha.news.set()

    holding.alpha.begun = begun
    run(operations.create(holding.world(), wanted(), "g1"))
    assert holding.creates == 2
    assert len(holding.alive) == 1


def test_beyond_so_many_held_answers_an_order_is_asked_as_elsewhere(holding) -> None:
    """Each takes a thread: five hundred clusters do not."""
    world = holding.world()
    held = [world.begin_held(holding.alpha.news.wait, 30) for _ in range(HELD_AT_ONCE)]
    assert None not in held
    run(operations.create(world, wanted(), "g1"))
    assert holding.alpha.calls["long_poll"] == 0 < holding.alpha.calls["poll"]
    holding.alpha.news.set()
