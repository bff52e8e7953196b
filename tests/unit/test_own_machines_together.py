"""Several machines of one's own as one cluster: all or none, whoever else wants them, and whoever
dies in between. Each is a folder here with a played driver, reached by a program in ssh's place.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from providers.adapters.ssh import inventory, reading, transport
from providers.adapters.ssh.adapter import Ssh
from providers.errors import HalfMade, NoCapacity
from providers.model.machine import GONE, RUNNING, Label, Order, Setup
from providers.model.offer import Candidate, Offer
from tests.unit.own_machine_rig import SMI, running, until

WAY = """#!/bin/bash
for word in "$@"; do before=$target target=$command command=$word; done
export GPUS_AGENT_ROOT={folder}/${{target}} PATH={folder}/bin:$PATH
kills() {{
  [ "$(cat {folder}/kill-$1 2>/dev/null)" = "${{command##* gpus-}}" ] && rm {folder}/kill-$1
}}
! kills before || kill -9 $PPID
sh -c "$command"
code=$?
! kills after || kill -9 $PPID
exit $code
"""
TOOLS = {"nvidia-smi", "way"}


class Rack:
    """So many machines."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.names = folder, [f"box-{number}" for number in range(size)]
        (folder / "bin").mkdir(exist_ok=True)
        for name, text in (("nvidia-smi", SMI), ("way", WAY.format(folder=folder))):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        machines = [{"name": each, "host": each, "usd_per_gpu_hour": 0} for each in self.names]
        given = {"machines": machines, "transport": [str(folder / "bin" / "way")]}
        self.inventory = inventory.read(given, "test")

    def adapter(self) -> Ssh:
        return Ssh("live", lambda: self.inventory, time.time)

    def order(self, token: str, nodes: int, script: str = "sleep 300") -> Order:
        offer = Offer(
            "ssh", "own", "", "own-machines", "RTX-4090", 4, "on-demand", 0, "2026-11-29", "test"
        )
        names = tuple(f"{token}-{rank}" for rank in range(nodes))
        placed = Candidate(1, 0, offer, nodes, "", 0)
        label = Label("owner", "train", "gen1", "f1")
        return Order(label, token, (placed,), names, Setup(script=script, ttl_s=3_600), 60)

    def leases(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("box-*/leases/*"))

    def files(self) -> list[str]:
        # os.walk passes over what is being removed.
        found = (
            name for each in self.names for _, _, got in os.walk(self.folder / each) for name in got
        )
        return sorted(found)


@pytest.fixture
def rack(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    made = []

    def of(size: int) -> Rack:
        made.append(Rack(tmp_path, size))
        return made[0]

    yield of
    for each in made:
        adapter = each.adapter()
        for node in adapter.find(""):
            adapter.delete(node.handle)
        until(lambda: not each.leases())  # noqa: B023 - called at once


@pytest.mark.long
@pytest.mark.parametrize(("size", "nodes", "users"), [(2, 2, 4), (3, 2, 3), (4, 3, 3)])
def test_of_several_who_want_the_same_machines_one_gets_all(rack, size, nodes, users) -> None:
    """At the same time; the others get none and leave nothing, not even a log."""
    made = rack(size)
    orders = [made.order(f"token-{user}", nodes) for user in range(users)]

    def take(order):
        try:
            return made.adapter().submit(order).handles
        except NoCapacity:
            return ()

    with ThreadPoolExecutor(users) as pool:
        held = [each for each in pool.map(take, orders) if each]
    assert [len(each) for each in held] == [nodes]
    winner = held[0][0].native_id.partition("/")[2]
    assert made.leases() == [winner] * nodes
    assert not [each for each in made.files() if each.endswith(".log")]


def test_nothing_begins_before_all_nodes_are_had(rack) -> None:
    """Where one machine is taken, the job ran nowhere; it is not begun on the others first."""
    made = rack(2)
    order = made.order("token-all", 2, f"touch {made.folder}/ran")
    other = made.order("token-one", 1)._replace(node_names=("n",))
    offer = next(each for each in made.adapter().offers() if each.zone == "box-1")
    made.adapter().submit(
        other._replace(candidates=(Candidate(1, 0, offer._replace(gpu_count=4), 1, "", 0),))
    )
    with pytest.raises(NoCapacity):
        made.adapter().submit(order)
    assert (made.leases(), (made.folder / "ran").exists()) == (["token-one"], False)


def test_an_order_asks_each_machine_three_times_and_a_release_once(rack, monkeypatch) -> None:
    """For its cards, to hold them, and to begin: what it told is not asked again. Nor is what it
    told when it released them.
    """
    made, asked, call = rack(2), [], transport.call

    def counted(known, machine, program, **how):
        asked.append((machine.name, program.verb))
        return call(known, machine, program, **how)

    monkeypatch.setattr(transport, "call", counted)
    monkeypatch.setattr(reading, "JUST_NOW_S", 60.0)
    adapter = made.adapter()
    ticket = adapter.submit(made.order("token", 2))
    assert ticket.state == "done"
    verbs = ("facts", "start", "take")
    assert sorted(asked) == [(name, verb) for name in made.names for verb in verbs]
    asked.clear()
    assert len(adapter.find("owner")) == len(adapter.observe(ticket.handles)) == 2
    assert asked == []
    adapter.observe(ticket.handles)  # Again: how are they by now?
    assert sorted(asked) == [(name, "look") for name in made.names]
    asked.clear()
    for handle in ticket.handles:
        adapter.delete(handle)
    assert [node.status for node in adapter.observe(ticket.handles)] == [GONE, GONE]
    assert adapter.find("owner") == []
    assert asked == [(name, "release") for name in made.names]


def test_what_a_machine_told_counts_until_something_is_written_there(rack, monkeypatch) -> None:
    """Also where a look that began before the writing ends after it."""
    made, call = rack(1), transport.call
    monkeypatch.setattr(reading, "JUST_NOW_S", 60.0)
    adapter = made.adapter()
    (handle,) = adapter.submit(made.order("token", 1)).handles
    late: list[bool] = []

    def overtaken(known, machine, program, **how):
        found = call(known, machine, program, **how)
        if program.verb == "facts" and not late:
            late.append(True)
            adapter.delete(handle)
        return found

    monkeypatch.setattr(transport, "call", overtaken)
    adapter.offers()
    assert late and adapter.observe([handle])[0].status == GONE and adapter.find("owner") == []


@pytest.mark.long
def test_what_ends_on_one_machine_ends_nothing_on_another(rack) -> None:
    """Two nodes of one order on one host, as in containers: the lease that ended first took the
    other's keeper with it, so that nothing ended that one any more.
    """
    made = rack(2)
    first, second = made.adapter().submit(made.order("token-host", 2)).handles
    made.adapter().delete(first)
    until(lambda: len(made.leases()) == 1)
    assert made.adapter().observe([second])[0].status == RUNNING
    for what in ("KEEPER", "LEASE_FOLDER"):
        assert running(f"GPUS_{what}={made.folder}/box-1/leases/token-host/own"), what


TOOL = """
import sys, time
sys.path.insert(0, {root!r})
from tests.unit.test_own_machines_together import Rack
from pathlib import Path
made = Rack(Path({folder!r}), 2)
order = made.order("token-killed", 2)
handles = made.adapter().submit(order).handles
for handle in handles:
    made.adapter().delete(handle)
"""


@pytest.mark.long
@pytest.mark.parametrize("time_of", ["before", "after"])
@pytest.mark.parametrize("verb", ["facts", "take", "start", "release"])
def test_what_a_killed_tool_left_is_settled_by_the_next_one(rack, verb, time_of) -> None:
    """Killed with -9 just before or after a machine does what it is asked. The next run finds all
    of it by the order's token or its owner, and after a release nothing is held and nothing runs.
    """
    made = rack(2)
    (made.folder / f"kill-{time_of}").write_text(verb)
    tool = TOOL.format(root=str(Path(__file__).parents[2]), folder=str(made.folder))
    died = subprocess.run([sys.executable, "-c", tool], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    order, adapter = made.order("token-killed", 2), made.adapter()
    try:
        ticket = adapter.resume(order)
    except HalfMade as half:
        ticket, left = None, half.handles
    else:
        left = () if ticket is None else ticket.handles
    if ticket is not None and verb == "take":
        # All were held, and nothing had begun.
        assert not running("GPUS_LEASE=token-killed")
        assert adapter.poll(ticket).state == "done"
        assert [node.status for node in adapter.observe(left)] == [RUNNING, RUNNING]
    assert {node.handle for node in adapter.find("owner")} == set(left)
    for handle in left:
        adapter.delete(handle)
    until(lambda: not made.leases())
    assert not running("GPUS_LEASE=token-killed")
    # What is not a tool or a log is being removed.
    until(lambda: {Path(each).suffix for each in made.files() if each not in TOOLS} <= {".log"})
