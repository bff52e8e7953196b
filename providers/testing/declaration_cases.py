"""The contract's cases of what an adapter says: manifest, options, checks, offers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.adapters.guard import Cloud
from providers.errors import NotConfigured
from providers.model.ask import BLOCK, CAPACITIES
from providers.model.worlds import LIVE, WORLDS
from providers.testing.bench import environment
from providers.testing.purchase_cases import KINDS

if TYPE_CHECKING:
    from providers.testing.bench import Bench

EDITS = frozenset({"labels", "ssh_key", "ttl"})
"""Edits that are told, and left to a replacement, where an adapter does not declare them."""
STATE = "state"
"""Stopping a machine, keeping it, and starting it again where it is."""
SERVICE = "service"
SCRIPT = "script"
DAY = re.compile(r"20\d\d-\d\d-\d\d")


def manifest_is_whole(bench: Bench) -> None:
    """The manifest, its capabilities and the adapter name the same provider and
    known words only.
    """
    manifest, adapter = bench.harness.manifest, bench.adapter
    can = manifest.capabilities
    assert (manifest.name, manifest.name) == (
        can.provider,
        adapter.name,
    ), f"wanted {manifest.name} everywhere, found {can.provider}, {adapter.name}"
    assert adapter.world in WORLDS
    assert can.kinds, "wanted at least one kind"
    assert can.kinds <= KINDS, f"wanted kinds among {sorted(KINDS)}, found {sorted(can.kinds)}"
    assert can.capacities, "wanted at least one kind of capacity"
    assert can.capacities <= {*CAPACITIES, BLOCK}, (
        f"wanted capacities among {CAPACITIES}, found {sorted(can.capacities)}"
    )
    known = EDITS | {STATE, SERVICE, SCRIPT}
    assert can.in_place <= known, (
        f"wanted edits among {sorted(known)}, found {sorted(can.in_place)}"
    )
    assert can.max_nodes >= 1


def unknown_options_are_named(bench: Bench) -> None:
    """No options are no problem; one that is unknown is a problem that names it; the harness's
    own are fine.
    """
    check = bench.harness.manifest.check_options
    assert not check({})
    assert not check(dict(bench.harness.setup.options))
    found = check({"no_such_option": 1})
    assert len(found) == 1, f"wanted one problem, found {found}"
    assert "no_such_option" in found[0].path


def a_check_reads_and_changes_nothing(bench: Bench) -> None:
    """`gpus check` has lines with known states, sends nothing that changes anything, and tells of
    refused keys and web pages without failing.
    """
    bench.adapter.check()
    before = [request.method for request in bench.store.mutations()]
    lines = bench.adapter.check()
    assert before == [request.method for request in bench.store.mutations()], (
        f"{bench.name}: a check changed something"
    )
    assert any(line.state == "ok" for line in lines), (
        f"wanted something that is there, found {lines}"
    )
    for kind in ("unauthorized", "html"):
        bench.store.add_fault(bench.name, "*", kind, None)
        for line in bench.adapter.check():
            assert line.provider == bench.name
            assert line.state in {
                "ok",
                "missing",
                "refused",
                "unknown",
            }, f"{line.topic}: {line.state}"
            assert "\n" not in line.found + line.todo, (
                f"{line.topic}: wanted one line, found {line.found + line.todo!r}"
            )
            assert "<html" not in line.found.lower(), (
                f"{line.topic}: wanted a clear line, found a web page"
            )
        bench.knobs.heal()


def live_without_credentials_is_not_configured(bench: Bench) -> None:
    """Live without credentials is NotConfigured with what to do, never a rehearsal; a market
    anybody may read says so in `not_configured`.
    """
    manifest = bench.harness.manifest
    empty = {"HOME": str(bench.store.path.parent), **bench.harness.offline}
    with environment(empty, without=manifest.credentials.environment):
        try:
            adapter = manifest.connect(LIVE, {})
        except NotConfigured as error:
            assert error.provider == bench.name
            said = str(error)
        else:
            said = Cloud(adapter).not_configured
            assert adapter.world == LIVE
    assert said, (
        f"{bench.name}: wanted NotConfigured, found an adapter that connects without credentials"
    )
    assert "\n" not in said


def groups_never_change_the_order(bench: Bench) -> None:
    """A group is one or more of the leading candidates, of one kind of capacity, and asking for it
    makes no call.
    """
    candidates = bench.candidates()
    before = len(bench.store.requests())
    for start in range(min(len(candidates), 20)):
        size = bench.adapter.group(candidates[start:])
        assert 1 <= size <= len(candidates) - start
        chosen = candidates[start : start + size]
        assert (
            len(
                {
                    (candidate.capacity, candidate.reservation, candidate.nodes)
                    for candidate in chosen
                }
            )
            == 1
        ), f"unlike things in one call: {chosen}"
    assert before == len(bench.store.requests())


def offers_are_the_catalogs(bench: Bench) -> None:
    """Without live offers the adapter lists none, so that the dated catalog stands."""
    assert bench.adapter.offers() is None


def live_offers_are_whole(bench: Bench) -> None:
    """Live offers are this provider's, unique, dated, with a price that is positive or unknown;
    listing them makes no changing call.
    """
    listed = bench.adapter.offers()
    assert listed, f"{bench.name}: wanted live offers, found {listed}"
    assert not bench.store.mutations()
    ids = [offer.id for offer in listed]
    assert len(ids) == len(set(ids)), (
        f"listed twice: {[name for name in ids if ids.count(name) > 1][:3]}"
    )
    for offer in listed:
        assert offer.provider == bench.name
        assert offer.capacity in CAPACITIES
        assert offer.gpu_type, offer.id
        assert offer.gpu_count > 0, offer.id
        assert offer.node_micro_usd is None or offer.node_micro_usd > 0, (
            f"{offer.id}: an unknown price is None, never {offer.node_micro_usd}"
        )
        assert DAY.search(offer.price_as_of), (
            f"{offer.id}: wanted the day of its price, found {offer.price_as_of!r}"
        )
        assert offer.price_source, offer.id
