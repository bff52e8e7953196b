"""A Docker daemon that can run rehearsal machines, with the base of their image: made from Debian's
packages, since nothing is pulled here.
"""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.rehearsal.nodes import image, owned
from tests.launchers.docker import Daemon, daemon
from tests.launchers.roots import DEBIAN, imported

__all__ = ["daemon", "nodes"]


@pytest.fixture(scope="module")
def nodes(daemon: Daemon, monkeypatch_module: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """That daemon, as the one of this environment. One at a time on a host, for the host's sake."""
    with Path(tempfile.gettempdir(), "gpus-nodes-tests.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        imported(daemon, DEBIAN, image.BASE)
        monkeypatch_module.setenv("DOCKER_HOST", daemon.host)
        try:
            yield daemon
        finally:
            for name in daemon.running():
                daemon.call("rm", "--force", "--volumes", name)
            for kind in ("network", "volume"):
                made = ("--quiet", "--filter", f"label={owned.STORE_LABEL}")
                for name in daemon.call(kind, "ls", *made).split():
                    daemon.call(kind, "rm", name)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for a module's fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
