"""A workload with an image on a machine of one's own, against a real Docker daemon: the container
gets the lease's cards, and ends with it.
"""

import shutil

import pytest

from providers.model.machine import GONE
from providers.model.workload import Process, Program
from providers.workloads.launch.start_script import script
from tests.launchers.docker import Daemon
from tests.unit.own_machine_rig import here, running, until

__all__ = ["here"]

pytestmark = pytest.mark.long

# NVIDIA's runtime is not here: the words for it are written down, and left out.
DOCKER = """#!/bin/bash
printf '%s\\n' "$*" >>{folder}/calls
[ "$1" != -H ] || exec {docker} "$@"
words=()
while [ $# -gt 0 ]; do
  if [ "$1" = --gpus ]; then shift 2; else words+=("$1"); shift; fi
done
exec {docker} -H {host} "${{words[@]}}"
"""


@pytest.fixture
def boxed(here, daemon: Daemon, tmp_path):
    """The machine with that daemon."""
    tool = tmp_path / "bin" / "docker"
    tool.write_text(DOCKER.format(folder=tmp_path, docker=shutil.which("docker"), host=daemon.host))
    tool.chmod(0o755)
    return here


def test_a_container_gets_the_leases_cards_and_ends_with_it(boxed, daemon, tmp_path) -> None:
    """Two leases on one machine, a container each; a release ends one with all that runs in it, and
    leaves its log and the other lease's container.
    """
    image = daemon.image("own-machine")
    line = "echo begun in $HOSTNAME; sleep 300 & sleep 300"
    made = Program("job", (Process("main", line),), image=image)
    first = boxed.take("token-first", script(made, lent=True))
    until(lambda: "gpus-main-token-first" in daemon.running(), 60)
    second = boxed.take("token-second", script(made, lent=True))
    until(lambda: "gpus-main-token-second" in daemon.running(), 60)
    calls = (tmp_path / "calls").read_text()
    assert '--name gpus-main-token-first --gpus "device=GPU-0" ' in calls
    assert '--name gpus-main-token-second --gpus "device=GPU-1" ' in calls
    until(lambda: "begun in" in boxed.adapter().log(first))
    boxed.adapter().delete(first)
    until(lambda: boxed.status(first) == GONE, 60)
    assert daemon.running() == ["gpus-main-token-second"]
    assert not running(f"GPUS_LEASE_FOLDER={boxed.folder}/leases/token-first/own")
    assert "begun in" in boxed.adapter().log(first)
    boxed.adapter().delete(second)
    until(lambda: boxed.status(second) == GONE, 60)
    assert daemon.running() == []
    assert boxed.files() == ["logs/token-first.log", "logs/token-second.log"]


def test_a_container_that_outlives_its_client_ends_with_the_lease(boxed, daemon) -> None:
    """One that was started in the background, by hand, and that ignores being asked to end."""
    image = daemon.image("own-machine")
    line = f"docker run -d --network host --entrypoint /bin/sh {image} -c 'trap : TERM; sleep 300'"
    handle = boxed.take("token-behind", f"{line}; sleep 300")
    until(lambda: len(daemon.running()) == 1, 60)
    boxed.adapter().delete(handle)
    until(lambda: boxed.status(handle) == GONE, 60)
    assert daemon.running() == []
