"""What holds for the plan of any table, with generated asks and offers."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.catalog.table import table
from providers.model.ask import Ask, Capacity, Choice
from providers.model.capability import Capabilities
from providers.model.place import Block, Scope
from providers.planner import render, rules
from providers.planner.plan import make
from tests.unit.planner_rig import ABLE, ALL_KINDS, ids, offer

GPUS = ("H100", "H100-PCIe", "A100", "A100-80GB", "L4")
OFFERS = st.lists(
    st.builds(
        offer,
        provider=st.sampled_from(["gcp", "aws", "modal"]),
        zone=st.sampled_from(["us-central1-a", "us-central1-b", "europe-west4-b"]),
        machine=st.sampled_from(["a3-highgpu-8g", "a2-ultragpu-8g", "x9"]),
        gpu=st.sampled_from(GPUS),
        count=st.sampled_from([0.5, 1, 4, 8]),
        capacity=st.sampled_from(sorted(ALL_KINDS)),
        usd=st.one_of(
            st.none(), st.just(float("nan")), st.sampled_from([0.0, 1.0, 2.5, 2.5, 88.49])
        ),
        restriction=st.sampled_from(["", "", "", "not sold"]),
    ),
    max_size=25,
    unique_by=lambda o: o.id,
)
ENTRIES = st.lists(
    st.builds(
        Choice,
        gpu=st.sampled_from(["H100", "A100-80GB", "a100", "L4", "nonsense"]),
        gpu_count=st.sampled_from([1, 4, 8]),
        exact=st.booleans(),
        nodes=st.just(1),
        capacity=st.permutations(
            [Capacity("spot"), Capacity("on-demand"), Capacity("reservation", "mine")]
        ).flatmap(lambda kinds: st.integers(1, 3).map(lambda n: tuple(kinds[:n]))),
    ),
    min_size=1,
    max_size=3,
)
ASKS = st.builds(
    Ask,
    entries=ENTRIES.map(tuple),
    rank=st.sampled_from(
        ["preference", "price_by_choice", "price", "performance_per_dollar", "expected"]
    ),
    providers=st.sampled_from([(), ("gcp",), ("aws", "gcp")]),
    regions=st.sampled_from([(), ("us-central1",)]),
    max_price_micro_usd=st.sampled_from([None, 2_000_000, 50_000_000]),
)
BLOCKS = st.lists(
    st.builds(
        Block,
        st.builds(
            Scope,
            st.just("gcp"),
            capacity=st.sampled_from(["", "spot"]),
            zone=st.sampled_from(["", "us-central1-a"]),
        ),
        st.sampled_from([5.0, 20.0]),
        st.just("out"),
    ),
    max_size=2,
)
CLOUDS = {**ABLE, "aws": Capabilities("aws", capacities=ALL_KINDS, max_nodes=4)}


def planned(wanted, offers, blocks=()):
    return make(wanted, table(offers), CLOUDS, blocks=blocks, now=10.0)


@given(ASKS, OFFERS, BLOCKS)
@settings(max_examples=150, deadline=None)
def test_every_offer_is_kept_or_refused_exactly_once(wanted, offers, blocks) -> None:
    """Candidates and rejections together are the table, each offer once; the counts by rule say the
    same of the GPUs asked for.
    """
    plan = planned(wanted, offers, blocks)
    seen = ids(plan) + [rejection.offer.id for rejection in plan.rejections]
    assert sorted(seen) == sorted(o.id for o in offers)
    counts: dict[str, int] = {}
    for rejection in plan.rejections:
        counts[rejection.rule] = counts.get(rejection.rule, 0) + 1
    counts.pop("gpu", None)
    assert counts == plan.rejected_by_rule


@given(ASKS, OFFERS, BLOCKS, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_does_not_depend_on_the_order_of_rows(wanted, offers, blocks, random) -> None:
    """The same offers in any arrangement give the same candidates in the same order, refused by the
    same rules.
    """
    shuffled = list(offers)
    random.shuffle(shuffled)
    one, other = planned(wanted, offers, blocks), planned(wanted, shuffled, blocks)
    assert ids(one) == ids(other)
    assert {(r.offer.id, r.rule) for r in one.rejections} == {
        (r.offer.id, r.rule) for r in other.rejections
    }


@given(ASKS, OFFERS)
@settings(max_examples=100, deadline=None)
def test_a_higher_cap_never_loses_a_candidate(wanted, offers) -> None:
    """Whatever is acceptable under a cap is acceptable under a higher one and without one."""
    sets = [
        set(ids(planned(wanted._replace(max_price_micro_usd=cap), offers)))
        for cap in (1_000_000, 2_500_000, 90_000_000, None)
    ]
    assert all(smaller <= larger for smaller, larger in itertools.pairwise(sets))


@given(ASKS, OFFERS, BLOCKS)
@settings(max_examples=100, deadline=None)
def test_no_candidate_lacks_a_price_or_breaks_the_ask(wanted, offers, blocks) -> None:
    """A candidate has a positive whole price within the cap, at an allowed place, with the count
    asked for; ranks count from 1.
    """
    plan = planned(wanted, offers, blocks)
    for rank, candidate in enumerate(plan.candidates, 1):
        entry = wanted.entries[candidate.entry]
        assert candidate.rank == rank
        assert isinstance(candidate.micro_usd, int) and candidate.micro_usd > 0
        assert (
            wanted.max_price_micro_usd is None or candidate.micro_usd <= wanted.max_price_micro_usd
        )
        assert candidate.gpu_type in rules.types(entry) and candidate.gpu_count == entry.gpu_count
        assert not wanted.providers or candidate.provider in wanted.providers
        assert not wanted.regions or candidate.region in wanted.regions
        assert (
            candidate.capacity in {way.kind for way in entry.capacity}
            and not candidate.offer.restriction
        )
        assert (candidate.reservation == "mine") == (candidate.capacity == "reservation")
        assert not any(block.until > 10.0 and block.scope.covers(candidate) for block in blocks)
    if wanted.rank == "price":
        prices = [candidate.micro_usd for candidate in plan.candidates]
        assert prices == sorted(prices)
    if wanted.rank == "preference":
        entries = [candidate.entry for candidate in plan.candidates]
        assert entries == sorted(entries)


@given(ASKS, OFFERS, BLOCKS)
@settings(max_examples=60, deadline=None)
def test_the_text_of_any_plan_fits_96_columns(wanted, offers, blocks) -> None:
    """No line of the text is wider than 96 columns, and every form can be written for any plan."""
    plan = planned(wanted, offers, blocks)
    assert max(map(len, render.as_text(plan).splitlines())) <= 96
    written = render.as_json(plan)
    refused = len(written["rejections"]) + written["summary"]["other_gpus"]
    assert refused == len(plan.rejections)
    assert render.as_markdown(plan)
