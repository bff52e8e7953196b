"""Readiness of declared clusters over the real engine: what is looked at before an `up` succeeds, and what is kept where."""

import json
import stat
from pathlib import Path


def keys(made):
    return [path for path in (Path(made.env["GPUS_HOME"]) / "keys").rglob("id_ed25519") if path.is_file()]


def test_b32_wrong_gpus_are_ended_and_the_next_place_is_had_in_the_same_up(project):
    """A machine with seven of eight GPUs is released within the `up`, the attempt names the stage, and nothing but the next machine is left."""
    made = project()
    made.rehearse("fault", "gcp", "node.look", "wrong-gpus")
    said = " ".join(made.up().split())
    assert "7 of 8 GPUs answer" in said
    outputs = made.cluster()["outputs"]
    assert any("HalfMade wrong-gpus" in attempt for attempt in outputs["attempts"]) and outputs["status"] == "running"
    assert [machine["status"] for machine in made.machines()] == ["RUNNING"]
    made.destroy()
    assert made.machines() == []


def test_the_clusters_key_stays_here_and_an_edit_of_ready_calls_no_cloud(project):
    """The key is on this machine alone, 0600, in no state and no line; an edit of `ready` is an update without a call; destroy removes the key."""
    made = project("serve-l4")
    said = made.up()
    (key,) = keys(made)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    public = key.with_suffix(".pub").read_text().split()[1]
    private = key.read_text().splitlines()[1]
    state = made.run("stack", "export", "-s", made.stack, "--show-secrets")
    assert public not in state and private not in state and public not in said and private not in said
    before = made.seen()["mutations"]
    made.edit("gpu: L4:1", "gpu: L4:1\n      ready: running")
    shown = made.preview()
    assert "update" in shown and "replace" not in shown
    made.up()
    assert made.cluster()["inputs"]["ready"] == "running" and made.seen()["mutations"] == before
    made.edit("ready: running", "ready: soon")
    assert "ready" in made.preview(fails=True)
    made.edit("ready: soon", "ready: running")
    made.destroy()
    assert keys(made) == [] and made.machines() == []


def test_b30_a_port_that_stays_closed_is_said_with_what_ready_running_is_for(project):
    """Nothing answers at any machine's port: `up` fails with the stage and the way out, and leaves neither machine nor key."""
    made = project("serve-l4")
    made.edit("gpu: L4:1", "gpu: L4:1\n      wait: 5s\n      providers: [gcp]")
    made.rehearse("fault", "gcp", "node.look", "port-closed", "--times", "999")
    said = " ".join(made.up(fails=True).split())
    assert "port closed" in said and "`ready: running` is for networks where this machine cannot reach it by ssh" in said
    assert "2 machines in a row could not be reached from here" in said
    assert made.machines() == [] and keys(made) == []
    made.edit("wait: 5s", "wait: 5s\n      ready: running")
    made.up()
    assert json.loads(json.dumps(made.cluster()["outputs"]))["status"] == "running"
    made.destroy()
    assert made.machines() == []
