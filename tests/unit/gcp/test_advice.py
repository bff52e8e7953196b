"""Google's advice on Spot capacity, over Google's client against the stand-in."""

import pytest

from providers.adapters.gcp import advice
from providers.errors import BadCredentials
from providers.model.advice import kind
from tests.unit.gcp.rig import A, B, candidate

WEST = "us-west1-a"


def told(rig, *candidates, nodes=1):
    found = {}
    for question in rig.gcp.advice([each.offer for each in candidates], nodes):
        found.update(question())
    return {(about[1], about[2]): each for about, each in found.items()}


def test_a_region_without_room_is_told_to_have_little(rig) -> None:
    """One question for each region, by the beta API; the machine type's zones are named."""
    kinds = [candidate(zone, "g2-standard-4", "spot") for zone in (A, B, WEST)]
    rig.store.set_stock("gcp", "us-central1", "g2-standard-4", "spot", 0)
    found = told(rig, *kinds)
    assert found["us-west1", "g2-standard-4"] == (0.9, "obtainability 0.9")
    assert found["us-central1", "g2-standard-4"] == (0.1, "obtainability 0.1")
    assert rig.calls("advice.capacity") == 2


def test_what_google_tells_nothing_of_is_not_asked(rig) -> None:
    """On demand and Flex-start need an invitation."""
    assert told(rig, candidate(A), candidate(A, capacity="flex-start")) == {}
    assert rig.calls("advice.capacity") == 0


def test_an_attached_gpu_is_named_and_machines_are_counted() -> None:
    """N1 takes its GPUs beside it."""
    offer = candidate(A, "n1-standard-8", "spot").offer
    assert advice.body([offer], 3) == {
        "size": 3,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {
            "instanceSelections": {
                "machine": {
                    "machineTypes": ["n1-standard-8"],
                    "guestAccelerators": [
                        {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}
                    ],
                }
            }
        },
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{A}"}]},
    }
    assert kind(offer) == ("gcp", "us-central1", "n1-standard-8", "T4", "spot")


def test_a_missing_right_is_an_error_of_the_tree(rig) -> None:
    """Whoever asked decides what becomes of it."""
    rig.store.add_fault("gcp", "advice.capacity", "forbidden")
    with pytest.raises(BadCredentials):
        told(rig, candidate(A, "g2-standard-4", "spot"))
