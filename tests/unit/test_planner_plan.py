"""The plan: what is kept, what is refused and by which rule, and in which order."""

from providers.catalog.table import table
from providers.model.ask import Ask, Capacity, Choice, PriceOverride
from providers.model.capability import Capabilities
from providers.model.place import Block, Scope
from providers.model.placement import Placement
from providers.model.workload import Task, Workload
from providers.planner import check, rules
from providers.planner.plan import make
from tests.present import present
from tests.unit.planner_rig import ABLE, ALL_KINDS, ids, offer

SPOT_FIRST = (Capacity("spot"), Capacity("on-demand"))


def ask(*entries, **more):
    return Ask(
        tuple(
            entry if isinstance(entry, Choice) else Choice(*entry)
            for entry in entries or [("H100", 8)]
        ),
        **more,
    )


def rule_of(plan, row):
    return next(
        rejection.rule for rejection in plan.rejections if rejection.offer == plan.offers.offer(row)
    )


def test_rules_are_named_once_each() -> None:
    """Every rule has one name and one meaning."""
    assert len(set(rules.NAMES)) == len(rules.RULES)
    assert all(meaning for _, meaning in rules.RULES)


def test_each_rule_refuses_what_it_is_for() -> None:
    """One offer for each rule, refused by exactly that rule."""
    capped = {
        "gpu": offer(gpu="L4", machine="g2-standard-4"),
        "gpu-count": offer(count=4, machine="a3-highgpu-4g"),
        "gpu-memory": offer(gpu_memory_gib=40.0),
        "capacity": offer(capacity="flex-start"),
        "sold": offer(restriction="by reservation only"),
        "region": offer(zone="europe-west4-b"),
        "provider": offer(provider="lambda"),
        "adapter": offer(provider="aws"),
        "kind": offer(provider="modal"),
        "reach": offer(provider="shut"),
        "orderable": offer(machine="x9-highgpu-8g"),
        "price-known": offer(zone="us-central1-b", usd=None),
        "price-cap": offer(usd=1_000.0),
        "blocked": offer(zone="us-central1-c"),
    }
    blocks = [Block(Scope("gcp", zone="us-central1-c", gpu_type="H100"), 100.0, "sold out")]
    wanted = ask(
        regions=("us-central1",),
        providers=("gcp", "aws", "modal", "shut"),
        max_price_micro_usd=100_000_000,
        ports=(8000,),
    )
    plan = make(wanted, table([*capped.values(), offer()]), ABLE, blocks=blocks, now=99.0)
    assert [rule_of(plan, row) for row in range(len(capped))] == list(capped)
    assert ids(plan) == [offer().id]
    assert list(plan.rejected_by_rule) == [
        name for name in rules.NAMES if name in capped and name != "gpu"
    ], "what nobody asked for is no count"


def test_b31_a_port_that_the_provider_cannot_open_is_refused_in_the_plan() -> None:
    """An ask for ports is never served where none can be opened, with the reason; without ports the
    same place will do.
    """
    table_of_one = table([offer(provider="shut")])
    (refused,) = make(ask(ports=(8000, 9000)), table_of_one, ABLE).rejections
    assert (
        refused.rule,
        refused.wanted,
        refused.found,
    ) == ("reach", "port 8000, 9000 open", "shut opens no ports of a machine")
    (refused,) = make(ask(ssh=True), table_of_one, ABLE).rejections
    assert (refused.rule, refused.wanted) == ("reach", "machines that answer ssh")
    assert len(make(ask(), table_of_one, ABLE).candidates) == 1


def test_nodes_that_log_into_each_other_are_placed_where_they_can() -> None:
    """On one machine there is nobody to log into."""
    for launcher, nodes, kept in (("mpi", 2, 0), ("torchrun", 2, 1), ("mpi", 1, 1)):
        work = Workload((Task(launcher=launcher, command="a.out"),))
        wanted = ask(("H100", 8, "gpu", False, None, nodes), kind="job", workload=work)
        able = {"shut": ABLE["shut"]._replace(max_nodes=2, kinds=frozenset({"job"}))}
        plan = make(wanted, table([offer(provider="shut")]), able)
        assert len(plan.candidates) == kept
        assert kept or plan.rejections[0].found == "shut's do not"


def test_nodes_and_credentials_have_rules_of_their_own() -> None:
    """A cluster larger than the adapter can make is refused by `nodes`; a provider without
    credentials by `configured`, with the reason.
    """
    plan = make(ask(("H100", 8, "gpu", False, None, 9)), table([offer()]), ABLE)
    assert plan.rejected_by_rule == {"nodes": 1}
    plan = make(
        ask(), table([offer()]), ABLE, unavailable={"gcp": "GOOGLE_CLOUD_PROJECT is not set"}
    )
    assert [(r.rule, r.found) for r in plan.rejections] == [
        ("configured", "GOOGLE_CLOUD_PROJECT is not set")
    ]


def test_an_offer_that_all_entries_refuse_names_the_rule_where_it_got_furthest() -> None:
    """The H100 refused for its count by one entry and for its price by another is refused by the
    price cap.
    """
    wanted = ask(("H100", 4), ("H100", 8, "fallback[0]"), max_price_micro_usd=1_000_000)
    assert make(wanted, table([offer()]), ABLE).rejected_by_rule == {"price-cap": 1}


def test_an_offer_that_several_entries_accept_is_kept_for_the_first() -> None:
    """An offer is one candidate, under its best entry and its best capacity."""
    wanted = ask(("H100-SXM", 8), ("H100", 8, "fallback[0]"))
    plan = make(wanted, table([offer()]), ABLE)
    assert [candidate.entry for candidate in plan.candidates] == [0]


def test_a_fallback_to_fewer_nodes_is_a_purchase_of_its_own() -> None:
    """The same machines as two nodes and, failing that, as one: both are in the walk, and the offer
    is not refused.
    """
    wanted = ask(("H100", 8, "gpu", False, None, 2), ("H100", 8, "fallback[0]", False, None, 1))
    plan = make(wanted, table([offer()]), ABLE)
    assert [(candidate.nodes, candidate.micro_usd) for candidate in plan.candidates] == [
        (2, 176_980_000),
        (1, 88_490_000),
    ]
    assert plan.rejections == ()


def test_b15_an_unknown_price_is_never_cheapest_and_never_bought() -> None:
    """Of prices 0, none, NaN and 31.5 only the last is a candidate; the others are refused for want
    of a price.
    """
    offers = [
        offer(zone=f"us-central1-{z}", gpu="H200", usd=usd)
        for z, usd in zip("abcd", (0.0, None, float("nan"), 31.5), strict=True)
    ]
    plan = make(ask(("H200", 8)), table(offers), ABLE)
    assert [candidate.price_usd_per_hour for candidate in plan.candidates] == [31.5]
    assert plan.rejected_by_rule == {"price-known": 3}
    assert {rejection.found for rejection in plan.rejections} == {"no price"}


def test_b15_an_override_gives_a_price_that_the_catalog_lacks() -> None:
    """A negotiated rate makes an unpriced offer a candidate, and says that it is the user's own."""
    override = PriceOverride(50_000_000, "gcp", gpu="h100", capacity="on-demand")
    plan = make(
        ask(price_overrides=(override,)),
        table([offer(usd=None), offer(zone="us-central1-b")]),
        ABLE,
    )
    assert [candidate.micro_usd for candidate in plan.candidates] == [50_000_000, 50_000_000]
    assert {candidate.price.source for candidate in plan.candidates} == {"prices.overrides"}


def test_the_first_override_that_matches_wins() -> None:
    """Overrides are read in order; a region or machine type that differs does not match."""
    overrides = (
        PriceOverride(1_000_000, "gcp", region="us-east1"),
        PriceOverride(2_000_000, "gcp", machine_type="a3-highgpu-8g"),
        PriceOverride(3_000_000, "gcp"),
    )
    plan = make(ask(price_overrides=overrides), table([offer()]), ABLE)
    assert [candidate.micro_usd for candidate in plan.candidates] == [2_000_000]


def test_b02_a_name_is_never_taken_for_another() -> None:
    """A100-80GB is only the 80 GB card whatever the order and price; bare A100 is only the 40 GB
    one.
    """
    small, large = (
        offer(gpu="A100", machine="a2-highgpu-8g", usd=1.0),
        offer(gpu="A100-80GB", machine="a2-ultragpu-8g", usd=2.0),
    )
    for offers in ([small, large], [large, small]):
        assert ids(make(ask(("A100-80GB", 8)), table(offers), ABLE)) == [large.id]
        assert ids(make(ask(("a100", 8)), table(offers), ABLE)) == [small.id]


def test_b04_h100_accepts_both_form_factors_and_sxm_only_one() -> None:
    """H100 is served by the SXM and the PCIe card, never by NVL; H100-SXM and H100! by SXM alone."""
    offers = [
        offer(gpu=gpu, zone=f"us-central1-{z}")
        for z, gpu in zip("abc", ("H100", "H100-PCIe", "H100-NVL"), strict=True)
    ]
    assert {c.gpu_type for c in make(ask(), table(offers), ABLE).candidates} == {
        "H100",
        "H100-PCIe",
    }
    assert {c.gpu_type for c in make(ask(("H100-SXM", 8)), table(offers), ABLE).candidates} == {
        "H100"
    }
    assert {
        c.gpu_type for c in make(ask(("H100", 8, "gpu", True)), table(offers), ABLE).candidates
    } == {"H100"}


def test_b08_memory_is_the_models_own_and_the_report_only_checks_it() -> None:
    """By memory: 81559 MiB and 79 GiB pass for 80, 40536 MiB does not; an A10G that reports 22.1
    GiB passes for 24.
    """
    cards = [
        offer(gpu="A100-80GB", zone=f"us-central1-{z}", gpu_memory_gib=gib)
        for z, gib in zip("abc", (81559 / 1024, 79.0, 40536 / 1024), strict=True)
    ]
    plan = make(ask(Choice("", 8, min_memory_gib=80)), table(cards), ABLE)
    assert {candidate.zone[-1] for candidate in plan.candidates} == {"a", "b"}
    assert plan.rejected_by_rule == {"gpu-memory": 1}
    a10g = offer(gpu="A10G", count=1, machine="g2-x", gpu_memory_gib=23696375808 / 1024**3)
    assert len(make(ask(Choice("", 1, min_memory_gib=24)), table([a10g]), ABLE).candidates) == 1


def test_the_order_is_entry_then_capacity_then_price_and_by_preference_the_provider_before_the_price() -> (
    None
):
    """The default takes the cheapest of each choice, wherever it is listed; `rank: preference`
    takes providers as listed; equal prices go by name.
    """
    able = {**ABLE, "aws": Capabilities("aws", capacities=ALL_KINDS)}
    offers = [
        offer(zone="us-central1-b", usd=88.0),
        offer(zone="us-central1-a", usd=88.0),
        offer(zone="us-central1-c", capacity="spot", usd=40.0),
        offer(provider="aws", zone="us-east-1a", machine="p5.48xlarge", capacity="spot", usd=60.0),
        offer(gpu="A100-80GB", machine="a2-ultragpu-8g", capacity="spot", usd=15.0),
    ]
    wanted = ask(
        ("H100", 8, "gpu", False, None, 1, SPOT_FIRST),
        ("A100-80GB", 8, "fallback[0]", False, None, 1, SPOT_FIRST),
        providers=("aws", "gcp"),
    )
    assert ids(make(wanted, table(offers), able)) == [offers[index].id for index in (2, 3, 1, 0, 4)]
    preferred = make(wanted._replace(rank="preference"), table(offers), able)
    assert ids(preferred) == [offers[index].id for index in (3, 2, 1, 0, 4)]


def test_rank_price_is_the_price_over_all_entries() -> None:
    """`rank: price` takes the cheapest of all entries first."""
    offers = [offer(), offer(gpu="A100-80GB", machine="a2-ultragpu-8g", usd=40.0)]
    wanted = ask(("H100", 8), ("A100-80GB", 8, "fallback[0]"), rank="price")
    assert [candidate.gpu_type for candidate in make(wanted, table(offers), ABLE).candidates] == [
        "A100-80GB",
        "H100",
    ]


def test_rank_price_by_choice_is_the_default_and_the_price_within_each_entry() -> None:
    """`rank: price_by_choice`, the default by its name, takes the cheapest of the first entry
    first, wherever it is listed, and a cheaper second entry only after it.
    """
    offers = table(
        [
            offer(),
            offer(zone="us-central1-b", usd=60.0),
            offer(machine="a2-ultragpu-8g", gpu="A100-80GB", usd=40.0),
        ]
    )
    wanted = ask(("H100", 8), ("A100-80GB", 8, "fallback[0]"))
    assert wanted.rank == "price_by_choice"
    assert [found.price_usd_per_hour for found in make(wanted, offers, ABLE).candidates] == [
        60.0,
        88.49,
        40.0,
    ]
    abroad = offer(provider="aws", machine="p5.48xlarge", usd=50.0)
    both = make(
        wanted._replace(providers=("gcp", "aws")),
        table([offer(), abroad]),
        {**ABLE, "aws": Capabilities("aws")},
    )
    assert [found.provider for found in both.candidates] == ["aws", "gcp"]


def test_rank_performance_per_dollar_weighs_speed_against_price() -> None:
    """`rank: performance_per_dollar` takes an H100 at the price of an A100 first, and the A100 once
    the H100 costs ten times as much.
    """
    slow = offer(gpu="A100-80GB", machine="a2-ultragpu-8g", usd=40.0)
    wanted = ask(("A100-80GB", 8), ("H100", 8, "fallback[0]"), rank="performance_per_dollar")
    assert present(make(wanted, table([slow, offer(usd=40.0)]), ABLE).best).gpu_type == "H100"
    assert present(make(wanted, table([slow, offer(usd=400.0)]), ABLE).best).gpu_type == "A100-80GB"


def test_a_price_is_nodes_times_the_price_of_one() -> None:
    """Two nodes cost exactly twice one, in whole micro-dollars, and the cap is on the sum."""
    wanted = ask(("H100", 8, "gpu", False, None, 2))
    assert (
        present(make(wanted, table([offer(usd=88.490001)]), ABLE).best).micro_usd == 2 * 88_490_001
    )
    assert (
        make(
            wanted._replace(max_price_micro_usd=176_980_001), table([offer(usd=88.490001)]), ABLE
        ).best
        is None
    )


def test_a_reservation_is_used_by_its_name_only() -> None:
    """A reservation offer is a candidate that carries the name asked for, and refused by `capacity`
    when none is named.
    """
    offers = [offer(capacity="reservation"), offer()]
    assert make(ask(), table(offers), ABLE).rejected_by_rule == {"capacity": 1}
    wanted = ask(
        (
            "H100",
            8,
            "gpu",
            False,
            None,
            1,
            (Capacity("reservation", "team-a"), Capacity("on-demand")),
        )
    )
    assert [(c.capacity, c.reservation) for c in make(wanted, table(offers), ABLE).candidates] == [
        ("reservation", "team-a"),
        ("on-demand", ""),
    ]


def test_two_reservations_are_tried_one_after_the_other() -> None:
    """Two reservations by name are two purchases of the same offer, in the order named."""
    wanted = ask(
        (
            "H100",
            8,
            "gpu",
            False,
            None,
            1,
            (Capacity("reservation", "b"), Capacity("reservation", "a")),
        )
    )
    assert [
        c.reservation for c in make(wanted, table([offer(capacity="reservation")]), ABLE).candidates
    ] == ["b", "a"]


def test_a_block_ends_at_its_moment() -> None:
    """A block holds until its moment and no longer, for its scope alone, and its reason is told."""
    blocks = [
        Block(
            Scope("gcp", region="us-central1", capacity="spot"),
            100.0,
            "ZONE_RESOURCE_POOL_EXHAUSTED",
        )
    ]
    offers = table([offer(capacity="spot"), offer(), offer(capacity="spot", zone="us-east1-b")])
    wanted = ask(("H100", 8, "gpu", False, None, 1, SPOT_FIRST))
    plan = make(wanted, offers, ABLE, blocks=blocks, now=99.9)
    assert (plan.rejected_by_rule, plan.rejections[0].found) == (
        {"blocked": 1},
        "ZONE_RESOURCE_POOL_EXHAUSTED (left alone for another 1s)",
    )
    assert make(wanted, offers, ABLE, blocks=blocks, now=100.0).rejections == ()


def test_worst_is_the_dearest_candidate() -> None:
    """The worst case is the dearest place of any accepted entry; None when nothing is acceptable."""
    plan = make(ask(), table([offer(), offer(zone="us-east1-b", usd=99.0)]), ABLE)
    assert plan.worst_micro_usd == 99_000_000
    assert make(ask(), table([]), ABLE).worst_micro_usd is None


def test_an_empty_table_is_a_plan_without_candidates() -> None:
    """No offers at all is an empty plan, not a failure."""
    plan = make(ask(), table([], ["gcp: unreachable"]), ABLE)
    assert (plan.best, plan.rejections, plan.warnings) == (None, (), ("gcp: unreachable",))


PLACE = Placement("gcp", "us-central1", "", "", "H100-PCIe", 8, 1, "spot")


def test_satisfied_names_the_entry_that_still_holds() -> None:
    """A running placement satisfies the first entry that accepts its type, count, nodes and
    capacity; else none.
    """
    entry = Choice("H100", 8, capacity=SPOT_FIRST)
    assert check.satisfied(ask(entry), PLACE) == 0
    assert check.satisfied(ask(("H200", 8), entry), PLACE) == 1
    for other in (
        entry._replace(exact=True),
        entry._replace(gpu_count=4),
        entry._replace(nodes=2),
        entry._replace(capacity=(Capacity("on-demand"),)),
    ):
        assert check.satisfied(ask(other), PLACE) is None
    assert check.satisfied(ask(entry, providers=("aws",)), PLACE) is None
    assert check.satisfied(ask(entry, regions=("us-east1",)), PLACE) is None
