"""Clore on the command line: the market's rows, host filters, the rehearsal's console."""

import json
from typing import Any

import pytest

from providers.cli import main
from providers.errors import CloudError
from providers.rehearsal.clouds.clore import console
from providers.rehearsal.clouds.clore.state import State
from providers.rehearsal.store import open_store
from tests.present import present


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUS_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    code = main.main(arguments)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_offers_of_the_market_with_host_filters(capsys) -> None:
    """--where narrows the hosts; a refused one is listed with the figure found and the one wanted."""
    code, out, _ = run(
        capsys,
        "offers",
        "RTX-4090:2",
        "--provider",
        "clore",
        "--where",
        "reliability>=0.995,cuda>=12.4,down>=500",
        "--sort",
        "price",
        "--json",
    )
    good = {offer["machine_type"] for offer in json.loads(out) if not offer["restriction"]}
    why = {
        offer["machine_type"]: offer["restriction"]
        for offer in json.loads(out)
        if offer["restriction"]
    }
    assert code == 0
    assert {"server-71001", "server-71003", "server-71007"} == good
    assert why["server-71002"] == "reliability 0.991, wanted at least 0.995"
    assert why["server-71006"] == "rented"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("relyability>=0.98", "'relyability'"),
        ("cuda=12", "'cuda=12'"),
        ("reliability>=7", "'7'"),
        ("pcie>=4", "'pcie'"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_line(capsys, where, found) -> None:
    """Unknown and ambiguous names, another comparison, a figure out of range: wanted, found, and
    what there is.
    """
    code, out, err = run(capsys, "offers", "RTX-4090:2", "--where", where)
    assert (out, code != 0) == ("", True)
    assert found in err
    assert "--where" in err


def test_the_rehearsal_shows_orders_and_outbids_them(capsys) -> None:
    """`gpus rehearse` lists what stands in the market, and a preemption is a higher bid."""
    state = State(open_store())
    state.store.set_latency("clore", "create", 0)
    made = state.make(
        71001, spot=True, coin="USD-Blockchain", per_day=6.4, image="x", ports={"22": "tcp"}, mrl=10
    )
    assert (
        f"order-{made.id} STAGING clore NL server-71001 RTX-4090:2 spot"
        in run(capsys, "rehearse")[1]
    )
    assert f"preempted: order-{made.id}" in run(capsys, "rehearse", "preempt", "all")[1]
    assert "OUTBID" in run(capsys, "rehearse")[1]
    assert console.preempt(state.store, f"order-{made.id}") == 0
    assert run(capsys, "rehearse", "stock", "clore", "NL", "RTX-4090", "on-demand", "0")[0] == 0
    assert state.refuses(present(state.server(71010)), "on-demand")
    assert not state.refuses(present(state.server(71010)), "spot")


def test_check_on_the_rehearsal(capsys) -> None:
    """Market, key, wallet and fees are there."""
    code, out, _ = run(capsys, "check", "clore", "--json")
    assert {"ok"} == {line["state"] for line in json.loads(out)}
    assert code == 0


def test_a_market_that_nothing_happened_to_is_listed_without_a_server(tmp_path) -> None:
    """The short cut of a cold plan gives what the stand-in gives over the wire, and opens nothing."""
    from providers.adapters.clore import MANIFEST
    from providers.engine.runtime.world import connected

    cold = connected(MANIFEST, "rehearsal", {}).offers()
    assert not (tmp_path / "home" / "rehearsal.db").exists()
    store = open_store()
    assert cold == connected(MANIFEST, "rehearsal", {}).offers()
    assert store.requests("marketplace") == ()
    store.set_stock("clore", "NOWHERE", "", "spot", 5)
    assert cold == connected(MANIFEST, "rehearsal", {}).offers()
    assert len(store.requests("marketplace")) == 1


@pytest.mark.parametrize("what", ["a changed server", "an order", "a planned failure", "stock"])
def test_once_something_happened_the_market_is_asked(what) -> None:
    """A change of the market, an order, or the scenario's own lines: from then on the stand-in
    answers, over the wire.
    """
    from providers.adapters.clore import MANIFEST
    from providers.engine.runtime.world import connected
    from providers.rehearsal.clouds.clore import untouched

    store = open_store()
    state = State(store)
    assert untouched(store)
    if what == "a changed server":
        state.change(71001, rented=True)
    elif what == "an order":
        state.make(
            71001, spot=False, coin="USD-Blockchain", per_day=11.9, image="", ports={}, mrl=1.0
        )
    elif what == "a planned failure":
        store.add_fault("clore", "marketplace", "unavailable", 1)
    else:
        store.set_stock("clore", "NL", "server-71001", "on-demand", 0)
        store.set_stock("clore", "NL", "server-71001", "spot", 0)
    assert not untouched(store)
    adapter = connected(MANIFEST, "rehearsal", {})
    if what == "a planned failure":
        with pytest.raises(CloudError):
            adapter.offers()
    else:
        assert {"rented"} == {
            offer.restriction
            for offer in present(adapter.offers())
            if offer.machine_type == "server-71001"
        }
    assert len(store.requests("marketplace")) == 1


def test_a_rehearsal_without_orders_is_not_asked_for_any(tmp_path) -> None:
    """Looking for an owner's machines starts no stand-in where nothing was ever ordered."""
    from providers.adapters.clore import MANIFEST
    from providers.engine.runtime.world import connected

    assert tuple(connected(MANIFEST, "rehearsal", {}).find("somebody")) == ()
    assert not (tmp_path / "home" / "rehearsal.db").exists()


def test_live_without_a_key_connects_and_says_what_is_missing(monkeypatch) -> None:
    """No call is made; the key is named; with one nothing is missing."""
    from providers.adapters.clore import connect

    monkeypatch.delenv("CLORE_API_KEY", raising=False)
    bare: Any = connect("live", {})
    assert "CLORE_API_KEY" in bare.not_configured
    monkeypatch.setenv("CLORE_API_KEY", "sk-1")
    adapter: Any = connect("live", {"reliability": "0.99"})
    assert adapter.not_configured == ""
    assert "sk-1" not in repr(vars(adapter))


def test_a_setting_that_cannot_be_read_is_told_with_its_path() -> None:
    """Wanted, found, and where it stands."""
    from providers.adapters.clore import connect
    from providers.errors import SpecError

    with pytest.raises(SpecError) as caught:
        connect("rehearsal", {"cuda": "twelve"})
    assert caught.value.problems[0].path == "settings.clore.cuda"
