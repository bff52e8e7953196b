"""A provider that answers nowhere: given up after a few regions, in one line; what is unknown stays
unknown.
"""

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.launch.refusals import REGIONS_SILENT, Unresponsive
from providers.model.place import Scope
from providers.testing.fake_adapter import lost
from tests.engine.cases import ask, offer, run, wanted

REGIONS = [f"region-{number}" for number in range(8)]


@pytest.fixture
def wide(lab):
    """Alpha in eight regions, beta in one and dearer."""
    lab.offers = table(
        [
            *(offer("alpha", region, f"{region}-a", usd=10) for region in REGIONS),
            offer("beta", "east", "east-a", usd=14),
        ]
    )
    return lab


@pytest.mark.parametrize(
    "error",
    [lost("alpha"), errors.Transient("503", provider="alpha", code="503")],
    ids=["lost", "transient"],
)
def test_a_provider_that_answers_nowhere_is_given_up_after_a_few_regions(wide, error) -> None:
    """Settled as nothing made in three regions: the other five are not asked, one line says so, and
    the next provider serves.
    """
    wide.alpha.fail("submit", error, times=99)
    record = run(operations.create(wide.world(), wanted(), "g1"))
    assert record.provider == "beta"
    assert [REGIONS[0], REGIONS[1], REGIONS[2], "east"] == [
        attempt.region for attempt in record.attempts
    ]
    (line,) = wide.said("alpha: no answer")
    assert (
        line == "warning: alpha: no answer to 3 attempts (region-0, region-1, region-2): it is left"
        " out for the rest of this run, with 5 places not tried"
    )


def test_the_next_run_asks_it_again(wide) -> None:
    """Given up is for the run alone: nothing of it stands in the journal beyond what each error
    says itself.
    """
    wide.alpha.fail("submit", lost("alpha"), times=3)
    world = wide.world()
    first = run(operations.create(world, wanted(), "g1"))
    assert first.provider == "beta"
    assert run(operations.create(world, wanted(name="other"), "g2")).provider == "alpha"


def test_everything_given_up_says_so_at_the_end(wide) -> None:
    """With that provider alone, the end names it and how many places were not tried."""
    wide.alpha.fail("submit", lost("alpha"), times=99)
    with pytest.raises(errors.AllFailed) as failed:
        run(operations.create(wide.world(), wanted(ask(providers=("alpha",))), "g1"))
    assert len(failed.value.attempts) == REGIONS_SILENT
    said = " ".join(str(failed.value).split())
    assert "alpha: no answer to 3 attempts (region-0, region-1, region-2) 5 allow more" in said


def test_unknown_stays_unknown(wide) -> None:
    """An order of which it is not known what it made ends the walk: it is never counted as unresponsive,
    and no other provider is asked.
    """
    wide.alpha.fail("submit", lost("alpha"), times=99)
    wide.alpha.fail("resume", lost("alpha"), times=99)
    record = run(operations.create(wide.world(), wanted(), "g1"))
    assert (record.status, wide.creates) == ("unsettled", 1)


def test_an_answer_begins_the_count_anew(wide) -> None:
    """Two silent regions, a stockout, two silent regions: the cloud is there, and all its places
    are tried.
    """
    sold_out = errors.NoCapacity(
        "none", provider="alpha", code="FULL", scopes=[Scope("alpha", REGIONS[2])]
    )
    for error, times in ((lost("alpha"), 2), (sold_out, 1), (lost("alpha"), 2)):
        wide.alpha.fail("submit", error, times=times)
    record = run(operations.create(wide.world(), wanted(), "g1"))
    assert ("alpha", REGIONS[5]) == (record.provider, record.placement.region)


def test_one_region_that_is_down_leaves_the_others(lab) -> None:
    """Three machine types of one region get no answer: that is the region's fault, so the next
    region is asked.
    """
    lab.offers = table(
        [
            offer("alpha", "north", "north-a", usd=10 + number, machine=f"type-{number}")
            for number in range(4)
        ]
        + [offer("alpha", "south", "south-a", usd=19)]
    )
    lab.alpha.group = lambda candidates: 1
    lab.alpha.fail("submit", lost("alpha"), times=4)
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert record.placement.region == "south"


def test_where_one_region_is_all_there_is_attempts_count() -> None:
    """A market of one region is given up after as many attempts there; an unknown code is an
    answer.
    """
    unresponsive, unknown = Unresponsive(), errors.Unclassified("what", provider="alpha", code="X")
    error = lost("alpha")
    assert [unresponsive.heard("alpha", error, {"any"}, {"any"}) for _ in range(2)] == ["", ""]
    assert unresponsive.heard("alpha", unknown, {"any"}, {"any"}) == ""
    assert [unresponsive.heard("alpha", error, {"any"}, {"any"}) for _ in range(3)] == [
        "",
        "",
        "no answer to 3 attempts (any)",
    ]
