"""The calls to machines of one's own, over real ssh servers: how they share a connection, and what
becomes of one whose machine went away meanwhile.
"""

import json
import os
import signal
import socket
import subprocess
import time

import pytest

from providers.adapters.ssh import inventory, port, transport
from providers.adapters.ssh.adapter import Ssh
from providers.errors import Transient
from providers.model.machine import Handle, Node
from tests.plugin.boxes import boxes
from tests.plugin.conftest import wait_until

__all__ = ["boxes"]

pytestmark = pytest.mark.long


@pytest.fixture
def adapter(boxes, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    known = inventory.loads(json.dumps({"machines": [box.entry() for box in boxes]}))
    made = Ssh("live", lambda: known, time.time)
    # A server may not listen yet.
    end = time.monotonic() + 20
    while len(made.offers()) < 4:
        assert time.monotonic() < end
    return made


def test_all_calls_to_a_machine_share_one_connection(adapter, boxes) -> None:
    """Also those of a later process; a socket that leads there is its owner's alone."""
    before = [box.connections() for box in boxes]
    for _ in range(3):
        adapter.offers()
        adapter.find("owner")
    assert [box.connections() for box in boxes] == before
    assert [len(box.logins()) for box in boxes] == [1, 1]


def test_a_machine_that_was_unplugged_and_is_back_is_asked_anew(adapter, boxes) -> None:
    """While it is away it is unknown, never taken for free or gone."""
    adapter.offers()
    boxes[0].power_off()
    with pytest.raises(Transient):
        adapter.observe([Handle("ssh", "box-1/token")])
    boxes[0].start()
    end = time.monotonic() + 20
    while len(adapter.offers()) < 4:
        assert time.monotonic() < end


def test_a_connection_to_a_machine_as_it_was_before_is_left(adapter, boxes, monkeypatch) -> None:
    """It hangs; nothing was done there, so another one is made."""
    adapter.offers()
    monkeypatch.setattr(transport, "SHARED_S", 1.0)
    hung = boxes[0].logins()
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert len(adapter.offers()) == 4
        assert boxes[0].logins() != hung
    finally:
        for pid in hung:
            os.kill(pid, signal.SIGCONT)


def test_a_port_of_a_machine_is_carried_here(boxes, tmp_path, monkeypatch) -> None:
    """By a connection of its own, which ends with what carries it."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    file = tmp_path / "inventory.yaml"
    file.write_text(json.dumps({"machines": [box.entry() for box in boxes]}))
    node = Node(Handle("ssh", "box-2/token"), "train-0", "running")
    words = port(node, {"inventory": str(file)})
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("", 0)) as free:
        local, remote = free.getsockname()[1], there.getsockname()[1]
        free.close()
        wait_until(lambda: _answers(boxes[1].port, boxes[1].address), 20)
        carrying = subprocess.Popen([*words, str(local), str(remote)])
        try:
            wait_until(lambda: _answers(local), 20)
            assert there.accept()
        finally:
            carrying.terminate()
            carrying.wait()
    wait_until(lambda: not boxes[1].logins(), 10)
    file.write_text(json.dumps({"machines": [{"name": "box-2", "host": "local"}]}))
    assert port(node, {"inventory": str(file)}) == ()


def _answers(port: int, address: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((address, port)).close()
    except OSError:
        return False
    return True


def test_another_login_or_pinned_key_is_another_connection(adapter, boxes) -> None:
    """An inventory whose pinned key is another one does not go by a connection that was there."""
    adapter.offers()
    entry = {**boxes[0].entry(), "host_key": (boxes[1].folder / "host.pub").read_text().strip()}
    entry["host_key"] = " ".join(str(entry["host_key"]).split()[:2])
    other = inventory.loads(json.dumps({"machines": [entry]}))
    made = Ssh("live", lambda: other, time.time)
    assert made.offers() == [] and made.remarks
