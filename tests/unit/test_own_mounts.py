"""Buckets on a machine of one's own, whose user need not be root: where they can be mounted is told
before anything is taken, and a container's need no folder of the machine.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from providers.adapters.ssh import CAPABILITIES, agent, offers, transport
from providers.model.ask import Ask, Choice
from providers.model.machine import GONE
from providers.model.spec import read_cluster
from providers.model.workload import Mount, Task, Workload
from providers.planner import rules
from providers.workloads.launch.start_script import script
from tests.launchers.machines import Machine, job
from tests.unit.own_machine_rig import LOCAL, SMI, here, until

__all__ = ["here"]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")


@pytest.fixture
def box():
    """A folder that everybody reaches, with the tools of a machine."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    for name in ("agent", "own", "open"):
        (folder / name).mkdir()
    (folder / "agent").chmod(0o777)
    (folder / "open").chmod(0o1777)
    os.chown(folder / "own", 65534, 65534)
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def told(box, *folders):
    """What the machine tells somebody who is not root."""
    asked = agent.program("facts", folders="\n".join(folders))
    path = f"{box}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*NOBODY, "sh", "-c", 'agent=$(cat); eval "$agent"'],
        input=asked.text,
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "PATH": path, "GPUS_AGENT_ROOT": str(box / "agent")},
    )
    return agent.read(done.stdout.splitlines())


@needs_root
def test_a_folder_that_a_user_cannot_mount_at_is_told_with_why(box) -> None:
    """One that is there or can be made is fine; a sticky folder is its owner's alone to mount at."""
    fine = [f"{box}/own", f"{box}/own/a/b", f"{box}/open/new"]
    assert told(box, *fine).unfit == ()
    assert told(box).unfit == ()
    wrong = [f"{box}/made/here", f"{box}/open", f"{box}/nvidia-smi/x", "/proc"]
    facts = told(box, *wrong)
    assert facts.unfit == (
        (wrong[0], f"{box} is not writable"),
        (wrong[1], "it is another user's"),
        (wrong[2], f"{box}/nvidia-smi is no folder"),
        (wrong[3], "something is mounted there already"),
    )
    said = offers.without(facts, ())
    assert f"{facts.user} can mount nothing at {wrong[0]}: {box} is not writable; make it" in said


def test_a_plan_refuses_a_machine_where_a_path_cannot_be_mounted_at(here, tmp_path) -> None:
    """Without an image; with one no folder of the machine is needed."""
    for tool in ("docker", "mount-s3"):
        (tmp_path / "bin" / tool).write_text("#!/bin/sh\necho 1\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    work = Workload((Task(command="true"),), mounts=(Mount("/proc", "s3://b"),))
    ask = Ask((Choice("RTX-4090", 1),), workload=work)
    (refused,) = here.adapter().offers_for(ask)
    assert "can mount nothing at /proc: something is mounted there already" in refused.restriction
    assert [each.restriction for each in here.adapter().offers_for(ask._replace(image="i"))] == [""]
    answer = transport.call(LOCAL, LOCAL.machines[0], agent.program("facts", folders="/x y\n/z"))
    assert agent.read(answer).unfit == ()


@pytest.mark.parametrize(
    ("source", "names", "why"),
    [
        ("gs://bucket", (), "ssh mounts no gs://; there: s3://"),
        ("s3://bucket", (), "s3:// is reached from ssh only with keys"),
        ("s3://bucket", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ""),
    ],
)
def test_own_machines_mount_s3_with_keys_and_no_other_bucket(source, names, why) -> None:
    workload = {"command": "true", "mounts": {"/data": source}}
    secrets = {name: {"ssh": f"env:{name}"} for name in names}
    entry = {"gpu": "RTX-4090:1", "kind": "job", "workload": workload, "secrets": secrets}
    said = rules.unmounted(read_cluster("a", entry).ask(), CAPABILITIES)
    assert said.startswith(why) and bool(said) == bool(why)


class Lent(Machine):
    """A lease of somebody who is not root, on whose machine mount-s3 is played."""

    def __init__(self, box: Path) -> None:
        super().__init__(box / "lease")
        self.inside = NOBODY
        self.box = box
        self.tool("mount-s3", f'echo "$*" >>"{box}/open/calls"')
        self.tool("docker", f'echo "$*" >>"{box}/open/docker"')
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, 65534, 65534)
        (box / "agent" / "mounts").mkdir()
        (box / "agent" / "mounts").chmod(0o1777)
        self.environment |= {
            "GPUS_LEASE": "token",
            "GPUS_LEASE_FOLDER": f"{box}/agent/leases/token/own",
            "GPUS_SECRETS": f"{box}/none",
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        }

    def said(self, name: str) -> str:
        return (self.box / "open" / name).read_text()


@needs_root
def test_a_user_without_root_mounts_at_a_folder_of_their_own_or_is_told_that_they_cannot(
    box,
) -> None:
    """Nobody else sees that mount, which would need leave; the command is not run without it."""
    lent = Lent(box)
    made = job("true", mounts=(Mount(f"{box}/own/data", "s3://b", writable=True),))
    assert lent.run(script(made, lent=True)) == 0, lent.log
    assert "--allow-other" not in lent.said("calls")
    assert f"--allow-delete --allow-overwrite b {box}/own/data" in lent.said("calls")
    bad = job("true", mounts=(Mount(f"{box}/elsewhere", "s3://b"),))
    assert lent.run(script(bad, lent=True)) == 1
    said = lent.log.splitlines()[-1]
    assert f"setup-wrong 1 nobody can mount nothing at {box}/elsewhere: make it a free" in said


@needs_root
def test_a_container_of_a_lease_finds_a_bucket_at_a_path_that_the_machine_does_not_have(
    box,
) -> None:
    """The mount lies in a place of the lease, which Docker may see."""
    lent = Lent(box)
    made = job("true", image="python:3", mounts=(Mount("/data", "s3://b"),))
    assert lent.run(script(made, lent=True)) == 0, lent.log
    place = f"{box}/agent/mounts/token/data"
    assert f"--allow-other --read-only b {place}" in lent.said("calls")
    assert f"-v {place}:/data:ro" in lent.said("docker")


@needs_root
def test_a_release_unmounts_what_a_killed_tool_left_and_deletes_nothing_in_the_bucket(
    here, tmp_path
) -> None:
    bucket, at = tmp_path / "bucket", here.folder / "mounts" / "token-mount" / "data"
    bucket.mkdir()
    (bucket / "row").write_text("kept")
    handle = here.take(
        "token-mount",
        f'mkdir -p "$GPUS_ROOT" {at} && mount --bind {bucket} {at} &&'
        f' echo {at} >"$GPUS_ROOT/mounted" && exec sleep 300',
    )
    until((at / "row").exists)
    here.adapter().delete(handle)
    until(lambda: here.status(handle) == GONE)
    assert (str(at) in Path("/proc/self/mounts").read_text(), at.parent.exists()) == (False, False)
    assert (bucket / "row").read_text() == "kept"
