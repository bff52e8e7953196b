"""What is refused before anything is planned: unknown names, counts nobody sells, spot where none
exists.
"""

import pytest

from providers.catalog.table import table
from providers.model.ask import Ask, Capacity, Choice, PriceOverride
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.planner import check

ABLE = {"gcp": Capabilities("gcp", max_nodes=8)}


def sold(provider, region, gpu, counts, capacities=("on-demand", "spot"), restriction=""):
    return [
        Offer(
            provider,
            region,
            f"{region}-a",
            f"m-{gpu}-{count}",
            gpu,
            float(count),
            capacity,
            1_000_000,
            restriction=restriction,
        )
        for count in counts
        for capacity in capacities
    ]


TABLE = table(
    [
        *sold("gcp", "us-central1", "A100", (1, 2, 4, 8, 16)),
        *sold("gcp", "us-central1", "P100", (1, 2, 4)),
        *sold("gcp", "us-central1", "L4", (1, 2, 4, 8)),
        *sold(
            "gcp",
            "us-central1",
            "H100",
            (8,),
            restriction="not sold on demand",
            capacities=("on-demand",),
        ),
        *sold("gcp", "us-central1", "H100", (8,), capacities=("spot",)),
        *sold("aws", "us-east-1", "H100", (1, 8), capacities=("on-demand",)),
        *sold("aws", "us-east-1", "A10G", (1, 4, 8)),
        *sold("modal", "", "A10", (1, 2), capacities=("on-demand",)),
    ]
)


def problems(gpu, count=1, able=ABLE, **more):
    ask = {
        name: more.pop(name) for name in ("providers", "regions", "price_overrides") if name in more
    }
    return check.problems(Ask((Choice(gpu, count, **more),), **ask), TABLE, able)


def only(found):
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("typed", "near"),
    [("A100-8", "A100-80GB"), ("A1", "A10"), ("H10", "H100"), ("A100 80G", "A100-80GB")],
)
def test_b01_an_unknown_name_is_refused_with_near_ones(typed, near) -> None:
    """A mistyped name is a problem that lists near names; it is never taken for one of them."""
    problem = only(problems(typed))
    assert (problem.path, problem.found) == ("gpu", repr(typed))
    assert near in problem.todo


def test_b01_spellings_of_a_known_name_are_that_name() -> None:
    """Case, space, `_` and `-` do not matter for a known name."""
    for typed in ("a10g", "A10 G", "a_10_g", "a100_40gb"):
        assert [p for p in problems(typed) if "known GPU" in p.wanted] == []


def test_b03_a_gpu_that_the_provider_lacks_names_the_hardware_near_it() -> None:
    """A10 on AWS: not offered, A10G is, and nothing is swapped; A10G on GCP: not offered."""
    problem = only(problems("A10", providers=("aws",)))
    assert (problem.wanted, problem.found) == ("A10 at aws", "not offered")
    assert "list A10G as a fallback: nothing is swapped by itself" in problem.todo
    assert only(problems("A10G", providers=("gcp",))).found == "not offered"


@pytest.mark.parametrize(
    ("gpu", "count", "provider", "on_offer"),
    [
        ("A100", 3, "gcp", "gcp 1, 2, 4, 8, 16"),
        ("P100", 8, "gcp", "gcp 1, 2, 4"),
        ("H100", 5, "aws", "aws 1, 8"),
        ("A100", 32, "gcp", "gcp 1, 2, 4, 8, 16"),
    ],
)
def test_b09_a_count_nobody_sells_is_refused_with_the_counts_on_offer(
    gpu, count, provider, on_offer
) -> None:
    """Three A100s are not four: the counts on offer are told, and nothing is rounded."""
    problem = only(problems(gpu, count, providers=(provider,)))
    assert on_offer in problem.found
    assert "nothing is rounded" in problem.todo


def test_b09_a_count_on_offer_is_no_problem() -> None:
    """Sixteen A100s exist as one machine."""
    assert problems("A100", 16) == []


def test_spot_where_none_exists_is_refused() -> None:
    """Spot alone, of a machine that no provider sells so, is a problem at the capacity; preferring
    spot is none.
    """
    problem = only(problems("H100", 8, providers=("aws",), capacity=(Capacity("spot"),)))
    assert (problem.path, problem.found) == ("capacity", "sold as on-demand")
    assert (
        problems("H100", 8, providers=("aws",), capacity=(Capacity("spot"), Capacity("on-demand")))
        == []
    )


def test_a_kind_that_the_cloud_does_not_sell_is_as_if_it_did_not_exist() -> None:
    """On demand, where the cloud sells the machine as spot alone, is a problem."""
    assert only(problems("H100", 8, providers=("gcp",))).found == "sold as spot"


def test_nodes_beyond_every_adapter_are_refused() -> None:
    """More nodes than any allowed provider can make as one cluster is a problem at `nodes`."""
    assert only(problems("A100", 8, nodes=9)).path == "nodes"
    assert problems("A100", 8, nodes=8) == []


def test_providers_and_regions_are_known_or_refused() -> None:
    """An unknown provider is told with near ones; a zone with its region; a region of another
    provider with whose it is.
    """
    assert only(problems("A100", providers=("gpc",))).todo == "near: gcp"
    assert (
        only(problems("A100", regions=("us-central1-a",))).todo
        == "that is a zone; its region is us-central1"
    )
    assert only(problems("H100", regions=("us-central1-a",), providers=("aws",))).todo.startswith(
        "that is a zone of gcp"
    )
    assert (
        only(problems("A100", providers=("gcp",), regions=("us-east-1",))).todo
        == "that is a region of aws"
    )
    assert "near: us-central1" in only(problems("A100", regions=("us-centrl1",))).todo


def test_a_gpu_that_a_region_lacks_is_told_where_it_is() -> None:
    """A GPU sold, but not in the regions allowed, is a problem that names where it is sold."""
    problem = only(problems("A100", regions=("us-east-1",)))
    assert (problem.found, problem.todo) == ("not offered there", "sold in us-central1")


def test_all_problems_come_at_once_with_their_paths() -> None:
    """Each entry's problem is told with where it stands, and those of overrides too."""
    entries = (
        Choice("A100", 3),
        Choice("H10", 8, "fallback[0]"),
        Choice("L4", 1, "fallback[1]", nodes=99),
    )
    found = check.problems(
        Ask(entries, price_overrides=(PriceOverride(1, "gpc", gpu="H10"),)), TABLE, ABLE
    )
    assert [problem.path for problem in found] == [
        "gpu",
        "fallback[0]",
        "fallback[1].nodes",
        "prices.overrides[0].provider",
        "prices.overrides[0].gpu",
    ]


def test_more_memory_than_any_gpu_has_is_refused() -> None:
    """An ask by memory that no model meets is a problem."""
    assert (
        only(check.problems(Ask((Choice("", 1, min_memory_gib=5_000),)), TABLE, ABLE)).found
        == "no GPU model that large"
    )


def test_a_market_that_moves_refuses_no_count() -> None:
    """Where an allowed provider lists live offers, what is not on offer now is no fault of the
    declaration; an unknown name is.
    """
    able = {**ABLE, "clore": Capabilities("clore", live_offers=True)}
    assert problems("A100", 3, able) == []
    assert len(problems("A100", 3, able, providers=("gcp",))) == 1
    assert len(problems("H10", 3, able)) == 1


def test_b31_ports_that_no_allowed_provider_opens_are_a_problem() -> None:
    """Where none of the allowed providers can open a port, the property is named and who could; one
    that can is enough.
    """
    able = {
        "gcp": Capabilities("gcp"),
        "modal": Capabilities("modal", opens_ports=False, ssh=False),
    }
    rows = table(
        [
            Offer(name, "r", "", "m", "H100", 8.0, "on-demand", 1, "2026-07-30", "list")
            for name in able
        ]
    )
    wanted = Ask((Choice("H100", 8),), providers=("modal",), ports=(8000,))
    (problem,) = check.problems(wanted, rows, able)
    assert (
        problem.path,
        problem.found,
        problem.todo,
    ) == ("ports", "modal", "leave ports out, or allow gcp")
    assert check.problems(wanted._replace(providers=()), rows, able) == []
    (problem,) = check.problems(wanted._replace(ports=(), ssh=True), rows, able)
    assert (problem.path, problem.wanted) == ("providers", "one whose machines answer ssh: gcp")
