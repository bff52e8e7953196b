"""Regions of Modal: their names, their prices, and what is asked of Modal for them."""

import pytest

from providers.adapters.modal import CAPABILITIES, regions
from providers.catalog.offers import load
from providers.engine import planning
from providers.model.spec import read_cluster
from providers.planner import check


def plan(**spec):
    return planning.plan(read_cluster("x", {"gpu": "H100:2", "providers": ["modal"], **spec}).ask())


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))


def test_a_region_is_priced_by_its_kind():
    """A broad region is half as dear again, a narrow one three quarters, on the whole bill."""
    free = plan().best
    assert free.region == "any"
    for name, factor in (("us", 1.5), ("us-west", 1.75)):
        found = plan(regions=[name])
        assert [(candidate.region, candidate.provider) for candidate in found.candidates] == [(name, "modal")]
        assert found.best.micro_usd == pytest.approx(free.micro_usd * factor, abs=1)
        assert f"x {factor:g} for a chosen region" in found.best.offer.parts


def test_without_a_region_modal_places_it_where_it_likes():
    """No spec that names none pays for one."""
    assert {candidate.region for candidate in plan().candidates} == {"any"}


def test_a_region_that_is_not_known_is_told():
    """A name that no allowed provider knows is a problem at its path, with near ones."""
    ask = read_cluster("x", {"gpu": "H100:2", "providers": ["modal"], "regions": ["us-west-9"]}).ask()
    (problem,) = check.places(ask, load(), {"modal": CAPABILITIES})
    assert (problem.path, problem.found) == ("regions[0]", "'us-west-9'")
    assert set(regions.REGIONS) == CAPABILITIES.regions
