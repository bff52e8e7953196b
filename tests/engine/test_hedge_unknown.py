"""Of two orders at once, one of which nobody knows what it made: the other one may be kept, the
unknown one is looked for until it is known, and nothing else is bought meanwhile.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from providers import errors
from providers.adhoc import rentals
from providers.adhoc.provision import kept
from providers.engine import budget, operations
from providers.engine.reconcile.condition import Condition, condition_of
from providers.engine.runtime import deadlines
from providers.engine.runtime import world as worlds
from providers.model.machine import GONE
from providers.model.spec import read_cluster
from providers.testing.fake_adapter import lost
from tests.engine.test_hedge import Killed, charges, clock, create, hedged, orders, run

__all__ = ["clock"]

BUSY = errors.Transient("busy", provider="alpha")


def unknown(lab) -> None:
    """What alpha did is not known any more, whoever asks."""
    for method in ("resume", "find", "poll"):
        lab.alpha.fail(method, BUSY, times=100_000)


@pytest.fixture
def killed(lab):
    """A run that is killed once both orders were sent."""
    cut_short(lab, lambda: create(lab))
    assert {row.state for row in orders(lab)} == {"intent"}
    return lab


def cut_short(lab, begun) -> None:
    """What is begun is killed once both orders were sent."""
    real = lab.beta.submit

    def submit(order):
        real(order)
        raise Killed

    lab.alpha.create_s = lab.beta.create_s = 20.0
    lab.beta.submit = submit
    with pytest.raises(Killed):
        begun()
    lab.beta.submit = real
    with lab.world().journal.change() as db:
        db.execute("DELETE FROM leases")


def test_other_order_may_win_while_one_is_unknown(lab) -> None:
    """The second provider's answer is lost, and stays so; the first one needs minutes, and is kept.
    What the other made is found and released once its cloud answers. Nothing further was asked.
    """
    lab.beta.fail("submit", lost("beta"), after=True)
    lab.beta.fail("resume", errors.Transient("busy", provider="beta"), times=100_000)
    lab.alpha.create_s = 300.0
    record = create(lab)
    assert (record.status, record.provider, lab.creates) == ("running", "alpha", 2)
    assert "may still cost $14.00/h" in record.reasons[0]
    assert [(each.provider, each.ended_at) for each in charges(lab)] == [("beta", 0.0)]
    lab.beta.heal()
    after = run(lab, operations.update, record, hedged())
    assert (after.reasons, after.handles, lab.creates) == ((), record.handles, 2)
    assert [node.handle for node in lab.alive] == list(record.handles)


def test_unknown_order_after_which_the_other_fails_stops_the_walk(lab) -> None:
    """Then nothing is bought until it is known, though other places have room."""
    lab.beta.fail("submit", lost("beta"), after=True)
    lab.beta.fail("resume", errors.Transient("busy", provider="beta"), times=100_000)
    lab.alpha.create_s = 300.0
    lab.alpha.refuse_late = errors.NoCapacity("none", provider="alpha")
    record = create(lab)
    assert (record.status, record.provider, lab.creates) == ("unsettled", "beta", 2)


def test_after_a_kill_the_known_order_is_kept_while_the_other_is_unknown(killed) -> None:
    """The next run takes over what the second provider made. The first one's order is a reason, a
    refresh and a later `up` keep it so, and it is gone once that one answers.
    """
    lab = killed
    unknown(lab)
    record = create(lab, generation="g2")
    assert (record.status, record.provider, lab.creates) == ("running", "beta", 2)
    assert "alpha was asked at once too" in record.reasons[0]
    assert "whatever it made may still cost $10.00/h" in record.reasons[0]
    assert [(each.provider, each.ended_at) for each in charges(lab)] == [("alpha", 0.0)]
    still = run(lab, operations.read, record)
    assert (still.reasons, condition_of(still)) == (record.reasons, Condition.HEALTHY)
    again = run(lab, operations.update, still, hedged())
    assert "alpha was asked at once too" in again.reasons[0]
    lab.alpha.heal()
    after = run(lab, operations.update, again, hedged())
    assert (after.reasons, after.handles, lab.creates) == ((), record.handles, 2)
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert charges(lab)[0].ended_at > 0


def test_after_a_kill_neither_order_waits_for_the_other(killed) -> None:
    """The first one needs its whole wait. The second has machines at once: it is kept, and the first
    is released and paid for.
    """
    lab = killed
    for operation in lab.alpha._operations.values():  # noqa: SLF001 - it takes that long
        operation.done_at += 800
    began = lab.clock.now()
    record = create(lab, generation="g2")
    assert (record.provider, record.reasons, lab.creates) == ("beta", (), 2)
    assert lab.clock.now() - began < 120
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert [each.provider for each in charges(lab)] == ["alpha"]


def test_after_a_kill_nothing_is_bought_where_only_the_unknown_is_left(killed) -> None:
    """The second provider made nothing: until the first one's order is known, nobody is asked."""
    lab = killed
    unknown(lab)
    for node in lab.beta.alive:
        lab.beta.set_status(node.handle, GONE)
    with pytest.raises(errors.OutcomeUnknown, match="nothing is bought"):
        create(lab, generation="g2")
    assert lab.creates == 2
    lab.alpha.heal()
    record = create(lab, generation="g3")
    assert (record.provider, lab.creates) == ("alpha", 2)


def test_what_was_adopted_and_is_gone_is_not_replaced_while_the_other_is_unknown(killed) -> None:
    """Both could run at once otherwise. A refresh does not forget the unknown one either."""
    lab = killed
    unknown(lab)
    record = create(lab, generation="g2")
    lab.beta.preempt(record.handles[0])
    left = run(lab, operations.read, record)
    assert left is not None and "alpha was asked at once too" in left.reasons[0]
    stuck = run(lab, operations.update, left, hedged())
    assert lab.creates == 2 and "alpha was asked at once too" in stuck.reasons[0]
    lab.alpha.heal()
    after = run(lab, operations.update, stuck, hedged())
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_what_won_in_an_update_that_was_killed_is_the_cluster(lab) -> None:
    """The machine before it was released, confirmed: the state does not name that one for as long
    as the other order is unknown, while what won runs and costs money.
    """
    before = create(lab)
    lab.alpha.preempt(before.handles[0])
    cut_short(lab, lambda: run(lab, operations.update, before, hedged()))
    unknown(lab)
    record = run(lab, operations.update, before, hedged())
    assert (record.provider, record.status, lab.creates) == ("beta", "running", 3)
    assert "alpha was asked at once too" in record.reasons[0]
    lab.alpha.heal()
    after = run(lab, operations.update, record, hedged())
    assert (after.handles, after.reasons, lab.creates) == (record.handles, (), 3)
    assert [node.handle for node in lab.alive] == list(record.handles)


def test_destroy_of_what_was_adopted_ends_the_unknown_order_too(killed) -> None:
    """Though that was sent under the generation before; while it is unknown, destroy says so."""
    lab = killed
    unknown(lab)
    record = create(lab, generation="g2")
    with pytest.raises(errors.HalfMade, match="could not be"):
        run(lab, operations.delete, record)
    lab.alpha.heal()
    run(lab, operations.delete, record)
    assert lab.alive == []
    assert orders_open(lab) == ()
    assert [each.provider for each in charges(lab)] == ["alpha"]
    assert all(each.ended_at for each in budget.of_journal(lab.world(), ["own"]))


def test_destroy_says_what_the_order_costs_that_is_not_known(killed) -> None:
    """Which is more than what had won."""
    for method in ("resume", "find", "poll"):
        killed.beta.fail(method, errors.Transient("busy", provider="beta"), times=100_000)
    record = create(killed, generation="g2")
    assert record.provider == "alpha"
    with pytest.raises(errors.HalfMade, match=r"whatever it made may still cost \$14\.00/h"):
        run(killed, operations.delete, record)


def test_get_hands_over_what_won_and_says_at_the_end_what_may_still_cost(lab) -> None:
    """Where the other order is not known to be gone. The same name ends that, once it can; a release
    ends both.
    """
    lab.alpha.create_s = 500
    lab.alpha.fail("delete", BUSY, times=100_000)
    box = read_cluster("box", {"gpu": "H100:8", "capacity": ["spot"], "ttl": "4h", "hedge": 2})
    machine = run(lab, rentals.rent, box)
    assert (machine.status, len(lab.alive)) == ("running", 2)
    lab.lines.clear()
    kept(machine)
    (warning,) = lab.said("warning: box: alpha: half-made: ")
    assert "may still cost $" in warning and "; `gpus ps` shows whether it is there" in warning
    lab.lines.clear()
    (shown,) = run(lab, rentals.look, "box")
    assert shown.record.handles == machine.record.handles and lab.said("may still cost $")
    lab.alpha.heal()
    again = run(lab, rentals.rent, box)
    assert again.record.handles == machine.record.handles
    assert ([node.handle for node in lab.alive], lab.creates) == ([*again.record.handles], 2)


def test_what_a_killed_get_left_stands_in_the_way_of_no_command(lab) -> None:
    """The same name took over what won, while the other order is unknown: there is one of the name,
    and a release ends both.
    """
    box = read_cluster("box", {"gpu": "H100:8", "capacity": ["spot"], "ttl": "4h", "hedge": 2})
    cut_short(lab, lambda: run(lab, rentals.rent, box))
    unknown(lab)
    held = run(lab, rentals.rent, box).record
    (shown,) = run(lab, rentals.look, "box")
    assert shown.record.handles == held.handles
    assert "alpha was asked at once too" in shown.record.reasons[0]
    lab.alpha.heal()
    (shown,) = run(lab, rentals.look, "box")
    assert (shown.record.handles, len(lab.alive)) == (held.handles, 2)
    assert run(lab, rentals.let_go, "box")
    assert lab.alive == []


@pytest.mark.parametrize("when", ["sent", "waited for", "killed"])
def test_winner_is_not_kept_from_its_user_by_a_cloud_that_does_not_answer(
    lab, monkeypatch, when
) -> None:
    """It runs and costs money: the other one is asked for minutes, not for half an hour."""
    for module in (deadlines, worlds):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lab.clock.now))
    real, lab.alpha.create_s, lab.beta.create_s = lab.beta.submit, 500.0, 20.0

    def submit(order):
        ticket = real(order)
        hang(lab)
        return ticket

    if when == "sent":
        lab.alpha.fail("submit", lost("alpha"), after=True)
    if when == "killed":
        cut_short(lab, lambda: create(lab))
        hang(lab)
    else:
        lab.beta.submit = submit
    began = lab.clock.now()
    record = create(lab, generation="g2" if when == "killed" else "g1")
    assert (record.provider, lab.creates) == ("beta", 2) and record.reasons
    assert lab.clock.now() - began < 500
    began = lab.clock.now()
    assert run(lab, operations.update, record, hedged()).reasons
    assert lab.clock.now() - began < 500


def hang(lab) -> None:
    """Alpha gives no answer within the two minutes that a call has at most."""

    def hangs(*_):
        lab.clock.advance(120)
        raise errors.Transient("no answer", provider="alpha", code=deadlines.NO_ANSWER)

    for name in ("poll", "resume", "find", "observe", "delete"):
        setattr(lab.alpha, name, hangs)


def orders_open(lab):
    return lab.world().journal.orders("rehearsal", "own")
