"""The volume resource by the protocol's own messages: previewed with its price, kept when it is
deleted, never gone on a guess, imported by its native id.
"""

import argparse
import json

import pytest

from providers.adapters.guard import Volumes
from providers.cli import main, sweep
from providers.engine.journal.journal import Journal
from providers.engine.journal.volumes import VolumeSpell
from providers.engine.termination.verdicts import Claims
from providers.errors import Transient
from providers.home import JOURNAL_FILE, home
from providers.model.volume import VolumeSpec
from providers.plugin import properties as wire
from providers.rehearsal.store import open_store
from tests.plugin.servicer_rig import Aborted, call, new_servicer, struct

URN = "urn:pulumi:s::gpus::gpu:index:Volume::data"
INPUTS = {
    "world": "rehearsal",
    "owner": "0123456789ab",
    "volume": "data",
    "provider": "gcp",
    "place": "us-central1-a",
    "size_gib": 200,
    "type": "pd-balanced",
    "settings": {},
}
PRICED = "data: 200 GiB pd-balanced at gcp us-central1-a, $20.00/month"


def made(servicer, **changes):
    return call(servicer, "Create", urn=URN, properties=struct({**INPUTS, **changes}))


def deleted(servicer, there, **changes):
    old = struct({**INPUTS, **changes})
    call(servicer, "Delete", urn=URN, id=there.id, properties=there.properties, old_inputs=old)


def read(servicer, there, **changes):
    return call(
        servicer,
        "Read",
        urn=URN,
        id=there.id,
        properties=there.properties,
        inputs=struct({**INPUTS, **changes}),
    )


def test_a_preview_makes_nothing_and_shows_the_price(servicer) -> None:
    checked = call(servicer, "Check", urn=URN, news=struct({**INPUTS, "type": None}))
    assert not checked.failures
    assert wire.decode(checked.inputs).values["type"] == "pd-balanced"
    shown = call(servicer, "Create", urn=URN, properties=struct(INPUTS), preview=True)
    found = wire.decode(shown.properties)
    assert found.unknown == {"native_id"} and found.values["price_usd_per_month"] == 20
    assert PRICED in servicer.lines[-1][2]
    bad = call(servicer, "Check", urn=URN, news=struct({**INPUTS, "size_gib": 1}))
    assert [failure.property for failure in bad.failures] == ["size_gib"]


def test_a_deletion_keeps_the_disk_unless_its_data_may_go(servicer) -> None:
    there = made(servicer)
    assert there.id.startswith("rehearsal/gcp/projects/rehearsal/zones/us-central1-a/disks/")
    deleted(servicer, there)
    severity, urn, said = servicer.lines[-1]
    assert (severity, urn) == ("warning", URN) and f"kept, and billed on: {PRICED}" in said
    assert read(servicer, there).id == there.id
    deleted(servicer, there, delete_data=True)
    assert read(servicer, there).id == ""


def test_what_a_volume_costs_is_told_by_spend_also_when_nothing_declares_it(
    servicer, capsys
) -> None:
    """A disk by its size; one of Modal has none that is known, and no amount is invented."""
    store = open_store()
    store.set_latency("gcp", "create", 0.05)
    there, journal = made(servicer), Journal(home() / JOURNAL_FILE)
    # Its order was sent just now: Modal, which has no such volume, does not make it gone.
    cache = VolumeSpell("ffffffffffff", VolumeSpec("cache", "modal"), "", None, None, "", 0.0)
    journal.count_volume("rehearsal", cache._replace(began_at=store.now()))
    journal.close()

    def spent(*arguments):
        assert main.main(("spend", "--world", "rehearsal", *arguments)) == 0
        return " ".join(capsys.readouterr().out.split())

    said = spent()
    assert "unused: volume data, 200 GiB pd-balanced at gcp us-central1-a: $20.00 a month" in said
    assert "volume cache: size unknown, $0.09 a GiB and month of what is stored beyond" in said
    assert "forecast" in said and "at least $" in said and "no cluster that runs mounts it" in said
    deleted(servicer, there)
    assert "no stack declares it any more" in spent()
    month, *_ = json.loads(spent("--json"))
    disk, free = month["volumes"]
    assert (disk["price_usd_per_month"], free["price_usd_per_month"]) == (20, None)
    assert free["spent_usd"] is None and month["unknown"] == ["volume cache"]
    # A rehearsal that begins again has no volume any more.
    assert main.main(("rehearse", "reset", "--yes")) == 0
    assert "unused" not in spent()


def test_a_volume_that_does_not_fit_into_what_the_stack_may_spend_is_not_made(servicer) -> None:
    """At preview and at up; a larger one that does not fit leaves the volume as it was."""
    poor, rich = new_servicer(), servicer
    for preview in (True, False):
        with pytest.raises(Aborted, match=r"data: nothing is bought: max_spend \$0\.01 in"):
            limited = struct({**INPUTS, "max_spend": 0.01})
            call(poor, "Create", urn=URN, properties=limited, preview=preview)
    shown = struct({**INPUTS, "max_spend": 5000})
    call(rich, "Create", urn=URN, properties=shown, preview=True)
    assert "; max_spend $5,000.00 in " in rich.lines[-1][2]
    there = made(rich, max_spend=5000)
    asked = {"urn": URN, "id": there.id, "old_inputs": shown, "olds": there.properties}
    diffed = call(poor, "Diff", **asked, news=struct({**INPUTS, "max_spend": 0.01}))
    assert not diffed.diffs
    with pytest.raises(Aborted, match="nothing is bought: max_spend"):
        larger = struct({**INPUTS, "size_gib": 60_000, "max_spend": 0.01})
        call(poor, "Update", **asked, news=larger)
    assert wire.decode(read(rich, there).properties).values["size_gib"] == 200


def test_a_like_named_stack_of_another_backend_does_not_take_it_over(
    tmp_path, monkeypatch, servicer
) -> None:
    """Two checkouts of one project on one machine, each with its own states."""

    def owned(backend):
        monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/{backend}")
        urn = "urn:pulumi:s::gpus::gpu:index:Ownership::ownership"
        inputs = struct({"world": "rehearsal"})
        there = call(new_servicer(), "Create", urn=urn, properties=inputs)
        return str(wire.decode(there.properties).values["owner_id"])

    first = made(servicer, owner=owned("one"))
    with pytest.raises(Aborted, match="another stack's of this name"):
        made(servicer, owner=owned("two"))
    again = made(servicer, owner=owned("one"))
    assert again.id == first.id


def test_a_sweep_lists_what_no_state_names_and_deletes_none(servicer, monkeypatch, capsys) -> None:
    """With --yes too. What a state names is counted."""
    there = made(servicer)

    def swept(claims, **options):
        monkeypatch.setattr(sweep, "read_claims", lambda _world: claims)
        asked = argparse.Namespace(**{"json": False, "yes": True, **options})
        assert sweep.run(asked, "rehearsal", {}) == 0
        return capsys.readouterr().out

    said = swept(Claims())
    assert f"volume     gcp {there.id.removeprefix('rehearsal/gcp/')}" in said
    assert PRICED in said and "volumes: 1 kept, 0 claimed by stacks" in said
    (listed,) = json.loads(swept(Claims(), json=True))["volumes"]
    assert (listed["name"], listed["price_usd_per_month"], listed["stack"]) == ("data", 20, None)
    resource = {"type": "gpu:index:Volume", "id": there.id}
    claims = sweep.claims_of({"gpus/s": {"deployment": {"resources": [resource]}}}, "rehearsal")
    assert "volumes: 0 kept, 1 claimed by stacks" in swept(claims)
    assert read(servicer, there).id == there.id


def test_an_edit_grows_it_and_one_that_would_lose_data_is_refused(servicer) -> None:
    there = made(servicer)

    def diffed(**changes):
        old, new = struct(INPUTS), struct({**INPUTS, **changes})
        return call(
            servicer, "Diff", urn=URN, id=there.id, old_inputs=old, news=new, olds=there.properties
        )

    assert not diffed().diffs
    assert list(diffed(size_gib=300).diffs) == ["size_gib"] and not diffed(size_gib=300).replaces
    for change in ({"size_gib": 100}, {"place": "us-central1-b"}, {"type": "pd-ssd"}):
        with pytest.raises(Aborted):
            diffed(**change)
    after = call(
        servicer,
        "Update",
        urn=URN,
        id=there.id,
        old_inputs=struct(INPUTS),
        news=struct({**INPUTS, "size_gib": 300}),
        olds=there.properties,
    )
    assert wire.decode(after.properties).values["price_usd_per_month"] == 30


def test_a_cloud_that_does_not_answer_takes_no_volume_out_of_the_state(
    servicer, monkeypatch
) -> None:
    there = made(servicer)

    def silent(_self, _handle):
        raise Transient("no answer", provider="gcp")

    monkeypatch.setattr(Volumes, "look", silent)
    seen = read(servicer, there)
    assert (seen.id, seen.properties) == (there.id, there.properties)
    assert "kept as it was" in servicer.lines[-1][2]


def test_an_import_takes_a_disk_over_by_its_native_id(servicer) -> None:
    """Another owner's, as a lost state leaves it: the inputs declare exactly what is there."""
    there = made(servicer)
    other = new_servicer()
    found = call(other, "Read", urn=URN, id=there.id)
    values = wire.decode(found.inputs).values
    assert {**INPUTS, **values} == INPUTS | {"owner": "0123456789ab"}
    mine = struct({**values, "owner": "ba9876543210", "settings": {}})
    after = call(
        other,
        "Update",
        urn=URN,
        id=there.id,
        old_inputs=found.inputs,
        news=mine,
        olds=found.properties,
    )
    assert wire.decode(after.properties).values["owner"] == "ba9876543210"
    with pytest.raises(Aborted, match="no volume's id"):
        call(other, "Read", urn=URN, id="projects/p/zones/z/disks/d")
