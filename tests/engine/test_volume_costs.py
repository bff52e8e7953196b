"""What volumes cost, by the journal: from before they are made until they are certainly gone, at
each size, whoever declares them; named where it is not known or nobody uses them.
"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from providers.adapters.guard import Volumes
from providers.engine import budget, spending, volume_costs, volumes
from providers.engine.budget import Budget, Ledger, bounds, merged
from providers.engine.journal import database
from providers.engine.journal.journal import Journal
from providers.engine.journal.volumes import VolumeSpell
from providers.engine.runtime.world import open_world
from providers.errors import (
    BadCredentials,
    GpusError,
    OutcomeUnknown,
    QuotaExceeded,
    Transient,
)
from providers.model.volume import VolumeOrder, VolumeSpec, stack_id
from providers.rehearsal.store import open_store

OWNER, LATER = "aabbccddeeff", "001122334455"
DISK = VolumeSpec("data", "gcp", "us-central1-a", 200, "pd-balanced", "us-central1")
USD = 1_000_000
BEGIN, END = bounds("2026-11")
DAY = 86_400.0


class Home:
    """A home with a rehearsed Google project; every verb is another process's."""

    def __init__(self) -> None:
        self.store = open_store()
        for step in ("create", "delete", "edit"):
            self.store.set_latency("gcp", step, 0.05)

    def do(self, work):
        world = open_world("rehearsal", {})
        try:
            return asyncio.run(work(world))
        finally:
            world.close()

    def create(self, owner=OWNER, former=(), spec=DISK):
        stack = stack_id("project", "stack")
        return self.do(lambda world: volumes.create(world, spec, owner, stack, former))

    def spells(self):
        async def found(world):
            return world.journal.volume_spells(world.name)

        return self.do(found)

    def month(self):
        async def found(world):
            return spending.of_month(world)

        return self.do(found)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    return Home()


def test_a_volume_costs_by_its_size_from_its_order_to_its_deletion(home) -> None:
    """Made, grown, deleted: one spell for each size, which end where the next begins."""
    made = home.create()
    home.store.advance(3600)
    home.create(spec=DISK._replace(size_gib=300))
    home.store.advance(3600)
    home.do(lambda world: volumes.delete(world, "data", made.handle))
    first, second = home.spells()
    assert (first.micro_usd, second.micro_usd) == (20 * USD, 30 * USD)
    assert first.ended_at == second.began_at and second.ended_at - second.began_at > 3600
    assert {each.native_id for each in (first, second)} == {made.handle.native_id}
    (found,) = home.month().volumes
    assert found.spent == pytest.approx(50 * USD / 730, rel=0.02) and found.to_come == 0


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", ["count_volume", "settled_volume"])
def test_a_run_killed_while_it_makes_a_volume_leaves_its_cost_in_the_journal(
    home, monkeypatch, at
) -> None:
    """Between the call and its record; the next run names it and counts it once, from its order."""
    with monkeypatch.context() as patch:
        patch.setattr(Journal, at, lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            home.create()
    (left,) = home.spells()
    assert (left.micro_usd, left.ended_at) == (20 * USD, None)
    home.store.advance(60)
    assert home.month().forecast > 0
    made = home.create()
    (found,) = home.spells()
    assert found == left._replace(native_id=made.handle.native_id, account=found.account)


def test_a_cut_short_order_that_made_nothing_is_forgotten_after_an_hour_and_a_refusal_at_once(
    home, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Volumes, "create", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            home.create()
    home.store.advance(60)
    (found,) = home.month().volumes
    assert "whether it was made is not known" in found.why_unused
    home.do(lambda world: volume_costs.settle(world, {OWNER}))
    assert len(home.spells()) == 1
    home.store.advance(2 * 3600)
    home.do(lambda world: volume_costs.settle(world, {OWNER}))
    assert home.spells() == ()
    home.store.add_fault("gcp", "disks.insert", "quota", metric="SSD_TOTAL_GB")
    with pytest.raises(QuotaExceeded):
        home.create()
    assert home.spells() == ()


class Answers:
    """A cloud whose lists show nothing yet; each creating call ends in its turn's error."""

    def __init__(self, monkeypatch, *errors) -> None:
        self.errors = list(errors)
        self.tokens: list[str] = []
        monkeypatch.setattr(Volumes, "create", self._create)
        monkeypatch.setattr(Volumes, "find", lambda *_, **__: [])

    def _create(self, order):
        self.tokens.append(order.token)
        raise self.errors.pop(0)


LOST, NO = OutcomeUnknown("lost", provider="gcp"), BadCredentials("no", provider="gcp")


def test_only_the_refusal_of_the_only_call_is_certain(home, monkeypatch) -> None:
    """After a lost answer the volume may be there: its order and its cost stay, in later runs
    too.
    """
    cloud = Answers(monkeypatch, NO, LOST, NO, QuotaExceeded("full", provider="gcp"))
    with pytest.raises(BadCredentials):
        home.create()
    assert home.spells() == ()
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="not known whether the volume was made"):
            home.create()
        assert [each.ended_at for each in home.spells()] == [None]
    assert len(cloud.tokens) == 4 and len(set(cloud.tokens[1:])) == 1


def test_the_hour_of_an_order_counts_from_its_last_call(home, monkeypatch) -> None:
    """Its cost counts from the first."""
    Answers(monkeypatch, *[LOST] * 4)
    with pytest.raises(OutcomeUnknown):
        home.create()
    (first,) = home.spells()
    home.store.advance(3 * 3600)
    with pytest.raises(OutcomeUnknown):
        home.create()
    home.do(volume_costs.settle)
    assert home.spells() == (first,)
    home.store.advance(2 * 3600)
    home.do(volume_costs.settle)
    assert home.spells() == ()


def test_a_volume_that_is_kept_costs_on_until_its_cloud_does_not_know_it(home, monkeypatch) -> None:
    """It is named as nobody's; a cloud that does not answer ends nothing."""
    made = home.create()
    home.store.advance(60)
    assert "no cluster that runs mounts it" in home.month().volumes[0].why_unused
    home.do(lambda world: volume_costs.keep(world, OWNER, DISK, made.handle.native_id, ()))
    assert "no stack declares it" in home.month().volumes[0].why_unused
    with monkeypatch.context() as patch:
        patch.setattr(
            Volumes, "look", lambda *_: (_ for _ in ()).throw(Transient("-", provider="gcp"))
        )
        home.do(volume_costs.settle)
    assert home.spells()[-1].ended_at is None
    again = home.create(owner=LATER, former=(OWNER,))
    assert again.handle == made.handle
    assert [(each.owner, each.ended_at is None) for each in home.spells()] == [
        (OWNER, False),
        (LATER, True),
    ]

    async def deleted(world):
        await world.call("gcp", world.adapter("gcp").volumes.delete, made.handle)

    home.do(deleted)
    home.do(volume_costs.settle)
    assert all(each.ended_at for each in home.spells())
    (found,) = home.month().volumes
    assert (found.volume, found.why_unused, found.to_come) == ("data", "", 0)


def spell(name="data", size=200, monthly=20, began=BEGIN, ended=None):
    spec = DISK._replace(name=name, size_gib=size)
    micro = None if monthly is None else monthly * USD
    return VolumeSpell(OWNER, spec, f"disks/{name}", None, micro, "2025-03-06", began, ended)


def test_a_volume_counts_in_what_a_stack_may_spend() -> None:
    """To the month's end; what would not fit is refused with every summand, what is paid is not."""
    now = END - 73 * 3600
    known = volume_costs.charges([spell(began=now)])
    limit = Budget(10 * USD, merged(Ledger(), known, now))
    assert limit.sums(now).running == pytest.approx(2 * USD, abs=100)
    assert volume_costs.afford(limit, DISK, 20 * USD, now) == ""
    said = volume_costs.afford(limit, DISK._replace(name="more"), 50 * USD, now)
    assert said.endswith(
        "$2.00 to come of what else runs, $5.00 for this to the month's end = $7.00, $3.00 left"
    )
    assert limit.sums(now).running == pytest.approx(7 * USD, abs=100)
    with pytest.raises(GpusError, match=r"big: nothing is bought: max_spend .* \$7.00 too much"):
        volume_costs.afford(limit, DISK._replace(name="big"), 100 * USD, now)


def test_a_volume_without_a_known_size_is_named_and_refuses_no_purchase() -> None:
    """Nothing that its user does would make it known; the sums are least ones."""
    known = volume_costs.charges([spell(monthly=None)])
    limit = Budget(10 * USD, merged(Ledger(), known, BEGIN))
    sums = limit.sums(BEGIN + 60)
    assert (sums.unknown, sums.uncounted) == ((), ("volume data",))
    assert "at least $0.00 spent" in limit.standing(BEGIN + 60)
    assert "(without volume data: cost not known)" in limit.standing(BEGIN + 60)


def test_a_resize_within_a_second_counts_the_larger_volume_after_the_state_was_written() -> None:
    """A state names times in whole seconds."""
    at = BEGIN + DAY + 0.5
    known = volume_costs.charges(
        [spell(size=90, began=at - 0.2, ended=at), spell(size=300, monthly=30, began=at)]
    )
    written = budget.write(merged(Ledger(), known, at + 1))
    ledger = merged(budget.read(written), known, at + 1)
    sizes = {each.generation: bool(each.ended_at) for each in ledger.spells.values()}
    assert sizes == {"90@gcp us-central1-a": True, "300@gcp us-central1-a": False}


def test_two_volumes_of_one_name_count_each_in_what_a_stack_may_spend() -> None:
    """Where a zone was edited and the data stayed, the first one costs on. An older version wrote
    no place: what it wrote is not counted beside what the journal knows.
    """
    first = spell(began=BEGIN)
    moved = spell(began=BEGIN + DAY)._replace(spec=DISK._replace(place="us-central1-b"))
    known = volume_costs.charges([first, moved])
    old = known[0]._replace(generation="200")
    now = BEGIN + 2 * DAY
    ledger = merged(Ledger({}, {old.key: old}), known, now)
    assert [each.ended_at for each in ledger.spells.values()] == [0.0, 0.0]
    assert budget.read(budget.write(ledger)).spells.keys() == ledger.spells.keys()
    alone = Budget(100 * USD, merged(Ledger(), known[:1], now)).sums(now)
    assert Budget(100 * USD, ledger).sums(now).running > 1.9 * alone.running


def test_a_volume_older_than_what_was_folded_is_counted_when_it_is_first_known() -> None:
    folded = Ledger({"2026-11": 5 * USD}, {}, BEGIN + 5 * DAY)
    known = volume_costs.charges([spell()])
    now = BEGIN + 10 * DAY
    assert Budget(USD, merged(folded, known, now)).sums(now).spent > 5 * USD


def test_volumes_of_one_owner_and_name_cost_each_for_itself(tmp_path) -> None:
    """At another provider, and at the same one; a spell ends for its own volume, or its order."""
    journal, kept = Journal(tmp_path / "journal.db"), spell()._replace(is_kept=True)
    ebs = VolumeSpec("data", "aws", "use1-az4", 200, "gp3", "us-east-1")
    ordered = kept._replace(spec=ebs, native_id="", began_at=BEGIN + 1, is_kept=False)
    made = ordered._replace(native_id="us-east-1/vol-1", began_at=BEGIN + 2)
    journal.count_volume("live", kept)
    journal.intend_volume("live", VolumeOrder(ebs, OWNER, "stack", "token"), ordered)
    # What another place's volume settles is not this order.
    journal.settled_volume("live", OWNER, DISK)
    assert journal.intended_volume("live", OWNER, "data") is not None
    journal.count_volume("live", made)
    journal.settled_volume("live", OWNER, ebs)
    assert journal.intended_volume("live", OWNER, "data") is None
    second = kept._replace(native_id="disks/other", began_at=BEGIN + 3)
    journal.count_volume("live", second)
    counted = made._replace(began_at=ordered.began_at)
    assert journal.volume_spells("live") == (kept, counted, second)
    larger = second._replace(spec=DISK._replace(size_gib=300), began_at=BEGIN + 4)
    journal.count_volume("live", larger)
    ended = second._replace(ended_at=larger.began_at)
    assert journal.volume_spells("live") == (kept, counted, ended, larger)
    journal.close()


_KEYED = """CREATE TABLE volume_spells (
    world TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, native_id TEXT NOT NULL,
  spec TEXT NOT NULL, account TEXT NOT NULL, micro_usd INTEGER, price_as_of TEXT NOT NULL,
  began_at REAL NOT NULL, ended_at REAL, kept INTEGER NOT NULL,
  PRIMARY KEY (world, owner, name, began_at));"""
"""As versions 7 and 8 made it."""


def test_volumes_of_one_owner_name_and_time_cost_each_for_itself(tmp_path) -> None:
    """Also in a journal of version 8, where they were one row: what it knew stays, once. The end of
    one is not the end of another.
    """
    path, first, old = tmp_path / "journal.db", spell(), spell(began=BEGIN - 9)
    journal = Journal(path)
    journal.count_volume("live", old._replace(native_id="disks/old", ended_at=BEGIN - 1))
    journal.count_volume("live", first)
    before = journal.volume_spells("live")
    journal.close()
    with closing(sqlite3.connect(path)) as db:
        kept = db.execute("SELECT * FROM volume_spells").fetchall()
        marks = ", ".join("?" * len(kept[0]))
        db.executescript(f"DROP TABLE volume_spells; {_KEYED} PRAGMA user_version=8")
        db.executemany(f"INSERT INTO volume_spells VALUES ({marks})", kept)  # noqa: S608
        db.commit()
    assert journal.volume_spells("live") == before and len(before) == 2
    others = [
        first._replace(native_id="disks/other"),
        first._replace(spec=DISK._replace(place="us-central1-b"), native_id="b/disks/data"),
        first._replace(spec=VolumeSpec("data", "aws", "use1-az4", 200), native_id="vol-1"),
    ]
    for each in others:
        journal.count_volume("live", each)
    assert journal.volume_spells("live") == (*before, *others)
    journal.gone_volume("live", others[0].handle, BEGIN + DAY)
    assert [each.ended_at for each in journal.volume_spells("live")][1:] == [
        None,
        BEGIN + DAY,
        None,
        None,
    ]
    journal.close()
    assert len(journal.volume_spells("live")) == 5


def test_an_older_journal_keeps_an_order_of_a_volume_and_its_cost_is_not_zero(tmp_path) -> None:
    """Version 6 wrote down orders only."""
    journal = Journal(tmp_path / "journal.db")
    journal.intend_volume("live", VolumeOrder(DISK, OWNER, "stack", "token"), spell())
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("DROP TABLE volume_spells")
        db.execute("PRAGMA user_version=6")
    db.close()
    (found,) = journal.volume_spells("live")
    assert (found.spec, found.micro_usd, found.ended_at) == (DISK, None, None)
    journal.count_volume("live", spell(began=BEGIN + 9))
    (found,) = journal.volume_spells("live")
    assert (found.micro_usd, found.began_at, found.native_id) == (20 * USD, BEGIN, "disks/data")
    journal.close()
    database.prepare(sqlite3.connect(tmp_path / "journal.db", isolation_level=None))
    assert len(journal.volume_spells("live")) == 1
