"""The market that the comparison of acquiring runs on: what must hold of any model of stock."""

import statistics

import pytest

from tests.benchmarks.market import (
    BASE,
    SOURCES,
    STEP_S,
    Market,
    Pool,
    scaled,
    share_of,
)
from tests.present import present

POOL = Pool("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", "on-demand")
OTHER = POOL._replace(zone="us-central1-b")
SPOT = POOL._replace(capacity="spot")
EVERYWHERE = BASE._replace(no_quota=0.0)


def pools(count):
    return [POOL._replace(region=f"r{n}", zone=f"r{n}-a") for n in range(count)]


def test_no_machine_is_in_two_hands():
    market = Market(1, 0.9, EVERYWHERE)
    stock = market.stock(POOL, 0.0)
    taken = [market.claim(POOL, 0.0) for _ in range(stock + 3)]
    made = [each for each in taken if each is not None]
    assert stock > 0
    assert [each is not None for each in taken] == [True] * stock + [False] * 3
    assert len({each.id for each in made}) == stock
    assert market.free(POOL, 0.0) == 0


def test_released_machine_can_be_had_again_and_another_place_never_noticed():
    market = Market(1, 0.9, EVERYWHERE)
    before = market.free(OTHER, 0.0)
    made = present(market.claim(POOL, 0.0))
    free = market.free(POOL, 1.0)
    market.release(made.id, 2.0)
    market.release(made.id, 3.0)
    assert (market.free(POOL, 1.0), market.free(POOL, 2.0)) == (free, free + 1)
    assert market.free(OTHER, 1.0) == before
    assert market.alive(2.0) == []


def test_same_seed_is_the_same_market_in_whatever_order_it_is_asked():
    times = [step * STEP_S for step in range(20)]
    forwards = [Market(7, 0.4).stock(pool, at) for pool in (POOL, OTHER) for at in times]
    market = Market(7, 0.4)
    backwards = [market.stock(pool, at) for pool in (OTHER, POOL) for at in reversed(times)]
    assert forwards == backwards[::-1]
    assert market.refusal([POOL]) == Market(7, 0.4).refusal([POOL])
    assert forwards != [Market(8, 0.4).stock(pool, at) for pool in (POOL, OTHER) for at in times]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_share_of_places_with_stock_is_the_one_asked_for(share):
    found = [Market(seed, share).stock(POOL, 0.0) > 0 for seed in range(400)]
    assert statistics.mean(found) == pytest.approx(share, abs=0.06)


def test_markets_go_from_calm_to_famine():
    shares = [share_of(number, 200) for number in range(200)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(BASE.calm) and shares[-1] == pytest.approx(BASE.famine)


def test_shortage_lasts_and_is_shared_within_a_region():
    near, later, elsewhere = [], [], []
    for seed in range(300):
        market = Market(seed, 0.5)
        here = market.stock(POOL, 0.0) > 0
        near.append(here == (market.stock(OTHER, 0.0) > 0))
        later.append(here == (market.stock(POOL, STEP_S) > 0))
        elsewhere.append(here == (market.stock(pools(2)[1], 0.0) > 0))
    assert statistics.mean(later) > statistics.mean(near) > statistics.mean(elsewhere) > 0.5


def test_place_without_quota_gives_nothing_though_it_has_stock():
    market = Market(1, 0.9, BASE._replace(no_quota=1.0))
    assert market.stock(POOL, 0.0) > 0
    assert market.claim(POOL, 0.0) is None
    assert market.refusal([POOL]) < Market(1, 0.9, EVERYWHERE).refusal([POOL])


def test_spot_machine_is_taken_back_when_its_place_runs_dry_and_another_is_not():
    lost = 0
    for seed in range(60):
        market = Market(seed, 0.5, EVERYWHERE)
        spot, kept = market.claim(SPOT, 0.0), market.claim(POOL, 0.0)
        dry = any(market.stock(SPOT, step * STEP_S) == 0 for step in range(1, 13))
        if spot is not None:
            lost += dry
            assert market.preempted(spot.id, 12 * STEP_S) == dry
            assert (spot in market.alive(12 * STEP_S)) != dry
        if kept is not None:
            assert kept in market.alive(12 * STEP_S)
    assert lost > 0


def test_one_call_over_zones_costs_as_many_refusals_as_is_assumed():
    fast, slow = (Market(1, 0.5, EVERYWHERE._replace(zones_in_turn=each)) for each in (0.0, 1.0))
    assert fast.refusal([POOL, OTHER]) == fast.refusal([POOL])
    assert slow.refusal([POOL, OTHER]) == pytest.approx(2 * fast.refusal([POOL]))


def test_scaled_latencies_change_nothing_but_durations():
    twice = Market(3, 0.5, scaled(2.0))
    assert twice.seconds("boot_s", "r1") == pytest.approx(
        2 * Market(3, 0.5).seconds("boot_s", "r1")
    )
    assert [twice.stock(pool, 0.0) for pool in pools(30)] == [
        Market(3, 0.5).stock(pool, 0.0) for pool in pools(30)
    ]


def test_every_assumption_says_where_it_comes_from():
    assert set(SOURCES) == set(BASE._fields)
    assert all(what and source for what, source in SOURCES.values())
