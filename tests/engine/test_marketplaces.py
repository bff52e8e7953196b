"""A stranger's host is bought only where its marketplace is named or marketplaces are allowed: at
each way by which the engine buys.

Beta stands for the marketplace: the same cloud as in the other tests, which says of itself that its
machines are strangers' hosts.
"""

import pytest

from providers import errors
from providers.engine import operations
from tests.engine.cases import ask, run, wanted

ALLOWED = [{"providers": ("beta",)}, {"providers": ("alpha", "beta")}, {"marketplaces": True}]


@pytest.fixture
def world(lab):
    plain = lab.beta.manifest()
    lab.beta.manifest = lambda: plain._replace(
        capabilities=plain.capabilities._replace(marketplace=True)
    )
    lab.none_at_alpha = lambda: lab.alpha.stock.update(
        {("", "spot"): 0, **{(zone, "spot"): 0 for zone in ("north-a", "north-b", "south-a")}}
    )
    return lab.world()


def test_a_create_asks_no_stranger_that_nobody_named(lab, world) -> None:
    """Everybody else is sold out: the run ends, and not one call went to the marketplace."""
    lab.none_at_alpha()
    with pytest.raises(errors.AllFailed, match="marketplace"):
        run(operations.create(world, wanted(), "g1"))
    assert lab.beta.calls["submit"] == 0 and lab.alive == []


@pytest.mark.parametrize("more", ALLOWED, ids=str)
def test_a_create_buys_from_a_stranger_where_that_is_asked_for(lab, world, more) -> None:
    """Its name, or `marketplaces: true`, is all it takes."""
    lab.none_at_alpha()
    assert run(operations.create(world, wanted(ask(**more)), "g1")).provider == "beta"


def test_what_was_taken_back_is_not_bought_again_from_a_stranger(lab, world) -> None:
    """After a preemption with no room elsewhere, an update (and so a watch's round) ends with
    nothing rather than at a stranger's.
    """
    record = run(operations.create(world, wanted(), "g1"))
    lab.alpha.preempt(record.handles[0], remains=True)
    lab.none_at_alpha()
    with pytest.raises(errors.AllFailed):
        run(operations.update(world, record, wanted()))
    assert lab.beta.calls["submit"] == 0


def test_a_reclaim_does_not_move_to_a_stranger(lab, world) -> None:
    """The preferred choice is a stranger's alone: the fallback runs on."""
    lab.none_at_alpha()
    lab.alpha.stock["north-a", "spot"] = 1
    fallback = wanted(ask("A100-80GB"))
    record = run(operations.create(world, fallback, "g1"))
    lab.none_at_alpha()
    after = run(
        operations.reclaim(world, record._replace(entry=1), wanted(ask("H100", "A100-80GB")))
    )
    assert after.handles == record.handles and lab.beta.calls["submit"] == 0


def test_a_strangers_host_of_before_the_rule_runs_on_until_it_is_replaced(lab, world) -> None:
    """What runs at a marketplace stays when the declaration no longer allows one: an update buys
    and deletes nothing.
    """
    record = run(operations.create(world, wanted(ask(providers=("beta",))), "g1"))
    after = run(operations.update(world, record, wanted()))
    assert (after.handles, after.status) == (record.handles, "running")
    assert (lab.creates, lab.beta.calls["delete"]) == (1, 0)
    lab.beta.preempt(record.handles[0], remains=True)
    assert run(operations.update(world, record, wanted())).provider == "alpha", (
        "its replacement goes elsewhere"
    )


@pytest.mark.parametrize("rank", ["price_by_choice", "preference"])
def test_a_reclaim_within_one_choice_moves_nothing(lab, rank) -> None:
    """H100s at beta, and cheaper ones at alpha meanwhile: a reclaim leaves what runs, since it is
    of the first choice already.
    """
    world = lab.world()
    record = run(operations.create(world, wanted(ask(providers=("beta",))), "g1"))
    after = run(operations.reclaim(world, record, wanted(ask(rank=rank))))
    assert after.handles == record.handles and lab.creates == 1
