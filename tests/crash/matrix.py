"""Runs points of the crash matrix, a few processes at once, and ends with their sum: what `python
-m tests.crash` does.

Owns the command line, the pool and the table. A part is a module with `points(seed) ->
list[Point]`, `run(point, folder) -> Result` and `AT_ONCE`, the number of points that may run side
by side; it is imported when it is run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from concurrent.futures import Future, as_completed
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pebble import ProcessPool

from tests.crash.point import CLOUDS, OWN, Point, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PARTS = {
    part: module
    for part, module in {
        "a": "tests.crash.kills",
        "b": "tests.crash.replies",
        "c": "tests.crash.own",
    }.items()
    if find_spec(module)
}
SEED = 1
LONGEST_S = 300.0
"""What a point may take; it is stuck then."""


def points(parts: Iterable[str], seed: int) -> list[Point]:
    """Every point of these parts."""
    return [point for part in parts for point in import_module(PARTS[part]).points(seed)]


def sample(found: Sequence[Point], size: int, seed: int) -> list[Point]:
    """So many of them: chosen by the seed, every (part, cloud, step) as evenly as can be."""
    chance = random.Random(seed)
    kinds: dict[tuple[str, str, str], list[Point]] = {}
    for point in found:
        kinds.setdefault((point.part, point.cloud, point.step), []).append(point)
    for group in kinds.values():
        chance.shuffle(group)
    groups = list(kinds.values())
    chosen: list[Point] = []
    chance.shuffle(groups)
    while groups and len(chosen) < size:
        chosen += [group.pop() for group in groups][: size - len(chosen)]
        groups = [group for group in groups if group]
    return chosen


def one(point: Point) -> Result:
    """A point's result, in a folder of its own. What it raises makes it stuck, with the reason."""
    import traceback

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpus-crash-", ignore_cleanup_errors=True) as folder:
        try:
            found: Result = import_module(PARTS[point.part]).run(point, Path(folder))
        except Exception:
            found = Result(point, stuck=1, detail=traceback.format_exc())
    return found._replace(seconds=time.monotonic() - began)


def results(found: Sequence[Point], at_once: int = 0) -> Iterator[Result]:
    """The results, as they come, of points run in processes of their own."""
    for part, module in PARTS.items():
        mine = [point for point in found if point.part == part]
        if not mine:
            continue
        width = at_once or import_module(module).AT_ONCE
        # Each point changes its process's environment; a fresh interpreter now and then keeps
        # threads from piling up. The standard library's pools wait for ever for a point whose
        # process died.
        with ProcessPool(width, max_tasks=40, context=multiprocessing.get_context("spawn")) as pool:
            waited: dict[Future[Result], Point] = {
                pool.schedule(one, [point], timeout=LONGEST_S): point for point in mine
            }
            for future in as_completed(waited):
                error = future.exception()
                yield (
                    future.result()
                    if error is None
                    else Result(
                        waited[future], stuck=1, detail=f"it did not end by itself: {error!r}"
                    )
                )


def report(found: Sequence[Result], say: Callable[[str], None] = print) -> bool:
    """Prints the table by cloud and step, the failures with their commands, and the sum. True when
    all is zero.
    """
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in found:
        rows.setdefault((result.point.part, result.point.cloud, result.point.step), []).append(
            result
        )
    say(
        f"{'part':5}{'cloud':7}{'step':26}{'points':>7}{'orphans':>9}{'duplicates':>12}{'stuck':>7}{'seconds':>9}"
    )
    for (part, cloud, step), mine in sorted(
        rows.items(),
        key=lambda row: (
            row[0][0],
            CLOUDS.index(row[0][1]) if row[0][1] in CLOUDS else 9,
            row[0][2],
        ),
    ):
        say(
            f"{part:5}{cloud:7}{step:26}{len(mine):7}{_sum(mine)}{sum(result.seconds for result in mine):9.0f}"
        )
    for result in found:
        if not result.good:
            say(
                f"\n{result.point.cloud} {result.point.name}\n  {result.detail.strip()}\n  again:"
                f" {result.point.command}"
            )
    totals = [
        sum(getattr(result, name) for result in found)
        for name in ("orphans", "duplicates", "stuck")
    ]
    say(f"\npoints {len(found)}, orphans {totals[0]}, duplicates {totals[1]}, stuck {totals[2]}")
    return bool(found) and not any(totals)


def _sum(found: Sequence[Result]) -> str:
    return f"{sum(one.orphans for one in found):9}{sum(one.duplicates for one in found):12}{sum(one.stuck for one in found):7}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash",
        description="Runs points of the crash matrix; the last line is their sum.",
    )
    parser.add_argument("--part", choices=sorted(PARTS), help="one part alone")
    parser.add_argument("--cloud", choices=(*CLOUDS, OWN), help="one cloud alone")
    parser.add_argument(
        "--points", type=int, default=0, metavar="N", help="a sample of N points (default: all)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=SEED,
        metavar="S",
        help=f"what is left to chance (default {SEED})",
    )
    parser.add_argument(
        "--only", default="", metavar="NAME", help="the points of this name; * matches anything"
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=0,
        metavar="N",
        help="how many points run side by side (default: as the part says)",
    )
    parser.add_argument("--list", action="store_true", help="print the points and run none")
    chosen = parser.parse_args(words)
    # Connections that a killed engine cancels are no news here.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    found = [
        point
        for point in points([chosen.part] if chosen.part else list(PARTS), chosen.seed)
        if (not chosen.cloud or point.cloud == chosen.cloud)
        and (not chosen.only or point.name == chosen.only or fnmatchcase(point.name, chosen.only))
    ]
    if (
        not found
        and chosen.part
        and chosen.cloud
        and import_module(PARTS[chosen.part]).is_point(chosen.only, chosen.cloud)
    ):
        # One that was printed before: it can be run though it is listed no more.
        found = [Point(chosen.part, chosen.only, chosen.cloud, chosen.seed)]
    if chosen.points:
        found = sample(found, chosen.points, chosen.seed)
    if not found:
        print(
            f"wanted points to run, found none named {chosen.only!r}; `python -m tests.crash"
            " --list` names them",
            file=sys.stderr,
        )
        return 2
    if chosen.list:
        for point in found:
            print(f"{point.part} {point.cloud:6} {point.name}")
        return 0
    done = []
    for result in results(found, chosen.at_once):
        done.append(result)
        if os.isatty(2) or not result.good or len(done) % 100 == 0:
            words = "" if result.good else f": {result.point.cloud} {result.point.name}"
            print(
                f"{len(done)} of {len(found)}{words}",
                end="\r" if os.isatty(2) and not words else "\n",
                file=sys.stderr,
                flush=True,
            )
    order = {point: number for number, point in enumerate(found)}
    return 0 if report(sorted(done, key=lambda result: order[result.point])) else 1
