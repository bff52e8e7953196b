"""Which adapters there are, and what a plan for a world is made of."""

import subprocess
import sys
import threading
from typing import Never

import pytest

from providers import errors
from providers.adapters import registry
from providers.adapters.base import Manifest
from providers.engine.market import collect, planning
from providers.engine.market import offers as offers_
from providers.engine.runtime.world import open_world
from providers.model.ask import Ask
from providers.model.capability import Capabilities
from providers.model.place import Scope
from providers.planner.plan import Plan
from tests.engine.cases import Lab, ask, offer


def test_folders_of_adapters_are_found_by_scan() -> None:
    """Every adapter folder is found without being named anywhere, and each is what it says it is."""
    assert "gcp" in registry.manifests()
    assert all(
        name == manifest.name == manifest.capabilities.provider
        for name, manifest in registry.manifests().items()
    )
    assert registry.problems() == ()


def test_finding_adapters_imports_no_sdk() -> None:
    """Looking at the adapters' folders imports no cloud's client, no asyncio, no pydantic and no
    database.
    """
    code = (
        "import sys; from providers.adapters import registry; from providers.engine.runtime import"
        " world; from providers.engine.market import planning; registry.capabilities();print([m for"
        " m in ('googleapiclient', 'google.auth', 'grpc', 'asyncio', 'pydantic', 'sqlite3',"
        " 'importlib.metadata') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_broken_outside_adapter_is_a_line(tmp_path) -> None:
    """An adapter that can't be loaded, or is no adapter, is a line; the others work."""
    found = registry.scan(
        [], [("bad", "no.such.module:MANIFEST"), ("odd", "providers.errors:Problem")]
    )
    assert found.manifests == {}
    assert len(found.problems) == 2 and "no.such.module" in found.problems[0]


def test_outside_adapter_is_found_by_its_entry_point(tmp_path, monkeypatch) -> None:
    """A package with an entry point of the group is found and loaded."""
    (tmp_path / "outside_cloud.py").write_text(
        "from providers.adapters.base import Manifest\nfrom providers.model.capability import"
        " Capabilities\nMANIFEST = Manifest('outside', Capabilities('outside'), None, None)\n"
    )
    info = tmp_path / "outside_cloud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-cloud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gpus.adapters]\noutside = outside_cloud:MANIFEST\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.outside() == [("outside", "outside_cloud:MANIFEST")]
    assert list(registry.scan([], registry.outside()).manifests) == ["outside"]


def test_unknown_world_is_refused() -> None:
    """A world is rehearsal or live, nothing else."""
    with pytest.raises(errors.SpecError, match="rehearsal or live"):
        open_world("staging")


def test_live_offers_replace_that_providers_bundled_ones(lab) -> None:
    """A provider that lists live is shown by its list alone; the others by the catalog."""
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    lab.alpha.listed = [offer("alpha", "north", "north-z", usd=3)]
    plan = collect.market(lab.world(), ask()).plan(ask())
    assert [(candidate.provider, candidate.zone) for candidate in plan.candidates] == [
        ("alpha", "north-z"),
        ("beta", "east-a"),
    ]


def test_failing_listing_is_a_warning(lab) -> None:
    """One failing provider is a line in the plan, never a failed plan."""
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    lab.alpha.fail("offers", errors.Transient("503", provider="alpha"))
    plan = collect.market(lab.world(), ask()).plan(ask())
    assert len(plan.candidates) == 4
    assert "alpha: could not be looked at" in plan.warnings[0]


def test_hanging_listing_has_a_deadline(lab, monkeypatch) -> None:
    """A provider that does not answer is left out after its deadline."""
    monkeypatch.setattr(collect, "LOOK_LIMIT_S", 0.05)
    gate = threading.Event()
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    lab.alpha.offers = lambda: gate.wait(60)
    plan = collect.market(lab.world(), ask()).plan(ask())
    gate.set()
    assert "no answer within" in plan.warnings[0] and plan.candidates


def test_live_world_says_who_is_not_configured(monkeypatch, tmp_path) -> None:
    """In the live world a provider without keys is refused by that rule; in a rehearsal nobody is
    asked for keys.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab(name="live")
    lab.alpha.connect_error = errors.NotConfigured("no keys", provider="alpha")
    plan = collect.market(lab.world(), ask()).plan(ask())
    assert [candidate.provider for candidate in plan.candidates] == ["beta"]
    assert collect.market(Lab().world(), ask()).unavailable == {}


def test_no_configured_provider_is_said_as_such(monkeypatch, tmp_path) -> None:
    """When nobody allowed is configured, the error says so for each, instead of "all failed"."""
    from providers.engine import operations
    from tests.engine.cases import run, wanted

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab(name="live")
    for cloud in (lab.alpha, lab.beta):
        cloud.connect_error = errors.NotConfigured("no keys", provider=cloud.name)
    with pytest.raises(
        errors.NotConfigured, match="no allowed provider is configured in the live world"
    ):
        run(operations.create(lab.world(), wanted(), "g1"))


def test_blocks_of_the_journal_are_in_the_plan_and_a_plan_makes_no_journal(lab, tmp_path) -> None:
    """A plan reads the journal if there is one, and never makes one."""
    world = lab.world()
    assert planning.standing_blocks(world) == ((), 0.0, ())
    assert not (tmp_path / "journal.db").exists()
    world.journal.block("rehearsal", Scope("alpha"), 600, "sold out", lab.clock.now())
    blocks, now, _ = planning.standing_blocks(world)
    plan = collect.market(world, ask()).plan(ask(), blocks, now)
    assert [candidate.provider for candidate in plan.candidates] == ["beta"]


def test_plan_of_the_bundled_catalog() -> None:
    """The plan that users see is made of the bundled catalog, without a call to any cloud."""
    plan = planning.plan(ask("H100"), use_journal=False)
    assert plan.candidates and all(
        candidate.gpu_type.startswith("H100") for candidate in plan.candidates
    )


def test_missing_client_library_is_not_configured(lab) -> None:
    """A provider whose client library is not installed is not configured, in so many words."""

    def connect(world, config) -> Never:
        raise ImportError("No module named 'cloud_sdk'")

    manifest = Manifest("gamma", Capabilities("gamma"), connect, lambda options: ())
    world = open_world(
        "rehearsal", manifests={"gamma": manifest}, offers=lab.offers, clock=lab.clock
    )
    with pytest.raises(errors.NotConfigured, match="client library is missing"):
        world.adapter("gamma")
    with pytest.raises(errors.NotConfigured, match="no adapter"):
        world.adapter("delta")


def test_stale_catalog_is_a_line_in_the_plan(monkeypatch) -> None:
    """Prices that nobody has renewed for long are said to be old in every plan."""
    import datetime

    from providers.catalog import offers

    real = offers.stale
    monkeypatch.setattr(offers, "stale", lambda today: real(today + datetime.timedelta(days=2_000)))
    assert any(
        "days ago; live prices may differ" in line
        for line in planning.plan(ask("H100"), use_journal=False).warnings
    )
    monkeypatch.setattr(offers, "stale", lambda today: real(datetime.date(2026, 11, 27)))
    assert not any(
        "days ago" in line for line in planning.plan(ask("H100"), use_journal=False).warnings
    )


@pytest.mark.parametrize("names", [("clore",), ("aws",), ("gcp", "clore"), ("gcp", "aws", "modal")])
def test_an_overlay_is_the_table_row_by_row(names) -> None:
    """Laying live offers over the catalog by column gives what doing it row by row gives: same
    rows, same order, same index.
    """
    from providers.catalog.offers import load
    from providers.catalog.table import table

    base = load()
    rows = {
        name: [
            base.offer(row)._replace(provider=name, zone=f"z{row}") for row in (0, 7, len(base) - 1)
        ]
        for name in names
    }
    made = offers_.overlay(base, rows)
    kept = [offer for offer in map(base.offer, range(len(base))) if offer.provider not in rows]
    wanted = table([*kept, *(offer for name in sorted(rows) for offer in rows[name])])
    assert [tuple(column) for column in wanted.columns] == [
        tuple(column) for column in made.columns
    ]
    assert {gpu: list(found) for gpu, found in wanted.by_gpu.items()} == {
        gpu: list(found) for gpu, found in made.by_gpu.items()
    }
    assert [offer.id for offer in map(made.offer, range(len(made)))] == made.ids()
    assert {name: set(places) for name, places in made.places.items()} == {
        name: set(places) for name, places in wanted.places.items()
    }
    for gpu in wanted.by_gpu:
        found, expected = made.listed(gpu), wanted.listed(gpu)
        assert {count: list(lots) for count, lots in found.lots.items()} == {
            count: list(lots) for count, lots in expected.lots.items()
        }
        assert (found.prices, found.on_demand) == (expected.prices, expected.on_demand)


def test_plans_of_one_market_share_its_table() -> None:
    """The same offers over the same catalog are one table in memory, others another one."""
    from providers.catalog.table import table

    base, live = table([offer("alpha", "north", "north-a")]), offer("beta", "east", "east-a")
    first = offers_.overlay(base, {"beta": [live]})
    assert offers_.overlay(base, {"beta": [live._replace()]}) is first
    dearer = offers_.overlay(base, {"beta": [live._replace(node_micro_usd=1)]})
    assert dearer.column("node_micro_usd") != first.column("node_micro_usd")


def test_of_clusters_that_are_alike_one_plan_is_written(lab, monkeypatch) -> None:
    """What could be shown once is bought by again; another ask is written anew."""
    from providers.engine import operations
    from providers.planner import render
    from tests.engine.cases import run, wanted

    written: list[Ask] = []
    real = render.as_text

    def noted(plan: Plan) -> str:
        written.append(plan.ask)
        return real(plan)

    monkeypatch.setattr(render, "as_text", noted)
    world = lab.world()
    alike, other = (ask(max_price_micro_usd=price) for price in (77_000_001, 77_000_002))
    for number, an_ask in enumerate((alike, alike, other)):
        run(operations.create(world, wanted(an_ask, name=f"c{number}"), "g1"))
    assert written == [alike, other]


def test_a_provider_is_named_once_in_a_line(monkeypatch, tmp_path) -> None:
    """Whether or not an adapter's message bears its provider's name, no line that tells of it says
    the name twice.
    """
    from providers.engine import operations
    from tests.engine.cases import run, wanted

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab(name="live")
    for cloud in (lab.alpha, lab.beta):
        cloud.capabilities = cloud.capabilities._replace(live_offers=True)
        cloud.fail("offers", errors.Transient(f"{cloud.name}: HTTP 503", provider=cloud.name))
    shown = collect.market(lab.world(), ask()).plan(ask()).warnings
    assert "alpha: could not be looked at, its bundled offers are shown: HTTP 503" in shown
    lab.alpha.connect_error = errors.NotConfigured(
        "alpha: wanted keys, found none", provider="alpha"
    )
    lab.beta.connect_error = errors.NotConfigured("wanted keys, found none", provider="beta")
    with pytest.raises(errors.NotConfigured) as caught:
        run(operations.create(lab.world(), wanted(), "g1"))
    assert str(caught.value).splitlines()[1:] == [
        "alpha: wanted keys, found none",
        "beta: wanted keys, found none",
    ]


def test_an_unsettled_order_names_its_provider_once(lab) -> None:
    """So does the line about an order whose outcome stays unknown."""
    from providers.engine import operations
    from tests.engine.cases import run, wanted

    told = errors.OutcomeUnknown("alpha: HTTP 503", provider="alpha", code="503")
    lab.alpha.fail("submit", told, times=99)
    lab.alpha.fail("resume", told, times=99)
    record = run(operations.create(lab.world(), wanted(), "g1"))
    assert "alpha: it is not known" in record.reasons[0] and record.reasons[0].count("alpha:") == 1


def test_what_is_missing_to_buy_is_known_of_a_market_that_does_not_answer(
    monkeypatch, tmp_path
) -> None:
    """A market that anybody may read, and that cannot be reached: it is not configured all the
    same, and its line says that it was not reached.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    lab = Lab(name="live")
    lab.alpha.capabilities = lab.alpha.capabilities._replace(live_offers=True)
    manifest = lab.alpha.manifest()
    world = lab.world()

    class Open:
        name, world, not_configured = "alpha", "live", "wanted a key, found none"

        def offers(self) -> Never:
            raise errors.Transient("no connection", provider="alpha")

    def connect(_world, _config):
        return Open()

    world.manifests = {"alpha": manifest._replace(connect=connect)}
    seen = collect.market(world, ask())
    assert seen.unavailable == {"alpha": "wanted a key, found none"}
    assert (
        "alpha: could not be looked at, its bundled offers are shown: no connection"
        in seen.table.warnings
    )


@pytest.mark.parametrize(
    ("provider", "nodes", "words"),
    [
        ("gcp", 1, ""),
        ("gcp", 2, "needs `gpus watch`"),
        ("clore", 1, "needs `gpus watch`"),
        ("modal", 1, "does nothing here"),
    ],
)
def test_a_plan_says_where_idle_after_needs_somebody(
    provider, nodes, words, monkeypatch, tmp_path
) -> None:
    """Where no timer of the machine's own ends it, the plan says who must look, or that nobody can."""
    from providers.model.spec import Cluster

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    gpu = {"clore": "RTX-4090:2", "gcp": "H100:8", "modal": "H100:8"}[provider]
    spec = Cluster(name="x", gpu=gpu, nodes=nodes, providers=(provider,), idle_after="1h")
    notes = " ".join(planning.plan(spec.ask(), setup=spec.setup()).notes)
    assert (words in notes) if words else ("idle_after" not in notes)
