"""The stand-in for Google's plugin: what it refuses, and what it makes in the rehearsal."""

import asyncio
from types import SimpleNamespace

import pytest
from google.protobuf.struct_pb2 import Struct

from providers.plugin import wire
from providers.plugin.gcp_standin.servicer import StandIn
from tests.plugin.test_servicer import Aborted, Context

NETWORK = "urn:pulumi:s::gpus::gpus:index:ManagedNetwork$gcp:compute/network:Network::train-network"


def call(servicer, method, urn=NETWORK, **fields):
    request = {"urn": urn, "news": Struct(), "olds": Struct(), "inputs": Struct(), "preview": False, "randomSeed": b"\x01\x02\x03\x04", **fields}
    return asyncio.run(getattr(servicer, method)(SimpleNamespace(**request), Context()))


def test_other_types_and_properties_are_refused():
    """By name: nothing is made that the rehearsal does not know."""
    with pytest.raises(Aborted, match="gcp:storage/bucket:Bucket"):
        call(StandIn(), "Check", "urn:pulumi:s::gpus::gcp:storage/bucket:Bucket::b")
    failures = call(StandIn(), "Check", news=wire.encode({"routingMode": "GLOBAL"})).failures
    assert [failure.property for failure in failures] == ["routingMode"]


def test_a_network_lives(tmp_path, monkeypatch):
    """Named by itself, made, found, deleted; deleted again is success, and what is gone has no id."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    servicer = StandIn()
    inputs = call(servicer, "Check", news=wire.encode({"autoCreateSubnetworks": False})).inputs
    assert wire.decode(inputs).values["name"] == "train-network-0102030"
    preview = call(servicer, "Create", properties=inputs, preview=True)
    assert (preview.id, wire.decode(preview.properties).unknown) == ("", {"selfLink"})
    made = call(servicer, "Create", properties=inputs)
    assert made.id == "projects/rehearsal/global/networks/train-network-0102030"
    assert call(servicer, "Read", id=made.id, properties=made.properties, inputs=inputs).id == made.id
    with pytest.raises(Aborted, match="already exists"):
        call(servicer, "Create", properties=inputs)
    for _ in range(2):
        call(servicer, "Delete", id=made.id, properties=made.properties)
    assert call(servicer, "Read", id=made.id, properties=made.properties, inputs=inputs).id == ""
