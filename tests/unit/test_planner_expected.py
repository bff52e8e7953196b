"""What a plan will probably cost, and how long it will probably take."""

from itertools import permutations

import pytest

import providers
from providers.catalog import spot_losses
from providers.catalog.table import table
from providers.model.ask import BLOCK, EXPECTED, ON_DEMAND, PRICE, SPOT, Ask, Capacity, Choice
from providers.planner import brief, expected, render
from providers.planner.expected import ACQUIRED, PRIOR, REFUSED, REFUSED_S, RUNS_S, Tried, Try
from providers.planner.plan import make
from tests.present import present
from tests.unit.planner_rig import ABLE, offer

HOUR = 3_600.0
NOW = 100 * HOUR


def tried(place, outcome, *, seconds=10.0, ago_s=0.0):
    return Try._make((*place[:5], place.capacity, outcome, seconds, NOW - ago_s))


def plan(offers, tries=(), **more):
    more.setdefault("rank", PRICE)
    ways = more.pop("capacity", (Capacity(ON_DEMAND),))
    choice = Choice("H100", 8, capacity=ways, ttl_s=more.pop("ttl_s", None))
    return make(Ask((choice,), **more), table(offers), ABLE, tried=Tried(tries, NOW))


CHEAP, DEAR = offer(zone="us-east1-b", usd=10), offer(zone="us-west1-a", usd=20)


def test_the_expectation_is_the_sum_over_the_walk() -> None:
    """Each place counts with the chance that the walk comes to it and it has room; waiting is the
    refusals before it and the time until it runs.
    """
    p = PRIOR[ON_DEMAND]
    some = 1 - (1 - p) ** 2
    found = present(plan([DEAR, CHEAP]).expected)
    assert found.chance == pytest.approx(some)
    assert found.micro_usd == pytest.approx((p * 10e6 + (1 - p) * p * 20e6) / some)
    waits = p * RUNS_S + (1 - p) * p * (REFUSED_S + RUNS_S)
    assert found.seconds == pytest.approx(waits / some)
    assert plan([]).expected is None


def test_tries_correct_what_is_assumed_and_fade() -> None:
    """A refusal lowers the chance, most at its own place; a success raises it; after long, the
    assumption stands again. Measured times replace assumed ones.
    """
    refused = Tried([tried(CHEAP, REFUSED, seconds=99)], NOW)
    here, near = refused.chance(CHEAP), refused.chance(DEAR)
    assert here.chance < near.chance < PRIOR[ON_DEMAND]
    assert (here.tries, near.tries) == (1, 0)
    assert Tried([tried(CHEAP, ACQUIRED)], NOW).chance(CHEAP).chance > PRIOR[ON_DEMAND]
    day = 24 * HOUR
    old = Tried([tried(CHEAP, REFUSED, ago_s=99 * day)], 99 * day + NOW).chance(CHEAP)
    assert old.chance == pytest.approx(PRIOR[ON_DEMAND], abs=1e-3)
    choice = Choice("H100", 8)
    assert refused.seconds(DEAR, REFUSED, choice) == 99
    assert refused.seconds(DEAR, ACQUIRED, choice) == RUNS_S
    assert refused.seconds(offer("modal"), REFUSED, choice) == REFUSED_S


def test_a_clock_set_back_makes_no_try_younger_than_now() -> None:
    """Else one try would outweigh all others."""
    ahead = Tried([tried(CHEAP, REFUSED, ago_s=-50 * HOUR)], NOW).chance(CHEAP)
    assert ahead == Tried([tried(CHEAP, REFUSED)], NOW).chance(CHEAP)


@pytest.mark.parametrize("seed", range(6))
def test_no_other_order_costs_and_waits_less_than_rank_expected(seed) -> None:
    """Of all orders of five places, whatever was tried at them: use and wait together, an hour of
    waiting as one of the cheapest place.
    """
    places = [offer(zone=f"us-east{n}-b", usd=10 + (seed * 7 + n * n * 3) % 5) for n in range(5)]
    tries = [
        tried(place, REFUSED if (seed + n + k) % 3 else ACQUIRED, seconds=60 + 900 * (n % 2))
        for n, place in enumerate(places)
        for k in range(n + seed)
    ]
    made = plan(places, tries, rank=EXPECTED, ttl_s=7_200)
    known, choice = Tried(tries, NOW), made.ask.entries[0]
    hour = min(present(each.micro_usd) for each in made.candidates)

    def spent(order) -> float:
        reached, waited, total = 1.0, 0.0, 0.0
        for each in order:
            room = reached * known.chance(each.offer).chance
            runs_s = waited + known.seconds(each.offer, ACQUIRED, choice)
            total += room * (present(each.micro_usd) * 2 + hour * runs_s / HOUR)
            waited += known.seconds(each.offer, REFUSED, choice)
            reached -= room
        return float(total + reached * hour * waited / HOUR)

    best = min(map(spent, permutations(made.candidates)))
    assert spent(made.candidates) == pytest.approx(best)


def test_a_place_that_refuses_for_long_comes_later_by_rank_expected() -> None:
    """A cent less an hour is not worth an hour of refusals."""
    slow = offer(zone="us-east1-b", usd=19.99)
    tries = [tried(slow, REFUSED, seconds=HOUR) for _ in range(9)]
    assert plan([slow, DEAR], tries).candidates[0].zone == "us-east1-b"
    moved = plan([slow, DEAR], tries, rank=EXPECTED)
    assert moved.candidates[0].zone == "us-west1-a"
    assert (
        "likely      $20.00/h, ready in 55m if there is room (15%, by your tries)"
        in brief.as_text(plan([slow, DEAR], tries), 80)
    )


def test_the_row_says_what_is_assumed_and_the_details_have_the_arithmetic() -> None:
    """One row on the screen, none for one place of which nothing is known; each place with its
    chances, its price and its times, and what they come to; the same as data.
    """
    made = plan([CHEAP, DEAR])
    shown = brief.as_text(made, 80)
    assert "likely      $12.31/h, ready in 4m if there is room (91%, a guess)" in shown
    assert "likely" not in brief.as_text(plan([CHEAP]), 80)
    text = " ".join(render.as_text(made, 80).split())
    assert "expected about $12.31/h in 4m, if one of 2 places has room (91.0%)" in text
    assert (
        "#1 100% x 70% x $10.00/h = $7.00/h; refused in 30s, runs in 4m (a guess): gcp us-east1-b"
        in text
    )
    assert "#2 30% x 70% x $20.00/h = $4.20/h" in text and "if one of 2 places has room" in text
    data = render.as_json(made)["summary"]["expected"]
    assert data["price_usd_per_hour"] == pytest.approx(12.307692)
    assert not data["measured"] and data["by_rank"]["expected"]["first"] == CHEAP.id
    assert render.as_json(plan([]))["summary"]["expected"] is None


def test_tries_made_in_rehearsal_are_not_shown_as_if_they_predict() -> None:
    """On the screen and in the arithmetic; so many tries are a whole number."""
    own = [tried(CHEAP, ACQUIRED, seconds=2)]
    for rehearsed, said in ((True, "in rehearsal"), (False, "by your tries")):
        made = make(
            Ask((Choice("H100", 8),)),
            table([CHEAP]),
            ABLE,
            tried=Tried(own, NOW, rehearsed=rehearsed),
        )
        row = f"$10.00/h, ready in 2s if there is room (87%, {said})"
        assert f"likely      {row}" in brief.as_text(made, 80)
        text = " ".join(render.as_text(made, 80).split())
        assert ("the tries were made in rehearsal" in text) is rehearsed and "(by 1 try)" in text


def test_how_often_spot_is_taken_back_is_told_with_its_source_or_as_unknown() -> None:
    """Never as zero."""
    spot = offer(capacity=SPOT, usd=9)
    assert "how often such a spot machine is taken back is unknown" in render.as_text(
        plan([spot], capacity=(Capacity(SPOT),))
    )
    known = present(spot_losses.losses("aws", "af-south-1", "g4dn.12xlarge"))
    assert (known.least, known.most) == (0.0, 0.05)
    assert known.within(730)[1] == pytest.approx(0.05)
    assert spot_losses.losses("aws", "nowhere", "g4dn.12xlarge") is None
    text = render.as_text(
        providers.plan("H100:8", spot="only", providers=["aws"], regions=["ap-northeast-1"]), 200
    )
    assert "of such spot machines were taken back within a month (EC2's Spot Advisor" in text


def test_a_place_that_begins_at_its_own_time_has_no_expectation() -> None:
    """A capacity block may begin in a week: unknown, never four minutes."""
    able = {"gcp": ABLE["gcp"]._replace(capacities=frozenset({BLOCK}))}
    choice = Choice("H100", 8, capacity=(Capacity(BLOCK),))
    blocks = [offer(zone=zone, capacity=BLOCK, usd=9) for zone in ("us-east1-b", "us-east1-c")]
    made = make(Ask((choice,)), table(blocks), able)
    assert len(made.candidates) == 2 and "likely" not in brief.as_text(made, 80)
    assert "unknown: a capacity block begins at its own time" in render.as_text(made)
    assert render.as_json(made)["summary"]["expected"] is None
    other = Tried().chance(offer(capacity="of-a-provider-s-own"))
    assert 0 < other.chance < 1


def test_the_hours_that_count_are_those_of_the_use() -> None:
    """Its `ttl`, the job's hours, a month of a service, else a day."""
    assert expected.hours(Choice("H100", 8, ttl_s=7_200), "job", 9.0) == 2
    assert expected.hours(Choice("H100", 8), "job", 9.0) == 9
    assert expected.hours(Choice("H100", 8), "service") == 730
    assert expected.hours(Choice("H100", 8), "machine") == 24
