"""The wait from "it runs" to "it can be worked on": what ends it, when, and that nothing stays that
was not ready.
"""

import asyncio
from typing import Never

import pytest

from providers import errors
from providers.engine import operations
from providers.engine.readiness.wait import LOOK_FIRST_S
from providers.model.machine import FAILED, GONE, PREEMPTED, Handle
from providers.remote.probe import CLOSED, NO_ADDRESS, NO_DRIVER, WRONG_GPUS, ProbeResult
from providers.testing.fake_adapter import lost
from tests.engine.cases import Killed, ask, run, wanted


class Staged:
    """A probe that finds what `story` says: (seconds since the first look, what is then seen);
    ready after the last.
    """

    def __init__(self, lab, *story, ready_after=None, on=None) -> None:
        self.lab, self.story, self.on = lab, story, on or (lambda _node, _seconds: None)
        self.looks: list[tuple[str, float, ProbeResult]] = []
        self.began: dict[Handle, float] = {}

    async def __call__(self, node, placed):
        began = self.began.setdefault(node.handle, self.lab.clock.now())
        seconds = self.lab.clock.now() - began
        self.on(node, seconds)
        found = next((look for until, look in self.story if seconds < until), ProbeResult())
        self.looks.append((node.name, seconds, found))
        return found


def create(lab, probe, want=None, **more):
    world = lab.world()
    return world, run(
        operations.create(world, (want or wanted(ask(**more)))._replace(probe=probe), "g1")
    )


FOREVER = float("inf")


@pytest.mark.parametrize(("status", "after"), [(PREEMPTED, 60), (FAILED, 5), (GONE, 60)])
def test_b30_a_machine_that_its_cloud_ended_is_waited_for_no_longer_than_one_poll(
    lab, status, after
) -> None:
    """Preempted after 60 s while ssh is refused, or failed at 5 s: the wait ends within one poll of
    the new status, and the next place is asked.
    """
    ended: dict[str, float] = {}

    def end(node, seconds) -> None:
        if node.region == "north" and seconds >= after and not ended:
            lab.alpha.set_status(node.handle, status)
            ended["at"] = lab.clock.now()

    class North(Staged):
        async def __call__(self, node, placed):
            if node.region != "north":
                return ProbeResult()
            return await super().__call__(node, placed)

    probe = North(lab, (FOREVER, ProbeResult(CLOSED, "refused")), on=end)
    _, record = create(lab, probe)
    assert record.placement.region == "south" and record.status == "running"
    first = record.attempts[0]
    assert (first.outcome, first.code) == (
        "HalfMade",
        status,
    ) and "port closed: refused" in first.message
    assert ended["at"] - first.started_at - lab.alpha.create_s <= after + 5
    assert first.started_at + first.seconds - ended["at"] <= 5 + 2 * lab.alpha.delete_s
    assert [node.region for node in lab.alive] == ["south"]


def test_b30_a_port_that_comes_late_is_waited_for(lab) -> None:
    """Running without a port for 170 s, then ready: it is kept, and one place was asked."""
    probe = Staged(lab, (170, ProbeResult(NO_ADDRESS, "its ssh port is not mapped yet")))
    _, record = create(lab, probe)
    assert record.placement.region == "north" and len(record.attempts) == 1 == len(lab.alive)
    assert 170 <= probe.looks[-1][1] <= 176
    assert lab.said("waiting until it is ready: no address")


@pytest.mark.parametrize("owned", [True, False])
def test_a_machine_of_ones_own_is_asked_twice_before_any_pause(lab, owned) -> None:
    """It was there at once, and a short job on it is over by now: another cloud's has to boot."""
    lab.alpha.capabilities = lab.alpha.capabilities._replace(owned=owned)
    looks: list[float] = []

    async def probe(_node, _placed):
        looks.append(lab.clock.now())
        return ProbeResult(CLOSED, "refused") if len(looks) == 1 else ProbeResult()

    create(lab, probe)
    first, second = looks
    assert (second - first < LOOK_FIRST_S) is owned


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (ProbeResult(NO_ADDRESS, "the cloud has told none yet"), "no address"),
        (ProbeResult(CLOSED, "10.0.0.1:22: refused"), "port closed"),
        (ProbeResult(NO_DRIVER, "nvidia-smi ended with 9"), "no driver"),
    ],
)
def test_b30_the_wait_is_the_only_time_out_and_the_reason_names_the_stage(lab, look, words) -> None:
    """When the wait has passed the rental is ended, the reason says how far it got, and the walk
    goes on to its end.
    """
    probe = Staged(lab, (FOREVER, look))
    with pytest.raises(errors.AllFailed) as failed:
        create(lab, probe, wait_s=600)
    assert lab.alive == []
    for attempt in failed.value.attempts:
        assert (
            attempt.code == look.stage and words in attempt.message and "within" in attempt.message
        )
        assert 600 <= attempt.seconds <= 600 + 10


def test_b32_seven_of_eight_gpus_end_the_rental_at_once(lab) -> None:
    """No driver for three minutes is waited out; seven of eight GPUs then are a failure with a
    clear reason, and the next place is asked.
    """

    class Once(Staged):
        async def __call__(self, node, placed):
            return await super().__call__(node, placed) if node.region == "north" else ProbeResult()

    probe = Once(
        lab,
        (180, ProbeResult(NO_DRIVER, "not found")),
        (FOREVER, ProbeResult(WRONG_GPUS, "7 of 8 GPUs answer", final=True)),
    )
    _, record = create(lab, probe)
    assert record.placement.region == "south"
    first = record.attempts[0]
    assert (
        first.code == WRONG_GPUS
        and "7 of 8 GPUs answer" in first.message
        and 180 <= first.seconds <= 190
    )
    assert len(lab.alive) == 1


def test_without_a_probe_nobody_looks(lab) -> None:
    """A declaration without a key at hand is launched as before: what the cloud's API says will do."""
    _, record = create(lab, None)
    assert record.status == "running" and lab.alpha.calls["observe"] == 1


def test_a_cloud_that_cannot_be_asked_for_a_moment_does_not_end_the_wait(lab) -> None:
    """A passing fault of the look at the cloud is a warning; the wait goes on."""
    probe = Staged(
        lab,
        (30, ProbeResult(CLOSED)),
        on=lambda _node, seconds: (
            lab.alpha.fail("observe", errors.Transient("try later", provider="alpha"))
            if 5 < seconds < 9
            else None
        ),
    )
    _, record = create(lab, probe)
    assert record.placement.region == "north" and lab.said(
        "could not be asked how its machines are"
    )


def test_killed_during_the_wait_the_next_run_goes_on_with_that_machine(lab) -> None:
    """Killed while it waited: the next run waits for that machine, buys nothing, and takes it over
    once it is ready.
    """

    async def killed(_node, _placed) -> Never:
        raise Killed

    with pytest.raises(Killed):
        create(lab, killed)
    probe = Staged(lab, (20, ProbeResult(NO_DRIVER)))
    world = lab.world()
    record = run(operations.create(world, wanted()._replace(probe=probe), "g2"))
    assert lab.creates == len(lab.alive) == 1 and record.generation == "g2"
    assert (
        probe.looks
        and world.journal.orders("rehearsal", "own", states=("intent", "unsettled")) == ()
    )


def test_what_was_left_and_never_gets_ready_is_replaced(lab) -> None:
    """An earlier run's machine that serves the declaration, but has lost a GPU, is deleted,
    confirmed, before another one is bought.
    """
    run(operations.create(lab.world(), wanted(), "g1"))
    old = lab.alive[0].handle

    async def probe(node, _placed):
        return (
            ProbeResult(WRONG_GPUS, "7 of 8", final=True) if node.handle == old else ProbeResult()
        )

    record = run(operations.create(lab.world(), wanted()._replace(probe=probe), "g2"))
    assert [node.handle for node in lab.alive] == list(record.handles) != [old]


def test_cancelled_during_the_wait_nothing_is_left(lab) -> None:
    """A caller that is gone while the machine gets ready: it is released before the cancellation
    goes on.
    """
    world = lab.world()

    async def main() -> None:
        waiting = asyncio.Event()

        async def probe(_node, _placed):
            waiting.set()
            return ProbeResult(CLOSED)

        task = asyncio.ensure_future(operations.create(world, wanted()._replace(probe=probe), "g1"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert (
        lab.alive == []
        and world.journal.orders("rehearsal", "own", states=("intent", "unsettled", "made")) == ()
    )


def test_unready_and_not_deletable_stays_in_the_record(lab) -> None:
    """What is not ready and cannot be deleted ends the walk: it is named with what it costs, and
    nothing else is bought.
    """
    lab.alpha.fail("delete", errors.Transient("later", provider="alpha"), times=FOREVER)

    async def probe(_node, _placed):
        return ProbeResult(WRONG_GPUS, "7 of 8", final=True)

    _, record = create(lab, probe)
    assert record.status == "unsettled" and "still cost" in record.reasons[0] and lab.creates == 1


def test_an_answer_that_was_lost_is_still_probed(lab) -> None:
    """A create whose answer was lost is found by its token, and looked at like any other."""
    lab.alpha.fail("submit", lost("alpha"), after=True)
    probe = Staged(lab)
    _, record = create(lab, probe)
    assert record.status == "running" and probe.looks and lab.creates == 1


def test_b30_two_machines_in_a_row_out_of_reach_end_the_buying_at_that_cloud(lab) -> None:
    """Each costs its whole wait: after two that could not be reached the cloud is left for this
    run, and another one is asked.
    """

    async def probe(node, _placed):
        return (
            ProbeResult(CLOSED, "no answer") if node.handle.provider == "alpha" else ProbeResult()
        )

    _, record = create(lab, probe, wait_s=30)
    assert record.provider == "beta" and [attempt.code for attempt in record.attempts] == [
        "port-closed",
        "port-closed",
        "",
    ]
    assert lab.said("alpha: 2 machines in a row could not be reached from here")


def test_two_machines_in_a_row_not_ready_in_time_end_the_buying_at_that_cloud(lab) -> None:
    """A driver that is slow to come would be slow at 100 places of that cloud too; the places are
    not called sold out, and are not blocked.
    """

    async def probe(node, _placed):
        return (
            ProbeResult(NO_DRIVER, "loading") if node.handle.provider == "alpha" else ProbeResult()
        )

    world, record = create(lab, probe, wait_s=30)
    assert record.provider == "beta" and [attempt.outcome for attempt in record.attempts] == [
        "NotReady",
        "NotReady",
        "acquired",
    ]
    assert lab.said("started, not ready in time; released") and not lab.said("sold out")
    assert lab.said("alpha: 2 machines in a row were not ready within 30s")
    assert world.journal.blocks("rehearsal") == ()
