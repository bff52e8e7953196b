"""How a walk ends early: stopped, cancelled, without a journal, or at the only place there is."""

from __future__ import annotations

import asyncio
from typing import Never

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.model.ask import Capacity
from providers.model.place import Scope
from providers.testing.fake_adapter import lost
from tests.engine.cases import MARKET, ask, offer, run, wanted
from tests.engine.test_acquire import create


def test_stop_ends_before_the_next_attempt(lab) -> None:
    """The user's stop lets the call under way end, releases it, and says that nothing is left."""
    world = lab.world()
    lab.alpha.create_s = 100_000
    real = lab.alpha.poll

    def poll(ticket):
        world.stop.set()
        return real(ticket)

    lab.alpha.poll = poll
    with pytest.raises(errors.GpusError, match="stopped by the user; nothing is left running"):
        run(operations.create(world, wanted(), "g1"))
    assert lab.creates == 1
    assert lab.alive == []


def test_cancelled_caller_releases_what_was_made(lab) -> None:
    """When the caller is cancelled, the purchase ends by itself, what it made is deleted, and the
    journal is closed.
    """
    world = lab.world()

    async def work() -> None:
        task = asyncio.ensure_future(operations.create(world, wanted(), "g1"))
        while not lab.alpha.calls["submit"]:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())
    assert lab.alive == []
    assert world.journal.orders("rehearsal", "own") == ()
    assert world.journal.leased("rehearsal", "own") == ()


def test_no_intent_no_purchase(lab, monkeypatch) -> None:
    """Without a durable intent nothing is bought."""
    world = lab.world()

    def broken(*_) -> Never:
        raise errors.GpusError("disk full")

    monkeypatch.setattr(world.journal, "intend", broken)
    with pytest.raises(errors.GpusError, match="disk full"):
        run(operations.create(world, wanted(), "g1"))
    assert lab.creates == 0


def test_intent_is_written_before_the_call(lab) -> None:
    """The order is in the journal, with its token and names, when the creating call is made."""
    world = lab.world()
    seen = []
    real = lab.alpha.submit

    def submit(order):
        seen.extend(world.journal.orders("rehearsal", "own", states=("intent",)))
        return real(order)

    lab.alpha.submit = submit
    run(operations.create(world, wanted(), "g1"))
    assert seen[0].order == lab.alpha.orders[0]
    assert 0 < seen[0].order.intended_at <= seen[0].created_at


def test_call_that_never_ends_is_unknown_not_absent(lab) -> None:
    """A creating call that is still under way keeps "nothing was made" from counting."""
    import threading

    gate = threading.Event()
    real = lab.alpha.submit

    def slow(order):
        gate.wait(60)
        return real(order)

    lab.alpha.submit = slow
    world = lab.world(call_limit_s=0.05)
    record = run(operations.create(world, wanted(), "g1"))
    gate.set()
    assert record.status == "unsettled"
    assert lab.beta.calls["submit"] == 0


def test_reservations_at_one_place_are_separate_pools(lab) -> None:
    """One reservation that is used up does not block another at the same place."""
    lab.offers = table([offer("alpha", "north", "north-a", capacity="reservation", usd=10)])
    lab.alpha.group = lambda candidates: 1
    lab.alpha.fail("submit", errors.NoCapacity("used up", provider="alpha", code="FULL"))
    record = create(
        lab, wanted(ask(spot=(Capacity("reservation", "one"), Capacity("reservation", "two"))))
    )
    assert record.placement.reservation == "two"


def test_b11_a_passing_fault_at_the_only_place_is_asked_again_as_a_new_order(lab) -> None:
    """An answer lost at the last place, with nothing made for certain, does not end the walk: one
    more order with its own token does.
    """
    lab.alpha.fail("submit", lost("alpha"))
    record = run(operations.create(lab.world(), wanted(ask(regions=("south",))), "g1"))
    assert [attempt.outcome for attempt in record.attempts] == ["OutcomeUnknown", "acquired"]
    assert len({order.token for order in lab.alpha.orders}) == len(lab.alive) == 1
    lab.alpha.fail("submit", lost("alpha"), times=9)
    with pytest.raises(errors.AllFailed) as failed:
        run(operations.create(lab.world(), wanted(ask(regions=("south",)), name="other"), "g1"))
    assert [attempt.outcome for attempt in failed.value.attempts] == ["OutcomeUnknown"] * 2


def test_what_is_wrong_with_an_account_that_alone_could_serve_is_the_whole_answer(lab) -> None:
    """Where every candidate is one provider's, its configuration error ends the walk at once and is
    what the user reads.
    """
    lab.alpha.fail(
        "submit",
        errors.NotConfigured(
            "options.alpha.image: wanted x, found none", provider="alpha", scopes=[Scope("alpha")]
        ),
    )
    with pytest.raises(errors.NotConfigured, match=r"options\.alpha\.image"):
        run(operations.create(lab.world(), wanted(ask(regions=("north", "south"))), "g1"))
    assert lab.creates == 1


def test_a_reservation_that_is_nowhere_takes_one_attempt(lab) -> None:
    """One line for it, then another reservation, then the next capacity kind."""
    ways = (Capacity("reservation", "mine"), Capacity("reservation", "yours"), "spot")
    error = errors.Unsupported(
        "no such reservation",
        provider="alpha",
        code="NO_RESERVATION",
        block_s=0,
        scopes=[Scope("alpha", capacity="reservation")],
    )
    lab.offers = table([*MARKET, *(row._replace(capacity="reservation") for row in MARKET)])
    lab.alpha.fail("submit", error, times=2)
    record = run(operations.create(lab.world(), wanted(ask(spot=ways, providers=("alpha",))), "g1"))
    assert [(attempt.capacity, attempt.outcome) for attempt in record.attempts] == [
        ("reservation", "Unsupported"),
        ("reservation", "Unsupported"),
        ("spot", "acquired"),
    ]


def test_attempt_lines_have_their_own_words_and_fit(lab) -> None:
    """What was made and went again is not called sold out, and every line of an attempt fits 96
    columns.
    """
    lab.alpha.refuse_late = errors.NoCapacity(
        "made, and gone " + "very " * 30,
        provider="alpha",
        code="GONE_AFTER_CREATE",
        scopes=[Scope("alpha", "north")],
    )
    lab.beta.fail(
        "submit",
        errors.QuotaExceeded(
            "a long story " * 12,
            provider="beta",
            metric="M" * 60,
            limit="0",
            scopes=[Scope("beta")],
        ),
    )
    lab.alpha.stock = {("south-a", "spot"): 0}
    with pytest.raises(errors.AllFailed) as failed:
        run(operations.create(lab.world(), wanted(), "g1"))
    assert any("made, and gone again" in line for line in lab.lines) and not lab.said(
        "sold out (GONE_AFTER_CREATE)"
    )
    shown = [
        line
        for text in (*lab.lines, str(failed.value))
        for line in text.removeprefix("info: ").split("\n")
    ]
    assert max(map(len, (line for line in shown if not line.startswith("progress")))) <= 96
