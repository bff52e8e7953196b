"""A replacement whose old machine is deleted and whose new one was not acquired: what is raised,
what is kept, and how it goes on.
"""

import pytest

from providers.engine import operations
from providers.engine.reconcile.lost_both import Emptied, emptied
from providers.errors import AllFailed, Busy, GpusError, HalfMade, NotConfigured, OutcomeUnknown
from providers.model.machine import GONE
from tests.engine.cases import ask, run, wanted


def emptied_cluster(lab, want):
    """(world, what was held, the error) of a cluster that lost one of its machines, and whose other
    was deleted in vain.
    """
    world = lab.world()
    record = run(operations.create(world, want, "g1"))
    lab.alpha.preempt(record.handles[-1])
    seen = run(operations.read(world, record))
    for zone in ("north-a", "north-b", "south-a"):
        lab.alpha.stock[(zone, "spot")] = 0
    lab.beta.stock[("east-a", "spot")] = 0
    with pytest.raises(Emptied) as raised:
        run(operations.update(world, seen, want))
    return world, record, raised.value


def test_the_error_and_the_record_say_that_nothing_runs(lab) -> None:
    """Named with place and shape, not billed, with every attempt; nothing exists."""
    _, record, error = emptied_cluster(lab, wanted(ask(nodes=2)))
    first, second = str(error).splitlines()[:2]
    assert (
        first
        == "train: the previous machine (alpha north-a 2 x H100:8 spot) is deleted; nothing runs,"
        " nothing is billed; the next `up` tries again"
    )
    assert second.startswith("train: wanted H100:8, none was acquired")
    assert isinstance(error, Emptied) and error.attempts
    assert (
        error.record.status,
        error.record.price.micro_usd,
        error.record.handles,
        error.record.generation,
    ) == (
        GONE,
        0,
        (),
        record.generation,
    )
    assert lab.alive == []


def test_a_look_drops_it_and_an_update_tries_again(lab) -> None:
    """A refresh finds nothing to keep; an update without one buys as soon as there is room; a
    delete has nothing to do.
    """
    want = wanted(ask(nodes=2))
    world, _, error = emptied_cluster(lab, want)
    assert run(operations.read(world, error.record)) is None
    run(operations.delete(world, error.record))
    lab.alpha.stock.clear()
    again = run(operations.update(world, error.record, want))
    assert again.status == "running" and len(lab.alive) == 2


@pytest.mark.parametrize(
    "error",
    [OutcomeUnknown("lost", provider="alpha"), HalfMade("half", provider="alpha"), Busy("busy")],
)
def test_what_is_not_certain_is_not_called_nothing(lab, error) -> None:
    """While something of the new one may exist, the error stays what it is."""
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert emptied(record, wanted(), "g2", error) is error


@pytest.mark.parametrize(
    "error",
    [AllFailed("none"), NotConfigured("no key", provider="alpha"), GpusError("above max_spend")],
)
def test_whatever_refused_the_purchase_the_previous_machine_is_named(lab, error) -> None:
    """No place, no credentials, no budget: the reason follows the statement."""
    record = run(operations.create(lab.world(), wanted(), "g1"))
    made = emptied(record, wanted(), "g2", error)
    assert (
        isinstance(made, Emptied)
        and str(made).endswith(f"\n{error}")
        and "alpha north-a H100:8 spot" in str(made)
    )
    assert made.record.generation == "g2"
