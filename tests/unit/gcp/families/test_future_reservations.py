"""Machines bound to a future reservation of Google, and reservations that cannot serve."""

import pytest

from providers.errors import NoCapacity, Unsupported
from tests.unit.gcp.families.rig import FAMILIES, candidate, reserve, seen
from tests.unit.gcp.rig import order


@pytest.mark.parametrize(
    "machine_type",
    [
        "a3-highgpu-8g",
        "a3-megagpu-8g",
        "a3-edgegpu-8g",
        "a3-ultragpu-8g",
        "a4-highgpu-8g",
        "a4x-highgpu-4g",
    ],
)
def test_machines_are_bound_to_what_a_future_reservation_delivered(rig, machine_type) -> None:
    """RESERVATION_BOUND with a termination action, under the zone that the look-up found; it is
    seen as a reservation, and ends with it.
    """
    zone = FAMILIES[machine_type][2]
    reserve(rig, machine_type, zone, future=True)
    ticket = rig.launched(candidate(machine_type, "reservation", "", zone.rsplit("-", 1)[0]))
    found = seen(rig, ticket)["scheduling"]
    assert (
        found["provisioningModel"],
        found["instanceTerminationAction"],
    ) == ("RESERVATION_BOUND", "DELETE")
    assert (zone, "reservation") == (
        ticket.placed.zone,
        rig.gcp.observe(ticket.handles)[0].capacity,
    )
    assert (
        "bound to its reservation: at the reservation's end the machine is deleted" in ticket.detail
    )
    rig.moment += 40 * 86_400
    assert rig.status(ticket.handles[0]) == "gone"


def test_an_ordinary_reservation_binds_nothing(rig) -> None:
    """A reservation that no future one delivered is used by a standard machine; so is one for a
    family that is never bound.
    """
    reserve(rig, "a3-ultragpu-8g", "us-central1-b")
    ticket = rig.launched(candidate("a3-ultragpu-8g", "reservation"))
    assert seen(rig, ticket)["scheduling"]["provisioningModel"] == "STANDARD"


def test_a_future_reservation_of_a_family_that_is_never_bound(rig) -> None:
    """A2's future reservations deliver ordinary ones."""
    reserve(rig, "a2-highgpu-8g", "us-central1-a", future=True)
    assert (
        seen(rig, rig.launched(candidate("a2-highgpu-8g", "reservation")))["scheduling"][
            "provisioningModel"
        ]
        == "STANDARD"
    )


def test_a_reservation_that_is_not_due_yet_is_not_there(rig) -> None:
    """Before its start a future reservation has delivered nothing: refused without a creating call."""
    window = {"startTime": "2027-03-15T00:00:00Z", "duration": {"seconds": "86400"}}
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True, timeWindow=window)
    with pytest.raises(Unsupported, match="none of that name"):
        rig.gcp.submit(order(candidate("a4-highgpu-8g", "reservation")))
    assert rig.calls("instances.bulkInsert") == 0


def test_a_reservation_elsewhere_is_named(rig) -> None:
    """The refusal of a place says where the reservation is; nothing is sent, nothing remembered."""
    reserve(rig, "a3-highgpu-8g", "us-central1-a")
    with pytest.raises(Unsupported, match="it is in us-central1-a") as caught:
        rig.gcp.submit(order(candidate("a3-highgpu-8g", "reservation", "us-east4-a")))
    assert rig.calls("instances.bulkInsert") == 0 and caught.value.block_s == 0


def test_an_order_on_a_reservation_without_a_zone_is_settled(rig) -> None:
    """A lost answer is found again by the token, in the zone of the reservation; bought once."""
    reserve(rig, "a4x-highgpu-4g", "us-central1-a", future=True)
    rig.store.add_fault("gcp", "instances.bulkInsert", "reply-lost", 1)
    wanted = order(candidate("a4x-highgpu-4g", "reservation", "", "us-central1"))
    with pytest.raises(Exception, match="lost"):
        rig.gcp.submit(wanted)
    ticket = rig.finish(rig.gcp.resume(wanted))
    assert (ticket.placed.zone, len(rig.gcp.find("own1"))) == ("us-central1-a", 1)


def test_a_reservation_that_is_used_up_is_no_capacity(rig) -> None:
    """The second machine of a reservation of one is refused as sold out."""
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True)
    rig.launched(candidate("a4-highgpu-8g", "reservation"))
    with pytest.raises(NoCapacity):
        rig.launched(candidate("a4-highgpu-8g", "reservation"), generation="gen2")
