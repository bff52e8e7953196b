"""Which candidates share one creating call of Compute Engine, and how each capacity is ordered.
No network.
"""

import pytest

from providers.adapters.gcp import CAPABILITIES, grouping
from providers.adapters.gcp import compile as native
from providers.errors import Unsupported
from tests.unit.gcp.compile_rig import candidate, order, properties


def test_a_cluster_is_all_or_nothing_under_its_own_names() -> None:
    """Count equals minCount, and each node has the order's name."""
    body = native.creating_call(order(nodes=3)).body
    assert (body["count"], body["minCount"]) == ("3", "3")
    assert body["perInstanceProperties"] == {"train-0": {}, "train-1": {}, "train-2": {}}


def test_one_place_is_a_zonal_call_and_several_are_a_regional_one() -> None:
    """One candidate goes to its zone; several go out as one regional call that denies the zones the
    plan does not hold.
    """
    alone = native.creating_call(order())
    assert (alone.method, alone.zone) == (grouping.ZONAL, "us-central1-a")
    both = native.creating_call(
        order(candidate("us-central1-a"), candidate("us-central1-c")),
        ("us-central1-a", "us-central1-b", "us-central1-c"),
    )
    assert (both.method, both.zone) == (grouping.REGIONAL, "")
    assert both.body["locationPolicy"] == {
        "targetShape": "ANY_SINGLE_ZONE",
        "locations": {
            "zones/us-central1-a": {"preference": "ALLOW"},
            "zones/us-central1-b": {"preference": "DENY"},
            "zones/us-central1-c": {"preference": "ALLOW"},
        },
    }


def test_a_candidate_without_a_zone_leaves_the_zone_to_google() -> None:
    """Where the catalog knows only the region, the region is asked, and no zone is named."""
    call = native.creating_call(order(candidate("", region="us-east4")))
    assert (
        call.method,
        call.region,
        call.body["locationPolicy"],
    ) == (grouping.REGIONAL, "us-east4", {"targetShape": "ANY_SINGLE_ZONE"})


def test_machine_types_are_ranked_in_the_plan_s_order() -> None:
    """Several machine types go out as ranked selections, and no machine type of their own."""
    body = native.creating_call(
        order(candidate(machine_type="g2-standard-4"), candidate(machine_type="g2-standard-8"))
    ).body
    assert "machineType" not in body["instanceProperties"]
    assert body["instanceFlexibilityPolicy"]["instanceSelections"] == {
        "choice-1": {"machineTypes": ["g2-standard-4"], "rank": "1"},
        "choice-2": {"machineTypes": ["g2-standard-8"], "rank": "2"},
    }


A, B, C = "us-central1-a", "us-central1-b", "us-central1-c"
G4, G8 = "g2-standard-4", "g2-standard-8"


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate(A)], 1),
        ([candidate(A), candidate(B), candidate(C)], 3),
        ([candidate(A), candidate(B), candidate("us-east4-a")], 2),
        ([candidate(A), candidate(B, micro_usd=1)], 1),
        ([candidate(A, micro_usd=None), candidate(B, micro_usd=None)], 2),
        ([candidate(A), candidate(B, capacity="spot")], 1),
        ([candidate(A), candidate(B, entry=1)], 1),
        ([candidate(A), candidate(B, nodes=2)], 1),
        (
            [
                candidate(A, G4, micro_usd=1),
                candidate(B, G4, micro_usd=1),
                candidate(A, G8, micro_usd=2),
                candidate(B, G8, micro_usd=2),
            ],
            4,
        ),
        # Google would also try g2-standard-8 in zone b, which the plan does not hold.
        ([candidate(A, G4), candidate(B, G4), candidate(A, G8)], 2),
        # Zones of one type apart from each other: Google would try them together.
        ([candidate(A, G4), candidate(A, G8), candidate(B, G4)], 2),
        (
            [
                candidate(A, G4),
                candidate(B, G4),
                candidate(A, G8),
                candidate(B, G8),
                candidate(A, G4),
            ],
            4,
        ),
        ([candidate(A, "n1-standard-8"), candidate(B, "n1-standard-8")], 1),
        ([candidate(A, capacity="flex-start"), candidate(B, capacity="flex-start")], 1),
        (
            [
                candidate(A, capacity="reservation", reservation="r"),
                candidate(B, capacity="reservation", reservation="r"),
            ],
            1,
        ),
        ([candidate("", region="us-central1"), candidate(A)], 1),
        ([candidate(A), candidate("", region="us-central1")], 1),
        # Another count is another machine, even at the same entry.
        ([candidate(A, "a2-highgpu-8g"), candidate(A, "a2-megagpu-16g")], 1),
    ],
)
def test_a_group_never_changes_the_plan_s_order(candidates, expected) -> None:
    """Only leading candidates that Google would try in this very order, or that rank equal, share a
    call.
    """
    assert expected == grouping.group(candidates)


def test_spot_is_deleted_when_taken_and_never_restarted() -> None:
    """Spot: its own provisioning model, no restart, deleted on preemption unless the spec keeps."""
    assert properties(candidate(capacity="spot"))["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
    }
    assert (
        properties(candidate(capacity="spot"), on_ttl="keep")["scheduling"][
            "instanceTerminationAction"
        ]
        == "STOP"
    )


def test_on_demand_without_a_ttl_has_no_termination_action() -> None:
    """InstanceTerminationAction goes with a run limit or with Spot only."""
    assert properties()["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": True,
        "provisioningModel": "STANDARD",
    }


def test_b34_the_run_limit_deletes_or_stops_and_says_so() -> None:
    """A ttl is carried out by Google: it deletes, or stops and then drops the local SSD, and the
    ticket's notes say which.
    """
    release = native.creating_call(order(ttl_s=72_000))
    assert release.body["instanceProperties"]["scheduling"]["maxRunDuration"] == {
        "seconds": "72000"
    }
    assert release.body["instanceProperties"]["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert release.notes == ("Google deletes the machine after 20h",)
    keep = native.creating_call(order(ttl_s=72_000, on_ttl="keep"))
    assert keep.body["instanceProperties"]["scheduling"]["onInstanceStopAction"] == {
        "discardLocalSsd": True
    }
    assert any("local SSD is lost" in note for note in keep.notes)
    without = native.creating_call(
        order(candidate(machine_type="g2-standard-4"), ttl_s=72_000, on_ttl="keep")
    )
    assert "onInstanceStopAction" not in without.body["instanceProperties"]["scheduling"]


def test_b34_ttl_is_no_edit_in_place() -> None:
    """Google changes the schedule of stopped machines only, so a ttl is not among the edits in
    place.
    """
    assert "ttl" not in CAPABILITIES.in_place


def test_flex_start_waits_in_one_zone_with_a_run_limit() -> None:
    """Flex-start is an insert with a queue, a run limit (7 days without a ttl) and no reservation."""
    call = native.creating_call(order(candidate(capacity="flex-start"), wait_s=900))
    assert (call.method, call.body["name"]) == (grouping.INSERT, "train-0")
    assert call.body["machineType"] == "zones/us-central1-a/machineTypes/a3-highgpu-8g"
    assert (
        call.body["disks"][0]["initializeParams"]["diskType"]
        == "zones/us-central1-a/diskTypes/pd-balanced"
    )
    assert call.body["params"] == {"requestValidForDuration": {"seconds": "7200"}}
    assert "Google keeps the request queued for up to 2h" in call.notes
    assert call.body["scheduling"]["maxRunDuration"] == {"seconds": "604800"}
    assert call.body["scheduling"]["provisioningModel"] == "FLEX_START"
    assert call.body["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert any("7d" in note and "Flex-start" in note for note in call.notes)


@pytest.mark.parametrize(
    ("wait_s", "expected"), [(0, "0"), (60, "0"), (90, "7200"), (86_400, "7200")]
)
def test_flex_start_s_queue_stays_within_google_s_bounds(wait_s, expected) -> None:
    """Under 90 seconds means now or never; else the queue outlives the run, up to Google's two
    hours, so that the next run can wait on.
    """
    body = native.creating_call(order(candidate(capacity="flex-start"), wait_s=wait_s)).body
    assert expected == body["params"]["requestValidForDuration"]["seconds"]


@pytest.mark.parametrize(
    ("capacity", "ttl_s"),
    [("flex-start", 300), ("flex-start", 8 * 86_400), ("on-demand", 121 * 86_400)],
)
def test_a_ttl_beyond_google_s_range_is_refused_before_any_call(capacity, ttl_s) -> None:
    """What Google cannot guard is not bought, and the refusal is not remembered for other specs."""
    with pytest.raises(Unsupported, match="wanted a ttl from") as caught:
        native.creating_call(order(candidate(capacity=capacity), ttl_s=ttl_s))
    assert caught.value.block_s == 0


def test_several_flex_start_nodes_are_made_at_once_or_not() -> None:
    """Google queues single machines only, so several go out as one bulk insert, and the notes say
    so.
    """
    call = native.creating_call(order(candidate(capacity="flex-start"), nodes=2))
    assert call.method == grouping.ZONAL
    assert any("queues only single machines" in note for note in call.notes)


def test_flex_start_needs_a_zone() -> None:
    """A place of which only the region is known cannot queue."""
    with pytest.raises(Unsupported, match="wanted a zone"):
        native.creating_call(order(candidate("", region="us-east4", capacity="flex-start")))


@pytest.mark.parametrize("name", ["mine", "projects/other/reservations/mine"])
def test_a_reservation_is_named_under_the_key_that_works(name) -> None:
    """A reservation is consumed by its name, in this project or a shared one."""
    affinity = properties(candidate(capacity="reservation", reservation=name))[
        "reservationAffinity"
    ]
    assert {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [name],
    } == affinity


@pytest.mark.parametrize(
    ("capacity", "expected"), [("on-demand", "ANY_RESERVATION"), ("spot", "NO_RESERVATION")]
)
def test_open_reservations_are_for_on_demand_only(capacity, expected) -> None:
    """On demand may use an open reservation, which is paid for already; Spot cannot."""
    assert {"consumeReservationType": expected} == properties(candidate(capacity=capacity))[
        "reservationAffinity"
    ]
