"""Clouds that take a call and never answer: what a look shows of the others, how long it waits, and
what a deletion may say.
"""

import threading
import time
from collections.abc import Coroutine
from contextlib import contextmanager
from typing import Any, Never

import pytest

from providers.adhoc import access, rentals
from providers.engine import budget, operations, vanished
from providers.engine.runtime import deadlines
from providers.engine.runtime.world import World
from providers.engine.termination import inventory, verdicts
from providers.errors import BadCredentials, GpusError, HalfMade, OutcomeUnknown, RateLimited
from providers.testing.fake_adapter import FakeCloud
from tests.engine.cases import Lab, ask, offer, run, wanted

LIMIT_S = 0.5
BUSY_S = 60.0
"""What a busy machine may add; a call that hangs would take five minutes."""
CLOUDS = ("alpha", "beta", "gamma", "delta")


class Many(Lab):
    """Four clouds, each with one place."""

    def __init__(self) -> None:
        super().__init__(
            [
                offer(name, "north", f"{name}-a", usd=10 + number)
                for number, name in enumerate(CLOUDS)
            ]
        )
        self.gamma, self.delta = (FakeCloud(name, self.clock) for name in CLOUDS[2:])

    def world(self, **more):
        opened = super().world(**more)
        opened.manifests.update(
            {cloud.name: cloud.manifest() for cloud in (self.gamma, self.delta)}
        )
        return opened


@pytest.fixture
def many(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setattr(deadlines, "LOOK_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(deadlines, "REHEARSED", 1.0)
    made = Many()
    yield made
    for world in made.worlds:
        world.close()


def bought(many, provider, name, owner="own"):
    return run(
        operations.create(
            many.world(), wanted(ask(providers=(provider,)), name=name, owner=owner), f"g-{name}"
        )
    )


@contextmanager
def hung(*clouds, methods=("find", "observe", "delete")):
    """No call of these clouds comes back; the number of calls under way at once is kept."""
    gate, under_way, most = threading.Event(), [], []

    def hang(*_) -> Never:
        under_way.append(1)
        most.append(len(under_way))
        gate.wait(300)
        under_way.pop()
        raise AssertionError("nobody waits for this any more")

    before = {(cloud, method): getattr(cloud, method) for cloud in clouds for method in methods}
    for cloud, method in before:
        setattr(cloud, method, hang)
    try:
        yield most
    finally:
        gate.set()
        for (cloud, method), real in before.items():
            setattr(cloud, method, real)


def test_a_read_of_a_hung_cloud_ends_at_the_limit_and_changes_nothing(many) -> None:
    """The machine stays as it was, with the reason; a second hung cloud, in which it once had an
    order, adds no time.
    """
    many.beta.stock = {("beta-a", "spot"): 0}
    record = bought(many, "alpha", "train")
    with hung(many.alpha, many.beta):
        began = time.monotonic()
        after = run(operations.read(many.world(), record))
        took = time.monotonic() - began
    assert after == record._replace(detail=after.detail) and "no answer within" in after.detail
    assert took < LIMIT_S + BUSY_S
    assert many.said("run it again: `gpus check alpha -s STACK` says whether it answers")


def test_rate_limits_hold_a_look_up_no_longer_than_its_limit(many) -> None:
    """What is to be waited for is longer than what is left: the look ends with what it knows."""
    record = bought(many, "alpha", "train")
    many.alpha.fail("observe", RateLimited("slow down", provider="alpha"), times=9)
    after = run(operations.read(many.world(), record))
    assert (
        after.status == record.status
        and "slow down" in after.detail
        and many.alpha.calls["observe"] < 9
    )


@pytest.mark.parametrize("name", ["", "on-beta"])
def test_what_is_held_elsewhere_is_shown_while_clouds_hang(many, name) -> None:
    """`gpus ps`: the machine at the healthy cloud as it is now, those at hung ones as they were;
    nothing is dropped, one limit for all.
    """
    for provider in CLOUDS[:3]:
        bought(many, provider, f"on-{provider}", access.owner())
    with hung(many.alpha, many.gamma, many.delta):
        began = time.monotonic()
        found = {machine.name: machine.record for machine in run(rentals.look(many.world(), name))}
        took = time.monotonic() - began
    assert set(found) == ({"on-alpha", "on-beta", "on-gamma"} if not name else {"on-beta"})
    assert found["on-beta"].detail == "" and all(
        "no answer" in record.detail for key, record in found.items() if key != "on-beta"
    )
    assert took < LIMIT_S + BUSY_S


def test_a_release_is_not_told_as_done_while_a_cloud_was_not_searched(many) -> None:
    """A name that this machine knows nothing of may be at a cloud that hangs; what was found
    elsewhere is released all the same.
    """
    with (
        hung(many.alpha, many.gamma, methods=("find",)),
        pytest.raises(
            GpusError, match=r"box: found nothing of that name, but alpha, gamma could not"
        ),
    ):
        run(rentals.let_go(many.world(), "box"))
    assert not run(rentals.let_go(many.world(), "box"))
    bought(many, "beta", "box", access.owner())
    with hung(many.alpha, many.gamma, methods=("find",)):
        assert run(rentals.let_go(many.world(), "box"))
    assert not many.alive


def test_two_names_of_one_account_are_asked_once(many) -> None:
    """The account as the settings have it and as a stack's state has it is one: one search, also
    where it fails.
    """
    bought(many, "alpha", "train")
    asked = many.alpha.calls["find"]
    many.alpha.fail("find", BadCredentials("expired", provider="alpha"), times=9)
    survey = run(
        inventory.survey(many.world(), verdicts.Claims(settings=({"alpha": {}}, {"beta": {}})))
    )
    assert many.alpha.calls["find"] == asked + 1 and len(survey.trouble) == 1


def test_a_sweep_names_each_hung_cloud_and_shows_the_others(many) -> None:
    """All are asked at once: three that hang cost one limit, and what is there is called not known."""
    bought(many, "beta", "left")
    with hung(many.alpha, many.gamma, many.delta) as most:
        survey = run(inventory.survey(many.world(), verdicts.Claims()))
    assert survey.asked == ("beta",) and [found.handle.provider for found in survey.found] == [
        "beta"
    ]
    assert len(survey.trouble) == 3 and all("no answer within" in line for line in survey.trouble)
    assert max(most) == 3


def test_spending_at_hung_clouds_goes_on_being_counted(many) -> None:
    """What another machine bought is only over on its cloud's word; the healthy cloud's answer
    counts although others hang.
    """
    spells = {
        provider: budget.Charge(
            provider, f"g-{provider}", provider, 10, many.clock.now() - 60, 0.0, 0.0
        )
        for provider in ("alpha", "beta", "gamma")
    }
    ledger = budget.Ledger(spells={spell.key: spell for spell in spells.values()})
    with hung(many.alpha, many.gamma) as most:
        after = run(vanished.settled(many.world(), "own", ledger, (), ()))
    ended = {spell.provider for spell in after.spells.values() if spell.ended_at}
    assert ended == {"beta"} and max(most) == 2


def test_a_destroy_ends_what_it_can_and_never_calls_a_hung_cloud_gone(many) -> None:
    """The machine at the healthy cloud goes first of all; clouds that hang are asked side by side,
    and each is named in the error.
    """
    bought(many, "beta", "train")
    with hung(many.alpha, many.gamma, many.delta) as most:
        began = time.monotonic()
        with pytest.raises(HalfMade, match=r"alpha: no answer.*gamma: no answer.*delta: no answer"):
            run(operations.settle(many.world(), "own"))
        took = time.monotonic() - began
    assert not many.alive and max(most) == 3 and took < LIMIT_S + BUSY_S


@pytest.fixture
def impatient(monkeypatch) -> None:
    """The limits of a deletion, short enough to be waited for."""
    monkeypatch.setattr(deadlines, "ANSWER_LIMIT_S", LIMIT_S / 2)
    monkeypatch.setattr(deadlines, "UNRESPONSIVE_LIMIT_S", LIMIT_S)


@pytest.mark.parametrize(
    "methods", [("find",), ("observe",), ("delete",), ("find", "observe", "delete")], ids="-".join
)
def test_a_destroy_waits_for_a_hung_cloud_for_a_bounded_time(many, impatient, methods) -> None:
    """Whichever of its calls hangs; the error names the machine, its price, and how to see that the
    cloud answers again.
    """
    record = bought(many, "alpha", "train")
    with hung(many.alpha, methods=methods):
        began = time.monotonic()
        with pytest.raises(
            HalfMade,
            match=(
                r"no answer within .*may still cost \$10\.00/h; run it again once `gpus check"
                r" alpha` gets an answer"
            ),
        ) as told:
            run(operations.delete(many.world(), record))
        took = time.monotonic() - began
    assert took < 7 * LIMIT_S + BUSY_S
    # What was seen gone is not named; whether there is more, only a search could tell.
    assert methods == ("find",) or record.handles[0].native_id in str(told.value)
    run(operations.delete(many.world(), record))
    assert not many.alive


@pytest.mark.parametrize("settles", ["one cluster", "the stack"])
def test_an_order_that_cannot_be_looked_up_holds_a_destroy_up_for_a_bounded_time(
    many, impatient, settles
) -> None:
    """It is not known whether it made anything: the deletion fails, and says so."""
    many.alpha.fail("submit", OutcomeUnknown("lost", provider="alpha"), after=True)
    many.alpha.fail("resume", OutcomeUnknown("lost", provider="alpha"), times=99)
    record = bought(many, "alpha", "train")
    assert record.status == "unsettled"
    many.alpha.heal("resume")

    def work(world: World) -> Coroutine[Any, Any, Any]:
        if settles == "one cluster":
            return operations.delete(world, record)
        return operations.settle(world, "own")

    with hung(many.alpha, methods=("find", "observe", "delete", "resume", "poll")):
        began = time.monotonic()
        with pytest.raises(HalfMade, match=r"no answer within .*`gpus check alpha` gets an answer"):
            run(work(many.world()))
        took = time.monotonic() - began
    assert took < LIMIT_S + BUSY_S
    run(work(many.world()))
    assert not many.alive


def test_a_search_of_an_account_that_is_owed_ends_at_its_limit(many, impatient) -> None:
    """`gpus release` of what a hung cloud has: it fails within the limit, naming the machine."""
    bought(many, "alpha", "box", access.owner())
    with hung(many.alpha):
        began = time.monotonic()
        with pytest.raises(HalfMade, match="no answer within"):
            run(rentals.let_go(many.world(), "box"))
        took = time.monotonic() - began
    assert took < LIMIT_S + BUSY_S
    assert run(rentals.let_go(many.world(), "box")) and not many.alive


def test_a_cloud_that_answers_is_waited_for_in_a_destroy(many, impatient) -> None:
    """An answer that says to come back later is one: only time without any answer counts."""
    record = bought(many, "alpha", "train")
    many.alpha.fail("delete", RateLimited("slow down", provider="alpha", retry_after_s=60), times=5)
    run(operations.delete(many.world(), record))
    assert not many.alive


def test_a_destroy_of_what_a_hung_cloud_has_fails_and_a_later_one_succeeds(many, impatient) -> None:
    """The record says that it may still cost money; once the cloud answers, the same command ends
    it.
    """
    record = bought(many, "alpha", "train")
    other = bought(many, "beta", "other")
    (node,) = many.beta.alive
    many.beta.machines[node.handle] = node._replace(label=many.alpha.alive[0].label)
    both = record._replace(leftovers=other.handles)
    with (
        hung(many.alpha),
        pytest.raises(
            HalfMade, match=r"train: could not be confirmed deleted: .*no answer.*may still cost"
        ),
    ):
        run(operations.delete(many.world(), both))
    assert [node.handle for node in many.alive] == list(record.handles), (
        "the healthy cloud's machine is gone meanwhile"
    )
    run(operations.delete(many.world(), record))
    assert not many.alive


def test_an_up_does_not_wait_for_clouds_where_nothing_is_owed(many) -> None:
    """A purchase at one cloud looks for what earlier runs left at all of them: those that hang are
    passed over with a line.
    """
    with hung(many.gamma, many.delta, methods=("find",)):
        began = time.monotonic()
        bought(many, "alpha", "train")
        took = time.monotonic() - began
    assert took < LIMIT_S + BUSY_S and len(many.said("could not be searched")) >= 2
