"""How soon a machine is there, and after how many calls: our walk, SkyPilot's and dstack's.

200 seeded markets from calm to famine (`market`), in virtual time. Each side buys in a market of
its own of the same seed, through its own code: ours in `acquire_ours`, theirs in `peers`, which
`acquire_peers` starts. Nothing is bought, and no time passes but what is computed.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import acquire_peers
from tests.benchmarks.acquire_ours import launch, offers_of, rows_of
from tests.benchmarks.acquire_peers import PEERS
from tests.benchmarks.acquire_sides import WISHES, Ran, wish_of
from tests.benchmarks.market import BASE, Assumptions, scaled, share_of
from tests.benchmarks.peers.jobs import Job
from tests.benchmarks.timing import Line, fresh_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.benchmarks.market import Row

MARKETS = 200
SENSITIVITY_EVERY = 11
"""No divisor of how many wishes there are: each kind comes."""
HARD_TRIES = 3
MEDIAN_LIMIT, P95_LIMIT, CALLS_LIMIT = 1 / 3, 1 / 5, 1 / 3
EXTRA_LIMIT = 0.01
"""What is released again may cost, of the first hour of what is kept."""
LATER_S = 300.0
VARIED: Mapping[str, Assumptions] = {
    "all latencies halved": scaled(0.5),
    "all latencies doubled": scaled(2.0),
    "one call over several zones as slow as all in turn": BASE._replace(zones_in_turn=1.0),
    "every place's stock by itself": BASE._replace(by_all=0.0, by_region=0.0),
    "quota everywhere": BASE._replace(no_quota=0.0),
}


class Market(NamedTuple):
    """One market, and what every side came to in it."""

    job: Job
    exists: bool
    """Whether a machine was available at the beginning."""
    ours: Ran
    theirs: Mapping[str, Ran]

    @property
    def better(self) -> Ran:
        """The other side that was sooner; of two that got nothing, the one that tried longer."""
        got = [ran for ran in self.theirs.values() if ran.place]
        if got:
            return min(got, key=lambda ran: ran.capacity_s)
        return max(self.theirs.values(), key=lambda ran: ran.capacity_s)

    @property
    def is_hard(self) -> bool:
        return self.exists and self.better.tries >= HARD_TRIES


def lines() -> Iterator[Line]:
    rows = rows_of(WISHES)
    jobs = [job_of(number) for number in range(MARKETS)]
    varied = {
        what: [job_of(number, by) for number in range(0, MARKETS, SENSITIVITY_EVERY)]
        for what, by in VARIED.items()
    }
    every = [*jobs, *(job for some in varied.values() for job in some)]
    with tempfile.TemporaryDirectory(prefix="gpus-bench-") as folder:
        try:
            theirs = acquire_peers.python(Path(folder))
            yield Line("acquire: the others", None, None, "", acquire_peers.versions(theirs))
        except (OSError, subprocess.CalledProcessError) as error:
            said = str(getattr(error, "stderr", "") or error).strip().splitlines()
            yield Line("acquire", None, None, "", f"not measured: {said[-1]}")
            return
        with acquire_peers.at_work(theirs, Path(folder), rows, every) as peers:
            ours = [ours_in(job, rows) for job in every]
            answers = peers.answers()
    found = [
        Market(job, exists_in(job, rows), mine, theirs_there)
        for job, mine, theirs_there in zip(every, ours, answers, strict=True)
    ]
    yield from table(found[:MARKETS])
    yield from _hedged(found[:MARKETS], rows)
    yield from _remembered(jobs, rows)
    yield from _not_built([market for market in found[:MARKETS] if market.is_hard], rows)
    at = MARKETS
    for what, some in varied.items():
        yield _sensitivity(what, found[at : at + len(some)])
        at += len(some)


def job_of(number: int, by: Assumptions = BASE) -> Job:
    """The launch in the market of that number."""
    return Job(number, share_of(number, MARKETS, by), by, wish_of(number))


def ours_in(job: Job, rows: Sequence[Row], *, bare: bool = False, hedge: int = 1) -> Ran:
    """Our launch there, with nothing remembered."""
    with fresh_home():
        return launch(job.wish, job.market(), offers_of(job.rows(rows)), bare=bare, hedge=hedge)


def exists_in(job: Job, rows: Sequence[Row]) -> bool:
    """Whether any creating call at the beginning would be granted."""
    market = job.market()
    return any(
        row.capacity == job.wish.capacity and market.obtainable(row.pool, 0.0)
        for row in job.rows(rows)
    )


def table(markets: Sequence[Market]) -> Iterator[Line]:
    """The comparison."""
    there = [market for market in markets if market.exists]
    hard = [market for market in there if market.is_hard]
    easy = [market for market in there if not market.is_hard]
    got = ", ".join(
        f"{name} {sum(1 for ran in sides if ran.place)}"
        for name, sides in (
            ("ours", [market.ours for market in there]),
            *((name, [market.theirs[name] for market in there]) for name in PEERS),
        )
    )
    yield Line(
        "acquire: markets where there was a machine",
        None,
        None,
        "",
        f"{len(there)} of {len(markets)}; a machine got there: {got}",
    )
    missed = [m for m in there if m.better.place and not m.ours.place]
    yield Line("  where another side got one, ours none", float(len(missed)), 0, "", "markets")
    what = f"  time to capacity, better side's tries >= {HARD_TRIES}"
    for name, rank, limit in (("median", 0.5, MEDIAN_LIMIT), ("p95", 0.95, P95_LIMIT)):
        yield _times(f"{what}: {name}", hard, rank, limit)
    yield _times("  the same until the machine runs: median", hard, 0.5, None, running=True)
    yield _times("  the same until the machine runs: p95", hard, 0.95, None, running=True)
    slower = [m for m in easy if _capacity_s(m.ours) > m.better.capacity_s + 1e-6]
    most = max((m.ours.capacity_s - m.better.capacity_s for m in slower), default=0.0)
    yield Line(
        "  elsewhere: markets where ours is slower",
        float(len(slower)),
        0,
        "",
        f"of {len(easy)}, by at most {most:.1f} s",
    )
    yield from _calls(hard)
    yield Line(
        "  left running, all markets",
        float(sum(market.ours.left for market in markets)),
        0,
        "",
        ", ".join(f"{name} {sum(m.theirs[name].left for m in markets)}" for name in PEERS),
    )
    for name in PEERS:
        both = [m for m in there if m.ours.place and m.theirs[name].place]
        yield Line(
            f"  price an hour, of {name}'s",
            sum(m.ours.usd_per_hour for m in both) / sum(m.theirs[name].usd_per_hour for m in both),
            None,
            " x",
            f"where both got one, {len(both)} markets",
        )


def _times(
    what: str, markets: Sequence[Market], rank: float, limit: float | None, *, running: bool = False
) -> Line:
    ours = quantile([_time(market.ours, running=running) for market in markets], rank)
    sides = {
        name: quantile([_until(market.theirs[name], running=running) for market in markets], rank)
        for name in PEERS
    }
    better = quantile([_until(market.better, running=running) for market in markets], rank)
    detail = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in sides.items())
    told = f"{len(markets)} markets: ours {ours:.0f} s, better {better:.0f} s ({detail})"
    return Line(what, ours / better, limit, " x", told)


def _calls(markets: Sequence[Market]) -> Iterator[Line]:
    for what, limit, of in (
        ("  all mutating calls there", CALLS_LIMIT, lambda ran: ran.mutations),
        ("  of them those that ask for machines", None, lambda ran: ran.creates),
    ):
        ours = sum(of(market.ours) for market in markets)
        sides = {name: sum(of(market.theirs[name]) for market in markets) for name in PEERS}
        detail = ", ".join(f"{name} {calls}" for name, calls in sides.items())
        yield Line(what, ours / min(sides.values()), limit, " x", f"ours {ours}, {detail}")


def _hedged(markets: Sequence[Market], rows: Sequence[Row]) -> Iterator[Line]:
    """The same launches with two providers at once."""
    found = [
        market._replace(ours=ours_in(market.job, rows, hedge=2))
        for market in markets
        if market.exists
    ]
    hard = [market for market in found if market.is_hard]
    easy = [market for market in found if not market.is_hard]
    got = [market.ours for market in found if market.ours.place]
    for name, rank, limit in (("median", 0.5, MEDIAN_LIMIT), ("p95", 0.95, P95_LIMIT)):
        yield _times(f"  with hedge: 2, time to capacity: {name}", hard, rank, limit)
    slower = [m for m in easy if _capacity_s(m.ours) > m.better.capacity_s + 1e-6]
    yield Line(
        "  with hedge: 2, elsewhere: markets where ours is slower",
        float(len(slower)),
        0,
        "",
        f"of {len(easy)}; a machine got in {len(got)} of {len(found)}",
    )
    twice = sum(1 for ran in got if ran.extra)
    yield Line(
        "  with hedge: 2, extra spend, of the first hour",
        sum(ran.extra for ran in got) / len(got),
        EXTRA_LIMIT,
        "",
        f"mean of {len(got)} markets; a second machine was made in {twice}, and cost at most"
        f" {max(ran.extra for ran in got):.3f} of it",
    )
    left = float(sum(market.ours.left for market in found))
    yield Line("  with hedge: 2, left running", left, 0, "", f"{len(found)} markets")
    yield next(iter(_calls(hard)))._replace(what="  with hedge: 2, all mutating calls there")


def _remembered(jobs: Sequence[Job], rows: Sequence[Row]) -> Iterator[Line]:
    """A second launch some minutes after the first, with and without what that remembered."""
    with_it, without = [], []
    for job in jobs:
        mine = offers_of(job.rows(rows))
        market = job.market()
        with fresh_home():
            first = launch(job.wish, market, mine)
            if not first.place or first.tries < HARD_TRIES:
                continue
            later = first.running_s + LATER_S
            with_it.append(launch(job.wish, market, mine, later))
        with fresh_home():
            without.append(launch(job.wish, job.market(), mine, later))
    both = [pair for pair in zip(with_it, without, strict=True) if all(ran.place for ran in pair)]
    spent = [sum(each.capacity_s for each in side) for side in zip(*both, strict=True)]
    paid = [sum(each.usd_per_hour for each in side) for side in zip(*both, strict=True)]
    yield Line(
        f"  ours again {LATER_S / 60:.0f} min later, of the same without memory",
        spent[0] / spent[1],
        None,
        " x",
        f"time to capacity, {len(both)} markets of {HARD_TRIES} tries or more; price"
        f" {paid[0] / paid[1]:.2f} x",
    )


def _not_built(hard: Sequence[Market], rows: Sequence[Row]) -> Iterator[Line]:
    """What could be gained, by the model: none of it is so."""
    yield _compared(
        "  if our calls around an order on EC2 were spared (not built)",
        [market._replace(ours=ours_in(market.job, rows, bare=True)) for market in hard],
    )
    yield _compared(
        "  the same with hedge: 2",
        [market._replace(ours=ours_in(market.job, rows, bare=True, hedge=2)) for market in hard],
    )


def _sensitivity(what: str, markets: Sequence[Market]) -> Line:
    return _compared(f"  if {what}", [market for market in markets if market.is_hard])


def _compared(what: str, hard: Sequence[Market]) -> Line:
    if not hard:
        return Line(what, None, None, "", "no market where the better side needs as many tries")
    ours = [_time(market.ours) for market in hard]
    better = [_until(market.better) for market in hard]
    median, p95 = (quantile(ours, rank) / quantile(better, rank) for rank in (0.5, 0.95))
    theirs = min(sum(market.theirs[name].mutations for market in hard) for name in PEERS)
    changed = sum(market.ours.mutations for market in hard) / theirs
    told = f"time to capacity, median; p95 {p95:.2f} x; mutating calls {changed:.2f} x"
    return Line(what, median, None, " x", f"{told}; {len(hard)} markets")


def quantile(values: Sequence[float], rank: float) -> float:
    """By nearest rank; the median of an even number is between the two."""
    if rank == 0.5:
        return statistics.median(values)
    return sorted(values)[math.ceil(rank * len(values)) - 1]


def _capacity_s(ran: Ran) -> float:
    return ran.capacity_s if ran.place else math.inf


def _time(ran: Ran, *, running: bool = False) -> float:
    """Ours: without a machine it never came."""
    return _until(ran, running=running) if ran.place else math.inf


def _until(ran: Ran, *, running: bool = False) -> float:
    """Another's: without a machine the time until it gave up counts, which flatters it."""
    return ran.running_s if running else ran.capacity_s


# Where it runs
