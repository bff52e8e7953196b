"""What the Clore adapter observes: ports, deadlines, ended orders, broken lists."""

import pytest

from providers import errors
from providers.adapters.clore import orders
from providers.model.machine import RUNNING, STARTING, Setup


def test_b31_ports_are_read_in_both_shapes() -> None:
    """A list of pairs or a mapping; the first host; nothing yet is not ready, never port 22."""
    row = {
        "pub_cluster": ["n1.x", "n2.x"],
        "tcp_ports": ["22:10000", "8000:10001"],
        "http_port": "8888",
        "mon_container": 2,
    }
    assert (
        orders.host(row),
        orders.ports(row),
        orders.is_up(row),
    ) == ("n1.x", {22: 10000, 8000: 10001}, True)
    row["tcp_ports"] = {"22": 10000}
    row["pub_cluster"] = "n1.x"
    assert (orders.host(row), orders.ports(row), orders.is_up(row)) == ("n1.x", {22: 10000}, True)
    row["tcp_ports"] = []
    assert (orders.ports(row), orders.is_up(row)) == ({}, False)
    row["tcp_ports"] = ["x", "8000:", ":1", None, "8000:10001"]
    assert (orders.ports(row), orders.is_up(row)) == ({8000: 10001}, False)


def test_b31_a_container_without_ports_is_waited_for_until_the_deadline(bench) -> None:
    """Not ready yet is waiting; past the deadline it is half made, and the stage is named."""
    bench.store.add_fault("clore", "create_order", "slow", 1, seconds=1e6)
    ticket = bench.adapter.submit(bench.order())
    bench.clock.at += 100
    ticket = bench.adapter.poll(ticket)
    assert (ticket.state, ticket.detail) == ("waiting", "starting")
    assert bench.adapter.observe(ticket.handles)[0].status == STARTING
    bench.clock.at += 500
    with pytest.raises(errors.HalfMade) as caught:
        bench.adapter.poll(ticket)
    assert "no address" in str(caught.value)
    assert ticket.handles == caught.value.handles


def test_an_order_that_ends_before_it_is_up_is_gone(bench) -> None:
    """The host ended it: the next server is tried, nothing is left."""
    bench.store.add_fault("clore", "create_order", "op-error", 1)
    order = bench.order()
    ticket = bench.adapter.submit(order)
    bench.clock.at += 30
    with pytest.raises(errors.OfferGone):
        bench.adapter.poll(ticket)
    assert bench.adapter.resume(order) is None


def test_a_row_of_the_completed_list_ended_unless_it_says_otherwise() -> None:
    """Whether that list holds standing orders too is not documented: what it says of itself
    decides, silence is an end.
    """
    assert orders.has_ended(orders.from_completed({"id": 1}))
    assert orders.has_ended(orders.from_completed({"id": 1, "expired": True}))
    assert not orders.has_ended(orders.from_completed({"id": 1, "expired": False}))


def test_an_order_left_out_of_one_reply_is_not_gone(bench, monkeypatch) -> None:
    """Neither active nor completed, it is looked for among the active ones again."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    whole, asked = bench.adapter.client.my_orders, []

    def once_empty(*, completed: bool = False):
        asked.append(completed)
        return [] if len(asked) == 1 else whole(completed=completed)

    monkeypatch.setattr(bench.adapter.client, "my_orders", once_empty)
    assert bench.adapter.observe(ticket.handles)[0].status == RUNNING
    assert asked == [False, True, False]


def test_jupyter_needs_its_token_from_the_environment(bench, tmp_path) -> None:
    """Without one it is refused; with one the web port is mapped, its address is told, and the
    token is in no record.
    """
    setup = Setup(options=(("jupyter", True),))
    with pytest.raises(errors.NotConfigured):
        bench.adapter.submit(bench.order(setup=setup))
    bench.adapter.jupyter_token = "tok-secret"
    ticket = bench.up(bench.adapter.submit(bench.order(setup=setup)))
    assert bench.adapter.observe(ticket.handles)[0].detail.startswith("https://")
    assert "tok-secret" not in repr(ticket)
    assert (
        b"tok-secret"
        not in (tmp_path / "memory.db").read_bytes() + (tmp_path / "rehearsal.db").read_bytes()
    )


def test_observing_through_a_broken_list_is_no_word_that_it_is_gone(bench) -> None:
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
    assert bench.adapter.observe(ticket.handles)[0].status == RUNNING


@pytest.mark.parametrize(
    "huge",
    ["1e99999", "9" * 400, "inf", float("nan"), 1e300, -1, 65_536, "22.5"],
    ids=lambda value: str(value)[:8],
)
def test_a_port_that_cannot_be_is_left_out_at_once(huge) -> None:
    """Numbers of an order have bounds, too: a port, a time, a state."""
    assert orders.ports({"tcp_ports": ["22:1277", f"23:{huge}", f"{huge}:24"]}) == {22: 1277}
    assert orders.ports({"tcp_ports": {"22": 1277, "23": huge, str(huge): 24}}) == {22: 1277}
    assert not orders.is_up(
        {"mon_container": huge, "tcp_ports": ["22:1277"], "pub_cluster": ["n1"]}
    )
    assert orders.made({"ct": huge}) in {None, 65_536.0, 22.5}
