"""A Docker daemon that can run rehearsal machines, with the base of their image: made from Debian's
packages, since nothing is pulled here.
"""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.rehearsal.nodes import image, machine
from tests.launchers.docker import Daemon, daemon

__all__ = ["daemon", "nodes"]


_ROUTE = "\t000012C6\t"
"""198.18.0.0, as the kernel lists it: of another daemon, or left by one that was killed."""


def base_of(daemon: Daemon) -> None:
    """Debian as the published base image has it."""
    folder = Path(tempfile.mkdtemp(prefix="gpus-base-", dir=daemon.folder))
    subprocess.run(
        [
            *("debootstrap", "--variant=minbase", "--include=ca-certificates"),
            *("bookworm", str(folder), "http://deb.debian.org/debian"),
        ],
        check=True,
        capture_output=True,
    )
    with subprocess.Popen(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(
            ["docker", "-H", daemon.host, "import", "-", image.BASE],
            stdin=packed.stdout,
            check=True,
            capture_output=True,
        )
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def nodes(daemon: Daemon, monkeypatch_module: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """That daemon, as the one of this environment. One at a time on a host: all rehearsal machines
    have addresses of the same range.
    """
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    with Path(tempfile.gettempdir(), "gpus-nodes-tests.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _ROUTE in Path("/proc/net/route").read_text():
            pytest.fail(f"wanted {machine.RANGE} for the tests' machines, found a route to it")
        base_of(daemon)
        monkeypatch_module.setenv("DOCKER_HOST", daemon.host)
        try:
            yield daemon
        finally:
            for name in daemon.running():
                daemon.call("rm", "--force", "--volumes", name)
            if machine.NETWORK in daemon.call("network", "ls", "--format", "{{.Name}}").split():
                daemon.call("network", "rm", machine.NETWORK)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for a module's fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
