"""A home of its own for each test, the machines of the rehearsal cloud, and scripts to run."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from providers.cli.rehearse_state import state
from providers.rehearsal.store import open_store


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "gpus"))
    monkeypatch.chdir(tmp_path)
    store = open_store()
    monkeypatch.setattr("providers.adhoc.machine.WATCH_S", 1.0)
    for step in ("create", "delete", "stockout"):
        store.set_latency("gcp", step, 0.05)


def machines() -> list[str]:
    """What the rehearsal cloud runs, as it says itself."""
    return [machine["name"] for machine in state(open_store())["machines"]]


def python(code: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
