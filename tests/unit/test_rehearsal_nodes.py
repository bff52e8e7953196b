"""Rehearsal machines as containers, as far as Docker can be played: what it is asked for, and what
is told where it refuses.
"""

import asyncio
import os
import subprocess

import pytest

from providers.cli.rehearse import run
from providers.engine import operations
from providers.errors import GpusError, SpecError
from providers.rehearsal.node import StandInProbe
from providers.rehearsal.nodes import converge, docker, image, mode
from providers.rehearsal.store import open_store
from providers.remote.ssh import SshProbe
from providers.testing.bench import Bench
from tests.contract import test_aws, test_gcp

DOCKER = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$1" in
  {refused}) echo "docker: no room" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A store, and a `docker` that writes down what it is asked for and refuses what it should."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    store = open_store()

    def refuses(command):
        program = tools / "docker"
        program.write_text(DOCKER.format(folder=tmp_path, refused=command or "-"))
        program.chmod(0o755)

    refuses("")
    yield store, refuses, tmp_path / "calls"
    store.close()


@pytest.fixture
def bench(world, request):
    made = Bench(request.param, world[0])
    made.run(operations.create(made.world, made.spec(), "g1"))
    yield made
    made.close()


@pytest.mark.parametrize("bench", [test_gcp.HARNESS, test_aws.HARNESS], indirect=True)
def test_each_machine_that_runs_has_a_container(world, bench) -> None:
    """It is made with the cloud's address and the files of the machine; without the cloud's
    machine none is.
    """
    store, _, calls = world
    mode.choose(store, mode.DOCKER)
    converge.converge(store)
    (made,) = [line for line in calls.read_text().splitlines() if line.startswith("create")]
    assert "--ip 198." in made
    assert mode.refused(store) == ""


@pytest.mark.parametrize("bench", [test_gcp.HARNESS], indirect=True)
def test_who_waits_for_a_machine_that_docker_refused_is_told(world, bench) -> None:
    """The reason stands where its port would be looked for, until Docker is well again."""
    store, refuses, _ = world
    refuses("create")
    mode.choose(store, mode.DOCKER)
    converge.converge(store)
    assert "docker create failed: docker: no room" in mode.refused(store)
    record = bench.run(operations.create(bench.world, bench.spec(), "g1"))
    probe = StandInProbe(
        world[2].parent, store, ssh=SshProbe(None, world[2].parent / "hosts", "gpus")
    )
    found = asyncio.run(probe(record.machines[0], record))
    assert "no room" in found.detail
    refuses("")
    converge.converge(store)
    assert mode.refused(store) == ""


@pytest.mark.parametrize("bench", [test_gcp.HARNESS], indirect=True)
def test_a_rehearsal_with_machines_keeps_how_they_run(world, bench) -> None:
    """A machine cannot become a container, nor the other way round."""
    with pytest.raises(GpusError, match="wanted no machine while this changes, found 1"):
        run(["nodes", "docker"])
    mode.choose(world[0], mode.DOCKER)
    with pytest.raises(SpecError, match="machines really run here"):
        run(["fault", "gcp", "node.look", "port-closed"])


def test_no_docker_is_told_with_the_way_back(world, monkeypatch) -> None:
    """Nothing changes then."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(docker.DockerError, match="install it, or: gpus rehearse nodes played"):
        run(["nodes", "docker"])
    assert mode.of(world[0]) == mode.PLAYED
    assert run(["nodes", "played"]) == 0


def test_a_daemon_that_is_down_is_told_with_what_to_do(monkeypatch, tmp_path) -> None:
    """Docker's own words, and the way back to played machines."""
    tool = tmp_path / "docker"
    tool.write_text("#!/bin/sh\necho Cannot connect >&2; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(docker.DockerError, match=r"Cannot connect; .* gpus rehearse nodes played"):
        docker.call("version")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            "echo 'Error response from daemon: Address already in use'; echo Error: containers: x",
            "docker network create failed: Address already in use;",
        ),
        (
            "echo 'E: No space left on device'; echo The command apt-get returned code 100",
            "docker network create failed: E: No space left on device;",
        ),
    ],
)
def test_what_docker_refuses_is_told_by_its_reason(monkeypatch, tmp_path, script, told) -> None:
    """Its last line may say only which container or command it was."""
    tool = tmp_path / "docker"
    tool.write_text(f"#!/bin/sh\n{{ {script}; }} >&2; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(docker.DockerError, match=told):
        docker.call("network", "create", "--label", "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize(
    ("flags", "writes"),
    [
        (("--implicit-dirs", "-o", "allow_other", "-o", "ro", "data"), False),
        (("--allow-other", "--read-only", "--prefix", "x/", "data"), False),
        (("--allow-other", "--allow-delete", "--allow-overwrite", "data"), True),
    ],
)
def test_a_mounted_bucket_is_an_empty_folder_in_its_mode(tmp_path, flags, writes) -> None:
    """As a start-up script mounts it, with either tool."""
    text = f'sh "$1" {" ".join(flags)} "$2" && ls -A "$2" && touch "$2/x"; echo $?; umount "$2"'
    words = ["sh", "-c", text, "-", str(image.CONTEXT / "bucket.sh"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert said[0].endswith(f"an empty folder is mounted at {tmp_path}")
    assert (said[1:] == ["0"]) == writes and len(said) == 2, done.stderr
