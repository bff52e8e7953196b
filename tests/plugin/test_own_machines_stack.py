"""`pulumi up -s train-ddp-own` by the real engine on two machines of one's own: real ssh servers,
real processes, a real bucket folder. Only cards and torch are played.
"""

import json

import pytest

from tests.plugin.boxes import boxes
from tests.plugin.conftest import wait_until

__all__ = ["boxes"]

pytestmark = pytest.mark.long

ONCE_OVER = (
    'case "$SSH_ORIGINAL_COMMAND" in *own/env*)'
    ' while [ -n "$(ls "$GPUS_AGENT_ROOT/leases")" ]; do sleep 0.05; done ;; esac;'
    ' exec sh -c "$SSH_ORIGINAL_COMMAND"'
)
"""What runs in a lease by a login waits until that is over."""


@pytest.fixture
def stack(project, boxes, tmp_path):
    """The declared stack with these boxes; what it trains with is on them, not in an image."""
    made = project("train-ddp-own")
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(json.dumps({"machines": [box.entry() for box in boxes]}))
    made.edit("ssh:inventory: rehearsal", f"ssh:inventory: {inventory}")
    made.edit("        image: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime\n", "")
    made.edit("/opt/out", str(tmp_path / "out"))
    made.edit("every: 1m", "every: 10s")
    made.env |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "kept-secret"}
    return made


def test_a_killed_run_on_own_machines_resumes_and_leaves_nothing(stack, boxes, tmp_path) -> None:
    """Two boxes train together; both are unplugged; the next `up` goes on from the checkpoint, and
    after `destroy` nothing is left there but logs.
    """
    stack.up()
    assert [len(box.leases) for box in boxes] == [1, 1]
    # They are real, though the world is a rehearsal.
    assert "nothing listens" not in stack.cluster()["outputs"]["ssh"]
    wait_until((tmp_path / "bucket" / "checkpoint").exists, 25)
    said = stack.gpus("logs", "train")
    assert "begins at step 0" in said, said
    shown = stack.gpus("ssh", "train", "--", "echo $CUDA_VISIBLE_DEVICES; pwd")
    assert "GPU-box-1-0,GPU-box-1-1" in shown and str(boxes[0].root) in shown, shown
    stack.gpus("cp", "train:train.py", str(tmp_path / "copied"))
    assert (tmp_path / "copied").read_text() == (stack.folder / "stacks/train.py").read_text()
    for box in reversed(boxes):
        box.power_off()
    (tmp_path / "out" / "checkpoint").unlink()
    for box in boxes:
        box.start()
    said = stack.up("--refresh")
    # Nobody took the boxes back.
    assert "it was lost (" in said and "took it back" not in said, said
    wait_until(lambda: all("train: done" in box.log for box in boxes), 40)
    assert all("begins at step 0" in box.log for box in boxes)
    assert any(f"begins at step {step}" in boxes[0].log for step in range(1, 60)), boxes[0].log
    stack.destroy()
    wait_until(lambda: not any(box.leases for box in boxes))
    for box in boxes:
        assert (box.files, box.leases) == ([], []), box.files
        wait_until(lambda: not box.processes(), 10)  # noqa: B023 - called at once
    state = "".join(path.read_text() for path in (stack.folder / "state").rglob("*.json"))
    assert "kept-secret" not in state


def test_where_the_boxes_are_taken_a_cloud_serves(stack, boxes) -> None:
    """Somebody works on one of them without a lease: the same stack takes two of the cloud's, and
    nothing of the boxes.
    """
    boxes[1].used(0)
    stack.up()
    outputs = stack.cluster()["outputs"]
    assert (outputs["provider"], outputs["gpu_type"], outputs["nodes"]) == ("gcp", "L4", 2)
    assert [box.leases for box in boxes] == [[], []]
    stack.destroy()
    assert stack.machines() == []


def test_made_up_boxes_play_the_run_and_leave_nothing(project) -> None:
    """As it stands in the repository, without any box: the run is played to its end, which gives the
    boxes back.
    """
    made = project("train-ddp-own")
    made.up()
    assert [each["provider"] for each in made.machines()] == ["ssh", "ssh"]
    made.rehearse("advance", "3m")
    said = made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    assert "Traceback" not in said
    done = made.cluster()["outputs"]
    assert (done["status"], done["detail"]) == ("ended", "exit code 0"), done
    made.destroy()
    assert made.machines() == []


def test_a_folder_is_sent_to_own_machines_by_the_inventorys_key_and_goes_with_the_lease(
    stack, boxes
) -> None:
    """The command runs in it; an edit of the folder starts it anew."""
    (stack.folder / "code").mkdir()
    (stack.folder / "code" / "say.sh").write_text("echo first from $PWD; sleep 300\n")
    stack.edit("        launcher: torchrun\n", "")
    stack.edit("command: train.py --epochs 3", "command: sh say.sh")
    stack.edit("      workload:", "      workdir: code\n      workload:")
    stack.up()
    wait_until(lambda: all("first from" in box.log for box in boxes), 30)
    assert str(boxes[0].root) in boxes[0].log
    (stack.folder / "code" / "say.sh").write_text("echo second; sleep 300\n")
    stack.up()
    wait_until(lambda: all("second" in box.log for box in boxes), 30)
    stack.destroy()
    wait_until(lambda: not any(box.leases for box in boxes))
    assert [box.files for box in boxes] == [[], []]


def test_a_trial_on_an_own_machine_finds_its_secrets_and_leaves_nothing(stack, boxes) -> None:
    """Its start-up script is the one of a lease, as with `up`."""
    stack.edit("        launcher: torchrun\n", "")
    stack.edit(
        "command: train.py --epochs 3", "command: echo ${#AWS_SECRET_ACCESS_KEY} $HOME && true"
    )
    said = stack.gpus("run", "-s", "train-ddp-own", "--on", "RTX-4090:2", "--yes")
    assert f"{len('kept-secret')} {boxes[0].root}" in said, said
    assert "kept-secret" not in said
    # The world is a rehearsal; the machine is not.
    assert "your own machines are real" in said and "a rehearsal costs" not in said, said
    assert "about $0.00 at" in said, said
    assert [box.leases for box in boxes] == [[], []]


@pytest.mark.parametrize(
    ("command", "status", "detail"),
    [("true", "ended", "exit code 0"), ("false", "failed", "exit code 1")],
)
def test_a_job_that_ends_at_once_was_run_once(stack, boxes, command, status, detail) -> None:
    """It has given its cards back before anybody looks: that is its end, not a wrong delivery."""
    for box in boxes:
        box.power_off()
        box.shell = f"sh -c '{ONCE_OVER}'"
        box.start()
    stack.edit("        launcher: torchrun\n", "")
    stack.edit("command: train.py --epochs 3", f"command: echo here && {command}")
    stack.edit("      nodes: 2\n", "")
    stack.up()
    outputs = stack.cluster()["outputs"]
    assert (outputs["status"], outputs["detail"]) == (status, detail), outputs
    assert sum(box.log.count("here\n") for box in boxes) == 1
    stack.destroy()
