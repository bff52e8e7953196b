"""Vertex AI's custom jobs, with Google's own client, keep the adapter contract against their
stand-in.
"""

import json

import pytest

from providers.adapters.gcp.errors import Context
from providers.adapters.gcp.vertex import MANIFEST, adapter, errors
from providers.model.machine import Setup
from providers.rehearsal.clouds.vertex import console
from providers.testing.contract import Harness, cases
from providers.testing.harness import StandIn


def provoke(code):
    context = Context("a test", creating=True)
    if code.isdigit() and int(code) in errors.ENDS:
        return errors.never_ran({"error": {"code": int(code)}}, context)
    body = {"error": {"code": 400, "message": "any words", "status": code}}
    return errors.from_http(
        int(code) if code.isdigit() else 400, b"" if code.isdigit() else json.dumps(body), context
    )


def knobs(harness, store):
    # A job of a contract case runs until it is ended from outside.
    store.set_latency("vertex", "job", 30 * 86_400.0)
    return StandIn(harness, store)


HARNESS = Harness(
    MANIFEST,
    console,
    gpu="L4:1",
    create=("customJobs.create",),
    delete="customJobs.cancel",
    provoke=provoke,
    regions=("us-central1", "europe-west4"),
    setup=Setup(options=(("image", "some/image:1"), ("command", ("python", "train.py")))),
    knobs=knobs,
    kind="job",
)


@pytest.mark.parametrize("case", cases(HARNESS), ids=str)
def test_contract(case, contract_home, monkeypatch) -> None:
    """Every case of the contract holds."""
    # All 20 regions are looked through in tests/unit/vertex/test_wire.py.
    monkeypatch.setattr(adapter, "LOCATIONS", frozenset(HARNESS.regions))
    case.run(HARNESS, contract_home)
