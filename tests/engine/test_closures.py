"""Places closed to the account: remembered by account, ranked out, shown with the way to open them,
and never what a machine is given up for.
"""

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.market import closed_places
from providers.engine.market.collect import market
from providers.model.place import Scope
from tests.engine.cases import Lab, ask, offer, run, wanted

HOW = "enable it: cloud zones enable north-a"
NOT_ENABLED = [
    errors.NotEnabled(
        f"north-a: not enabled; {HOW}",
        provider="alpha",
        code="OptInRequired",
        scopes=[Scope("alpha", "north", "north-a")],
    ),
    errors.QuotaExceeded(
        f"limit; {HOW}",
        provider="alpha",
        code="QUOTA",
        metric="GPUS",
        limit="0",
        scopes=[Scope("alpha", "north", gpu_type="H100")],
    ),
]


def plan(lab, now=None):
    world = lab.world()
    return market(world, ask()).plan(
        ask(), world.journal.blocks(lab.name), lab.clock.now() if now is None else now
    )


def closed_rows(made):
    return {
        rejection.offer.zone: rejection.found
        for rejection in made.rejections
        if rejection.rule == "enabled"
    }


@pytest.mark.parametrize("refusal", NOT_ENABLED, ids=["zone", "quota-of-zero"])
def test_refusal_of_the_account_is_remembered_for_30_days_and_then_tried_once(lab, refusal) -> None:
    """Ranked out of the next plans with the way to open it, not as a stockout; after 30 days one
    try, and it is remembered anew.
    """
    lab.alpha.group = lambda candidates: 1
    lab.alpha.fail("submit", refusal)
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert record.placement.zone != "north-a" and len(record.attempts) == 2
    made = plan(lab)
    assert "north-a" not in {candidate.zone for candidate in made.candidates}
    assert (
        HOW in closed_rows(made)["north-a"]
        and "`gpus check alpha --world rehearsal`" in closed_rows(made)["north-a"]
    )
    assert "blocked" not in made.rejected_by_rule
    later = lab.clock.now() + closed_places.PROBE_S
    assert "north-a" in {candidate.zone for candidate in plan(lab, later).candidates}
    lab.clock.advance(closed_places.PROBE_S)
    lab.alpha.fail("submit", refusal)
    assert (
        run(operations.create(lab.world(), wanted(name="other"), "g2")).placement.zone != "north-a"
    )
    assert "north-a" in closed_rows(plan(lab))


def test_quota_that_is_not_zero_is_no_closure(lab) -> None:
    """A limit that others have used up may be free in an hour."""
    scopes = [Scope("alpha", "north")]
    lab.alpha.fail(
        "submit",
        errors.QuotaExceeded(
            "limit", provider="alpha", code="QUOTA", scopes=scopes, metric="GPUS", limit="8"
        ),
    )
    run(operations.create(lab.world(), wanted(), "g1"))
    assert closed_rows(plan(lab)) == {}


def test_closure_holds_for_its_own_account_only(lab, monkeypatch) -> None:
    """Another account of the same cloud is asked; the first one's refusal stays."""
    world = lab.world()
    closed_places.close(
        world, (("project", "one"),), Scope("alpha", "north", "north-a"), NOT_ENABLED[0]
    )
    for project, open_there in (("one", False), ("two", True)):
        lab.alpha.account = {"project": project}
        assert ("north-a" in {candidate.zone for candidate in plan(lab).candidates}) is open_there


def test_place_that_begins_closed_is_refused_until_it_is_known_to_be_open(lab) -> None:
    """A Local Zone comes in no plan, though the cheapest, until `gpus check` finds it enabled; and
    again after a check that finds it is not.
    """
    lab.alpha.closed = lambda _region, zone: HOW if zone == "north-a" else ""
    assert HOW in closed_rows(plan(lab))["north-a"]
    assert run(operations.create(lab.world(), wanted(), "g1")).placement.zone == "north-b"
    lab.alpha.enabled = {("north", "north-a")}
    assert closed_places.look_again(lab.world(), "alpha", lab.offers) == [("north", "north-a")]
    assert plan(lab).best.zone == "north-a"
    lab.alpha.enabled = set()
    assert closed_places.look_again(lab.world(), "alpha", lab.offers) == []
    assert "north-a" in closed_rows(plan(lab))


def test_live_plan_asks_the_cloud_which_places_are_enabled(tmp_path, monkeypatch) -> None:
    """In the live world the account itself says what it has enabled; where it does not answer, the
    place stays closed.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab(name="live")
    lab.alpha.closed = lambda _region, zone: HOW if zone == "north-a" else ""
    lab.alpha.fail("usable", errors.Transient("no answer", provider="alpha"))
    assert "north-a" in closed_rows(plan(lab))
    lab.alpha.enabled = {("north", "north-a")}
    assert closed_rows(plan(lab)) == {}


def test_where_nothing_else_is_acceptable_a_purchase_asks_closed_places_too(lab) -> None:
    """A refused call costs nothing, and somebody may have opened it meanwhile; a machine that comes
    from there makes it known to be open.
    """
    lab.offers = table([offer("alpha", "north", "north-a")])
    lab.alpha.closed = lambda _region, zone: HOW
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert record.placement.zone == "north-a" and lab.said(
        "as far as is known; asking them all the same"
    )
    assert closed_rows(plan(lab)) == {}
