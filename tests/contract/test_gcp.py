"""Compute Engine, with Google's own client, keeps the adapter contract against its stand-in."""

import json

import pytest

from providers.adapters.gcp import MANIFEST, errors
from providers.model.volume import VolumeSpec
from providers.rehearsal.clouds.gcp import console
from providers.testing.contract import Harness, cases


def provoke(code):
    body = {"error": {"code": 400, "message": "any words", "errors": [{"reason": code}]}}
    return errors.from_http(400, json.dumps(body), errors.Context("a test", creating=True))


def reserve(store, place) -> str:
    console.reserve(store, "mine", place.zone, place.machine_type)
    return "mine"


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="L4:1",
    create=("*nstances.*nsert",),
    delete="instances.delete",
    provoke=provoke,
    page=500,
    regions=("us-central1", "europe-west4"),
    reserve=reserve,
    edited={"machine_type": "g2-standard-24", "gpu_count": 2},
    leftovers=console.disks,
    offline={"NO_GCE_CHECK": "true"},
    volume=VolumeSpec("data", "gcp", "us-central1-a", 200, "pd-balanced", "us-central1"),
    volume_create=("disks.insert",),
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home) -> None:
    """Every case of the contract holds."""
    case.run(HARNESS, contract_home)
