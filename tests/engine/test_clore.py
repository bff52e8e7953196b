"""The engine buying on the rehearsed Clore market: real client, stand-in on loopback, one clock for
all.
"""

import asyncio
import time
from typing import Never

import pytest

from providers import errors
from providers.adapters.base import Manifest
from providers.adapters.clore import CAPABILITIES, MANIFEST
from providers.adapters.clore.adapter import CloreAdapter
from providers.adapters.clore.client import Client
from providers.adapters.clore.gate import LIVE_PACE, REHEARSAL_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.options import Options
from providers.catalog.table import table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.market import collect
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import World, open_world
from providers.model.ask import Ask, Capacity, Choice
from providers.model.machine import Setup
from providers.rehearsal.clouds.clore.access import KEY, Pace
from providers.rehearsal.clouds.clore.server import start
from providers.rehearsal.clouds.clore.state import State
from providers.rehearsal.start import stop
from providers.rehearsal.store import Store, open_store
from providers.testing.clock import JumpingClock
from tests.engine.cases import run

ON_DEMAND_THEN_SPOT = (Capacity("on-demand"), Capacity("spot"))


class Market:
    def __init__(self, folder) -> None:
        self.folder = folder
        self.clock = JumpingClock()
        self.store = Store(folder / "rehearsal.db", clock=self.clock.now)
        self.store.begin()
        self.state = State(self.store)
        self.server = start(self.store, Pace(*LIVE_PACE))
        self.lines: list[str] = []
        self.opened: list[Client | World] = []

    def sleep(self, seconds) -> None:
        self.clock.advance(seconds)

    def world(self, not_configured="", name="rehearsal"):
        def connect(world, config, rehearsed=None):
            gate = Gate(self.folder / "pace", LIVE_PACE, self.clock.now, self.sleep)
            client = Client(KEY, gate, lambda: self.server.url, trust_environment=False)
            self.opened.append(client)
            memory = Memory(self.store.path)
            return CloreAdapter(
                world,
                client,
                memory,
                Options(),
                self.clock.now,
                "test",
                not_configured=not_configured,
            )

        manifest = Manifest("clore", CAPABILITIES, connect, MANIFEST.check_options)
        found = open_world(
            name,
            {},
            lambda severity, text: self.lines.append(f"{severity}: {text}"),
            manifests={"clore": manifest},
            offers=table(()),
            clock=self.clock,
        )
        self.opened.append(found)
        return found

    @property
    def alive(self):
        return [made for made in self.state.orders() if self.state.ends_at(made) is None]

    @property
    def posts(self):
        return self.store.requests("create_order")


@pytest.fixture
def market(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Market(tmp_path)
    yield made
    for opened in made.opened:
        opened.close()
    made.server.close()


def wanted(cap=None, capacity=ON_DEMAND_THEN_SPOT, options=(), name="bench"):
    ask = Ask(
        (Choice("RTX-4090", 2, capacity=capacity),), providers=("clore",), max_price_micro_usd=cap
    )
    return ClusterSpec("own", name, ask, Setup(options=(("clore", dict(options)),)), "f1")


def test_the_cheapest_fit_host_is_rented_and_released(market) -> None:
    """On demand first, the cheapest host that passes the filters; delete leaves nothing."""
    world = market.world()
    record = run(operations.create(world, wanted(), "g1"))
    assert (
        record.status,
        record.placement.machine_type,
        record.placement.gpu_type,
        record.placement.gpu_count,
        record.placement.capacity,
        record.price.micro_usd,
    ) == ("running", "server-71002", "RTX-4090", 2, "on-demand", 490_000)
    assert dict(record.machines[0].ports)[22]
    assert record == ClusterRecord.from_dict(record.to_dict())
    assert record.status == run(operations.read(world, record)).status
    run(operations.delete(world, record))
    assert market.alive == []


def test_a_sold_out_market_ends_on_a_bid_under_the_cap(market) -> None:
    """Every on-demand host is taken meanwhile: the walk ends on a spot bid."""
    market.store.set_stock("clore", "", "", "on-demand", 0)
    record = run(operations.create(market.world(), wanted(cap=600_000), "g1"))
    assert (record.placement.capacity, record.placement.machine_type) == ("spot", "server-71002")
    assert {"OfferGone"} == {attempt.outcome for attempt in record.attempts[:-1]}
    assert len(market.alive) == 1


@pytest.mark.parametrize(
    "fault",
    [
        ("reply-lost", {}),
        ("error-after", {"status": 500}),
        ("error-after", {"status": 502, "html": True}),
    ],
)
def test_b25_a_lost_answer_is_adopted_not_bought_again(market, fault) -> None:
    """The engine looks the order up by its token and goes on with it: one POST, one order."""
    market.store.add_fault("clore", "create_order", fault[0], 1, **fault[1])
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert record.status == "running"
    assert 1 == len(market.posts) == len(market.alive)
    assert [f"orders/{market.alive[0].id}"] == [handle.native_id for handle in record.handles]


def test_b25_an_unclear_answer_with_nothing_made_goes_on_to_the_next_host(market) -> None:
    """Code 1 and no order within its time: certain, and the next server is tried."""
    market.store.add_fault("clore", "create_order", "http", 1, status=500)
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert record.status == "running"
    assert len(market.posts) == 2
    assert len(market.alive) == 1


def ordered(world):
    """The servers that orders are sent for, as they are."""
    client, servers = world.adapter("clore").real.client, []
    real = client.create_order

    def create(body, **rest):
        servers.append((body["renting_server"], body.get("spotprice")))
        return real(body, **rest)

    client.create_order = create
    return servers


def test_b25_code_zero_without_an_id_is_found_by_its_server(market) -> None:
    """`{"code": 0}` names no order, and the list lags: it is waited for and adopted, one POST, one
    order.
    """
    market.store.add_fault("clore", "create_order", "slow", 1, lag_s=45)
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert (record.status, len(market.posts), len(market.alive)) == ("running", 1, 1)
    assert [f"orders/{market.alive[0].id}"] == [handle.native_id for handle in record.handles]


def test_b25_a_server_that_was_taken_is_followed_by_the_next(market) -> None:
    """Code 6, server-already-rented: told with its reason, and the next server is tried."""
    market.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="server-already-rented"
    )
    world = market.world()
    servers = ordered(world)
    record = run(operations.create(world, wanted(), "g1"))
    assert record.status == "running" and len(market.alive) == 1
    assert len(servers) == 2 and servers[0][0] != servers[1][0]
    assert (
        record.attempts[0].outcome == "OfferGone"
        and "server-already-rented" in record.attempts[0].message
    )


def test_b25_a_bid_that_was_too_low_is_never_raised_past_the_cap(market) -> None:
    """Code 6, too_low_price: its least price is told, and whatever is bid after it costs no more
    than the cap.
    """
    market.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="too_low_price", min_price=99.0
    )
    world = market.world()
    servers = ordered(world)
    record = run(operations.create(world, wanted(cap=600_000, capacity=(Capacity("spot"),)), "g1"))
    assert record.attempts[0].outcome == "PriceRose" and "99.0" in record.attempts[0].message
    assert (
        record.price.micro_usd <= 600_000
        and all(bid < 99.0 for _, bid in servers)
        and len(market.alive) <= 1
    )


@pytest.mark.parametrize("fault", [("http", {"status": 200, "code": 5}), ("too-many", {})])
def test_b25_over_the_rate_waits_and_tries_the_same_server(market, fault) -> None:
    """Code 5: at least the five seconds between orders pass, and the same server is asked for
    again, no other.
    """
    market.store.add_fault("clore", "create_order", fault[0], 2, **fault[1])
    world, begun = market.world(), market.clock.now()
    servers = ordered(world)
    record = run(operations.create(world, wanted(), "g1"))
    assert (record.status, len(market.alive)) == ("running", 1)
    assert len(servers) == 3 and len(set(servers)) == 1
    assert market.clock.now() - begun >= 10


def test_b25_over_the_rate_for_good_tries_no_other_server(market) -> None:
    """While the key is over its rate, every server would answer so: the walk ends there, one server
    asked, nothing bought.
    """
    market.store.add_fault("clore", "create_order", "http", None, status=200, code=5)
    world = market.world()
    servers = ordered(world)
    with pytest.raises(errors.GpusError, match="more than one call a second"):
        run(operations.create(world, wanted(), "g1"))
    assert len(set(servers)) == 1 and market.alive == []


def test_an_order_that_stays_unknown_blocks_further_buying(market) -> None:
    """While the list cannot be read, nothing else is bought; the next run finds the order and keeps
    it.
    """
    market.store.add_fault("clore", "create_order", "reply-lost", 1)
    world = market.world()
    client = world.adapter("clore").real.client
    real = client.create_order

    def create(body, **rest):
        # The first look, before the order, goes well; every later one fails.
        market.store.add_fault("clore", "my_orders", "unavailable", None)
        return real(body, **rest)

    client.create_order = create
    record = run(operations.create(world, wanted(), "g1"))
    assert record.status == "unsettled"
    assert len(market.posts) == 1
    market.store.clear_faults()
    record = run(operations.update(market.world(), record, wanted()))
    assert record.status == "running"
    assert 1 == len(market.posts) == len(market.alive)


def test_a_host_that_never_comes_up_is_cancelled_and_the_next_tried(market) -> None:
    """Past the start deadline the order is ended before another is bought."""
    market.store.add_fault("clore", "create_order", "slow", 1, seconds=1e6)
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert (record.status, len(market.alive), len(market.posts)) == ("running", 1, 2)
    assert record.attempts[0].outcome == "HalfMade"


@pytest.mark.parametrize(
    ("delivered", "said"),
    [
        ({"gpu_array": ["RTX 4090"]}, "counts disagree"),
        ({"gpu_array": ["RTX 4090", "RTX 3090"]}, "a mixed rig"),
        ({"gpu_array": ["RTX 3090", "RTX 3090"]}, "says"),
        (
            {"gpu_array": ["RTX 4090"], "specs": {"gpu": "1x NVIDIA GeForce RTX 4090"}},
            "with 1 instead of 2",
        ),
        (
            {"gpu_array": ["RTX 3090", "RTX 3090"], "specs": {"gpu": "2x NVIDIA GeForce RTX 3090"}},
            "with RTX-3090 instead of RTX-4090",
        ),
    ],
)
def test_a_host_that_delivers_something_else_is_released_and_remembered(
    market, delivered, said
) -> None:
    """What the order says of the host after the purchase contradicts itself or what was ordered:
    released, confirmed, left alone, the next one tried.
    """
    world = market.world()
    first = collect.market(world, wanted().ask).plan(wanted().ask).candidates[0]
    market.state.deliver(int(first.placement.machine_type.removeprefix("server-")), **delivered)
    record = run(operations.create(world, wanted(), "g1"))
    assert [attempt.outcome for attempt in record.attempts] == ["NotWhatWasSold", "acquired"]
    assert said in record.attempts[0].message, record.attempts[0].message
    assert (record.status, len(market.alive)) == (
        "running",
        1,
    ) and record.placement.machine_type != first.placement.machine_type
    (block,) = world.journal.blocks("rehearsal")
    assert (block.scope.machine_type, block.scope.capacity) == (first.placement.machine_type, "")


def test_what_an_order_leaves_out_is_not_held_against_the_host(market) -> None:
    """A row without its GPUs says nothing; it is no contradiction."""
    world = market.world()
    first = collect.market(world, wanted().ask).plan(wanted().ask).candidates[0]
    market.state.deliver(
        int(first.placement.machine_type.removeprefix("server-")), gpu_array=[], specs={"gpu": ""}
    )
    record = run(operations.create(world, wanted(), "g1"))
    assert (record.placement.machine_type, len(record.attempts)) == (
        first.placement.machine_type,
        1,
    )


def test_b29_an_outbid_rental_is_told_as_such_and_replaced_by_the_plan(market) -> None:
    """The look says that it was outbid, the host is left alone for a while, and update places it
    anew under the cap; never two stand.
    """
    world, want = market.world(), wanted(capacity=(Capacity("spot"),))
    record = run(operations.create(world, want, "g1"))
    market.state.bid(71002, "USD-Blockchain", 30.0)
    seen = run(operations.read(world, record))
    assert (seen.status, seen.detail) == ("preempted", "outbid, or ended by the host") or (
        seen.status,
        seen.detail,
    ) == (
        "preempted",
        "outbid",
    )
    (block,) = world.journal.blocks("rehearsal")
    assert (block.scope.machine_type, block.scope.capacity) == ("server-71002", "spot")
    after = run(operations.update(world, seen, want))
    assert (
        after.status == "running"
        and after.placement.machine_type != "server-71002"
        and len(market.alive) == 1
    )


def test_b29_an_expired_rental_is_ended_and_not_rented_again(market) -> None:
    """The host's longest rental is over: ended, with that in the detail; an update rents nothing."""
    world, want = market.world(), wanted(capacity=(Capacity("on-demand"),))
    record = run(operations.create(world, want, "g1"))
    market.clock.advance(market.alive[0].mrl * 3_600 + 60)
    seen = run(operations.read(world, record))
    assert seen.status == "ended" and "longest rental" in seen.detail
    assert run(operations.update(world, seen, want)).status == "ended" and market.alive == []


def test_b29_a_service_that_does_not_answer_is_unreachable_not_outbid(market) -> None:
    """An error of the service is no word about the rental: it stays as it was, and the detail says
    that nobody could be asked.
    """
    world = market.world()
    record = run(operations.create(world, wanted(), "g1"))
    market.store.add_fault("clore", "my_orders", "unavailable", None)
    seen = run(operations.read(world, record))
    assert seen.status == "running" and seen.detail.startswith("unreachable")


def test_settling_an_owner_ends_every_order_of_it(market) -> None:
    """Ownership's delete finds orders by owner, whatever the cluster, and leaves those of others."""
    world = market.world()
    run(operations.create(world, wanted(name="one"), "g1"))
    run(operations.create(world, wanted(name="two"), "g2"))
    other = ClusterSpec("else", "three", wanted().ask, Setup(), "f1")
    run(operations.create(world, other, "g3"))
    assert len(market.alive) == 3
    run(operations.settle(world, "own"))
    assert len(market.alive) == 1


@pytest.mark.parametrize("up_already", [False, True])
def test_an_order_that_a_lost_run_never_saw_is_taken_over_from_another_home(
    market, tmp_path, monkeypatch, up_already
) -> None:
    """The run was killed as the order was made, and its home is lost: `up` takes the order over,
    relabelled, and buys none.
    """
    lost(market, monkeypatch, tmp_path, up_already)
    record = run(operations.create(market.world(), WANTED, "g2"))
    assert len(market.posts) == 1 and record.reasons == ()
    world = market.world()
    (node,) = run(world.call("clore", world.adapter("clore").find, "own", "train", "g2"))
    assert node.handle == record.handles[0]
    run(operations.delete(world, record))
    assert not market.alive


@pytest.mark.parametrize("up_already", [False, True])
def test_an_order_that_a_lost_run_never_saw_is_removed_by_destroy(
    market, tmp_path, monkeypatch, up_already
) -> None:
    """The same, and `destroy` follows: the Ownership's delete finds the order without a journal and
    ends it.
    """
    lost(market, monkeypatch, tmp_path, up_already)
    run(operations.settle(market.world(), "own"))
    assert not market.alive


WANTED = ClusterSpec(
    "own",
    "train",
    Ask((Choice("RTX-4090", 2, capacity=(Capacity("on-demand"),)),), providers=("clore",)),
    Setup(),
    "f1",
)


def lost(market, monkeypatch, tmp_path, up_already) -> None:
    """An order whose run ended right after it was sent, and whose journal is gone."""
    world = market.world()
    real = CloreAdapter.submit

    class Killed(BaseException):
        pass

    def submit(adapter, order) -> Never:
        real(adapter, order)
        raise Killed

    monkeypatch.setattr(CloreAdapter, "submit", submit)
    with pytest.raises(BaseException, match=r".*"):
        run(operations.create(world, WANTED, "g1"))
    monkeypatch.setattr(CloreAdapter, "submit", real)
    assert len(market.alive) == 1
    if up_already:
        market.clock.advance(120)
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "elsewhere"))


@pytest.mark.long
def test_many_clusters_at_once_take_their_turns_at_one_gate(tmp_path, monkeypatch) -> None:
    """Fifty clusters that look at the same time ask the marketplace no sooner than its limit."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    world = open_world("rehearsal", manifests={"clore": MANIFEST}, offers=table(()))

    try:
        record = run(operations.create(world, wanted(), "g1"))

        async def every() -> None:
            await asyncio.gather(*(operations.read(world, record) for _ in range(50)))

        began, before = time.time(), len(open_store().requests())
        run(every())
        asked = open_store().requests()[before:]
    finally:
        world.close()
        stop(tmp_path / "rehearsal.db")
    assert len(asked) >= 50
    assert asked[-1].at - began >= REHEARSAL_PACE.call_s * (len(asked) - 1)
