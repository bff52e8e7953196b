"""Orders at Clore: what is sent, bids and their cap, prices, the wallet, and the end."""

from decimal import Decimal
from typing import Any

import pytest

from providers import errors
from providers.adapters.clore import label, pricing
from providers.adapters.clore.nodes import handle_of
from providers.adapters.clore.progress import SETTLE_S
from providers.model.machine import GONE, PREEMPTED, RUNNING, STOPPING, Setup
from providers.rehearsal.clouds.clore.access import KEY
from providers.rehearsal.clouds.clore.state import OUTBID_S
from tests.present import present
from tests.unit.clore.rig import LABEL, SSH


def test_an_order_is_made_found_and_ended(bench) -> None:
    """One POST, found again by its server, up with ssh mapped, cancelled, gone."""
    ticket = bench.adapter.submit(bench.order())
    assert bench.adapter.poll(ticket).state == "waiting"
    ticket = bench.up(ticket)
    (node,) = bench.adapter.observe(ticket.handles)
    assert (
        node.status,
        node.machine_type,
        node.gpu_type,
        node.gpu_count,
        node.capacity,
        node.region,
    ) == (RUNNING, "server-71001", "RTX-4090", 2, "on-demand", "NL")
    assert node.label == LABEL
    assert node.ssh_user == "root"
    assert dict(node.ports)[22] not in {0, 22}
    assert len(bench.posts()) == 1
    bench.adapter.delete(ticket.handles[0])
    assert bench.adapter.observe(ticket.handles)[0].status == STOPPING
    bench.clock.at += 5
    assert bench.adapter.observe(ticket.handles)[0].status == GONE
    assert tuple(bench.adapter.find(LABEL.owner)) == ()
    assert bench.alive() == []


def test_deleting_twice_is_success(bench) -> None:
    """An order that is gone already, or never was, is deleted."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.adapter.delete(ticket.handles[0])
    bench.clock.at += 5
    bench.adapter.delete(ticket.handles[0])
    bench.adapter.delete(handle_of(99))


def test_a_delete_that_fails_while_the_order_stands_is_an_error(bench) -> None:
    """Only the list without the order makes a refused cancel a success."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.store.add_fault("clore", "cancel_order", "unavailable", 1)
    with pytest.raises(errors.Transient):
        bench.adapter.delete(ticket.handles[0])
    assert len(bench.alive()) == 1
    bench.store.add_fault("clore", "cancel_order", "reply-lost", 1)
    with pytest.raises(errors.Transient):
        bench.adapter.delete(ticket.handles[0])
    bench.clock.at += 5
    assert bench.alive() == []


def test_what_is_sent_holds_no_secret_and_the_label(bench, monkeypatch) -> None:
    """The body has the key's public half, one price guard, the label's ports, and nothing of this
    machine's environment.
    """
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("CLORE_API_KEY", "sk_secret")
    sent = {}
    real = bench.client.create_order
    monkeypatch.setattr(
        bench.client,
        "create_order",
        lambda body, **rest: (sent.update(body), real(body, **rest))[1],
    )
    bench.adapter.submit(bench.order(setup=Setup(ssh_public_key=SSH, ports=(8000,))))
    assert "secret" not in repr(sent)
    assert KEY not in repr(sent)
    assert (
        sent["type"],
        sent["required_price"],
        sent["ssh_key"],
        sent["env"],
    ) == ("on-demand", 11.9, SSH, {})
    assert {22, 8000, *label.ports(LABEL.owner, LABEL.cluster)} == {
        int(port) for port in sent["ports"]
    }


def test_an_order_takes_one_key_and_the_users_goes_first() -> None:
    """The cluster's own key is sent where the user gives none; with the user's there is no login
    from here, and the manifest says so.
    """
    anywhere: Any = None
    from providers.adapters.clore import MANIFEST

    assert present(MANIFEST.limits.unreachable)(anywhere, Setup(own_public_key=SSH)) == ""
    assert "one key" in present(MANIFEST.limits.unreachable)(
        anywhere, Setup(ssh_public_key=SSH, own_public_key="other")
    )


def test_b13_a_spot_order_says_so_and_bids(bench) -> None:
    """The bid starts at the floor; the row read back is spot."""
    ticket = bench.up(bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=400_000)))
    (made,) = bench.alive()
    assert (made.spot, made.per_day) == (True, 6.4)
    assert pricing.hourly_micro_usd(Decimal("6.4"), "spot") == ticket.placed.micro_usd
    assert bench.adapter.observe(ticket.handles)[0].capacity == "spot"


def test_b13_an_order_that_came_back_on_demand_is_not_what_was_ordered(bench) -> None:
    """A row with spot false is half made, with the handle to delete."""
    ticket = bench.adapter.submit(bench.order(capacity="spot"))
    with bench.store.transaction() as db:
        db.execute("UPDATE clore_order SET spot = 0")
    bench.clock.at += 10
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert len(caught.value.handles) == 1


def test_a_bid_goes_over_the_holder_s_and_never_over_the_cap(bench) -> None:
    """Another's bid is beaten by one per cent if the cap allows; else the server is too dear."""
    bench.state.bid(71001, "USD-Blockchain", 7.0)
    with pytest.raises(errors.PriceRose) as caught:
        bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=290_000))
    assert caught.value.scopes[0].capacity == "spot"
    assert bench.posts() == []
    bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=310_000))
    assert bench.alive()[0].per_day == 7.07


def test_a_bid_that_was_beaten_before_it_was_up_is_raised_up_to_the_cap(bench) -> None:
    """The poll raises it; beyond the cap the order is half made."""
    ticket = bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=300_000))
    bench.clock.at += 3
    bench.state.bid(71001, "bitcoin", 6.6 / 95_000)
    assert bench.adapter.poll(ticket).state == "waiting"
    assert bench.alive()[0].per_day == 6.666
    bench.state.bid(71001, "USD-Blockchain", 9.0)
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert caught.value.code == "outbid"


def test_an_outbid_rental_is_preempted(bench) -> None:
    """Paused or gone, a spot order that another holds now was taken back; once deleted it is gone."""
    ticket = bench.up(bench.adapter.submit(bench.order(capacity="spot")))
    bench.state.bid(71001, "USD-Blockchain", 9.0)
    node = bench.adapter.observe(ticket.handles)[0]
    assert (node.status, node.detail) == (PREEMPTED, "outbid")
    bench.clock.at += OUTBID_S + 1
    assert bench.adapter.observe(ticket.handles)[0].status == PREEMPTED
    bench.adapter.delete(ticket.handles[0])
    assert bench.adapter.observe(ticket.handles)[0].status == GONE


def test_an_on_demand_order_ends_with_its_longest_rental(bench) -> None:
    """After mrl hours it ended by its own limit."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.clock.at += 720 * 3_600
    assert bench.adapter.observe(ticket.handles)[0].status == "ended"


def test_a_rental_that_cannot_last_the_ttl_is_not_taken(bench) -> None:
    """Mrl is a limit, so a longer ttl is refused before anything is sent."""
    with pytest.raises(errors.Unsupported) as caught:
        bench.adapter.submit(bench.order(setup=Setup(ttl_s=721 * 3_600)))
    assert "720 h" in str(caught.value)
    assert bench.posts() == []


def test_the_order_s_own_filters_count(bench) -> None:
    """options.clore of the spec narrow what the settings let through."""
    with pytest.raises(errors.Unsupported) as caught:
        bench.adapter.submit(bench.order(setup=Setup(options=(("reliability", 0.999),))))
    assert "0.996" in str(caught.value)


def test_a_price_that_rose_since_the_plan_is_not_paid(bench) -> None:
    """What is listed now is compared with the plan and with the cap."""
    order = bench.order()
    bench.state.change(71001, price={"on_demand": {"USD-Blockchain": 13.0}})
    bench.clock.at += 60
    with pytest.raises(errors.PriceRose):
        bench.adapter.submit(order)
    assert bench.posts() == []


def test_a_price_that_moves_under_the_order_is_refused_by_its_guard(bench) -> None:
    """required_price makes the service refuse; its catch-all code is looked into and nothing is
    found.
    """
    order = bench.order()
    bench.adapter.offers()
    bench.state.change(71001, price={"on_demand": {"USD-Blockchain": 13.0}})
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.submit(order)
    bench.clock.at += SETTLE_S + 1
    assert bench.adapter.resume(order) is None
    assert bench.alive() == []


@pytest.mark.parametrize(
    "change", [{"rented": True}, {"gpu_array": ["RTX 3090"] * 2}, {"allowed_coins": []}]
)
def test_a_server_that_changed_since_the_plan_is_gone(bench, change) -> None:
    """Rented, other cards, no coin: the offer is gone, and nothing is sent."""
    order = bench.order()
    bench.state.change(71001, **change)
    bench.clock.at += 60
    with pytest.raises(errors.OfferGone):
        bench.adapter.submit(order)
    assert bench.posts() == []


def test_a_wallet_that_cannot_pay_an_hour_is_told_before_ordering(bench) -> None:
    """InsufficientFunds with the balance, the coin and where to deposit; a balance that is not told
    stops nothing.
    """
    bench.state.set_wallet("USD-Blockchain", 0.1)
    bench.state.set_wallet("CLORE-Blockchain", 0)
    with pytest.raises(errors.InsufficientFunds) as caught:
        bench.adapter.submit(bench.order())
    assert "0.1" in str(caught.value)
    assert "deposit" in str(caught.value)
    bench.state.set_wallet("USD-Blockchain", None)
    bench.adapter.submit(bench.order())


def test_more_than_one_node_is_refused(bench) -> None:
    """Servers of several hosts cannot be joined."""
    with pytest.raises(errors.Unsupported):
        bench.adapter.submit(bench.order(nodes=2))
