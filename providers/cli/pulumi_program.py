"""Pulumi's own program, as the command line asks it: one question at a time, never interactive."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from providers.errors import GpusError

if TYPE_CHECKING:
    from pathlib import Path

READ_S = 60.0
"""Longer than any answer takes that is still to come."""


def answer(place: Path, *words: str) -> str:
    """What `pulumi` says in this folder. Raises GpusError."""
    shown = f"`pulumi {' '.join(words)}`"
    try:
        done = subprocess.run(
            ["pulumi", "--non-interactive", "-C", str(place), *words],
            capture_output=True,
            text=True,
            timeout=READ_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=_environment(),
        )
    except FileNotFoundError:
        raise GpusError(f"wanted pulumi on PATH, for {shown}, found none") from None
    except subprocess.TimeoutExpired:
        raise GpusError(f"{shown} gave no answer within {READ_S:.0f}s") from None
    if done.returncode:
        said = " ".join(done.stderr.split())[:200]
        raise GpusError(f"{shown} failed: {said or f'exit code {done.returncode}'}")
    return done.stdout


def act(place: Path, *words: str) -> int:
    """Runs `pulumi` on this terminal, where it asks by itself; its exit code. Raises GpusError."""
    try:
        return subprocess.run(
            ["pulumi", "-C", str(place), *words], check=False, env=_environment()
        ).returncode
    except FileNotFoundError:
        raise GpusError("wanted pulumi on PATH, found none") from None


def _environment() -> dict[str, str]:
    return {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
