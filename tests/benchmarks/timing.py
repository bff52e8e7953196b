"""Timing of cold processes and warm calls. Owns how it is measured: alternating runs, so that a
busy machine slows both sides alike.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5


class Figures(NamedTuple):
    """Seconds of wall time, and of the processor's time where it was a process of its own (its
    children that it waited for included).
    """

    runs: tuple[float, ...]
    processor: tuple[float, ...] = ()

    @property
    def p50(self) -> float:
        return statistics.median(self.runs)

    @property
    def p95(self) -> float:
        """By nearest rank; of five runs that is the slowest."""
        return sorted(self.runs)[math.ceil(0.95 * len(self.runs)) - 1]


class Line(NamedTuple):
    """One line of the report. `value` is held against `limit`, unless that is None."""

    what: str
    value: float | None
    limit: float | None
    unit: str
    detail: str

    @property
    def reached(self) -> bool:
        return self.limit is None or self.value is None or self.value <= self.limit

    def __str__(self) -> str:
        if self.value is None and self.limit is None:
            return f"{self.what}: {self.detail}"
        value = "" if self.value is None else f"{self.value:.2f}{self.unit}"
        verdict = (
            ""
            if self.limit is None
            else f"{'reached' if self.reached else 'MISSED'}, at most {self.limit:g}{self.unit}"
        )
        return f"{self.what:<58} {value:>9}  {verdict:<24} {self.detail}"


def cold(
    command: list[str], *, env: dict[str, str] | None = None, cwd: str | None = None
) -> tuple[float, float]:
    """Seconds of wall time and of processor time of a fresh process. Raises when it fails."""
    with tempfile.TemporaryFile() as told:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdout=subprocess.DEVNULL,
            stderr=told,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            raise RuntimeError(
                f"{' '.join(command)} ended with {process.returncode}:"
                f" {told.read().decode(errors='replace')[-2000:]}"
            )
    return seconds, used.ru_utime + used.ru_stime


def side_by_side(
    *commands: list[str],
    runs: int = RUNS,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
) -> tuple[Figures, ...]:
    """The figures of each command, run in turn. One unmeasured round before, so that no side pays
    for reading files from disk.
    """
    for command in commands:
        cold(command, env=env, cwd=cwd)
    taken: list[list[tuple[float, float]]] = [[] for _ in commands]
    for _ in range(runs):
        for figures, command in zip(taken, commands, strict=True):
            figures.append(cold(command, env=env, cwd=cwd))
    return tuple(Figures(*zip(*figures, strict=True)) for figures in taken)


def both(figures: Figures) -> str:
    """`p50 0.101 s, p95 0.110 s`."""
    return f"p50 {figures.p50:.3f} s, p95 {figures.p95:.3f} s"


def further(ours: Figures, theirs: Figures) -> list[Line]:
    """The same ratio otherwise: by p95, and by processor time, which says the same on a busy
    machine. Nothing is held against these.
    """
    spent, spent_there = statistics.median(ours.processor), statistics.median(theirs.processor)
    return [
        Line("  the same by p95", ours.p95 / theirs.p95, None, " x", ""),
        Line(
            "  the same by processor time (p50)",
            spent / spent_there,
            None,
            " x",
            f"ours {spent:.3f} s, theirs {spent_there:.3f} s",
        ),
    ]


@contextmanager
def quick_folder() -> Iterator[Path]:
    """An empty folder, in memory where there is such a place: what is written there waits for no
    disk.
    """
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="gpus-bench-", dir=where) as folder:
        yield Path(folder)


@contextmanager
def fresh_home() -> Iterator[None]:
    """A home of its own: nothing is remembered, and no connection of an earlier run is used."""
    before = os.environ.get("GPUS_HOME")
    with quick_folder() as folder:
        os.environ["GPUS_HOME"] = str(folder)
        try:
            yield
        finally:
            if before is None:
                del os.environ["GPUS_HOME"]
            else:
                os.environ["GPUS_HOME"] = before


def busy() -> str:
    """How busy the machine is, for the reader to judge the figures by; empty where the system does
    not say.
    """
    if not hasattr(os, "getloadavg"):
        return ""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    warning = "; BUSY: wall times are doubtful, ratios less so" if load > processors else ""
    return f"load {load:.1f} on {processors} processors{warning}"
