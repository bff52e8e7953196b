"""A stack with a volume by the real engine on a rehearsal cloud: the data outlives machine, cluster
and stack, and goes only where that was declared.
"""

import subprocess

import pytest

from tests.plugin.conftest import BIN

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
    made.edit("kind: job", "kind: job\n      run: again")
    made.up()
    assert made.cluster()["outputs"]["generation"] != before["generation"]
    assert made.resources()[VOLUME]["id"] == first["id"]
    said = " ".join(made.destroy().split())
    assert "kept, and billed on: checkpoints: 200 GiB pd-balanced" in said
    assert made.machines() == []
    swept = subprocess.run(
        [str(BIN / "gpus"), "sweep", "--yes"],
        check=True,
        cwd=made.folder,
        env=made.env,
        capture_output=True,
        text=True,
    )
    assert "checkpoints: 200 GiB pd-balanced at gcp us-central1-a, $20.00/month" in swept.stdout
    assert "volumes: 1 kept, 0 claimed by stacks" in swept.stdout
    made.edit("size_gib: 200", "size_gib: 300")
    assert "taking over" in made.up()
    again = made.resources()[VOLUME]
    assert again["id"] == first["id"] and again["outputs"]["size_gib"] == 300
    made.edit("size_gib: 300", "size_gib: 300, delete_data: true")
    made.up()
    assert "kept" not in made.destroy()
    assert _listed(made) == ()


def _listed(made):
    from providers.rehearsal.clouds.gcp import console
    from providers.rehearsal.store import Store

    return console.disks(Store(made.folder / "home" / "rehearsal.db"))
