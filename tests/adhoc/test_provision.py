"""`provision` and its twins on the rehearsal cloud: however the block ends, nothing is left."""

import asyncio
import json
import threading
from typing import Any

import pytest

import providers as p
from providers import errors
from providers.adhoc import access, rentals
from providers.home import home
from providers.rehearsal.store import open_store
from tests.adhoc.provision_rig import machines, python
from tests.present import present

pytestmark = pytest.mark.usefixtures("own_home")


def test_the_block_of_the_readme(tmp_path, capfd) -> None:
    """Files go there, a command runs, a result comes back, attempts are printed, and afterwards
    nothing is left and nothing is held.
    """
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "run.py").write_text(
        "import json, pathlib; pathlib.Path('out.json').write_text(json.dumps({'ok': True}))"
    )
    with p.provision(
        "H100!:8",
        spot="prefer",
        max_price_per_hour=60,
        ttl="1h",
        providers=["gcp"],
        world="rehearsal",
    ) as c:
        assert isinstance(c, p.Machine) and machines() == [c.record.machines[0].name]
        c.put("bench")
        assert c.run("python bench/run.py && nvidia-smi") == 0
        c.get("out.json")
        assert (
            c.gpu == "H100:8"
            and c.price_usd_per_hour == present(c.record.price.micro_usd) / 1e6
            and c.record.ends_at - c.record.launched_at == 3600
        )
    assert json.loads((tmp_path / "out.json").read_text()) == {"ok": True}
    assert machines() == [] and p.find() == () and access.names("rehearsal") == ()
    out, err = capfd.readouterr()
    assert "rehearsal stand-in: there is no GPU here" in out
    assert (
        "sold out" in err
        and "acquired" in err
        and "released, confirmed" in err
        and "nothing is bought" in err
    )


@pytest.mark.parametrize("raised", [ValueError("mine"), KeyboardInterrupt(), SystemExit(4)])
def test_whatever_ends_the_block_it_is_released(raised) -> None:
    """An exception, Ctrl-C and an exit go on as they are, after the release was confirmed."""
    with pytest.raises(type(raised)) as caught, p.provision("L4:1"):
        assert len(machines()) == 1
        raise raised
    assert caught.value is raised and machines() == []


def test_a_failing_command_raises_only_when_asked() -> None:
    """The exit code is the answer; with `check` anything but 0 raises, and the release follows."""
    with pytest.raises(p.GpusError, match="ended with 5"), p.provision("L4:1") as c:
        assert c.run("exit 5") == 5
        c.run("exit 5", check=True)
    assert machines() == []


def test_four_hours_unless_said_otherwise() -> None:
    """Without a ttl the cloud itself ends it after four hours, also when a Cluster was given; one
    that says its own keeps it.
    """
    with p.provision("L4:1") as c:
        assert c.record.ends_at - c.record.launched_at == 4 * 3600
    with p.provision(p.Cluster(name="own", gpu="L4:1")) as c:
        assert (c.name, c.record.ends_at - c.record.launched_at) == ("own", 4 * 3600)
    with p.provision(p.Cluster(name="own", gpu="L4:1", ttl="2h")) as c:
        assert c.record.ends_at - c.record.launched_at == 2 * 3600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gpu": "H10:8"}, "near: H100"),
        ({"gpu": "H100:8", "ttl": "1m"}, "ttl"),
        ({"gpu": "H100:8", "max_price_per_hour": -1}, "max_price_per_hour"),
        ({"gpu": "H100:8", "name": "../x"}, "name"),
        ({"gpu": "H100:8", "world": "moon"}, "world"),
        ({"gpu": "H100:8", "options": {"gcp": {"no_such": 1}}}, "options.gcp"),
        ({"gpu": "H100:8", "providers": ["nobody"]}, "nobody"),
    ],
)
def test_what_is_wrong_is_said_at_once_and_nothing_is_bought(arguments, words) -> None:
    """Wrong names, limits and worlds are SpecErrors before any call, and leave no trace."""
    with pytest.raises(errors.SpecError, match=words), p.provision(**arguments):
        pass
    assert machines() == [] and access.names("rehearsal") == ()


def test_nothing_to_be_had_leaves_nothing() -> None:
    """When every place is refused, AllFailed says what was tried, and no key or name is left."""
    open_store().set_stock("gcp", "", "", "", 0)
    with (
        pytest.raises(p.AllFailed, match="none was acquired"),
        p.provision("L4:1", regions=["us-central1"], name="none"),
    ):
        pass
    assert machines() == [] and access.names("rehearsal") == ()


def test_live_without_credentials_is_not_a_rehearsal(monkeypatch, tmp_path) -> None:
    """`world="live"` without credentials fails; it never rehearses."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(p.NotConfigured), p.provision("L4:1", world="live", providers=["gcp"]):
        pass
    assert machines() == [] and access.names("live") == ()


def test_a_bad_machine_is_given_back_and_the_next_place_is_asked(capsys) -> None:
    """A rehearsed host with seven of eight GPUs is released, the reason is an attempt and is said
    once, and another place serves.
    """
    open_store().add_fault("gcp", "node.look", "wrong-gpus")
    with p.provision("A100-80GB:8", providers=["gcp"]) as c:
        first, *_, last = c.record.attempts
        assert (
            first.code == "wrong-gpus"
            and "7 of 8 GPUs answer" in first.message
            and last.outcome == "acquired"
        )
        said = " ".join(capsys.readouterr().err.split())
        assert said.count("7 of 8 GPUs answer") == 1 and "not as ordered" in said
        assert machines() == [c.record.machines[0].name]
    assert machines() == []


@pytest.mark.parametrize("gpu", ["L4:1", "T4:1"])
def test_one_wrong_gpu_is_another_card(gpu) -> None:
    """Where one GPU was ordered the fault shows another card: that machine is released for it,
    never taken for one whose driver is still to come.
    """
    open_store().add_fault("gcp", "node.look", "wrong-gpus")
    with p.provision(gpu, providers=["gcp"]) as c:
        first, *_, last = c.record.attempts
        assert (
            first.code == "wrong-gpus"
            and f"where {gpu} was ordered" in first.message
            and last.outcome == "acquired"
        )
        assert machines() == [c.record.machines[0].name]
    assert machines() == []


def test_wrong_gpus_stay_wrong_on_that_machine(tmp_path) -> None:
    """A machine that was seen with no GPU, or fewer, shows the same at every later look, though the
    fault was planned for one.
    """
    import asyncio

    from providers.model.machine import Handle, Node
    from providers.rehearsal.node import StandInProbe

    store = open_store()
    probe, node = (
        StandInProbe(tmp_path, store),
        Node(Handle("gcp", "n1"), "n1", "running", region="r", zone="z", machine_type="m"),
    )
    ordered = p.plan("L4:1", providers=["gcp"]).candidates[0]
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"count": 0}, "lists no GPU"),
        ({}, "where L4:1 was ordered"),
    )
    for settings, words in cases:
        store.add_fault("gcp", "node.look", "wrong-gpus", **settings)
        found = [asyncio.run(probe(node, ordered)) for _ in range(3)]
        assert all(words in str(look) for look in found), found
    other = asyncio.run(probe(node._replace(name="n2"), ordered))
    assert other.stage == ""


@pytest.mark.parametrize("kind", ["port-closed", "no-driver"])
def test_a_slow_machine_is_waited_for(kind) -> None:
    """A stand-in whose port or driver does not answer at first is waited for, not given back."""
    open_store().add_fault("gcp", "node.look", kind, times=2)
    with p.provision("L4:1") as c:
        assert len(c.record.attempts) == 1
    assert machines() == []


def test_a_machine_taken_back_during_a_command() -> None:
    """The rehearsal cloud preempts while a command runs: the command ends with that, and the
    release finds nothing wrong.
    """
    from providers.cli import rehearse

    with p.provision("L4:1", spot="only") as c:
        threading.Timer(1.0, lambda: rehearse.run(["preempt", "all"])).start()
        with pytest.raises(p.GpusError, match="while the command ran: sleep 60"):
            c.run("sleep 60")
    assert machines() == []


def test_where_no_cloud_keeps_the_ttl_this_process_does(capfd) -> None:
    """A marketplace ends nothing by itself: that is said, and a command that outlives the ttl is
    ended and the machine released.
    """
    with (
        pytest.raises(p.GpusError, match="has reached its ttl while the command ran"),
        p.provision("RTX-4090:1", providers=["clore"], ttl="1h") as c,
    ):
        assert not c.inner.ends_itself
        threading.Timer(1.0, lambda: open_store().advance(3700)).start()
        c.run("sleep 60")
    assert machines() == [] and "clore ends nothing at a ttl" in capfd.readouterr().err


@pytest.mark.parametrize("field", ["ttl", "wait"])
def test_a_time_that_has_no_date_is_refused(field: str) -> None:
    """Longer than ten years is a mistake, told before anything is bought."""
    fields: dict[str, Any] = {field: "9999999d"}
    with (
        pytest.raises(p.SpecError, match=f"{field}: wanted at most 3650d"),
        p.provision("L4:1", **fields),
    ):
        raise AssertionError("the block was entered")
    assert machines() == []


def test_a_cluster_of_two_has_each_machine_in_the_hand() -> None:
    """`node` picks the machine; each has a home of its own, and a number that is none is refused."""
    with p.provision("A100-80GB:8", nodes=2) as c:
        assert len(machines()) == 2
        c.run("touch only-here", node=1)
        assert (c.run("test -e only-here", node=0), c.run("test -e only-here", node=1)) == (1, 0)
        with pytest.raises(p.GpusError, match="one of its 2 machines"):
            c.run("true", node=2)
    assert machines() == []


def test_forward_in_a_rehearsal_reaches_this_machine() -> None:
    """The stand-in's ports are this machine's: the same number as it is, another one by a relay."""
    import http.server
    import urllib.request

    service = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler
    )
    threading.Thread(target=service.serve_forever, daemon=True).start()
    there = service.server_address[1]
    with p.provision("L4:1") as c:
        with c.forward(there) as here:
            assert here == there
        with c.forward(there, local=0) as here:
            assert (
                here != there and urllib.request.urlopen(f"http://127.0.0.1:{here}/").status == 200
            )
    service.shutdown()


def test_a_name_in_use_is_busy_and_stays_untouched() -> None:
    """The name of a machine that a live process works with is refused to another, which harms
    nothing.
    """
    with p.provision("L4:1", name="mine") as c:
        with pytest.raises(p.Busy, match="mine"), p.provision("L4:1", name="mine"):
            pass
        assert machines() == [c.record.machines[0].name] and c.run("true") == 0
    assert machines() == []


def test_kept_found_taken_over_and_released(capfd) -> None:
    """`keep` leaves it running for other processes; the same name and spec takes it over, with its
    files; its block's end releases it.
    """
    with p.provision("L4:1", name="kept", keep=True) as c:
        c.run("echo data > file")
        name = c.record.machines[0].name
    assert machines() == [name] and "kept running" in capfd.readouterr().err
    found = p.find("kept")
    assert (found.status, found.process) == ("running", None) and found.run("test -e file") == 0
    with p.provision("L4:1", name="kept") as c:
        assert c.record.machines[0].name == name and c.run("test -e file") == 0
    assert machines() == []
    with pytest.raises(p.GpusError, match="nothing of that name"):
        p.find("kept")


def test_a_failed_purchase_leaves_a_kept_machine_alone() -> None:
    """A name is taken over or left: a purchase that is refused does not delete what ran under it
    before.
    """
    with p.provision("L4:1", name="kept", keep=True) as c:
        name = c.record.machines[0].name
    with (
        pytest.raises(errors.SpecError),
        p.provision("L4:1", name="kept", options={"gcp": {"no_such": 1}}),
    ):
        pass
    assert machines() == [name]
    p.release("kept")


def test_aprovision_is_the_async_twin() -> None:
    """The same block with `await`; a cancelled task releases before it ends."""

    async def used() -> None:
        async with p.aprovision("L4:1", ttl="1h") as c:
            assert isinstance(c, p.AsyncMachine) and await c.run("true") == 0
            async with c.forward(9) as here:
                assert here == 9
        assert machines() == []

    async def cancelled() -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with p.aprovision("L4:1") as c:
                inside.set()
                await c.run("sleep 60")

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert machines() == []

    asyncio.run(used())
    asyncio.run(cancelled())


def test_inside_a_running_loop_the_plain_twin_works_too() -> None:
    """A notebook's loop runs already; `provision` has one of its own."""

    async def cell():
        with p.provision("L4:1") as c:
            return c.run("true")

    assert asyncio.run(cell()) == 0 and machines() == []


def test_what_ended_by_its_ttl_is_no_longer_held() -> None:
    """After its ttl the cloud itself deleted it: nothing is shown, and its folder is gone."""
    with p.provision("L4:1", name="old", ttl="1h", keep=True):
        pass
    open_store().advance(4000)
    assert p.find() == () and access.names("rehearsal") == () and machines() == []


def test_one_owner_for_every_process() -> None:
    """Several processes that begin at once agree on the owner id, which is private to its user."""
    code = "from providers.adhoc import access; print(access.owner())"
    processes = [python(code) for _ in range(4)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert (home() / "owner").stat().st_mode & 0o077 == 0


def test_only_machines_that_take_commands_are_asked_for() -> None:
    """A provider whose machines take no commands from here is refused by that rule; with a key of
    the user's own, only ssh will do.
    """
    from providers.catalog.table import table
    from providers.engine.market import collect
    from providers.engine.runtime.world import open_world
    from providers.model.spec import read_cluster
    from providers.testing.clock import JumpingClock
    from providers.testing.fake_adapter import FakeCloud
    from tests.engine.cases import offer

    clouds = [FakeCloud(name, JumpingClock()) for name in ("aws", "gcp", "modal")]
    clouds[2].capabilities = clouds[2].capabilities._replace(ssh=False)
    rows = [
        offer(name, "north", "north-z", usd=price, capacity="on-demand")
        for name, price in (("aws", 3), ("gcp", 2), ("modal", 1))
    ]
    world = open_world(
        "rehearsal",
        manifests={cloud.name: cloud.manifest() for cloud in clouds},
        offers=table(rows),
    )
    wanted = f"{rows[0].gpu_type}:{rows[0].gpu_count:g}"
    ask = rentals.reachable(world, read_cluster("x", {"gpu": wanted}))
    plan = collect.market(world, ask).plan(ask)
    assert [candidate.provider for candidate in plan.candidates] == ["gcp", "aws"]
    assert plan.rejected_by_rule == {"reach": 1}
    with pytest.raises(errors.SpecError, match="take commands from here: aws, gcp"):
        rentals.reachable(world, read_cluster("x", {"gpu": wanted, "providers": ["modal"]}))
    world.close()
    clouds[2].capabilities = clouds[2].capabilities._replace(login=True)
    world = open_world(
        "rehearsal",
        manifests={cloud.name: cloud.manifest() for cloud in clouds},
        offers=table(rows),
    )
    ask = rentals.reachable(world, read_cluster("x", {"gpu": wanted}))
    assert [
        candidate.provider for candidate in collect.market(world, ask).plan(ask).candidates
    ] == ["modal", "gcp", "aws"]
    ask = rentals.reachable(world, read_cluster("x", {"gpu": wanted}), own_key=True)
    assert [
        candidate.provider for candidate in collect.market(world, ask).plan(ask).candidates
    ] == ["gcp", "aws"]
    world.close()
