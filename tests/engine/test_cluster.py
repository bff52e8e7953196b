"""The life of a cluster: what a killed run left, what is seen, what the next run does about it, and
that deleted means gone.
"""

import pytest

from providers import errors
from providers.engine import operations, record
from providers.model.machine import Handle, Node, Setup
from providers.testing.fake_adapter import lost
from tests.engine.cases import Killed, ask, run, wanted


def killed_create(lab, generation="g1", want=None):
    """A create whose process dies where the test put it; the next world is another process, and the
    lease's holder is dead.
    """
    world = lab.world()
    with pytest.raises(Killed):
        run(operations.create(world, want or wanted(), generation))
    world.close()
    return lab.world()


def test_killed_between_intent_and_call(lab) -> None:
    """Killed after the intent and before the call: the next run finds that nothing was made, and
    buys once.
    """
    lab.alpha.fail("submit", Killed())
    world = killed_create(lab)
    assert lab.alive == []
    record = run(operations.create(world, wanted(), "g2"))
    assert record.generation == "g2" and len(lab.alive) == 1
    assert [
        entry.state for entry in world.journal.orders("rehearsal", "own", states=("failed", "made"))
    ] == ["failed", "made"]


def test_b26_killed_between_call_and_answer(lab) -> None:
    """Killed after the cloud acted and before the answer: the next run adopts that machine,
    relabelled, and buys nothing.
    """
    lab.alpha.fail("submit", Killed(), after=True)
    world = killed_create(lab)
    record = run(operations.create(world, wanted(), "g2"))
    assert lab.creates == len(lab.alive) == 1
    assert lab.alive[0].label.generation == record.generation == "g2"
    assert record.price.micro_usd == 10_000_000
    assert lab.said("adopted")


def test_b27_a_machine_that_a_killed_run_made_is_told_with_its_price(lab) -> None:
    """What the next run finds running is named, with what it costs per hour."""
    lab.alpha.fail("submit", Killed(), after=True)
    record = run(operations.create(killed_create(lab), wanted(), "g2"))
    assert lab.said(
        f"adopted {record.machines[0].name} (north-a, $10.00/h), made by an earlier run"
    )


def test_b26_killed_between_answer_and_state(lab) -> None:
    """Killed when all was done but the state: the next run adopts, and delete then removes it under
    its new generation.
    """
    run(operations.create(lab.world(), wanted(), "g1"))
    world = lab.world()
    record = run(operations.create(world, wanted(), "g2"))
    assert lab.creates == 1
    assert [
        launch.generation
        for launch in world.journal.launches("rehearsal", "own")
        if launch.ended_at is None
    ] == ["g2"]
    run(operations.delete(world, record))
    assert lab.alive == []


def test_b26_same_paths_on_a_cloud_without_labels(lab) -> None:
    """Where machines carry no label, the journal alone prevents the second purchase."""
    lab.alpha.labelled = False
    lab.alpha.fail("submit", Killed(), after=True)
    world = killed_create(lab)
    record = run(operations.create(world, wanted(), "g2"))
    assert lab.creates == len(lab.alive) == 1
    run(operations.delete(world, record))
    assert lab.alive == []


def test_adopted_machine_survives_the_former_generation_delete(lab) -> None:
    """Delete touches only its own generation: what was adopted meanwhile stays."""
    world = lab.world()
    old = run(operations.create(world, wanted(), "g1"))
    run(operations.create(world, wanted(), "g2"))
    run(operations.delete(world, old))
    assert len(lab.alive) == 1


def test_other_fingerprint_is_deleted_first(lab) -> None:
    """A machine of the same cluster that is not what is declared now is gone, confirmed, before
    anything is bought.
    """
    run(operations.create(lab.world(), wanted(), "g1"))
    first = lab.alive[0].handle
    record = run(operations.create(lab.world(), wanted(fingerprint="f2"), "g2"))
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert first not in record.handles


def test_other_fingerprint_that_cannot_be_deleted_is_the_end(lab) -> None:
    """Never both: if the previous machine can't be deleted, nothing is bought."""
    run(operations.create(lab.world(), wanted(), "g1"))
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha"), times=99)
    with pytest.raises(errors.HalfMade, match="nothing is bought"):
        run(operations.create(lab.world(), wanted(fingerprint="f2"), "g2"))
    assert lab.creates == len(lab.alive) == 1


def test_one_too_many_is_deleted_at_adoption(lab) -> None:
    """Of several machines that would serve, the right number is kept and the rest deleted."""
    run(operations.create(lab.world(), wanted(), "g1"))
    twin = next(iter(lab.alpha.machines.values()))
    extra = twin._replace(
        handle=twin.handle._replace(native_id="north-a/twin"),
        name="twin",
        created_at=twin.created_at + 9,
    )
    lab.alpha.machines[extra.handle] = extra
    record = run(operations.create(lab.world(), wanted(), "g2"))
    assert [node.handle for node in lab.alive] == [twin.handle] == list(record.handles)


def test_unsettled_order_of_an_earlier_run_stops_a_create(lab) -> None:
    """While an earlier order's outcome is unknown, a new create buys nothing."""
    lab.alpha.fail("submit", Killed(), after=True)
    world = killed_create(lab)
    lab.alpha.fail("resume", lost("alpha"), times=99)
    with pytest.raises(errors.OutcomeUnknown, match="nothing is bought"):
        run(operations.create(world, wanted(), "g2"))
    assert lab.creates == 1


def test_unreachable_cloud_with_an_order_there_stops_a_create(lab) -> None:
    """A cloud that holds something of this cluster must answer before anything is bought elsewhere;
    any other may be silent.
    """
    run(operations.create(lab.world(), wanted(), "g1"))
    lab.alpha.fail("find", errors.Transient("down", provider="alpha"), times=99)
    with pytest.raises(errors.Transient):
        run(operations.create(lab.world(), wanted(), "g2"))
    lab.beta.fail("find", errors.Transient("down", provider="beta"), times=99)
    lab.alpha.heal()
    assert run(operations.create(lab.world(), wanted(), "g2")).status == "running"
    assert lab.creates == 1


def test_b45_two_runs_at_once_make_one_cluster(lab) -> None:
    """While one run holds the cluster, another one is told so, with the process and since when."""
    world = lab.world()
    world.journal.take("rehearsal", "own", "train", "somebody", lab.clock.now())
    with pytest.raises(errors.Busy, match="this process has been at work"):
        run(operations.create(lab.world(), wanted(), "g1"))
    assert lab.creates == 0


# Read


def made(lab, want=None, **more):
    world = lab.world()
    return world, run(operations.create(world, want or wanted(ask(**more)), "g1"))


def test_b29_gone_is_none_and_blocks_the_place(lab) -> None:
    """All gone: no id any more, the place is left alone for a while, and the next create goes
    elsewhere.
    """
    world, record = made(lab)
    lab.alpha.preempt(record.handles[0])
    assert run(operations.read(world, record)) is None
    assert [block.scope.zone for block in world.journal.blocks("rehearsal")] == ["north-a"]
    assert run(operations.create(world, wanted(), "g2")).placement.zone == "north-b"


def test_b29_preempted_that_remains_is_shown_and_replaced_delete_first(lab) -> None:
    """Taken back but still there: status preempted; update deletes it before it buys, under the
    same generation.
    """
    world, record = made(lab)
    lab.alpha.preempt(record.handles[0], remains=True)
    seen = run(operations.read(world, record))
    assert (seen.status, seen.reasons) == ("preempted", ())
    after = run(operations.update(world, seen, wanted()))
    assert after.status == "running" and after.generation == "g1"
    assert [node.handle for node in lab.alive] == list(after.handles)


def test_b29_unreachable_changes_nothing(lab) -> None:
    """A provider that can't be reached is a warning: the record stays, but for the detail; nothing
    counts as gone.
    """
    world, record = made(lab)
    lab.alpha.fail("observe", errors.Transient("down", provider="alpha"), times=99)
    assert run(operations.read(world, record)) == record._replace(detail="unreachable: down")
    assert lab.said("could not be asked")


def test_b45_lost_node_is_degraded_and_the_whole_is_placed_anew(lab) -> None:
    """Some nodes gone: degraded, with a reason; update releases the rest and gets the whole cluster
    in one place.
    """
    world, record = made(lab, nodes=2)
    lab.alpha.preempt(record.handles[1])
    seen = run(operations.read(world, record))
    assert seen.status == "degraded" and "1 of 2" in seen.reasons[0]
    after = run(operations.update(world, seen, wanted(ask(nodes=2))))
    assert after.status == "running" and after.reasons == () and len(lab.alive) == 2
    assert {node.handle for node in lab.alive} == set(after.handles)
    assert after.generation == "g1"


def test_b45_rest_that_cannot_be_deleted_stays_in_state(lab) -> None:
    """If the rest of a degraded cluster can't be deleted, nothing is bought, and the reason says
    what it costs.
    """
    world, record = made(lab, nodes=2)
    lab.alpha.preempt(record.handles[1])
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha"), times=99)
    after = run(operations.update(world, record, wanted(ask(nodes=2))))
    assert after.status == "unsettled" and "$20.00/h" in after.reasons[0]
    assert lab.creates == 1


@pytest.mark.parametrize("remains", [True, False])
def test_b34_ended_by_its_limit_is_not_bought_again(lab, remains) -> None:
    """After its own limit a cluster is shown as ended, and neither refresh nor update buys a new
    one.
    """
    world, record = made(lab, ttl_s=3600)
    assert record.ends_at == record.launched_at + 3600
    lab.clock.advance(3600)
    lab.alpha.end(record.handles[0], remains=remains)
    seen = run(operations.read(world, record))
    assert seen.status == "ended" and seen.generation == "g1"
    assert run(operations.read(world, seen)).status == "ended"
    assert run(operations.update(world, seen, wanted(ask(ttl_s=3600)))).status == "ended"
    assert lab.creates == 1
    run(operations.delete(world, seen))
    assert lab.alive == []


def test_gone_before_its_limit_is_not_ended(lab) -> None:
    """Gone long before the limit is a loss, not an end."""
    world, record = made(lab, ttl_s=36_000)
    lab.clock.advance(3600)
    lab.alpha.end(record.handles[0])
    assert run(operations.read(world, record)) is None


# Update and reclaim


def test_update_edits_in_place_what_the_adapter_can(lab) -> None:
    """Labels and key are written on the machine; a time limit that the adapter can't edit is said
    to need a replacement.
    """
    world, record = made(lab)
    want = wanted(
        setup=Setup(labels=(("team", "nlp"),), ssh_public_key="ssh-ed25519 AAAA me", ttl_s=7200)
    )
    after = run(operations.update(world, record, want))
    assert lab.alpha.updates == [
        (
            record.handles[0],
            {"labels": {"team": "nlp"}, "ssh_key": "ssh-ed25519 AAAA me", "ssh_user": "gpus"},
        )
    ]
    assert lab.said("cannot edit ttl")
    run(operations.update(world, after, want))
    assert len(lab.alpha.updates) == 1
    assert lab.creates == 1


def test_the_record_keeps_the_disk_that_was_bought(lab) -> None:
    """Another size declared since shrinks no disk, so the record says what the machine has."""
    world, record = made(lab, wanted(setup=Setup(disk_gib=200)))
    assert dict(record.applied)["disk_gib"] == "200"
    for size in (100, None):
        record = run(
            operations.update(
                world, record, wanted(setup=Setup(disk_gib=size, labels=(("size", str(size)),)))
            )
        )
        assert dict(record.applied)["disk_gib"] == "200"
    assert lab.creates == 1


@pytest.mark.parametrize("created", [1e300, float("inf"), float("nan"), -1.0, 10_000_000_000.0])
def test_a_moment_of_creation_that_cannot_be_is_none(lab, created) -> None:
    """What a machine costs is counted from it: of one that is still to come, or no moment at all,
    it is counted from now.
    """
    node = Node(Handle("alpha", "m1"), "m1", "running", created_at=created)
    assert record.began([node], 1_000.0, 900.0) == 900.0
    assert record.began([node, node._replace(created_at=950.0)], 1_000.0, 900.0) == 950.0


def test_delete_of_a_machine_whose_generation_cannot_be_read_ends_it(lab) -> None:
    """A label without a generation is no other one's: what the record names is ended, not left as
    taken over.
    """
    world, record = made(lab)
    lab.alpha.relabel(record.handles[0], "")
    run(operations.delete(world, record))
    assert lab.alive == []


def test_update_of_policy_makes_no_purchase(lab) -> None:
    """Another fallback or cap changes nothing that runs."""
    world, record = made(lab)
    after = run(
        operations.update(
            world, record, wanted(ask("H200", "H100", max_price_micro_usd=1), fingerprint="f2")
        )
    )
    assert (after.handles, after.entry, after.fingerprint) == (record.handles, 1, "f2")
    assert lab.creates == 1 and lab.alpha.updates == []


def test_update_that_no_longer_satisfies_says_so(lab) -> None:
    """A placement that does not serve the declaration any more has to be replaced, and the message
    says it.
    """
    world, record = made(lab)
    with pytest.raises(errors.GpusError, match="no longer satisfies"):
        run(operations.update(world, record, wanted(ask("A100-80GB"))))


def test_update_settles_what_was_unsettled(lab) -> None:
    """An unsettled purchase is found by the next update and becomes the cluster, without a second
    call.
    """
    world = lab.world()
    lab.alpha.fail("submit", lost("alpha"), after=True)
    lab.alpha.fail("resume", lost("alpha"), times=8)
    record = run(operations.create(world, wanted(), "g1"))
    assert record.status == "unsettled"
    after = run(operations.update(world, record, wanted()))
    assert after.status == "running" and after.reasons == ()
    assert lab.creates == len(lab.alive) == 1


def test_update_buys_after_an_unsettled_order_made_nothing(lab) -> None:
    """Once it is certain that nothing was made, update places the cluster under the same id."""
    world = lab.world()
    lab.alpha.fail("submit", lost("alpha"))
    lab.alpha.fail("resume", lost("alpha"), times=8)
    record = run(operations.create(world, wanted(), "g1"))
    after = run(operations.update(world, record, wanted()))
    assert after.status == "running" and after.generation == "g1" and len(lab.alive) == 1


def test_made_but_not_looked_at_is_verified_later(lab) -> None:
    """A machine that could not be looked at after it was made stays in state with a reason, and the
    next update verifies it.
    """
    world = lab.world()
    lab.alpha.fail("observe", errors.Transient("down", provider="alpha"), times=7)
    record = run(operations.create(world, wanted(), "g1"))
    assert record.status == "unsettled" and len(record.handles) == 1
    after = run(operations.update(world, record, wanted()))
    assert after.status == "running" and after.handles == record.handles and after.reasons == ()
    assert lab.creates == len(lab.alive) == 1


def test_half_made_leftover_is_deleted_by_update_first(lab) -> None:
    """What could not be deleted before is deleted, confirmed, before update buys."""
    lab.alpha.twist = lambda nodes: nodes[:1]
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha"), times=7)
    world = lab.world()
    record = run(operations.create(world, wanted(ask(nodes=2)), "g1"))
    assert record.leftovers
    after = run(operations.update(world, record, wanted(ask(nodes=2))))
    assert after.status == "running" and after.leftovers == ()
    assert {node.handle for node in lab.alive} == set(after.handles)


# Delete, settle, orphans
