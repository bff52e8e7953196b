"""A declared cluster over a real ssh server: its own key, its readiness, its pinned host key, and
what of all that stays here.
"""

import asyncio
import json
import stat
import subprocess

import pytest

from providers import errors
from providers.adapters.base import Limits
from providers.adhoc import stack_clusters
from providers.adhoc.sync import Machine, portal
from providers.engine import keys, operations


def key_folder():
    return keys.folder("live", "own", "train")


def deleted(bench, record) -> None:
    asyncio.run(operations.delete(bench.world(), record))


def test_ready_means_looked_into_with_a_key_of_its_own_beside_the_users(bench, tmp_path) -> None:
    """The machine bears two keys, the user's and one made for the cluster; the second logs in, and
    goes once the delete is confirmed.
    """
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "mine")], check=True
    )
    users = (tmp_path / "mine.pub").read_text().strip()
    record = bench.declare(ssh_key=users)
    assert record.status == "running" and not record.reasons
    assert bench.host.keys.read_text().splitlines()[0] == users
    own = bench.host.keys.read_text().splitlines()[1]
    assert (
        own.endswith(" gpus-own-train")
        and own == (key_folder() / "id_ed25519.pub").read_text().strip()
    )
    assert (
        stat.S_IMODE(key_folder().stat().st_mode) == 0o700
        and stat.S_IMODE((key_folder() / "id_ed25519").stat().st_mode) == 0o600
    )
    deleted(bench, record)
    assert bench.cloud.alive == [] and not key_folder().exists()


def test_b43_neither_half_of_the_key_is_in_the_record_and_the_private_half_is_nowhere_else(
    bench, tmp_path
) -> None:
    """State, journal, orders and lines hold no private key; the record and its fingerprint say
    nothing of the public one either.
    """
    record = bench.declare()
    private = (key_folder() / "id_ed25519").read_text().splitlines()[1]
    public = (key_folder() / "id_ed25519.pub").read_text().split()[1]
    assert public not in json.dumps(record.to_dict()) and public in repr(bench.cloud.orders)
    assert private not in repr(bench.cloud.orders) + repr(bench.lines)
    for file in (tmp_path / "gpus").glob("journal.db*"):
        assert private.encode() not in file.read_bytes()
    deleted(bench, record)
    plain = bench.declare(ready="")
    assert plain.fingerprint == record.fingerprint and plain.applied == record.applied
    deleted(bench, plain)


def test_b32_wrong_gpus_are_ended_and_the_next_place_is_tried_in_the_same_run(bench) -> None:
    """Seven of eight GPUs: that machine is released, the attempt says so, and the next place is
    had.
    """
    bench.host.gpus(7)
    real = bench.cloud.delete
    bench.cloud.delete = lambda handle: (bench.host.gpus(8), real(handle))[1]
    record = bench.declare()
    first, last = record.attempts
    assert (first.outcome, first.code) == (
        "HalfMade",
        "wrong-gpus",
    ) and "7 of 8 GPUs answer" in first.message
    assert last.outcome == "acquired" and len(bench.cloud.alive) == 1
    deleted(bench, record)


def test_b30_a_closed_port_says_what_ready_running_is_for(bench) -> None:
    """Where the port never answers, the failure names the stage and the field to set; nothing is
    left, no key either.
    """
    bench.server.stop()
    try:
        with pytest.raises(errors.AllFailed) as failed:
            bench.declare(wait="30s")
        said = " ".join(str(failed.value).split())
        assert (
            "port closed" in said
            and "`ready: running` is for networks where this machine cannot reach it by ssh" in said
        )
        assert bench.cloud.alive == [] and not key_folder().exists()
        record = bench.declare(ready="running", wait="30s")
        assert record.status == "running" and len(record.attempts) == 1
    finally:
        bench.server.start()
    deleted(bench, record)


def test_the_host_key_is_pinned_at_readiness_and_strict_after_also_when_it_is_looked_at_again(
    bench,
) -> None:
    """A machine that was ready once and shows another host key is not taken over: it is deleted,
    and another one bought.
    """
    world = bench.world()
    record = bench.declare(world=world)
    assert (key_folder() / "known_hosts").read_text().count("gpus-") == 1
    same = bench.declare(world=world, do=lambda w, want: operations.create(w, want, "g2"))
    assert same.handles == record.handles and same.generation == "g2"
    bench.server.stop()
    bench.server.start()
    other = bench.declare(
        world=world, do=lambda w, want: operations.create(w, want, "g3"), wait="2m"
    )
    assert other.handles != record.handles and len(bench.cloud.alive) == 1
    assert any("login refused" in line and "deleting it" in line for line in bench.lines)
    deleted(bench, other)


def test_what_another_clone_bought_is_adopted_without_its_key(bench, tmp_path, monkeypatch) -> None:
    """A clone that has neither key nor journal takes the machine over by its labels, ready as the
    cloud says, and says that.
    """
    record = bench.declare()
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "elsewhere"))
    taken = bench.declare(do=lambda w, want: operations.create(w, want, "g2"))
    assert taken.handles == record.handles
    assert any(
        "ready as alpha reports it" in line and "the key to it is not here" in line
        for line in bench.lines
    )
    deleted(bench, taken)
    assert bench.cloud.alive == []


def test_where_one_key_is_all_a_cloud_takes_the_users_wins(bench) -> None:
    """A manifest that says a login is not possible: readiness is what the API reports, in a line,
    and no look is made.
    """
    bench.takes_keys = False
    manifest = bench.cloud.manifest()
    limits = Limits(
        unreachable=lambda _placed, setup: "it takes one key" if setup.ssh_public_key else ""
    )
    bench.cloud.manifest = lambda: manifest._replace(limits=limits)
    record = bench.declare(ssh_key="ssh-ed25519 AAAA me")
    assert any(
        "ready as alpha reports it, its GPUs not looked at: it takes one key" in line
        for line in bench.lines
    )
    deleted(bench, record)


def test_without_openssh_nothing_is_bought_unless_it_is_only_to_run(bench, monkeypatch) -> None:
    """No ssh-keygen on PATH: a checked cluster is refused before anything is bought, one that is
    only to run is launched.
    """
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        errors.GpusError,
        match=r"nothing is bought: wanted OpenSSH's `ssh-keygen`.*or set ready: running",
    ):
        bench.declare()
    assert bench.cloud.calls["submit"] == 0
    deleted(bench, bench.declare(ready="running"))


def test_the_key_of_a_cluster_stays_as_long_as_a_machine_bears_it(bench) -> None:
    """An older generation's delete, which touches nothing any more, leaves the key of the machine
    that a newer one has taken over.
    """
    first = bench.declare()
    second = bench.declare(do=lambda w, want: operations.create(w, want, "g2"))
    deleted(bench, first)
    assert (
        second.handles == first.handles
        and (key_folder() / "id_ed25519").exists()
        and len(bench.cloud.alive) == 1
    )
    asyncio.run(operations.settle(bench.world(), "own"))
    assert bench.cloud.alive == [] and not key_folder().parent.exists()


@pytest.fixture
def in_hand(bench, monkeypatch):
    """`gpus ssh NAME -s STACK` once its journal and world are the bench's."""
    monkeypatch.setattr(stack_clusters, "open_world", lambda _name: bench.world())
    monkeypatch.setattr(stack_clusters, "WORLDS", ("live",))
    bench.world().journal.owned("live", "own", "gpus", "train-h100x8", new=True)
    return lambda name="train", stack="train-h100x8": Machine(
        portal().run(stack_clusters.opened(name, None, stack))
    )


@pytest.mark.core
def test_b31_a_declared_machine_is_logged_into_with_its_own_key(
    bench, in_hand, capfd, tmp_path
) -> None:
    """A command, a file back and the log of the start-up go over the key that was made for the
    cluster, to the port that is mapped outside.
    """
    record = bench.declare()
    machine = in_hand()
    assert machine.run(
        "echo here > out; echo $HOME"
    ) == 0 and capfd.readouterr().out.strip() == str(bench.host.home)
    assert machine.get("out", tmp_path / "out").read_text() == "here\n"
    (bench.host.tools / "journalctl").write_text("#!/bin/sh\necho the start-up script: done\n")
    (bench.host.tools / "journalctl").chmod(0o755)
    assert portal().run(stack_clusters.log(machine.inner)) == "the start-up script: done\n"
    bench.cloud.log = lambda handle: f"serial port of {handle.native_id}"
    assert portal().run(stack_clusters.log(machine.inner)).startswith("serial port of ")
    with pytest.raises(errors.GpusError, match="pulumi destroy -s train-h100x8 ends it"):
        machine.release()
    deleted(bench, record)
    with pytest.raises(errors.GpusError, match="found none that was placed from this machine"):
        in_hand()


def test_the_pinned_host_key_is_strict_when_it_is_logged_into_later(bench, in_hand) -> None:
    """Another host key behind the same address is refused before anything is sent there."""
    record = bench.declare()
    bench.server.stop()
    bench.server.start()
    with pytest.raises(errors.GpusError, match=r"connection to .* was lost"):
        in_hand().run("touch reached")
    assert not (bench.host.home / "reached").exists()
    deleted(bench, record)


def test_a_machine_that_only_runs_is_pinned_when_it_is_first_logged_into(bench, in_hand) -> None:
    """With `ready: running` the key is there all the same: the first login pins the host key."""
    record = bench.declare(ready="running")
    assert not (key_folder() / "known_hosts").exists()
    assert in_hand().run("true") == 0 and (key_folder() / "known_hosts").exists()
    deleted(bench, record)


def test_without_the_key_it_is_said_how_else_to_log_in(bench, in_hand) -> None:
    """A machine bought with another key, or by an older version, is not tried: the message says why
    and names the other way.
    """
    record = bench.declare(ready="")
    with pytest.raises(
        errors.GpusError,
        match=(
            "the key that it was ordered with is not here; `pulumi stack output -s train-h100x8`"
            " shows"
        ),
    ):
        in_hand().run("true")
    deleted(bench, record)


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("exit code 7", 7),
        ("exit code 137", 137),
        ("failed: code 4 Job exceeded 512", 1),
        ("exit code 0", 1),
        ("exit code ²", 1),
        ("cancelled", 1),
        ("", 1),
    ],
)
def test_the_code_of_a_failed_job_is_an_exit_code_and_never_0(why, code) -> None:
    """A number that is none, which a shell would see as the rest by 256, is 1."""
    assert stack_clusters.exit_code("failed", why)[0] == code


def test_a_name_in_two_stacks_is_not_guessed(bench, in_hand) -> None:
    """The message names both stacks; with one of them it is clear."""
    bench.world().journal.owned("live", "other", "gpus", "debug", new=True)
    record = bench.declare()
    bench.world().journal.launched(record._replace(owner="other", generation="g9"))
    with pytest.raises(
        errors.GpusError,
        match=r"found 2: -s (train-h100x8|debug) --world live .*-s (train-h100x8|debug)",
    ):
        in_hand(stack="")
    assert in_hand().run("true") == 0
    deleted(bench, record)
