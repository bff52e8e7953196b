"""The image of all rehearsal machines: Debian with systemd, sshd and Docker. Owns its build."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from providers.rehearsal.nodes import docker, owned

BASE = "debian:bookworm-slim"
CONTEXT = Path(__file__).parent / "context"
_BUILD_LIMIT_S = 1_800.0


def _digest() -> str:
    files = sorted(CONTEXT.iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


_NAME, _LABEL = "gpus-rehearsal-node", "gpus.rehearsal.image"
TAG = f"{_NAME}:{_digest()}"
"""By what it is made of: a changed file is another image."""


def built() -> bool:
    """Builds it unless it is there; whether it was built. Raises DockerError."""
    try:
        docker.call("image", "inspect", "--format", "{{.Id}}", TAG)
    except docker.DockerError:
        docker.call("version")  # a daemon that does not answer has a better reason to tell
    else:
        return False
    words = ("build", "--force-rm", "--network", "host", "--build-arg", f"BASE={BASE}")
    docker.call(*words, "--tag", TAG, str(CONTEXT), limit_s=_BUILD_LIMIT_S)
    return True


def remove() -> None:
    """Removes it, those of other versions, and what a build that failed left, unless another
    rehearsal of this daemon uses it.
    """
    with suppress(docker.DockerError):
        if not docker.call("network", "ls", "--quiet", "--filter", f"label={owned.STORE_LABEL}"):
            form = ("--format", "{{.Repository}}:{{.Tag}}")
            if found := docker.call("image", "ls", *form, _NAME).split():
                docker.call("image", "rm", *found)
            docker.call("image", "prune", "--force", "--filter", f"label={_LABEL}")
