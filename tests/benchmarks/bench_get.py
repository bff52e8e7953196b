"""What `gpus get` costs in calls, and how much later it is, against a loop that asks every minute.

A virtual clock over the journal's own blocks, in 200 seeded famines of the market that `acquire`
compares on: some places, all of them sold out at first, one of them with room within twelve hours.
Both sides ask a place that is due, and end with the first that has room. A place that opens stays
open, or closes again as the market has it. No call is made and no time passes.

The rotation beside it asks every place equally often, one place at a time. It shows what calls buy
where places close again: who has a tenth of the loop's calls misses what is open for less than the
ten minutes between two of them, in whichever order they are made.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal.journal import Journal
from providers.errors import NoCapacity
from providers.model.place import Scope
from tests.benchmarks.market import BASE, STEP_S, Market, Pool
from tests.benchmarks.timing import Line, quick_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARKETS, HOURS, MOST_PLACES = 200, 12, 6
SHARE = 0.05
"""Of places with stock, on average."""
MINUTE_S = 60.0
CALLS_LIMIT, LATER_LIMIT = 0.1, 0.05
ROTATIONS = (12, 5)
"""Minutes in which each place is asked once: with the calls that are allowed, and with as many as
see every change of a stock that changes each five minutes.
"""


class Found(NamedTuple):
    """When there was room for whoever asked, in seconds from the start, and what it took. Not `got`:
    the hours were over.
    """

    at: float
    calls: int
    got: bool = True


class Famine:
    """Places of one market that are sold out at first."""

    def __init__(self, market: Market, pools: Sequence[Pool], *, stays: bool) -> None:
        self._market, self._pools, self._stays = market, pools, stays
        steps = [step * STEP_S for step in range(int(HOURS * 3_600 / STEP_S))]
        self.opens = [
            next((at for at in steps if market.stock(pool, at)), float("inf")) for pool in pools
        ]
        """When each place first has room."""

    @property
    def places(self) -> range:
        return range(len(self._pools))

    def has_room(self, place: int, at: float) -> bool:
        if self._stays:
            return at >= self.opens[place]
        return self._market.stock(self._pools[place], at) > 0


def lines() -> Iterator[Line]:
    with quick_folder() as folder:
        journal = Journal(folder / "journal.db")
        for stays, what in ((True, "stays open"), (False, "closes again")):
            famines = list(_famines(stays=stays))
            waits = [
                _waiting(journal, f"{what} {number}", famine)
                for number, famine in enumerate(famines)
            ]
            loops = [_looping(famine) for famine in famines]
            calls = sum(each.calls for each in waits) / sum(each.calls for each in loops)
            later = sum(each.at for each in waits) / sum(each.at for each in loops) - 1
            per = sum(each.calls for each in waits) / MARKETS
            hours = sum(each.at for each in waits) / MARKETS / 3_600
            yield Line(
                f"gpus get, what opens {what}: calls, of a loop each minute",
                calls,
                CALLS_LIMIT,
                "x",
                f"{per:.0f} each",
            )
            none = sum(not each.got for each in waits)
            told = f"{hours:.1f} h; {none} of {MARKETS} got none within {HOURS} h"
            yield Line("  later than it, on average", later, LATER_LIMIT, "x", told)
            for minutes in ROTATIONS:
                yield _rotation(famines, loops, minutes)
        journal.close()


def _famines(*, stays: bool) -> Iterator[Famine]:
    """Those in which nothing is there at first, and something within the hours."""
    seed, found = 0, 0
    while found < MARKETS:
        seed += 1
        places = range(random.Random(seed).randint(1, MOST_PLACES))
        pools = [Pool("gcp", f"r{each}", f"r{each}-a", "machine", "spot") for each in places]
        famine = Famine(Market(seed, SHARE, BASE), pools, stays=stays)
        if 0.0 < min(famine.opens) < float("inf"):
            found += 1
            yield famine


def _waiting(journal: Journal, world: str, famine: Famine) -> Found:
    """A place is asked when its block ends."""
    due = dict.fromkeys(famine.places, 0.0)
    calls = 0
    while True:
        place, now = min(due.items(), key=lambda each: each[1])
        if now > HOURS * 3_600:
            return Found(HOURS * 3_600.0, calls, got=False)
        calls += 1
        if famine.has_room(place, now):
            return Found(now, calls)
        scope = Scope("cloud", "region", str(place))
        block = journal.block(world, scope, NoCapacity.default_block_s, "sold out", now)
        due[place] = block.until


def _rotation(famines: Sequence[Famine], loops: Sequence[Found], minutes: int) -> Line:
    """How much later a rotation is, for information."""
    found = [_rotating(famine, minutes * MINUTE_S) for famine in famines]
    later = sum(each.at for each in found) / sum(each.at for each in loops) - 1
    calls = sum(each.calls for each in found) / sum(each.calls for each in loops)
    none = sum(not each.got for each in found)
    told = f"{calls:.2f} x the calls; {none} of {MARKETS} got none"
    return Line(f"  later, asking each place every {minutes} min in turn", later, None, "x", told)


def _rotating(famine: Famine, every_s: float) -> Found:
    """One place at a time, each of them this often."""
    step_s = every_s / len(famine.places)
    for calls in range(1, int(HOURS * 3_600 / step_s) + 1):
        if famine.has_room((calls - 1) % len(famine.places), calls * step_s):
            return Found(calls * step_s, calls)
    return Found(HOURS * 3_600.0, int(HOURS * 3_600 / step_s), got=False)


def _looping(famine: Famine) -> Found:
    """All are asked each minute, in turn."""
    rounds = int(-(-min(famine.opens) // MINUTE_S))
    return Found(rounds * MINUTE_S, rounds * len(famine.places) + 1)
