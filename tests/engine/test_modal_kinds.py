"""Jobs and services through the engine, over the rehearsal's Modal, with a clock that does not
wait.
"""

import asyncio
from typing import Any

import pytest

from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.messages import moment
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock

JOB = {
    "kind": "job",
    "gpu": "L4",
    "providers": ["modal"],
    "wait": "2m",
    "options": {"modal": {"command": "python train.py"}},
}
SERVICE: dict[str, Any] = {
    **JOB,
    "kind": "service",
    "options": {
        "modal": {
            "command": "python serve.py",
            "port": 8000,
            "min_containers": 1,
            "max_containers": 2,
        }
    },
}


class Rig:
    def __init__(self) -> None:
        self.store = open_store()
        self.said: list[str] = []
        self.world = open_world(
            "rehearsal",
            {},
            lambda _severity, text: self.said.append(text),
            clock=StoreClock(self.store),
        )

    def wanted(self, spec, **fields):
        made = read_cluster("train", {**spec, **fields})
        return ClusterSpec("owner1", "train", made.ask(), made.setup(), made.fingerprint())

    def run(self, work):
        return asyncio.run(work)

    def create(self, wanted, generation="g1"):
        return self.run(operations.create(self.world, wanted, generation))

    def read(self, record):
        return self.run(operations.read(self.world, record))

    def live(self):
        return (
            self.store.connection()
            .execute("SELECT name FROM modal_deployed WHERE state = 'DEPLOYED'")
            .fetchall()
        )

    def sent(self, method):
        return len(self.store.requests(method))


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    made = Rig()
    yield made
    made.world.close()


def test_a_finished_job_is_done_and_never_bought_again(rig) -> None:
    """It ends, is read as ended for ever, an update leaves it, another run of the program with the
    same spec adopts it; delete leaves nothing.
    """
    record = rig.create(rig.wanted(JOB))
    assert (record.status, record.kind, record.placement.gpu_type, record.reasons) == (
        "running",
        "job",
        "L4",
        (),
    )
    rig.store.advance(60)
    record = rig.read(record)
    assert record.status == "ended" and "exit code 0" in record.machines[0].detail
    assert any("the job is done" in line and "exit code 0" in line for line in rig.said)
    assert record == ClusterRecord.from_dict(record.to_dict())
    rig.store.advance(30 * 86_400)
    record = rig.read(record)
    assert (
        "ended"
        == record.status
        == rig.run(operations.update(rig.world, record, rig.wanted(JOB))).status
    )
    again = rig.create(rig.wanted(JOB), "g2")
    assert ("ended", record.handles) == (again.status, again.handles) and rig.sent(
        "FunctionMap"
    ) == 1
    rig.run(operations.delete(rig.world, again))
    assert rig.live() == []


def test_a_failed_job_stays_failed(rig) -> None:
    """A command that fails is told once, with its exit code, and bought no second time; not even
    when Modal forgets the app.
    """
    rig.store.add_fault("modal", "FunctionMap", "op-error", code="7")
    record = rig.create(rig.wanted(JOB))
    rig.store.advance(60)
    record = rig.read(record)
    assert (record.status, record.reasons) == ("failed", ())
    assert any("the job failed" in line and "exit code 7" in line for line in rig.said)
    assert rig.run(operations.update(rig.world, record, rig.wanted(JOB))).status == "failed"
    asyncio.run(rig.world.call("modal", rig.world.adapter("modal").delete, record.handles[0]))
    rig.store.advance(60)
    assert rig.read(record).status == "failed" and rig.sent("FunctionMap") == 1


def test_a_job_that_is_over_at_the_first_look_was_had(rig) -> None:
    """A job shorter than the first poll counts as launched: nothing is deleted and nothing bought twice."""
    rig.store.set_latency("modal", "job", 0.1)
    rig.store.set_latency("modal", "create", 0.1)
    record = rig.create(rig.wanted(JOB))
    assert (record.status, rig.sent("FunctionMap")) == ("ended", 1) and [
        attempt.outcome for attempt in record.attempts
    ] == ["acquired"]


def test_a_running_job_that_is_gone_is_told(rig) -> None:
    """An app that somebody stopped while its job ran is gone: the next `up` makes a new one."""
    record = rig.create(rig.wanted(JOB))
    asyncio.run(rig.world.call("modal", rig.world.adapter("modal").delete, record.handles[0]))
    rig.store.advance(60)
    assert rig.read(record) is None


def test_another_run_is_another_job(rig) -> None:
    """A rerun is another fingerprint: what the earlier run left is deleted first, then a
    new job is started.
    """
    first = rig.create(rig.wanted(JOB, triggers={"rerun": 1}))
    second = rig.create(rig.wanted(JOB, triggers={"rerun": 2}), "g2")
    assert first.handles != second.handles and len(rig.live()) == 1 and rig.sent("FunctionMap") == 2


@pytest.mark.parametrize("fault", ["reply-lost", "error-after"])
def test_a_lost_start_is_one_job(rig, fault) -> None:
    """Modal started it and the answer was lost: the engine finds that one."""
    rig.store.add_fault("modal", "FunctionMap", fault)
    record = rig.create(rig.wanted(JOB))
    assert (record.status, rig.sent("FunctionMap"), len(rig.live())) == ("running", 1, 1)


def test_a_start_that_never_arrived_is_sent_again(rig) -> None:
    """No answer and nothing made: once that is certain it is asked for again, in the same app, and
    there is one job.
    """
    rig.store.add_fault("modal", "FunctionMap", "unavailable")
    record = rig.create(rig.wanted(JOB))
    assert (record.status, len(rig.live())) == ("running", 1)
    assert rig.store.connection().execute("SELECT count(*) FROM modal_call").fetchone()[0] == 1


@pytest.mark.parametrize("spec", [JOB, SERVICE], ids=["job", "service"])
def test_a_queue_that_never_moves_leaves_nothing(rig, spec) -> None:
    """Modal starts nothing: one line, one attempt for the whole list, and no app is left."""
    rig.store.set_stock("modal", "", "", "", 0)
    until = moment(rig.world.clock.now() + 120)
    with pytest.raises(AllFailed, match="modal any region container L4:1"):
        rig.create(rig.wanted(spec, fallback=["A10"]))
    (told,) = [line for line in rig.said if "waits until" in line]
    assert told.startswith("#1 modal any region L4:1 on-demand")
    assert until.partition(" ")[2] in told
    assert rig.live() == [] and rig.sent("AppPublish") == 1


@pytest.mark.parametrize("spec", [JOB, SERVICE], ids=["job", "service"])
def test_b46_destroy_waits_until_no_container_is_listed(rig, spec) -> None:
    """The stop is accepted at once; destroy is done when the container is off the list, within its
    bounded wait.
    """
    rig.store.set_latency("modal", "delete", 90)
    record = rig.create(rig.wanted(spec))
    begun = rig.store.now()
    rig.run(operations.delete(rig.world, record))
    assert 90 <= rig.store.now() - begun < 600 and rig.live() == []


def test_b46_destroy_says_what_is_left_when_the_list_never_empties(rig) -> None:
    """A container that stays listed for days: destroy ends with what may still cost money, and can
    be run again.
    """
    from providers.errors import HalfMade

    rig.store.set_latency("modal", "delete", 3 * 86_400)
    record = rig.create(rig.wanted(SERVICE))
    with pytest.raises(HalfMade, match="may still cost"):
        rig.run(operations.delete(rig.world, record))
    rig.store.advance(3 * 86_400)
    rig.run(operations.delete(rig.world, record))


def test_a_service_is_updated_in_place_at_its_new_price(rig) -> None:
    """More containers: the same app is deployed anew once, and the price is that of the new bounds;
    nothing else changes.
    """
    record = rig.create(rig.wanted(SERVICE))
    assert record.machines[0].url.startswith("https://") and record.price.micro_usd == 1_612_188
    more = {"modal": {**SERVICE["options"]["modal"], "max_containers": 4}}
    after = rig.run(operations.update(rig.world, record, rig.wanted(SERVICE, options=more)))
    assert (record.handles, 2 * 1_612_188, 2) == (
        after.handles,
        after.price.micro_usd,
        rig.sent("AppPublish"),
    )
    again = rig.run(operations.update(rig.world, after, rig.wanted(SERVICE, options=more)))
    assert (after.price.micro_usd, 2) == (again.price.micro_usd, rig.sent("AppPublish"))
    public = rig.run(
        operations.update(rig.world, again, rig.wanted(SERVICE, options=more, expose="public"))
    )
    assert (rig.sent("AppPublish"), public.reasons) == (3, ())


def test_a_drifted_service_is_told_and_deployed_anew(rig) -> None:
    """Somebody raised the floor at Modal: the read names it as still to be done, the next update
    deploys the declaration, in place.
    """
    record = rig.create(rig.wanted(SERVICE))
    rig.world.adapter("modal").real.functions.apps.scale(record.machines[0].name, 5)
    drifted = rig.read(record)
    assert drifted.status == "running" and "min_containers is 5 instead of 1" in drifted.reasons[0]
    after = rig.run(operations.update(rig.world, drifted, rig.wanted(SERVICE)))
    assert ((), record.handles, ()) == (after.reasons, after.handles, rig.read(after).reasons)


def test_one_walk_takes_the_whole_list(rig) -> None:
    """The fallbacks of one count go out as one order; what Modal gave is what is held, at its
    price.
    """
    rig.store.set_stock("modal", "", "", "", 0, gpu="L4")
    record = rig.create(rig.wanted(JOB, fallback=["A10"]))
    assert (
        record.placement.gpu_type,
        record.entry,
        rig.sent("AppPublish"),
    ) == ("A10", 1, 1) and record.price.micro_usd == 1_108_494


def test_a_killed_runs_service_is_adopted(rig) -> None:
    """What an earlier run deployed for the same declaration is taken over, with a new generation; a
    orphan is settled away.
    """
    record = rig.create(rig.wanted(SERVICE))
    again = rig.create(rig.wanted(SERVICE), "g2")
    assert (record.handles, "service", 1) == (again.handles, again.kind, rig.sent("AppPublish"))
    assert again.machines[0].label.generation == "g2"
    assert len(rig.run(operations.settle(rig.world, "owner1"))) == 1 and rig.live() == []
