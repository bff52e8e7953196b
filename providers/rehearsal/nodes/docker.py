"""The `docker` program, as the rehearsal's machines use it. Owns its errors; DOCKER_HOST and the
rest of the environment choose the daemon, as in any shell.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from providers.errors import GpusError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT_S = 60.0
_LISTING_LIMIT_S = 10.0
"""Every answer of a rehearsed cloud waits for this one."""


class DockerError(GpusError):
    """Docker is missing, does not answer, or refused a command."""


def call(*words: str, given: bytes | None = None, limit_s: float = _LIMIT_S) -> str:
    """What `docker WORDS` writes. Raises DockerError."""
    try:
        done = subprocess.run(
            ["docker", *words], input=given, capture_output=True, check=False, timeout=limit_s
        )
    except FileNotFoundError:
        raise DockerError(
            "wanted Docker for the rehearsal's machines, found no `docker` on PATH; install it, or:"
            " gpus rehearse nodes played"
        ) from None
    except subprocess.TimeoutExpired:
        raise DockerError(
            f"wanted an answer of `docker {_command(words)}`, found none within"
            f" {limit_s:.0f}s; see that its daemon is well, or: gpus rehearse nodes played"
        ) from None
    if done.returncode:
        raise DockerError(
            f"docker {_command(words)} failed: {_reason(done.stdout, done.stderr)[:300]}; see that"
            " its daemon is well (DOCKER_HOST), or: gpus rehearse nodes played"
        )
    return done.stdout.decode(errors="replace").strip()


def _command(words: tuple[str, ...]) -> str:
    return " ".join(word for word in words[:2] if word.isalpha())


def _reason(out: bytes, err: bytes) -> str:
    """The daemon's own words, else the last error that a build's command wrote, else the last line:
    that may say only which container or command it was.
    """
    lines = err.decode(errors="replace").strip().splitlines() or ["no reason given"]
    written = out.decode(errors="replace").splitlines() + lines
    told = next((line.partition(_DAEMON)[2] for line in lines if _DAEMON in line), "")
    errors = [line for line in written if _ERROR.search(line)]
    return printable(told or (errors or lines)[-1]).strip()


_DAEMON = "Error response from daemon:"
_ERROR = re.compile(r"no space left|(?:^|\s)E: |could not resolve", re.IGNORECASE)
ENDED = "ended"
"""The state of a container whose machine went down in order."""


def containers(label: str, shown: str) -> Mapping[str, str]:
    """The value of `shown` (a label) -> the state, of all containers with this label."""
    form = f'{{{{.Label "{shown}"}}}}\t{{{{.State}}}}\t{{{{.Status}}}}'
    found = call(
        "ps", "--all", "--filter", f"label={label}", "--format", form, limit_s=_LISTING_LIMIT_S
    )
    rows = [line.split("\t", 2) for line in found.splitlines() if "\t" in line]
    return {key: ENDED if status.startswith("Exited (0)") else state for key, state, status in rows}
