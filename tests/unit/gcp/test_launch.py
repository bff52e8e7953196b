"""The Google Cloud adapter launches machines: as ordered, queued, and from a reservation."""

import json

import pytest

from providers.errors import HalfMade, NoCapacity
from providers.model.machine import Label
from providers.model.place import Scope
from providers.rehearsal.clouds import gcp as standin
from providers.rehearsal.clouds.gcp.wire import timestamp
from tests.unit.gcp.rig import A, B, C, candidate, order


@pytest.mark.parametrize(
    ("machine_type", "gpu", "count", "capacity"),
    [
        ("a3-highgpu-8g", "H100", 8, "on-demand"),
        ("a3-highgpu-8g", "H100", 8, "spot"),
        ("a2-ultragpu-8g", "A100-80GB", 8, "spot"),
        ("g2-standard-4", "L4", 1, "on-demand"),
        ("n1-standard-8", "T4", 1, "on-demand"),
    ],
)
def test_b10_each_family_is_had_as_ordered(rig, machine_type, gpu, count, capacity) -> None:
    """L4 on G2, A100 on A2, H100 on A3, T4 attached to N1: made, running, and seen as what was
    ordered.
    """
    ticket = rig.launched(candidate(machine_type=machine_type, capacity=capacity))
    node = rig.gcp.observe(ticket.handles)[0]
    assert (machine_type, gpu, count, capacity, "running", A, "us-central1") == (
        node.machine_type,
        node.gpu_type,
        node.gpu_count,
        node.capacity,
        node.status,
        node.zone,
        node.region,
    )
    assert ticket.placed == candidate(machine_type=machine_type, capacity=capacity)
    assert node.internal_ip and node.external_ip and node.created_at > 0
    assert Label("own1", "train", "gen1", "0123456789abcdef") == node.label


def test_b11_reported_accelerators_are_no_change(rig) -> None:
    """The API reports the built-in GPU of an A2; the node is still the one that was ordered."""
    ticket = rig.launched(candidate(machine_type="a2-highgpu-1g"))
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    body = rig.gcp.client.call(
        lambda s: s.instances().get(project=project, zone=zone, instance=name),
        rig.gcp.context(ticket.order),
    )
    assert "nvidia-tesla-a100" in json.dumps(body.get("guestAccelerators"))
    assert (
        rig.gcp.observe(ticket.handles)[0].gpu_type,
        rig.gcp.observe(ticket.handles)[0].gpu_count,
    ) == ("A100", 1)


def test_several_zones_go_out_as_one_call(rig) -> None:
    """A sold-out first zone costs no second call: Google picks the next zone of the group, and the
    ticket says which.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.launched(candidate(A), candidate(B))
    assert (ticket.placed.zone, rig.calls("regionInstances.bulkInsert")) == (B, 1)


def test_zones_that_the_plan_lacks_are_never_used(rig) -> None:
    """A zone outside of the group has stock, the group has none: refused, and nothing is made
    elsewhere.
    """
    for zone in (A, B):
        rig.store.set_stock("gcp", zone, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.gcp.submit(order(candidate(A), candidate(B)))
    rig.moment += 30
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)
    assert list(rig.gcp.find("own1")) == []


def test_machine_types_fall_back_within_one_call(rig) -> None:
    """With instance flexibility the second type of the group is launched when the first is sold out."""
    rig.store.set_stock("gcp", "us-central1", "g2-standard-4", "on-demand", 0)
    group = [
        candidate(zone, machine_type)
        for machine_type in ("g2-standard-4", "g2-standard-8")
        for zone in (A, B)
    ]
    assert rig.gcp.group(group) == 4
    ticket = rig.launched(*group)
    assert (ticket.placed.machine_type, ticket.placed.zone) == ("g2-standard-8", A)


def test_a_place_without_a_zone_is_filled_in(rig) -> None:
    """Where only the region is known, the placed candidate names the zone that was acquired."""
    ticket = rig.launched(candidate("", region="us-central1"))
    assert ticket.placed.zone.startswith("us-central1-")


def test_a_cluster_is_whole_and_in_one_zone(rig) -> None:
    """Two nodes: both or none, in one zone, in the order of their names."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 1)
    ticket = rig.launched(candidate(A), candidate(B), nodes=2)
    assert ticket.placed.zone == B
    assert [handle.native_id.rsplit("/", 1)[-1] for handle in ticket.handles] == [
        "train-gen1-0",
        "train-gen1-1",
    ]


def test_a_cluster_that_does_not_fit_leaves_nothing(rig) -> None:
    """One of two nodes has room: refused as a stockout, all rolled back."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 1)
    ticket = rig.gcp.submit(order(candidate(A), nodes=2))
    rig.moment += 30
    with pytest.raises(NoCapacity) as caught:
        rig.gcp.poll(ticket)
    assert (
        Scope("gcp", "us-central1", A, "a3-highgpu-8g", capacity="on-demand"),
    ) == caught.value.scopes
    assert list(rig.gcp.find("own1")) == []


def reserve(rig, zone: str, machine_type: str = "a3-highgpu-8g") -> None:
    """An own reservation of one machine, by the name that all of them have."""
    body = {
        "name": "mine",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "1",
            "instanceProperties": {"machineType": machine_type},
        },
    }
    rig.gcp.client.call(
        lambda s: s.reservations().insert(project="rehearsal", zone=zone, body=body),
        rig.gcp.context(order()),
    )


def test_a_reservation_is_used_by_name(rig) -> None:
    """A reserved machine is launched where the reservation is, and seen as such."""
    reserve(rig, A)
    rig.moment += 10
    ticket = rig.launched(candidate(A, capacity="reservation", reservation="mine"))
    assert rig.gcp.observe(ticket.handles)[0].capacity == "reservation"


def test_of_reservations_of_one_name_the_one_with_room_is_used(rig) -> None:
    """Another type's and a full one are passed over, where only the region is asked for."""
    for zone, kind in ((A, "g2-standard-4"), (B, "a3-highgpu-8g"), (C, "a3-highgpu-8g")):
        reserve(rig, zone, kind)
    rig.moment += 10
    rig.launched(candidate(B, capacity="reservation", reservation="mine"))
    anywhere = candidate("", region="us-central1", capacity="reservation", reservation="mine")
    assert rig.launched(anywhere, generation="gen2").placed.zone == C


def test_a_future_reservation_is_used_once_it_has_delivered(rig) -> None:
    """In calendar mode or not, by its own name: before its beginning it is no capacity, and says
    when it begins; then what it delivered is used.
    """
    begins = rig.moment + 3_600
    body = {
        "name": "spring",
        "reservationMode": "CALENDAR",
        "specificSkuProperties": {
            "totalCount": "1",
            "instanceProperties": {"machineType": "a3-highgpu-8g"},
        },
        "timeWindow": {"startTime": timestamp(begins), "endTime": timestamp(begins + 86_400)},
    }
    rig.gcp.client.call(
        lambda s: s.futureReservations().insert(project="rehearsal", zone=A, body=body),
        rig.gcp.context(order()),
    )
    rig.moment += 10
    asked = candidate(A, capacity="reservation", reservation="spring")
    with pytest.raises(NoCapacity, match="is APPROVED and has delivered nothing yet; it begins"):
        rig.gcp.submit(order(asked))
    rig.moment = begins + 10
    ticket = rig.launched(asked)
    assert (ticket.placed.zone, ticket.placed.reservation) == (A, "spring")
    assert rig.gcp.observe(ticket.handles)[0].capacity == "reservation"


def test_flex_start_is_queued_until_there_is_room(rig) -> None:
    """No room: queued, not refused; once there is room, had."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 0)
    ticket = rig.gcp.submit(order(candidate(A, capacity="flex-start"), wait_s=3600))
    rig.moment += 30
    ticket = rig.gcp.poll(ticket)
    assert ticket.state == "queued"
    assert "7d" in ticket.detail
    assert [node.status for node in rig.gcp.find("own1")] == ["queued"]
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 1)
    assert rig.finish(ticket).placed.capacity == "flex-start"


def test_flex_start_s_wait_runs_out(rig) -> None:
    """When the queue's time is over Google deletes the machine and the operation fails: refused,
    nothing left.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 0)
    ticket = rig.gcp.submit(order(candidate(A, capacity="flex-start"), wait_s=120))
    rig.moment += 7300
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)
    assert list(rig.gcp.find("own1")) == []


def test_a_ticket_survives_the_process(rig) -> None:
    """Another adapter, another port: the ticket's own strings are enough to poll on."""
    ticket = rig.gcp.submit(order())
    other = standin.start(rig.store)
    try:
        assert "127.0.0.1" not in json.dumps(ticket.native)
        rig.gcp = rig.adapter(other.url)
        assert rig.finish(ticket).placed.zone == A
    finally:
        other.close()


def test_what_was_delivered_is_compared_with_the_order(rig) -> None:
    """A machine of another type under the order's name and generation is not taken for it."""
    rig.launched(candidate(A, "g2-standard-4"))
    ticket = rig.gcp.resume(order(candidate(A, "g2-standard-8")))
    with pytest.raises(HalfMade, match="g2-standard-4 with 1 x L4") as caught:
        rig.gcp.poll(ticket)
    assert len(caught.value.handles) == 1


def test_a_machine_taken_while_starting_is_half_made(rig) -> None:
    """A machine that is on its way out before the ticket was done is deleted first, and its place
    left alone for a while.
    """
    ticket = rig.gcp.submit(order(candidate(A, "g2-standard-4", capacity="spot"), on_ttl="keep"))
    rig.moment += 30
    handle = rig.gcp.find("own1")[0].handle
    project, zone, name = handle.native_id.split("/")[1::2]
    rig.gcp.client.call(
        lambda s: s.instances().stop(project=project, zone=zone, instance=name),
        rig.gcp.context(ticket.order),
    )
    rig.moment += 30
    with pytest.raises(HalfMade) as caught:
        rig.gcp.poll(ticket)
    assert (handle,) == caught.value.handles
    assert caught.value.scopes
