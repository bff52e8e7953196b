"""Calls to Clore: failures of the HTTP client, keys, pace, and the table of codes."""

import itertools
from typing import Never

import httpx
import pytest

from providers import errors
from providers.adapters.clore import errors as codes
from providers.adapters.clore.client import Client
from providers.adapters.clore.gate import LIVE_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.nodes import handle_of
from providers.model.machine import Handle
from tests.unit.clore.rig import SSH, Bench, Clock


def test_an_unreachable_service_is_transient_even_for_an_order(tmp_path) -> None:
    """No connection, nothing sent."""
    bench = Bench(tmp_path)
    order = bench.order()
    bench.server.close()
    with pytest.raises(errors.Transient) as caught:
        bench.opened(bench.memory)[0].create_order({}, token=order.token, server=1, capacity="spot")
    assert caught.value.code == "unreachable"
    bench.client.close()


def test_every_failure_of_the_http_client_is_of_the_tree(bench, monkeypatch) -> None:
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

        def fail(*arguments, kind=kind, **rest) -> Never:
            raise kind.__new__(kind)

        monkeypatch.setattr(httpx.Client, "request", fail)
        with pytest.raises(errors.Transient):
            bench.client.my_orders()
        with pytest.raises(
            errors.Transient if kind.__name__ in never_sent else errors.OutcomeUnknown
        ):
            bench.client.create_order({}, token="t", server=1, capacity="spot")


def test_a_proxy_variable_that_cannot_be_used_is_one_line(tmp_path, monkeypatch) -> None:
    """It is told as unreachable, not as a crash."""
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    gate = Gate(tmp_path / "pace", LIVE_PACE, Clock(), lambda seconds: None)
    with pytest.raises(errors.Transient) as caught:
        Client("k", gate, lambda: "http://127.0.0.1:9/v1").my_orders()
    assert caught.value.code == "unreachable"


def test_the_pace_is_kept_across_clients(bench) -> None:
    """Two clients of one key, as in two processes, never call within a second of each other, nor
    order within five.
    """
    other = bench.opened(Memory(bench.folder / "memory.db"))[0]
    for client in (bench.client, other, bench.client, other):
        client.my_orders()
    at = [request.at for request in bench.store.requests("my_orders")]
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(at))
    bench.adapter.submit(bench.order(71001))
    bench.adapter.submit(bench.order(71002))
    first, second = (request.at for request in bench.posts())
    assert second - first >= 4.999
    assert not [request for request in bench.store.requests() if request.status == 429]


def test_the_market_needs_no_key_and_waits_for_no_turn(tmp_path) -> None:
    """Offers are listed without a key; buying says what is missing; nothing of an owner is looked
    for.
    """
    bench = Bench(tmp_path, key="", not_configured="wanted an API key")
    assert bench.adapter.offers()
    assert bench.clock.slept == []
    with pytest.raises(errors.NotConfigured):
        bench.adapter.submit(bench.order())
    assert bench.adapter.find("owner-1") == ()
    assert [(line.topic, line.state) for line in bench.adapter.check()] == [
        ("key", "missing"),
        ("market", "ok"),
    ], "what to do about it comes first"
    bench.client.close()
    bench.server.close()


def test_a_refused_key_is_bad_credentials(tmp_path) -> None:
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


def test_a_check_without_an_answer_says_what_was_not_read_and_what_to_do_once(bench) -> None:
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


def test_check_says_what_the_wallet_is_good_for(bench) -> None:
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
    assert {topic: line.state for topic, line in lines.items()} == {
        "market": "ok",
        "key": "ok",
        "orders": "unknown",
        "wallet": "ok",
        "fees": "ok",
    }
    assert "h of what runs" in lines["wallet"].found


def test_updates_that_the_market_does_not_keep(bench) -> None:
    """Labels and ttl need no call; anything else cannot be changed on a running order."""
    bench.adapter.update(handle_of(1), {"labels": {"a": "b"}, "ttl": 3600})
    with pytest.raises(errors.Unsupported):
        bench.adapter.update(handle_of(1), {"ssh_key": SSH})
    assert bench.store.requests() == ()


def test_a_native_id_of_another_cloud_is_refused() -> None:
    """Wanted and found in one line."""
    from providers.adapters.clore.nodes import order_of

    assert order_of(Handle("clore", "orders/12")) == 12
    assert order_of(Handle("clore", "12")) == 12
    with pytest.raises(errors.Unsupported):
        order_of(Handle("clore", "projects/p/zones/z/instances/1"))


def test_unknown_routes_and_fields_fail(bench) -> None:
    """The stand-in answers code 4 for a route and code 2 for a field that the service does not
    have.
    """
    with pytest.raises(errors.Unsupported) as caught:
        bench.client.call("GET", "servers")
    assert caught.value.code == "4"
    with pytest.raises(errors.Unsupported) as caught:
        bench.client.call("GET", "my_orders", params={"page": "2"})
    assert caught.value.code == "2"


def test_every_row_of_the_table_is_dated_and_of_a_class() -> None:
    """Each code has a source, a date and the error it says; a create's lost answers are unknown
    outcomes.
    """
    for row in codes.TABLE:
        assert row.source
        assert row.date == "2026-11-27"
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
def test_status_content_and_code_are_all_read(status, reply, code) -> None:
    """A non-zero code can come with HTTP 200, a page with any status."""
    assert code == codes.code_of(status, reply)


def test_calls_keep_their_pace_where_the_file_of_it_cannot_be_used(tmp_path) -> None:
    """Without the shared file a process still makes one call a second."""
    clock = Clock()
    gate = Gate(tmp_path / "missing" / "pace", LIVE_PACE, clock, clock.sleep)
    for _ in range(4):
        gate.turn()
    assert pytest.approx(clock.slept) == [1.0, 1.0, 1.0]
