"""Several clusters that ask a machine of one's own the same at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from providers.adapters.ssh import reading, transport
from providers.adapters.ssh.adapter import Ssh
from providers.adapters.ssh.inventory import Inventory, Machine
from providers.errors import Transient

BOX, OTHER = Machine("box", "192.0.2.1"), Machine("other", "192.0.2.2")
WAIT_S = 20.0


class Slow:
    """Answers once it is let."""

    def __init__(self) -> None:
        self.begun, self.go, self.calls = threading.Semaphore(0), threading.Event(), 0

    def __call__(self):
        self.calls += 1
        self.begun.release()
        assert self.go.wait(WAIT_S)
        return self.calls


@pytest.fixture
def pool():
    with ThreadPoolExecutor(20) as made:
        yield made


def test_whoever_asks_the_same_meanwhile_gets_the_same_answer(pool) -> None:
    ask = Slow()
    first = pool.submit(reading.shared, BOX, "look", ask)
    assert ask.begun.acquire(timeout=WAIT_S)
    joined = threading.Event()

    def joins():
        joined.set()
        return reading.shared(BOX, "look", ask)

    second = pool.submit(joins)
    apart = [pool.submit(reading.shared, *each, ask) for each in ((BOX, "facts"), (OTHER, "look"))]
    assert joined.wait(WAIT_S)
    assert all(ask.begun.acquire(timeout=WAIT_S) for _ in apart)
    ask.go.set()
    assert first.result(WAIT_S) and second.result(WAIT_S) and ask.calls <= 4
    # An answer serves nobody who asks later.
    before = ask.calls
    reading.shared(BOX, "look", ask)
    assert ask.calls == before + 1


def test_a_look_that_began_before_a_write_answers_nobody_who_asks_after_it(pool) -> None:
    """Cards that were just taken would seem free, and a lease that was just made gone."""
    ask = Slow()
    pool.submit(reading.shared, BOX, "look", ask)
    assert ask.begun.acquire(timeout=WAIT_S)
    reading.written(BOX)
    later = pool.submit(reading.shared, BOX, "look", ask)
    assert ask.begun.acquire(timeout=WAIT_S)
    ask.go.set()
    assert later.result(WAIT_S) == 2


def test_an_error_is_everybodys_who_asked(pool) -> None:
    go = threading.Event()

    def fails():
        assert go.wait(WAIT_S)
        raise Transient("no answer", provider="ssh", code="unreachable")

    asked = [pool.submit(reading.shared, BOX, "look", fails) for _ in range(5)]
    go.set()
    assert all(isinstance(each.exception(WAIT_S), Transient) for each in asked)


def test_ten_clusters_that_look_at_once_are_two_calls_at_most(pool, monkeypatch) -> None:
    """By adapters of their own, as each cluster has one."""
    ask, barrier = Slow(), threading.Barrier(11)

    def call(*_words, **_more):
        ask()
        return ["boot x"]

    monkeypatch.setattr(transport, "call", call)
    adapters = [Ssh("live", lambda: Inventory((BOX,)), lambda: 0.0) for _ in range(10)]

    def looks(adapter):
        barrier.wait(WAIT_S)
        return adapter.find("owner")

    found = [pool.submit(looks, each) for each in adapters]
    barrier.wait(WAIT_S)
    assert ask.begun.acquire(timeout=WAIT_S)
    # All others stand behind it by the time it is answered, but for one that is late.
    threading.Event().wait(0.5)
    ask.go.set()
    assert [each.result(WAIT_S) for each in found] == [[]] * 10
    assert ask.calls <= 2
