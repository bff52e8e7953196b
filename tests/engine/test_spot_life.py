"""What becomes of machines that may be taken back, told apart on the clouds themselves: preempted,
stopped, ended, unreachable; and what is bought next.
"""

import asyncio
from importlib import import_module

import pytest

from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.model.spec import read_cluster
from providers.rehearsal.store import open_store
from providers.testing.harness import StoreClock
from tests.present import present

SPECS = {
    "gcp": {
        "gpu": "L4:1",
        "spot": "only",
        "providers": ["gcp"],
        "regions": ["us-central1"],
        "ttl": "20h",
    },
    "aws": {
        "gpu": "H100:8",
        "spot": "only",
        "providers": ["aws"],
        "regions": ["us-east-1"],
        "ttl": "20h",
    },
    "modal": {"gpu": "L4:1", "providers": ["modal"], "ttl": "20h"},
}


class Rig:
    def __init__(self) -> None:
        self.store = open_store()
        self.said: list[str] = []
        for provider in SPECS:
            for step in ("create", "delete", "preempt", "stop"):
                self.store.set_latency(provider, step, 0.0)
        self.world = open_world(
            "rehearsal",
            {"aws": {"regions": "us-east-1"}},
            lambda _severity, text: self.said.append(text),
            clock=StoreClock(self.store),
        )

    def made(self, provider, **fields):
        spec = read_cluster("train", {**SPECS[provider], **fields})
        cluster_spec = ClusterSpec("owner1", "train", spec.ask(), spec.setup(), spec.fingerprint())
        return cluster_spec, asyncio.run(operations.create(self.world, cluster_spec, "g1"))

    def read(self, record):
        return asyncio.run(operations.read(self.world, record))

    def update(self, record, wanted):
        return asyncio.run(operations.update(self.world, record, wanted))

    def preempt(self, record) -> None:
        assert (
            import_module(f"providers.rehearsal.clouds.{record.provider}.console").preempt(
                self.store, record.machines[0].name
            )
            == 1
        )

    def heard(self, text):
        return any(text in line for line in self.said)


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Rig()
    yield made
    made.world.close()


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_b29_preempted_and_deleted_is_gone_and_its_place_is_left_alone(rig, provider) -> None:
    """The machine went with its preemption: the look says so and names none; the next create goes
    to another place.
    """
    wanted, record = rig.made(provider)
    rig.preempt(record)
    assert rig.read(record) is None
    assert rig.heard("is gone: preempted and deleted")
    (block,) = rig.world.journal.blocks("rehearsal")
    assert block.scope.covers(record.placement) and "taken back" in block.reason
    again = asyncio.run(operations.create(rig.world, wanted, "g2"))
    assert again.placement.zone != record.placement.zone


def test_b29_a_machine_that_remains_of_a_preemption_is_preempted_not_stopped(rig) -> None:
    """With `on_ttl: keep` Google stops what it takes back: the status is preempted, and an update
    deletes it before it buys elsewhere.
    """
    wanted, record = rig.made("gcp", on_ttl="keep")
    rig.preempt(record)
    seen = rig.read(record)
    assert (seen.status, seen.reasons) == ("preempted", ()) and rig.heard("gcp took it back")
    after = rig.update(seen, wanted)
    assert after.status == "running" and after.placement.zone != record.placement.zone
    assert [node.handle for node in rig.world.adapter("gcp").find("owner1")] == list(after.handles)


def test_b29_a_modal_container_that_was_taken_back_is_preempted(rig) -> None:
    """Modal's own failure of a container is a preemption, with Modal's word for it in the detail;
    an update starts another one.
    """
    wanted, record = rig.made("modal")
    rig.preempt(record)
    seen = rig.read(record)
    assert (
        seen.status == "preempted"
        and "INTERNAL_FAILURE" in seen.detail
        and rig.heard("modal took it back")
    )
    assert rig.update(seen, wanted).status == "running"


@pytest.mark.parametrize("provider", SPECS)
@pytest.mark.parametrize("kind", ["unavailable", "forbidden"])
def test_b29_unreachable_is_never_gone(rig, provider, kind) -> None:
    """A cloud that is down, or refuses the key, is told as unreachable in the detail: the status
    stays, nothing is bought; the next look clears it.
    """
    _, record = rig.made(provider)
    rig.store.add_fault(provider, "*", kind, None)
    seen = rig.read(record)
    assert ("running", record.handles) == (seen.status, seen.handles) and seen.detail.startswith(
        "unreachable: "
    )
    rig.store.clear_faults()
    assert (rig.read(seen).status, rig.read(seen).detail) == ("running", "")


@pytest.mark.parametrize("provider", SPECS)
def test_b34_what_ended_by_its_limit_is_ended_however_late_it_is_seen(rig, provider) -> None:
    """After its limit it is ended, no preemption, and an update buys nothing."""
    wanted, record = rig.made(provider)
    rig.store.advance(21 * 3600)
    seen = rig.read(record)
    assert seen.status == "ended"
    assert rig.update(seen, wanted).status == "ended"
    assert rig.world.journal.blocks("rehearsal") == ()


def test_a_machine_that_shut_itself_down_is_ended_before_its_limit(rig) -> None:
    """A shutdown from inside, told as such by EC2, is the machine's own end: it is not bought
    again, and the detail says why it went.
    """
    from providers.rehearsal.clouds.aws.state import Rows

    wanted, record = rig.made("aws", spot="never")
    with rig.store.transaction() as db:
        rows = Rows(rig.store, db, rig.store.now())
        (item,) = rows.instances()
        rows.end(item, "Client.InstanceInitiatedShutdown", "delete")
    rig.store.advance(60)
    seen = rig.read(record)
    assert seen.status == "ended" and "shut itself down" in seen.detail
    assert rig.update(seen, wanted).status == "ended"


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_b34_an_idle_machine_ends_by_its_own_timer_and_is_not_bought_again(rig, provider) -> None:
    """Two hours after its GPUs had nothing to do any more the machine has ended itself; what Google
    keeps of it is deleted by the next update.
    """
    wanted, record = rig.made(provider, idle_after="2h")
    console = import_module(f"providers.rehearsal.clouds.{provider}.console")
    assert rig.read(record).status == "running"
    rig.store.advance(3600)
    assert console.idle(rig.store, record.machines[0].name) == pytest.approx(
        rig.store.now() + 7200, abs=60
    )
    rig.store.advance(7000)
    assert rig.read(record).status == "running"
    rig.store.advance(400)
    seen = present(asyncio.run(operations.read(rig.world, record, frees=True)))
    assert seen.status == "ended"
    if provider == "gcp":
        assert seen.to_release and seen.reasons == (), "ended as declared is no unhealthy state"
        assert (
            "its disks are billed until the next `up` deletes it" in " ".join(rig.said)
            and "PREEMPTED" not in seen.detail
        )
    else:
        assert seen.reasons == () and "shut itself down" in seen.detail
    after = rig.update(seen, wanted)
    assert (after.status, after.reasons) == ("ended", ())
    assert (
        tuple(rig.world.adapter(provider).find("owner1")) == ()
        and rig.world.journal.blocks("rehearsal") == ()
    )
    rig.store.advance(86_400)
    assert present(asyncio.run(operations.read(rig.world, after, frees=True))).status == "ended"
    assert rig.update(after, wanted).status == "ended"


def test_one_of_several_has_no_timer_of_its_own(rig) -> None:
    """A machine of a cluster cannot see whether the others work, so it is given no timer."""
    _, record = rig.made("gcp", gpu="H100:8", nodes=2, idle_after="1h", regions=None)
    console = import_module("providers.rehearsal.clouds.gcp.console")
    assert console.idle(rig.store, record.machines[0].name) == 0.0
