"""What every adapter's folder must bring, asked of each that the registry finds; and that a new one
touches its own folder alone.
"""

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import providers.adapters
from providers.adapters import base, registry
from providers.adapters.guard import Cloud
from providers.catalog import offers as catalog
from providers.catalog.table import table as offer_table
from providers.engine import operations
from providers.engine.desired import ClusterSpec
from providers.engine.market import planning
from providers.engine.runtime.world import open_world
from providers.errors import CloudError
from providers.model.ask import BLOCK, CAPACITIES, Ask, Choice
from providers.model.machine import Setup
from providers.testing.contract import Harness
from providers.testing.fake_adapter import FakeCloud
from providers.testing.harness import StoreClock
from tests.present import present

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "providers" / "adapters"
NAMES = sorted(registry.scan([str(ADAPTERS)], ()).manifests)
DATE = re.compile(r"20\d\d-?[01]\d(-?[0-3]\d)?")

every = pytest.mark.parametrize("name", NAMES)


def module(name, part=""):
    return importlib.import_module(f"{registry.manifests()[name].connect.__module__}{part}")


def home(name):
    return Path(module(name).__file__).parent


def harness(name):
    path = ROOT / "tests" / "contract" / f"test_{name}.py"
    assert path.exists(), (
        f"{name}: wanted its contract test at {path.relative_to(ROOT)}, found none"
    )
    spec = present(importlib.util.spec_from_file_location(f"contract_of_{name}", path))
    found = importlib.util.module_from_spec(spec)
    present(spec.loader).exec_module(found)
    return found.HARNESS


class Known:
    """A row of an error table, however its adapter writes it: a record with classes of the tree, a
    scope, a source and a date.
    """

    def __init__(self, code, row) -> None:
        self.code, self.fields = code, row._asdict()
        self.kinds = {
            key: value
            for key, value in self.fields.items()
            if isinstance(value, type) and issubclass(value, CloudError)
        }

    @property
    def creating(self):
        """The class on a creating call."""
        return self.kinds.get("creating") or self.kinds.get("kind")


def error_table(name):
    """Every row of the records named `Row` in the tables of the adapter's `errors` module."""
    rows = []
    for value in vars(module(name, ".errors")).values():
        if isinstance(value, dict):
            rows += [
                Known(str(code), row) for code, row in value.items() if type(row).__name__ == "Row"
            ]
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            rows += [Known(str(row.code), row) for row in value if type(row).__name__ == "Row"]
    return rows


def test_every_folder_can_be_loaded() -> None:
    """Each folder below the adapters gives a manifest of its own name, and those of the other
    providers that its cloud is; none is left out.
    """
    found = registry.scan([str(ADAPTERS)], ())
    assert found.problems == ()
    folders = sorted(path.parent.name for path in ADAPTERS.glob("*/__init__.py"))
    others = [
        manifest.name
        for folder in folders
        for manifest in getattr(importlib.import_module(f"providers.adapters.{folder}"), "ALSO", ())
    ]
    assert sorted([*folders, *others]) == NAMES != []


@every
def test_an_adapter_has_a_stand_in_that_the_rehearsal_can_drive(name) -> None:
    """Beside the adapter stands a rehearsal server, and its console names places, machine types,
    GPUs and calls, shows machines and takes them back.
    """
    console = importlib.import_module(f"providers.rehearsal.clouds.{name}.console")
    for word in ("places", "machine_types", "gpus", "methods"):
        assert getattr(console, word)(), f"{name}: wanted {word}, found none"
    assert callable(console.running) and callable(console.preempt)


@every
def test_an_adapter_has_an_error_table_with_sources_and_dates(name) -> None:
    """Each row has a class of the tree, a scope, a source and a date."""
    rows = error_table(name)
    assert len(rows) >= 10, f"{name}: wanted a table of errors, found {len(rows)} rows"
    for row in rows:
        assert row.creating, (
            f"{name} {row.code}: wanted a class for a creating call (`kind` or `creating`), found"
            f" {row.fields}"
        )
        assert {
            "scope",
            "whole_provider",
        } & row.fields.keys(), f"{name} {row.code}: wanted a scope, found {row.fields}"
        assert row.fields.get("source"), f"{name} {row.code}: wanted a source, found none"
        said = " ".join(value for value in row.fields.values() if isinstance(value, str))
        assert DATE.search(said), (
            f"{name} {row.code}: wanted the date of its source, found {said!r}"
        )


@every
def test_every_class_of_the_table_is_reached_by_an_answer(name) -> None:
    """For each class that the table has for a creating call, some answer with one of its codes is
    read as exactly that class.
    """
    provoke = harness(name).provoke
    reached = set()
    for row in error_table(name):
        try:
            reached.add(type(provoke(row.code)))
        except (KeyError, ValueError):
            continue  # a row for something else than a code: a client's exception
    wanted = {row.creating for row in error_table(name)}
    assert wanted <= reached, (
        f"{name}: never reached: {', '.join(sorted(kind.__name__ for kind in wanted - reached))}"
    )


@every
def test_an_adapter_with_live_offers_has_its_own_names(name) -> None:
    """A market writes GPUs as it likes: its spellings stand in a table of the folder, each meaning
    canonical models.
    """
    if not registry.capabilities()[name].live_offers:
        return
    table = module(name, ".names").spellings()
    assert table
    assert all(models for models in table.values())


@every
def test_an_adapter_declares_what_it_can_do(name) -> None:
    """Capabilities bear the folder's name and known words."""
    manifest = registry.manifests()[name]
    can = manifest.capabilities
    assert (name, name) == (manifest.name, can.provider)
    assert set() < can.kinds <= {"machine", "job", "service"}
    assert set() < can.capacities <= {*CAPACITIES, BLOCK}
    assert (BLOCK in can.capacities) == bool(can.blocks)
    assert (
        can.in_place <= {"labels", "ssh_key", "ttl", "state", "script", "service"}
        and can.stoppable <= can.capacities
    )
    assert can.max_nodes >= 1
    assert (
        all(variable == variable.upper() for variable in manifest.credentials.environment)
        and manifest.credentials.environment
    )


OPTIONAL = {
    method: protocol
    for protocol in (
        base.OffersByAsk,
        base.Repricing,
        base.PlaceAccess,
        base.ConsoleLog,
        base.OwnAccount,
        base.KeylessMarket,
        base.LaunchHelpers,
        base.Remarks,
    )
    for method in vars(protocol)
    if not method.startswith("_")
}
"""What only some adapters answer -> the protocol that has it."""


@every
def test_what_only_some_adapters_answer_is_named_among_the_bases(name) -> None:
    """An adapter's class has the protocols of all that it answers as its bases: a type checker then
    compares each method with the seam.
    """
    classes = [
        found
        for found in vars(module(name, ".adapter")).values()
        if isinstance(found, type) and {"submit", "resume"} <= vars(found).keys()
    ]
    assert classes, f"{name}: wanted the adapter's class in its module `adapter`, found none"
    for found in classes:
        for method in OPTIONAL.keys() & vars(found).keys():
            protocol = OPTIONAL[method]
            assert protocol in found.__mro__, (
                f"{name}: wanted {protocol.__name__} among the bases of {found.__name__}, which has"
                f" {method}"
            )


def test_a_cloud_that_lacks_what_only_some_answer_says_the_default() -> None:
    """Behind the guard every optional question has an answer; the adapter is asked only where it
    has one.
    """
    unused: Any = None
    fake = FakeCloud("alpha", unused)
    plain, logging = Cloud(fake), Cloud(type("Logs", (), {"log": lambda self, handle: "boot"})())
    assert (plain.logs, plain.reprices, plain.account, plain.not_configured, plain.remarks) == (
        False,
        False,
        {},
        "",
        (),
    )
    assert plain.log(unused) == "" and (logging.logs, logging.log(unused)) == (True, "boot")


@every
def test_an_adapters_data_is_dated(name) -> None:
    """Its offers bear the day of their price, unless they are listed live; each data file says of
    when it is, itself or where it is read.
    """
    table = catalog.load()
    derived = registry.manifests()[name].pricing.derived
    if derived is not None:
        ask = Ask((Choice("L4", 1),), kind="job", options={name: {"image": "some/image"}})
        table = offer_table(
            derived[1](
                ask,
                [
                    table.offer(row)
                    for row in table.by_gpu["L4"]
                    if table.column("provider")[row] == derived[0]
                ],
            )
        )
    columns = (
        table.column("provider"),
        table.column("node_micro_usd"),
        table.column("price_as_of"),
    )
    days = {
        as_of for provider, price, as_of in zip(*columns, strict=True) if provider == name and price
    }
    assert days or registry.capabilities()[name].live_offers, (
        f"{name}: wanted offers with a price, found neither bundled nor live ones"
    )
    # Some sources tell the year alone.
    assert all(re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", str(day)) for day in days), days
    for path in home(name).rglob("*"):
        if path.suffix in {".csv", ".json", ".yaml", ".toml"}:
            readers = [
                file.read_text()
                for file in path.parent.glob("*.py")
                if path.name in file.read_text()
            ]
            assert any(DATE.search(text) for text in (path.read_text(), *readers)), (
                f"{path.relative_to(ROOT)}: wanted a date"
            )


@every
def test_a_page_describes_the_provider(name) -> None:
    """It explains `options.<provider>`, how to check the set-up, and where credentials come from;
    the index links to it.
    """
    page = ROOT / "docs" / "providers" / f"{name}.md"
    assert page.exists(), f"{name}: wanted its page at {page.relative_to(ROOT)}, found none"
    text = page.read_text()
    for part in (f"options.{name}", f"gpus check {name}"):
        assert part in text, f"{name}: wanted {part} on {page.relative_to(ROOT)}, found none"
    environment = registry.manifests()[name].credentials.environment
    assert any(variable in text for variable in environment), (
        f"{name}: wanted one of {environment} named there"
    )
    assert f"providers/{name}.md" in (ROOT / "docs" / "README.md").read_text(), (
        f"{name}: wanted a link in docs/README.md, found none"
    )


@every
def test_an_adapter_has_a_contract_test(name) -> None:
    """A short file under tests/contract gives the suite what it must know of this adapter."""
    found = harness(name)
    assert isinstance(found, Harness)
    assert name == found.name
    lines = (ROOT / "tests" / "contract" / f"test_{name}.py").read_text().splitlines()
    assert len(lines) <= 60, (
        f"{name}: wanted a short file, found {len(lines)} lines: what many need belongs into the"
        " suite"
    )


# A new one

DUMMY = '''"""A fifth cloud: all that it is stands in this folder."""

from providers.adapters.base import Manifest
from providers.rehearsal.store import open_store
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.testing.bench import StoreClock
from providers.testing.fake_adapter import FakeCloud

CAN = Capabilities("dummy", live_offers=True)
CLOUDS = {}


def connect(world, config):
    if not CLOUDS:
        CLOUDS["one"] = FakeCloud("dummy", StoreClock(open_store()), CAN)
        CLOUDS["one"].listed = [
            Offer("dummy", "moon", "moon-a", "lander-8", "H100", 8, "on-demand", 1_000_000, "2026-11-27", "a test", gpu_memory_gib=80.0)
        ]
    CLOUDS["one"].world = world
    return CLOUDS["one"]


MANIFEST = Manifest("dummy", CAN, connect, lambda section: ())
'''


@pytest.fixture(params=["folder", "entry point"])
def dummy(request, tmp_path, monkeypatch):
    """The module of a fifth provider in a new folder: beside the others, or in another package."""
    import sys

    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    site = tmp_path / "site"
    if request.param == "folder":
        name = "providers.adapters.dummy"
        (site / "dummy").mkdir(parents=True)
        (site / "dummy" / "__init__.py").write_text(DUMMY)
        monkeypatch.setattr(
            providers.adapters, "__path__", [*providers.adapters.__path__, str(site)]
        )
    else:
        name = "gpus_dummy"
        (site / "gpus_dummy").mkdir(parents=True)
        (site / "gpus_dummy" / "__init__.py").write_text(DUMMY)
        (site / "gpus_dummy-1.dist-info").mkdir()
        (site / "gpus_dummy-1.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: gpus-dummy\nVersion: 1\n"
        )
        (site / "gpus_dummy-1.dist-info" / "entry_points.txt").write_text(
            "[gpus.adapters]\ndummy = gpus_dummy:MANIFEST\n"
        )
        monkeypatch.syspath_prepend(str(site))
    registry.found_adapters.cache_clear()
    yield lambda: sys.modules[name]
    registry.found_adapters.cache_clear()
    sys.modules.pop(name, None)


def test_a_fifth_provider_touches_its_own_folder_alone(dummy) -> None:
    """A folder that appears beside the others, or in another package, is found, planned, ordered
    from and released.
    """
    from providers.rehearsal.store import open_store

    assert "dummy" in registry.manifests() and registry.problems() == ()
    assert set(NAMES) < set(registry.manifests())

    ask = Ask((Choice("H100", 8),), providers=("dummy",))
    (candidate,) = planning.plan(ask).candidates
    assert (
        candidate.provider,
        candidate.zone,
        candidate.micro_usd,
    ) == ("dummy", "moon-a", 1_000_000)
    everywhere = planning.plan(Ask((Choice("H100", 8),), rank="price"))
    assert (
        present(everywhere.best).provider == "dummy"
        and len({found.provider for found in everywhere.candidates}) > 1
    )

    world = open_world("rehearsal", clock=StoreClock(open_store()))
    try:
        cloud: Any = world.adapter("dummy").real
        assert cloud.machines is dummy().CLOUDS["one"].machines
        record = run(
            operations.create(world, ClusterSpec("own", "train", ask, Setup(), "f1"), "gen1")
        )
        assert (record.status, record.provider, record.reasons) == ("running", "dummy", ())
        assert len(cloud.alive) == 1
        run(operations.delete(world, record))
        assert cloud.alive == []
    finally:
        world.close()


def run(work):
    import asyncio

    return asyncio.run(work)
