"""`gpus watch` with the real engine, CLI and plugin over the rehearsal clouds: losses, the cap, locks, signals, the log."""

import json
import signal
import subprocess

import pytest

from tests.plugin.conftest import BIN, wait_until


def words(made, *more):
    return [str(BIN / "gpus"), "watch", "-s", made.stack, *more]


def watch(made, *more, code=0):
    done = subprocess.run(words(made, *more), env=made.env, cwd=made.folder, capture_output=True, text=True, timeout=170)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert done.returncode == code, said
    return said


def spot(project):
    made = project("train-a100-spot")
    made.up()
    return made


def test_b29_a_lost_machine_is_bought_again_up_to_the_cap(project, tmp_path):
    """A preempted machine is bought again by one round; at the cap a round buys nothing and says so; an hour later it does. One JSON line a round."""
    made = spot(project)
    log = tmp_path / "watch.jsonl"
    assert "unchanged: nothing to do" in watch(made, "--once", "--log", str(log))
    first = made.machines()[0]["name"]
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    said = watch(made, "--once", "--max-buys", "2/h", "--log", str(log))
    assert "bought train" in said and "was preempted" in said
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
    assert records[1]["bought"] == ["train"] and records[1]["bought_last_hour"] == 2 and records[1]["clusters"][0]["status"] == "running"
    made.destroy()
    assert made.machines() == []
