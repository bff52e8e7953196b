"""What other programs are asked to launch, and what they answer: a file in, a line each out.

Imports the standard library alone, and the market.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.acquire_sides import Ran, Wish
from tests.benchmarks.market import Assumptions, Market, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Clock:
    """The market's time, which calls move. `now` is in seconds from its beginning."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Job(NamedTuple):
    """One launch in one market."""

    seed: int
    share: float
    by: Assumptions
    wish: Wish

    def market(self) -> Market:
        """The market, untouched."""
        return Market(self.seed, self.share, self.by)

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those that could serve the wish."""
        return [row for row in rows if self.wish.served_by(row.gpu_type, row.gpu_count)]


def write(path: Path, rows: Sequence[Row], jobs: Sequence[Job]) -> None:
    """The rows and the jobs, for another program."""
    path.write_text(json.dumps({"rows": rows, "jobs": jobs}), encoding="utf-8")


def run(
    path: str,
    launch: Callable[[Job, list[Row]], Ran],
    before: Callable[[list[Row]], None] = lambda _rows: None,
) -> None:
    """Launches every job of the file, after `before` with all rows; each answer is a line of JSON
    on standard output, to which nothing else is written.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    rows = [Row(*each) for each in given["rows"]]
    before(rows)
    for seed, share, by, wish in given["jobs"]:
        gpu, count, capacity, types = wish
        job = Job(seed, share, Assumptions(*by), Wish(gpu, count, capacity, tuple(types)))
        answers.write(json.dumps(launch(job, job.rows(rows))) + "\n")
        answers.flush()
    answers.close()
    sys.stdout.flush()


def settled(
    market: Market,
    clock: Clock,
    made: Sequence[tuple[str, float]],
    tries: int,
    rows: Iterable[Row],
    *,
    wanted: bool,
) -> Ran:
    """What it came to: of the machines made, the last is the one that is wanted, if any is."""
    kept = made[-1][0] if made and wanted else ""
    left = sum(1 for each in market.alive(clock.now) if each.id != kept)
    if not kept:
        return Ran("", clock.now, clock.now, tries, market.creates, market.mutations, 0.0, left)
    machine = market.machines[kept]
    pool = machine.pool
    ready = machine.began + sum(market.seconds(what, pool.region) for what in ("grant_s", "boot_s"))
    usd = next(row.usd for row in rows if row.pool == pool)
    return Ran(
        "/".join(pool),
        machine.began,
        max(clock.now, ready),
        tries,
        market.creates,
        market.mutations,
        usd,
        left,
    )
