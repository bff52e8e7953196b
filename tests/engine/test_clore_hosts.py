"""Which of Clore's hosts are rented: filters, coins, and prices that cannot be."""

from __future__ import annotations

import pytest

from providers import errors
from providers.engine import operations
from providers.engine.market import collect
from tests.engine.cases import run
from tests.engine.test_clore import ordered, wanted


def test_the_spec_s_filters_decide_at_the_order(market) -> None:
    """options.clore of the declaration refuse hosts that the plan still showed."""
    record = run(operations.create(market.world(), wanted(options={"reliability": 0.995}), "g1"))
    assert record.placement.machine_type == "server-71001"


def test_the_spec_s_filters_decide_in_the_plan(market) -> None:
    """options.clore refuse hosts in the plan, each with its reason, and nothing is asked of them;
    what is bought passes.
    """
    section = {"reliability": 0.995, "exclude_servers": [71001]}
    strict = wanted(options=section)
    ask = strict.ask._replace(options={"clore": section})
    world = market.world()
    seen = collect.market(world, ask).plan(ask)
    refused = {str(found.offer.machine_type): found.found for found in seen.rejections}
    assert "server-71002" not in {candidate.machine_type for candidate in seen.candidates}
    assert (
        "reliability" in refused["server-71002"]
        and "wanted at least 0.995" in refused["server-71002"]
    )
    assert "excluded by exclude_servers" in refused["server-71001"]
    loose = collect.market(world, strict.ask).plan(strict.ask)
    assert "server-71002" in {candidate.machine_type for candidate in loose.candidates}


def test_a_time_a_disk_a_coin_and_a_bid_are_refused_in_the_plan(market) -> None:
    """How long a host can be rented, its disk, what it is paid with and its lowest bid are told
    before anything is ordered, each with the reason.
    """
    world = market.world()

    def plan(section=(), ttl_s=(None,), disk_gib=None):
        entry = wanted().ask.entries[0]
        entries = tuple(entry._replace(ttl_s=limit) for limit in ttl_s)
        ask = wanted().ask._replace(
            entries=entries, disk_gib=disk_gib, options={"clore": dict(section)} if section else {}
        )
        return collect.market(world, ask).plan(ask)

    def why(plan):
        return {each.found for each in plan.rejections if each.rule in {"sold", "ttl", "disk"}}

    def hosts(plan):
        return {candidate.machine_type for candidate in plan.candidates}

    everything = hosts(plan())
    long = plan(ttl_s=(900 * 3600,))
    assert hosts(long) < everything and any(
        "it can be rented for" in reason and "wanted 37d" in reason for reason in why(long)
    )
    assert everything == hosts(plan(ttl_s=(900 * 3600, None))), (
        "another choice has no ttl: any host may do"
    )
    big = plan(disk_gib=100_000)
    assert not hosts(big) and any("GB of disk, wanted 100000 GiB" in reason for reason in why(big))
    assert any(
        "takes " in reason and " only" in reason for reason in why(plan({"pay_with": ["bitcoin"]}))
    )
    low = plan({"max_bid_usd_per_hour": 0.01})
    assert "spot" not in {
        candidate.capacity for candidate in low.candidates
    } and everything == hosts(low)
    assert any(
        "/h at least, wanted at most $0.01/h (max_bid_usd_per_hour)" in reason
        for reason in why(low)
    )


def test_without_a_key_the_market_is_shown_and_refused(market) -> None:
    """A live market is listed; its rows are refused as not configured."""
    world = market.world("wanted an API key", name="live")
    plan = collect.market(world).plan(wanted().ask)
    assert plan.candidates == ()
    assert plan.rejected_by_rule["configured"]
    assert not plan.warnings


def test_a_host_whose_only_coin_the_wallet_lacks_is_skipped_with_all_like_it(market) -> None:
    """The cheapest two take bitcoin only, the wallet holds none: one attempt closes both, and a
    host payable in a funded coin is rented.
    """
    for number in (71001, 71002):
        market.state.change(number, allowed_coins=["bitcoin"])
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert (record.status, record.placement.machine_type) == ("running", "server-71003")
    assert [attempt.outcome for attempt in record.attempts] == ["InsufficientFunds", "acquired"]
    assert (
        "bitcoin a day, found 2000 CLORE-Blockchain, 500 USD-Blockchain, 0 bitcoin in the wallet"
        in record.attempts[0].message
    )
    assert len(market.posts) == 1


@pytest.mark.parametrize(
    ("empty", "paid"),
    [("USD-Blockchain", "CLORE-Blockchain"), ("CLORE-Blockchain", "USD-Blockchain")],
)
def test_a_host_that_takes_two_coins_is_paid_with_the_funded_one(market, empty, paid) -> None:
    """The first coin of `pay_with` is not there, the second is: the same host, without an attempt
    that fails.
    """
    market.state.set_wallet(empty, 0)
    record = run(operations.create(market.world(), wanted(), "g1"))
    assert (record.placement.machine_type, len(record.attempts)) == ("server-71002", 1)
    assert [paid] == [made.coin for made in market.alive]


def test_a_wallet_that_pays_no_host_is_told_with_the_coins_wanted_and_held(market) -> None:
    """Nothing on the market can be paid: the one message names every coin a host takes and every
    balance, and what to do.
    """
    for coin in ("bitcoin", "CLORE-Blockchain", "USD-Blockchain"):
        market.state.set_wallet(coin, 0)
    with pytest.raises(errors.InsufficientFunds) as caught:
        run(operations.create(market.world(), wanted(), "g1"))
    said = str(caught.value)
    assert all(
        f"{coin} a day" in said or f" {coin} or" in said
        for coin in ("bitcoin", "CLORE-Blockchain", "USD-Blockchain")
    )
    assert (
        "found 0 CLORE-Blockchain, 0 USD-Blockchain, 0 bitcoin in the wallet; deposit at clore.ai"
        in said
    )
    assert not market.posts


def test_a_coin_that_the_service_refuses_closes_the_hosts_that_take_no_other(market) -> None:
    """`not_enough_balance` though the wallet shows an hour: a host that takes this coin only is not
    tried, one that takes another is.
    """
    market.state.change(71001, allowed_coins=["USD-Blockchain"])
    market.store.add_fault(
        "clore", "create_order", "http", 1, status=200, reason="not_enough_balance"
    )
    servers = ordered(world := market.world())
    record = run(operations.create(world, wanted(), "g1"))
    assert (record.status, record.placement.machine_type) == ("running", "server-71003")
    assert [number for number, _ in servers] == [71002, 71003]


@pytest.fixture
def odd_host(market, monkeypatch):
    """Writes figures into the listing of server-71001, as its host would."""
    from providers.rehearsal.clouds.clore import inventory

    real = inventory.servers

    def change(**figures) -> None:
        def servers():
            return [row | figures if row["id"] == 71001 else row for row in real()]

        monkeypatch.setattr(inventory, "servers", servers)

    return change


def test_one_hosts_impossible_price_is_named_and_the_next_is_rented(market, odd_host) -> None:
    """The plan names the row that it leaves out; the cheapest other host is rented, once."""
    odd_host(price={"on_demand": {"USD-Blockchain": "1e5000"}, "spot": {}})
    world = market.world()
    plan = collect.market(world, wanted().ask).plan(wanted().ask)
    assert [line for line in plan.warnings if "cannot be read" in line] == [
        "clore: 1 listing left out that cannot be read: server 71001: its"
        " price.on_demand.USD-Blockchain cannot be 1e5000"
    ]
    record = run(operations.create(world, wanted(), "g1"))
    assert record.placement.machine_type == "server-71002"
    assert len(market.posts) == 1


def test_nothing_is_bought_by_a_plan_that_cannot_be_shown(market, monkeypatch) -> None:
    """Whatever keeps the table from being written keeps the order from being sent; the refusal says
    so.
    """
    monkeypatch.setattr("providers.planner.render.as_text", lambda *_, **__: 1 / 0)
    with pytest.raises(errors.GpusError, match="wanted a plan to show before anything is bought"):
        # A cap of its own: a plan that was shown before is not written again.
        run(operations.create(market.world(), wanted(cap=87_654_321), "g1"))
    assert list(market.posts) == []
    assert market.alive == []
