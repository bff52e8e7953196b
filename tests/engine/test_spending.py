"""The month's ledger: what counts, how two machines' knowledge comes together, and what a purchase
may still cost.
"""

import json
import random
import re

import pytest

from providers.engine import budget as spending
from providers.engine import operations, vanished
from providers.engine.budget import Budget, Charge, Ledger, bounds, merged, month, read, write
from providers.errors import GpusError
from tests.engine.cases import ask, offer, run, wanted

USD = 1_000_000
BEGIN, END = bounds("2026-11")
HOUR = 3600.0


def spell(name="train", launched=BEGIN, ended=0.0, ends=0.0, usd=10, generation="g1"):
    return Charge(
        name, generation, "alpha", None if usd is None else usd * USD, launched, ended, ends
    )


def test_a_month_is_a_calendar_month_in_utc() -> None:
    """November 2026 is 30 days; December leads into the next year."""
    assert (END - BEGIN) / 86_400 == 30
    assert month(END - 1) == "2026-11" and month(END) == "2026-12"
    assert bounds("2026-12")[1] == bounds("2027-01")[0]


def test_spent_and_to_come() -> None:
    """What ended counts for its time in the month, what runs since its launch, and to its own limit
    or the month's end; never more than that.
    """
    budget = Budget(
        1000 * USD,
        merged(
            Ledger(),
            [
                spell("a", BEGIN - 5 * HOUR, BEGIN + 2 * HOUR),
                spell("b", BEGIN, 0.0, BEGIN + 20 * HOUR),
            ],
            BEGIN,
        ),
    )
    sums = budget.sums(BEGIN + 10 * HOUR)
    assert (sums.spent, sums.running, sums.unknown) == (120 * USD, 100 * USD, ())
    assert budget.sums(END - 1).running == 0
    forever = Budget(1000 * USD, merged(Ledger(), [spell("c", END - 3 * HOUR)], END - HOUR))
    assert (
        forever.sums(END - HOUR).spent == 20 * USD and forever.sums(END - HOUR).running == 10 * USD
    )
    assert forever.sums(END + HOUR).spent == 10 * USD


def test_an_unknown_price_is_never_zero() -> None:
    """What runs without a price makes the sum a least one, and nothing more is bought."""
    budget = Budget(1000 * USD, merged(Ledger(), [spell("a", usd=None)], BEGIN))
    assert budget.sums(BEGIN + HOUR).unknown == ("a",)
    assert not budget.fits(candidate(1), 3600, BEGIN + HOUR, "other")
    assert "at least $0.00 spent" in budget.line(USD, 3600, BEGIN + HOUR, "other")
    assert not budget.fits(candidate(None), 3600, BEGIN, "other")


def candidate(usd):
    from providers.model.offer import Candidate

    return Candidate(
        1, 0, offer("alpha", "north", "north-a"), 1, micro_usd=None if usd is None else usd * USD
    )


def test_the_arithmetic_is_shown() -> None:
    """The line has every summand, the time and the price, and what is left or too much."""
    budget = Budget(
        200 * USD,
        merged(
            Ledger(),
            [spell("a", BEGIN, BEGIN + 5 * HOUR), spell("b", BEGIN, 0.0, BEGIN + 6 * HOUR)],
            BEGIN,
        ),
    )
    line = budget.line(10 * USD, 8 * 3600, BEGIN + 5 * HOUR, "c")
    assert (
        line
        == "$200.00 in 2026-11: $100.00 spent, $10.00 to come of what else runs, $80.00 for this"
        " (8h to its limit at $10.00/h) = $190.00, $10.00 left"
    )
    assert "to the month's end" in budget.line(
        USD, None, END - 2 * HOUR, "c"
    ) and "(2h to" in budget.line(USD, None, END - 2 * HOUR, "c")
    budget.reserve("d", 20 * USD)
    assert budget.line(10 * USD, 8 * 3600, BEGIN + 5 * HOUR, "c").endswith(
        "= $210.00, $10.00 too much"
    )
    budget.bought(spell("d", BEGIN + 5 * HOUR, 0.0, BEGIN + 6 * HOUR), BEGIN + 5 * HOUR)
    assert budget.line(10 * USD, 8 * 3600, BEGIN + 5 * HOUR, "c").endswith("= $200.00, $0.00 left")


def test_two_machines_come_together_in_any_order() -> None:
    """What two journals know is merged the same in any order and however often; the earliest end
    that anybody saw counts.
    """
    known = [
        spell("a", BEGIN + 10, 0.0),
        spell("a", BEGIN + 10, BEGIN + HOUR),
        spell("a", BEGIN + 10, BEGIN + 2 * HOUR),
        spell("a", BEGIN + 5 * HOUR, 0.0, generation="g2"),
        spell("b", BEGIN + 20, 0.0, BEGIN + HOUR),
    ]
    expected = merged(Ledger(), known, BEGIN + 6 * HOUR)
    for seed in range(20):
        mixed = random.Random(seed).sample([*known, *known], 10)
        assert write(merged(Ledger(), mixed, BEGIN + 6 * HOUR)) == write(expected)
        assert write(
            merged(read(json.loads(json.dumps(write(expected)))), mixed, BEGIN + 6 * HOUR)
        ) == write(expected)
    assert {item.ended_at for item in expected.spells.values()} == {BEGIN + HOUR, 0.0}


def test_a_later_launch_of_the_same_cluster_ends_the_former() -> None:
    """A cluster is at one place at a time: who never saw the end of the first takes the second's
    launch for it.
    """
    found = merged(
        Ledger(), [spell("a", BEGIN), spell("a", BEGIN + HOUR, generation="g2")], BEGIN + 2 * HOUR
    )
    assert sorted(item.ended_at for item in found.spells.values()) == [0.0, BEGIN + HOUR]


def test_a_long_month_stays_small_and_exact() -> None:
    """Hundreds of purchases in a month stay under 2 KB of state, and the sum is that of all of
    them; the next month begins at nothing.
    """
    ledger, total = Ledger(), 0
    for index in range(400):
        launched = BEGIN + index * HOUR
        ledger = merged(
            ledger,
            [spell("train", launched, launched + 1800, usd=4, generation=f"{index:012x}")],
            launched + 1800,
        )
        total += 2 * USD
        assert len(json.dumps(write(ledger))) < 2048
    assert Budget(1, ledger).sums(BEGIN + 400 * HOUR).spent == total
    again = merged(
        ledger,
        [spell("train", BEGIN, BEGIN + 1800, usd=4, generation=f"{0:012x}")],
        BEGIN + 400 * HOUR,
    )
    assert write(again) == write(ledger)
    assert Budget(1, merged(ledger, [], END + 1)).sums(END + 1).spent == 0


@pytest.fixture
def november(lab):
    lab.clock.advance(BEGIN - lab.clock.now())
    return lab


def test_b45_nothing_is_bought_that_does_not_fit(november) -> None:
    """A purchase whose whole life does not fit is refused with the arithmetic, before any call; a
    cheaper place of the plan that fits is taken.
    """
    lab = november
    world = lab.world()
    budget = Budget(110 * USD, Ledger())
    with pytest.raises(
        GpusError,
        match=(
            r"(?s)max_spend \$110.00 in 2026-11: \$0.00 spent, .* \$120.00 for this"
            r" \(12h .*\$10.00 too much;\s+shorten\s+ttl"
        ),
    ):
        run(operations.create(world, wanted(ask(ttl_s=12 * 3600))._replace(budget=budget), "g1"))
    assert lab.creates == 0
    lab.alpha.stock = {("north-a", "spot"): 0, ("north-b", "spot"): 0}
    with pytest.raises(GpusError, match="none was acquired") as failed:
        run(operations.create(world, wanted(ask(ttl_s=10 * 3600))._replace(budget=budget), "g1"))
    told = " ".join(str(failed.value).split())
    assert re.search(
        r"not tried: (\d+ places do not fit, the cheapest of them|1 place does not fit): max_spend"
        r" \$110.00 in 2026-11: \$0.00 spent, .* = \$[\d.]+, \$[\d.]+ too much raise gpus:max_spend,"
        r" destroy what runs, or wait for next month; or allow more",
        told,
    ), told
    assert "south-a" not in {order.candidates[0].zone for order in lab.alpha.orders}
    lab.alpha.stock = {}
    world.journal.unblock("rehearsal")
    record = run(
        operations.create(world, wanted(ask(ttl_s=10 * 3600))._replace(budget=budget), "g1")
    )
    assert record.placement.zone == "north-a" and budget.sums(world.clock.now()).running > 99 * USD
    with pytest.raises(GpusError, match="too much"):
        run(
            operations.create(
                world, wanted(ask(ttl_s=7200), name="second")._replace(budget=budget), "g2"
            )
        )


def test_two_at_once_do_not_spend_the_same_money(november) -> None:
    """Of two purchases that fit one by one and not together, one is refused."""
    import asyncio

    lab, budget = november, Budget(110 * USD, Ledger())
    world = lab.world()

    async def both():
        wants = [
            wanted(ask(ttl_s=10 * 3600), name=name)._replace(budget=budget) for name in ("a", "b")
        ]
        return await asyncio.gather(
            *(operations.create(world, want, f"g-{want.cluster}") for want in wants),
            return_exceptions=True,
        )

    found = run(both())
    assert sorted(isinstance(item, GpusError) for item in found) == [False, True]
    assert len(lab.alive) == 1


def test_what_was_taken_back_is_settled_and_its_place_taken_is_counted(november) -> None:
    """After a preemption the journal says when it ended: what it cost until then counts, and not
    more; a stop ends a spell, a start begins one.
    """
    from providers.model.machine import Setup

    lab = november
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    lab.clock.advance(3600)
    lab.alpha.preempt(record.handles[0])
    assert run(operations.read(world, record)) is None
    lab.clock.advance(7200)
    ledger = merged(Ledger(), spending.of_journal(world, ("own",)), lab.clock.now())
    spent = Budget(1, ledger).sums(lab.clock.now()).spent
    assert 10 * USD <= spent < 10.1 * USD
    second = run(operations.create(world, wanted(), "g2"))
    lab.clock.advance(3600)
    stopped = run(operations.update(world, second, wanted(setup=Setup(state="stopped"))))
    lab.clock.advance(36_000)
    ledger = merged(Ledger(), spending.of_journal(world, ("own",)), lab.clock.now())
    assert 20 * USD <= Budget(1, ledger).sums(lab.clock.now()).spent < 20.3 * USD
    run(operations.update(world, stopped, wanted()))
    lab.clock.advance(3600)
    ledger = merged(Ledger(), spending.of_journal(world, ("own",)), lab.clock.now())
    assert 30 * USD <= Budget(1, ledger).sums(lab.clock.now()).spent < 30.5 * USD


def test_what_another_machine_ended_is_found_out_at_the_cloud(
    november, tmp_path, monkeypatch
) -> None:
    """A spell that this machine does not know, and of which no machine exists any more, is ended
    now; one that exists, or can't be asked, runs on.
    """
    from providers.errors import Transient

    lab = november
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    ledger = merged(Ledger(), spending.of_journal(world, ("own",)), lab.clock.now())
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "elsewhere"))
    other = lab.world()
    lab.clock.advance(3600)
    assert run(vanished.settled(other, "own", ledger, (), ())) == ledger
    run(operations.delete(world, record))
    lab.alpha.fail("find", Transient("down", provider="alpha"), times=9)
    assert run(vanished.settled(other, "own", ledger, (), ())) == ledger
    lab.alpha.heal()
    (ended,) = run(vanished.settled(other, "own", ledger, (), ())).spells.values()
    assert ended.ended_at == lab.clock.now()
