"""`pulumi up` of a stack of many clusters beside one of as many trivial resources of a minimal
Python provider: the real engine and a rehearsal without latencies, in one run. `scale:50` takes
another number.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.timing import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.kills_cli import Clone, Run

CLUSTERS = 500
RATIO = 1.5
MEMORY_MIB = 400
LIMIT_S = 1_800.0
UP = ("up", "--yes", "--skip-preview")
CLUSTER = {"gpu": "L4:1", "providers": ["gcp"], "ttl": "1h"}


class Took(NamedTuple):
    """What one command took: seconds of wall time; of processor time, all its processes and the
    plugin's alone; the plugin's largest memory, MiB.
    """

    wall_s: float
    processor_s: float
    plugin_s: float
    plugin_mib: float

    def __str__(self) -> str:
        return (
            f"{self.wall_s:.0f} s, processor {self.processor_s:.0f} s (plugin"
            f" {self.plugin_s:.0f} s, {self.plugin_mib:.0f} MiB)"
        )


def lines(clusters: int = CLUSTERS) -> list[Line]:
    """The ratio, then by processor time, the plugin's memory, and an `up` that changes nothing."""
    what = f"pulumi up of {clusters} clusters over as many trivial ones"
    if shutil.which("pulumi") is None or not Path("/proc/self/stat").exists():
        return [Line(what, None, None, "", "needs pulumi on PATH, and Linux")]
    folder = Path(tempfile.mkdtemp(prefix="gpus-scale-"))
    try:
        trivial = _trivial(folder / "trivial", clusters)
        clone = _clusters(folder / "clusters", clusters)
        theirs = [_took(trivial, "minimal_provider", *words) for words in (UP, UP)]
        ours = [_took(clone, "pulumi-resource-gpu", *words) for words in (UP, UP)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Line(
            what,
            ours[0].wall_s / theirs[0].wall_s,
            RATIO,
            " x",
            f"ours {ours[0]}; trivial {theirs[0]}",
        ),
        Line(
            "  the same by processor time",
            ours[0].processor_s / theirs[0].processor_s,
            None,
            " x",
            "all processes of the command",
        ),
        Line("  the plugin's memory", ours[0].plugin_mib, MEMORY_MIB, " MiB", "at its largest"),
        Line(
            "  an up that changes nothing over theirs",
            ours[1].wall_s / theirs[1].wall_s,
            None,
            " x",
            f"ours {ours[1]}; trivial {theirs[1]}",
        ),
    ]


def _clusters(folder: Path, count: int) -> Clone:
    from providers.rehearsal.scenario import LATENCIES_S
    from providers.rehearsal.store import open_store
    from tests.crash.kills_cli import Clone

    clone = Clone(folder, folder / "home")
    clone.init()
    clone.declare({f"c{number}": CLUSTER for number in range(count)}, {})
    store = open_store(clone.home / "rehearsal.db")
    for step in LATENCIES_S:
        store.set_latency("gcp", step, 0.0)
    store.close()
    return clone


def _trivial(folder: Path, count: int) -> Clone:
    """A project of the same options whose program declares as many trivial resources."""
    from tests.crash.kills_cli import Clone

    clone = Clone(folder, folder / "home")
    plugin = folder / "plugin" / "pulumi-resource-minimal"
    plugin.parent.mkdir()
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m {__package__}.minimal_provider "$@"\n')
    plugin.chmod(0o755)
    (folder / "Pulumi.yaml").write_text(
        textwrap.dedent(f"""\
            name: gpus
            main: stacks
            stackConfigDir: stacks
            runtime: python
            options: {{refresh: always}}
            plugins:
              providers:
                - name: minimal
                  path: {plugin.parent}
            """)
    )
    (folder / "stacks" / "__main__.py").write_text(
        textwrap.dedent(f"""\
            import pulumi

            for number in range({count}):
                name = f"c{{number}}"
                pulumi.CustomResource("minimal:index:Thing", name, {{"value": name}})
            """)
    )
    clone.init()
    return clone


def _took(clone: Clone, plugin: str, *words: str) -> Took:
    run = clone.start(*words)
    usage = _Usage(run, plugin)
    status = run.ended(LIMIT_S)
    wall = time.monotonic() - run.began
    processor_s, plugin_s, mib = usage.stop()
    assert status == 0, run.said[-3_000:]
    return Took(wall, processor_s, plugin_s, mib)


class _Usage:
    """What the processes of one command use, looked at until it ends."""

    LOOK_S = 0.25

    def __init__(self, run: Run, plugin: str) -> None:
        self._session, self._plugin = run.process.pid, plugin.encode()
        self._seconds: dict[int, float] = {}
        self._plugins: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, float, float]:
        """(processor seconds of all, of the plugin, the plugin's largest MiB)."""
        self._over.set()
        self._thread.join()
        ours = sum(self._seconds[pid] for pid in self._plugins)
        return sum(self._seconds.values()), ours, max(self._plugins.values(), default=0.0)

    def _look(self) -> None:
        while not self._over.wait(self.LOOK_S):
            for pid, fields in _processes(self._session):
                self._seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                with suppress(OSError):
                    folder = Path(f"/proc/{pid}")
                    if self._plugin in (folder / "cmdline").read_bytes():
                        self._plugins[pid] = _peak_mib(folder)


def _processes(session: int) -> Iterator[tuple[int, list[str]]]:
    """The live processes of a session: each with the fields of its `stat` after the name."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    yield int(folder.name), fields


def _peak_mib(folder: Path) -> float:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
