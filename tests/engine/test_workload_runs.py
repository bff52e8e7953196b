"""What a workload is told, what it saves, and what is read of it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from providers.engine import keys, operations
from providers.engine.readiness import access, handover
from providers.engine.readiness import workload as progress
from providers.engine.reconcile.status import with_status
from providers.errors import AllFailed, GpusError
from providers.model.machine import Handle, Node
from providers.model.workload import ROOT
from providers.rehearsal.node import StandInProbe
from tests.engine.test_workloads import CLOUDS, JOB, MACHINES, SERVICE
from tests.present import present

SEVERAL: dict[str, Any] = {
    "kind": "job",
    "nodes": 2,
    "spot": "prefer",
    "gpu": "H100:8",
    "workload": {"launcher": "torchrun", "command": "train.py"},
}


@pytest.mark.parametrize("provider", ["gcp", "aws"])
def test_several_machines_are_told_of_each_other_by_login(provider, rig) -> None:
    """The same hand-over as live, by the stand-ins' own line; what it writes is what the start-up
    script of each waits for, and makes a rank of.
    """
    lab = rig(provider)
    wanted = lab.wanted({**SEVERAL, "gpu": CLOUDS[provider]})
    record = lab.create(wanted)
    assert record.status == "running" and len(record.machines) == 2
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    order = lab.world.journal.orders("rehearsal", "owner1")[0].order
    for rank, node in enumerate(record.machines):
        line = looker.stand_in(node)
        peers = line.path(f"{ROOT}/peers")
        assert Path(peers).read_text().split() == [each.internal_ip for each in record.machines]
        told = 'echo "$GPUS_NODE_RANK of $GPUS_NODES, $GPUS_LEADER, $GPUS_ADDRESS, $*"'
        stand = line.folder / "bin" / "torchrun"
        stand.write_text(f"#!/bin/bash\n{told}\n")
        stand.chmod(0o755)
        launch = line.command("bash -s")
        script = order.setup.script.replace("shutdown -h now", "true")
        done = subprocess.run(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            input=script,
            text=True,
            capture_output=True,
            check=False,
        )
        log = Path(line.path(f"{ROOT}/log")).read_text()
        assert done.returncode == 0, log
        assert (
            f"{rank} of 2, {record.machines[0].internal_ip}, {node.internal_ip}, --nnodes=2"
            f" --node-rank={rank}" in log
        )


def test_a_token_is_written_onto_the_machine_and_nowhere_else(rig) -> None:
    """By login as live: the file is the machine's, and no order, state or journal holds it."""
    lab = rig("gcp")
    record = lab.create(lab.wanted({**SERVICE, "expose": "token"}))
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    line = looker.stand_in(record.machines[0])
    token = keys.token("rehearsal", "owner1", "t")
    assert Path(line.path(f"{ROOT}/token")).read_text() == token
    assert token not in repr(lab.world.journal.orders("rehearsal", "owner1")) + str(
        record.to_dict()
    )


def test_a_server_over_several_nodes_has_its_token_on_the_first_alone(rig) -> None:
    """Nobody asks the others; the key to each other is no played machine's."""
    lab = rig("gcp")
    served = {"launcher": "vllm", "model": "meta-llama/Llama-3.1-405B", "dtype": "bf16"}
    wanted = {**SEVERAL, "kind": "service", "expose": "token", "workload": served}
    record = lab.create(lab.wanted(wanted))
    looker = access.key_probe(lab.world, "owner1", "t", record.provider)
    assert isinstance(looker, StandInProbe)
    folders = [looker.stand_in(node) for node in record.machines]
    found = [Path(line.path(f"{ROOT}/token")).exists() for line in folders]
    assert found == [True, False]
    assert not any(Path(line.path(f"{ROOT}/between.sh")).exists() for line in folders)


@pytest.mark.parametrize(
    ("said", "status", "detail"),
    [
        ("succeeded 0 leader", "ended", "exit code 0"),
        ("failed 3 leader", "failed", "exit code 3"),
        ("failed 1 leader node-1 is lost", "failed", "exit code 1: node-1 is lost"),
    ],
)
def test_the_end_of_a_jobs_leader_is_that_of_all(rig, monkeypatch, said, status, detail) -> None:
    """Also of a machine that has not heard of it; one that was taken back stays so."""
    lab = rig("gcp")
    record = lab.create(lab.wanted(SEVERAL))
    leader, other = record.machines
    words = {
        leader.handle: progress.last(f"gpus-work {dict(record.applied)['work']} {said}"),
        other.handle: progress.WorkloadStatus(),
    }

    async def word(_world, _adapter, node, _order):
        return words[node.handle]

    monkeypatch.setattr(progress, "word", word)
    preempted = other._replace(status="preempted")
    for seen, then in ((other, (status, detail)), (preempted, ("preempted", other.detail))):
        looked = progress.seen(
            lab.world,
            lab.world.adapter("gcp"),
            record.kind,
            dict(record.applied)["work"],
            (leader, seen),
            None,
        )
        first, second = asyncio.run(looked)
        assert (first.status, first.detail) == (status, detail)
        assert (second.status, second.detail) == then


def test_a_service_that_is_not_ready_on_one_node_says_why() -> None:
    """The machine runs all the same; of a service that is ready nothing is said."""
    node = Node(Handle("gcp", "x"), "train-1", "running")
    down = progress.with_workload_status(node, "service", progress.last("gpus-work a running died"))
    assert (down.status, down.detail) == ("running", "its service is not ready: died")
    assert (
        progress.with_workload_status(node, "service", progress.last("gpus-work a ready")) == node
    )


def test_what_cannot_be_told_is_released(rig, monkeypatch) -> None:
    """Where the machines can't be told of each other nothing would ever start there: they go, and
    the attempt says why.
    """
    lab = rig("gcp")

    async def failing(_line, _files):
        return 1, "read-only file system"

    monkeypatch.setattr(handover, "written", failing)
    with pytest.raises(AllFailed, match="wanted to write peers"):
        lab.create(lab.wanted(SEVERAL, regions=["us-central1"], capacity=["on-demand"], spot=None))
    assert [node.status for node in lab.alive() if node.status == "running"] == []


def test_a_job_over_several_machines_runs_until_the_last_has_ended_and_fails_where_one_did(
    rig,
) -> None:
    """One that has ended while another still runs is no loss; the job's status is the worst of its
    machines'.
    """
    lab = rig("gcp")
    record = lab.create(lab.wanted(SEVERAL))
    first, second = record.machines
    ended, failed = (
        first._replace(status="ended", detail="exit code 0"),
        second._replace(status="failed", detail="exit code 3"),
    )
    assert (
        present(with_status(record, [ended, second], 0.0)).status,
        present(with_status(record, [ended, second], 0.0)).reasons,
    ) == ("running", ())
    assert (
        present(with_status(record, [ended, failed], 0.0)).status,
        present(with_status(record, [ended, failed], 0.0)).detail,
    ) == ("failed", "exit code 3")


@pytest.mark.parametrize("code", [0, 7])
def test_a_job_whose_machine_was_released_still_tells_how_it_ended(code, rig, capsys) -> None:
    """Its exit code, the end of its output, and for all that needs a machine a refusal that says
    what there is instead.
    """
    from providers.cli import main

    lab = rig("gcp")
    if code:
        lab.store.add_fault("gcp", "node.work", "job-fails", None, code=code)
    kept = {"path": "/opt/out", "to": "gs://my-bucket/train"}
    wanted = lab.wanted({**JOB, "workload": {**JOB["workload"], "checkpoint": kept}})
    lab.world.journal.owned("rehearsal", "owner1", "gpus", "dev")
    record = lab.create(wanted)
    lab.store.advance(60)
    seen_then = lab.read(record)
    # Over, and not released yet: it has powered itself off.
    assert main.main(["cp", "t:out", "./out"]) != 0
    assert "this copies gs://my-bucket/train to ./out" in capsys.readouterr().err
    after = lab.update(seen_then, wanted)
    assert after.machines == () and after.handles
    assert main.main(["wait"]) == code
    assert f"exit code {code}" in capsys.readouterr().err
    assert main.main(["logs", "t"]) == 0
    assert "gpus-work" in capsys.readouterr().out
    for words in (["ssh", "t"], ["doctor", "t"]):
        assert main.main(words) != 0
        told = capsys.readouterr().err
        assert (
            "its job is over" in told
            and "gpus cp t:out ." in told
            and "gs://my-bucket/train" in told
            and "gpus logs t" in told
        )
    assert main.main(["cp", "t:out", "./out"]) != 0
    assert (
        "a rehearsal's job is played, so it saved nothing; live, this copies gs://my-bucket/train"
        " to ./out" in capsys.readouterr().err
    )
    assert main.main(["cp", "t:data", "./out"]) != 0
    assert "only /opt/out was kept" in capsys.readouterr().err
    # With its declaration goes what is told of it: the end of an old job is not taken for that of
    # one that could not be launched.
    asyncio.run(operations.delete(lab.world, after))
    assert main.main(["wait"]) != 0 and main.main(["wait", "t"]) != 0
    assert "found none that was placed from this machine" in capsys.readouterr().err


def test_what_a_job_saved_is_copied_from_its_bucket(rig, tmp_path, monkeypatch) -> None:
    """With the bucket's own program, into the folder that was named; without it the line to run is
    told.
    """
    from providers.adhoc import ended
    from providers.adhoc.stack_clusters import Declared

    lab = rig("gcp")
    record = lab.create(
        lab.wanted(
            {
                **JOB,
                "workload": {
                    **JOB["workload"],
                    "checkpoint": {"path": "/opt/out", "to": "gs://my-bucket/run"},
                },
            }
        )
    )
    one = Declared("gpus", "dev", record._replace(world="live"), ("ended", "exit code 0"))
    monkeypatch.setattr(ended, "saved", lambda _one: ("/opt/out", "gs://my-bucket/run"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(GpusError, match="gcloud storage rsync -r gs://my-bucket/run"):
        ended.fetch(one, "out", str(tmp_path / "here"))
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "gcloud"
    tool.write_text('#!/bin/sh\necho "$@" >' + str(tmp_path / "asked") + "\n")
    tool.chmod(0o755)
    assert ended.fetch(one, "/opt/out", str(tmp_path / "here")) == tmp_path / "here"
    assert (
        tmp_path / "asked"
    ).read_text() == f"storage rsync -r gs://my-bucket/run {tmp_path / 'here'}\n"
    ended.fetch(one, "out/step.20/", str(tmp_path / "step"))
    assert (
        tmp_path / "asked"
    ).read_text() == f"storage rsync -r gs://my-bucket/run/step.20 {tmp_path / 'step'}\n"
    assert ended.fetch(one, "out/checkpoint.pt", str(tmp_path / "one.pt")) == tmp_path / "one.pt"
    assert (
        tmp_path / "asked"
    ).read_text() == f"storage cp gs://my-bucket/run/checkpoint.pt {tmp_path / 'one.pt'}\n"


@pytest.mark.parametrize("spec", [JOB, SERVICE])
def test_a_functions_log_is_read_where_its_cloud_keeps_it(spec, rig, capsys) -> None:
    """Modal's own log of a job and of a service; nobody logs in to either, which is said with what
    there is instead.
    """
    from providers.cli import main

    lab = rig("modal")
    lab.world.journal.owned("rehearsal", "owner1", "gpus", "dev")
    record = lab.create(lab.wanted(spec))
    assert main.main(["logs", "t"]) == 0
    assert "rehearsal stand-in: ta-" in capsys.readouterr().out
    assert main.main(["ssh", "t", "--", "true"]) != 0
    kind = spec["kind"]
    assert (
        f"it is a {kind} of modal's own, in which nobody logs in; `gpus logs t` shows what it"
        " writes" in capsys.readouterr().err
    )
    lab.store.advance(60)
    if kind == "job":
        assert lab.read(record).status == "ended"
        assert main.main(["wait", "t"]) == 0
        assert main.main(["logs", "t"]) == 0
        assert "ended" in capsys.readouterr().out


@pytest.mark.parametrize("provider", MACHINES)
def test_what_a_job_or_service_runs_in_is_logged_into_like_any_machine(
    provider, rig, capsys
) -> None:
    """Where the workload runs on a machine of ours, `gpus ssh` and `gpus logs` lead there while it
    runs.
    """
    from providers.cli import main

    lab = rig(provider)
    lab.world.journal.owned("rehearsal", "owner1", "gpus", "dev")
    lab.create(lab.wanted(SERVICE))
    assert main.main(["ssh", "t", "--", "true"]) == 0
    assert main.main(["logs", "t"]) == 0
    assert capsys.readouterr().out.strip()
