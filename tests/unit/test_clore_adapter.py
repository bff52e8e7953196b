"""The Clore adapter with its real HTTP client against the stand-in on loopback: orders, outcomes,
marks, errors. The clock is injected.
"""

import sqlite3
from decimal import Decimal

import httpx
import pytest

from providers import errors
from providers.adapters.clore import errors as codes
from providers.adapters.clore import mark, market, pricing, orders
from providers.adapters.clore.adapter import ACCEPTED_S, HEARD_S, SETTLE_S, CloreAdapter, handle_of
from providers.adapters.clore.client import Client
from providers.adapters.clore.gate import LIVE_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.options import Options
from providers.rehearsal.clouds.clore import KEY
from providers.rehearsal.clouds.clore.server import start
from providers.rehearsal.clouds.clore.state import OUTBID_S, State
from providers.rehearsal.store import Store
from providers.model.machine import (
    GONE,
    PREEMPTED,
    RUNNING,
    STARTING,
    STOPPING,
    Handle,
    Mark,
    Order,
    Setup,
)
from providers.model.offer import Candidate

MARK = Mark("owner-1", "bench", "g1", "f00d")
SSH = "ssh-ed25519 AAAAC3Nz me"


class Clock:
    def __init__(self):
        self.at = 1_795_000_000.0
        self.slept = []

    def __call__(self):
        return self.at

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.at += seconds


class Bench:
    """One stand-in, one adapter, one clock; the pace is the real one."""

    def __init__(self, folder, options=None, key=KEY, not_configured=""):
        self.folder = folder
        self.clock = Clock()
        self.store = Store(folder / "rehearsal.db", clock=self.clock)
        self.store.begin()
        for step, seconds in (("create", 3.0), ("start", 3.0), ("delete", 4.0)):
            self.store.set_latency("clore", step, seconds)
        self.state = State(self.store)
        self.server = start(self.store, LIVE_PACE)
        self.memory = Memory(folder / "memory.db")
        self.client, self.adapter = self.opened(self.memory, options, key, not_configured)
        self.count = 0

    def opened(self, memory, options=None, key=KEY, not_configured=""):
        gate = Gate(self.folder / "pace", LIVE_PACE, self.clock, self.clock.sleep)
        client = Client(key, gate, lambda: self.server.url, trust_environment=False)
        return client, CloreAdapter(
            "rehearsal",
            client,
            memory,
            options or Options(),
            self.clock,
            "test",
            not_configured=not_configured,
        )

    def another_machine(self):
        """The same key elsewhere: no memory of what was ordered."""
        return self.opened(Memory(self.folder / "elsewhere.db"))[1]

    def candidate(self, server=71001, capacity="on-demand", **more):
        offer = next(
            o
            for o in self.adapter.offers()
            if o.machine_type == f"server-{server}" and o.capacity == capacity
        )
        return Candidate(1, 0, offer, 1, "", offer.node_micro_usd)._replace(**more)

    def order(
        self, server=71001, capacity="on-demand", mark=MARK, setup=None, max_micro_usd=None, **more
    ):
        self.count += 1
        setup = setup or Setup(ssh_public_key=SSH)
        return Order(
            mark,
            f"token-{self.count}",
            (self.candidate(server, capacity, **more),),
            ("bench-0",),
            setup,
            900,
            max_micro_usd,
        )

    def up(self, ticket, after_s=10.0):
        self.clock.at += after_s
        ticket = self.adapter.poll(ticket)
        assert "done" == ticket.state
        return ticket

    def posts(self):
        return [request for request in self.store.requests("create_order")]

    def alive(self):
        return [made for made in self.state.orders() if self.state.ends_at(made) is None]


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.client.close()
    made.server.close()


def test_an_order_is_made_found_and_ended(bench):
    """One POST, found again by its server, up with ssh mapped, cancelled, gone."""
    ticket = bench.adapter.submit(bench.order())
    assert "waiting" == bench.adapter.poll(ticket).state
    ticket = bench.up(ticket)
    (node,) = bench.adapter.observe(ticket.handles)
    assert (RUNNING, "server-71001", "RTX-4090", 2, "on-demand", "NL") == (
        node.status,
        node.machine_type,
        node.gpu_type,
        node.gpu_count,
        node.capacity,
        node.region,
    )
    assert MARK == node.mark
    assert "root" == node.ssh_user
    assert dict(node.ports)[22] not in {0, 22}
    assert 1 == len(bench.posts())
    bench.adapter.delete(ticket.handles[0])
    assert STOPPING == bench.adapter.observe(ticket.handles)[0].status
    bench.clock.at += 5
    assert GONE == bench.adapter.observe(ticket.handles)[0].status
    assert () == tuple(bench.adapter.find(MARK.owner))
    assert [] == bench.alive()


def test_deleting_twice_is_success(bench):
    """An order that is gone already, or never was, is deleted."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.adapter.delete(ticket.handles[0])
    bench.clock.at += 5
    bench.adapter.delete(ticket.handles[0])
    bench.adapter.delete(handle_of(99))


def test_a_delete_that_fails_while_the_order_stands_is_an_error(bench):
    """Only the list without the order makes a refused cancel a success."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.store.add_fault("clore", "cancel_order", "unavailable", 1)
    with pytest.raises(errors.Transient):
        bench.adapter.delete(ticket.handles[0])
    assert 1 == len(bench.alive())
    bench.store.add_fault("clore", "cancel_order", "reply-lost", 1)
    with pytest.raises(errors.Transient):
        bench.adapter.delete(ticket.handles[0])
    bench.clock.at += 5
    assert [] == bench.alive()


def test_what_is_sent_holds_no_secret_and_the_mark(bench, monkeypatch):
    """The body has the key's public half, one price guard, the mark's ports, and nothing of this
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
    assert ("on-demand", 11.9, SSH, {}) == (
        sent["type"],
        sent["required_price"],
        sent["ssh_key"],
        sent["env"],
    )
    assert {22, 8000, *mark.ports(MARK.owner, MARK.cluster)} == {
        int(port) for port in sent["ports"]
    }


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
def test_b25_a_lost_answer_never_rents_twice(bench, fault):
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
    assert "done" == bench.adapter.poll(ticket).state
    assert 1 == len(bench.posts()) == len(bench.alive())


@pytest.mark.parametrize(
    "fault",
    [("unavailable", {}), ("html", {}), ("http", {"status": 500}), ("http", {"status": 200})],
)
def test_b25_an_order_that_was_not_made_is_certain_after_a_while(bench, fault):
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
    assert 1 == len(bench.posts())
    assert [] == bench.alive()


def test_b25_code_zero_without_an_id_is_enough(bench):
    """`{"code": 0}` names no order: it is waited for, and one that never comes is unknown at last."""
    bench.store.add_fault("clore", "create_order", "slow", 1, lag_s=45)
    ticket = bench.adapter.submit(bench.order())
    bench.clock.at += 30
    assert ticket == bench.adapter.poll(ticket)
    assert "done" == bench.up(ticket, 30).state


def test_b25_an_accepted_order_that_is_never_listed_ends_unknown_then_settled(bench):
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
def test_b25_a_clean_refusal_keeps_its_reason(bench, settings, kind, scope):
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
    assert 1 == len(bench.posts())


def test_b25_a_server_that_a_stranger_took_is_refused_and_soon_certain(bench):
    """Somebody was faster: the reason is kept, and a few seconds without an order on the key are
    enough to go on.
    """
    bench.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="server-already-rented"
    )
    order = bench.order()
    with pytest.raises(errors.OfferGone, match="server-already-rented") as caught:
        bench.adapter.submit(order)
    assert ["server-71001"] == [found.machine_type for found in caught.value.scopes]
    with pytest.raises(errors.OutcomeUnknown):
        bench.adapter.resume(order)
    bench.clock.at += HEARD_S
    assert bench.adapter.resume(order) is None
    assert 1 == len(bench.posts())


def test_b25_a_request_that_was_delivered_twice_is_found_by_its_mark(bench):
    """The second delivery finds the server rented, by the first: the one order is found once it
    shows the mark, and no other is sent.
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
    assert "done" == bench.up(ticket, 30).state
    assert 1 == len(bench.posts())


def test_b25_a_server_that_another_of_the_keys_users_took_is_not_taken_over(bench):
    """An order of the same key on that server, without our mark, is never ours after a refusal."""
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
        node.handle.native_id.rpartition("/")[2] for node in bench.adapter.find(order.mark.owner)
    }


def test_b25_an_unknown_code_is_an_unknown_outcome(bench):
    """A code that no table knows is Unclassified, and looked for like a lost answer."""
    bench.store.add_fault("clore", "create_order", "http", 1, status=200, reason="moon-phase")
    order = bench.order()
    with pytest.raises(errors.Unclassified):
        bench.adapter.submit(order)
    bench.clock.at += SETTLE_S + 1
    assert bench.adapter.resume(order) is None


def test_an_order_that_was_never_sent_is_none_at_once(bench):
    """Without an intent there was no POST: nothing is asked."""
    before = len(bench.store.requests())
    assert bench.adapter.resume(Order(MARK, "never", (), (), Setup(), 1)) is None
    assert before == len(bench.store.requests())


def test_a_failure_before_the_order_is_transient_and_leaves_no_intent(bench):
    """The list cannot be read: nothing is sent, and the token is settled."""
    bench.store.add_fault("clore", "my_orders", "html", 1)
    order = bench.order()
    with pytest.raises(errors.Transient):
        bench.adapter.submit(order)
    assert [] == bench.posts()
    assert bench.adapter.resume(order) is None


def test_an_unreachable_service_is_transient_even_for_an_order(tmp_path):
    """No connection, nothing sent."""
    bench = Bench(tmp_path)
    order = bench.order()
    bench.server.close()
    with pytest.raises(errors.Transient) as caught:
        bench.opened(bench.memory)[0].create_order({}, token=order.token, server=1, capacity="spot")
    assert "unreachable" == caught.value.code
    bench.client.close()


def test_every_failure_of_the_http_client_is_of_the_tree(bench, monkeypatch):
    """Whatever httpx raises: nothing sent is transient, anything else is unknown for an order and
    transient for a look.
    """
    bench.client.my_orders()
    kinds = [
        kind
        for name in httpx.__all__
        if isinstance(kind := getattr(httpx, name), type) and issubclass(kind, Exception)
    ]
    assert len(kinds) > 15
    never_sent = {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "UnsupportedProtocol",
        "InvalidURL",
    }
    for kind in kinds:

        def fail(*arguments, kind=kind, **rest):
            raise kind.__new__(kind)

        monkeypatch.setattr(bench.client._http, "request", fail)
        with pytest.raises(errors.Transient):
            bench.client.my_orders()
        with pytest.raises(
            errors.Transient if kind.__name__ in never_sent else errors.OutcomeUnknown
        ):
            bench.client.create_order({}, token="t", server=1, capacity="spot")


def test_a_proxy_variable_that_cannot_be_used_is_one_line(tmp_path, monkeypatch):
    """It is told as unreachable, not as a crash."""
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    gate = Gate(tmp_path / "pace", LIVE_PACE, Clock(), lambda seconds: None)
    with pytest.raises(errors.Transient) as caught:
        Client("k", gate, lambda: "http://127.0.0.1:9/v1").my_orders()
    assert "unreachable" == caught.value.code


def test_an_order_takes_one_key_and_the_users_goes_first():
    """The cluster's own key is sent where the user gives none; with the user's there is no login
    from here, and the manifest says so.
    """
    from providers.adapters.clore import MANIFEST

    assert MANIFEST.limits.unreachable(None, Setup(own_public_key=SSH)) == ""
    assert "one key" in MANIFEST.limits.unreachable(
        None, Setup(ssh_public_key=SSH, own_public_key="other")
    )


def test_b13_a_spot_order_says_so_and_bids(bench):
    """The bid starts at the floor; the row read back is spot."""
    ticket = bench.up(bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=400_000)))
    (made,) = bench.alive()
    assert (True, 6.4) == (made.spot, made.per_day)
    assert pricing.hourly_micro_usd(Decimal("6.4"), "spot") == ticket.placed.micro_usd
    assert "spot" == bench.adapter.observe(ticket.handles)[0].capacity


def test_b13_an_order_that_came_back_on_demand_is_not_what_was_ordered(bench):
    """A row with spot false is half made, with the handle to delete."""
    ticket = bench.adapter.submit(bench.order(capacity="spot"))
    with bench.store.transaction() as db:
        db.execute("UPDATE clore_order SET spot = 0")
    bench.clock.at += 10
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert 1 == len(caught.value.handles)


def test_a_bid_goes_over_the_holder_s_and_never_over_the_cap(bench):
    """Another's bid is beaten by one per cent if the cap allows; else the server is too dear."""
    bench.state.bid(71001, "USD-Blockchain", 7.0)
    with pytest.raises(errors.PriceRose) as caught:
        bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=290_000))
    assert "spot" == caught.value.scopes[0].capacity
    assert [] == bench.posts()
    bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=310_000))
    assert 7.07 == bench.alive()[0].per_day


def test_a_bid_that_was_beaten_before_it_was_up_is_raised_up_to_the_cap(bench):
    """The poll raises it; beyond the cap the order is half made."""
    ticket = bench.adapter.submit(bench.order(capacity="spot", max_micro_usd=300_000))
    bench.clock.at += 3
    bench.state.bid(71001, "bitcoin", 6.6 / 95_000)
    assert "waiting" == bench.adapter.poll(ticket).state
    assert 6.666 == bench.alive()[0].per_day
    bench.state.bid(71001, "USD-Blockchain", 9.0)
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert "outbid" == caught.value.code


def test_an_outbid_rental_is_preempted(bench):
    """Paused or gone, a spot order that another holds now was taken back; once deleted it is gone."""
    ticket = bench.up(bench.adapter.submit(bench.order(capacity="spot")))
    bench.state.bid(71001, "USD-Blockchain", 9.0)
    node = bench.adapter.observe(ticket.handles)[0]
    assert (PREEMPTED, "outbid") == (node.status, node.detail)
    bench.clock.at += OUTBID_S + 1
    assert PREEMPTED == bench.adapter.observe(ticket.handles)[0].status
    bench.adapter.delete(ticket.handles[0])
    assert GONE == bench.adapter.observe(ticket.handles)[0].status


def test_an_on_demand_order_ends_with_its_longest_rental(bench):
    """After mrl hours it ended by its own limit."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.clock.at += 720 * 3_600
    assert "ended" == bench.adapter.observe(ticket.handles)[0].status


def test_a_rental_that_cannot_last_the_ttl_is_not_taken(bench):
    """mrl is a limit, so a longer ttl is refused before anything is sent."""
    with pytest.raises(errors.Unsupported) as caught:
        bench.adapter.submit(bench.order(setup=Setup(ttl_s=721 * 3_600)))
    assert "720 h" in str(caught.value)
    assert [] == bench.posts()


def test_the_order_s_own_filters_count(bench):
    """options.clore of the spec narrow what the settings let through."""
    with pytest.raises(errors.Unsupported) as caught:
        bench.adapter.submit(bench.order(setup=Setup(options=(("reliability", 0.999),))))
    assert "0.996" in str(caught.value)


def test_a_price_that_rose_since_the_plan_is_not_paid(bench):
    """What is listed now is compared with the plan and with the cap."""
    order = bench.order()
    bench.state.change(71001, price={"on_demand": {"USD-Blockchain": 13.0}})
    bench.clock.at += 60
    with pytest.raises(errors.PriceRose):
        bench.adapter.submit(order)
    assert [] == bench.posts()


def test_a_price_that_moves_under_the_order_is_refused_by_its_guard(bench):
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
    assert [] == bench.alive()


@pytest.mark.parametrize(
    "change", [{"rented": True}, {"gpu_array": ["RTX 3090"] * 2}, {"allowed_coins": []}]
)
def test_a_server_that_changed_since_the_plan_is_gone(bench, change):
    """Rented, other cards, no coin: the offer is gone, and nothing is sent."""
    order = bench.order()
    bench.state.change(71001, **change)
    bench.clock.at += 60
    with pytest.raises(errors.OfferGone):
        bench.adapter.submit(order)
    assert [] == bench.posts()


def test_a_wallet_that_cannot_pay_an_hour_is_told_before_ordering(bench):
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


def test_more_than_one_node_is_refused(bench):
    """Servers of several hosts cannot be joined."""
    with pytest.raises(errors.Unsupported):
        bench.adapter.submit(bench.order(nodes=2))


def test_an_unknown_order_on_the_key_blocks_buying_until_claimed(bench):
    """It may be a lost purchase of ours: cancel it, or say that it is known."""
    made = bench.state.make(
        71010,
        spot=False,
        coin="USD-Blockchain",
        per_day=5.9,
        image="x",
        ports={"22": "tcp"},
        mrl=10,
    )
    bench.clock.at += 4
    with pytest.raises(errors.Transient):
        bench.adapter.submit(bench.order())
    bench.clock.at += 10
    with pytest.raises(errors.NotConfigured) as caught:
        bench.adapter.submit(bench.order())
    assert str(made.id) in str(caught.value)
    assert [] == bench.posts()
    bench.adapter.submit(bench.order(setup=Setup(options=(("claimed_orders", [made.id]),))))


def test_another_stack_s_order_on_the_key_does_not_block(bench):
    """Its mark says that it is this product's, whoever its owner is; another machine sees the same."""
    bench.up(bench.adapter.submit(bench.order(mark=Mark("owner-2", "other", "g", "f"))))
    bench.adapter.submit(bench.order(71002))
    assert 2 == len(bench.alive())


def test_another_machine_knows_an_order_by_its_mark(bench):
    """Owner and cluster are in the ports; the generation is not, so no clean-up of a generation
    takes it.
    """
    ticket = bench.up(bench.adapter.submit(bench.order()))
    elsewhere = bench.another_machine()
    assert ticket.handles == tuple(node.handle for node in elsewhere.find("owner-1"))
    assert ticket.handles == tuple(node.handle for node in elsewhere.find("owner-1", "bench"))
    assert [] == elsewhere.find("owner-1", "bench", "g1")
    assert [] == elsewhere.find("owner-1", "another")
    assert [] == elsewhere.find("owner-2")
    elsewhere.relabel(ticket.handles[0], "g2")
    assert ["g2"] == [node.mark.generation for node in elsewhere.find("owner-1", "bench", "g2")]


def test_an_order_in_flight_is_found_by_its_intent(bench):
    """Listed but not polled yet, it bears its full mark."""
    bench.adapter.submit(bench.order())
    bench.clock.at += 10
    assert [MARK] == [node.mark for node in bench.adapter.find("owner-1", "bench", "g1")]


def test_a_generation_is_rewritten_here(bench):
    """Relabelling an adopted order changes what find answers."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.adapter.relabel(ticket.handles[0], "g9")
    assert [] == bench.adapter.find("owner-1", "bench", "g1")
    assert ["g9"] == [node.mark.generation for node in bench.adapter.find("owner-1")]
    with pytest.raises(errors.Unsupported):
        bench.adapter.relabel(handle_of(5), "g9")


def test_b31_ports_are_read_in_both_shapes():
    """A list of pairs or a mapping; the first host; nothing yet is not ready, never port 22."""
    row = {
        "pub_cluster": ["n1.x", "n2.x"],
        "tcp_ports": ["22:10000", "8000:10001"],
        "http_port": "8888",
        "mon_container": 2,
    }
    assert ("n1.x", {22: 10000, 8000: 10001}, True) == (
        orders.host(row),
        orders.ports(row),
        orders.is_up(row),
    )
    row["tcp_ports"] = {"22": 10000}
    row["pub_cluster"] = "n1.x"
    assert ("n1.x", {22: 10000}, True) == (orders.host(row), orders.ports(row), orders.is_up(row))
    row["tcp_ports"] = []
    assert ({}, False) == (orders.ports(row), orders.is_up(row))
    row["tcp_ports"] = ["x", "8000:", ":1", None, "8000:10001"]
    assert ({8000: 10001}, False) == (orders.ports(row), orders.is_up(row))


def test_b31_a_container_without_ports_is_waited_for_until_the_deadline(bench):
    """Not ready yet is waiting; past the deadline it is half made, and the stage is named."""
    bench.store.add_fault("clore", "create_order", "slow", 1, seconds=1e6)
    ticket = bench.adapter.submit(bench.order())
    bench.clock.at += 100
    ticket = bench.adapter.poll(ticket)
    assert ("waiting", "starting") == (ticket.state, ticket.detail)
    assert STARTING == bench.adapter.observe(ticket.handles)[0].status
    bench.clock.at += 500
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert "no address" in str(caught.value)
    assert ticket.handles == caught.value.handles


def test_an_order_that_ends_before_it_is_up_is_gone(bench):
    """The host ended it: the next server is tried, nothing is left."""
    bench.store.add_fault("clore", "create_order", "op-error", 1)
    order = bench.order()
    ticket = bench.adapter.submit(order)
    bench.clock.at += 30
    with pytest.raises(errors.OfferGone):
        bench.adapter.poll(ticket)
    assert bench.adapter.resume(order) is None


def test_a_row_of_the_completed_list_ended_unless_it_says_otherwise():
    """Whether that list holds standing orders too is not documented: what it says of itself
    decides, silence is an end.
    """
    assert orders.has_ended(orders.from_completed({"id": 1}))
    assert orders.has_ended(orders.from_completed({"id": 1, "expired": True}))
    assert not orders.has_ended(orders.from_completed({"id": 1, "expired": False}))


def test_jupyter_needs_its_token_from_the_environment(bench, tmp_path):
    """Without one it is refused; with one the web port is mapped, its address is told, and the
    token is in no record.
    """
    setup = Setup(options=(("jupyter", True),))
    with pytest.raises(errors.NotConfigured):
        bench.adapter.submit(bench.order(setup=setup))
    bench.adapter._jupyter_token = "tok-secret"
    ticket = bench.up(bench.adapter.submit(bench.order(setup=setup)))
    assert bench.adapter.observe(ticket.handles)[0].detail.startswith("https://")
    assert "tok-secret" not in repr(ticket)
    assert (
        b"tok-secret"
        not in (tmp_path / "memory.db").read_bytes() + (tmp_path / "rehearsal.db").read_bytes()
    )


def test_observing_through_a_broken_list_is_no_word_that_it_is_gone(bench):
    """A reply without rows, a web page, a rate limit: errors, never gone."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    for kind, settings, error in (
        ("html", {}, errors.Transient),
        ("too-many", {}, errors.RateLimited),
        ("malformed", {}, errors.Transient),
    ):
        bench.store.add_fault("clore", "my_orders", kind, 1, **settings)
        with pytest.raises(error):
            bench.adapter.observe(ticket.handles)
    assert RUNNING == bench.adapter.observe(ticket.handles)[0].status


def test_the_pace_is_kept_across_clients(bench):
    """Two clients of one key, as in two processes, never call within a second of each other, nor
    order within five.
    """
    other = bench.opened(Memory(bench.folder / "memory.db"))[0]
    for client in (bench.client, other, bench.client, other):
        client.my_orders()
    at = [request.at for request in bench.store.requests("my_orders")]
    assert all(later - earlier >= 0.999 for earlier, later in zip(at, at[1:], strict=False))
    bench.adapter.submit(bench.order(71001))
    bench.adapter.submit(bench.order(71002))
    first, second = (request.at for request in bench.posts())
    assert second - first >= 4.999
    assert not [request for request in bench.store.requests() if request.status == 429]


def test_the_market_needs_no_key_and_waits_for_no_turn(tmp_path):
    """Offers are listed without a key; buying says what is missing; nothing of an owner is looked
    for.
    """
    bench = Bench(tmp_path, key="", not_configured="wanted an API key")
    assert bench.adapter.offers()
    assert [] == bench.clock.slept
    with pytest.raises(errors.NotConfigured):
        bench.adapter.submit(bench.order())
    assert () == bench.adapter.find("owner-1")
    assert [("key", "missing"), ("market", "ok")] == [
        (line.topic, line.state) for line in bench.adapter.check()
    ], "what to do about it comes first"
    bench.client.close()
    bench.server.close()


def test_a_refused_key_is_bad_credentials(tmp_path):
    """Code 3 for a wrong key, 403 from the front: the provider is blocked, and the way out is
    named.
    """
    bench = Bench(tmp_path, key="wrong")
    with pytest.raises(errors.BadCredentials) as caught:
        bench.adapter.submit(bench.order())
    assert "CLORE_API_KEY" in str(caught.value)
    bench.store.add_fault("clore", "my_orders", "forbidden", 1)
    with pytest.raises(errors.BadCredentials):
        bench.adapter.find("owner-1")
    assert "refused" in {line.state for line in bench.adapter.check()}
    bench.client.close()
    bench.server.close()


def test_a_check_without_an_answer_says_what_was_not_read_and_what_to_do_once(bench):
    """A failure that may pass names what was not read and the command; one whose own text says what
    to do is not followed by more.
    """
    bench.store.add_fault("clore", "my_orders", "unavailable", 99)
    lines = {line.topic: line for line in bench.adapter.check()}
    assert lines["key"].state == "unknown" and lines["key"].todo.startswith(
        "what the key has was not read, which may pass: `gpus check clore` once more"
    )
    bench.server.close()
    client, adapter = bench.opened(bench.memory)
    for line in adapter.check():
        assert line.state == "unknown" and "look at the network" in line.found and not line.todo
    client.close()


def test_check_says_what_the_wallet_is_good_for(bench):
    """Balances with the hours they last, fees as stated, orders that nothing here made."""
    bench.up(bench.adapter.submit(bench.order()))
    bench.state.make(
        71010,
        spot=False,
        coin="USD-Blockchain",
        per_day=5.9,
        image="x",
        ports={"22": "tcp"},
        mrl=10,
    )
    bench.clock.at += 10
    lines = {line.topic: line for line in bench.adapter.check()}
    assert {"market": "ok", "key": "ok", "orders": "unknown", "wallet": "ok", "fees": "ok"} == {
        topic: line.state for topic, line in lines.items()
    }
    assert "h of what runs" in lines["wallet"].found


def test_updates_that_the_market_does_not_keep(bench):
    """Labels and ttl need no call; anything else cannot be changed on a running order."""
    bench.adapter.update(handle_of(1), {"labels": {"a": "b"}, "ttl": 3600})
    with pytest.raises(errors.Unsupported):
        bench.adapter.update(handle_of(1), {"ssh_key": SSH})
    assert () == bench.store.requests()


def test_a_native_id_of_another_cloud_is_refused():
    """Wanted and found in one line."""
    from providers.adapters.clore.adapter import order_of

    assert 12 == order_of(Handle("clore", "orders/12"))
    assert 12 == order_of(Handle("clore", "12"))
    with pytest.raises(errors.Unsupported):
        order_of(Handle("clore", "projects/p/zones/z/instances/1"))


def test_unknown_routes_and_fields_fail(bench):
    """The stand-in answers code 4 for a route and code 2 for a field that the service does not
    have.
    """
    with pytest.raises(errors.Unsupported) as caught:
        bench.client._call("GET", "servers")
    assert "4" == caught.value.code
    with pytest.raises(errors.Unsupported) as caught:
        bench.client._call("GET", "my_orders", params={"page": "2"})
    assert "2" == caught.value.code


def test_every_row_of_the_table_is_dated_and_of_a_class():
    """Each code has a source, a date and the error it says; a create's lost answers are unknown
    outcomes.
    """
    for row in codes.TABLE:
        assert row.source
        assert "2026-11-27" == row.date
        for creating in (False, True):
            found = codes.error(
                row.code, creating=creating, token="t", server=7, capacity="spot", doing="x"
            )
            assert type(found) is (row.creating if creating else row.reading)
            assert row.code == found.code
            assert row.meaning in str(found)
    unsure = {row.code for row in codes.TABLE if row.creating is errors.OutcomeUnknown}
    assert {"1", "http:5xx", "html", "timeout", "lost"} == unsure
    assert errors.OutcomeUnknown is codes.row_for("http:524").creating


@pytest.mark.parametrize(
    ("status", "reply", "code"),
    [
        (200, {"code": 0}, ""),
        (200, {"code": "0"}, ""),
        (500, {"code": 0}, "http:500"),
        (200, {"code": 1}, "1"),
        (500, {"code": 1}, "1"),
        (200, {"code": 6, "error": "server-offline"}, "6:server-offline"),
        (429, {"code": 5}, "5"),
        (429, None, "http:429"),
        (403, None, "http:403"),
        (200, None, "html"),
        (200, {"orders": []}, "html"),
        (502, None, "http:502"),
        (404, None, "http:404"),
    ],
)
def test_status_content_and_code_are_all_read(status, reply, code):
    """A non-zero code can come with HTTP 200, a page with any status."""
    assert code == codes.code_of(status, reply)


def test_a_mark_is_recognised_beside_other_ports():
    """Two ports in their own ranges, the second confirming the first; near pairs are not marks."""
    first, second = mark.ports("owner-1", "bench")
    assert mark.belongs([22, 8000, first, second], "owner-1", "bench")
    assert mark.belongs({first: 1, second: 2}, "owner-1")
    assert not mark.belongs([first, second], "owner-1", "else")
    assert not mark.is_mark([first])
    assert not mark.is_mark([22, 8888])
    assert not mark.is_mark([first, second + 256 if second + 256 < 49_152 else second - 256])


@pytest.mark.parametrize(
    "huge",
    ["1e99999", "9" * 400, "inf", float("nan"), 1e300, -1, 65_536, "22.5"],
    ids=lambda value: str(value)[:8],
)
def test_a_port_that_cannot_be_is_left_out_at_once(huge):
    """Numbers of an order have bounds, too: a port, a time, a state."""
    assert {22: 1277} == orders.ports({"tcp_ports": ["22:1277", f"23:{huge}", f"{huge}:24"]})
    assert {22: 1277} == orders.ports({"tcp_ports": {"22": 1277, "23": huge, str(huge): 24}})
    assert not orders.is_up(
        {"mon_container": huge, "tcp_ports": ["22:1277"], "pub_cluster": ["n1"]}
    )
    assert orders.made({"ct": huge}) in {None, 65_536.0, 22.5}


@pytest.mark.parametrize("harm", ["random bytes", "a folder", "below a file"])
def test_an_order_is_ended_without_the_memory(bench, harm):
    """A cancel, its confirmation and the pace need no file: the order is gone though nothing of it
    can be read or written; buying refuses.
    """
    ticket = bench.up(bench.adapter.submit(bench.order(capacity="spot")))
    place = bench.folder / "harmed"
    if harm == "a folder":
        (place / "memory.db").mkdir(parents=True)
    elif harm == "random bytes":
        place.mkdir()
        (place / "memory.db").write_bytes(bytes(range(256)) * 20)
    else:
        place.write_text("")
    memory = Memory(place / "memory.db")
    client, adapter = bench.opened(memory)
    client._gate.path = place / "pace" if harm == "below a file" else place
    handle = ticket.handles[0]
    bench.clock.at += 10
    adapter.delete(handle)
    bench.clock.at += 10
    assert GONE == adapter.observe((handle,))[0].status
    assert [] == [node for node in adapter.find("owner-1") if node.status != GONE]
    assert not bench.alive()
    with pytest.raises((OSError, sqlite3.Error)):
        adapter.submit(bench.order(server=71002))
    assert 1 == len(bench.posts())
    client.close()


def test_calls_keep_their_pace_where_the_file_of_it_cannot_be_used(tmp_path):
    """Without the shared file a process still makes one call a second."""
    clock = Clock()
    gate = Gate(tmp_path / "missing" / "pace", LIVE_PACE, clock, clock.sleep)
    for _ in range(4):
        gate.turn()
    assert [1.0, 1.0, 1.0] == pytest.approx(clock.slept)
