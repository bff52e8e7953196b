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
        self.said = []
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

    def read(self, held):
        return asyncio.run(operations.read(self.world, held))

    def update(self, held, wanted=None):
        return asyncio.run(operations.update(self.world, held, wanted or self.wanted()))

    def delete(self, held) -> None:
        asyncio.run(operations.delete(self.world, held))

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
    held = rig.create()
    assert (
        held.status,
        held.kind,
        held.gpu_type,
        held.region,
        held.zone,
    ) == ("running", "job", "L4", "us-central1", "")
    rig.store.advance(60)
    held = rig.read(held)
    assert (
        held.status == "ended" and held.machines[0].detail == "exit code 0" and held.reasons == ()
    )
    assert any("the job is done" in line for line in rig.said)
    assert held == ClusterRecord.from_dict(held.to_dict())
    rig.store.advance(30 * 86_400)
    held = rig.read(held)
    assert "ended" == held.status == rig.update(held).status
    again = rig.create(generation="g2")
    assert ("ended", held.handles, 1) == (again.status, again.handles, rig.sent())
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
    held = rig.create()
    rig.store.advance(60)
    held = rig.read(held)
    assert (held.status, held.reasons) == ("failed", ()) and "non-zero status of 3" in held.detail
    assert any("the job failed" in line for line in rig.said)
    assert rig.update(held).status == "failed" and rig.sent() == 1
    rig.delete(held)
    rig.store.clear_faults()
    rig.store.set_latency("vertex", "job", 9_000)
    late = rig.create(rig.wanted(ttl="1h", run="2"), "g2")
    rig.store.advance(3_700)
    late = rig.read(late)
    assert late.status == "failed" and "expired" in late.detail and rig.sent() == 2


def test_a_job_that_somebody_cancelled_is_done_and_not_gone(rig) -> None:
    """Cancelled at Google's console: the state says failed, cancelled; nothing is bought again."""
    held = rig.create()
    rig.world.adapter("vertex").real._client.call(
        lambda s: s.projects()
        .locations()
        .customJobs()
        .cancel(name=held.handles[0].native_id, body={}),
        _context(),
    )
    rig.store.advance(10)
    held = rig.read(held)
    assert (
        (held.status, held.detail) == ("failed", "cancelled")
        and rig.update(held).status == "failed"
        and rig.sent() == 1
    )
    rig.delete(held)


def _context():
    from providers.adapters.gcp.errors import Context

    return Context("a test")


def test_release_is_a_cancel_seen_to_its_end(rig) -> None:
    """A running job is cancelled once, and delete returns only when it is in its final state; again
    is fine.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.set_latency("vertex", "delete", 90)
    held = rig.create()
    begun = rig.store.now()
    rig.delete(held)
    assert (
        90 <= rig.store.now() - begun < 600
        and rig.live() == ()
        and rig.sent("customJobs.cancel") == 1
    )
    rig.delete(held)
    assert rig.sent("customJobs.cancel") == 1 and rig.sent("customJobs.delete") == 0


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_answer_is_one_job(rig, fault) -> None:
    """Vertex AI made it and the answer was lost: it is found by the order's label, and no second
    request is sent.
    """
    rig.store.add_fault("vertex", "customJobs.create", fault)
    held = rig.create()
    assert (held.status, rig.sent(), len(rig.live())) == ("running", 1, 1)


def test_a_request_that_arrives_twice_is_one_job(rig) -> None:
    """There is no request id: the second job is cancelled before the order counts as done."""
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "twice")
    held = rig.create()
    assert (held.status, rig.sent(), rig.sent("customJobs.cancel")) == ("running", 1, 1)
    assert len(rig.live()) == 1 and len(rig.world.adapter("vertex").find("owner1")) == 1
    assert rig.read(held).reasons == ()


def test_a_late_request_is_no_second_job(rig) -> None:
    """The connection broke and the request is carried out later: what it made is found, or ended
    with the rest; one job is left.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "overtaken", seconds=0.4)
    held = rig.create()
    assert held.status == "running" and len(rig.live()) == 1
    rig.delete(held)
    assert rig.live() == ()


def test_an_answer_that_cannot_be_settled_buys_nothing_else(rig) -> None:
    """The answer is lost and the list cannot be had: unsettled, one request; later the same job is
    found and taken over.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    rig.store.add_fault("vertex", "customJobs.create", "reply-lost")
    fault = rig.store.add_fault("vertex", "customJobs.list", "unavailable", None)
    held = rig.create()
    assert (
        held.status == "unsettled"
        and "nothing else is bought" in held.reasons[0]
        and rig.sent() == 1
    )
    assert (
        fault
        and len(rig.world.journal.orders("rehearsal", "owner1", states=order_table.PENDING)) == 1
    )
    rig.store.clear_faults()
    after = rig.update(held)
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
    held = rig.create()
    assert (held.status, held.region) == ("running", "europe-west4")
    assert {"NoCapacity", "acquired"} == {
        attempt.outcome for attempt in held.attempts
    } and held.attempts[0].code == "8"
    assert len(rig.world.adapter("vertex").find("owner1")) == 1
    rig.store.set_stock("vertex", "europe-west4", "", "", 0)
    rig.delete(held)
    with pytest.raises(AllFailed):
        rig.create(generation="g2")
    assert rig.live() == () and list(rig.world.adapter("vertex").find("owner1")) == []


def test_a_job_that_does_not_start_in_time_is_the_next_region(rig) -> None:
    """Stuck in PENDING past the wait: cancelled, seen cancelled, and the next place is asked."""
    rig.store.add_fault("vertex", "customJobs.create", "slow", seconds=3_000)
    held = rig.create()
    assert held.status == "running" and "no machine within 2m" in held.attempts[0].message
    assert rig.sent("customJobs.cancel") == 1 and len(rig.live()) == 1


def test_a_limit_is_told_with_its_name_and_not_asked_again_there(rig) -> None:
    """The account's limit ends that GPU in that region; another region has its own."""
    rig.store.set_quota("vertex", "us-central1", "custom_model_training_nvidia_l4_gpus", 0)
    held = rig.create()
    assert held.region == "europe-west4" and held.attempts[0].outcome == "QuotaExceeded"
    assert sum(attempt.region == "us-central1" for attempt in held.attempts) == 1
    assert (
        "custom_model_training_nvidia_l4_gpus" in held.attempts[0].message
        and "iam-admin/quotas" in held.attempts[0].message
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
    held = rig.create(wanted)
    assert held.capacity == "spot" and console.preempt(rig.store, held.machines[0].name) == 1
    rig.store.advance(30)
    seen = rig.read(held)
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
    held = rig.create(wanted)
    assert held.status == "queued" and rig.sent() == 1 and "queue" in held.reasons[0]
    rig.delete(held)
    assert rig.live() == ()


def test_several_nodes_are_one_job(rig) -> None:
    """Two nodes: a pool of one and a pool of the rest, two handles, one cancel."""
    rig.store.set_latency("vertex", "job", 90_000)
    held = rig.create(rig.wanted(nodes=3))
    assert (
        (len(held.handles), held.status) == (3, "running")
        and rig.sent() == 1
        and len(rig.live()) == 3
    )
    assert [handle.native_id.rsplit("/", 1)[-1] for handle in held.handles] == ["0", "1", "2"]
    rig.delete(held)
    assert rig.live() == () and rig.sent("customJobs.cancel") == 1


def test_a_stray_job_can_be_taken_over_by_its_native_id(rig) -> None:
    """`pulumi import` of a job: what it is, in which project, whose it is."""
    held = rig.create()
    found = asyncio.run(operations.adopt_stray(rig.world, "vertex", held.handles[0].native_id))
    assert (
        found.kind,
        found.owner,
        found.cluster,
        found.generation,
        found.gpu_type,
    ) == ("job", "owner1", "train", "g1", "L4")


def test_releasing_the_owner_ends_what_a_killed_run_left(rig) -> None:
    """An order of a killed run is settled and its job cancelled, without a cluster that knows of
    it.
    """
    rig.store.set_latency("vertex", "job", 90_000)
    held = rig.create()
    other = rig.opened()
    try:
        assert list(held.handles) == [
            node.handle for node in asyncio.run(operations.settle(other, "owner1"))
        ]
        assert rig.live() == ()
    finally:
        other.close()


def test_a_delete_that_reaches_nothing_says_what_may_still_cost_money(rig) -> None:
    """While Vertex AI refuses every call, destroy names the job."""
    rig.store.set_latency("vertex", "job", 90_000)
    held = rig.create()
    rig.store.add_fault("vertex", "*", "unauthorized", None)
    with pytest.raises(HalfMade, match="customJobs"):
        rig.delete(held)
    rig.store.clear_faults()
    rig.delete(held)
    assert rig.live() == ()


def test_vertex_is_the_fallback_of_compute_engine(rig) -> None:
    """One declaration: the machine first; where there is none, the custom job."""
    rig.store.set_stock("gcp", "", "", "", 0)
    held = rig.create(rig.wanted(providers=["gcp", "vertex"], regions=["us-central1"]))
    assert (held.provider, held.status) == ("vertex", "running")
    assert {"gcp", "vertex"} == {attempt.provider for attempt in held.attempts}
