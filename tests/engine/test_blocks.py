"""A Capacity Block through the engine: bought where it is asked for and within its cap, once,
whatever is killed; waited for, launched into, and counted whole.
"""

import asyncio
from typing import Any

import pytest

from providers.catalog.offers import load
from providers.engine import budget, operations, spending
from providers.engine.desired import ClusterSpec
from providers.engine.market.blocks import with_paid
from providers.engine.market.planning import insistent
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed, GpusError, Transient
from providers.model.machine import UPFRONT, Setup
from providers.model.offer import Candidate
from providers.model.spec import Cluster
from providers.planner.describe import run_text
from providers.plugin import preview
from providers.rehearsal.clouds.aws import blocks
from providers.rehearsal.clouds.aws.state import SCHEMA, Rows
from providers.rehearsal.scenario import ANY
from providers.rehearsal.store import open_store

FEE = 755_040_000


class Cloud:
    """EC2's rehearsal cloud, each run a process of its own."""

    def __init__(self) -> None:
        self.store = open_store()
        self.store.tables(SCHEMA)
        self.lines: list[str] = []

    def world(self) -> Any:
        settings = {"aws": {"regions": "us-east-1"}}
        return open_world(
            "rehearsal", settings, lambda _severity, text: self.lines.append(text), offers=load()
        )

    def spec(self, *, cap: float = 800.0, limit: float = 0.0, **more: Any) -> ClusterSpec:
        declared = Cluster(
            name="train",
            gpu="H100:8",
            providers=("aws",),
            **{"capacity": ("block",), "block": {"lasts": "1d", "max_price": cap}, **more},
        )
        money = budget.Budget(int(limit * 1e6), budget.Ledger()) if limit else None
        setup = Setup(ssh_public_key="ssh-ed25519 AAAA me", ttl_s=declared.setup().ttl_s)
        ask, fingerprint = declared.ask(), declared.fingerprint()
        return ClusterSpec("own1", "train", ask, setup, fingerprint, budget=money)

    def run(self, work: Any) -> Any:
        world = self.world()
        try:
            return asyncio.run(work(world))
        finally:
            world.close()

    def up(self, record: Any = None, **more: Any) -> Any:
        spec = self.spec(**more)
        if record is None:
            return self.run(lambda world: operations.create(world, spec, "gen1"))
        return self.run(lambda world: operations.update(world, record, spec))

    def read(self, record: Any) -> Any:
        return self.run(lambda world: operations.read(world, record))

    def paid(self) -> list[float]:
        with self.store.transaction() as db:
            return [fee for _, fee in blocks.paid(Rows(self.store, db, self.store.now()))]

    def calls(self, method: str) -> int:
        return len(self.store.requests(f"ec2.{method}"))

    def spent(self) -> int:
        world = self.world()
        try:
            charges = budget.of_journal(world, ("own1",))
            return sum(each.cost(0, world.clock.now() + 30 * 86_400) for each in charges)
        finally:
            world.close()

    def budget(self, ledger: budget.Ledger) -> budget.Budget:
        """What the journal and this ledger know, under a limit of $800."""
        world = self.world()
        try:
            money = budget.Budget(800_000_000, ledger)
            money.learn(budget.of_journal(world, ("own1",)), world.clock.now())
            return money
        finally:
            world.close()

    def block_of_journal(self, fee: str | None = None) -> Candidate:
        """What the only order is for; with `fee`, this is written down as what it paid."""
        world = self.world()
        try:
            (row,) = world.journal.orders(world.name, "own1")
            if fee is not None:
                native = {**dict(row.ticket.native), UPFRONT: fee}
                ticket = row.ticket._replace(native=tuple(native.items()))
                world.journal.note(ticket, world.clock.now())
            block: Candidate = row.order.candidates[0]
            return block
        finally:
            world.close()

    def to(self, moment: float) -> None:
        self.store.advance(moment - self.store.now())


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    return Cloud()


def begins(cloud) -> float:
    with cloud.store.transaction() as db:
        rows = Rows(cloud.store, db, cloud.store.now())
        return float(rows.things("us-east-1", "reservation")[0]["window"][0])


@pytest.mark.long
def test_a_block_is_bought_once_waited_for_used_and_over(cloud) -> None:
    """`up` ends while the block has not begun; a refresh starts nothing; the next `up` launches into
    it; its end is an end and no loss, after which nothing is bought by itself.
    """
    record = cloud.up(ttl="2d")
    assert record.status == "queued" and cloud.paid() == [755.04]
    assert (
        "waits for its block until" in record.reasons[0] and "run `up` again" in record.reasons[0]
    )
    assert cloud.read(record).status == "queued" and cloud.up(record).status == "queued"
    begin = begins(cloud)
    cloud.to(begin + 60)
    assert cloud.read(record).status == "queued" and cloud.calls("RunInstances") == 1  # its DryRun
    record = cloud.up(record)
    assert (record.status, record.placement.capacity) == ("running", "block")
    assert record.ends_at == begin + 86_400 - 1_800 and cloud.paid() == [755.04]
    assert cloud.calls("PurchaseCapacityBlock") == 1
    cloud.to(record.ends_at + 120)
    over = cloud.read(record)
    assert over.status == "ended"
    assert cloud.up(over).status == "ended"
    assert cloud.paid() == [755.04] and cloud.spent() == FEE


@pytest.mark.long
def test_a_killed_purchase_is_found_again_and_paid_once(cloud) -> None:
    """The answer never came, and the process died: the next run finds the block by its tags."""
    cloud.store.add_fault("aws", "ec2.PurchaseCapacityBlock", "reply-lost")
    record = cloud.up()
    assert record.status == "queued" and cloud.paid() == [755.04]
    again = cloud.up()  # the state was lost
    assert again.status == "queued" and cloud.paid() == [755.04] and cloud.spent() == FEE
    cloud.run(lambda world: operations.delete(world, again))
    said = " ".join(cloud.lines)
    assert "it is paid for and cannot be cancelled" in said
    assert cloud.up().status == "queued" and cloud.paid() == [755.04]


def test_a_block_beyond_its_cap_or_the_budget_is_not_bought(cloud) -> None:
    """The cap is on all of it, and so is what the month's budget counts."""
    with pytest.raises(AllFailed):
        cloud.up(cap=755.0)
    with pytest.raises(GpusError, match=r"\$755.04 for this block"):
        cloud.up(limit=700.0)
    assert cloud.paid() == [] and cloud.calls("PurchaseCapacityBlock") == 0
    record = cloud.up(limit=800.0)
    assert record.status == "queued" and cloud.paid() == [755.04]


def test_blocks_that_cannot_be_listed_are_not_none(cloud) -> None:
    """The market is not known then, which is another thing than that no place is acceptable."""
    calls = "ec2.DescribeCapacityBlockOfferings"
    cloud.store.add_fault("aws", calls, "unavailable", None)
    with pytest.raises(Transient, match="its blocks could not be listed"):
        cloud.up()
    assert cloud.paid() == []


def test_block_that_no_launch_used_is_in_the_month(cloud) -> None:
    """Its owner has no launch, and paid."""
    record = cloud.up()
    assert record.launched_at == 0.0
    world = cloud.world()
    try:
        found = spending.of_month(world)
    finally:
        world.close()
    assert found.spent == FEE and [each.cluster for each in found.clusters] == ["train"]


def test_block_that_is_paid_is_planned_first_and_used_where_no_other_is_sold(cloud) -> None:
    """It costs nothing more, whatever is on demand for less by the hour."""
    record = cloud.up()
    cloud.run(lambda world: operations.delete(world, record))
    cloud.store.set_stock("aws", ANY, ANY, "block", 0, ANY)
    spec = cloud.spec(capacity=("on-demand", "block"))
    world = cloud.world()
    try:
        ask = with_paid(world, spec.ask, spec.owner, spec.cluster)
        plan = insistent(world, ask, spec.setup).plan(ask, setup=spec.setup)
        other = insistent(world, spec.ask, spec.setup).plan(spec.ask, setup=spec.setup)
    finally:
        world.close()
    first = plan.candidates[0]
    assert run_text(plan.ask, first) == "$0 more: the block is paid already"
    assert "paid already, $0 more; it is used first" in " ".join(plan.notes)
    assert {each.capacity for each in other.candidates} == {"on-demand"}
    seen = preview.PreviewContext(cloud.spec().ask, setup=spec.setup, owner="own1")
    settings = {"aws": {"regions": "us-east-1"}}
    told = {"world": "rehearsal", "cluster": "train", "settings": settings}
    shown = " ".join(preview.answer(told, seen)["text"].split())
    assert "$0 more: the block is paid already" in shown
    again = cloud.up()
    assert again.status == "queued" and cloud.paid() == [755.04]


def rewritten(cloud, **changes) -> None:
    with cloud.store.transaction() as db:
        rows = Rows(cloud.store, db, cloud.store.now())
        rows.write_thing({**rows.things("us-east-1", "reservation")[0], **changes})


def test_a_block_whose_payment_failed_counts_nothing_and_covers_nothing(cloud) -> None:
    """Also where a state counted it before: the next block is up against the limit again."""
    record = cloud.up()
    counted = cloud.budget(budget.Ledger())
    block = cloud.block_of_journal()
    now = cloud.store.now()
    assert counted.sums(now + 1).spent == FEE and counted.block(block, now, "train") == 0
    rewritten(cloud, State="payment-failed")
    cloud.run(lambda world: operations.delete(world, record))
    for ledger in (budget.Ledger(), budget.read(budget.write(counted.ledger))):
        money = cloud.budget(ledger)
        assert money.sums(now + 1).spent == 0 and money.block(block, now, "train") == FEE
    assert cloud.spent() == 0


@pytest.mark.parametrize("fee", ["", "about 700", "-1"])
def test_a_fee_that_nobody_can_read_is_not_known(cloud, fee) -> None:
    """It is not zero and no traceback: the sum is a least one, and the block still covers."""
    cloud.up()
    block = cloud.block_of_journal(fee)
    money = cloud.budget(budget.Ledger())
    again = budget.Budget(money.limit, budget.read(budget.write(money.ledger)))
    now = cloud.store.now()
    for each in (money, again):
        assert each.sums(now + 1).unknown == ("train",) and "at least $0.00" in each.standing(now)
        assert each.block(block, now, "train") == 0
    assert cloud.spent() == 0


def test_a_block_of_an_earlier_order_counts_once(cloud, tmp_path) -> None:
    """By its tag, where no journal has the order that bought it; and not again where one has, or a
    state counted it.
    """
    cloud.up()
    counted = cloud.budget(budget.Ledger()).ledger
    for file in tmp_path.glob("journal.db*"):
        file.unlink()
    assert cloud.spent() == 0
    record = cloud.up()
    assert record.status == "queued" and cloud.paid() == [755.04] and cloud.spent() == FEE
    cloud.run(lambda world: operations.delete(world, record))
    cloud.up()
    assert cloud.paid() == [755.04] and cloud.spent() == FEE
    assert cloud.budget(counted).sums(cloud.store.now() + 1).spent == FEE
