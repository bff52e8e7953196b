"""Stopping an EC2 machine and keeping it, and starting it again where it is: real boto3 against the
stand-in, its clock the test's.
"""

import asyncio
import subprocess

import pytest

from providers.adapters.aws import MANIFEST, limit
from providers.adapters.aws import compile as native
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.runtime.world import open_world
from providers.errors import GpusError, NoCapacity, QuotaExceeded, Transient, Unsupported
from providers.model.ask import Ask, Capacity, Choice
from providers.model.machine import Handle, Setup
from tests.engine.cases import run
from tests.unit.aws.rig import REGION, A, candidate


def test_a_machine_stops_and_starts_as_the_same_one(rig) -> None:
    """One StopInstances, one StartInstances, however often it is asked; nothing is bought."""
    (handle,) = rig.launched().handles
    for state, calls in (
        ("stopped", (1, 0)),
        ("stopped", (1, 0)),
        ("running", (1, 1)),
        ("running", (1, 1)),
    ):
        rig.ec2.update(handle, {"state": state})
        assert state == rig.ec2.observe([handle])[0].status
        assert calls == (rig.count("StopInstances"), rig.count("StartInstances"))
    assert rig.count("RunInstances") == 1


def test_a_start_waits_for_a_stop_under_way(rig) -> None:
    """EC2 refuses to start what is still stopping: that is waited for."""
    (handle,) = rig.launched().handles
    rig.store.set_latency("aws", "stop", 20)
    rig.boto("stop_instances", InstanceIds=[handle.native_id.split("/")[1]])
    rig.ec2.update(handle, {"state": "running"})
    assert rig.ec2.observe([handle])[0].status == "running"


def test_a_stop_that_takes_too_long_is_asked_again(rig) -> None:
    """Beyond the wait: Transient, and never reported as stopped."""
    (handle,) = rig.launched().handles
    rig.store.set_latency("aws", "stop", 500)
    with pytest.raises(Transient, match="it is stopping after"):
        rig.ec2.update(handle, {"state": "stopped"})
    assert rig.ec2.observe([handle])[0].status == "stopping"


def test_b41_a_start_without_room_names_the_zone_and_leaves_it_stopped(rig) -> None:
    """The zone is full: NoCapacity that names it; the machine is still there, stopped, and nothing
    was bought.
    """
    (handle,) = rig.launched().handles
    rig.ec2.update(handle, {"state": "stopped"})
    rig.store.set_stock("aws", A, "p5.48xlarge", "", 0)
    with pytest.raises(NoCapacity, match=f"aws {A}: starting i-.*InsufficientInstanceCapacity"):
        rig.ec2.update(handle, {"state": "running"})
    assert rig.ec2.observe([handle])[0].status == "stopped" and rig.count("RunInstances") == 1


def test_b41_a_start_beyond_the_quota_names_the_zone_and_leaves_it_stopped(rig) -> None:
    """The account's limit shrank meanwhile: VcpuLimitExceeded, the zone named, the machine kept."""
    (handle,) = rig.launched().handles
    rig.ec2.update(handle, {"state": "stopped"})
    rig.store.set_quota("aws", REGION, "L-417A185B", 100)
    with pytest.raises(
        QuotaExceeded, match=f"aws {A}: starting i-.*VcpuLimitExceeded.*servicequotas"
    ):
        rig.ec2.update(handle, {"state": "running"})
    assert rig.ec2.observe([handle])[0].status == "stopped" and rig.count("RunInstances") == 1


FULL = "Server.InsufficientInstanceCapacity"


def taken_back(rig, reason=FULL) -> None:
    """EC2 stops the machine for want of room, or still lists what it was before."""
    with rig.rows() as rows:
        (item,) = rows.instances()
        rows.write(item._replace(timeline=[(0.0, "stopped", reason)]))


def test_b41_a_start_that_is_taken_back_is_no_start(rig, monkeypatch) -> None:
    """Accepted, and stopped again for want of room: NoCapacity by the new reason. The previous reason
    is a list that lags: asked again, never a refusal.
    """
    (handle,) = rig.launched().handles
    rig.ec2.update(handle, {"state": "stopped"})
    monkeypatch.setattr(rig.ec2, "sleep", lambda seconds: taken_back(rig))
    with pytest.raises(NoCapacity, match=f"aws {A}: starting i-.*{FULL}"):
        rig.ec2.update(handle, {"state": "running"})

    def sleep(seconds: float) -> None:
        rig.sleep(seconds)
        taken_back(rig)

    monkeypatch.setattr(rig.ec2, "sleep", sleep)
    with pytest.raises(Transient, match="it is stopped after"):
        rig.ec2.update(handle, {"state": "running"})


def test_b36_a_one_time_spot_machine_is_not_stopped(rig) -> None:
    """Refused with the reason, before any call that changes something; it runs on."""
    (handle,) = rig.launched(candidate(capacity="spot")).handles
    with pytest.raises(Unsupported, match="found a one-time Spot machine, which can only end"):
        rig.ec2.update(handle, {"state": "stopped"})
    assert rig.count("StopInstances") == 0 and rig.ec2.observe([handle])[0].status == "running"


def test_a_machine_that_is_gone_is_not_started(rig) -> None:
    """Unknown or ended: refused, and nothing is made."""
    (handle,) = rig.launched().handles
    rig.ec2.delete(handle)
    for lost in (handle, Handle("aws", f"{REGION}/i-0123456789abcdef0")):
        with pytest.raises(Unsupported):
            rig.ec2.update(lost, {"state": "running"})
    assert rig.count("RunInstances") == 1 and rig.count("StartInstances") == 0


def test_b35_the_plan_says_what_a_stop_loses() -> None:
    """Where a machine is stopped at its ttl, the loss of its instance store is said; a type without
    one has nothing to lose.
    """
    keeps = Setup(ttl_s=3600, on_ttl="keep")
    assert any("instance store is lost" in note for note in native.plan_notes(candidate(), keeps))
    assert not any(
        "instance store" in note
        for note in native.plan_notes(candidate(machine_type="g5g.xlarge"), keeps)
    )


class Clock:
    """The rig's moment, moved by whoever waits."""

    def __init__(self, rig) -> None:
        self.rig = rig

    def now(self):
        return self.rig.moment

    def advance(self, seconds) -> None:
        self.rig.moment += seconds

    async def sleep(self, seconds) -> None:
        self.rig.moment += seconds
        await asyncio.sleep(0)


class Lab:
    """The engine on the stand-in."""

    def __init__(self, rig) -> None:
        self.lines: list[str] = []
        self.clock = Clock(rig)
        manifests = {"aws": MANIFEST._replace(connect=lambda *_: rig.ec2)}
        self.world = open_world(
            "rehearsal",
            {},
            lambda severity, text: self.lines.append(f"{severity}: {text}"),
            manifests=manifests,
            clock=self.clock,
        )


def wanted(state="running", ttl_s=None, on_ttl="release", capacity="on-demand"):
    ask = Ask(
        (Choice("H100", 8, capacity=(Capacity(capacity),)),), providers=("aws",), regions=(REGION,)
    )
    return ClusterSpec("own", "train", ask, Setup(ttl_s=ttl_s, on_ttl=on_ttl, state=state), "f1")


@pytest.fixture
def lab(rig, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Lab(rig)
    yield made
    made.world.close()


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_b41_the_engine_keeps_what_could_not_be_started(lab, rig, code) -> None:
    """An error that names the zone; the stopped machine stays held, nothing new is bought."""
    record = run(operations.create(lab.world, wanted(), "g1"))
    stopped = run(operations.update(lab.world, record, wanted("stopped")))
    assert ("stopped", record.handles) == (stopped.status, stopped.handles)
    rig.store.add_fault("aws", "ec2.StartInstances", "op-error", 1, code=code)
    with pytest.raises(
        GpusError,
        match=(
            f"could not be started again in {record.placement.zone}, so it stays stopped, and in the"
            f" state.*{code}"
        ),
    ):
        run(operations.update(lab.world, stopped, wanted()))
    assert (
        run(operations.read(lab.world, stopped)).status == "stopped"
        and rig.count("RunInstances") == 1
    )
    again = run(operations.update(lab.world, stopped, wanted()))
    assert ("running", record.handles) == (again.status, again.handles) and rig.count(
        "RunInstances"
    ) == 1
    run(operations.delete(lab.world, again))


def test_b41_a_start_that_was_taken_back_leaves_the_machine_held(lab, rig) -> None:
    """Stopped by EC2 for want of room, it is no failed machine: a look and an up keep it and its
    disk, and nothing else is bought.
    """
    record = run(operations.create(lab.world, wanted(), "g1"))
    stopped = run(operations.update(lab.world, record, wanted("stopped")))
    taken_back(rig)
    after = run(operations.read(lab.world, stopped))
    assert ("stopped", record.handles) == (after.status, after.handles)
    rig.store.set_stock("aws", "", "p5.48xlarge", "", 0)
    with pytest.raises(GpusError, match="so it stays stopped, and in the state"):
        run(operations.update(lab.world, after, wanted()))
    assert (rig.count("RunInstances"), rig.count("TerminateInstances")) == (1, 0) and len(
        rig.left()[0]
    ) == 1


def test_b36_the_engine_asks_no_spot_machine_to_stop(lab, rig) -> None:
    """Refused before any call that changes something; it runs on and stays held."""
    record = run(operations.create(lab.world, wanted(capacity="spot"), "g1"))
    with pytest.raises(GpusError, match="aws cannot stop a spot machine and keep it"):
        run(operations.update(lab.world, record, wanted("stopped", capacity="spot")))
    assert (
        rig.count("StopInstances") == 0
        and run(operations.read(lab.world, record)).status == "running"
    )


@pytest.mark.parametrize("on_ttl", ["release", "keep"])
def test_a_stopped_machines_time_begins_anew_with_its_start(lab, rig, on_ttl) -> None:
    """However long it was stopped, a started machine has its whole ttl again, and then ends as its
    declaration says: the user data names the start.
    """
    more = {"ttl_s": 3_600, "on_ttl": on_ttl}
    record = run(operations.create(lab.world, wanted(**more), "g1"))
    lab.clock.advance(1_800)
    stopped = run(operations.update(lab.world, record, wanted("stopped", **more)))
    assert stopped.ends_at == 0
    lab.clock.advance(7_200)
    again = run(operations.update(lab.world, stopped, wanted(**more)))
    assert ("running", record.handles, 1) == (
        again.status,
        again.handles,
        rig.count("ModifyInstanceAttribute"),
    )
    assert 3_500 < again.ends_at - lab.clock.now() <= 3_600
    lab.clock.advance(3_000)
    assert run(operations.read(lab.world, again)).status == "running"
    lab.clock.advance(900)
    after = run(operations.read(lab.world, again))
    assert after.status == "ended" and (on_ttl == "keep") == bool(rig.left()[0])


def test_a_machine_that_was_started_by_hand_has_no_more_time(lab, rig) -> None:
    """A start that is not ours names nothing anew: past its end the machine ends at once, as after
    a reboot.
    """
    record = run(operations.create(lab.world, wanted(ttl_s=3_600), "g1"))
    run(operations.update(lab.world, record, wanted("stopped", ttl_s=3_600)))
    lab.clock.advance(7_200)
    rig.boto("start_instances", InstanceIds=[record.handles[0].native_id.split("/")[1]])
    lab.clock.advance(300)
    assert rig.ec2.observe(record.handles)[0].status in {"gone", "ended"}


def test_a_machine_without_a_limit_is_started_without_an_edit(lab, rig) -> None:
    """Nothing is to be set anew, so nothing is written."""
    record = run(operations.create(lab.world, wanted(), "g1"))
    stopped = run(operations.update(lab.world, record, wanted("stopped")))
    assert run(operations.update(lab.world, stopped, wanted())).status == "running"
    assert rig.count("ModifyInstanceAttribute") == 0


class Boots:
    """The script that sets the end of the run, boot after boot, with the programs of the machine
    played.
    """

    def __init__(self, folder, ttl_s=3_600, on_ttl="release") -> None:
        self.folder, self.ttl_s, self.now, self.shown = folder, ttl_s, 1_000_000, "gpus_start=0"
        (folder / "bin").mkdir()
        (folder / "state").mkdir()
        self.script = limit.timer(ttl_s, on_ttl, str(folder / "state" / "limit"))

    def __call__(self, later_s=0, *, answers=True):
        """Seconds from this boot to the end; None where nothing ends it."""
        self.now += later_s
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        curl = (
            'case "$*" in *api/token*) echo token ;; *) printf "%s\\n" "#!/bin/bash"'
            f' "{self.shown}" ;; esac'
            if answers
            else "exit 7"
        )
        for name, does in {
            "curl": curl,
            "date": f"echo {self.now}",
            "systemd-run": f'echo "$*" >{log}',
        }.items():
            (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
            (self.folder / "bin" / name).chmod(0o700)
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        subprocess.run(
            ["bash", "-c", self.script], env={"PATH": path}, check=True, capture_output=True
        )
        return (
            int(log.read_text().partition("--on-active=")[2].split()[0]) if log.exists() else None
        )


@pytest.mark.parametrize(("on_ttl", "over"), [("release", 1), ("keep", None)])
def test_the_machines_own_timer_counts_from_each_start_and_not_from_a_reboot(
    tmp_path, on_ttl, over
) -> None:
    """First boot: the whole ttl. A reboot: what is left of it. Another start: the whole ttl. Past
    the end: at once, or never where it is kept.
    """
    boot = Boots(tmp_path, on_ttl=on_ttl)
    assert [boot(), boot(600), boot(600)] == [3_600, 3_000, 2_400]
    boot.shown = "gpus_start=1700000000000"
    assert [boot(90_000), boot(100)] == [3_600, 3_500]
    assert over == boot(90_000)


def test_without_an_answer_of_the_metadata_service_no_disk_is_lost(tmp_path) -> None:
    """An end to come stays; one that has passed begins anew, since it may have been a start."""
    boot = Boots(tmp_path)
    assert [boot(answers=False), boot(600, answers=False)] == [3_600, 3_000]
    assert boot(90_000, answers=False) == 3_600
    assert boot(10) == 3_600


def test_a_line_of_the_users_own_is_not_taken_for_a_start(tmp_path) -> None:
    """Of several such lines the first one counts, which is ours: what a workload brings stands
    behind it.
    """
    boot = Boots(tmp_path)
    boot.shown = 'gpus_start=0" "gpus_start=7'
    assert [boot(), boot(600)] == [3_600, 3_000]
    boot.shown = 'gpus_start=0" "gpus_start=8'
    assert boot(600) == 2_400
