"""The stand-in for Google's plugin: what it refuses, and what it makes in the rehearsal."""

import asyncio
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from google.protobuf.struct_pb2 import Struct
from packaging.version import Version

from providers.plugin import properties
from providers.plugin.pulumi_gcp.servicer import StandIn
from tests.plugin.servicer_rig import Aborted, Context

NETWORK = "urn:pulumi:s::gpus::gpus:index:ManagedNetwork$gcp:compute/network:Network::train-network"


def call(servicer, method, urn=NETWORK, **fields):
    request = {
        "urn": urn,
        "news": Struct(),
        "olds": Struct(),
        "inputs": Struct(),
        "preview": False,
        "randomSeed": b"\x01\x02\x03\x04",
        **fields,
    }
    return asyncio.run(getattr(servicer, method)(SimpleNamespace(**request), Context()))


def test_its_version_is_its_own() -> None:
    """Project, program and plugin name one version of the stand-in, newer than Google's that the
    SDK asks for: of an older one Pulumi warns.
    """
    from pathlib import Path

    import yaml

    from providers.adapters.gcp.network import STAND_IN_VERSION
    from providers.plugin.pulumi_gcp import servicer

    project = yaml.safe_load((Path(__file__).parents[2] / "Pulumi.yaml").read_text())
    stated = next(
        plugin["version"] for plugin in project["plugins"]["providers"] if plugin["name"] == "gcp"
    )
    assert stated == servicer.VERSION == STAND_IN_VERSION
    assert Version(stated) > Version(version("pulumi-gcp"))


def test_other_types_and_properties_are_refused() -> None:
    """By name: nothing is made that the rehearsal does not know."""
    with pytest.raises(Aborted, match="gcp:storage/bucket:Bucket"):
        call(StandIn(), "Check", "urn:pulumi:s::gpus::gcp:storage/bucket:Bucket::b")
    failures = call(StandIn(), "Check", news=properties.encode({"routingMode": "GLOBAL"})).failures
    assert [failure.property for failure in failures] == ["routingMode"]


def test_a_network_lives(tmp_path, monkeypatch) -> None:
    """Named by itself, made, found, deleted; deleted again is success, and what is gone has no id."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    servicer = StandIn()
    inputs = call(
        servicer, "Check", news=properties.encode({"autoCreateSubnetworks": False})
    ).inputs
    assert properties.decode(inputs).values["name"] == "train-network-0102030"
    preview = call(servicer, "Create", properties=inputs, preview=True)
    assert preview.id == "" and properties.decode(preview.properties).unknown == {"selfLink"}
    made = call(servicer, "Create", properties=inputs)
    assert made.id == "projects/rehearsal/global/networks/train-network-0102030"
    assert (
        call(servicer, "Read", id=made.id, properties=made.properties, inputs=inputs).id == made.id
    )
    with pytest.raises(Aborted, match="already exists"):
        call(servicer, "Create", properties=inputs)
    for _ in range(2):
        call(servicer, "Delete", id=made.id, properties=made.properties)
    assert call(servicer, "Read", id=made.id, properties=made.properties, inputs=inputs).id == ""
