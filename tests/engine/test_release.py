"""What is released: a fallback, a deleted cluster, all of an owner."""

from __future__ import annotations

import json
import threading

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.journal.journal import Journal
from providers.engine.record import ClusterRecord
from tests.engine.cases import Killed, ask, offer, run, wanted
from tests.engine.test_cluster import killed_create, made


def on_fallback(lab):
    """A cluster that fell back to its second choice since the first was sold out."""
    lab.offers = table(
        [
            offer("alpha", "north", "north-a", usd=10),
            offer("beta", "east", "east-a", gpu="A100-80GB", machine="p4de", usd=21),
        ]
    )
    lab.alpha.stock["north-a", "spot"] = 0
    world, want = lab.world(), wanted(ask("H100", "A100-80GB"))
    record = run(operations.create(world, want, "g1"))
    assert record.placement.gpu_type == "A100-80GB" and record.entry == 1
    world.journal.unblock("rehearsal")
    return world, want, record


def test_reclaim_gets_the_preferred_first_then_releases_the_fallback(lab) -> None:
    """The fallback is released only when the preferred placement is there; id and generation stay."""
    world, want, record = on_fallback(lab)
    del lab.alpha.stock["north-a", "spot"]
    after = run(operations.reclaim(world, record, want))
    assert (after.placement.gpu_type, after.generation, after.reasons) == ("H100", "g1", ())
    assert [node.handle for node in lab.alive] == list(after.handles)
    run(operations.delete(world, after))
    assert lab.alive == []


def test_reclaim_keeps_the_fallback_when_nothing_better_is_to_be_had(lab) -> None:
    """No room for anything preferred: the fallback runs on."""
    world, want, record = on_fallback(lab)
    after = run(operations.reclaim(world, record, want))
    assert after.handles == record.handles and after.reasons == ()
    assert [node.handle for node in lab.alive] == list(record.handles)


def test_reclaim_that_cannot_release_the_fallback_says_what_costs(lab) -> None:
    """If the fallback can't be deleted both are kept in state, with what costs money; the next
    update tries again.
    """
    world, want, record = on_fallback(lab)
    del lab.alpha.stock["north-a", "spot"]
    lab.beta.fail("delete", errors.Transient("503", provider="beta"), times=7)
    after = run(operations.reclaim(world, record, want))
    assert (
        after.placement.gpu_type == "H100"
        and after.leftovers == record.handles
        and "previous placement" in after.reasons[0]
    )
    mended = run(operations.update(world, after, want))
    assert mended.leftovers == () and mended.reasons == ()
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_delete_twice_is_fine_and_confirmed(lab) -> None:
    """Delete is done when the cloud says gone; doing it again changes nothing."""
    world, record = made(lab)
    lab.alpha.delete_s = 120
    run(operations.delete(world, record))
    assert lab.alive == []
    run(operations.delete(world, record))
    assert world.journal.launches("rehearsal", "own")[0].ended_at is not None


def test_delete_that_fails_names_what_costs_money(lab) -> None:
    """A delete that can't be confirmed raises, naming the machine and its price."""
    world, record = made(lab)
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha"), times=99)
    with pytest.raises(errors.HalfMade) as left:
        run(operations.delete(world, record))
    assert record.handles[0].native_id in str(left.value) and "$10.00/h" in str(left.value)
    assert left.value.handles == record.handles


def test_accepted_delete_that_never_takes_effect_is_bounded(lab) -> None:
    """A deletion that the cloud accepts but never carries out ends in an error after a bounded
    wait.
    """
    world, record = made(lab)
    lab.alpha.delete_s = 1_000_000
    with pytest.raises(errors.HalfMade, match="not taken effect"):
        run(operations.delete(world, record))
    assert lab.clock.slept < 1_200


def test_settle_removes_everything_of_the_owner(lab) -> None:
    """Ownership's delete settles pending orders and removes every machine with the label, of
    whatever cluster, and nothing of others.
    """
    lab.alpha.fail("submit", Killed(), after=True)
    world = killed_create(lab)
    run(operations.create(world, wanted(name="other"), "g2"))
    run(operations.create(world, wanted(name="theirs", owner="somebody"), "g3"))
    gone = run(operations.settle(world, "own"))
    assert len(gone) >= 1
    assert [node.label.owner for node in lab.alive] == ["somebody"]
    assert world.journal.orders("rehearsal", "own") == ()


def test_machines_are_deleted_side_by_side(lab, monkeypatch) -> None:
    """The second deletion is asked for while the first is still unanswered."""
    for name in ("one", "other"):
        run(operations.create(lab.world(), wanted(name=name), f"g-{name}"))
    both, delete = threading.Barrier(2, timeout=10), lab.alpha.delete

    def slow(handle):
        both.wait()
        delete(handle)

    monkeypatch.setattr(lab.alpha, "delete", slow)
    run(operations.settle(lab.world(), "own"))
    assert lab.alive == []


def test_settle_fails_loudly_while_something_may_be_left(lab) -> None:
    """While a cloud with an order of this owner can't be asked, settle does not report success."""
    run(operations.create(lab.world(), wanted(), "g1"))
    lab.alpha.fail("find", errors.Transient("down", provider="alpha"), times=99)
    with pytest.raises(errors.HalfMade):
        run(operations.settle(lab.world(), "own"))


def test_strays_are_those_no_generation_claims(lab) -> None:
    """Strays are machines with the owner's label and an unknown generation."""
    world, record = made(lab)
    assert run(operations.orphans(world, "own", record.handles)) == ()
    assert [node.handle for node in run(operations.orphans(world, "own", ()))] == list(
        record.handles
    )


def test_stray_is_adopted_by_native_id(lab) -> None:
    """A bare machine becomes a record with its own label and today's price; one that does not exist
    is None.
    """
    world, record = made(lab)
    found = run(operations.adopt_stray(world, "alpha", record.handles[0].native_id))
    assert (found.owner, found.cluster, found.generation, found.price.micro_usd) == (
        "own",
        "train",
        "g1",
        10_000_000,
    )
    assert run(operations.adopt_stray(world, "alpha", "north-a/none")) is None


def test_worlds_share_a_journal_and_nothing_else(lab, tmp_path) -> None:
    """Rows carry their world: what one world ordered is not seen in the other."""
    made(lab)
    assert len(Journal(tmp_path / "journal.db").orders("rehearsal", "own")) == 1
    assert Journal(tmp_path / "journal.db").orders("live", "own") == ()


def test_record_survives_json(lab) -> None:
    """What the state keeps is plain JSON and loses nothing."""
    lab.alpha.stock["north-a", "spot"] = lab.alpha.stock["north-b", "spot"] = 0
    _, record = made(lab, nodes=2, ttl_s=7200)
    assert ClusterRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_delete_of_a_queued_cluster_takes_it_out_of_the_queue(lab) -> None:
    """A cluster that still waits in a cloud's queue is taken out of it, and never starts."""
    lab.offers = table([offer("alpha", "north", "north-a", capacity="flex-start", usd=5)])
    lab.alpha.queue_s = 10_000
    world = lab.world()
    record = run(operations.create(world, wanted(ask(spot=("flex-start",), wait_s=60)), "g1"))
    run(operations.delete(world, record))
    lab.clock.advance(20_000)
    assert lab.alive == []


def test_delete_without_keys_names_what_costs_money(lab) -> None:
    """Keys that are missing at the time of a delete are an error that names the machine, never a
    success.
    """
    _, record = made(lab)
    lab.alpha.connect_error = errors.NotConfigured("no keys", provider="alpha")
    with pytest.raises(errors.HalfMade, match=r"no keys.*may still cost"):
        run(operations.delete(lab.world(), record))


def test_b42_replacement_that_cannot_be_had_says_so_after_the_delete(lab) -> None:
    """Deleted first and sold out then: the error says that none was acquired, and nothing
    is left running.
    """
    world, record = made(lab)
    run(operations.delete(world, record))
    for zone in ("north-a", "north-b", "south-a"):
        lab.alpha.stock[zone, "spot"] = 0
    lab.beta.stock["east-a", "spot"] = 0
    with pytest.raises(errors.AllFailed, match="none was acquired"):
        run(operations.create(world, wanted(ask("H100"), fingerprint="f2"), "g2"))
    assert lab.alive == []


def test_update_cut_short_leaves_a_placement_that_read_finds(lab) -> None:
    """A new placement that no state names yet is found by its label, under the same generation."""
    world, record = made(lab)
    lab.alpha.preempt(record.handles[0])
    moved = run(operations.update(world, record, wanted()))
    assert run(operations.read(world, record)).handles == moved.handles


def test_reclaim_buys_nothing_for_a_job_that_has_failed(lab) -> None:
    """A job is over once it has ended, also badly: what is preferred is not bought in its stead."""
    world, want, record = on_fallback(lab)
    del lab.alpha.stock["north-a", "spot"]
    failed = record._replace(kind="job", status="failed")
    lab.beta.end(record.handles[0])
    after = run(operations.reclaim(world, failed, want))
    assert (after.status, lab.alive) == ("failed", [])
