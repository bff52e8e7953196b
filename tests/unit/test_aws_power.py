"""Stopping an EC2 machine and keeping it, and starting it again where it is: real boto3 against the stand-in, its clock the test's."""

import asyncio

import pytest

from providers.adapters.aws import MANIFEST, compile as native
from providers.engine import cluster
from providers.engine.world import open_world
from providers.errors import GpusError, NoCapacity, QuotaExceeded, Transient, Unsupported
from providers.model.ask import Ask, Capacity, Entry
from providers.model.machine import Handle, Setup
from tests.engine.cases import run
from tests.unit.test_aws_adapter import A, REGION, candidate, rig  # noqa: F401


def test_a_machine_stops_and_starts_as_the_same_one(rig):
    """One StopInstances, one StartInstances, however often it is asked; nothing is bought."""
    (handle,) = rig.got().handles
    for state, calls in (("stopped", (1, 0)), ("stopped", (1, 0)), ("running", (1, 1)), ("running", (1, 1))):
        rig.ec2.update(handle, {"state": state})
        assert state == rig.ec2.observe([handle])[0].status
        assert calls == (rig.count("StopInstances"), rig.count("StartInstances"))
    assert 1 == rig.count("CreateFleet")


def test_a_start_waits_for_a_stop_under_way(rig):
    """EC2 refuses to start what is still stopping: that is waited for."""
    (handle,) = rig.got().handles
    rig.store.set_latency("aws", "stop", 20)
    rig.boto("stop_instances", InstanceIds=[handle.native_id.split("/")[1]])
    rig.ec2.update(handle, {"state": "running"})
    assert "running" == rig.ec2.observe([handle])[0].status


def test_a_stop_that_takes_too_long_is_asked_again(rig):
    """Beyond the wait: Transient, and never reported as stopped."""
    (handle,) = rig.got().handles
    rig.store.set_latency("aws", "stop", 500)
    with pytest.raises(Transient, match="it is stopping after"):
        rig.ec2.update(handle, {"state": "stopped"})
    assert "stopping" == rig.ec2.observe([handle])[0].status


def test_b41_a_start_without_room_names_the_zone_and_leaves_it_stopped(rig):
    """The zone is full: NoCapacity that names it; the machine is still there, stopped, and nothing was bought."""
    (handle,) = rig.got().handles
    rig.ec2.update(handle, {"state": "stopped"})
    rig.store.set_stock("aws", A, "p5.48xlarge", "", 0)
    with pytest.raises(NoCapacity, match=f"aws {A}: starting i-.*InsufficientInstanceCapacity"):
        rig.ec2.update(handle, {"state": "running"})
    assert "stopped" == rig.ec2.observe([handle])[0].status and 1 == rig.count("CreateFleet")


def test_b41_a_start_beyond_the_quota_names_the_zone_and_leaves_it_stopped(rig):
    """The account's limit shrank meanwhile: VcpuLimitExceeded, the zone named, the machine kept."""
    (handle,) = rig.got().handles
    rig.ec2.update(handle, {"state": "stopped"})
    rig.store.set_quota("aws", REGION, "L-417A185B", 100)
    with pytest.raises(QuotaExceeded, match=f"aws {A}: starting i-.*VcpuLimitExceeded.*servicequotas"):
        rig.ec2.update(handle, {"state": "running"})
    assert "stopped" == rig.ec2.observe([handle])[0].status and 1 == rig.count("CreateFleet")


FULL = "Server.InsufficientInstanceCapacity"


def taken_back(rig, reason=FULL):
    """EC2 stops the machine for want of room, or still lists what it was before."""
    with rig.rows() as rows:
        (item,) = rows.instances()
        rows.write(item._replace(timeline=[(0.0, "stopped", reason)]))


def test_b41_a_start_that_is_taken_back_is_no_start(rig, monkeypatch):
    """Accepted, and stopped again for want of room: NoCapacity by the new reason. The former reason is a list that lags: asked again, never a refusal."""
    (handle,) = rig.got().handles
    rig.ec2.update(handle, {"state": "stopped"})
    monkeypatch.setattr(rig.ec2, "_sleep", lambda seconds: taken_back(rig))
    with pytest.raises(NoCapacity, match=f"aws {A}: starting i-.*{FULL}"):
        rig.ec2.update(handle, {"state": "running"})
    monkeypatch.setattr(rig.ec2, "_sleep", lambda seconds: (rig.sleep(seconds), taken_back(rig)))
    with pytest.raises(Transient, match="it is stopped after"):
        rig.ec2.update(handle, {"state": "running"})


def test_b36_a_one_time_spot_machine_is_not_stopped(rig):
    """Refused with the reason, before any call that changes something; it runs on."""
    (handle,) = rig.got(candidate(capacity="spot")).handles
    with pytest.raises(Unsupported, match="found a one-time Spot machine, which can only end"):
        rig.ec2.update(handle, {"state": "stopped"})
    assert 0 == rig.count("StopInstances") and "running" == rig.ec2.observe([handle])[0].status


def test_a_machine_that_is_gone_is_not_started(rig):
    """Unknown or ended: refused, and nothing is made."""
    (handle,) = rig.got().handles
    rig.ec2.delete(handle)
    for lost in (handle, Handle("aws", f"{REGION}/i-0123456789abcdef0")):
        with pytest.raises(Unsupported):
            rig.ec2.update(lost, {"state": "running"})
    assert 1 == rig.count("CreateFleet") and 0 == rig.count("StartInstances")


def test_b35_the_plan_says_what_a_stop_loses():
    """Where a machine is stopped at its ttl, the loss of its instance store is said; a type without one has nothing to lose."""
    keeps = Setup(ttl_s=3600, on_ttl="keep")
    assert any("instance store is lost" in note for note in native.plan_notes(candidate(), keeps))
    assert not any("instance store" in note for note in native.plan_notes(candidate(machine_type="g5g.xlarge"), keeps))


class Clock:
    """The rig's moment, moved by whoever waits."""

    def __init__(self, rig):
        self.rig = rig

    def now(self):
        return self.rig.moment

    def advance(self, seconds):
        self.rig.moment += seconds

    async def sleep(self, seconds):
        self.rig.moment += seconds
        await asyncio.sleep(0)


class Lab:
    """The engine on the stand-in."""

    def __init__(self, rig):
        self.lines, self.clock = [], Clock(rig)
        manifests = {"aws": MANIFEST._replace(connect=lambda _world, _config: rig.ec2)}
        self.world = open_world(
            "rehearsal", {}, lambda severity, text: self.lines.append(f"{severity}: {text}"), manifests=manifests, clock=self.clock
        )


def wanted(state="running", ttl_s=None, on_ttl="release", capacity="on-demand"):
    ask = Ask((Entry("H100", 8, capacity=(Capacity(capacity),)),), providers=("aws",), regions=(REGION,))
    return cluster.Wanted("own", "train", ask, Setup(ttl_s=ttl_s, on_ttl=on_ttl, state=state), "f1")


@pytest.fixture
def lab(rig, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Lab(rig)
    yield made
    made.world.close()


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_b41_the_engine_keeps_what_could_not_be_started(lab, rig, code):
    """An error that names the zone; the stopped machine stays held, nothing new is bought."""
    held = run(cluster.create(lab.world, wanted(), "g1"))
    stopped = run(cluster.update(lab.world, held, wanted("stopped")))
    assert ("stopped", held.handles) == (stopped.status, stopped.handles)
    rig.store.add_fault("aws", "ec2.StartInstances", "op-error", 1, code=code)
    with pytest.raises(GpusError, match=f"could not be started again in {held.zone}, so it stays stopped, and in the state.*{code}"):
        run(cluster.update(lab.world, stopped, wanted()))
    assert "stopped" == run(cluster.read(lab.world, stopped)).status and 1 == rig.count("CreateFleet")
    again = run(cluster.update(lab.world, stopped, wanted()))
    assert ("running", held.handles) == (again.status, again.handles) and 1 == rig.count("CreateFleet")
    run(cluster.delete(lab.world, again))


def test_b41_a_start_that_was_taken_back_leaves_the_machine_held(lab, rig):
    """Stopped by EC2 for want of room, it is no failed machine: a look and an up keep it and its disk, and nothing else is bought."""
    held = run(cluster.create(lab.world, wanted(), "g1"))
    stopped = run(cluster.update(lab.world, held, wanted("stopped")))
    taken_back(rig)
    after = run(cluster.read(lab.world, stopped))
    assert ("stopped", held.handles) == (after.status, after.handles)
    rig.store.set_stock("aws", A, "p5.48xlarge", "", 0)
    with pytest.raises(GpusError, match="so it stays stopped, and in the state"):
        run(cluster.update(lab.world, after, wanted()))
    assert (1, 0) == (rig.count("CreateFleet"), rig.count("TerminateInstances")) and 1 == len(rig.left()[0])


def test_b36_the_engine_asks_no_spot_machine_to_stop(lab, rig):
    """Refused before any call that changes something; it runs on and stays held."""
    held = run(cluster.create(lab.world, wanted(capacity="spot"), "g1"))
    with pytest.raises(GpusError, match="aws cannot stop a spot machine and keep it"):
        run(cluster.update(lab.world, held, wanted("stopped", capacity="spot")))
    assert 0 == rig.count("StopInstances") and "running" == run(cluster.read(lab.world, held)).status


def test_a_machine_whose_timer_ran_out_while_it_was_stopped_is_not_started(lab, rig):
    """Its timer counts from its first boot and would end it, with its disk, as soon as it is up: refused before any call."""
    held = run(cluster.create(lab.world, wanted(ttl_s=3600), "g1"))
    stopped = run(cluster.update(lab.world, held, wanted("stopped", ttl_s=3600)))
    assert held.ends_at == stopped.ends_at
    lab.clock.advance(7_200)
    with pytest.raises(GpusError, match="its ttl ran out while it was stopped"):
        run(cluster.update(lab.world, stopped, wanted(ttl_s=3600)))
    assert 0 == rig.count("StartInstances") and "stopped" == run(cluster.read(lab.world, stopped)).status


def test_a_kept_machine_past_its_ttl_starts_and_that_is_said(lab, rig):
    """Nothing ends it any more, so a warning says so."""
    held = run(cluster.create(lab.world, wanted(ttl_s=3600, on_ttl="keep"), "g1"))
    stopped = run(cluster.update(lab.world, held, wanted("stopped", ttl_s=3600, on_ttl="keep")))
    lab.clock.advance(7_200)
    assert "running" == run(cluster.update(lab.world, stopped, wanted(ttl_s=3600, on_ttl="keep"))).status
    assert any("nothing ends it any more" in line for line in lab.lines)
