"""Regions that a spec names at Modal: planned, priced as Modal's own page says, refused when Modal
has none of that name.
"""

import math

import pytest

import providers
from providers.adapters.modal import MANIFEST, regions, request
from providers.catalog.offers import load
from providers.errors import SpecError, Unsupported
from providers.model.spec import read_cluster
from providers.planner import check
from tests.present import present
from tests.unit.modal.test_gpu import candidate, order

L4_MICRO_USD = 819_941
"""One L4 with the least CPU and memory, anywhere: see the catalog."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))


def planned(**fields):
    return providers.plan(read_cluster("x", {"gpu": "L4", "providers": ["modal"], **fields}))


def test_anywhere_is_the_default_at_the_plain_price() -> None:
    """Without regions Modal is planned once, anywhere; no region is offered that was not asked for."""
    made = planned()
    assert [(found.region, found.micro_usd) for found in made.candidates] == [("any", L4_MICRO_USD)]


@pytest.mark.parametrize(
    ("region", "times"), [("us", 1.5), ("eu", 1.5), ("uk", 1.5), ("us-west", 1.75), ("jp", 1.75)]
)
def test_b17_a_region_multiplies_all_of_the_bill(region, times) -> None:
    """The price, its parts and a note say the multiplier of a broad or a narrow region, and what is
    no longer left out.
    """
    (found,) = planned(regions=[region]).candidates
    assert (region, math.ceil(L4_MICRO_USD * times)) == (found.region, found.micro_usd)
    assert (
        found.offer.parts.endswith(f") x {times:g} for a chosen region")
        and "region" not in found.offer.left_out
    )
    note, *_ = present(MANIFEST.pricing.notes)(found, read_cluster("x", {"gpu": "L4"}).setup())
    assert (
        f"x{times:g} for a region such as {region}" in note
        and regions.SOURCE in note
        and regions.SEEN in note
    )


def test_b17_a_region_multiplies_what_the_options_reserve() -> None:
    """CPU and memory that are reserved, and every container of a service, cost the multiple as
    well.
    """
    section = {"cpu": 4, "memory_gib": 16}
    plain = planned(options={"modal": section}).best.micro_usd
    assert (
        math.ceil(plain * 1.75)
        == planned(options={"modal": section}, regions=["us-east"]).best.micro_usd
    )
    service = {
        "kind": "service",
        "workload": {"command": "x", "port": 80},
        "options": {"modal": {"max_containers": 3}},
    }
    assert (
        round(planned(**service).best.micro_usd * 1.5)
        == planned(**service, regions=["eu"]).best.micro_usd
    )


def test_a_cap_counts_the_multiplier() -> None:
    """A region that makes it dearer than the cap is refused by the cap."""
    assert planned(regions=["us"], max_price_per_hour=0.9).rejected_by_rule["price-cap"] == 1


def test_a_region_of_another_cloud_is_refused_with_what_modal_has() -> None:
    """Modal alone: the region is the user's to mend. Beside a cloud that has it: Modal is refused
    by the rule `region`, which says what it has.
    """
    with pytest.raises(SpecError, match="that is a region of gcp"):
        planned(regions=["us-central1"])
    made = planned(regions=["us-central1"], providers=["modal", "gcp"])
    assert {"gcp"} == {found.provider for found in made.candidates}
    refused = next(
        found
        for found in made.rejections
        if found.rule == "region" and found.offer.provider == "modal"
    )
    assert "any; modal has af, ap, ap-melbourne" in refused.found


def test_several_regions_are_tried_in_order_of_their_price() -> None:
    """Each region asked for is a candidate; the broad one is cheaper and comes first. `any` can be
    named too.
    """
    assert [found.region for found in planned(regions=["us-east", "us"]).candidates] == [
        "us",
        "us-east",
    ]
    assert [found.region for found in planned(regions=["us", "any"]).candidates] == ["any", "us"]


def test_offers_shows_a_region() -> None:
    """`gpus offers L4:1 --region eu` lists what Modal has there."""
    assert [
        (found.provider, found.region) for found in providers.offers("L4:1", regions=["eu"])
    ] == [("modal", "eu")]


def test_an_unknown_region_is_never_sent() -> None:
    """A name that Modal's page does not have is refused before any call."""
    assert request.compile_order(order(candidate("L4", region="us-east"))).regions == ("us-east",)
    with pytest.raises(Unsupported, match="has no region moon"):
        request.compile_order(order(candidate("L4", region="moon")))


def test_a_region_that_is_not_known_is_told() -> None:
    """A name that no allowed provider knows is a problem at its path; one that Modal takes on
    request is none, at a preview too.
    """
    ask = read_cluster(
        "x", {"gpu": "H100:2", "providers": ["modal"], "regions": ["us-west-9"]}
    ).ask()
    (problem,) = check.problems(ask, load(), {"modal": MANIFEST.capabilities})
    assert (problem.path, problem.found) == ("regions[0]", "'us-west-9'")
    assert (
        check.problems(ask._replace(regions=("us-west",)), load(), {"modal": MANIFEST.capabilities})
        == []
    )
    assert set(regions.REGIONS) == MANIFEST.capabilities.regions
