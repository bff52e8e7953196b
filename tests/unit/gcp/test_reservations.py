"""A reservation that a machine cannot name, or that is for another machine type, is told with what
to do.
"""

import pytest

from providers.adapters.gcp.reservations import fits
from providers.errors import Unsupported
from providers.model.offer import Candidate, Offer

CANDIDATE = Candidate(
    1,
    0,
    Offer("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", "H100", 8, "reservation", 1),
    1,
    "mine",
    1,
)


def body(**more):
    made = {"instanceProperties": {"machineType": "a3-highgpu-8g"}, "count": "2", "inUseCount": "0"}
    return {
        "name": "mine",
        "zone": "zones/us-central1-a",
        "specificReservationRequired": True,
        "specificReservation": made,
    } | more


def test_one_that_is_consumed_automatically_is_left_out() -> None:
    """skypilot#3327: on-demand uses it; the reservation is asked for nowhere else."""
    with pytest.raises(
        Unsupported,
        match=r"mine is consumed automatically: leave `reservation\(mine\)` out, on-demand uses it",
    ) as told:
        fits(body(specificReservationRequired=False), "mine", CANDIDATE)
    assert [scope.capacity for scope in told.value.scopes] == ["reservation"]


def test_one_of_another_machine_type_says_so() -> None:
    """What it is for is named; one that fits passes."""
    with pytest.raises(Unsupported, match="found it is for a2-ultragpu-8g"):
        fits(
            body(specificReservation={"instanceProperties": {"machineType": "a2-ultragpu-8g"}}),
            "mine",
            CANDIDATE,
        )
    fits(body(), "mine", CANDIDATE)
