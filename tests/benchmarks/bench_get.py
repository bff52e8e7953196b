"""What `gpus get` costs in calls, and how much later it is, against a loop that asks every minute.

A virtual clock over the journal's own blocks, in 200 seeded famines of the market that `acquire`
compares on: the zones of some regions of the bundled catalog, all of them sold out at first, one of
them with room within twelve hours. The loop asks zone after zone. Ours sends what one order of the
plan covers, as the clouds' own adapters say: at Google and for EC2 on demand that is a region. Both
end with the first that has room. A zone that opens stays open, or closes again as the market has
it. No call is made and no time passes.

Beside it: what other times between two calls would cost. Who asks more seldom than the market
changes misses what is open for less, whatever the order.
"""

from __future__ import annotations

import random
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.aws import MANIFEST as AWS
from providers.adapters.aws.grouping import group as aws_group
from providers.adapters.gcp import MANIFEST as GCP
from providers.adapters.gcp.grouping import group as gcp_group
from providers.catalog.table import table
from providers.engine.journal.journal import Journal
from providers.errors import NoCapacity
from providers.model.ask import Ask, Capacity, Choice
from providers.model.place import Scope
from providers.planner.plan import make
from tests.benchmarks.acquire_ours import offers_of, rows_of
from tests.benchmarks.acquire_sides import WISHES, Wish, wish_of
from tests.benchmarks.market import BASE, STEP_S, Market, Pool
from tests.benchmarks.timing import Line, quick_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from providers.model.offer import Candidate, Offer
    from tests.benchmarks.market import Row

MARKETS, HOURS, MOST_REGIONS = 200, 12, 4
SHARE = 0.05
"""Of places with stock, on average."""
MINUTE_S = 60.0
CALLS_LIMIT, LATER_LIMIT = 0.1, 0.05
ROTATIONS = (3, 6, 10, 20)
"""Minutes in which each order is sent once, for comparison."""
_ABLE = {each.name: each.capabilities for each in (AWS, GCP)}
_GROUP = {AWS.name: aws_group, GCP.name: gcp_group}


class Found(NamedTuple):
    """When there was room for whoever asked, in seconds from the start, and what it took. Not `got`:
    the hours were over.
    """

    at: float
    calls: int
    got: bool = True


class Famine:
    """The zones that each order of a plan covers, in one market; all sold out at first."""

    def __init__(self, market: Market, orders: Sequence[Sequence[Pool]], *, stays: bool) -> None:
        self._market, self._orders, self._stays = market, orders, stays
        self._opens = {pool: self._first(pool) for pools in orders for pool in pools}

    def _first(self, pool: Pool) -> float:
        steps = (step * STEP_S for step in range(int(HOURS * 3_600 / STEP_S)))
        return next((at for at in steps if self._market.stock(pool, at)), float("inf"))

    @property
    def orders(self) -> range:
        return range(len(self._orders))

    @property
    def zones(self) -> int:
        return len(self._opens)

    @property
    def opens(self) -> float:
        """When a zone first has room."""
        return min(self._opens.values())

    def has_room(self, order: int, at: float) -> bool:
        pools = self._orders[order]
        if self._stays:
            return any(at >= self._opens[pool] for pool in pools)
        return any(self._market.stock(pool, at) > 0 for pool in pools)


def lines() -> Iterator[Line]:
    with quick_folder() as folder:
        journal = Journal(folder / "journal.db")
        for stays, what in ((True, "stays open"), (False, "closes again")):
            famines = list(_famines(stays=stays))
            yield from _compared(journal, famines, what)
        journal.close()


def _compared(journal: Journal, famines: Sequence[Famine], what: str) -> Iterator[Line]:
    loops = [_looping(famine) for famine in famines]
    ours = [_waiting(journal, f"{what} {number}", famine) for number, famine in enumerate(famines)]
    calls, later, none = _against(ours, loops)
    each = sum(found.calls for found in ours) / MARKETS
    zones = sum(famine.zones for famine in famines) / sum(len(famine.orders) for famine in famines)
    told = f"{each:.0f} each; an order covers {zones:.1f} zones"
    name = f"gpus get, what opens {what}: calls, of a loop each minute"
    yield Line(name, calls, CALLS_LIMIT, "x", told)
    hours = sum(found.at for found in ours) / MARKETS / 3_600
    told = f"{hours:.1f} h; {none} of {MARKETS} got none within {HOURS} h"
    yield Line("  later than it, on average", later, LATER_LIMIT, "x", told)
    for minutes in ROTATIONS:
        calls, later, none = _against([_rotating(each, minutes) for each in famines], loops)
        told = f"{calls:.2f} x the calls; {none} of {MARKETS} got none"
        yield Line(f"  later, each order every {minutes} min in turn", later, None, "x", told)


def _against(ours: Sequence[Found], loops: Sequence[Found]) -> tuple[float, float, int]:
    """(calls, of the loops'; how much later, of their time; how many got none)."""
    calls = sum(each.calls for each in ours) / sum(each.calls for each in loops)
    later = sum(each.at for each in ours) / sum(each.at for each in loops) - 1
    return calls, later, sum(not each.got for each in ours)


def _famines(*, stays: bool) -> Iterator[Famine]:
    """Those in which nothing is there at first, and something within the hours."""
    rows = rows_of(WISHES)
    offers = offers_of(rows)
    by_pool = {
        Pool(each.provider, each.region, each.zone, each.machine_type, each.capacity): each
        for each in map(offers.offer, range(len(offers)))
    }
    seed, found = 0, 0
    while found < MARKETS:
        seed += 1
        wish = wish_of(seed)
        pools = _pools(wish, rows, random.Random(seed))
        orders = _orders(wish, [by_pool[pool] for pool in pools])
        famine = Famine(Market(seed, SHARE, BASE), orders, stays=stays)
        if 0.0 < famine.opens < float("inf"):
            found += 1
            yield famine


def _pools(wish: Wish, rows: Sequence[Row], chance: random.Random) -> list[Pool]:
    """The zones of some regions that serve the wish, each with its region's cheapest machine."""
    fit = [
        row
        for row in rows
        if wish.served_by(row.gpu_type, row.gpu_count) and row.capacity == wish.capacity
    ]
    regions = sorted({(row.provider, row.region) for row in fit})
    found: list[Pool] = []
    for region in chance.sample(regions, chance.randint(1, min(MOST_REGIONS, len(regions)))):
        there = [row for row in fit if (row.provider, row.region) == region]
        cheapest = min(there, key=lambda row: row.usd).machine_type
        found += [row.pool for row in there if row.machine_type == cheapest]
    return found


def _orders(wish: Wish, offers: Sequence[Offer]) -> list[list[Pool]]:
    """What each order of the plan covers."""
    choice = Choice(wish.gpu, wish.gpu_count, capacity=(Capacity(wish.capacity),))
    pending: list[Candidate] = list(make(Ask((choice,)), table(offers), _ABLE).candidates)
    found = []
    while pending:
        first = pending[0].provider
        alike = list(takewhile(lambda each, first=first: each.provider == first, pending))  # type: ignore[misc]
        size = _GROUP[first](alike)
        found.append(
            [
                Pool(each.provider, each.region, each.zone, each.machine_type, each.capacity)
                for each in pending[:size]
            ]
        )
        pending = pending[size:]
    return found


def _waiting(journal: Journal, world: str, famine: Famine) -> Found:
    """An order is sent again when the block of its places ends."""
    due = dict.fromkeys(famine.orders, 0.0)
    calls = 0
    while True:
        order, now = min(due.items(), key=lambda each: each[1])
        if now > HOURS * 3_600:
            return Found(HOURS * 3_600.0, calls, got=False)
        calls += 1
        if famine.has_room(order, now):
            return Found(now, calls)
        scope = Scope("cloud", "region", str(order))
        seconds = NoCapacity.default_block_s
        due[order] = journal.block(world, scope, seconds, "", now, searching=True).until


def _rotating(famine: Famine, minutes: int) -> Found:
    """One order at a time, each of them this often."""
    step_s = minutes * MINUTE_S / len(famine.orders)
    for calls in range(1, int(HOURS * 3_600 / step_s) + 1):
        if famine.has_room((calls - 1) % len(famine.orders), calls * step_s):
            return Found(calls * step_s, calls)
    return Found(HOURS * 3_600.0, int(HOURS * 3_600 / step_s), got=False)


def _looping(famine: Famine) -> Found:
    """All zones are asked each minute, in turn."""
    rounds = int(-(-famine.opens // MINUTE_S))
    return Found(rounds * MINUTE_S, rounds * famine.zones + 1)
