"""The walk: order, error classes, what each blocks, waits, and never two machines."""

from typing import Never

import pytest

from providers import errors
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.record import ClusterRecord
from providers.model.place import Scope
from providers.testing.fake_adapter import lost
from tests.engine.cases import ask, offer, run, wanted
from tests.present import present


def no_capacity(zone, provider="alpha", **more):
    return errors.NoCapacity(
        "none",
        provider=provider,
        code="FULL",
        scopes=[Scope(provider, "north", zone, capacity="spot")],
        **more,
    )


def create(lab, want=None, generation="g1", **more):
    world = lab.world(**more)
    return run(operations.create(world, want or wanted(), generation))


def test_first_candidate_is_had_and_recorded(lab) -> None:
    """The first candidate that has room is taken with one creating call, and its price and
    attempt are recorded.
    """
    record = create(lab)
    assert (record.status, record.provider, record.placement.zone, record.price.micro_usd) == (
        "running",
        "alpha",
        "north-a",
        10_000_000,
    )
    assert [attempt.outcome for attempt in record.attempts] == ["acquired"]
    assert lab.creates == len(lab.alive) == 1
    assert ClusterRecord.from_dict(record.to_dict()) == record


def test_b18_sold_out_goes_on_zone_region_then_fallback_type(lab) -> None:
    """A stockout moves on in the plan's order until something has room, and every attempt is on
    the screen.
    """
    for zone in ("north-a", "north-b", "south-a"):
        lab.alpha.stock[zone, "spot"] = 0
    lab.beta.stock["east-a", "spot"] = 0
    lab.alpha.stock["north-a", "spot"] = 0
    with pytest.raises(errors.AllFailed) as failed:
        create(lab, wanted(ask("H100")))
    assert [attempt.provider for attempt in failed.value.attempts] == ["alpha", "alpha", "beta"]
    assert len(lab.said("sold out (FULL)")) == 3
    assert str(failed.value).count("#") == 3
    assert lab.alive == []


def test_what_each_try_came_to_is_remembered_for_later_plans(lab) -> None:
    """By place, with its time: a later plan of the same market reckons with it. What says nothing
    of a place, such as a lost answer, is no try.
    """
    from providers.engine.market import collect

    for zone in ("north-a", "north-b", "south-a"):
        lab.alpha.stock[zone, "spot"] = 0
    create(lab, wanted(ask("H100")))
    world = lab.world()
    tries = world.journal.tries(world.name)
    assert {(each.provider, each.outcome) for each in tries} == {
        ("alpha", "refused"),
        ("beta", "acquired"),
    }
    assert {each.zone for each in tries} >= {"north-a", "north-b", "east-a"}
    tried = present(collect.market(world).tried)
    sold_out, had = (offer_ for offer_ in tries if offer_.zone in {"north-a", "east-a"})
    assert tried.chance(sold_out).chance < 0.5 < tried.chance(had).chance
    world.journal.forget_tries(world.name)
    assert collect.market(world).tried is None


def test_group_goes_out_as_one_call(lab) -> None:
    """Consecutive equals that one cloud can choose among are one creating call."""
    lab.alpha.stock["north-a", "spot"] = 0
    record = create(lab)
    assert record.placement.zone == "north-b"
    assert lab.alpha.calls["submit"] == 1
    assert [candidate.zone for candidate in lab.alpha.orders[0].candidates] == [
        "north-a",
        "north-b",
    ]


def test_b25_an_offer_that_is_gone_because_this_order_has_it_is_had_once(lab) -> None:
    """A market says "taken", and what took it is the first delivery of this very order: it is
    found, and no other is bought.
    """
    lab.alpha.fail("submit", errors.OfferGone("taken", provider="alpha", code="TAKEN"), after=True)
    record = create(lab)
    assert (record.status, record.placement.zone) == ("running", "north-a")
    assert lab.creates == len(lab.alive) == 1


def test_b19_b21_region_quota_skips_that_region_with_one_call(lab) -> None:
    """A regional quota blocks the whole region for the run: one call, then the next region."""
    scopes = [Scope("alpha", "north")]
    lab.alpha.fail(
        "submit",
        errors.QuotaExceeded(
            "limit", provider="alpha", code="QUOTA", scopes=scopes, metric="GPUS", limit="0"
        ),
    )
    record = create(lab, wanted(ask("H100", "A100-80GB")))
    assert record.placement.region == "south"
    assert lab.alpha.calls["submit"] == 2
    assert lab.said("over the account's quota GPUS 0")


def test_b19_global_quota_stops_the_provider_at_once(lab) -> None:
    """A quota of the whole account skips every other place of that provider."""
    lab.alpha.fail(
        "submit",
        errors.QuotaExceeded("limit", provider="alpha", code="QUOTA", scopes=[Scope("alpha")]),
    )
    record = create(lab)
    assert record.provider == "beta"
    assert (lab.alpha.calls["submit"], lab.beta.calls["submit"]) == (1, 1)


def test_b21_unsupported_blocks_its_zone_only(lab) -> None:
    """A zone that never has the type is skipped alone; the next zone of the region is tried."""
    lab.alpha.group = lambda candidates: 1
    lab.alpha.fail(
        "submit",
        errors.Unsupported(
            "not here", provider="alpha", code="NOPE", scopes=[Scope("alpha", "north", "north-a")]
        ),
    )
    record = create(lab)
    assert record.placement.zone == "north-b"
    assert lab.alpha.calls["submit"] == 2


def test_b22_async_failure_with_hint_tries_the_named_zone_next(lab) -> None:
    """An order that fails after it was taken leaves nothing, and the zone that the cloud named goes
    first among equals.
    """
    lab.offers = table(
        [offer("alpha", "north", f"north-{letter}", usd=10) for letter in "abcd"]
        + [offer("alpha", "south", "south-a", usd=9.5)]
    )
    lab.alpha.group = lambda candidates: 1
    lab.alpha.stock["south-a", "spot"] = 0
    world = lab.world()
    lab.alpha.fail("submit", no_capacity("south-a"), times=1)
    lab.alpha.refuse_late = no_capacity("north-a", hints=["north-d"])
    record = run(operations.create(world, wanted(), "g1"))
    assert [attempt.zones for attempt in record.attempts] == [
        ("south-a",),
        ("north-a",),
        ("north-d",),
    ]
    assert len(lab.alive) == 1
    assert world.journal.orders("rehearsal", "own", states=("failed",))[1].handles == ()


def test_block_is_kept_grows_and_is_cleared_by_success(lab) -> None:
    """A refusal is remembered for the next plan, longer each time it comes back, and a success
    there clears it.
    """
    world = lab.world()
    scope, now = Scope("alpha", "north", "north-a", capacity="spot"), lab.clock.now()
    assert world.journal.block("rehearsal", scope, 600, "sold out", now).until == now + 600
    for hours, minutes in ((2, 10), (4, 14.4), (8, 28.8), (13, 30), (18, 30)):
        at = now + hours * 3_600
        block = world.journal.block("rehearsal", scope, 600, "sold out", at)
        assert block.until - at == pytest.approx(60 * minutes)
    assert run(operations.create(world, wanted(), "g1")).placement.zone == "north-b"
    world.journal.clear("rehearsal", lab.offers.offer(0))
    assert world.journal.blocks("rehearsal") == ()


def test_search_asks_a_sold_out_place_every_five_minutes(lab) -> None:
    """However long it has been sold out."""
    world, scope = lab.world(), Scope("alpha", "south", "south-a", capacity="spot")
    for hours in (0, 8):
        at = lab.clock.now() + hours * 3_600
        block = world.journal.block("rehearsal", scope, 600, "sold out", at, searching=True)
        assert block.until - at == 300


def test_everything_blocked_is_asked_again(lab) -> None:
    """When every acceptable place was refused lately, they are asked again rather than given up
    unasked.
    """
    world = lab.world()
    for provider in ("alpha", "beta"):
        world.journal.block("rehearsal", Scope(provider), 600, "sold out", lab.clock.now())
    assert run(operations.create(world, wanted(), "g1")).status == "running"


@pytest.mark.parametrize("kind", [errors.BadCredentials, errors.InsufficientFunds])
def test_account_refusals_block_the_provider_unless_pinned(lab, kind) -> None:
    """Refused keys and an empty wallet skip the provider; with only that provider allowed they are
    the answer.
    """
    lab.alpha.fail("submit", kind("no", provider="alpha", code="NO"), times=2)
    assert create(lab).provider == "beta"
    assert lab.alpha.calls["submit"] == 1
    with pytest.raises(kind):
        create(lab, wanted(ask(providers=("alpha",)), name="other"), "g2")


def test_not_configured_skips_or_is_raised_when_pinned(lab) -> None:
    """A provider without keys is skipped; when it is the only one allowed, its error is raised
    before anything else.
    """
    lab.alpha.connect_error = errors.NotConfigured("no keys", provider="alpha")
    assert create(lab).provider == "beta"
    with pytest.raises(errors.NotConfigured, match="no keys"):
        create(lab, wanted(ask(providers=("alpha",)), name="other"), "g2")
    assert lab.creates == 1


@pytest.mark.parametrize("kind", [errors.RateLimited, errors.Transient])
def test_passing_faults_are_sent_again_with_the_same_token(lab, kind) -> None:
    """A rate limit or passing fault is waited out, and the order goes out again only under its own
    token.
    """
    lab.alpha.fail("submit", kind("busy", provider="alpha", code="503"), times=2)
    record = create(lab)
    assert record.provider == "alpha"
    assert len({order.token for order in lab.alpha.orders}) == 1
    assert lab.alpha.calls["submit"] == 3
    assert lab.alpha.calls["resume"] == 2
    assert lab.clock.slept >= 3


def test_passing_faults_are_bounded_then_the_walk_goes_on(lab) -> None:
    """A fault that does not pass ends that attempt after bounded tries, without a machine."""
    lab.alpha.fail("submit", errors.RateLimited("busy", provider="alpha", code="429"), times=99)
    record = create(lab)
    assert record.provider == "beta"
    assert lab.alpha.calls["submit"] == 7


def test_b26_lost_answer_is_found_and_adopted(lab) -> None:
    """A create whose answer was lost is found by its token: one machine, no second call."""
    lab.alpha.fail("submit", lost("alpha"), after=True)
    record = create(lab)
    assert record.status == "running"
    assert lab.creates == len(lab.alive) == 1


def test_b26_a_request_that_was_overtaken_is_no_second_purchase(lab) -> None:
    """Where the cloud does one token's work once, a lost order is sent again as it was: a first
    request that arrives late then makes nothing more.
    """
    lab.alpha.capabilities = lab.alpha.capabilities._replace(deduplicates=True)
    lab.alpha.fail("submit", lost("alpha"))
    tokens, submit = set(), lab.alpha.submit

    def counted(order):
        tokens.add(order.token)
        return submit(order)

    lab.alpha.submit = counted
    record = create(lab)
    assert (record.provider, record.placement.zone, lab.alpha.calls["submit"], len(tokens)) == (
        "alpha",
        "north-a",
        2,
        1,
    )
    assert [attempt.outcome for attempt in record.attempts] == ["acquired"]
    lab.alpha.submit(lab.alpha.orders[-1])
    assert len(lab.alive) == 1


def test_an_order_is_sent_again_once_and_an_unknown_code_never(lab) -> None:
    """Lost a second time, the walk goes on to the next place; a code that nobody knows is not asked
    again.
    """
    lab.alpha.capabilities = lab.alpha.capabilities._replace(deduplicates=True)
    lab.alpha.fail("submit", lost("alpha"), times=2)
    record = create(lab)
    assert [attempt.outcome for attempt in record.attempts] == ["OutcomeUnknown", "acquired"]
    lab.alpha.calls["submit"] = 0
    lab.alpha.fail("submit", errors.Unclassified("odd", provider="alpha", code="ODD"))
    other = create(lab, wanted(name="other"))
    assert [attempt.code for attempt in other.attempts] == ["ODD", ""]


def test_lost_answer_of_a_call_that_made_nothing_goes_on(lab) -> None:
    """When the cloud is certain that nothing was made, the walk goes on."""
    lab.alpha.fail("submit", lost("alpha"))
    record = create(lab)
    assert [attempt.outcome for attempt in record.attempts] == ["OutcomeUnknown", "acquired"]
    assert len(lab.alive) == 1


def test_unknown_outcome_stops_everything(lab) -> None:
    """While it is not known whether a machine was made, nothing else is bought: unsettled, with the
    reason, kept in the journal.
    """
    lab.alpha.fail("submit", lost("alpha"), after=True)
    lab.alpha.fail("resume", lost("alpha"), times=99)
    world = lab.world()
    record = run(operations.create(world, wanted(), "g1"))
    assert record.status == "unsettled"
    assert "nothing else is bought" in record.reasons[0]
    assert lab.creates == 1
    assert [entry.state for entry in world.journal.orders("rehearsal", "own")] == ["unsettled"]
    lab.alpha.heal()
    run(operations.delete(world, record))
    assert lab.alive == []
    assert world.journal.orders("rehearsal", "own") == ()


def test_unclassified_is_loud_and_settled_first(lab) -> None:
    """A code that no table knows is shown as it is, settled by the token, and only then the walk
    goes on.
    """
    lab.alpha.fail("submit", errors.Unclassified("what is this", provider="alpha", code="X99"))
    record = create(lab)
    assert lab.alpha.calls["resume"] == 1
    assert lab.said("warning: #1") and lab.said("X99")
    assert record.attempts[0].outcome == "Unclassified"


def test_any_other_exception_of_an_adapter_is_unclassified(lab) -> None:
    """A bug in an adapter is handled as an unknown outcome, never as a traceback or a second
    purchase.
    """
    lab.alpha.fail("submit", ValueError("oops"), after=True)
    record = create(lab)
    assert record.status == "running"
    assert lab.creates == len(lab.alive) == 1


def test_b45_not_as_ordered_is_released_before_the_next(lab) -> None:
    """A cluster that came short is deleted, confirmed, before the next place is asked: all nodes in
    one place or none.
    """
    lab.alpha.twist = lambda nodes: nodes[:1]
    record = create(lab, wanted(ask(nodes=2)))
    assert [attempt.outcome for attempt in record.attempts] == ["HalfMade", "acquired"]
    assert len(record.handles) == len(lab.alive) == 2
    assert {node.zone for node in lab.alive} == {record.placement.zone}


def test_delivered_type_is_compared_with_the_order(lab) -> None:
    """A machine with another GPU than ordered is not accepted."""
    lab.alpha.twist = lambda nodes: [node._replace(gpu_type="A100") for node in nodes]
    record = create(lab)
    assert record.placement.gpu_type == "H100"
    assert [node.gpu_type for node in lab.alive] == ["H100"]


def test_b23_failed_clean_up_stops_the_walk(lab) -> None:
    """When what is half made cannot be deleted, nothing else is bought; it stays in state with what
    it costs, and delete tries again.
    """
    lab.alpha.twist = lambda nodes: nodes[:1]
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha", code="503"), times=99)
    world = lab.world()
    record = run(operations.create(world, wanted(ask(nodes=2)), "g1"))
    assert record.status == "unsettled"
    assert lab.creates == 1
    assert record.leftovers == tuple(node.handle for node in lab.alive)
    assert record.leftovers[0].native_id in record.reasons[0] and "$20.00/h" in record.reasons[0]
    with pytest.raises(errors.HalfMade, match="may still cost"):
        run(operations.delete(world, record))
    lab.alpha.heal()
    run(operations.delete(world, record))
    assert lab.alive == []


def test_b23_three_refused_deletes_are_overcome(lab) -> None:
    """A delete that is refused three times is tried again, and counts only once the cloud says
    gone.
    """
    lab.alpha.twist = lambda nodes: nodes[:1]
    lab.alpha.fail("delete", errors.Transient("503", provider="alpha", code="503"), times=3)
    record = create(lab, wanted(ask(nodes=2)))
    assert record.status == "running"
    assert lab.alpha.calls["delete"] >= 4


def test_wait_runs_out_then_cancelled_and_next(lab) -> None:
    """One time-out governs the wait: the call is ended, confirmed, and the next candidate gets its
    turn.
    """
    lab.alpha.create_s = 100_000
    record = create(lab, wanted(ask(wait_s=60)))
    assert record.provider == "beta"
    assert [attempt.code for attempt in record.attempts][:2] == ["waited", "waited"]
    assert len(lab.alive) == 1


def test_queue_is_waited_for_then_left_for_the_next(lab) -> None:
    """A queue that takes longer than the wait is left when there is another candidate."""
    lab.offers = table(
        [
            offer("alpha", "north", "north-a", capacity="flex-start", usd=5),
            offer("beta", "east", "east-a", usd=14),
        ]
    )
    lab.alpha.queue_s = 100_000
    record = create(lab, wanted(ask(spot=("flex-start", "spot"), wait_s=60)))
    assert record.provider == "beta"
    assert len(lab.alive) == 1


def test_last_hope_in_a_queue_is_kept_and_waited_on(lab) -> None:
    """When only a queue is left, the place in it is kept: status queued with a reason, and the next
    update waits on.
    """
    lab.offers = table([offer("alpha", "north", "north-a", capacity="flex-start", usd=5)])
    lab.alpha.queue_s = 1_000
    world, want = lab.world(), wanted(ask(spot=("flex-start",), wait_s=600))
    record = run(operations.create(world, want, "g1"))
    assert record.status == "queued" and record.reasons[0].startswith("queued")
    assert run(operations.read(world, record)).status == "queued"
    after = run(operations.update(world, record, want))
    assert after.status == "running" and after.reasons == () and after.generation == "g1"
    assert lab.creates == len(lab.alive) == 1


def test_price_rose_refreshes_once_and_checks_the_cap(lab) -> None:
    """A market that moved is listed again, once, and what is above the cap now is not bought."""
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    lab.alpha.listed = [offer("alpha", "north", "north-a", usd=10)]
    world = lab.world()

    def rise(order, real=lab.alpha.submit) -> Never:
        lab.alpha.listed = [
            offer("alpha", "north", "north-a", usd=40),
            offer("alpha", "south", "south-a", usd=11),
        ]
        lab.alpha.submit = real
        raise errors.PriceRose("dearer now", provider="alpha", code="PRICE")

    lab.alpha.submit = rise
    record = run(operations.create(world, wanted(ask(max_price_micro_usd=20_000_000)), "g1"))
    assert (record.placement.region, record.price.micro_usd) == ("south", 11_000_000)
    assert lab.alpha.calls["offers"] == 2
