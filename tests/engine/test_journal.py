"""The journal: durable before the call, shared by processes, honest when it is broken; leases and
who holds them.
"""

import os
import sqlite3
import subprocess
import sys

import pytest

from providers import errors
from providers.engine import operations, record
from providers.engine.journal import process
from providers.engine.journal.codec import order_in, order_out
from providers.engine.journal.journal import Journal
from providers.engine.market import planning
from providers.engine.runtime.world import open_world
from providers.errors import GpusError
from providers.model.machine import Handle, Label, Order, Setup, Ticket
from providers.model.offer import Candidate
from tests.engine.cases import MARKET, ask, run, wanted
from tests.present import present

ORDER = Order(
    Label("own", "train", "g1", "f1"),
    "token-1",
    (Candidate(1, 0, MARKET[0], 2, "", 20_000_000),),
    ("train-0", "train-1"),
    Setup(labels=(("team", "nlp"),), options=(("boot_disk", {"kinds": ("a", "b")}),)),
    900,
)


def test_order_and_ticket_come_back_as_they_were(tmp_path) -> None:
    """An order and its ticket read from the journal by another process equal what was written."""
    journal = Journal(tmp_path / "journal.db")
    journal.intend("rehearsal", ORDER, 1.0)
    ticket = Ticket(
        ORDER,
        "done",
        (("operation", "op-1"),),
        ORDER.candidates[0],
        (Handle("alpha", "a"), Handle("alpha", "b")),
        "fine",
    )
    journal.note(ticket, 2.0)
    (entry,) = Journal(tmp_path / "journal.db").orders("rehearsal", "own", "train", "g1")
    assert (entry.order, entry.ticket, entry.handles, entry.state) == (
        ORDER,
        ticket,
        ticket.handles,
        "intent",
    )
    assert entry.micro_usd == 20_000_000


def test_an_order_keeps_the_stored_names_of_earlier_versions() -> None:
    """Whose an order is stands under "mark" in a journal."""
    written = order_out(ORDER)
    assert (written["mark"], "label" in written) == (["own", "train", "g1", "f1"], False)
    assert order_in(written).label == ORDER.label


def test_every_commit_is_on_the_disk(tmp_path) -> None:
    """The file is in WAL mode with full synchronisation, readable by its owner alone."""
    journal = Journal(tmp_path / "journal.db")
    journal.intend("rehearsal", ORDER, 1.0)
    with journal.read() as db:
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600


def test_same_token_is_never_written_twice(tmp_path) -> None:
    """A token names one order: a second intent with it is refused."""
    journal = Journal(tmp_path / "journal.db")
    journal.intend("rehearsal", ORDER, 1.0)
    with pytest.raises(errors.GpusError, match="nothing is bought without it"):
        journal.intend("rehearsal", ORDER, 1.0)


def test_broken_journal_refuses_to_buy_and_only_warns_a_plan(lab, tmp_path) -> None:
    """A corrupt journal is a clear error before any purchase, and a warning in a plan."""
    (tmp_path / "journal.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(
        errors.GpusError, match=r"journal\.db: wanted to write the journal.*nothing is bought"
    ):
        run(operations.create(lab.world(), wanted(), "g1"))
    assert lab.creates == 0
    blocks, _, warnings = planning.standing_blocks(lab.world())
    assert blocks == () and "not known" in warnings[0]


def test_newer_journal_is_left_alone(tmp_path) -> None:
    """A journal of a newer version is not written to."""
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(errors.GpusError, match="version"):
        Journal(tmp_path / "journal.db").intend("rehearsal", ORDER, 1.0)


def test_lease_is_for_one_holder_and_again_only_by_its_token(tmp_path) -> None:
    """One holder at a time; the same token may take it again; another one of this very process may
    not.
    """
    journal = Journal(tmp_path / "journal.db")
    journal.take("rehearsal", "own", "train", "me", 0.0)
    journal.take("rehearsal", "own", "train", "me", 0.0)
    with pytest.raises(errors.Busy, match="for 5 min"):
        journal.take("rehearsal", "own", "train", "you", 300.0)
    journal.take("rehearsal", "own", "other", "you", 0.0)
    journal.take("live", "own", "train", "you", 0.0)
    journal.drop("rehearsal", "own", "train", "you")
    assert journal.leased("rehearsal", "own") == ("other", "train")
    journal.drop("rehearsal", "own", "train", "me")
    journal.take("rehearsal", "own", "train", "you", 0.0)


def test_lease_of_a_killed_process_is_taken_over(tmp_path) -> None:
    """A process that was killed with -9 while it held a lease does not hold it any more."""
    code = (
        "import sys, time; from pathlib import Path; from providers.engine.journal.journal import"
        " Journal;Journal(Path(sys.argv[1])).take('rehearsal', 'own', 'train', 'child', 0.0);"
        " print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "journal.db"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert present(child.stdout).readline() == "held\n"
    journal = Journal(path)
    with pytest.raises(errors.Busy, match=f"process {child.pid}"):
        journal.take("rehearsal", "own", "train", "me", 0.0)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    journal.take("rehearsal", "own", "train", "me", 0.0)  # not reaped yet: a zombie holds nothing
    child.wait()
    present(child.stdout).close()


def test_process_id_used_again_is_another_process() -> None:
    """A process is its id and when it started, in this boot: an id used again, or another boot, is
    not it.
    """
    me = process.current()
    assert process.alive(me)
    assert not process.alive(me._replace(started="1"))
    assert not process.alive(me._replace(boot="another"))


def test_lease_waits_for_an_abandoned_run_to_clean_up(lab) -> None:
    """A delete waits for the process that is still cleaning up, instead of failing at once."""
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    world.journal.take("rehearsal", "own", "train", "cleaner", lab.clock.now())
    real = lab.clock.sleep

    async def sleep(seconds) -> None:
        await real(seconds)
        if lab.clock.slept > 30:
            world.journal.drop("rehearsal", "own", "train", "cleaner")

    lab.clock.sleep = sleep
    run(operations.delete(world, record))
    assert lab.alive == []


def test_launches_keep_their_price_over_generations(lab) -> None:
    """Each placement is kept with its price and its times, so that what was spent can be told
    later.
    """
    world = lab.world()
    known_record = run(operations.create(world, wanted(), "g1"))
    lab.clock.advance(3600)
    lab.alpha.preempt(known_record.handles[0])
    run(operations.update(world, known_record, wanted()))
    first, second = world.journal.launches("rehearsal", "own")
    assert first.ended_at is not None and second.ended_at is None
    assert first.micro_usd == second.micro_usd == 10_000_000
    assert record.ClusterRecord.from_dict(second.record).generation == "g1"


def test_quota_block_is_remembered_and_account_refusals_are_not(lab) -> None:
    """A quota is remembered for an hour; refused keys only for the run, since the user mends them."""
    world = lab.world()
    lab.alpha.fail("submit", errors.BadCredentials("no", provider="alpha"))
    run(operations.create(world, wanted(), "g1"))
    assert world.journal.blocks("rehearsal") == ()
    lab.beta.fail("submit", errors.QuotaExceeded("limit", provider="beta", code="Q"))
    run(
        operations.create(
            world, wanted(ask(providers=("beta", "alpha"), rank="preference"), name="other"), "g2"
        )
    )
    (block,) = world.journal.blocks("rehearsal")
    assert block.scope.provider == "beta" and block.until == pytest.approx(
        lab.clock.now() + 3600, abs=10
    )


@pytest.mark.parametrize("home", ["/proc/nope", "/dev/null/x"])
def test_a_home_that_cannot_be_written_is_one_line(monkeypatch, home) -> None:
    """A rehearsal without a usable state folder ends with one line that names GPUS_HOME."""
    monkeypatch.setenv("GPUS_HOME", home)
    world = open_world("rehearsal")
    for touch in (lambda: world.clock, lambda: world.adapter("gcp")):
        with pytest.raises(GpusError, match="GPUS_HOME") as told:
            touch()
        assert "\n" not in str(told.value)
    world.close()


def test_a_broken_rehearsal_is_one_line(tmp_path, monkeypatch) -> None:
    """A rehearsal.db that is none is told with its path and what to do."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    (tmp_path / "rehearsal.db").write_bytes(b"garbage" * 1000)
    world = open_world("rehearsal")
    for touch in (lambda: world.clock, lambda: world.adapter("gcp")):
        with pytest.raises(
            GpusError, match=r"rehearsal\.db: wanted the rehearsal's state, found .*; move it away"
        ) as told:
            touch()
        assert "\n" not in str(told.value)
    world.close()


def test_what_another_owner_stopped_and_kept_is_still_named(lab) -> None:
    """A stack whose state was lost is told of what its earlier owner has, stopped machines too,
    until they are gone.
    """
    world = lab.world()
    world.journal.owned("rehearsal", "own", "gpus", "dev")
    record = run(operations.create(world, wanted(), "1111aaaa2222"))
    assert [
        launch.native_ids for launch in world.journal.previous("rehearsal", "new", "gpus", "dev")
    ] == [tuple(each.native_id for each in record.handles)]
    world.journal.stopped(record._replace(status="stopped"), world.clock.now())
    assert [
        launch.native_ids for launch in world.journal.previous("rehearsal", "new", "gpus", "dev")
    ] == [tuple(each.native_id for each in record.handles)]
    assert (
        world.journal.previous("rehearsal", "own", "gpus", "dev")
        == world.journal.previous("rehearsal", "new", "gpus", "other")
        == ()
    )
    run(operations.delete(world, record))
    assert world.journal.previous("rehearsal", "new", "gpus", "dev") == ()
