"""Our own side of the comparison: the engine's `create` and `delete` on the simulated market.

Planner, journal, walk and adapters' grouping are the product's own; a home of its own keeps what
one run remembers for the next.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from providers.catalog.offers import load
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.journal.races import LEAST_S
from providers.engine.runtime.world import open_world
from providers.errors import AllFailed
from providers.model.ask import Ask, Capacity, Choice
from providers.model.machine import Setup
from tests.benchmarks.acquire_sides import Ran, Wish
from tests.benchmarks.market import GCP, Row
from tests.benchmarks.simulated_cloud import AWS, START, SimulatedCloud
from tests.present import present
from tests.virtual_time import VirtualClock, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from providers.catalog.table import OfferTable
    from providers.engine.runtime.world import World
    from tests.benchmarks.market import Machine, Market, Pool

OWNER, CLUSTER = "owner", "train"


def rows_of(wishes: Sequence[Wish]) -> list[Row]:
    """The bundled catalog's rows that any of the wishes could be served by, and that an account may
    buy without enabling a region first.
    """
    from providers.adapters.aws import MANIFEST

    closed = present(MANIFEST.limits.closed)
    wanted = {(wish.gpu, wish.gpu_count): wish.machine_types for wish in wishes}
    out = []
    for offer in map(load().offer, range(len(load()))):
        types = wanted.get((offer.gpu_type, int(offer.gpu_count)), ())
        if (
            offer.provider in (AWS, GCP)
            and offer.capacity in ("spot", "on-demand")
            and offer.gpu_count == int(offer.gpu_count)
            and any(
                offer.machine_type == each
                or each
                in (
                    offer.machine_type.rpartition("-")[0] + "-",
                    offer.machine_type.partition(".")[0] + ".",
                )
                for each in types
            )
            and offer.zone
            and offer.node_micro_usd
            and not offer.restriction
            and not (offer.provider == AWS and closed(offer.region, offer.zone))
        ):
            out.append(
                Row(
                    offer.provider,
                    offer.region,
                    offer.zone,
                    offer.machine_type,
                    offer.gpu_type,
                    int(offer.gpu_count),
                    offer.capacity,
                    offer.node_micro_usd / 1e6,
                    offer.vcpus,
                    offer.memory_gib,
                    offer.gpu_memory_gib,
                )
            )
    return out


def offers_of(rows: Sequence[Row]) -> OfferTable:
    """Those offers of the bundled catalog, as it has them."""
    pools = {row.pool for row in rows}
    bundled = load()
    return table(
        offer
        for offer in map(bundled.offer, range(len(bundled)))
        if (offer.provider, offer.region, offer.zone, offer.machine_type, offer.capacity) in pools
    )


def launch(
    wish: Wish,
    market: Market,
    offers: OfferTable,
    at: float = 0.0,
    *,
    bare: bool = False,
    hedge: int = 1,
) -> Ran:
    """One `create` at this time, then its `delete`; whatever GPUS_HOME holds is remembered.
    `bare` as in SimulatedCloud.
    """
    clock = VirtualClock(START + at)
    before = (market.mutations, market.creates)
    spec = ClusterSpec(
        OWNER,
        CLUSTER,
        Ask((Choice(wish.gpu, wish.gpu_count, capacity=(Capacity(wish.capacity),)),)),
        Setup(),
        "f1",
        hedge=hedge,
    )
    with _world(market, offers, clock, bare=bare) as world:
        try:
            record = run(clock, world, operations.create(world, spec, f"generation-{at:.0f}"))
        except AllFailed as failed:
            spent = clock.now() - START - at
            calls = _calls(market, before)
            left = len(market.alive(clock.now() - START))
            return Ran("", spent, spent, len(failed.attempts), *calls, 0.0, left)
        running = clock.now() - START - at
        calls = _calls(market, before)
        machine = market.machines[record.handles[0].native_id]
        extra = len(market.alive(clock.now() - START)) - 1
        run(clock, world, operations.delete(world, record))
        left = extra + len(market.alive(clock.now() - START))
        return Ran(
            "/".join(machine.pool),
            machine.began - at,
            running,
            len(record.attempts),
            *calls,
            offer_usd(offers, machine.pool),
            left,
            _extra(market, offers, machine, at),
        )


def _extra(market: Market, offers: OfferTable, kept: Machine, since: float) -> float:
    """What the other machines of this launch cost, of the first hour of the one that was kept: for
    as long as each was there, and a minute at least.
    """
    others = [
        each for each in market.machines.values() if each.id != kept.id and each.began >= since
    ]
    usd = sum(
        offer_usd(offers, each.pool) * max(LEAST_S, each.ended - each.began) / 3_600
        for each in others
    )
    return usd / offer_usd(offers, kept.pool)


def offer_usd(offers: OfferTable, pool: Pool) -> float:
    """What the catalog says of the pool's machine, an hour, without the disk that we order."""
    found = next(
        offer
        for offer in map(offers.offer, range(len(offers)))
        if (offer.provider, offer.region, offer.zone, offer.machine_type, offer.capacity) == pool
    )
    return present(found.node_micro_usd) / 1e6


def _calls(market: Market, before: tuple[int, int]) -> tuple[int, int]:
    return market.creates - before[1], market.mutations - before[0]


@contextmanager
def _world(
    market: Market, offers: OfferTable, clock: VirtualClock, *, bare: bool
) -> Iterator[World]:
    clouds = [SimulatedCloud(name, market, clock, bare=bare) for name in (AWS, GCP)]
    world = open_world(
        "rehearsal",
        {},
        manifests={cloud.name: cloud.manifest() for cloud in clouds},
        offers=offers,
        clock=clock,
    )
    try:
        yield world
    finally:
        world.close()
