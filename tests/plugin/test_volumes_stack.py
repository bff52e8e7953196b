"""A stack with a volume by the real engine on a rehearsal cloud: the data outlives machine, cluster
and stack, and goes only where that was declared.
"""

import os
import signal
import subprocess

import pytest

from tests.plugin.conftest import wait_until

STACK = "train-l4-volume"
VOLUME = "gpu:index:Volume"


@pytest.mark.long
@pytest.mark.timeout(170)
def test_a_volume_outlives_its_machines_and_its_stack_until_its_data_may_go(project) -> None:
    """up, a replaced machine, destroy, up again, and a removal with consent: one disk throughout."""
    made = project(STACK)
    for step in ("create", "delete", "edit"):
        made.rehearse("latency", "gcp", step, "0.1s")
    made.up()
    first = made.resources()[VOLUME]
    assert first["outputs"]["price_usd_per_month"] == 20
    before = made.cluster()["outputs"]
    assert before["zone"] == "us-central1-a"
    made.edit("kind: job", "kind: job\n      triggers: {rerun: 1}")
    made.up()
    assert made.cluster()["outputs"]["generation"] != before["generation"]
    assert made.resources()[VOLUME]["id"] == first["id"]
    said = " ".join(made.destroy().split())
    assert "kept, and billed on: checkpoints: 200 GiB pd-balanced" in said
    assert "no stack declares it any more" in made.gpus("spend", "-s", STACK)
    assert made.machines() == []
    made.edit("size_gib: 200", "size_gib: 300")
    assert "taking over" in made.up()
    again = made.resources()[VOLUME]
    assert again["id"] == first["id"] and again["outputs"]["size_gib"] == 300
    made.edit("size_gib: 300", "size_gib: 300, delete_data: true")
    made.up()
    assert "kept" not in made.destroy()
    assert _listed(made) == ()
    assert "unused" not in made.gpus("spend", "-s", STACK) and "volume checkpoints" in made.gpus(
        "spend", "-s", STACK
    )


@pytest.mark.long
@pytest.mark.timeout(170)
def test_a_run_killed_while_its_disk_is_made_leaves_one_disk_to_the_next(project) -> None:
    """The engine and the plugin are killed with the creating call carried out and not answered."""
    made = project(STACK)
    for step in ("create", "delete", "edit"):
        made.rehearse("latency", "gcp", step, "0.1s")
    made.rehearse("fault", "gcp", "disks.insert", "delay", "--set", "seconds=30")
    with subprocess.Popen(
        made.command("up", "-s", STACK, "--yes", "--skip-preview"),
        env=made.env,
        stdout=subprocess.DEVNULL,
    ) as up:
        wait_until(lambda: _listed(made), 60)
        plugins = made.plugins(up.pid)
        up.send_signal(signal.SIGKILL)
        for pid in plugins:
            os.kill(pid, signal.SIGKILL)
    made.run("cancel", "-s", STACK, "--yes")
    assert "volume checkpoints" in made.gpus("spend", "-s", STACK)
    (disk,) = _listed(made)
    made.up()
    assert made.resources()[VOLUME]["outputs"]["native_id"].endswith(disk.rpartition("/")[2])
    assert [each for each in _listed(made) if "gpus-" in each] == [disk]


def _listed(made):
    from providers.rehearsal.clouds.gcp import console
    from providers.rehearsal.store import Store

    return console.disks(Store(made.folder / "home" / "rehearsal.db"))
