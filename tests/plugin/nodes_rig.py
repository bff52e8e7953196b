"""A Docker daemon that can run rehearsal machines, with the base of their image: made from Debian's
packages, since nothing is pulled here.
"""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.rehearsal.nodes import image, machine
from tests.launchers.docker import Daemon, daemon
from tests.launchers.roots import DEBIAN, imported

__all__ = ["daemon", "nodes"]


_ROUTE = "\t000012C6\t"
"""198.18.0.0, as the kernel lists it: of another daemon, or left by one that was killed."""


@pytest.fixture(scope="module")
def nodes(daemon: Daemon, monkeypatch_module: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """That daemon, as the one of this environment. One at a time on a host: all rehearsal machines
    have addresses of the same range.
    """
    with Path(tempfile.gettempdir(), "gpus-nodes-tests.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _ROUTE in Path("/proc/net/route").read_text():
            pytest.fail(f"wanted {machine.RANGE} for the tests' machines, found a route to it")
        imported(daemon, DEBIAN, image.BASE)
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
