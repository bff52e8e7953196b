"""Two providers asked at once: one is kept, the other confirmed gone, whatever happens between."""

from __future__ import annotations

from contextlib import suppress

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import budget, operations, spending, vanished
from providers.engine.launch import race
from providers.engine.market import collect
from providers.engine.termination import settle
from providers.model.ask import Capacity
from providers.model.machine import CANCELLED, GONE
from providers.model.spec import read_cluster
from providers.planner import hedge
from providers.testing.fake_adapter import lost
from tests import virtual_time
from tests.engine.cases import USD, ask, offer, wanted

MONTH_S = 31 * 86_400


class Killed(SystemExit):
    """The process ends here: nothing after it runs."""


@pytest.fixture(autouse=True)
def clock(lab):
    lab.clock = lab.alpha.clock = lab.beta.clock = virtual_time.VirtualClock()


def hedged(an_ask=None, **more):
    return wanted(an_ask, **more)._replace(hedge=2)


def run(lab, verb, *arguments, world=None):
    opened = world or lab.world()
    return virtual_time.run(lab.clock, opened, verb(opened, *arguments))


def create(lab, want=None, generation="g1"):
    return run(lab, operations.create, want or hedged(), generation)


def charges(lab):
    """What the month has of orders that are not kept, and cost something."""
    known = budget.of_journal(lab.world(), ["own"])
    return [each for each in known if each.is_beside and each.ended_at != each.launched_at]


def test_first_provider_that_has_room_is_kept_and_the_other_released(lab) -> None:
    """The plan's first place is slow, the other provider's is there: that one is kept, the first is
    confirmed gone, and both attempts are told.
    """
    lab.alpha.create_s = 500
    record = create(lab)
    assert (record.status, record.provider, record.reasons) == ("running", "beta", ())
    assert lab.alive == list(record.machines)
    assert [(each.provider, each.outcome) for each in record.attempts] == [
        ("alpha", CANCELLED),
        ("beta", "acquired"),
    ]
    assert [each.number for each in record.attempts] == [1, 2]
    states = {row.provider: row.state for row in orders(lab)}
    assert states == {"alpha": "released", "beta": "made"}


def orders(lab):
    every = ("intent", "unsettled", "made", "failed", "released")
    return lab.world().journal.orders("rehearsal", "own", states=every)


def test_nothing_is_asked_twice_where_the_first_has_room_at_once(lab) -> None:
    """The first place has a head start: where it answers within that, the other is never asked."""
    record = create(lab)
    assert record.provider == "alpha"
    assert (lab.creates, charges(lab)) == (1, [])


def test_what_is_set_aside_has_won_though_it_does_not_run_yet(lab) -> None:
    """The first place needs minutes to start what it has set aside: nobody else is asked."""
    lab.alpha.create_s, lab.alpha.made_as = 300.0, "starting"
    record = create(lab)
    assert (record.provider, lab.creates) == ("alpha", 1)


def test_once_refused_the_other_provider_is_asked_at_once(lab) -> None:
    """After a refusal there is no head start: both providers are asked side by side."""
    lab.alpha.stock["north-a", "spot"] = lab.alpha.stock["north-b", "spot"] = 0
    lab.alpha.create_s = lab.beta.create_s = 3.0
    record = create(lab)
    assert lab.creates == 3
    assert lab.alive == list(record.machines)


def test_both_that_succeed_at_once_leave_one_and_both_are_paid(lab) -> None:
    """Both have machines in the same second: one is kept; the other is released, and what it cost,
    a minute at least, is in the month's sum.
    """
    lab.alpha.create_s = 20.0
    lab.beta.create_s = 20.0
    record = create(lab)
    assert lab.creates == 2
    assert lab.alive == list(record.machines)
    (charge,) = charges(lab)
    assert charge.provider != record.provider
    assert charge.micro_usd == (14 if charge.provider == "beta" else 10) * USD
    assert charge.ended_at - charge.launched_at >= 60
    spells = budget.with_ends(budget.of_journal(lab.world(), ["own"]), lab.clock.now())
    kept = [each for each in spells.values() if not each.is_beside]
    assert [each.ended_at for each in kept] == [0.0]


def test_loser_that_cannot_be_deleted_is_said_and_goes_with_the_next_up(lab) -> None:
    """The winner stays; what may still cost money is a reason, and the next run deletes it."""
    lab.alpha.create_s = 500
    lab.alpha.fail("delete", errors.Transient("busy", provider="alpha"), times=1_000)
    record = create(lab)
    assert record.provider == "beta"
    assert "could not be deleted" in record.reasons[0]
    assert "may still cost" in record.reasons[0]
    assert len(lab.alive) == 2
    (charge,) = charges(lab)
    assert charge.ended_at == 0.0
    stuck = run(lab, operations.update, record, hedged())
    assert "could not be ended" in stuck.reasons[0]
    assert {node.handle for node in lab.beta.alive} == set(record.handles)
    lab.alpha.heal()
    after = run(lab, operations.update, stuck, hedged())
    assert (after.reasons, after.handles) == ((), record.handles)
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert charges(lab)[0].ended_at > 0


def test_loser_whose_answer_was_lost_is_looked_for_until_it_is_known(lab) -> None:
    """Whether the other order made anything is not known: that is said, the winner stays, and the
    next run finds and deletes what it made.
    """
    lab.beta.fail("submit", lost("beta"), after=True)
    lab.beta.fail("resume", errors.Transient("busy", provider="beta"), times=1_000)
    lab.alpha.create_s = 30.0
    record = create(lab)
    assert lab.beta.alive
    assert record.reasons
    # What may run costs money, as far as anybody knows.
    assert [(each.provider, each.ended_at) for each in charges(lab)] == [("beta", 0.0)]
    lab.beta.heal()
    after = run(lab, operations.update, record, hedged())
    assert after.reasons == ()
    assert charges(lab)[0].ended_at > charges(lab)[0].launched_at
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_winner_that_is_never_ready_is_released_and_the_walk_goes_on(lab) -> None:
    """A machine that won and is not what was ordered goes; the places of both are tried on."""
    lab.beta.twist = lambda nodes: [node._replace(gpu_count=1) for node in nodes]
    lab.alpha.create_s = 100.0
    record = create(lab)
    assert record.provider == "alpha"
    assert lab.alive == list(record.machines)
    assert [each.outcome for each in record.attempts][-1] == "acquired"


def test_loser_is_paid_for_where_no_launch_was_written_down(lab) -> None:
    """A run that was killed before its launch was written down: `gpus spend` has what the other
    order cost all the same.
    """
    lab.alpha.create_s = lab.beta.create_s = 20.0
    create(lab)
    with lab.world().journal.change() as db:
        db.execute("DELETE FROM launches")
    (charge,) = charges(lab)
    spent = charge.cost(charge.launched_at, lab.clock.now())
    assert spent > 0
    assert spending.of_month(lab.world()).spent == spent


def test_winner_that_was_never_ready_is_paid_for(lab) -> None:
    """It was kept, was not what was ordered, and was released before its launch was written down."""
    lab.beta.twist = lambda nodes: [node._replace(gpu_count=1) for node in nodes]
    lab.alpha.create_s = 100.0
    create(lab)
    assert [each.provider for each in charges(lab) if each.micro_usd == 14 * USD] == ["beta"]


def test_what_was_not_known_and_is_kept_then_is_counted_once(lab) -> None:
    """An order that was counted while nobody knew what it made: once it is what is kept, its
    launch has its cost.
    """
    launched = charge("", "alpha", lab.clock.now(), 0.0)
    unknown = charge(budget.HEDGE, "alpha", lab.clock.now() - 5, 0.0)
    ledger = budget.merged(budget.Ledger(), [unknown], lab.clock.now())
    kept = unknown._replace(ended_at=unknown.launched_at)
    ledger = budget.merged(ledger, [kept, launched], lab.clock.now())
    assert sum(each.cost(0, lab.clock.now() + 3_600) for each in ledger.spells.values()) == USD
    # What never counted is not written into the state.
    assert budget.merged(budget.Ledger(), [kept], lab.clock.now()).spells == {}


def charge(prefix, provider, began, ended):
    return budget.Charge("train", f"{prefix}t", provider, USD, began, ended)


def test_what_another_computer_must_still_release_is_not_taken_for_gone(lab) -> None:
    """A state knows that a lost order may run. Its machine bears the cluster's generation."""
    lab.alpha.create_s = 500
    lab.alpha.fail("delete", errors.Transient("busy", provider="alpha"), times=1_000)
    create(lab)
    lost_one = charge(budget.HEDGE, "alpha", lab.clock.now() - 60, 0.0)
    ledger = budget.Ledger(spells={lost_one.key: lost_one})
    after = run(lab, vanished.settled, "own", ledger, (), ())
    assert after.spells[lost_one.key].ended_at == 0.0
    for node in lab.alpha.alive:
        lab.alpha.preempt(node.handle)
    after = run(lab, vanished.settled, "own", ledger, (), ())
    assert after.spells[lost_one.key].ended_at > 0.0


def test_stop_ends_both(lab) -> None:
    """The user's stop releases whatever both orders made, and says so."""
    world = lab.world()
    lab.alpha.create_s = lab.beta.create_s = 100_000
    real = lab.beta.poll

    def poll(ticket):
        world.stop.set()
        return real(ticket)

    lab.beta.poll = poll
    with pytest.raises(errors.GpusError, match="stopped by the user; nothing is left running"):
        run(lab, operations.create, hedged(), "g1", world=world)
    assert lab.creates == 2
    assert lab.alive == []
    assert world.journal.orders("rehearsal", "own") == ()
    # None of them was kept, and both are paid.
    assert {each.provider for each in charges(lab)} == {"alpha", "beta"}
    spent = sum(each.cost(0, lab.clock.now() + 60) for each in charges(lab))
    assert spent >= 399_999
    lab.clock.advance(60)
    assert spending.of_month(lab.world()).spent == spent


@pytest.mark.parametrize("deaths", range(14))
def test_killed_anywhere_leaves_one_after_the_next_run(lab, monkeypatch, deaths) -> None:
    """The process ends at any write of the journal: the next run ends with one machine, and what
    had won is what it keeps.
    """
    lab.alpha.create_s = lab.beta.create_s = 20.0
    world, left = lab.world(), [deaths]

    def dying(real):
        def work(*arguments):
            left[0] -= real == world.journal.change or left[0] < 0
            if left[0] < 0:
                raise Killed
            return real(*arguments)

        return work

    for cloud in (lab.alpha, lab.beta):
        for name in ("submit", "poll", "delete", "find", "resume", "observe"):
            monkeypatch.setattr(cloud, name, dying(getattr(cloud, name)))
    monkeypatch.setattr(world.journal, "change", dying(world.journal.change))
    with suppress(Killed):
        run(lab, operations.create, hedged(), "g1", world=world)
    monkeypatch.undo()
    monkeypatch.setenv("GPUS_HOME", str(lab.home))
    with lab.world().journal.change() as db:
        db.execute("DELETE FROM leases")
        winner = db.execute("SELECT token FROM races").fetchall()
    tokens = {row.order.token for row in orders(lab) if row.state in ("intent", "made")}
    record = create(lab, generation="g2")
    assert [node.handle for node in lab.alive] == list(record.handles)
    if winner and winner[0][0] in tokens:
        kept = next(row for row in orders(lab) if row.state == "made")
        assert kept.order.token == winner[0][0]


def test_second_run_changes_nothing(lab) -> None:
    """With a hedge declared, an unchanged cluster is kept and nothing is asked."""
    record = create(lab)
    before = lab.creates
    after = run(lab, operations.update, record, hedged())
    assert (after.handles, lab.creates) == (record.handles, before)
    run(lab, operations.delete, after)
    assert lab.alive == []


def test_both_have_to_fit_the_month(lab) -> None:
    """Where the stack could not pay for both, only one is asked at a time."""
    lab.alpha.create_s = 20.0
    within = budget.Budget(int(10 * USD * MONTH_S / 3_600), budget.Ledger())
    setup = hedged().setup._replace(ttl_s=3_600)
    short = budget.Budget(20 * USD, budget.Ledger())
    record = create(lab, hedged(setup=setup)._replace(budget=short))
    assert (record.provider, lab.creates) == ("alpha", 1)
    run(lab, operations.delete, record)
    record = create(lab, hedged(setup=setup)._replace(budget=within), "g2")
    assert lab.creates == 3


def test_what_is_queued_for_takes_no_part(lab) -> None:
    """While one provider's queue is waited in, no other is asked; nor is a queue, beside one."""
    lab.alpha.queue_s = 400.0
    record = create(lab, hedged(ask(spot=("spot", Capacity("flex-start")))))
    assert record.provider == "alpha"
    for zone in ("north-a", "north-b", "south-a"):
        lab.alpha.stock[zone, "spot"] = 0
    assert all(node.status == GONE or node.handle in record.handles for node in lab.alive)


def test_what_takes_no_part_is_in_no_order_of_two(lab) -> None:
    """Though its cloud would take it in one call with a place that does."""
    rows = [offer("alpha", "north", f"n{usd}", usd=usd) for usd in (10, 12)]
    queue = offer("alpha", "north", "n12", capacity="flex-start")
    lab.offers = table((*rows, queue, offer("beta", "east", "east-a", usd=11)))
    lab.alpha.stock["n10", "spot"], lab.alpha.group = 0, len
    create(lab, hedged(ask(spot=("spot", Capacity("flex-start")))))
    assert [each.capacity for each in lab.alpha.orders[1].candidates] == ["spot"]


@pytest.mark.parametrize(("usd", "creates"), [(15, 2), (16, 1)])
def test_what_costs_much_more_is_not_asked_beside(lab, usd, creates) -> None:
    """It is asked in its turn, and the plan says so."""
    lab.offers = table((offer("alpha", "north", "n", usd=10), offer("beta", "east", "e", usd=usd)))
    lab.alpha.create_s = 30.0
    create(lab)
    assert lab.creates == creates
    line = hedge.line(collect.market(lab.world()).plan(ask()))
    dear = "one place at a time: other providers cost more than 1.5 times what alpha does"
    assert (line == dear) == (creates == 1)
    lab.alpha.stock["n", "spot"] = 0
    assert create(lab, hedged(name="other"), "g2").provider == "beta"


def test_a_job_is_never_hedged() -> None:
    """A job could begin at both providers: it is asked for at one."""
    assert race.is_hedged(hedged())
    assert not race.is_hedged(hedged(ask(kind="job")))


def test_plan_says_who_is_asked_at_once_and_what_it_costs_at_worst(lab) -> None:
    """One line: the other provider, and the dearest place for as long as a deletion may take; or
    that there is nobody else.
    """
    market = collect.market(lab.world())
    assert hedge.line(market.plan(ask())) == (
        "also tries beta if alpha does not answer within 5 s; at worst $2.57 more (11m at $14.00/h)"
    )
    assert hedge.CANCELLED_S == settle.GONE_LIMIT_S + settle.AGAIN_S
    poor = hedge.line(market.plan(ask()), lambda _one, _other: False)
    assert poor == (
        "one place at a time: gpus:max_spend has no room for two, each as long as it may live"
    )
    alone = hedge.line(market.plan(ask(providers=("alpha",))))
    assert alone == "one place at a time: only alpha can be asked beside another provider"


def test_a_job_that_hedges_is_refused_with_what_to_do() -> None:
    """The declaration says so at once, and no more than two can be asked."""
    job = {"gpu": "H100:8", "kind": "job", "workload": {"command": "x"}, "hedge": 2}
    with pytest.raises(errors.SpecError, match=r"hedge: wanted 1 for a job.*leave it out"):
        read_cluster("train", job)
    with pytest.raises(errors.SpecError, match="hedge"):
        read_cluster("train", {"gpu": "H100:8", "hedge": 3})
    assert read_cluster("train", {"gpu": "H100:8", "hedge": 2}).hedge == 2
