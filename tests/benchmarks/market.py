"""A market in virtual time: who has machines when, how long an answer takes, and who holds what.

Owns stock, quota, preemption and latency, for whoever buys: our own walk, and other programs in
environments of their own, which read this file too. So it imports the standard library alone. The
same seed is the same market, however it is asked. Nothing here sleeps.
"""

from __future__ import annotations

import math
import random
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

GCP = "gcp"
STEP_S = 300.0
"""Stock changes at most this often."""
SPAN_S = 16 * 3_600.0


class Row(NamedTuple):
    """A row of the catalog that somebody may buy."""

    provider: str
    region: str
    zone: str
    machine_type: str
    gpu_type: str
    gpu_count: int
    capacity: str
    usd: float
    vcpus: float
    memory_gib: float
    gpu_memory_gib: float

    @property
    def pool(self) -> Pool:
        return Pool(self.provider, self.region, self.zone, self.machine_type, self.capacity)


class Pool(NamedTuple):
    """Machines that are alike, of which some are free or none."""

    provider: str
    region: str
    zone: str
    machine_type: str
    capacity: str


class Assumptions(NamedTuple):
    """What the model rests on. `SOURCES` says of each where it comes from."""

    call_s: float = 0.5
    fleet_refusal_s: float = 2.0
    operation_refusal_s: float = 15.0
    quota_refusal_s: float = 1.5
    grant_s: float = 3.0
    boot_s: float = 60.0
    zones_in_turn: float = 0.0
    jitter: float = 0.3
    calm: float = 0.9
    famine: float = 0.02
    by_all: float = 0.2
    by_region: float = 0.3
    lasts_s: float = 2 * 3_600.0
    deep: float = 4.0
    no_quota: float = 0.1


ASSUMED = "assumed"
SOURCES = {
    "call_s": ("a call that reads, or edits no machine", ASSUMED),
    "fleet_refusal_s": ("EC2 says at once that there is none", ASSUMED),
    "operation_refusal_s": (
        "Google's operation ends without a machine",
        "under 30 s by a note in dstack 0.22.5 (gcp/compute.py); the middle is assumed",
    ),
    "quota_refusal_s": ("either cloud says that the quota is used up", ASSUMED),
    "grant_s": ("the creating call is answered where there is a machine", ASSUMED),
    "boot_s": ("from there until the machine runs", ASSUMED),
    "zones_in_turn": (
        "how much longer one call over several zones is refused: 0 as fast as one zone, 1 as slow"
        " as all of them in turn",
        ASSUMED,
    ),
    "jitter": ("spread of each duration (sigma of its logarithm)", ASSUMED),
    "calm": ("share of places with stock in the calmest market", ASSUMED),
    "famine": ("the same in the last one; between them evenly", ASSUMED),
    "by_all": ("share of the stock's variance that all places have in common", ASSUMED),
    "by_region": ("the same for the places of one region", ASSUMED),
    "lasts_s": (
        "half of a shortage is forgotten after this",
        "shortages last hours (packer-plugin-googlecompute#354); the figure is assumed",
    ),
    "deep": ("machines that a well stocked place has", ASSUMED),
    "no_quota": ("share of regions, per kind of capacity, without quota", ASSUMED),
}
BASE = Assumptions()
DURATIONS = (
    "call_s",
    "fleet_refusal_s",
    "operation_refusal_s",
    "quota_refusal_s",
    "grant_s",
    "boot_s",
)


def scaled(factor: float, by: Assumptions = BASE) -> Assumptions:
    """The same with every latency times this."""
    return by._replace(**{name: getattr(by, name) * factor for name in DURATIONS})


class Machine(NamedTuple):
    """Somebody's machine: of a pool, from a time until another, if it ended."""

    id: str
    pool: Pool
    began: float
    ended: float = math.inf


class Market:
    """One buyer's market. `share` of its places have stock, on average over all time."""

    def __init__(self, seed: int, share: float, by: Assumptions = BASE) -> None:
        self.seed, self.share, self.by = seed, share, by
        self.machines: dict[str, Machine] = {}
        self.mutations = 0
        """Calls that changed something at a cloud, or tried to."""
        self.creates = 0
        """Those of them that ask for machines."""

    # Stock

    def stock(self, pool: Pool, at: float) -> int:
        """How many machines the pool would have at this time if nobody here held any."""
        return _stock(self.seed, self.share, self.by, pool, int(max(0.0, at) // STEP_S))

    def free(self, pool: Pool, at: float) -> int:
        """How many of those are left."""
        machines = list(self.machines.values())
        taken = sum(1 for each in machines if each.pool == pool and _lives(each, at))
        return max(0, self.stock(pool, at) - taken)

    def has_quota(self, pool: Pool) -> bool:
        """Whether the account may have any there."""
        place = f"{self.seed}/quota/{pool.provider}/{pool.region}/{pool.capacity}"
        return random.Random(place).random() >= self.by.no_quota

    def obtainable(self, pool: Pool, at: float) -> bool:
        """Whether a creating call that arrives now is granted."""
        return self.has_quota(pool) and self.free(pool, at) > 0

    # Buying

    def claim(self, pool: Pool, at: float) -> Machine | None:
        """A machine of the pool, or None."""
        if not self.obtainable(pool, at):
            return None
        machine = Machine(f"m-{len(self.machines)}", pool, at)
        self.machines[machine.id] = machine
        return machine

    def release(self, machine: str, at: float) -> None:
        """Ends a machine. Gone already is success."""
        found = self.machines.get(machine)
        if found is not None and _lives(found, at):
            self.machines[machine] = found._replace(ended=at)

    def preempted(self, machine: str, at: float) -> bool:
        """Whether a spot machine was taken back by now: its pool ran dry since it began."""
        found = self.machines[machine]
        if found.pool.capacity != "spot":
            return False
        steps = range(int(found.began // STEP_S) + 1, int(at // STEP_S) + 1)
        return any(self.stock(found.pool, step * STEP_S) == 0 for step in steps)

    def alive(self, at: float) -> list[Machine]:
        """Every machine that costs money now."""
        return [
            each
            for each in list(self.machines.values())
            if _lives(each, at) and not self.preempted(each.id, at)
        ]

    # Latency

    def seconds(self, what: str, where: str) -> float:
        """How long it takes there: the same whoever asks, and in whatever order."""
        mean = float(getattr(self.by, what))
        spread = random.Random(f"{self.seed}/{what}/{where}").gauss(0.0, self.by.jitter)
        return mean * math.exp(spread)

    def refusal(self, pools: list[Pool]) -> float:
        """How long one creating call over these pools takes to be refused."""
        first = pools[0]
        if not any(self.has_quota(pool) for pool in pools):
            return self.seconds("quota_refusal_s", first.region)
        what = "operation_refusal_s" if first.provider == GCP else "fleet_refusal_s"
        one = self.seconds(what, first.region)
        zones = len({pool.zone for pool in pools})
        return one * (1 + self.by.zones_in_turn * (zones - 1))


def share_of(number: int, markets: int, by: Assumptions = BASE) -> float:
    """The share of places with stock in that market of so many, from calm to famine."""
    return by.calm + (by.famine - by.calm) * (number / max(1, markets - 1))


def _lives(machine: Machine, at: float) -> bool:
    return machine.began <= at < machine.ended


@lru_cache(maxsize=200_000)
def _stock(seed: int, share: float, by: Assumptions, pool: Pool, step: int) -> int:
    common = math.sqrt(by.by_all) * _walk(seed, "all", by.lasts_s, step)
    region = f"{pool.provider}/{pool.region}/{pool.machine_type}"
    regional = math.sqrt(by.by_region) * _walk(seed, region, by.lasts_s, step)
    own = math.sqrt(1 - by.by_all - by.by_region) * _walk(seed, "/".join(pool), by.lasts_s, step)
    above = common + regional + own - NormalDist().inv_cdf(1 - share)
    return 0 if above <= 0 else max(1, math.ceil(above * by.deep / 2))


def _walk(seed: int, name: str, half_life_s: float, step: int) -> float:
    return _walked(seed, name, half_life_s)[step % int(SPAN_S // STEP_S)]


@lru_cache(maxsize=8_192)
def _walked(seed: int, name: str, half_life_s: float) -> tuple[float, ...]:
    """A normal variable over time that forgets half of itself in `half_life_s`."""
    chance = random.Random(f"{seed}/{name}")
    keep = 0.5 ** (STEP_S / half_life_s)
    now, out = chance.gauss(0, 1), []
    for _ in range(int(SPAN_S // STEP_S)):
        out.append(now)
        now = keep * now + math.sqrt(1 - keep * keep) * chance.gauss(0, 1)
    return tuple(out)
