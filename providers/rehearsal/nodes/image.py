"""The image of all rehearsal machines: Debian with systemd, sshd and Docker. Owns its build."""

from __future__ import annotations

import hashlib
from pathlib import Path

from providers.rehearsal.nodes import docker

BASE = "debian:bookworm-slim"
CONTEXT = Path(__file__).parent / "context"
_BUILD_LIMIT_S = 1_800.0


def _digest() -> str:
    files = sorted(CONTEXT.iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


TAG = "gpus-rehearsal-node:" + _digest()
"""By what it is made of: a changed file is another image."""


def built() -> bool:
    """Builds it unless it is there; whether it was built. Raises DockerError."""
    try:
        docker.call("image", "inspect", "--format", "{{.Id}}", TAG)
    except docker.DockerError:
        docker.call("version")  # a daemon that does not answer has a better reason to tell
    else:
        return False
    words = ("build", "--network", "host", "--build-arg", f"BASE={BASE}", "--tag", TAG)
    docker.call(*words, str(CONTEXT), limit_s=_BUILD_LIMIT_S)
    return True
