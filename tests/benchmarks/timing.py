"""Timing of cold processes and warm calls. Owns how it is measured: alternating runs, so that a busy machine slows both sides alike."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
from typing import NamedTuple

RUNS = 5


class Figures(NamedTuple):
    """Seconds."""

    runs: tuple[float, ...]

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
        value = "" if self.value is None else f"{self.value:.2f}{self.unit}"
        verdict = "" if self.limit is None else f"{'reached' if self.reached else 'MISSED'}, at most {self.limit:g}{self.unit}"
        return f"{self.what:<58} {value:>9}  {verdict:<24} {self.detail}"


def cold(command: list[str], *, env: dict[str, str] | None = None, cwd: str | None = None) -> float:
    """Seconds of wall time of a fresh process. Raises when it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **(env or {})}, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return seconds


def side_by_side(*commands: list[str], runs: int = RUNS, env: dict[str, str] | None = None, cwd: str | None = None) -> tuple[Figures, ...]:
    """The figures of each command, run in turn. One unmeasured round before, so that no side pays for reading files from disk."""
    for command in commands:
        cold(command, env=env, cwd=cwd)
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for figures, command in zip(taken, commands, strict=True):
            figures.append(cold(command, env=env, cwd=cwd))
    return tuple(Figures(tuple(figures)) for figures in taken)


def both(figures: Figures) -> str:
    """`p50 0.101 s, p95 0.110 s`."""
    return f"p50 {figures.p50:.3f} s, p95 {figures.p95:.3f} s"
