"""A lost or strange answer to an order at Clore never rents twice."""

import pytest

from providers import errors
from providers.adapters.clore.progress import ACCEPTED_S, HEARD_S, SETTLE_S
from providers.model.machine import Order, Setup
from providers.rehearsal.clouds.clore.state import State
from tests.unit.clore.rig import LABEL


@pytest.mark.parametrize(
    "fault",
    [
        ("reply-lost", {}),
        ("malformed", {}),
        ("error-after", {"status": 502, "html": True}),
        ("error-after", {"status": 500}),
        ("error-after", {"status": 200, "code": 1}),
        ("error-after", {"status": 200, "html": True}),
        ("error-after", {"status": 200, "code": 777}),
    ],
)
def test_b25_a_lost_answer_never_rents_twice(bench, fault) -> None:
    """Reply lost, half an answer, 502, 500 or code 1 though made: one POST, and the one order is
    found by its server.
    """
    bench.store.add_fault("clore", "create_order", fault[0], 1, **fault[1])
    order = bench.order()
    with pytest.raises(errors.OutcomeUnknown) as caught:
        bench.adapter.submit(order)
    assert order.token == caught.value.token
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.resume(order)
    bench.clock.at += 10
    ticket = bench.adapter.resume(order)
    assert [f"orders/{bench.alive()[0].id}"] == [handle.native_id for handle in ticket.handles]
    assert bench.adapter.poll(ticket).state == "done"
    assert 1 == len(bench.posts()) == len(bench.alive())


@pytest.mark.parametrize(
    "fault",
    [("unavailable", {}), ("html", {}), ("http", {"status": 500}), ("http", {"status": 200})],
)
def test_b25_an_order_that_was_not_made_is_certain_after_a_while(bench, fault) -> None:
    """Code 1, 500 or a web page with nothing made: unknown for the time an order may take to be
    listed, then nothing.
    """
    bench.store.add_fault("clore", "create_order", fault[0], 1, **fault[1])
    order = bench.order()
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.submit(order)
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.resume(order)
    bench.clock.at += SETTLE_S + 1
    assert bench.adapter.resume(order) is None
    assert len(bench.posts()) == 1
    assert bench.alive() == []


def test_b25_code_zero_without_an_id_is_enough(bench) -> None:
    """`{"code": 0}` names no order: it is waited for, and one that never comes is unknown at last."""
    bench.store.add_fault("clore", "create_order", "slow", 1, lag_s=45)
    ticket = bench.adapter.submit(bench.order())
    bench.clock.at += 30
    assert ticket == bench.adapter.poll(ticket)
    assert bench.up(ticket, 30).state == "done"


def test_b25_an_accepted_order_that_is_never_listed_ends_unknown_then_settled(bench) -> None:
    """After ten minutes unlisted it is unknown to the poll and settled as nothing by its token."""
    bench.store.add_fault("clore", "create_order", "slow", 1, lag_s=1e6)
    order = bench.order()
    ticket = bench.adapter.submit(order)
    bench.clock.at += ACCEPTED_S + 1
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.poll(ticket)
    assert bench.adapter.resume(order) is None


@pytest.mark.parametrize(
    ("settings", "kind", "scope"),
    [
        ({"reason": "server-offline"}, errors.OfferGone, "server-71001"),
        ({"reason": "currency-not-allowed"}, errors.OfferGone, "server-71001"),
        ({"reason": "too_low_price", "min_price": 3.2}, errors.PriceRose, "server-71001"),
        ({"reason": "not_enough_balance"}, errors.InsufficientFunds, "server-71001"),
        ({"code": 2}, errors.Unsupported, ""),
        ({"code": 3}, errors.BadCredentials, ""),
        ({"code": 4}, errors.Unsupported, ""),
        ({"code": 5}, errors.RateLimited, ""),
    ],
)
def test_b25_a_clean_refusal_keeps_its_reason(bench, settings, kind, scope) -> None:
    """Codes 2 to 6 are refusals of their class and scope with the reason kept; nothing was made and
    nothing need be looked for.
    """
    bench.store.add_fault("clore", "create_order", "http", 1, status=200, **settings)
    order = bench.order()
    with pytest.raises(kind) as caught:
        bench.adapter.submit(order)
    assert type(caught.value) is kind
    assert scope == caught.value.scopes[0].machine_type
    assert str(settings.get("reason", settings.get("code"))) in str(caught.value)
    assert ("3.2" in str(caught.value)) == ("min_price" in settings)
    assert bench.adapter.resume(order) is None
    assert len(bench.posts()) == 1


def test_b25_a_server_that_a_stranger_took_is_refused_and_soon_certain(bench) -> None:
    """Somebody was faster: the reason is kept, and a few seconds without an order on the key are
    enough to go on.
    """
    bench.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="server-already-rented"
    )
    order = bench.order()
    with pytest.raises(errors.OfferGone, match="server-already-rented") as caught:
        bench.adapter.submit(order)
    assert [found.machine_type for found in caught.value.scopes] == ["server-71001"]
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.resume(order)
    bench.clock.at += HEARD_S
    assert bench.adapter.resume(order) is None
    assert len(bench.posts()) == 1


def test_b25_a_request_that_was_delivered_twice_is_found_by_its_label(bench) -> None:
    """The second delivery finds the server rented, by the first: the one order is found once it
    shows the label, and no other is sent.
    """
    bench.store.add_fault("clore", "create_order", "twice")
    order = bench.order()
    with pytest.raises(errors.OfferGone):
        bench.adapter.submit(order)
    bench.clock.at += HEARD_S
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.resume(order)
    bench.clock.at += HEARD_S
    ticket = bench.adapter.resume(order)
    assert ticket is not None
    assert bench.up(ticket, 30).state == "done"
    assert len(bench.posts()) == 1


def test_b25_a_server_that_another_of_the_keys_users_took_is_not_taken_over(bench) -> None:
    """An order of the same key on that server, without our label, is never ours after a refusal."""
    bench.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="server-already-rented"
    )
    order = bench.order()
    with pytest.raises(errors.OfferGone):
        bench.adapter.submit(order)
    other = State(bench.store).make(
        71001,
        spot=False,
        coin="USD-Blockchain",
        per_day=1.0,
        image="x",
        ports={"22": "tcp"},
        mrl=100,
    )
    bench.clock.at += SETTLE_S + 1
    assert bench.adapter.resume(order) is None
    assert str(other.id) not in {
        node.handle.native_id.rpartition("/")[2] for node in bench.adapter.find(order.label.owner)
    }


def test_b25_an_unknown_code_is_an_unknown_outcome(bench) -> None:
    """A code that no table knows is Unclassified, and looked for like a lost answer."""
    bench.store.add_fault("clore", "create_order", "http", 1, status=200, reason="moon-phase")
    order = bench.order()
    with pytest.raises(errors.Unclassified):
        bench.adapter.submit(order)
    bench.clock.at += SETTLE_S + 1
    assert bench.adapter.resume(order) is None


def test_an_order_that_was_never_sent_is_none_at_once(bench) -> None:
    """Without an intent there was no POST: nothing is asked."""
    before = len(bench.store.requests())
    assert bench.adapter.resume(Order(LABEL, "never", (), (), Setup(), 1)) is None
    assert before == len(bench.store.requests())


def test_a_failure_before_the_order_is_transient_and_leaves_no_intent(bench) -> None:
    """The list cannot be read: nothing is sent, and the token is settled."""
    bench.store.add_fault("clore", "my_orders", "html", 1)
    order = bench.order()
    with pytest.raises(errors.Transient):
        bench.adapter.submit(order)
    assert bench.posts() == []
    assert bench.adapter.resume(order) is None
