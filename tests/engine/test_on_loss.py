"""Some of several machines are lost: what the declaration's `on_loss` makes of that, and what a run
that was cut short leaves of it.
"""

import pytest

from providers import errors
from providers.engine import operations
from providers.model.machine import Setup
from tests.engine.cases import Killed, ask, run, wanted

USD = 1_000_000


def declared(on_loss, nodes=3, **more):
    return wanted(ask(nodes=nodes, **more), setup=Setup(on_loss=on_loss))


def lossy(lab, want, lost=1):
    """(world, what was held, what a look finds once `lost` machines were taken back)."""
    world = lab.world()
    record = run(operations.create(world, want, "g1"))
    for handle in record.handles[-lost:]:
        lab.alpha.preempt(handle)
    return world, record, run(operations.read(world, record, want.setup.on_loss))


def test_b45_replace_node_gets_what_is_lost_beside_the_rest(lab) -> None:
    """The rest stays as it is; as many as were lost are bought in the same zone, which was refused
    to nobody, and the whole is well again.
    """
    want = declared("replace-node")
    world, record, seen = lossy(lab, want)
    assert (
        seen.status == "degraded"
        and "the next `up` gets what is lost again in the same place" in seen.reasons[0]
    )
    after = run(operations.update(world, seen, want))
    assert (
        after.status,
        after.reasons,
        after.leftovers,
        after.placement.nodes,
        after.placement.zone,
    ) == (
        "running",
        (),
        (),
        3,
        "north-a",
    )
    assert after.handles[:2] == record.handles[:2] and len(set(after.handles)) == 3
    assert {node.handle for node in lab.alive} == set(after.handles)
    order = lab.alpha.orders[-1]
    assert (len(order.node_names), order.joins, order.candidates[0].zone) == (
        1,
        record.handles[:2],
        "north-a",
    )
    assert after.price.micro_usd == record.price.micro_usd
    assert run(operations.read(world, after, "replace-node")).reasons == ()
    run(operations.delete(world, after))
    assert lab.alive == []


def test_b45_replace_node_without_room_keeps_the_rest_and_asks_again(lab) -> None:
    """No room beside the rest: nothing is bought elsewhere, the rest goes on, the reason says so,
    and the next update asks again.
    """
    want = declared("replace-node")
    world, record, seen = lossy(lab, want, lost=2)
    lab.alpha.stock[("north-a", "spot")] = 0
    after = run(operations.update(world, seen, want))
    assert after.status == "degraded" and "north-a has no further one now" in after.reasons[0]
    assert [node.handle for node in lab.alive] == list(record.handles[:1])
    assert run(operations.read(world, after, "replace-node")).status == "degraded"
    lab.alpha.stock.clear()
    again = run(operations.update(world, run(operations.read(world, after, "replace-node")), want))
    assert (again.status, len(again.handles), len(lab.alive)) == ("running", 3, 3)


def test_b45_replace_node_never_passes_the_cap(lab) -> None:
    """What the cap leaves beside the rest is all that the new one may cost; a price that rose above
    it is not paid.
    """
    from providers.catalog.table import table

    want = declared("replace-node", max_price_micro_usd=30 * USD)
    _, _, seen = lossy(lab, want)
    lab.offers = table(
        [
            offer._replace(node_micro_usd=11 * USD) if offer.zone == "north-a" else offer
            for offer in lab.offers_list
        ]
    )
    world = lab.world()
    after = run(operations.update(world, seen, want))
    assert {node.zone for node in lab.alive} == {"north-b"} and len(after.handles) == 3
    assert lab.said("sells nothing more beside the rest of it, so all of it is bought again")


def test_b45_a_machine_that_remains_of_a_loss_goes_first(lab) -> None:
    """A lost machine that remains, stopped, is deleted and confirmed before another is bought."""
    want = declared("replace-node", nodes=2)
    world = lab.world()
    record = run(operations.create(world, want, "g1"))
    lab.alpha.preempt(record.handles[1], remains=True)
    seen = run(operations.read(world, record, "replace-node"))
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha"), times=99)
    stuck = run(operations.update(world, seen, want))
    assert stuck.status == "unsettled" and lab.creates == 1
    lab.alpha.heal()
    after = run(operations.update(world, stuck, want))
    assert after.status == "running" and {node.handle for node in lab.alive} == set(after.handles)


@pytest.mark.parametrize("then", ["read", "update"])
@pytest.mark.parametrize("fault", ["call", "answer"])
def test_b45_replace_node_killed_while_ordering_is_finished_not_repeated(lab, then, fault) -> None:
    """Killed while it bought the new one: what was bought is the missing one, and nothing is bought
    twice.
    """
    want = declared("replace-node")
    world, record, seen = lossy(lab, want)
    lab.alpha.fail("submit" if fault == "call" else "observe", Killed(), after=True)
    if fault == "answer":
        lab.alpha.heal()
        lab.alpha.fail("poll", Killed(), after=True)
    with pytest.raises(Killed):
        run(operations.update(world, seen, want))
    creates, again = lab.creates, lab.world()
    lab.clock.advance(5)
    if then == "read":
        seen = run(operations.read(again, seen, "replace-node"))
        assert seen.handles == record.handles or len(seen.leftovers) == 0
    after = run(operations.update(again, seen, want))
    assert lab.creates == creates
    assert (after.status, after.placement.nodes, len(after.handles)) == ("running", 3, 3)
    assert {node.handle for node in lab.alive} == set(after.handles)


def test_b45_replace_node_killed_after_it_was_had_is_whole_at_the_next_look(
    lab, monkeypatch
) -> None:
    """Killed once the new one was launched: the next look takes it for the missing one, not for a
    placement of its own.
    """
    want = declared("replace-node")
    world, _, seen = lossy(lab, want)
    from providers.engine.reconcile import placements

    monkeypatch.setattr(placements, "whole", lambda *_: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        run(operations.update(world, seen, want))
    monkeypatch.undo()
    monkeypatch.setenv("GPUS_HOME", str(lab.home))
    whole = run(operations.read(lab.world(), seen, "replace-node"))
    assert (
        whole.status,
        whole.placement.nodes,
        len(whole.handles),
        whole.reasons,
        whole.leftovers,
    ) == (
        "running",
        3,
        3,
        (),
        (),
    )


def test_b45_report_leaves_a_loss_alone(lab) -> None:
    """`report` tells of the loss at each look, buys and deletes nothing, and labels are written on
    what is left.
    """
    want = declared("report")
    world, record, seen = lossy(lab, want)
    assert (seen.status, seen.reasons, seen.handles) == ("degraded", (), record.handles)
    assert lab.said("degraded: 2 of 3 machines are left") and lab.said(
        "`on_loss: report` leaves it so"
    )
    after = run(
        operations.update(
            world, seen, want._replace(setup=want.setup._replace(labels=(("team", "x"),)))
        )
    )
    assert (after.status, after.reasons, lab.creates) == ("degraded", (), 1)
    assert [handle for handle, _ in lab.alpha.updates] == list(record.handles[:2])
    run(operations.update(world, after, declared("replace-all")))
    assert lab.creates == 2 and len(lab.alive) == 3


def test_what_is_bought_again_ends_with_the_rest(lab) -> None:
    """A machine that is bought to stand beside others has what is left of their time."""
    want = declared("replace-node", ttl_s=7200)
    world, record, seen = lossy(lab, want)
    lab.clock.advance(3600)
    after = run(operations.update(world, seen, want))
    assert after.ends_at == record.ends_at
    assert 3500 <= lab.alpha.orders[-1].setup.ttl_s <= 3600


def test_b45_a_replaced_node_leaves_one_placement_in_the_journal(lab) -> None:
    """A record that comes from a state, with its moments in whole seconds, is the same placement:
    `gpus ssh` and `gpus ps` find one cluster, not two.
    """
    lab.clock.advance(0.4)
    want = declared("replace-node")
    world, record, seen = lossy(lab, want)
    assert record.launched_at % 1
    after = run(
        operations.update(world, seen._replace(launched_at=float(int(seen.launched_at))), want)
    )
    (standing,) = world.journal.standing("rehearsal")
    assert set(standing.native_ids) == {handle.native_id for handle in after.handles}
