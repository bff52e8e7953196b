"""What `gpus get` costs in calls, and how much later it is, against a loop that asks every minute.

A virtual clock over the journal's own blocks: in each of 200 seeded markets some places are sold
out for up to twelve hours, each for as long as chance has it. Both sides ask a place that is due,
and end with the first that has room. No call is made and no time passes.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal.journal import Journal
from providers.errors import NoCapacity
from providers.model.place import Scope
from tests.benchmarks.timing import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKETS, HOURS, MOST_PLACES = 200, 12, 6
MINUTE_S = 60.0
CALLS_LIMIT, LATER_LIMIT = 0.1, 0.05


class Found(NamedTuple):
    """When there was room for whoever asked, in seconds from the start, and what it took."""

    at: float
    calls: int


def lines() -> Iterator[Line]:
    chance = random.Random(16)
    waits, loops = [], []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.db")
        for market in range(MARKETS):
            opens = [
                chance.uniform(0, HOURS * 3_600) for _ in range(chance.randint(1, MOST_PLACES))
            ]
            waits.append(_waiting(journal, f"market-{market}", opens))
            loops.append(_looping(opens))
        journal.close()
    calls = sum(each.calls for each in waits) / sum(each.calls for each in loops)
    later = sum(each.at for each in waits) / sum(each.at for each in loops) - 1
    per = sum(each.calls for each in waits) / MARKETS
    hours = sum(each.at for each in waits) / MARKETS / 3_600
    yield Line("gpus get: calls, of a loop each minute", calls, CALLS_LIMIT, "x", f"{per:.0f} each")
    yield Line(
        "gpus get: later than it, on average", later, LATER_LIMIT, "x", f"{hours:.1f} h waited"
    )


def _waiting(journal: Journal, world: str, opens: list[float]) -> Found:
    """A place is asked when its block ends."""
    due = dict.fromkeys(range(len(opens)), 0.0)
    calls = 0
    while True:
        place, now = min(due.items(), key=lambda each: each[1])
        calls += 1
        if now >= opens[place]:
            return Found(now, calls)
        scope = Scope("cloud", "region", str(place))
        block = journal.block(world, scope, NoCapacity.default_block_s, "sold out", now)
        due[place] = block.until


def _looping(opens: list[float]) -> Found:
    """All are asked each minute, in turn."""
    at = min(opens)
    rounds = int(-(-at // MINUTE_S))
    return Found(rounds * MINUTE_S, rounds * len(opens) + 1)
