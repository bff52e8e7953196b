"""What the plan and a stop say about data on Google's local SSDs."""

import pytest

from providers.adapters.gcp import MANIFEST, machines
from providers.api import plan
from providers.errors import NoCapacity, Unsupported
from providers.model.machine import Setup
from providers.model.spec import Cluster
from providers.planner import render
from tests.present import present
from tests.unit.gcp.families.rig import FAMILIES, candidate, reserve, seen


def test_b35_the_preview_warns_that_local_ssd_data_goes() -> None:
    """on_ttl: keep on a machine with local SSD: the plan says that Google discards it at a stop;
    without local SSD, or without keep, it does not.
    """
    kept = plan(
        Cluster(name="train", gpu="A100-80GB:8", providers=("gcp",), ttl="20h", on_ttl="keep")
    )
    assert "what is on local SSD is discarded then" in " ".join(render.as_text(kept).split())
    assert "what is on local SSD is discarded then" in render.as_markdown(kept)
    assert any("discarded" in text for text in render.as_json(kept)["summary"]["notes"])
    assert not any(
        "local SSD" in text
        for text in plan(
            Cluster(name="train", gpu="A100-80GB:8", providers=("gcp",), ttl="20h")
        ).notes
    )
    assert not any(
        "local SSD" in text
        for text in plan(
            Cluster(name="train", gpu="A100:1", providers=("gcp",), ttl="20h", on_ttl="keep")
        ).notes
    )
    added = Setup(on_ttl="keep", options=(("gcp", {"local_ssd_count": 1}),))
    assert any(
        "local SSD" in text
        for text in present(MANIFEST.pricing.notes)(candidate("a2-highgpu-8g"), added)
    )
    assert any(
        "at preemption" in text
        for text in present(MANIFEST.pricing.notes)(candidate("a3-ultragpu-8g"), Setup())
    )


@pytest.mark.parametrize(
    "machine_type",
    [kind for kind, row in FAMILIES.items() if "spot" in row[3] and not kind.endswith("-nolssd")],
)
def test_b35_a_kept_machine_with_local_ssd_stops_with_the_choice_stated(rig, machine_type) -> None:
    """on_ttl: keep sends discardLocalSsd where there is local SSD, the cloud takes it, and at its
    limit the machine is stopped, not gone.
    """
    ticket = rig.launched(candidate(machine_type), ttl_s=3600, on_ttl="keep")
    found = seen(rig, ticket)["scheduling"]
    assert machines.bundled_ssd(machine_type) == found.get("onInstanceStopAction", {}).get(
        "discardLocalSsd", False
    )
    assert machines.bundled_ssd(machine_type) == ("local SSD is lost" in ticket.detail)
    rig.moment += 3700
    assert rig.status(ticket.handles[0]) == "ended"


def test_b35_a_bound_machine_that_is_kept_states_the_choice_too(rig) -> None:
    """The end of a reservation stops a kept machine: with its local SSD discarded, as said."""
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True)
    found = seen(rig, rig.launched(candidate("a4-highgpu-8g", "reservation"), on_ttl="keep"))[
        "scheduling"
    ]
    assert (
        found["instanceTerminationAction"],
        found["onInstanceStopAction"],
    ) == ("STOP", {"discardLocalSsd": True})


@pytest.mark.parametrize(
    ("machine_type", "discards"),
    [
        ("a2-ultragpu-8g", True),
        ("a3-ultragpu-8g", True),
        ("g2-standard-96", False),
        ("a3-edgegpu-8g-nolssd", False),
    ],
)
def test_b35_stop_states_what_becomes_of_local_ssd(rig, machine_type, discards) -> None:
    """Stopped with discardLocalSsd where there is local SSD, and only there; seen as stopped by
    somebody, not preempted; started again as the same machine.
    """
    handle = rig.launched(candidate(machine_type)).handles[0]
    rig.gcp.update(handle, {"state": "stopped"})
    assert rig.status(handle) == "stopped"
    assert machines.bundled_ssd(machine_type) == discards
    rig.gcp.update(handle, {"state": "stopped"})
    assert rig.calls("instances.stop") == 1
    rig.gcp.update(handle, {"state": "running"})
    assert rig.status(handle) == "running"
    rig.gcp.update(handle, {"state": "running"})
    assert rig.calls("instances.start") == 1


def test_b35_a_refused_stop_is_an_error(rig) -> None:
    """HTTP 400 on a stop: classified, and the machine is seen running."""
    handle = rig.launched(candidate("a2-ultragpu-8g")).handles[0]
    rig.store.add_fault("gcp", "instances.stop", "http", 1, status=400, reason="badRequest")
    with pytest.raises(Unsupported, match="stopping"):
        rig.gcp.update(handle, {"state": "stopped"})
    assert rig.status(handle) == "running"


def test_b41_a_start_without_room_leaves_it_stopped(rig) -> None:
    """The zone is full: NoCapacity that names it; the machine is still there, stopped."""
    handle = rig.launched(candidate("a2-ultragpu-8g")).handles[0]
    rig.gcp.update(handle, {"state": "stopped"})
    rig.store.set_stock("gcp", "us-central1-a", "a2-ultragpu-8g", "", 0)
    with pytest.raises(NoCapacity, match="gcp us-central1-a: starting"):
        rig.gcp.update(handle, {"state": "running"})
    assert rig.status(handle) == "stopped"
