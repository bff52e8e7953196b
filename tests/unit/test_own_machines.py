"""Machines of one's own: the lock on the machine, what a lease leaves, the inventory, prices that
somebody said, and what an unanswered question means. The machine is this one, in a folder of its
own, with a played driver.
"""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from providers.adapters import registry
from providers.adapters.ssh import agent, inventory, names, transport
from providers.adapters.ssh.adapter import Ssh
from providers.catalog import names as models
from providers.catalog.table import table
from providers.engine.runtime.world import open_world
from providers.errors import (
    BadCredentials,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    SpecError,
    Transient,
)
from providers.model.ask import Ask, Choice
from providers.model.capability import Capabilities
from providers.model.machine import GONE, PREEMPTED, RUNNING, Handle, Label, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.workload import Mount, Process, Program, Task, Workload
from providers.planner import plan
from providers.workloads.launch.start_script import script
from tests.unit.own_machine_rig import LOCAL, here, running, until

__all__ = ["here"]


def test_no_card_is_lent_twice(here) -> None:
    """Eight take one of four cards at once, each as a process of its own would: four get one, no
    two the same, and the others are told that there is none.
    """
    orders = [here.order(f"token-{number}") for number in range(8)]

    def take(order):
        with suppress(NoCapacity):
            return here.adapter().submit(order)
        return None

    with ThreadPoolExecutor(8) as pool:
        taken = [ticket for ticket in pool.map(take, orders) if ticket is not None]
    assert (len(taken), here.cards()) == (4, [f"GPU-{number}" for number in range(4)])


def test_a_release_ends_the_whole_process_tree_and_leaves_only_the_log(here) -> None:
    """A job that went into a session of its own ends too; afterwards the machine has a log of the
    lease, and its cards are free.
    """
    script = 'mkdir -p "$GPUS_ROOT"; echo begun >"$GPUS_ROOT/log"; setsid sleep 300 & sleep 300'
    handle = here.take("token-tree", script)
    until(lambda: len(running("GPUS_LEASE=token-tree")) >= 3)
    until(lambda: "begun" in here.adapter().log(handle))
    here.adapter().delete(handle)
    until(lambda: here.status(handle) == GONE)
    assert (running("GPUS_LEASE=token-tree"), here.cards()) == ([], [])
    assert here.files() == ["logs/token-tree.log"]
    until(lambda: not running(f"GPUS_KEEPER={here.folder}/leases/token-tree/own"), 5)
    assert "begun" in here.adapter().log(handle)


@pytest.mark.long
def test_a_lease_ends_with_its_ttl_though_nobody_asks(here) -> None:
    """Nobody looks meanwhile: what ran is ended and its files are gone."""
    script = "sleep 300"
    handle = here.take("token-ttl", script, ttl_s=2)
    assert running("GPUS_LEASE=token-ttl")
    until(lambda: here.files() == ["logs/token-ttl.log"])
    assert not running("GPUS_LEASE=token-ttl")
    (node,) = here.adapter().observe([handle])
    assert (node.status, node.ended) == (GONE, True)


def test_the_same_order_delivered_again_is_the_same_lease(here) -> None:
    """Sent twice it is one lease; sent once more after its release it is refused, never begun
    anew.
    """
    order = here.order("token-again")
    first, second = here.adapter().submit(order), here.adapter().submit(order)
    assert (first.handles, here.cards()) == (second.handles, ["GPU-0"])
    here.adapter().delete(first.handles[0])
    until(lambda: here.status(first.handles[0]) == GONE)
    with pytest.raises(Exception, match="has ended this lease already"):
        here.adapter().submit(order)
    assert here.cards() == []


def test_a_machine_that_was_started_anew_has_lost_its_leases(here, monkeypatch) -> None:
    """After a reboot the lease reads as preempted, not as free and not as running; its card is."""
    handle = here.take("token-boot")
    with monkeypatch.context() as after:
        after.setenv("GPUS_BOOT_ID", "another")
        assert here.status(handle) == PREEMPTED
        assert here.status(here.take("token-next")) == RUNNING


def test_a_machine_that_does_not_answer_is_unknown() -> None:
    """Neither gone nor free: a look is a passing fault, a search of all too, and an order that may
    have arrived stays unknown.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    away = inventory.read({"machines": [{"name": "box", "host": "127.0.0.1", "port": port}]}, "t")
    adapter = Ssh("live", lambda: away, time.time)
    handle = Handle("ssh", "box/token")
    with pytest.raises(Transient):
        adapter.observe([handle])
    with pytest.raises(Transient):
        adapter.find("owner")
    offer = Offer("ssh", "own", "box", "box", "L4", 1, "on-demand", 1, "2026-11-29", "test")
    label = Label("owner", "train", "gen1", "f1")
    with pytest.raises(OutcomeUnknown):
        adapter.resume(Order(label, "token", (Candidate(1, 0, offer, 1),), ("a",), Setup(), 60))
    assert adapter.offers() == [] and "box does not answer" in adapter.remarks[0]


def test_a_machine_that_left_the_inventory_is_not_taken_for_gone() -> None:
    """What was lent there is asked for, not forgotten; `retired: true` says that it is gone."""
    with pytest.raises(NotConfigured, match="put it back"):
        Ssh("live", lambda: LOCAL, time.time).observe([Handle("ssh", "box/token")])
    retired = {"machines": [{"name": "box", "host": "box", "retired": True}]}
    adapter = Ssh("live", lambda: inventory.read(retired, "test"), time.time)
    assert adapter.observe([Handle("ssh", "box/token")])[0].status == GONE


@pytest.mark.parametrize(
    ("owned", "price", "found"),
    [(True, 0, 1), (True, None, 0), (False, 0, 0), (True, 250_000, 1)],
)
def test_only_a_price_of_0_that_its_owner_said_is_free(owned, price, found) -> None:
    """0 is a price for machines of one's own, and unknown everywhere else; an unknown one is never
    bought.
    """
    offer = Offer("ssh", "own", "b", "b", "RTX-4090", 1, "on-demand", price, "2026-11-29", "test")
    able = {"ssh": Capabilities("ssh", owned=owned)}
    made = plan.make(Ask((Choice("RTX-4090", 1),)), table([offer]), able)
    assert len(made.candidates) == found
    assert found or made.rejected_by_rule.get("price-known")
    assert all(each.micro_usd == price for each in made.candidates)


@pytest.mark.parametrize(
    ("provider", "world", "inventory", "real"),
    [
        ("ssh", "rehearsal", "boxes.yaml", True),
        ("ssh", "rehearsal", "rehearsal", False),
        ("gcp", "rehearsal", "", False),
        ("gcp", "live", "", True),
    ],
)
def test_own_machines_are_real_in_a_rehearsal(provider, world, inventory, real) -> None:
    assert registry.is_real(provider, world, {"inventory": inventory}) is real


def test_every_problem_of_an_inventory_is_told_with_its_path() -> None:
    """All at once, and a price that is no price is not taken for none."""
    machines = [
        {"name": "a", "host": "h", "port": 0, "gpus": "0", "usd_per_gpu_hour": "free"},
        {"name": "a", "user": "x"},
        "b",
    ]
    with pytest.raises(SpecError) as told:
        inventory.read({"machines": machines, "boxes": []}, "inv.yaml")
    text = str(told.value)
    for part in ("boxes", "[0].port", "[0].gpus", "[0].usd_per_gpu_hour", "[1].host", "[2]"):
        assert part in text, text


@pytest.mark.parametrize("given", [None, True, 1.5, "", [], ["a"], {"a": "b"}, "a\nb"])
@pytest.mark.parametrize("field", ["name", "host", "user", "key", "host_key", "address", "port"])
def test_a_field_of_an_inventory_is_of_its_kind_or_refused(field, given) -> None:
    """Nothing is turned into a text or a number that somebody did not write."""
    with pytest.raises(SpecError) as told:
        inventory.read({"machines": [{"host": "h", field: given}]}, "inv.yaml")
    assert f"machines[0].{field}: wanted" in str(told.value)


def test_a_machine_stands_once_in_an_inventory() -> None:
    """By its host and port; one that is retired may have left its address to another. A machine is
    called by its host, whatever letters that has.
    """
    hosts = [{"name": "a", "host": "h"}, {"name": "b", "host": "h"}]
    with pytest.raises(SpecError, match="each machine once, found h, port 22, 2 times"):
        inventory.read({"machines": hosts}, "inv.yaml")
    inventory.read({"machines": [{**hosts[0], "retired": True}, hosts[1]]}, "inv.yaml")
    inventory.read({"machines": [hosts[0], {**hosts[1], "port": 23}]}, "inv.yaml")
    read = inventory.read({"machines": [{"host": "fe80::1"}, {"host": "My_Box.lab"}]}, "inv.yaml")
    assert [each.name for each in read.machines] == ["fe80-1", "my-box-lab"]


def test_a_card_that_is_named_twice_or_not_there_is_told(here, monkeypatch) -> None:
    """Once by the inventory, before anything is asked; a card that the machine lacks by each list of
    offers and by `gpus check`, and the others are still lent.
    """
    with pytest.raises(SpecError, match=r"gpus: wanted each card once, found \[0, 0, 9\]"):
        inventory.read({"machines": [{"host": "h", "gpus": [0, 0, 9]}]}, "inv.yaml")
    named = inventory.read(
        {"machines": [{"host": "local", "gpus": [0, 9], "usd_per_gpu_hour": 0}]}, "test"
    )
    adapter = Ssh("live", lambda: named, time.time)
    assert {offer.gpu_count for offer in adapter.offers()} == {1}
    wanted = "the inventory's gpus name 9, and nvidia-smi there shows 0, 1, 2, 3"
    assert wanted in adapter.remarks[0] and wanted in adapter.check()[0].todo


def test_a_refused_key_is_told_with_what_is_wrong_with_its_file(tmp_path, monkeypatch) -> None:
    """One that is not there, or that others may read, is what ssh leaves aside without a word."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    readable = tmp_path / "readable"
    readable.write_text("")
    readable.chmod(0o644)
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho Permission denied >&2; exit 255\n")
    ssh.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as door:
        entry = {"name": "box", "host": "127.0.0.1", "port": door.getsockname()[1]}
        for key, why in ((readable, "its mode is 644"), (tmp_path / "absent", "No such file")):
            box = {"machines": [{**entry, "key": str(key)}], "transport": [str(ssh)]}
            known = inventory.read(box, "test")
            with ThreadPoolExecutor(1) as pool:
                call = pool.submit(transport.call, known, known.machines[0], agent.program("facts"))
                with door.accept()[0] as link:
                    link.sendall(b"SSH-2.0-test\r\n")
                with pytest.raises(BadCredentials, match=f"{key}: {why}"):
                    call.result(30)


def test_one_machine_by_two_names_is_not_two_nodes(here) -> None:
    """The second node's order finds the first's lease there, and is refused; nothing stays."""
    local = inventory.Machine("one", "local", micro_usd=0)
    twice = inventory.Inventory((local, local._replace(name="two")))
    adapter = Ssh("live", lambda: twice, time.time)
    ask = Ask((Choice("RTX-4090", 1, nodes=2),))
    offer = next(each for each in adapter.offers_for(ask))
    order = here.order("token-two")
    order = order._replace(
        candidates=(Candidate(1, 0, offer, 2, "", 0),), node_names=("n-0", "n-1")
    )
    with pytest.raises(NoCapacity):
        adapter.submit(order)
    until(lambda: here.cards() == [])


def test_the_inventory_is_found_by_the_environment_too(tmp_path, monkeypatch) -> None:
    """By any command, in the live world; what the stack says comes first, and a rehearsal takes
    nobody's boxes because of a variable.
    """
    monkeypatch.setenv("GPUS_SSH_INVENTORY", f"{tmp_path}/absent.yaml")
    with (
        closing(open_world("live")) as world,
        pytest.raises(NotConfigured, match=r"absent\.yaml"),
    ):
        world.adapter("ssh").check()
    with (
        closing(open_world("live", {"ssh": {"inventory": "other.yaml"}})) as world,
        pytest.raises(NotConfigured, match=r"other\.yaml"),
    ):
        world.adapter("ssh").check()
    with closing(open_world("rehearsal")) as world:
        assert world.settings == {}


def test_every_product_name_means_models_of_the_catalog() -> None:
    """The table's names are canonical, and a card of another size is not taken for one."""
    for product, found in names.spellings().items():
        assert set(found) <= set(models.models()), product
    assert names.model("NVIDIA H100 80GB HBM3", 81_559) == "H100"
    assert names.model("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9_728) == ""
    assert names.model("NVIDIA GeForce RTX 3080", 12_288) == "RTX-3080-12GB"
    assert names.model("NVIDIA GeForce RTX 4090", 49_140) == ""


def test_numbers_of_cards_are_those_of_the_lease(here) -> None:
    """A task that asks for the second card of its lease gets that one, whatever the machine calls
    it.
    """
    here.take("token-first")
    made = Program("job", (Process("main", "env", (("CUDA_VISIBLE_DEVICES", "0"),)),))
    handle = here.take("token-second", script(made, lent=True))
    until(lambda: "succeeded 0" in here.adapter().log(handle))
    assert "CUDA_VISIBLE_DEVICES=GPU-1\n" in here.adapter().log(handle)


def test_a_container_gets_the_cards_of_its_lease_and_its_label(here, tmp_path) -> None:
    """Also one that is started by hand with all cards; other words of the command stay."""
    docker = tmp_path / "bin" / "docker"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{tmp_path}/calls\n')
    docker.chmod(0o755)
    here.take("token-docker", 'docker run --gpus all "an image" --gpus-x; touch "$HOME/done"')
    until(lambda: any(file.endswith("home/done") for file in here.files()))
    calls = (tmp_path / "calls").read_text()
    words = ["run", "--label", "gpus.lease=token-docker", "--gpus", '"device=GPU-0"', "an image"]
    assert "\n".join([*words, "--gpus-x"]) in calls


def test_what_a_user_lacks_on_a_machine_is_told_before_anything_is_taken(here, tmp_path) -> None:
    """Of what a workload needs there, the first that is missing, with what to do."""
    (tmp_path / "bin" / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "docker").chmod(0o755)
    plain = Ask((Choice("RTX-4090", 1),))
    assert [each.restriction for each in here.adapter().offers_for(plain)] == [""]
    (refused,) = here.adapter().offers_for(plain._replace(image="python:3"))
    assert "has not Docker, which an image needs; add the user to the group docker" in (
        refused.restriction
    )
    mounted = Workload((Task(command="true"),), mounts=(Mount("/data", "s3://b"),))
    (refused,) = here.adapter().offers_for(plain._replace(workload=mounted))
    assert "mount-s3, by which s3:// is mounted; install it there" in refused.restriction
    (line,) = here.adapter().check()
    assert "is without docker, mount-s3" in line.found
