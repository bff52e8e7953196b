"""SkyPilot and dstack, run on the simulated market in an environment of their own.

`GPUS_BENCH_PEERS=PYTHON` names a Python that has both; else one is made, which takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import peer_environment
from tests.benchmarks.acquire_sides import Ran
from tests.benchmarks.peers.jobs import Job, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.benchmarks.market import Row

PEERS = {"SkyPilot": 2, "dstack": 1}
"""Name -> how many processes share its launches."""
PACKAGES = ("skypilot[aws,gcp]", "dstack[aws,gcp]")
_START = (
    "import runpy, sys, types; tests = types.ModuleType('tests'); tests.__path__ = [sys.argv[1]];"
    " sys.modules['tests'] = tests; sys.argv = sys.argv[2:];"
    " runpy.run_module(sys.argv[0], run_name='__main__')"
)
"""Some package that they install is called `tests` too."""
_SAID = 2_000


class _Process(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    folder: Path

    def answers(self) -> list[Ran]:
        """What it answered. Raises RuntimeError with its last words where it failed."""
        if self.process.wait():
            told = (self.folder / "err").read_text(encoding="utf-8", errors="replace")[-_SAID:]
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {told}")
        text = (self.folder / "out").read_text(encoding="utf-8")
        return [Ran(*json.loads(line)) for line in text.splitlines()]


class Peers:
    """Both of them at work on the same jobs."""

    def __init__(self, started: Mapping[str, Sequence[_Process]], jobs: int) -> None:
        self._started, self._jobs = started, jobs

    def answers(self) -> list[dict[str, Ran]]:
        """For each job what each came to. Waits for them."""
        found: dict[str, list[Ran]] = {}
        for name, processes in self._started.items():
            parts = [process.answers() for process in processes]
            found[name] = [parts[job % len(parts)][job // len(parts)] for job in range(self._jobs)]
        return [{name: found[name][job] for name in found} for job in range(self._jobs)]


def python(folder: Path) -> str:
    """A Python that has both of them. Raises OSError or CalledProcessError."""
    if given := os.environ.get("GPUS_BENCH_PEERS"):
        return given
    return peer_environment.made(folder / "environment", *PACKAGES)


def versions(theirs: str) -> str:
    """`SkyPilot 0.14.1, dstack 0.22.5`."""
    code = (
        "from importlib.metadata import version;"
        " print(f\"SkyPilot {version('skypilot')}, dstack {version('dstack')}\")"
    )
    done = subprocess.run([theirs, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextmanager
def at_work(theirs: str, folder: Path, rows: Sequence[Row], jobs: Sequence[Job]) -> Iterator[Peers]:
    """Starts both on the jobs, each process in a home of its own; ends what still runs."""
    started: dict[str, list[_Process]] = {}
    try:
        for name, shards in PEERS.items():
            for shard in range(shards):
                mine = folder / f"{name}-{shard}"
                mine.mkdir()
                write(mine / "jobs.json", rows, jobs[shard::shards])
                started.setdefault(name, []).append(_start(theirs, name, mine))
        yield Peers(started, len(jobs))
    finally:
        for process in (each.process for some in started.values() for each in some):
            if process.poll() is None:
                process.kill()
                process.wait()


def _start(theirs: str, name: str, folder: Path) -> _Process:
    root = str(Path(__file__).parents[1])
    module = f"tests.benchmarks.peers.{name.lower()}_side"
    command = [theirs, "-c", _START, root, module, str(folder / "jobs.json")]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, cwd=folder, env=_environment(folder)
        )
    return _Process(name, process, folder)


def _environment(home: Path) -> dict[str, str]:
    """Nothing of the user's accounts; what they would report of their use is switched off."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
