"""`gpus watch` with the real engine, CLI and plugin over the rehearsal clouds: losses, the cap,
locks, signals, the log.
"""

import json
import signal
import subprocess

import pytest

from tests.plugin.conftest import BIN, wait_until
from tests.present import present


def words(made, *more):
    return [str(BIN / "gpus"), "watch", "-s", made.stack, *more]


def watch(made, *more, code=0):
    done = subprocess.run(
        words(made, *more),
        check=False,
        env=made.env,
        cwd=made.folder,
        capture_output=True,
        text=True,
        timeout=170,
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert done.returncode == code, said
    return said


def spot(project):
    made = project("train-a100-spot")
    made.up()
    return made


def test_b29_a_lost_machine_is_bought_again_up_to_the_cap(project, tmp_path) -> None:
    """A preempted machine is bought again by one round; at the cap a round buys nothing and says
    so; an hour later it does. One JSON line a round.
    """
    made = project("train-a100-spot")
    made.edit("gpus:world: rehearsal", "gpus:world: rehearsal\n  gpus:max_spend: 5000")
    made.up()
    log = tmp_path / "watch.jsonl"
    assert "unchanged: nothing to do" in watch(made, "--once", "--log", str(log))
    first = made.machines()[0]["name"]
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    said = watch(made, "--once", "--max-buys", "2/h", "--log", str(log))
    assert "bought train" in said and "is gone: preempted" in said
    (second,) = made.machines()
    assert second["name"] != first
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    said = watch(made, "--once", "--max-buys", "2", "--log", str(log))
    assert "capped: 2 bought in the last hour, at most 2 may be: train waits" in said
    assert made.machines() == []
    assert "capped" in watch(made, "--once", "--max-buys", "0", "--log", str(log))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["result"] for record in records] == ["unchanged", "bought", "capped", "capped"]
    assert (
        records[1]["bought"] == ["train"]
        and records[1]["bought_last_hour"] == 2
        and records[1]["clusters"][0]["status"] == "running"
    )
    assert (
        records[0]["spending"]["max_spend_usd"] == 5000
        and 0 < records[2]["spending"]["spent_usd"] < records[2]["spending"]["to_come_usd"] + 100
    )
    made.destroy()
    assert made.machines() == []


def test_another_update_is_waited_for_not_cancelled(project) -> None:
    """While an `up` holds the stack's lock a round waits; that `up` ends as it would have, and the
    round finds nothing left to do.
    """
    made = project("train-a100-spot")
    made.rehearse("latency", "gcp", "create", "25s")
    with subprocess.Popen(
        made.command("up", "-s", made.stack, "--yes", "--skip-preview"),
        env=made.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        for line in present(up.stdout):
            if ": asking" in line:
                break
        said = watch(made, "--once")
        rest = present(up.stdout).read()
    assert up.returncode == 0, rest
    assert "unchanged: nothing to do" in said
    assert len(made.machines()) == 1
    made.destroy()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_purchase_in_order(project, number) -> None:
    """SIGTERM or Ctrl-C while a round buys: what is half made is released, the state is whole, the
    log's line says stopped; destroy as ever.
    """
    made = spot(project)
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    made.rehearse("latency", "gcp", "create", "3m")
    before = made.seen()["mutations"]
    with subprocess.Popen(
        words(made),
        env=made.env,
        cwd=made.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        wait_until(lambda: made.seen()["mutations"] > before)
        running.send_signal(number)
        said, _ = running.communicate(timeout=120)
    assert "stopped" in said and "Traceback" not in said
    assert running.returncode == 0, said
    wait_until(lambda: made.machines() == [])
    made.destroy()


def test_b45_a_watch_makes_a_loss_of_one_machine_good(project) -> None:
    """One of two machines is taken back: a round gets it again beside the other one, as `on_loss:
    replace-node` says.
    """
    made = project("train-h100x8x2")
    made.edit("nodes: 2", "nodes: 2\n      on_loss: replace-node")
    made.up()
    names = {machine["name"] for machine in made.machines()}
    made.rehearse("preempt", sorted(names)[0])
    made.rehearse("advance", "2m")
    assert "gets what is lost again in the same place" in " ".join(made.preview().split())
    said = watch(made, "--once")
    assert "bought train" in said
    assert (
        len(made.machines()) == 2
        and len(names & {machine["name"] for machine in made.machines()}) == 1
    )
    assert made.cluster()["outputs"]["status"] == "running"
    made.destroy()
    assert made.machines() == []


def test_a_watch_leaves_the_selected_stack_alone(project) -> None:
    """Whatever stack is watched, a person's next bare `pulumi destroy` means the one that was
    selected before.
    """
    made = project()

    def pulumi(*arguments):
        done = subprocess.run(
            [str(BIN / "pulumi"), "stack", *arguments],
            env=made.env,
            cwd=made.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    pulumi("init", "another")
    pulumi("select", "another")
    watch(made, "--once", "--max-buys", "0")
    assert pulumi("--show-name") == "another"


def test_what_no_round_could_mend_is_told_at_once(project) -> None:
    """A stack that is not there, and arguments that mean nothing, are one line each."""
    made = project()
    assert "--stack: wanted a stack of this project and backend, found 'nothere'" in watch(
        made, "-s", "nothere", "--once", code=2
    )
    assert "--interval: wanted at least 30s" in watch(made, "--interval", "1s", code=2)
    assert '--max-buys: wanted a whole number an hour, as in "3/h"' in watch(
        made, "--max-buys", "lots", code=2
    )


def test_b34_a_watch_ends_what_is_idle_where_no_timer_can(project) -> None:
    """A marketplace host whose GPUs had nothing to do for `idle_after` is released by a round, told
    as ended, and not bought again; busy ones stay.
    """
    made = project("rent-4090x2")
    made.edit("ttl: 12h", "ttl: 12h\n      idle_after: 1h")
    made.up()
    busy = ("--once", "--interval", "90m")
    assert "unchanged: nothing to do" in watch(made, *busy)
    made.rehearse("idle", "all")
    assert "idle for 0s, ends after 1h" in watch(made, *busy)
    made.rehearse("advance", "70m")
    said = watch(made, *busy)
    assert "released bench, which had nothing to do" in said and "as idle_after says" in said
    assert made.machines() == []
    outputs = made.cluster()["outputs"]
    assert outputs["status"] == "ended" and outputs["detail"].startswith("idle for 1h")
    made.preview("--expect-no-changes")
    made.up()
    assert made.machines() == []
    made.destroy()


def test_b34_an_idle_machine_with_a_timer_is_ended_and_its_rest_deleted(project) -> None:
    """Google stops a machine that powered itself off: the next `up` deletes the rest, says that it
    ended, and buys nothing; a rerun gets a new one.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", "gpu: L4:1\n      idle_after: 1h")
    made.up()
    assert "ends itself at" in made.rehearse("idle", "all")
    made.rehearse("advance", "2h")
    assert [machine["status"] for machine in made.machines()] == ["TERMINATED"]
    made.up()
    assert made.machines() == []
    assert made.cluster()["outputs"]["status"] == "ended"
    made.up()
    assert made.machines() == []
    made.edit("idle_after: 1h", "idle_after: 1h\n      triggers: {rerun: 1}")
    made.up()
    assert len(made.machines()) == 1
    made.destroy()
