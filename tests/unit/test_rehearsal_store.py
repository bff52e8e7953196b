"""The rehearsal store: one file, many processes, a clock that moves when told."""

import json
import multiprocessing
import stat
import subprocess
import sys
import threading
from email.message import Message
from multiprocessing.process import BaseProcess

import pytest

from providers.home import home
from providers.rehearsal.scenario import DEFAULT_STOCK, FAULTS, LATENCIES_S
from providers.rehearsal.store import Store, open_store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "r.db", clock=lambda: 1000.0)


def test_home_is_the_users_own_folder(tmp_path, monkeypatch) -> None:
    """GPUS_HOME wins, else XDG_STATE_HOME, else ~/.local/state; the folder is made for its owner
    alone.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "a" / "b"))
    assert home() == tmp_path / "a" / "b"
    assert stat.S_IMODE(home().stat().st_mode) == 0o700
    monkeypatch.delenv("GPUS_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "x"))
    assert home() == tmp_path / "x" / "gpus"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "h"))
    assert home() == tmp_path / "h" / ".local" / "state" / "gpus"


def test_import_is_light() -> None:
    """Importing the store imports no database and no server."""
    code = (
        "import sys, providers.rehearsal.store as r; print([m for m in ('sqlite3', 'json',"
        " 'http.server', 'pydantic') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_default_scenario_is_written_once(tmp_path, monkeypatch) -> None:
    """The first opening writes the default scenario; an edit survives the next opening."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    store = open_store()
    assert (tmp_path / "rehearsal.db").exists()
    assert len(DEFAULT_STOCK) == len(store.stock_lines())
    store.set_stock("gcp", "europe-north1", "a3-highgpu-8g", "spot", None)
    assert (
        open_store()
        .stock("gcp", "europe-north1", "europe-north1-c", "a3-highgpu-8g", ("H100",), "spot")
        .machines
        is None
    )


def test_clock_moves_ahead_for_everybody_and_never_back(store, tmp_path) -> None:
    """The offset is in the file; going back, or to nowhere, is refused."""
    assert store.now() == 1000.0
    assert store.advance(600) == 1600.0
    assert Store(tmp_path / "r.db", clock=lambda: 1000.0).now() == 1600.0
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="the clock moves forward"):
            store.advance(wrong)


def test_the_most_exact_stock_line_decides(store) -> None:
    """Place comes before machine type, GPU and capacity kind; without a line there is no end of
    machines.
    """

    def count(
        zone="us-central1-a",
        kind="a3-highgpu-8g",
        gpus=("nvidia-h100-80gb", "H100"),
        capacity="spot",
    ):
        return store.stock("gcp", zone[:-2], zone, kind, gpus, capacity).machines

    assert count() is None
    store.set_stock("gcp", "", "", "", 7)
    assert count() == 7
    store.set_stock("gcp", "", "", "", 6, gpu="H100")
    assert count() == 6
    assert count(gpus=("nvidia-l4", "L4")) == 7
    store.set_stock("gcp", "us-central1", "", "", 5)
    assert count() == 5
    assert count(zone="us-east4-a") == 6
    store.set_stock("gcp", "us-central1", "a3-highgpu-8g", "spot", 4)
    assert (count(), count(capacity="on-demand")) == (4, 5)
    store.set_stock("gcp", "us-central1-a", "", "", 3)
    assert (count(), count(zone="us-central1-b")) == (3, 4)
    assert (
        store.stock("aws", "us-central1", "us-central1-a", "a3-highgpu-8g", (), "spot").machines
        is None
    )


def test_faults_are_used_up_in_order(store) -> None:
    """A planned failure is for matching calls only, as often as it says."""
    store.add_fault("gcp", "instances.*", "unavailable", 2, place="us-central1-a")
    store.add_fault("gcp", "*", "html", None, machine_type="g2-standard-4", status=5)
    assert store.take_fault("gcp", "regions.get", ["us-central1-a"], []) is None
    assert store.take_fault("gcp", "instances.get", ["us-east4-a"], []) is None
    assert store.take_fault("gcp", "instances.get", ["us-central1-a"], []).kind == "unavailable"
    assert [fault.times for fault in store.faults()] == [1, None]
    assert store.take_fault("gcp", "instances.get", ["us-central1-a"], []).kind == "unavailable"
    for _ in range(3):
        assert store.take_fault(
            "gcp", "instances.get", ["us-central1-a"], ["g2-standard-4"]
        ).settings == {"status": 5}
    store.clear_faults()
    assert store.faults() == ()
    with pytest.raises(ValueError, match="unknown fault"):
        store.add_fault("gcp", "*", "meteor")
    assert all(FAULTS.values())


def test_the_stock_screen_agrees_with_what_can_be_had(tmp_path, monkeypatch, capsys) -> None:
    """What is for sale in a region of which no source names a zone is never had in a rehearsal: the
    screen, its JSON and an edit of it say so.
    """
    from providers.rehearsal.clouds.gcp import machines

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    shown = _rehearse(capsys)
    assert "gcp australia-southeast2 H100 (a3-highgpu-8g and 5 more): none, zone unknown" in shown
    assert all(len(line) <= 96 for line in shown.splitlines())
    said = {
        (line["place"], name)
        for line in json.loads(_rehearse(capsys, "--json"))["unplaced"]
        for name in line["machine_types"]
    }
    real = {
        (region, name)
        for name, kind in machines.types().items()
        for region in machines.regions()
        if kind.in_region(region)
        and not any(machines.region_of(zone) == region for zone in kind.zones)
    }
    assert said == real != set()
    assert "3 machines; none, zone unknown" in _rehearse(
        capsys, "stock", "gcp", "australia-southeast2", "a3-highgpu-8g", "spot", "3"
    )
    assert "zone unknown" not in _rehearse(
        capsys, "stock", "gcp", "us-central1", "a3-highgpu-8g", "spot", "3"
    )


def test_b44_the_log_tells_calls_that_change_something(store) -> None:
    """Mutations are the calls that are no read."""
    store.log("gcp", "GET", "instances.get", "/x", 200)
    store.log("gcp", "POST", "instances.insert", "/x", 200)
    store.log("gcp", "DELETE", "instances.delete", "/x", 503, "unavailable")
    assert [found.method for found in store.mutations()] == ["instances.insert", "instances.delete"]
    assert len(store.requests("*instances.[gd]*")) == 2 and len(store.requests()) == 3


def test_a_failed_transaction_leaves_nothing(store) -> None:
    """What a transaction wrote before it failed is undone, inner ones with it."""
    with pytest.raises(RuntimeError), store.transaction():
        store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 0)
        raise RuntimeError
    assert store.quotas() == ()


def test_latency_has_a_default_and_an_own_value(store) -> None:
    """A step takes what the scenario says, else the default; unknown steps are refused."""
    assert store.latency("gcp", "create") == LATENCIES_S["create"]
    store.set_latency("gcp", "create", 9)
    assert store.latency("gcp", "create") == 9.0
    assert store.latencies() == (("gcp", "create", 9.0),)
    with pytest.raises(ValueError, match="unknown step"):
        store.set_latency("gcp", "paint", 1)


def test_reset_forgets_everything_and_begins_again(store) -> None:
    """After a reset there is the default scenario, real time, and nothing else, stand-ins' tables
    included.
    """
    store.tables("CREATE TABLE IF NOT EXISTS thing (x INTEGER)")
    with store.transaction() as db:
        db.execute("INSERT INTO thing VALUES (1)")
    store.advance(50)
    store.log("gcp", "GET", "x", "/x", 200)
    store.add_fault("gcp", "*", "html")
    store.reset()
    assert (store.now(), store.requests(), store.faults(), len(store.stock_lines())) == (
        1000.0,
        (),
        (),
        len(DEFAULT_STOCK),
    )
    assert store.connection().execute("SELECT count(*) FROM thing").fetchone() == (0,)


def _advance_many(path) -> None:
    store = Store(path)
    for _ in range(20):
        store.advance(1)


def test_several_processes_and_threads_use_it_at_once(tmp_path) -> None:
    """No write is lost, and opening a new file at the same moment works."""
    path = tmp_path / "r.db"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_advance_many, args=(path,)) for _ in range(3)]
    threads = [threading.Thread(target=_advance_many, args=(path,)) for _ in range(3)]
    workers: list[BaseProcess | threading.Thread] = [*processes, *threads]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert all(process.exitcode == 0 for process in processes)
    assert Store(path).offset() == 120.0


def test_a_store_that_cannot_be_used_is_one_line(tmp_path) -> None:
    """A file that is no database, or a folder that is not there, is an OSError that names the file."""
    (tmp_path / "r.db").write_text("no database, and long enough to be looked at: " * 50)
    for path, todo in (
        (tmp_path / "r.db", "move it away"),
        (tmp_path / "nowhere" / "r.db", "make it and its folder writable"),
    ):
        with pytest.raises(OSError, match=todo) as caught:
            Store(path)
        assert caught.value.filename == str(path)


def _rehearse(capsys, *argv):
    from providers.cli.rehearse import run

    assert run(list(argv)) == 0
    return capsys.readouterr().out


def test_rehearse_shows_and_edits_the_scenario(tmp_path, monkeypatch, capsys) -> None:
    """Each edit of `gpus rehearse` is seen by the store, and the plain command shows it."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    assert "sold out" in _rehearse(capsys)
    assert "2 machines" in _rehearse(
        capsys, "stock", "gcp", "us-central1-a", "a3-highgpu-8g", "spot", "2"
    )
    assert "no end" in _rehearse(capsys, "stock", "gcp", "*", "h100", "*", "unlimited")
    _rehearse(capsys, "latency", "gcp", "create", "0.1s")
    _rehearse(capsys, "quota", "gcp", "us-central1", "NVIDIA_L4_GPUS", "0")
    _rehearse(
        capsys,
        "fault",
        "gcp",
        "instances.delete",
        "http",
        "--times",
        "3",
        "--set",
        "status=503",
        "--place",
        "us-central1-a",
    )
    assert "10m later" in _rehearse(capsys, "advance", "10m")
    found = json.loads(_rehearse(capsys, "--json"))
    assert (found["ahead_s"], len(found["stock"])) == (600.0, 5)
    assert found["latencies_s"] == [{"provider": "gcp", "step": "create", "seconds": 0.1}]
    assert (found["faults"][0]["times"], found["faults"][0]["settings"]) == (3, {"status": 503})
    text = _rehearse(capsys)
    assert (
        "instances.delete http, 3x" in text and "NVIDIA_L4_GPUS: 0" in text and "10m ahead" in text
    )
    assert max(map(len, text.splitlines())) <= 96
    assert "no planned" in _rehearse(capsys, "fault", "--clear")
    assert json.loads(_rehearse(capsys, "reset", "--json"))["faults"] == []


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["nope"], "COMMAND: wanted stock, "),
        (["stock", "gcp"], "place, what, capacity, count: wanted a value"),
        (["stock", "nowhere", "x", "y", "z", "1"], "provider: wanted one of "),
        (["stock", "gcp", "us-centrel1-a", "a3-highgpu-8g", "spot", "1"], "near: us-central1-a"),
        (["stock", "gcp", "us-central1-a", "a3-highgpu-9g", "spot", "1"], "a3-highgpu-8g"),
        (["stock", "gcp", "us-central1-a", "a3-highgpu-8g", "spott", "1"], "near: spot"),
        (["stock", "gcp", "us-central1-a", "a3-highgpu-8g", "spot", "-1"], "whole number"),
        (["stock", "gcp", "us-central1-a", "a3-highgpu-8g", "spot", "many"], "whole number"),
        (["latency", "gcp", "paint", "1s"], "one of create"),
        (["latency", "gcp", "create", "soon"], "a duration"),
        (["advance", "-5m"], "gpus rehearse"),
        (["advance", "yesterday"], "a duration"),
        (["fault", "gcp", "instances.fly", "http"], "a call of gcp"),
        (["fault", "gcp", "instances.get", "meteor"], "one of reply-lost"),
        (["fault", "gcp", "instances.get", "http", "--times", "0"], "from 1"),
        (["fault", "gcp", "instances.get", "http", "--set", "status"], "NAME=VALUE"),
        (["fault", "gcp"], "PROVIDER METHOD KIND"),
        (["preempt", "nobody"], "running: none"),
        (["stock", "gcp", "*", "*", "*", "9" * 30], "from 0 to 1,000,000,000"),
        (["quota", "gcp", "*", "NVIDIA_L4_GPUS", "9" * 30], "from 0 to 1,000,000,000"),
        (["latency", "gcp", "create", "9" * 400], "at most 1d"),
        (["advance", "99999999999d"], "at most 3650d"),
        (["advance", f"{'9' * 400}h"], "at most 3650d"),
        (["fault", "gcp", "instances.get", "http", "--times", "9" * 30], "from 0 to"),
        (
            ["fault", "gcp", "instances.get", "http", "--set", "status=abc"],
            "an HTTP status from 100 to 599",
        ),
        (
            ["fault", "gcp", "instances.get", "delay", "--set", "seconds=99999999999"],
            "at most 86400",
        ),
        (["fault", "modal", "SandboxCreate", "http", "--set", "status=abc"], "UNAVAILABLE"),
    ],
)
def test_rehearse_tells_what_is_wrong(argv, told, tmp_path, monkeypatch) -> None:
    """Bad input to `gpus rehearse` is one clear line, never a traceback."""
    from providers.cli.rehearse import run
    from providers.errors import GpusError

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    with pytest.raises(GpusError) as caught:
        run(argv)
    assert told in str(caught.value) and "\n" not in str(caught.value)
    run(["--json"])


def test_a_wider_stock_line_lifts_the_narrower_ones(tmp_path, monkeypatch, capsys) -> None:
    """`*` means everything: what the default scenario sold out is there again."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    said = _rehearse(capsys, "stock", "gcp", "*", "*", "*", "unlimited")
    assert "gcp all places all machines any capacity: no end of machines" in said
    assert "replaces 3 earlier lines" in said
    assert (
        open_store()
        .stock("gcp", "europe-north1", "europe-north1-c", "a3-highgpu-8g", ("H100",), "spot")
        .machines
        is None
    )
    _rehearse(capsys, "stock", "gcp", "us-central1-a", "L4", "spot", "2")
    _rehearse(capsys, "stock", "gcp", "us-central1-a", "*", "on-demand", "1")
    assert (
        open_store()
        .stock("gcp", "us-central1", "us-central1-a", "g2-standard-4", ("L4",), "spot")
        .machines
        == 2
    )


def test_a_reset_forgets_what_was_refused(tmp_path, monkeypatch, capsys) -> None:
    """The journal's blocks of the rehearsal go with its scenario, and those of the live world stay:
    the first plan comes back.
    """
    from providers.engine.journal.journal import Journal
    from providers.model.place import Scope

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    journal = Journal(tmp_path / "journal.db")
    for world in ("rehearsal", "live"):
        journal.block(world, Scope("gcp", "europe-west2"), 600.0, "sold out", 0.0)
    _rehearse(capsys, "reset")
    assert [len(journal.blocks(world)) for world in ("rehearsal", "live")] == [0, 1]


def test_a_store_of_another_version_is_one_clear_line(tmp_path) -> None:
    """A file that another version wrote is not guessed at."""
    Store(tmp_path / "r.db").connection().execute("PRAGMA user_version = 0")
    with pytest.raises(OSError, match="of version 0, and this is version 1; move it away"):
        Store(tmp_path / "r.db")


def test_rehearse_sees_and_preempts_machines(tmp_path, monkeypatch, capsys) -> None:
    """Machines made through the stand-in are shown; only running Spot ones can be preempted; a
    reset does not lose machines unasked.
    """
    from providers.cli.rehearse import run
    from providers.errors import GpusError
    from providers.rehearsal.clouds.gcp import start

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    server = start(open_store())
    image = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
    for name, model in (("cheap", "SPOT"), ("mine", "STANDARD")):
        body = {
            "name": name,
            "machineType": "zones/us-central1-a/machineTypes/g2-standard-4",
            "scheduling": {"onHostMaintenance": "TERMINATE", "provisioningModel": model},
            "disks": [
                {
                    "boot": True,
                    "autoDelete": True,
                    "initializeParams": {
                        "sourceImage": image,
                        "diskType": "zones/us-central1-a/diskTypes/pd-ssd",
                    },
                }
            ],
            "networkInterfaces": [{}],
        }
        assert (
            server.answer(
                "POST",
                "/compute/v1/projects/p/zones/us-central1-a/instances",
                Message(),
                json.dumps(body).encode(),
            ).status
            == 200
        )
    server.close()
    assert "none" not in _rehearse(capsys, "advance", "5s")
    text = _rehearse(capsys)
    assert "cheap RUNNING gcp us-central1-a g2-standard-4 nvidia-l4:1 spot" in text
    for argv, told in (
        (["preempt", "mine"], "running: cheap"),
        (["preempt", "nobody"], "nobody"),
        (["reset"], "--yes"),
    ):
        with pytest.raises(GpusError) as caught:
            run(argv)
        assert told in str(caught.value)
    assert "preempted: cheap" in _rehearse(capsys, "preempt", "all")
    assert "no Spot machine" in _rehearse(capsys, "preempt", "all")
    _rehearse(capsys, "advance", "5")
    machines = json.loads(_rehearse(capsys, "--json"))["machines"]
    assert [(machine["name"], machine["status"]) for machine in machines] == [
        ("cheap", "TERMINATED"),
        ("mine", "RUNNING"),
    ]
    _rehearse(capsys, "reset", "--yes")
    assert "machines  none" in _rehearse(capsys)


@pytest.mark.parametrize("provider", ["aws", "clore", "gcp", "modal"])
@pytest.mark.parametrize("kind", ["wrong-gpus", "no-driver", "port-closed", "start-up-failed"])
def test_a_look_at_a_node_can_be_planned_to_fail(provider, kind, tmp_path, monkeypatch) -> None:
    """What a node's readiness can lack is rehearsed by the command that the documentation names,
    whatever the cloud.
    """
    from providers.cli import rehearse

    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    assert rehearse.run(["fault", provider, "node.look", kind]) == 0
