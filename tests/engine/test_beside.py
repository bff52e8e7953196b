"""Machines that carry a cluster's label beside the held ones: what killed reclaims and placements
leave is never silent and never lost.
"""

import pytest

from providers.engine import operations
from providers.errors import Transient
from tests.engine.cases import Killed, ask, run, wanted


@pytest.fixture
def reclaimable(lab):
    """(declaration, record): the fallback is held, and the preferred one has room by now."""
    lab.alpha.stock = {("north-a", "spot"): 1, ("north-b", "spot"): 0, ("south-a", "spot"): 0}
    lab.beta.stock = {("east-a", "spot"): 0}
    declared = wanted(ask("A100-80GB", ttl_s=7200))
    record = run(operations.create(lab.world(), declared, "g1"))
    lab.alpha.stock, lab.beta.stock = {}, {}
    return wanted(ask("H100", "A100-80GB", ttl_s=3600)), record._replace(entry=1)


def test_b33_reclaim_killed_after_the_new_one_was_had(lab, reclaimable) -> None:
    """The extra machine is an init error at the next look, and the same reclaim adopts it instead
    of buying another.
    """
    declared, record = reclaimable
    lab.alpha.fail("delete", Killed())
    with pytest.raises(Killed):
        run(operations.reclaim(lab.world(), record, declared))
    assert len(lab.alive) == 2
    seen = run(operations.read(lab.world(), record))
    assert seen.handles == record.handles and len(seen.leftovers) == 1
    assert "half-made" in seen.reasons[0] and "may still cost" in seen.reasons[0]
    creates = lab.creates
    after = run(operations.reclaim(lab.world(), seen, declared))
    assert lab.creates == creates
    assert (after.placement.gpu_type, after.entry, after.price.micro_usd, after.reasons) == (
        "H100",
        0,
        10_000_000,
        (),
    )
    assert after.ends_at == after.launched_at + 3600
    assert [node.handle for node in lab.alive] == list(after.handles)
    assert run(operations.read(lab.world(), after)).reasons == ()


def test_b33_reclaim_killed_while_ordering_is_adopted_too(lab, reclaimable) -> None:
    """Killed between the call and its answer: the order is settled, and what it made is kept as
    what was meant.
    """
    declared, record = reclaimable
    lab.alpha.fail("submit", Killed(), after=True)
    with pytest.raises(Killed):
        run(operations.reclaim(lab.world(), record, declared))
    creates = lab.creates
    after = run(
        operations.reclaim(lab.world(), run(operations.read(lab.world(), record)), declared)
    )
    assert (after.placement.gpu_type, after.entry, lab.creates) == ("H100", 0, creates)
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_b33_an_update_that_does_not_reclaim_releases_the_extra(lab, reclaimable) -> None:
    """Without the wish for a reclaim the held one stays, and the extra machine goes."""
    declared, record = reclaimable
    lab.alpha.fail("delete", Killed())
    with pytest.raises(Killed):
        run(operations.reclaim(lab.world(), record, declared))
    after = run(operations.update(lab.world(), run(operations.read(lab.world(), record)), declared))
    assert (after.handles, after.leftovers, after.reasons) == (record.handles, (), ())
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert [
        launch.native_ids
        for launch in lab.world().journal.launches("rehearsal", "own")
        if launch.ended_at is None
    ] == [(record.handles[0].native_id,)]


@pytest.mark.parametrize("gone", [False, True])
def test_b33_reclaim_killed_while_the_old_one_was_deleted(lab, reclaimable, gone) -> None:
    """The record moves to the new machine with the price, entry and limit it was bought with, not
    those of the old one.
    """
    declared, record = reclaimable
    lab.alpha.fail("delete", Killed(), after=True)
    with pytest.raises(Killed):
        run(operations.reclaim(lab.world(), record, declared))
    if gone:
        lab.clock.advance(60)
    seen = run(operations.read(lab.world(), record))
    assert (
        seen.placement.gpu_type,
        seen.price.micro_usd,
        seen.price.as_of,
        seen.price.source,
        seen.entry,
        seen.placement.nodes,
    ) == ("H100", 10_000_000, "2026-01-01", "a test", 0, 1)
    assert seen.ends_at == seen.launched_at + 3600
    assert seen.leftovers == (() if gone else record.handles)
    creates = lab.creates
    after = run(operations.update(lab.world(), seen, declared))
    assert (after.handles, after.reasons, lab.creates) == (seen.handles, (), creates)
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_an_extra_machine_is_found_though_the_journal_is_lost(lab, tmp_path) -> None:
    """The label alone is enough: an unknown machine of the generation is told and then released."""
    record = run(operations.create(lab.world(), wanted(), "g1"))
    (twin,) = lab.alive
    extra = twin._replace(handle=twin.handle._replace(native_id="north-a/other"), name="other")
    lab.alpha.machines[extra.handle] = extra
    for file in tmp_path.glob("journal.db*"):
        file.unlink()
    seen = run(operations.read(lab.world(), record))
    assert seen.leftovers == (extra.handle,) and "other" in seen.reasons[0]
    after = run(operations.update(lab.world(), seen, wanted()))
    assert after.reasons == () and [node.handle for node in lab.alive] == list(record.handles)


def test_a_stopped_machine_is_kept_while_an_extra_one_goes(lab) -> None:
    """What was stopped on purpose is not placed anew because something else carries its label."""
    world = lab.world()
    stopped = wanted(setup=wanted().setup._replace(state="stopped"))
    record = run(operations.update(world, run(operations.create(world, wanted(), "g1")), stopped))
    twin = lab.alpha.machines[record.handles[0]]
    extra = twin._replace(
        handle=twin.handle._replace(native_id="north-a/other"), name="other", status="running"
    )
    lab.alpha.machines[extra.handle] = extra
    seen = run(operations.read(world, record))
    after = run(operations.update(world, seen, stopped))
    assert (after.status, after.handles) == ("stopped", record.handles)
    assert [node.handle for node in lab.alive] == list(record.handles)


def test_a_search_that_fails_does_not_hide_what_was_seen(lab) -> None:
    """When only the search by label fails, the look at the held machines still counts."""
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    lab.alpha.preempt(record.handles[0], remains=True)
    lab.alpha.fail("find", Transient("not now", provider="alpha"), times=7)
    assert run(operations.read(world, record)).status == "preempted"
