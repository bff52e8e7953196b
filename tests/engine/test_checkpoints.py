"""Where checkpoints can be kept from, by cloud; and that a run which lost its machine goes on from
the last one: engine and start-up script together.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from providers.adapters import registry
from providers.cli import rehearse
from providers.engine import operations, validate
from providers.engine.market import planning
from providers.errors import SpecError
from providers.model.spec import read_cluster
from providers.model.workload import packed
from providers.rehearsal.store import open_store
from tests.engine.test_workloads import CLOUDS

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
REFERENCES = {"gcp": "projects/p/secrets/x", "aws": "ssm:/x", "modal": "aws", "clore": "env:X"}
SECTIONS = {
    "gcp": {"service_account": "t@p.iam.gserviceaccount.com"},
    "aws": {"instance_profile": "trainer"},
    "clore": {"trust_marketplace": True},
}


def declared(provider, to, *, keys=False, able=True, **more):
    fields = {
        "kind": "job",
        "gpu": CLOUDS[provider],
        "providers": [provider],
        "workload": {"command": "python3 t.py", "checkpoint": {"path": "/ckpt", "to": to}},
        **({"secrets": {name: {provider: REFERENCES[provider]} for name in KEYS}} if keys else {}),
        **({"options": {provider: SECTIONS[provider]}} if able and provider in SECTIONS else {}),
    }
    return read_cluster("t", {**fields, **more})


@pytest.mark.parametrize(
    ("provider", "to", "keys", "why"),
    [
        ("gcp", "gs://bkt/x", False, ""),
        (
            "gcp",
            "s3://bkt/x",
            False,
            (
                "s3:// is reached from gcp only with keys: AWS_ACCESS_KEY_ID and"
                " AWS_SECRET_ACCESS_KEY under secrets"
            ),
        ),
        ("gcp", "s3://bkt/x", True, ""),
        ("gcp", "volume:v", False, "volume:v is a volume: gcp has none"),
        ("aws", "s3://bkt/x", False, ""),
        (
            "aws",
            "gs://bkt/x",
            False,
            "aws's machines have no identity for gs://; from there: s3://",
        ),
        ("aws", "volume:v", False, "volume:v is a volume: aws has none"),
        ("clore", "s3://bkt/x", False, "s3:// is reached from clore only with keys"),
        ("clore", "s3://bkt/x", True, ""),
        (
            "clore",
            "gs://bkt/x",
            False,
            "clore's machines have no identity for gs://; from there: s3://",
        ),
        ("clore", "volume:v", False, "volume:v is a volume: clore has none"),
        ("modal", "volume:v", False, ""),
        ("modal", "s3://bkt/x", False, "s3:// is reached from modal only with keys"),
        ("modal", "s3://bkt/x", True, ""),
        (
            "modal",
            "gs://bkt/x",
            False,
            "modal's machines have no identity for gs://; from there: s3://, volume:NAME",
        ),
    ],
)
def test_what_a_cloud_cannot_keep_is_refused_in_the_plan_with_the_reason(
    rig, provider, to, keys, why
) -> None:
    """By the rule `checkpoint`, before anything is bought; what it can keep is accepted, by plan
    and by check.
    """
    rig(provider)
    spec = declared(provider, to, keys=keys)
    assert validate.problems(spec, registry.manifests()) == []
    plan = planning.plan(spec.ask(), setup=spec.setup())
    found = {refused.found for refused in plan.rejections if refused.rule == "checkpoint"}
    assert bool(plan.candidates) == (not why)
    assert all(each.startswith(why) for each in found) and bool(found) == bool(why)


def test_a_machine_at_modal_has_no_volume(rig) -> None:
    """A sandbox is given none: only a job or a service may keep its checkpoints in one."""
    rig("modal")
    plan = planning.plan(declared("modal", "volume:v", kind="machine").ask())
    assert not plan.candidates and any(
        "machines have no volumes" in refused.found
        for refused in plan.rejections
        if refused.rule == "checkpoint"
    )


@pytest.mark.parametrize(
    ("provider", "to", "path"),
    [("gcp", "gs://b-b/x", "gcp.service_account"), ("aws", "s3://b-b/x", "aws.instance_profile")],
)
def test_a_machine_without_an_identity_can_keep_none(provider, to, path) -> None:
    """Google and EC2 give a machine the rights of an account that is named: without one the bucket
    would refuse it, hours later.
    """
    (found,) = validate.problems(declared(provider, to, able=False), registry.manifests())
    assert found.path == f"options.{path}" and "keeps its checkpoints as" in found.wanted


def test_a_managed_network_brings_the_account_that_keeps_checkpoints() -> None:
    """At Google the managed network has a service account of its own, so none has to be named."""
    managed = declared("gcp", "gs://b-b/x", able=False, network="managed", regions=["us-central1"])
    assert validate.problems(managed, registry.manifests()) == []


@pytest.mark.parametrize("path", ["~/ckpt", "ckpt"])
def test_the_folder_is_named_from_the_root(path) -> None:
    """A home or a relative folder is another one inside a container, and none that the script could
    name.
    """
    with pytest.raises(SpecError, match=r"workload.checkpoint.path: wanted a path from the root"):
        read_cluster(
            "t",
            {
                "kind": "job",
                "gpu": "L4:1",
                "workload": {"command": "x", "checkpoint": {"path": path, "to": "gs://b-b/x"}},
            },
        )


TRAIN = """import os, sys, time
path = {path!r}
step = int(open(path).read()) if '--resume' in sys.argv and os.path.exists(path) else 0
print('begins at', step, flush=True)
while step < 40:
    step += 1
    open(path + '.new', 'w').write(str(step)); os.replace(path + '.new', path)
    time.sleep(0.1)
"""


def bucket(machine, tool="gcloud"):
    """A store that the tool of this machine syncs with: `gcloud storage rsync | ls`, as far as
    start-up scripts use it.
    """
    folder = machine.folder / "bucket"
    folder.mkdir(exist_ok=True)
    program = machine.bin / tool
    program.write_text(
        '#!/bin/bash\nat() { case "$1" in gs://b-b*) printf %s '
        f"{folder}"
        '"${1#gs://b-b}" ;; *) printf %s "$1" ;; esac; }\necho "$@" >>'
        f"{machine.folder}/asked\n"
        f'[ ! -e {machine.folder}/broken ] || {{ echo "403 Forbidden" >&2; exit 1; }}\n'
        'case "$3" in\n'
        '  ls) ls "$(at "$4")" ;;\n'
        '  rsync) from="$(at "${@: -2:1}")"; to="$(at "${@: -1}")"; [ -d "$from" ] || exit 1; mkdir'
        ' -p "$to"; cp -a "$from/." "$to/" ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    (machine.bin / "sleep").write_text(
        '#!/bin/bash\nexec /bin/sleep "$([ "$1" -gt 1 ] 2>/dev/null && echo 0.1 || echo "$1")"\n'
    )
    (machine.bin / "sleep").chmod(0o755)
    return folder


def test_after_a_preemption_the_next_machine_goes_on_from_the_last_checkpoint(rig, machine) -> None:
    """The engine places the job anew after Google took it back, and what that order starts fetches
    the last checkpoint before the command begins.
    """
    lab = rig("gcp")
    store, kept = bucket(machine), machine.folder / "ckpt"
    script = packed(TRAIN.format(path=str(kept / "step")).encode())
    work = {
        "command": "python3 -u ~/train.py",
        "files": {"~/train.py": script},
        "checkpoint": {"path": str(kept), "to": "gs://b-b/run", "every": "10s"},
        "resume": "--resume",
    }
    wanted = lab.wanted(
        {
            "kind": "job",
            "spot": "only",
            "ttl": "2h",
            "options": {"gcp": SECTIONS["gcp"]},
            "workload": work,
        }
    )
    open_store().set_latency("gcp", "job", 3_600)
    record = lab.create(wanted)
    first = lab.world.journal.orders("rehearsal", "owner1")[-1].order

    process = machine.begin(first.setup.script.replace("sleep 10", "sleep 1"))
    end = time.monotonic() + 120
    while not (
        (store / "run" / "step").exists() and int((store / "run" / "step").read_text() or 0) >= 3
    ):
        assert time.monotonic() < end, machine.log
        time.sleep(0.1)
    trainer = machine.folder / "root" / "main.pid"
    assert int(trainer.read_text()) == process.pid
    for pid in _children(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait(120)
    # What that machine had is gone with it.
    shutil.rmtree(machine.folder / "root")
    shutil.rmtree(kept)

    assert rehearse.run(["preempt", "all"]) == 0
    lab.store.advance(60)
    after = lab.read(record)
    assert after is None or after.status == "preempted"
    again = (
        asyncio.run(operations.create(lab.world, wanted, "g2"))
        if after is None
        else lab.update(after, wanted)
    )
    assert again.status == "running" and again.handles != record.handles
    second = lab.world.journal.orders("rehearsal", "owner1")[-1].order
    assert second.token != first.token and second.setup.script_digest == first.setup.script_digest
    assert machine.run(second.setup.script.replace("sleep 10", "sleep 1")) == 0
    begun = [int(step) for step in re.findall(r"begins at (\d+)", machine.log)]
    assert begun[0] >= 3 and (store / "run" / "step").read_text() == "40"


def _children(pid):
    """The processes under this one, the deepest first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [*_children(int(folder.name)), int(folder.name)]
    return found


def job(machine, command, to="gs://b-b/run", **more):
    from providers.model.workload import Checkpoint, Process, Program

    return Program(
        "job",
        (Process("main", command),),
        checkpoint=Checkpoint(str(machine.folder / "ckpt"), to, 3_600),
        **more,
    )


def test_a_first_run_finds_nothing_and_begins(machine) -> None:
    """A folder that is not in the bucket yet is no failure where the bucket answers."""
    from providers.workloads.launch.start_script import script

    store = bucket(machine)
    assert machine.run(script(job(machine, f"echo 1 >{machine.folder}/ckpt/step"))) == 0
    assert machine.words[-1] == "succeeded 0" and (store / "run" / "step").read_text() == "1\n"


def test_a_store_that_does_not_answer_is_no_new_beginning(machine) -> None:
    """Where the last checkpoint can't be read the command is not begun: it would write over what is
    there.
    """
    from providers.workloads.launch.start_script import script

    bucket(machine)
    (machine.folder / "broken").touch()
    assert machine.run(script(job(machine, f"touch {machine.folder}/begun"))) == 1
    assert machine.words[-1].startswith(
        "setup-failed 1 the checkpoints at gs://b-b/run could not be read"
    )
    assert not (machine.folder / "begun").exists() and "403 Forbidden" in machine.log


def test_half_of_a_checkpoint_that_is_being_read_never_takes_the_place_of_the_whole(
    machine,
) -> None:
    """A machine that is told to end meanwhile saves nothing: what it has is not all of it."""
    from providers.workloads.launch.start_script import script

    store = bucket(machine)
    (store / "run").mkdir()
    (store / "run" / "step").write_text("40")
    (machine.bin / "gcloud").rename(machine.bin / "whole")
    half, go = machine.folder / "half", machine.folder / "go"
    machine.tool(
        "gcloud",
        f'case "$3 $5" in "rsync gs://"*) printf 4 >{machine.folder}/ckpt/step; touch {half}\n '
        f" until [ -e {go} ]; do /bin/sleep 0.05; done; exit 1 ;; esac\nexec {machine.bin}/whole"
        ' "$@"',
    )
    process = machine.begin(script(job(machine, "true")))
    end = time.monotonic() + 120
    while not half.exists():
        assert time.monotonic() < end, machine.log
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    go.touch()
    assert process.wait(60) == 143
    assert (store / "run" / "step").read_text() == "40"
    assert f"{machine.folder}/ckpt gs://" not in (machine.folder / "asked").read_text()


def test_what_could_not_be_saved_is_no_success_and_its_machine_stays(machine) -> None:
    """A job whose last checkpoint can't be saved fails, and what it made is not thrown away with
    its machine.
    """
    from providers.workloads.launch.start_script import script

    bucket(machine)
    assert (
        machine.run(
            script(
                job(machine, f"touch {machine.folder}/broken"),
                release=f"touch {machine.folder}/released",
            )
        )
        == 74
    )
    assert machine.words[-1] == "failed 74" and not (machine.folder / "released").exists()
    assert "could not be saved: its machine stays" in machine.log


def test_without_what_syncs_nothing_is_begun(machine) -> None:
    """A machine that has neither the tool nor a way to get it says so at once, instead of losing
    hours of work at its end.
    """
    from providers.workloads.launch.start_script import script

    few = machine.folder / "few"
    few.mkdir()
    for name in (
        "bash",
        "cat",
        "tee",
        "mv",
        "mkdir",
        "flock",
        "seq",
        "sleep",
        "kill",
        "rm",
        "ls",
        "env",
        "grep",
        "tr",
        "chmod",
        "printf",
    ):
        (few / name).symlink_to(shutil.which(name))
    machine.environment["PATH"] = str(few)
    assert machine.run(script(job(machine, f"touch {machine.folder}/begun"))) == 1
    assert machine.words[-1].startswith("setup-failed 1 what syncs with gs://b-b/run is not there")
    assert not (machine.folder / "begun").exists()
