"""Readiness of declared clusters over the real engine: what is looked at before an `up` succeeds,
and what is kept where.
"""

import base64
import json
import random
import stat
from pathlib import Path


def keys(made):
    return [
        path
        for path in (Path(made.env["GPUS_HOME"]) / "keys").rglob("id_ed25519")
        if path.is_file()
    ]


def test_b32_wrong_gpus_are_ended_and_the_next_place_is_had_in_the_same_up(project) -> None:
    """A machine with seven of eight GPUs is released within the `up`, the attempt names the stage,
    and nothing but the next machine is left.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]", "rank: preference\n      providers: [gcp, aws, modal]"
    )
    made.rehearse("fault", "gcp", "node.look", "wrong-gpus")
    said = " ".join(made.up().split())
    assert "7 of 8 GPUs answer" in said
    outputs = made.cluster()["outputs"]
    assert (
        any("HalfMade wrong-gpus" in attempt for attempt in outputs["attempts"])
        and outputs["status"] == "running"
    )
    assert [machine["status"] for machine in made.machines()] == ["RUNNING"]
    made.destroy()
    assert made.machines() == []


def test_the_clusters_key_stays_here_and_an_edit_of_ready_calls_no_cloud(project) -> None:
    """The key is on this machine alone, 0600, in no state and no line; an edit of `ready` is an
    update without a call; destroy removes the key.
    """
    made = project("serve-l4")
    said = made.up()
    (key,) = keys(made)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    public = key.with_suffix(".pub").read_text().split()[1]
    private = key.read_text().splitlines()[1]
    state = made.run("stack", "export", "-s", made.stack, "--show-secrets")
    assert (
        public not in state and private not in state and public not in said and private not in said
    )
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


def test_b30_a_port_that_stays_closed_is_said_with_what_ready_running_is_for(project) -> None:
    """Nothing answers at any machine's port: `up` fails with the stage and the way out, and leaves
    neither machine nor key.
    """
    made = project("serve-l4")
    made.edit("gpu: L4:1", "gpu: L4:1\n      wait: 5s\n      providers: [gcp]")
    made.rehearse("fault", "gcp", "node.look", "port-closed", "--times", "999")
    said = " ".join(made.up(fails=True).split())
    assert (
        "port closed" in said
        and "`ready: running` is for networks where this machine cannot reach it by ssh" in said
    )
    assert "2 machines in a row could not be reached from here" in said
    assert made.machines() == [] and keys(made) == []
    made.edit("wait: 5s", "wait: 5s\n      ready: running")
    made.up()
    assert json.loads(json.dumps(made.cluster()["outputs"]))["status"] == "running"
    made.destroy()
    assert made.machines() == []


def test_b32_a_start_up_that_failed_shows_its_exit_status(project) -> None:
    """The machine is launched, and the `up` says what its start-up script ended with."""
    made = project("serve-l4")
    made.rehearse("fault", "gcp", "node.look", "start-up-failed", "--set", "code=3")
    said = " ".join(made.up().split())
    assert (
        "its start-up script ended with 3; `gpus logs` shows what it wrote" in said
        and made.cluster()["outputs"]["provider"] == "gcp"
    )
    # What does not compress: a first boot's user data is sent packed.
    key = "ssh-rsa " + base64.b64encode(random.Random(1).randbytes(20_000)).decode()
    made.edit("gpu: L4:1", f"gpu: L4:1\n      ssh_key: {key}")
    refused = " ".join(made.preview(fails=True).split())
    assert "wanted user data of at most 16,384 bytes, found 2" in refused
    made.edit(f"\n      ssh_key: {key}", "")
    made.destroy()


def test_a_declared_cluster_is_in_the_hand(project) -> None:
    """ssh, cp, ps and logs know what a stack declares, by the same names as what is ad hoc; which
    one is meant is never guessed.
    """
    made = project("serve-l4")
    assert "found none that was placed from this machine" in made.gpus(
        "ssh", "serve", "-s", "serve-l4", code=2
    )
    made.edit("gpu: L4:1", "gpu: L4:1\n      ttl: 2h")
    made.up()
    assert "L4 (rehearsal stand-in), 24576 MiB" in made.gpus(
        "ssh", "serve", "-s", "serve-l4", "--", "nvidia-smi --query-gpu=name,memory.total"
    )
    assert "stand-in" in made.gpus("ssh", "serve", "--", "nvidia-smi")
    (made.folder / "train.py").write_text("print('trained')")
    made.gpus("cp", "train.py", "serve:", "-s", "serve-l4")
    made.gpus("ssh", "serve", "-s", "serve-l4", "--", "cp train.py out")
    made.gpus("cp", "serve:out", "back", "-s", "serve-l4")
    assert (made.folder / "back").read_text() == "print('trained')"
    assert "nothing boots here" in made.gpus("logs", "serve", "-s", "serve-l4")
    shown = made.gpus("ps")
    assert "serve-l4" in shown and "nothing runs ad hoc" in shown
    (row,) = json.loads(made.gpus("ps", "-s", "serve-l4", "--json"))
    assert (row["name"], row["stack"], row["gpu_type"], row["status"]) == (
        "serve",
        "serve-l4",
        "L4",
        "running",
    ) and row["price_usd_per_hour"] > 0
    assert "pulumi destroy -s serve-l4 ends it" in made.gpus("release", "serve", code=2)
    made.gpus("run", "L4:1", "--name", "serve", "--keep", "--", "echo ad hoc > which")
    assert "ad hoc" in made.gpus("ssh", "serve", "--", "cat which")
    assert "No such file" in made.gpus("ssh", "serve", "-s", "serve-l4", "--", "cat which", code=1)
    made.gpus("release", "serve")
    assert len(made.machines()) == 1
    made.edit("ttl: 2h", "ttl: 2h\n      state: stopped")
    made.up()
    assert "found that it is stopped" in made.gpus(
        "ssh", "serve", "-s", "serve-l4", "--", "true", code=2
    )
    assert "nothing boots here" in made.gpus("logs", "serve")
    made.edit("state: stopped", "state: running")
    made.up()
    made.rehearse("advance", "3h")
    told = made.gpus("ssh", "serve", "-s", "serve-l4", "--", "true", code=2)
    assert "UTC by its ttl; `gpus rerun serve -s serve-l4 --up` starts a new one" in told
    made.destroy()
    assert "nothing of stack serve-l4 runs" in made.gpus("ps", "-s", "serve-l4")


def test_a_place_whose_links_are_slow_is_left_for_the_next_one_in_the_same_up(project) -> None:
    """With `accept: quick` a machine whose all-reduce goes at TCP's speed is released within the
    `up`, the attempt says why, and nothing but the next machine is left.
    """
    made = project()
    made.edit(
        "providers: [gcp, aws, modal]",
        "rank: preference\n      accept: quick\n      providers: [gcp, aws, modal]",
    )
    made.rehearse("fault", "gcp", "node.accept", "tcp-links")
    said = " ".join(made.up().split())
    assert "all-reduce at 1.2 GB/s on the bus" in said and "accepted: bf16" in said
    outputs = made.cluster()["outputs"]
    assert (
        any("Degraded" in attempt for attempt in outputs["attempts"])
        and outputs["status"] == "running"
    )
    assert [machine["status"] for machine in made.machines()] == ["RUNNING"]
    made.destroy()
    assert made.machines() == []
