"""A service of several replicas: more or fewer are declared, or one is lost, and those that serve
go on.
"""

import pytest

from providers.engine import operations
from providers.model.machine import Setup
from tests.engine.cases import ask, run, wanted


def declared(replicas, on_loss="replace-node", **more):
    an_ask = ask(nodes=replicas, **more)
    entries = tuple(entry._replace(replicas=True) for entry in an_ask.entries)
    return wanted(an_ask._replace(entries=entries), setup=Setup(on_loss=on_loss, apart=True))


def made(lab, replicas=2):
    """(world, the record of so many that run)."""
    world = lab.world()
    return world, run(operations.create(world, declared(replicas), "g1"))


def test_more_replicas_come_beside_those_that_serve(lab) -> None:
    """In their place, at their price, by an order that joins them."""
    world, before = made(lab)
    after = run(operations.update(world, before, declared(3)))
    assert (after.status, after.reasons, after.placement.nodes) == ("running", (), 3)
    assert after.handles[:2] == before.handles and len(lab.alive) == 3
    assert (len(lab.alpha.orders[-1].node_names), lab.alpha.orders[-1].joins) == (1, before.handles)
    assert after.price.micro_usd == before.price.micro_usd * 3 // 2
    assert run(operations.update(world, after, declared(3))).handles == after.handles


def test_replicas_without_room_leave_those_that_serve_and_are_asked_for_again(lab) -> None:
    world, before = made(lab)
    lab.alpha.stock |= {("north-a", "spot"): 0, ("north-b", "spot"): 0}
    after = run(operations.update(world, before, declared(3)))
    assert after.status == "degraded" and "north has no further one now" in after.reasons[0]
    assert after.handles == before.handles and len(lab.alive) == 2
    seen = run(operations.read(world, after, "replace-node"))
    assert "2 of 3 machines are left" in seen.reasons[0]
    lab.alpha.stock.clear()
    assert len(run(operations.update(world, seen, declared(3))).handles) == 3


def test_replicas_whose_zone_is_out_come_in_another_one_of_the_region(lab) -> None:
    """Never in another region. They are as they were bought, and another run takes over all."""
    world, before = made(lab)
    lab.alpha.stock[("north-a", "spot")] = 0
    after = run(operations.update(world, before, declared(4)))
    assert (after.status, after.reasons, after.handles[:2]) == ("running", (), before.handles)
    zones = ["north-a", "north-a", "north-b", "north-b"]
    assert [node.zone for node in after.machines] == zones
    seen = run(operations.read(world, after, "replace-node"))
    assert (seen.status, seen.bought, seen.reasons) == ("running", (), ())
    assert run(operations.update(world, seen, declared(4))).handles == after.handles
    found = run(operations.create(lab.world(), declared(4), "g2"))
    assert {*found.handles} == {*after.handles} and len(lab.alive) == 4
    lab.alpha.stock[("north-b", "spot")] = 0
    lab.alpha.preempt(found.handles[-1])
    lost = run(operations.read(world, found, "replace-node"))
    short = run(operations.update(world, lost, declared(4)))
    assert short.status == "degraded" and {node.region for node in lab.alive} == {"north"}


def test_fewer_replicas_release_the_last_ones(lab) -> None:
    world, before = made(lab, 3)
    after = run(operations.update(world, before, declared(1)))
    assert (after.status, after.handles) == ("running", before.handles[:1])
    assert [node.handle for node in lab.alive] == list(before.handles[:1])
    assert after.price.micro_usd == before.price.micro_usd // 3
    run(operations.delete(world, after))
    assert lab.alive == []


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_a_lost_replica_is_replaced_alone_whatever_number_is_declared_now(lab, replicas) -> None:
    world, before = made(lab, 3)
    lab.alpha.preempt(before.handles[1])
    seen = run(operations.read(world, before, "replace-node"))
    assert seen.status == "degraded"
    after = run(operations.update(world, seen, declared(replicas)))
    rest = (before.handles[0], before.handles[2])
    assert (after.status, after.handles[:2]) == ("running", rest)
    assert len(after.handles) == len(lab.alive) == replicas


def test_what_is_sold_nowhere_near_leaves_those_that_serve(lab) -> None:
    """Where nothing of the kind is for sale in their place, they are not given up."""
    from providers.catalog.table import table

    world, before = made(lab, 3)
    lab.alpha.preempt(before.handles[2])
    seen = run(operations.read(world, before, "replace-node"))
    lab.offers = table([offer for offer in lab.offers_list if offer.region != "north"])
    after = run(operations.update(lab.world(), seen, declared(3)))
    assert "2 of 3 replicas serve, and alpha sells nothing more in north;" in after.reasons[0]
    assert {node.handle for node in lab.alive} == set(before.handles[:2])
    assert world is not None


def test_a_reported_loss_is_left_so_until_another_number_is_declared(lab) -> None:
    world, before = made(lab, 3)
    lab.alpha.preempt(before.handles[2])
    seen = run(operations.read(world, before, "report"))
    kept = run(operations.update(world, seen, declared(3, "report")))
    assert kept.status == "degraded" and len(lab.alive) == 2
    assert len(run(operations.update(world, kept, declared(4, "report"))).handles) == 4


def test_replicas_are_told_of_each_other_only_where_there_are_others(lab) -> None:
    """Where nobody can log in, an edit that concerns no replica goes through; after others came,
    one that could not be told is a reason that stays until it is.
    """
    world, before = made(lab)
    before = before._replace(applied=(*before.applied, ("work", "0123456789ab")))
    assert run(operations.update(world, before, declared(2))).reasons == ()
    after = run(operations.update(world, before, declared(3)))
    assert "the replicas do not all know each other" in after.reasons[0]
    assert dict(after.applied)["untold"] == "yes" and len(after.handles) == 3
    again = run(operations.update(world, after, declared(3)))
    assert again.handles == after.handles and "do not all know" in again.reasons[0]
