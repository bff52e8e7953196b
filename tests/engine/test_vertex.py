"""Vertex AI's custom jobs through the engine, over the rehearsal's own cloud, with a clock that
does not wait.
"""

import asyncio

import pytest

from providers.adapters.gcp.vertex import adapter
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.journal import orders as order_table
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed, HalfMade
from providers.home import home
from providers.model.spec import read_cluster
from providers.rehearsal.clouds.vertex import console
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock
from tests.present import present

JOB = {
    "kind": "job",
    "gpu": "L4",
    "providers": ["vertex"],
    "regions": ["us-central1", "europe-west4"],
    "wait": "2m",
    "workload": {"image": "some/image:1", "command": "python train.py"},
}
RATES = {"overrides": [{"provider": "vertex", "price_usd_per_hour": 0.5}]}


class Rig:
    def __init__(self) -> None:
        self.store = open_store()
        self.said: list[str] = []
        self.world = self.opened()

    def opened(self):
        return open_world(
            "rehearsal",
            {},
            lambda _severity, text: self.said.append(text),
            clock=StoreClock(self.store),
        )

    def wanted(self, spec=JOB, **fields):
        made = read_cluster("train", {**spec, **fields})
        return ClusterSpec("owner1", "train", made.ask(), made.setup(), made.fingerprint())

    def create(self, wanted=None, generation="g1"):
        return asyncio.run(operations.create(self.world, wanted or self.wanted(), generation))

    def read(self, record):
        return asyncio.run(operations.read(self.world, record))

    def update(self, record, wanted=None):
        return asyncio.run(operations.update(self.world, record, wanted or self.wanted()))

    def delete(self, record) -> None:
        asyncio.run(operations.delete(self.world, record))

    def sent(self, method="customJobs.create"):
        return len(self.store.requests(method))

    def live(self):
        return console.running(self.store)


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    # All 20 regions are looked through in tests/unit/vertex/test_wire.py.
    monkeypatch.setattr(adapter, "LOCATIONS", frozenset(JOB["regions"]))
    made = Rig()
    yield made
    made.world.close()


def test_a_finished_job_is_done_and_never_bought_again(rig) -> None:
    """It runs, ends, is read as ended for ever; an update leaves it; the same declaration from
    another run adopts it; delete removes its record.
    """
    record = rig.create()
    assert (
        record.status,
        record.kind,
        record.placement.gpu_type,
        record.placement.region,
        record.placement.zone,
    ) == ("running", "job", "L4", "us-central1", "")
    rig.store.advance(60)
    record = rig.read(record)
    assert (
        record.status == "ended"
        and record.machines[0].detail == "exit code 0"
        and record.reasons == ()
    )
    assert any("the job is done" in line for line in rig.said)
    assert record == ClusterRecord.from_dict(record.to_dict())
    rig.store.advance(30 * 86_400)
    record = rig.read(record)
    assert "ended" == record.status == rig.update(record).status
    again = rig.create(generation="g2")
    assert ("ended", record.handles, 1) == (again.status, again.handles, rig.sent())
    rig.delete(again)
    assert (
        rig.live() == ()
        and rig.sent("customJobs.delete") == 1
        and list(rig.world.adapter("vertex").find("owner1")) == []
    )


def test_a_job_that_was_taken_over_ends_with_the_generation_that_has_it(rig) -> None:
    """A job's label keeps its first generation. Another machine, which has the state alone, ends
    it; here the generation that lost it does not.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    first = rig.create()
    second = rig.create(generation="g2")
    assert first.handles == second.handles and rig.sent() == 1
    rig.delete(first)
    assert len(rig.live()) == 1
    for file in home().glob("journal.db*"):
        file.unlink()
    elsewhere = open_world("rehearsal")
    asyncio.run(operations.delete(elsewhere, second))
    elsewhere.close()
    assert rig.live() == () and rig.sent("customJobs.cancel") == 1


def test_a_failed_job_stays_failed(rig) -> None:
    """A job whose code ends badly is told once, with Google's words, and bought no second time;
    neither is one that ran into its timeout.
    """
    rig.store.add_fault("vertex", "node.work", "job-fails", None, code=3)
    record = rig.create()
    rig.store.advance(60)
    record = rig.read(record)
    assert (record.status, record.reasons) == (
        "failed",
        (),
    ) and "non-zero status of 3" in record.detail
    assert any("the job failed" in line for line in rig.said)
    assert rig.update(record).status == "failed" and rig.sent() == 1
    rig.delete(record)
    rig.store.clear_faults()
    rig.store.set_latency("vertex", "job", 9_000)
    late = rig.create(rig.wanted(ttl="1h", triggers={"rerun": 2}), "g2")
    rig.store.advance(3_700)
    late = rig.read(late)
    assert late.status == "failed" and "expired" in late.detail and rig.sent() == 2


def test_a_job_that_somebody_cancelled_is_done_and_not_gone(rig) -> None:
    """Cancelled at Google's console: the state says failed, cancelled; nothing is bought again."""
    record = rig.create()
    rig.world.adapter("vertex").real.client.call(
        lambda s: s.projects()
        .locations()
        .customJobs()
        .cancel(name=record.handles[0].native_id, body={}),
        _context(),
    )
    rig.store.advance(10)
    record = rig.read(record)
    assert (
        (record.status, record.detail) == ("failed", "cancelled")
        and rig.update(record).status == "failed"
        and rig.sent() == 1
    )
    rig.delete(record)


def _context():
    from providers.adapters.gcp.errors import Context

    return Context("a test")


def test_release_is_a_cancel_seen_to_its_end(rig) -> None:
    """A running job is cancelled once, and delete returns only when it is in its final state; again
    is fine.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.set_latency("vertex", "delete", 90)
    record = rig.create()
    begun = rig.store.now()
    rig.delete(record)
    assert (
        90 <= rig.store.now() - begun < 600
        and rig.live() == ()
        and rig.sent("customJobs.cancel") == 1
    )
    rig.delete(record)
    assert rig.sent("customJobs.cancel") == 1 and rig.sent("customJobs.delete") == 0


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_answer_is_one_job(rig, fault) -> None:
    """Vertex AI made it and the answer was lost: it is found by the order's label, and no second
    request is sent.
    """
    rig.store.add_fault("vertex", "customJobs.create", fault)
    record = rig.create()
    assert (record.status, rig.sent(), len(rig.live())) == ("running", 1, 1)


def test_a_request_that_arrives_twice_is_one_job(rig) -> None:
    """There is no request id: the second job is cancelled before the order counts as done."""
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "twice")
    record = rig.create()
    assert (record.status, rig.sent(), rig.sent("customJobs.cancel")) == ("running", 1, 1)
    assert len(rig.live()) == 1 and len(rig.world.adapter("vertex").find("owner1")) == 1
    assert rig.read(record).reasons == ()


def test_a_late_request_is_no_second_job(rig) -> None:
    """The connection broke and the request is carried out later: what it made is found, or ended
    with the rest; one job is left.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "overtaken", seconds=0.4)
    record = rig.create()
    assert record.status == "running" and len(rig.live()) == 1
    rig.delete(record)
    assert rig.live() == ()


def test_an_answer_that_cannot_be_settled_buys_nothing_else(rig) -> None:
    """The answer is lost and the list cannot be read: unsettled, one request; later the same job is
    found and taken over.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "reply-lost")
    fault = rig.store.add_fault("vertex", "customJobs.list", "unavailable", None)
    record = rig.create()
    assert (
        record.status == "unsettled"
        and "nothing else is bought" in record.reasons[0]
        and rig.sent() == 1
    )
    assert (
        fault
        and len(rig.world.journal.orders("rehearsal", "owner1", states=order_table.PENDING)) == 1
    )
    rig.store.clear_faults()
    after = rig.update(record)
    assert (
        (after.status, after.reasons) == ("running", ())
        and rig.sent() == 1
        and len(rig.live()) == 1
    )


def test_no_room_is_the_next_region(rig) -> None:
    """A job that ends with RESOURCE_EXHAUSTED before it ran is no capacity there; its record is
    removed, and the next region is asked.
    """
    rig.store.set_stock("vertex", "us-central1", "", "", 0)
    record = rig.create()
    assert (record.status, record.placement.region) == ("running", "europe-west4")
    assert {"NoCapacity", "acquired"} == {
        attempt.outcome for attempt in record.attempts
    } and record.attempts[0].code == "8"
    assert len(rig.world.adapter("vertex").find("owner1")) == 1
    rig.store.set_stock("vertex", "europe-west4", "", "", 0)
    rig.delete(record)
    with pytest.raises(AllFailed):
        rig.create(generation="g2")
    assert rig.live() == () and list(rig.world.adapter("vertex").find("owner1")) == []


def test_a_job_that_does_not_start_in_time_is_the_next_region(rig) -> None:
    """Stuck in PENDING past the wait: cancelled, seen cancelled, and the next place is asked."""
    rig.store.add_fault("vertex", "customJobs.create", "slow", seconds=3_000)
    record = rig.create()
    assert record.status == "running" and "no machine within 2m" in record.attempts[0].message
    assert rig.sent("customJobs.cancel") == 1 and len(rig.live()) == 1


def test_a_limit_is_told_with_its_name_and_not_asked_again_there(rig) -> None:
    """The account's limit ends that GPU in that region; another region has its own."""
    rig.store.set_quota("vertex", "us-central1", "custom_model_training_nvidia_l4_gpus", 0)
    record = rig.create()
    assert (
        record.placement.region == "europe-west4" and record.attempts[0].outcome == "QuotaExceeded"
    )
    assert sum(attempt.region == "us-central1" for attempt in record.attempts) == 1
    assert (
        "custom_model_training_nvidia_l4_gpus" in record.attempts[0].message
        and "iam-admin/quotas" in record.attempts[0].message
    )


def test_missing_rights_end_the_walk_with_what_to_grant(rig) -> None:
    """Where Vertex AI alone is allowed, a refusal of the account is all there is to say."""
    from providers.errors import BadCredentials

    rig.store.add_fault("vertex", "customJobs.create", "forbidden", None)
    with pytest.raises(BadCredentials, match=r"roles/aiplatform\.user"):
        rig.create()
    assert rig.sent() == 1


def test_a_spot_job_that_was_taken_back_is_placed_anew(rig) -> None:
    """Preempted is not finished: the next update makes one new job."""
    rig.store.set_latency("vertex", "job", 90_000)
    wanted = rig.wanted(spot="only", prices=RATES)
    record = rig.create(wanted)
    assert (
        record.placement.capacity == "spot"
        and console.preempt(rig.store, record.machines[0].name) == 1
    )
    rig.store.advance(30)
    seen = rig.read(record)
    assert seen.status == "preempted"
    rig.store.advance(1_200)
    again = rig.update(seen, wanted)
    assert (
        (again.status, again.reasons) == ("running", ())
        and rig.sent() == 2
        and len(rig.live()) == 1
    )


def test_flex_start_waits_in_the_queue_and_goes_on(rig) -> None:
    """No stock: the last hope stays queued; with stock the next update has it, by the one request."""
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.set_stock("vertex", "", "", "", 0)
    wanted = rig.wanted(
        capacity=["flex-start"], prices=RATES, regions=["us-central1"], gpu="H100:8", wait="1h"
    )
    record = rig.create(wanted)
    assert record.status == "queued" and rig.sent() == 1 and "queue" in record.reasons[0]
    rig.delete(record)
    assert rig.live() == ()


def test_several_nodes_are_one_job(rig) -> None:
    """Two nodes: a pool of one and a pool of the rest, two handles, one cancel."""
    rig.store.set_latency("vertex", "job", 90_000)
    record = rig.create(rig.wanted(nodes=3))
    assert (
        (len(record.handles), record.status) == (3, "running")
        and rig.sent() == 1
        and len(rig.live()) == 3
    )
    assert [handle.native_id.rsplit("/", 1)[-1] for handle in record.handles] == ["0", "1", "2"]
    rig.delete(record)
    assert rig.live() == () and rig.sent("customJobs.cancel") == 1


def test_a_stray_job_can_be_taken_over_by_its_native_id(rig) -> None:
    """`pulumi import` of a job: what it is, in which project, whose it is."""
    record = rig.create()
    found = present(
        asyncio.run(operations.adopt_stray(rig.world, "vertex", record.handles[0].native_id))
    )
    assert (
        found.kind,
        found.owner,
        found.cluster,
        found.generation,
        found.placement.gpu_type,
    ) == ("job", "owner1", "train", "g1", "L4")


def test_releasing_the_owner_ends_what_a_killed_run_left(rig) -> None:
    """An order of a killed run is settled and its job cancelled, without a cluster that knows of
    it.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    record = rig.create()
    other = rig.opened()
    try:
        assert list(record.handles) == [
            node.handle for node in asyncio.run(operations.settle(other, "owner1"))
        ]
        assert rig.live() == ()
    finally:
        other.close()


def test_a_delete_that_reaches_nothing_says_what_may_still_cost_money(rig) -> None:
    """While Vertex AI refuses every call, destroy names the job."""
    rig.store.set_latency("vertex", "job", 90_000)
    record = rig.create()
    rig.store.add_fault("vertex", "*", "unauthorized", None)
    with pytest.raises(HalfMade, match="customJobs"):
        rig.delete(record)
    rig.store.clear_faults()
    rig.delete(record)
    assert rig.live() == ()


def test_vertex_is_the_fallback_of_compute_engine(rig) -> None:
    """One declaration: the machine first; where there is none, the custom job."""
    rig.store.set_stock("gcp", "", "", "", 0)
    record = rig.create(rig.wanted(providers=["gcp", "vertex"], regions=["us-central1"]))
    assert (record.provider, record.status) == ("vertex", "running")
    assert {"gcp", "vertex"} == {attempt.provider for attempt in record.attempts}
