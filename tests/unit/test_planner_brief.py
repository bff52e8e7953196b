"""The few lines that a preview shows: the choice, its price, the worst, and what else there is."""

import pytest

import providers
from providers.catalog.table import table
from providers.engine import stack_config
from providers.model.ask import PRICE, Ask, Choice
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.model.place import Block, Scope
from providers.planner import brief, render
from providers.planner.plan import make
from providers.planner.summary import CurrentCost

SOLD = ["gcp", "aws", "modal"]
ON_DEMAND = frozenset({"on-demand"})
KINDS = frozenset({"machine", "job", "service"})
BOTH = {name: Capabilities(name, kinds=KINDS, capacities=ON_DEMAND) for name in ("alpha", "beta")}


def offer(provider, zone, usd):
    """A machine with eight H100 at this price in dollars per hour."""
    return Offer(
        *(provider, zone[:-2], zone, "m8", "H100", 8.0, "on-demand", round(usd * 1_000_000)),
        *("2026-07-30", "list"),
    )


OFFERS = [offer("alpha", "a-1", 20), offer("alpha", "b-1", 12.5), offer("beta", "c-1", 30)]


def plan(offers=OFFERS, **more):
    entries = more.pop("entries", (Choice("H100", 8),))
    return make(Ask(entries, **more), table(offers), BOTH)


def rows(text):
    """The first words of each line, but for continued ones."""
    return [line.split("  ")[0].strip() for line in text.splitlines() if not line.startswith(" ")]


def test_the_choice_the_price_the_worst_and_the_other_providers_are_told() -> None:
    """One line each, with the number of further places."""
    text = brief.as_text(plan(rank=PRICE), 120, title="train", current=CurrentCost(0), details="x")
    assert rows(text)[1:] == ["buys", "price", "at worst", "or", "change", "details"]
    assert "b-1" in text.splitlines()[1]
    assert "$12.50/h, $9,125/month" in text and "at worst    $30.00/h" in text
    assert "1 more place" in text and "+$12.50/h; nothing runs now" in text


def test_what_has_a_ttl_is_told_by_its_run_and_not_by_the_month() -> None:
    """Hours are known, so the sum is."""
    text = brief.as_text(plan(entries=(Choice("H100", 8, ttl_s=7_200),), rank=PRICE), 120)
    assert "$12.50/h, $25.00 for its ttl of 2h" in text and "month" not in text


def test_a_job_is_told_by_the_hour_and_a_service_by_the_month() -> None:
    """Nobody pays a job for a month; nothing ends a service."""
    job, service = plan(kind="job", rank=PRICE), plan(kind="service", rank=PRICE)
    for text in (brief.as_text(job, 120), render.as_text(job, 120), render.as_markdown(job)):
        assert "$12.50/h" in text or "12.50" in text
        assert "month" not in text
    assert "$12.50/h, $9,125/month" in brief.as_text(service, 120)
    assert "$/month" in render.as_text(service, 120)


def test_of_several_nodes_the_price_of_one_is_told_too() -> None:
    """The sum is for all."""
    able = {"alpha": BOTH["alpha"]._replace(max_nodes=4)}
    text = brief.as_text(make(Ask((Choice("H100", 8, nodes=2),)), table(OFFERS[1:2]), able), 120)
    assert "$25.00/h, $18,250/month; each node $12.50/h" in text


def test_a_price_with_little_cpu_says_so_beside_whole_machines() -> None:
    """A container's least CPU and memory are not compared silently with a machine's, and the
    options that make them alike are named; alike, nothing is said.
    """

    def shown(vcpus, usd=12.5):
        sold = [
            offer("alpha", "a-1", 20)._replace(vcpus=208.0, memory_gib=1872.0),
            offer("beta", "b-1", usd)._replace(vcpus=vcpus, memory_gib=1872.0 if vcpus > 1 else 1),
        ]
        able = {**BOTH, "beta": BOTH["beta"]._replace(reserves=("cpu", "memory_gib"))}
        made = make(Ask((Choice("H100", 8),), rank=PRICE), table(sold), able)
        return brief.as_text(made, 300), render.as_text(made, 300)

    remedy = "with options.beta.cpu and options.beta.memory_gib they are compared like for like"
    for text in shown(0.25):
        assert f"0.25 vCPUs and 1 GiB, alpha's m8 has 208 vCPUs and 1,872 GiB: {remedy}" in text
    assert "beta b-1 H100:8 on-demand $30.00/h with 0.25 vCPUs and 1 GiB" in shown(0.25, 30)[0]
    assert not any("vCPUs" in text for text in shown(104.0))


def test_one_place_alone_has_no_worst_and_no_other() -> None:
    """Nothing to choose, nothing to read."""
    text = brief.as_text(plan(OFFERS[:1]))
    assert "at worst" not in text and "more place" not in text


def test_an_order_that_costs_more_than_the_cheapest_says_how_much_and_what_would_not() -> None:
    """The declared order of providers is kept, and its price told."""
    dear = brief.as_text(plan(rank="preference", providers=("beta", "alpha")), 200, details="more")
    assert (
        "rank: preference costs $17.50/h more than the cheapest: rank: price takes alpha b-1"
        in dear
    )
    assert "cheaper" not in brief.as_text(plan(rank=PRICE))


def test_another_declared_choice_that_is_cheaper_is_named_with_the_rank_that_takes_it() -> None:
    """Nothing is said where the first one is the cheapest."""
    cheap = offer("alpha", "a-2", 1)._replace(gpu_type="L4", gpu_count=1.0)
    entries = (Choice("H100", 8), Choice("L4", 1))
    text = brief.as_text(plan([*OFFERS, cheap], entries=entries), 200)
    assert "cheaper     alpha a-2 L4:1 on-demand $1.00/h, with rank: price" in text
    assert "cheaper" not in brief.as_text(plan([*OFFERS, cheap], entries=entries, rank=PRICE))


def test_cheaper_places_that_are_left_alone_are_counted() -> None:
    """Dearer ones are no loss."""
    blocks = [Block(Scope("alpha", "b"), 900.0, "sold out"), Block(Scope("beta"), 900.0, "busy")]
    made = make(Ask((Choice("H100", 8),), rank=PRICE), table(OFFERS), BOTH, blocks=blocks)
    text = brief.as_text(made, 200)
    assert "left alone  1 cheaper place, from $12.50/h, refused lately: see gpus memory" in text


def test_choices_that_were_passed_over_say_by_which_rules() -> None:
    """A fallback is taken only because nothing of the first choice is acceptable."""
    text = brief.as_text(plan(entries=(Choice("H200", 8), Choice("H100", 8)), rank=PRICE), 200)
    assert "instead of  H200:8: no place is acceptable (none is listed)" in text


def test_a_choice_that_is_only_dearer_was_not_passed_over() -> None:
    """Where the price decides over all choices, an earlier one has places too."""
    cheap = offer("alpha", "a-2", 1)._replace(gpu_type="L4", gpu_count=1.0)
    entries = (Choice("H100", 8), Choice("L4", 1))
    text = brief.as_text(plan([*OFFERS, cheap], entries=entries, rank=PRICE), 200)
    assert "buys        alpha a-2 m8 L4:1" in text and "instead of" not in text


def test_nothing_acceptable_shows_the_whole_plan() -> None:
    """Then what was refused decides."""
    made = plan(max_price_micro_usd=1)
    assert brief.as_text(made) == render.as_text(made)


@pytest.mark.parametrize("gpu", ["H100:8", "L4:1", "A100-80GB:4"])
def test_it_fits_twelve_lines_of_eighty_columns(gpu) -> None:
    """For one cluster, with what is on offer in the catalog."""
    text = brief.as_text(
        providers.plan(
            gpu, fallback=["H200:8"], spot="prefer", providers=SOLD, max_price_per_hour=90
        ),
        80,
        title="train",
        current=CurrentCost(0),
        details="gpus plan -s STACK --cluster train --explain, or gpus:detail: full",
    )
    assert len(text.splitlines()) <= 12 and max(map(len, text.splitlines())) <= 80, text


@pytest.mark.parametrize("value", ["all", "", 1, True])
def test_detail_is_short_or_full(value) -> None:
    """Anything else is told with what it may be."""
    (problem,) = stack_config.keys({"gpus:detail": value})
    assert str(problem).startswith("gpus:detail: wanted short or full, found")
    assert [stack_config.keys({"gpus:detail": each}) for each in ("short", "full")] == [[], []]
