"""This machine as one of one's own for tests: a folder and a played driver, no ssh. What is sent to
it runs for real.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from providers.adapters.ssh import agent, inventory, transport
from providers.adapters.ssh.adapter import Ssh
from providers.model.machine import Handle, Label, Order, Setup
from providers.model.offer import Candidate

SMI = """#!/bin/sh
case "$*" in
  *--query-compute-apps*) ;;
  -i*--query-gpu=name,memory.total*)
    for n in $(echo "$2" | tr , " "); do echo "NVIDIA GeForce RTX 4090, 24564 MiB"; done ;;
  *) for n in 0 1 2 3; do echo "$n, GPU-$n, 24564, 570.00, NVIDIA GeForce RTX 4090"; done ;;
esac
"""
LOCAL = inventory.read({"machines": [{"host": "local", "usd_per_gpu_hour": 0}]}, "test")


class Here:
    """This machine with four played cards, as any process sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def adapter(self) -> Ssh:
        return Ssh("live", lambda: LOCAL, time.time)

    def order(self, token: str, script: str = "", ttl_s: int | None = None) -> Order:
        offer = next(each for each in self.adapter().offers() if each.gpu_count == 1)
        placed = Candidate(1, 0, offer, 1, "", offer.node_micro_usd)
        label = Label("owner", "train", "gen1", "f1")
        return Order(label, token, (placed,), (token,), Setup(script=script, ttl_s=ttl_s), 60)

    def take(self, token: str, script: str = "", ttl_s: int | None = None) -> Handle:
        (handle,) = self.adapter().submit(self.order(token, script, ttl_s)).handles
        return handle

    def status(self, handle: Handle) -> str:
        return self.adapter().observe([handle])[0].status

    def cards(self) -> list[str]:
        found = agent.read(transport.call(LOCAL, LOCAL.machines[0], agent.program("look")))
        return sorted(card for lease in found.leases for card in lease.cards)

    def files(self) -> list[str]:
        # os.walk passes over what is being removed.
        return sorted(
            str((Path(folder) / name).relative_to(self.folder))
            for folder, _, names in os.walk(self.folder)
            for name in names
        )


@pytest.fixture
def here(tmp_path, monkeypatch):
    tools, root = tmp_path / "bin", tmp_path / "agent"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GPUS_AGENT_ROOT", str(root))
    yield Here(root)
    adapter = Ssh("live", lambda: LOCAL, time.time)
    for node in adapter.find(""):
        adapter.delete(node.handle)
    until(lambda: not adapter.find(""))


def until(true, seconds=20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds}s"
        time.sleep(0.1)


def running(word: str) -> list[str]:
    """The processes whose environment has this word."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if word.encode() in file.read_bytes():
                found.append(file.parent.name)
    return found
