"""A plan in words: what stands where, and that it says what matters."""

import json

import providers
from providers.catalog.table import table
from providers.model.ask import Ask, Capacity, Choice, PriceOverride
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.planner import render
from providers.planner.describe import ask_text, change_line
from providers.planner.plan import Plan, make
from providers.planner.summary import CurrentCost, best_rows, summarize

ABLE = {"gcp": Capabilities("gcp", capacities=frozenset({"on-demand", "spot"}), max_nodes=4)}
SPOT_FIRST = (Capacity("spot"), Capacity("on-demand"))


def offer(
    zone="us-central1-a",
    capacity="on-demand",
    micro=88_490_000,
    provider="gcp",
    gpu="H100",
    machine="a3-highgpu-8g",
    left_out="egress; disks",
    **more,
):
    return Offer(
        provider,
        zone.rsplit("-", 1)[0],
        zone,
        machine,
        gpu,
        8.0,
        capacity,
        micro,
        "2026-07-30",
        "list",
        left_out=left_out,
        **more,
    )


OFFERS = [
    offer(capacity="spot", micro=26_110_000),
    *(
        offer(zone=f"us-central1-{zone}", micro=88_490_000 + step)
        for step, zone in enumerate("abcdefgh")
    ),
    offer(
        zone="us-east-1a",
        provider="aws",
        machine="p5.48xlarge",
        micro=55_040_000,
        left_out="egress",
    ),
    offer(gpu="L4", machine="g2-standard-96"),
    offer(zone="us-west1-a", micro=None),
]


def plan(**more):
    entries = more.pop("entries", (Choice("H100", 8, capacity=SPOT_FIRST),))
    return make(Ask(entries, **more), table(OFFERS, ["clore: no answer within 8 s"]), ABLE)


def test_the_text_shows_the_chosen_place_marked_with_hour_and_month() -> None:
    """The first row is the chosen place, marked, with dollars an hour and a month of 730 hours."""
    line = next(line for line in render.as_text(plan()).splitlines() if line.startswith(">"))
    assert (
        line.split() == ["> 1 gcp us-central1-a a3-highgpu-8g H100:8 spot 26.11 19,060"][0].split()
    )


def test_b17_each_provider_has_one_row_with_all_nodes_dates_and_what_is_left_out() -> None:
    """One row per provider, all-in times nodes, also for a provider that is not taken; the price's
    date and what is left out are told.
    """
    made = plan(entries=(Choice("H100", 8, nodes=2, capacity=SPOT_FIRST),))
    rows = best_rows(made)
    assert [(row.candidate.provider, row.candidate.micro_usd, row.refused) for row in rows] == [
        ("gcp", 52_220_000, ""),
        ("aws", 110_080_000, "no adapter for aws yet"),
    ]
    text = " ".join(render.as_text(made).split())
    assert "as of: gcp 2026-07-30; aws 2026-07-30" in text
    assert "2026-07-30: each node $26.11/h, whole machine; not in it: egress, disks" in text
    assert (
        "2026-07-30: each node $55.04/h, whole machine; not in it: egress not taken: no adapter"
        " for aws yet" in text
    )
    assert (
        "2026-07-30: each node $26.11/h, whole machine; not in it: egress, disks"
        in render.as_markdown(made)
    )


def test_the_walk_the_worst_case_the_refusals_and_the_warnings_are_told() -> None:
    """The next five places in order, how many more, the dearest that may be taken, counts by rule,
    and warnings.
    """
    text = render.as_text(plan())
    assert [line.split()[0] for line in text.split("in this order\n")[1].splitlines()[:5]] == [
        "2",
        "3",
        "4",
        "5",
        "6",
    ]
    assert "and 3 more" in text
    assert "$88.49/h ($64,598/month), the dearest place accepted: #9" in " ".join(text.split())
    assert "refused     2 offers" in text
    assert "no adapter for aws yet: aws us-east-1a p5.48xlarge H100:8 on-demand" in text
    assert "warning     clore: no answer within 8 s" in text


def test_what_a_bare_name_means_is_said() -> None:
    """A name that could be taken for another is explained; an exact one is not."""
    assert "A100 40 GB" in render.as_text(plan(entries=(Choice("A100", 8),)))
    assert "A100 40 GB" not in render.as_text(plan(entries=(Choice("A100", 8, exact=True),)))


def test_what_was_not_asked_for_is_not_counted_among_the_refusals() -> None:
    """Another count, another kind of capacity or region could never have mattered; JSON has them.
    Where nothing else was refused and nothing is acceptable, they are the reason.
    """
    made = plan(entries=(Choice("H100", 8, capacity=(Capacity("spot"),)),))
    assert made.counted() == {} and "\nrefused" not in render.as_text(made)
    assert made.rejected_by_rule == {"capacity": 10}
    none = plan(entries=(Choice("H100", 4),))
    assert none.counted() == {"gpu-count": 11} and "refused     11 offers" in render.as_text(none)
    dear = plan(max_price_micro_usd=1)
    assert dear.counted() == dear.counted(0) == {"adapter": 1, "price-known": 1, "price-cap": 9}


def test_a_name_that_is_cut_stands_whole_below_it() -> None:
    """At 80 columns a long machine type is cut in its column only."""
    name = "m" * 40
    made = make(Ask((Choice("H100", 8),)), table([offer(machine=name)]), ABLE)
    assert f"gcp us-central1-a {name} H100:8" in render.as_text(made, 80)


def test_no_candidate_says_so() -> None:
    """A plan without candidates says that nothing is acceptable, and still shows the rules and the
    best that was refused.
    """
    text = render.as_text(plan(max_price_micro_usd=1_000_000))
    assert "nothing acceptable" in text
    assert "price-cap" in text and "26.11" in text


def test_the_change_is_against_what_runs_now() -> None:
    """The change per hour: from nothing, down, up, none, from an unknown price, and to nothing."""
    assert change_line(0, 26_110_000) == "+$26.11/h; nothing runs now"
    assert change_line(40_000_000, 26_110_000, "gcp x") == "-$13.89/h; gcp x runs now at $40.00/h"
    assert change_line(20_000_000, 26_110_000).startswith("+$6.11/h")
    assert change_line(26_110_000, 26_110_000).startswith("none")
    assert "no known price" in change_line(None, 26_110_000, "gcp x")
    assert change_line(0, None).startswith("none")
    assert "change      +$26.11/h; nothing runs now" in render.as_text(
        plan(), current=CurrentCost(0)
    )


def test_json_has_what_is_documented() -> None:
    """A candidate and a rejection have the documented fields, and the whole is plain JSON."""
    answer = json.loads(
        json.dumps(render.as_json(plan(), CurrentCost(20_000_000, "gcp x")), allow_nan=False)
    )
    first = answer["candidates"][0]
    documented = (
        "rank provider region zone machine_type gpu_type gpu_count nodes capacity"
        " price_usd_per_hour price_as_of price_source"
    )
    assert set(documented.split()) <= set(first)
    assert (first["rank"], first["gpu_count"], first["price_usd_per_hour"]) == (1, 8, 26.11)
    assert {"offer", "rule", "wanted", "found"} == set(answer["rejections"][0])
    others = answer["summary"]["other_gpus"]
    assert len(answer["candidates"]) + len(answer["rejections"]) + others == len(OFFERS)
    assert answer["summary"]["change_usd_per_hour"] == 6.11
    assert answer["summary"]["rejected_by_rule"] == {"adapter": 1, "price-known": 1}


def test_markdown_is_a_table_that_nothing_breaks() -> None:
    """Markdown has the same rows, and a bar inside a text does not end a cell."""
    offers = [offer(machine="a|b")]
    text = render.as_markdown(make(Ask((Choice("H100", 8),)), table(offers), ABLE), title="train")
    row = next(line for line in text.splitlines() if "chosen" in line)
    assert "a\\|b" in row and row.replace("\\|", "").count("|") == 11


def test_an_override_is_told_as_the_users_own_price() -> None:
    """A price from an override is named as such where the dates stand."""
    made = plan(price_overrides=(PriceOverride(1_000_000, "gcp", capacity="spot"),))
    assert "your own (prices.overrides)" in render.as_text(made)


def test_long_names_are_cut_to_the_width() -> None:
    """Whatever the names, no line is wider than asked for."""
    offers = [
        offer(
            zone="northamerica-northeast2-c", machine="m" * 60, gpu="RTX-PRO-6000", restriction=""
        )
    ]
    made = make(Ask((Choice("RTX-PRO-6000", 8),)), table(offers, ["w" * 200]), ABLE)
    for width in (60, 80, 96, 120):
        assert max(map(len, render.as_text(made, width).splitlines())) <= width


def test_listed_providers_have_an_order_only_where_it_counts() -> None:
    """By preference it is one provider, then the next; by price any of them."""
    entry = Choice("H100", 8)
    assert "at gcp, then aws" in ask_text(
        Ask((entry,), providers=("gcp", "aws"), rank="preference")
    )
    assert "at gcp or aws" in ask_text(Ask((entry,), providers=("gcp", "aws")))


def test_public_plan_prints_as_its_table() -> None:
    """`print(providers.plan(...))` shows the table: the object has the text as its string."""
    made = providers.plan("H100:8")
    assert str(made) == render.as_text(made) and "best per provider" in str(made)
    assert made.candidates and repr(made).startswith("<Plan: ")


def test_summary_is_plain_data_that_layout_prints() -> None:
    """A summary holds the chosen place, the walk and the facts, without the plan."""
    made = plan()
    summary = summarize(made, CurrentCost(0))
    assert summary.chosen is made.best and summary.per_provider[0].candidate is made.best
    assert len(summary.walk) + summary.beyond_walk == len(made.candidates) - 1
    assert dict(summary.facts)["change"].endswith("nothing runs now")
    assert not any(isinstance(each, Plan) for each in summary)
