"""Machines that are stopped and started again."""

from __future__ import annotations

import pytest

from providers import errors
from providers.engine import operations
from providers.model.machine import Setup
from tests.engine.cases import ask, run, wanted
from tests.engine.test_cluster import made

STOPS = Setup(state="stopped")


def test_b35_stop_keeps_the_machine_and_start_brings_it_back(lab) -> None:
    """state: stopped stops what is held; it stays held, is no preemption, and is started again
    where it is, with its limit counted anew.
    """
    world, record = made(lab, wanted(setup=Setup(ttl_s=3600)))
    stopped = run(operations.update(world, record, wanted(setup=STOPS._replace(ttl_s=3600))))
    assert (stopped.status, stopped.handles, stopped.ends_at, stopped.reasons) == (
        "stopped",
        record.handles,
        0.0,
        (),
    )
    lab.alpha.preempt(record.handles[0], remains=True)
    assert run(operations.read(world, stopped)).status == "stopped"
    again = run(operations.update(world, stopped, wanted(setup=STOPS._replace(ttl_s=3600))))
    assert again.status == "stopped" and lab.alpha.calls["update"] == 1
    running = run(operations.update(world, again, wanted(setup=Setup(ttl_s=3600))))
    assert (running.status, running.handles) == ("running", record.handles)
    assert running.ends_at == pytest.approx(lab.clock.now() + 3600, abs=60)
    assert lab.creates == 1
    run(operations.delete(world, running))
    assert lab.alive == []


def test_b35_a_refused_stop_is_never_reported_as_stopped(lab) -> None:
    """The cloud says no: the error says that it runs on, and so it does."""
    world, record = made(lab)
    lab.alpha.fail(
        "update",
        errors.Unsupported("discardLocalSsd is missing", provider="alpha", code="badRequest"),
    )
    with pytest.raises(
        errors.GpusError, match="could not be stopped, so it runs on: discardLocalSsd is missing"
    ):
        run(operations.update(world, record, wanted(setup=STOPS)))
    assert [node.status for node in lab.alive] == ["running"]


def test_b41_a_start_without_room_keeps_the_stopped_machine(lab) -> None:
    """No room in its place: an error that names the zone; the stopped machine stays held, nothing
    is bought elsewhere.
    """
    world, record = made(lab)
    stopped = run(operations.update(world, record, wanted(setup=STOPS)))
    lab.alpha.fail("update", errors.NoCapacity("none there", provider="alpha", code="FULL"))
    with pytest.raises(
        errors.GpusError,
        match=(
            f"could not be started again in {record.placement.zone}, so it stays stopped, and in the state:"
            " none there"
        ),
    ):
        run(operations.update(world, stopped, wanted()))
    assert run(operations.read(world, stopped)).status == "stopped"
    assert lab.creates == 1 and len(lab.alive) == 1


def test_b41_nodes_start_all_or_none(lab) -> None:
    """The second node finds no room: the first is stopped again."""
    world, record = made(lab, wanted(ask(nodes=2)))
    stopped = run(operations.update(world, record, wanted(ask(nodes=2), setup=STOPS)))
    lab.alpha.refuse_update = record.handles[1]
    with pytest.raises(errors.GpusError, match="stays stopped"):
        run(operations.update(world, stopped, wanted(ask(nodes=2))))
    assert {node.status for node in lab.alive} == {"stopped"}


def test_nothing_is_bought_to_be_stopped(lab) -> None:
    """A cluster that is not there, or has gone, is not made only to be stopped."""
    world = lab.world()
    with pytest.raises(errors.SpecError, match="state"):
        run(operations.create(world, wanted(setup=STOPS), "g1"))
    world, record = made(lab)
    stopped = run(operations.update(world, record, wanted(setup=STOPS)))
    lab.alpha.preempt(record.handles[0])
    with pytest.raises(errors.GpusError, match="wanted it stopped, found it gone"):
        run(operations.update(world, stopped, wanted(setup=STOPS)))
    assert lab.creates == 1


def test_a_cloud_that_keeps_no_stopped_machine_says_so(lab) -> None:
    """Without the capability nothing is sent."""
    lab.alpha.capabilities = lab.alpha.capabilities._replace(in_place=frozenset({"labels"}))
    world, record = made(lab)
    with pytest.raises(errors.GpusError, match="alpha cannot stop a machine and keep it"):
        run(operations.update(world, record, wanted(setup=STOPS)))
    assert lab.alpha.calls["update"] == 0
