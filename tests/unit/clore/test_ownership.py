"""Whose an order at Clore is: by its label, by its intent, with and without the memory."""

import json
import sqlite3

import pytest

from providers import errors
from providers.adapters.clore import label
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.nodes import handle_of
from providers.model.machine import GONE, Label, Setup
from tests.unit.clore.rig import LABEL


def test_an_unknown_order_on_the_key_blocks_buying_until_claimed(bench) -> None:
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
    assert bench.posts() == []
    bench.adapter.submit(bench.order(setup=Setup(options=(("claimed_orders", [made.id]),))))


def test_another_stack_s_order_on_the_key_does_not_block(bench) -> None:
    """Its label says that it is this product's, whoever its owner is; another machine sees that."""
    bench.up(bench.adapter.submit(bench.order(label=Label("owner-2", "other", "g", "f"))))
    bench.adapter.submit(bench.order(71002))
    assert len(bench.alive()) == 2


def test_another_machine_knows_an_order_by_its_label(bench) -> None:
    """Owner and cluster are in the ports; the generation is not, so no clean-up of a generation
    takes it.
    """
    ticket = bench.up(bench.adapter.submit(bench.order()))
    elsewhere = bench.another_machine()
    assert ticket.handles == tuple(node.handle for node in elsewhere.find("owner-1"))
    assert ticket.handles == tuple(node.handle for node in elsewhere.find("owner-1", "bench"))
    assert elsewhere.find("owner-1", "bench", "g1") == []
    assert elsewhere.find("owner-1", "another") == []
    assert elsewhere.find("owner-2") == []
    elsewhere.relabel(ticket.handles[0], "g2")
    assert [node.label.generation for node in elsewhere.find("owner-1", "bench", "g2")] == ["g2"]


def test_an_order_in_flight_is_found_by_its_intent(bench) -> None:
    """Listed but not polled yet, it carries its full label."""
    bench.adapter.submit(bench.order())
    bench.clock.at += 10
    assert [node.label for node in bench.adapter.find("owner-1", "bench", "g1")] == [LABEL]


def test_an_intent_of_an_earlier_version_is_read(tmp_path) -> None:
    """The stored name of a label is the one that earlier versions wrote."""
    memory = Memory(tmp_path / "memory.db")
    memory.cancelled(1)
    old = (
        '{"token": "t", "mark": ["owner-1", "bench", "g1", "f00d"], "server": 1, "capacity":'
        ' "spot", "coin": "", "per_day": "", "usd_per_day": "", "cap_usd_per_day": "",'
        ' "started_at": 0, "deadline_s": 0, "before": [7], "answered": false, "refused": false}'
    )
    with sqlite3.connect(tmp_path / "memory.db") as db:
        db.execute("INSERT INTO clore_intent VALUES ('t', ?)", (old,))
    (found,) = memory.intents()
    assert (found.label, found.before) == (LABEL, (7,))
    memory.intend(found)
    with sqlite3.connect(tmp_path / "memory.db") as db:
        (written,) = db.execute("SELECT content FROM clore_intent").fetchone()
    assert json.loads(written) == json.loads(old)


def test_a_generation_is_rewritten_here(bench) -> None:
    """Relabelling an adopted order changes what find answers."""
    ticket = bench.up(bench.adapter.submit(bench.order()))
    bench.adapter.relabel(ticket.handles[0], "g9")
    assert bench.adapter.find("owner-1", "bench", "g1") == []
    assert [node.label.generation for node in bench.adapter.find("owner-1")] == ["g9"]
    with pytest.raises(errors.Unsupported):
        bench.adapter.relabel(handle_of(5), "g9")


def test_a_label_is_recognised_beside_other_ports() -> None:
    """Two ports in their own ranges, the second confirming the first; near pairs are not labels."""
    first, second = label.ports("owner-1", "bench")
    assert label.belongs([22, 8000, first, second], "owner-1", "bench")
    assert label.belongs({first: 1, second: 2}, "owner-1")
    assert not label.belongs([first, second], "owner-1", "else")
    assert not label.is_label([first])
    assert not label.is_label([22, 8888])
    assert not label.is_label([first, second + 256 if second + 256 < 49_152 else second - 256])


@pytest.mark.parametrize("harm", ["random bytes", "a folder", "below a file"])
def test_an_order_is_ended_without_the_memory(bench, harm) -> None:
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
    client.gate.path = place / "pace" if harm == "below a file" else place
    handle = ticket.handles[0]
    bench.clock.at += 10
    adapter.delete(handle)
    bench.clock.at += 10
    assert adapter.observe((handle,))[0].status == GONE
    assert [node for node in adapter.find("owner-1") if node.status != GONE] == []
    assert not bench.alive()
    with pytest.raises((OSError, sqlite3.Error)):
        adapter.submit(bench.order(server=71002))
    assert len(bench.posts()) == 1
    client.close()
