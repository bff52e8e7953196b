"""A stack that waits for capacity, with the real engine, CLI and plugin over the rehearsal clouds."""

import json
import re
import subprocess
from typing import Any

import pytest

from tests.adhoc.test_get import webhook
from tests.plugin.test_watch import watch, words

__all__ = ["webhook"]

WAITS = "spot: only # never on-demand\n      acquire: {within: 12h}\n      providers: [gcp]"


def stock(made: Any, count: int) -> None:
    made.rehearse("stock", "gcp", "*", "*", "*", str(count))


@pytest.fixture
def made(project: Any) -> Any:
    found = project("train-a100-spot")
    found.edit("spot: only # never on-demand", WAITS)
    return found


def status(made: Any) -> str:
    return str(made.cluster()["outputs"]["status"])


def test_cluster_that_waits_is_bought_once_though_an_up_is_killed_and_two_watch(made: Any) -> None:
    """The `up` is killed with -9 amid its purchase; of two watchers one adopts what it made."""
    stock(made, 0)
    said = " ".join(made.up().split())
    assert "still looking: " in said and "`gpus watch -s train-a100-spot` goes on looking" in said
    assert status(made) == "waiting" and made.machines() == []
    assert "unchanged: still looking for train" in watch(made, "--once")
    stock(made, 9)
    made.rehearse("advance", "2h")
    made.rehearse("latency", "gcp", "create", "20s")
    made.killed_up("#1", also_plugin=True)
    watchers = [
        subprocess.Popen(
            words(made, "--once"),
            env=made.env,
            cwd=made.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    told = [each.communicate(timeout=200)[0] for each in watchers]
    assert [each.returncode for each in watchers] == [0, 0], told
    assert len(made.machines()) == 1 and status(made) == "running", told
    made.destroy()
    assert made.machines() == []


def test_stack_gives_up_after_its_time_and_looks_anew_after_an_edit(
    made: Any, webhook: Any
) -> None:
    """The status and a notice say so, and each `up` fails until then."""
    url, notices = webhook
    stock(made, 0)
    shown = " ".join(made.preview().split())
    assert "sold out everywhere: waits, and `gpus watch` goes on looking for 12h" in shown
    made.up()
    made.rehearse("advance", "13h")
    assert "failed: " in watch(made, "--once", "--notify", url, code=1)
    assert "gpus: train-a100-spot: train gave-up" in [each["title"] for each in notices]
    assert status(made) == "gave-up"
    assert "gave up: looked for 12h" in made.up(fails=True)
    made.edit("within: 12h", "within: 10h")
    made.up()
    assert status(made) == "waiting"
    made.destroy()
    assert "gpu:index:Cluster" not in made.resources()


def test_cluster_that_is_lost_where_nothing_has_room_waits(made: Any) -> None:
    """Its `up` succeeds, and `gpus ps` lists it."""
    made.up()
    stock(made, 0)
    made.rehearse("preempt", "all")
    made.rehearse("advance", "2m")
    assert "still looking: " in made.up()
    assert status(made) == "waiting" and made.machines() == []
    listed = json.loads(made.gpus("ps", "--json"))
    assert [(each["name"], each["status"]) for each in listed] == [("train", "waiting")]
    made.destroy()


def test_of_clusters_that_wait_as_many_look_as_may_still_buy(project: Any) -> None:
    """The `up` that declared them counts as one; so the next round buys one, the first that was
    due, and that after it the other.
    """
    made = project("train-a100-spot")
    text = made.file.read_text()
    one = "      gpu: L4:1\n      providers: [gcp]\n      ttl: 8h\n      acquire: {within: 12h}\n"
    head = text[: text.index("    train:")]
    made.file.write_text(f"{head}    first:\n{one}    second:\n{one}")
    stock(made, 0)
    assert "still looking: " in made.up() and made.machines() == []
    stock(made, 9)
    made.rehearse("advance", "2h")
    said = watch(made, "--once", "--max-buys", "2/h")
    (late,) = re.findall(r"at most 2 may be: (first|second) waits", said)
    assert f": bought {late}" not in said and ": bought " in said and len(made.machines()) == 1
    assert f": bought {late}" in watch(made, "--once", "--max-buys", "2/h")
    made.destroy()
    assert made.machines() == []
