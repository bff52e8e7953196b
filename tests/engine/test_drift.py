"""A machine that somebody edited at its cloud: what a look finds, what an update does, and what it
costs meanwhile.
"""

import pytest

from providers.engine import operations
from providers.engine.reconcile import drift
from providers.errors import Transient
from providers.model.machine import NO_GPU, Setup
from tests.engine.cases import MARKET, Lab, ask, offer, run, wanted


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    larger = offer("alpha", "north", "north-a", usd=13, machine="a3-megagpu-8g")
    smaller = offer("alpha", "north", "north-a", usd=2, machine="a3-highgpu-1g", count=1)
    made = Lab((*MARKET, larger, smaller))
    made.home = tmp_path
    yield made
    for world in made.worlds:
        world.close()


def edit(lab, handle, **now) -> None:
    lab.alpha.machines[handle] = lab.alpha.machines[handle]._replace(**now)


def edited(lab, want=None, **now):
    """(world, what was bought, what a look finds after the edit of its first machine)."""
    want = want or wanted()
    world = lab.world()
    record = run(operations.create(world, want, "g1"))
    edit(lab, record.handles[0], **now)
    return world, record, run(operations.read(world, record, want.setup.on_loss))


ONE = {"gpu_count": 1, "machine_type": "a3-highgpu-1g"}
"""Eight GPUs became one."""


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"gpu_count": 4}, "gpu_count: 8 -> 4"),
        ({"gpu_type": "A100-80GB"}, "gpu_type: H100 -> A100-80GB"),
        ({"gpu_type": NO_GPU, "gpu_count": 0}, "gpu_type: H100 -> none, gpu_count: 8 -> 0"),
        ({"capacity": "on-demand"}, "capacity: spot -> on-demand"),
        ({"zone": "north-c"}, "zone: north-a -> north-c"),
        (
            {"machine_type": "m1", "gpu_type": "", "gpu_count": 0},
            "machine_type: a3-highgpu-8g -> m1, gpu_type: H100 -> unknown",
        ),
    ],
)
def test_what_was_edited_is_named_and_nothing_else(lab, now, said) -> None:
    """Each property that differs is told with both values, and the record has what is there now."""
    _, record, seen = edited(lab, **now)
    assert (seen.status, seen.reasons, seen.detail) == ("running", (), f"{said}, changed at alpha")
    assert {name for name, _ in seen.bought} - set(drift.PRICE) == {
        part.partition(":")[0] for part in said.split(", ")
    }
    assert drift.as_bought(seen)._replace(detail="", machines=()) == record._replace(machines=())
    assert lab.said(said)


def test_an_unreachable_cloud_is_no_drift(lab) -> None:
    """What cannot be looked at is as it was."""
    world, record, _ = edited(lab, **ONE)
    lab.alpha.fail("observe", Transient("503", provider="alpha"), times=99)
    seen = run(operations.read(world, record))
    assert (seen.bought, seen.placement.gpu_count) == ((), 8)


def test_the_price_is_of_what_is_there_now(lab) -> None:
    """Another shape costs what the market asks for it, an unlisted one is of unknown price, and
    edited back it costs what it did.
    """
    world, record, seen = edited(lab, **ONE)
    assert (record.price.micro_usd, seen.price.micro_usd) == (10_000_000, 2_000_000)
    edit(lab, record.handles[0], gpu_count=3)
    assert run(operations.read(world, seen)).price.micro_usd is None
    edit(lab, record.handles[0], gpu_count=8, machine_type="a3-highgpu-8g")
    back = run(operations.read(world, seen))
    assert back == record._replace(machines=back.machines)


def test_a_machine_that_no_longer_serves_is_replaced(lab) -> None:
    """One machine exists afterwards, as declared, in a place that the edit has not barred."""
    world, record, seen = edited(lab, **ONE)
    after = run(operations.update(world, seen, wanted()))
    assert (
        after.placement.gpu_count,
        after.placement.zone,
        after.bought,
        after.price.micro_usd,
    ) == (
        8,
        "north-a",
        (),
        10_000_000,
    )
    assert [node.handle for node in lab.alive] == list(after.handles) != list(record.handles)


def test_an_update_finds_it_by_itself(lab) -> None:
    """An update without a look before it acts on the edit too."""
    world, record, _ = edited(lab, **ONE)
    after = run(operations.update(world, record, wanted()))
    assert after.placement.gpu_count == 8 and after.handles != record.handles


def test_a_machine_that_serves_as_it_is_now_is_kept(lab) -> None:
    """Another machine type with the GPUs that are declared: kept, at its own price, and no drift
    any more.
    """
    world, record, seen = edited(lab, machine_type="a3-megagpu-8g")
    assert drift.text(seen) == "machine_type: a3-highgpu-8g -> a3-megagpu-8g, changed at alpha"
    after = run(operations.update(world, seen, wanted()))
    assert (after.handles, after.placement.machine_type, after.bought, after.price.micro_usd) == (
        record.handles,
        "a3-megagpu-8g",
        (),
        13_000_000,
    )
    assert run(operations.read(world, after)) == after._replace(machines=tuple(lab.alive))


def test_a_declaration_that_asks_for_what_is_there_keeps_it(lab) -> None:
    """The declaration was changed to what the edit made of it."""
    world, record, seen = edited(lab, gpu_type="A100-80GB", machine_type="a2-ultragpu-8g")
    after = run(operations.update(world, seen, wanted(ask("A100-80GB"))))
    assert (after.handles, after.placement.gpu_type, after.bought) == (
        record.handles,
        "A100-80GB",
        (),
    )


def test_on_loss_report_only_tells(lab) -> None:
    """It stays, and goes on being told."""
    want = wanted(setup=Setup(on_loss="report"))
    world, record, seen = edited(lab, want, **ONE)
    assert lab.said("`on_loss: report` leaves it so")
    after = run(operations.update(world, seen, want))
    assert (after.handles, after.placement.gpu_count, after.bought) == (
        record.handles,
        1,
        seen.bought,
    )
    assert lab.creates == 1


def test_one_of_several_is_lost_to_its_cluster(lab) -> None:
    """Some of several were edited: the others go on, the edited one is replaced beside them, as a
    lost one is.
    """
    want = wanted(ask(nodes=3), setup=Setup(on_loss="replace-node"))
    world, record, seen = edited(lab, want, **ONE)
    assert (seen.status, seen.placement.gpu_count) == ("degraded", 8)
    assert (
        "is drifted (machine_type: a3-highgpu-8g -> a3-highgpu-1g, gpu_count: 8 -> 1)"
        in seen.reasons[0]
    )
    after = run(operations.update(world, seen, want))
    assert (
        after.status == "running"
        and set(record.handles[1:]) < set(after.handles)
        and len(lab.alive) == 3
    )
    assert record.handles[0] not in after.handles


@pytest.mark.parametrize("how", [{"gpu_count": 4}, {"gpu_count": 4, "gone": True}])
def test_all_of_several_that_differ_unlike_are_placed_anew(lab, how) -> None:
    """None of several is as it was bought: the whole is placed anew, once."""
    want = wanted(ask(nodes=2))
    world = lab.world()
    record = run(operations.create(world, want, "g1"))
    edit(lab, record.handles[0], gpu_count=how["gpu_count"])
    (
        lab.alpha.preempt(record.handles[1])
        if how.get("gone")
        else edit(lab, record.handles[1], gpu_count=2)
    )
    seen = run(operations.read(world, record))
    assert seen.status == "degraded" and seen.reasons[0].startswith(
        "degraded: 0 of 2 machines are left"
    )
    after = run(operations.update(world, seen, want))
    assert (
        after.status == "running"
        and len(lab.alive) == 2
        and not set(record.handles) & set(after.handles)
    )


def test_a_machine_edited_while_it_is_stopped_stays_stopped(lab) -> None:
    """The look tells what it is now, and nothing is done about it while it is to stay stopped."""
    off = wanted(setup=Setup(state="stopped"))
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    stopped = run(operations.update(world, record, off))
    edit(lab, record.handles[0], **ONE)
    seen = run(operations.read(world, stopped))
    assert (seen.status, seen.placement.gpu_count) == ("stopped", 1)
    still = run(operations.update(world, seen, off))
    assert (still.status, still.handles) == ("stopped", record.handles)


def test_an_edit_that_cannot_be_deleted_is_kept_with_its_cost(lab) -> None:
    """The edited machine could not be released: nothing is bought, and the record says what costs
    money.
    """
    world, _, seen = edited(lab, **ONE)
    lab.alpha.fail("delete", Transient("503", provider="alpha"), times=99)
    after = run(operations.update(world, seen, wanted()))
    assert after.status == "unsettled" and "may still cost" in after.reasons[0] and lab.creates == 1
