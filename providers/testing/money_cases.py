"""The contract's cases about money: the real engine buys through the adapter, and exactly what is
wanted exists afterwards, whatever went wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine import operations
from providers.errors import AllFailed, CloudError, GpusError
from providers.model.machine import PREEMPTED, QUEUED, RUNNING
from providers.remote.probe import CLOSED, ProbeResult
from providers.testing.bench import CLUSTER, GENERATION, LATER, OTHER, OWNER

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Handle, Node
    from providers.remote.probe import Ordered
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """All of them."""
    del harness
    return [
        the_engine_gets_one_and_releases_it,
        the_engine_walks_on_from_a_place_that_is_sold_out,
        nothing_is_left_when_nothing_can_be_had,
        one_machine_after_a_lost_reply,
        one_machine_after_a_garbled_reply,
        one_machine_after_a_web_page,
        one_machine_after_rate_limits,
        a_slow_place_is_given_up_and_released,
        a_killed_runs_machine_is_adopted,
        a_killed_runs_machine_is_released_with_its_owner,
        a_preempted_machine_is_replaced_by_one,
        a_machine_that_dies_before_it_is_ready_is_given_back,
        a_vanished_machine_is_noticed,
        an_unreachable_cloud_changes_nothing,
        the_engine_waits_for_a_deletion_that_lags,
        an_owners_release_leaves_others_alone,
    ]


def _created(bench: Bench, generation: str = GENERATION) -> ClusterRecord:
    record = bench.run(operations.create(bench.world, bench.spec(), generation))
    assert not record.reasons, f"wanted a cluster that is whole, found {record.reasons}"
    assert record.status == RUNNING, f"wanted it running, found {record.status}"
    assert len(record.handles) == 1
    return record


def _deleted(bench: Bench, record: ClusterRecord) -> None:
    bench.run(operations.delete(bench.world, record))
    bench.exist(0, "deleted by the engine")


def the_engine_gets_one_and_releases_it(bench: Bench) -> None:
    """Create makes one machine by one call at a known price; read sees it unchanged; delete
    confirms that it is gone, and again is fine.
    """
    record = _created(bench)
    assert bench.knobs.creates() == 1
    bench.exist(1, "created")
    assert record.price.micro_usd, "wanted the price"
    seen = bench.run(operations.read(bench.another_world(), record))
    assert seen is not None, "wanted it seen, found it gone"
    assert (seen.status, seen.handles, seen.reasons) == (RUNNING, record.handles, ())
    _deleted(bench, record)
    _deleted(bench, record)


def the_engine_walks_on_from_a_place_that_is_sold_out(bench: Bench) -> None:
    """With the first place sold out the next one is acquired, or nothing where the cloud has only
    one place.
    """
    candidates = bench.candidates()
    bench.knobs.sell_out(candidates[0])
    if len(candidates) == 1:
        _nothing(bench)
        return
    record = _created(bench)
    placed = (record.placement.where, record.placement.machine_type)
    assert placed != (
        candidates[0].zone or candidates[0].region,
        candidates[0].machine_type,
    ), f"wanted another place than {placed}"
    bench.exist(1, "walked on")
    _deleted(bench, record)


def nothing_is_left_when_nothing_can_be_had(bench: Bench) -> None:
    """With everything sold out the walk ends with AllFailed, an attempt and its class in each line,
    and nothing exists.
    """
    bench.knobs.sell_out()
    _nothing(bench)


def _nothing(bench: Bench) -> None:
    try:
        record = bench.run(operations.create(bench.world, bench.spec(), GENERATION))
    except AllFailed as failed:
        assert all(attempt.outcome in {"NoCapacity", "OfferGone"} for attempt in failed.attempts), [
            str(attempt) for attempt in failed.attempts
        ]
        assert "<html" not in str(failed).lower()
    else:
        if record.status == QUEUED:
            bench.run(operations.delete(bench.world, record))
        else:
            raise AssertionError(f"wanted AllFailed, found {record.status} {record.handles}")
    bench.exist(0, "nothing could be acquired")


def one_machine_after_a_lost_reply(bench: Bench) -> None:
    """The answer to a creating call is lost: the engine finds the machine, and buys no second one
    meanwhile.
    """
    bench.knobs.lose_reply()
    _one(bench, calls=1)


def one_machine_after_a_garbled_reply(bench: Bench) -> None:
    """Half of an answer to a creating call: the engine finds the machine, and buys no second one
    meanwhile.
    """
    bench.knobs.lose_reply("malformed")
    _one(bench, calls=1)


def one_machine_after_a_web_page(bench: Bench) -> None:
    """A web page for an answer to a creating call, once: the engine ends with exactly one machine,
    where there is one place alone too.
    """
    bench.knobs.refuse("html")
    _one(bench)


def one_machine_after_rate_limits(bench: Bench) -> None:
    """Twice asked too often: the engine waits and ends with exactly one machine."""
    bench.knobs.refuse("too-many", times=2)
    _one(bench)


def _one(bench: Bench, *, calls: int = 0) -> None:
    record = _created(bench)
    bench.exist(1, "after trouble")
    assert not calls or bench.knobs.creates() == calls, (
        f"wanted {calls} creating calls, found {bench.knobs.creates()}"
    )
    (node,) = bench.connect().find(OWNER, CLUSTER, GENERATION)
    assert node.handle == record.handles[0]
    _deleted(bench, record)


def a_slow_place_is_given_up_and_released(bench: Bench) -> None:
    """An order that is not carried out within its wait is given up and leaves nothing; another
    place may serve.
    """
    bench.knobs.refuse("slow", times=None, seconds=3_000)
    try:
        record = bench.run(
            operations.create(
                bench.world,
                bench.spec(bench.ask(wait_s=60)._replace(regions=(bench.candidates()[0].region,))),
                GENERATION,
            )
        )
    except GpusError as error:
        assert isinstance(error, AllFailed), f"wanted AllFailed, found {error!r}"
    else:
        # A cloud whose machines bear no wait of their own may report them up at once.
        _deleted(bench, record)
    bench.knobs.heal()
    bench.wait(3_600.0)
    bench.exist(0, "given up")


def _killed(bench: Bench) -> None:
    """What a run leaves that was killed right after its creating call: an intent in the journal,
    and a machine.
    """
    world, order = bench.another_world(), bench.order()
    world.journal.intend(world.name, order, world.clock.now())
    world.adapter(bench.name).submit(order)
    bench.wait(30.0)
    bench.exist(1, "a killed run's")


def a_killed_runs_machine_is_adopted(bench: Bench) -> None:
    """The next run takes the killed run's machine over, under its own generation,
    and buys nothing.
    """
    _killed(bench)
    record = _created(bench, LATER)
    assert bench.knobs.creates() == 1, "wanted no second creating call"
    bench.exist(1, "adopted")
    (node,) = bench.connect().observe(record.handles)
    assert node.label is not None
    wanted = LATER if bench.harness.manifest.capabilities.relabels else GENERATION
    assert node.label.generation == wanted, f"wanted generation {wanted}, found {node.label}"
    _deleted(bench, record)


def a_killed_runs_machine_is_released_with_its_owner(bench: Bench) -> None:
    """Releasing the owner finds and deletes what a killed run left, even where no cluster knows of
    it.
    """
    _killed(bench)
    found = bench.run(operations.settle(bench.world, OWNER))
    del found
    bench.exist(0, "released with its owner")
    assert not bench.run(operations.settle(bench.world, OWNER))


def a_preempted_machine_is_replaced_by_one(bench: Bench) -> None:
    """The engine notices that a machine was taken back, and its update ends with exactly one that
    runs.
    """
    kind = bench.preemptible
    if not kind:
        return
    wanted = bench.spec(bench.ask(kind))
    record = bench.run(operations.create(bench.world, wanted, GENERATION))
    assert bench.knobs.preempt(record.machines[0]) == 1
    bench.wait(30.0)
    seen = bench.run(operations.read(bench.world, record))
    assert seen is None or seen.status == PREEMPTED, f"wanted it noticed, found {seen.status}"
    bench.wait(1_200.0)
    again = bench.run(operations.update(bench.another_world(), seen or record, wanted))
    assert (again.status, again.reasons) == (
        RUNNING,
        (),
    ), f"wanted another one, found {again.status} {again.reasons}"
    up = [machine for machine in bench.knobs.running() if machine.status == "RUNNING"]
    assert len(up) == 1, f"wanted one that runs, found {up}"
    _deleted(bench, again)


def a_machine_that_dies_before_it_is_ready_is_given_back(bench: Bench) -> None:
    """Taken back while its ssh is waited for: the wait ends soon, not with its time-out, what is
    left of it goes, and another place is asked.
    """
    kind = bench.preemptible
    if not kind:
        return
    died: list[Handle] = []

    async def probe(node: Node, placed: Ordered) -> ProbeResult:
        del placed
        if not died:
            died.append(node.handle)
            assert bench.knobs.preempt(node) == 1, "wanted the stand-in to take it back"
        return ProbeResult(CLOSED, "refused") if node.handle in died else ProbeResult()

    began = bench.store.now()
    wanted = bench.spec(bench.ask(kind, wait_s=3_600))._replace(probe=probe)
    try:
        record = bench.run(operations.create(bench.world, wanted, GENERATION))
    except AllFailed as failed:
        attempts = failed.attempts
    else:
        attempts = record.attempts
        assert (record.status, len(record.handles)) == (
            RUNNING,
            1,
        ), f"wanted one that runs, found {record.status} {record.handles} {record.reasons}"
        assert record.handles[0] not in died
    assert attempts[0].outcome == "HalfMade", f"wanted the first one released, found {attempts[0]}"
    assert bench.store.now() - began < 1_800, (
        f"wanted an end soon, found one after {bench.store.now() - began:.0f}s"
    )
    up = [machine for machine in bench.knobs.running() if machine.status == "RUNNING"]
    assert len(up) == (attempts[-1].outcome == "acquired"), (
        f"wanted nothing of the first one, found {up}"
    )
    bench.run(operations.settle(bench.world, OWNER))


def a_vanished_machine_is_noticed(bench: Bench) -> None:
    """The engine's read of a machine that somebody else deleted answers that there is none."""
    record = _created(bench)
    bench.vanish(record.handles)
    seen = bench.run(operations.read(bench.world, record))
    assert seen is None, f"wanted none, found {seen.status}"
    _deleted(bench, record)


def an_unreachable_cloud_changes_nothing(bench: Bench) -> None:
    """While the cloud refuses every call, a read keeps the record and warns; a delete says what may
    still cost money, and works later.
    """
    record = _created(bench)
    world = bench.world
    bench.store.add_fault(bench.name, "*", "unauthorized", None)
    seen = bench.run(operations.read(world, record))
    assert seen is not None, "wanted it kept, found it dropped"
    assert seen.detail.startswith("unreachable: "), f"wanted it told as unreachable, found {seen}"
    assert seen._replace(detail=record.detail) == record
    assert any(line.startswith("warning: ") for line in bench.said), (
        f"wanted a warning, found {bench.said}"
    )
    try:
        bench.run(operations.delete(world, record))
    except CloudError as error:
        assert record.handles[0].native_id in str(error), f"wanted the machine named, found {error}"
    else:
        raise AssertionError(
            "wanted a delete that reaches nothing to fail, found that it succeeded"
        )
    bench.knobs.heal()
    bench.exist(1, "while unreachable")
    _deleted(bench, record)


def the_engine_waits_for_a_deletion_that_lags(bench: Bench) -> None:
    """Delete returns only once the machine is gone, five minutes later here."""
    record = _created(bench)
    bench.knobs.delay_delete(300.0)
    before = bench.store.now()
    _deleted(bench, record)
    assert bench.store.now() - before >= 300, "wanted the deletion waited for"


def an_owners_release_leaves_others_alone(bench: Bench) -> None:
    """Releasing one owner deletes all of its machines and none of another's."""
    mine = _created(bench)
    theirs = bench.run(operations.create(bench.world, bench.spec(owner=OTHER), GENERATION))
    bench.exist(2, "two owners")
    assert {node.handle for node in bench.run(operations.settle(bench.world, OWNER))} == set(
        mine.handles
    )
    bench.exist(1, "another owner's")
    _deleted(bench, theirs)
