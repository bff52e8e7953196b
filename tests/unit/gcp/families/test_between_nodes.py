"""What is between several machines of Google's, by their type and the networks that are named."""

import pytest

from providers.adapters.gcp import MANIFEST
from providers.adapters.gcp.compile import creating_call
from providers.model.machine import Setup
from tests.present import present
from tests.unit.gcp.families.rig import candidate, nics
from tests.unit.gcp.rig import order

ZONE = "us-central1-b"
ROCE = (("fabric", {ZONE: nics("a4-highgpu-8g", ZONE)}),)


@pytest.mark.parametrize(
    ("machine_type", "options", "text"),
    [
        ("a4-highgpu-8g", ROCE, "RoCE (gIB) 3200 Gbit/s"),
        ("a4-highgpu-8g", (), "TCP only: RoCE (gIB) needs the zone's networks in options.gcp"),
        ("a4-highgpu-8g", (*ROCE, ("image_family", "mine")), "if your image has the driver"),
        ("a3-megagpu-8g", (), "TCP only: GPUDirect-TCPXO needs Google's Container-Optimized OS"),
        ("a3-highgpu-8g", (), "TCP only: GPUDirect-TCPX needs Google's Container-Optimized OS"),
        ("g2-standard-96", (), "None"),
    ],
)
def test_a_plan_promises_what_the_boot_image_can_deliver(machine_type, options, text) -> None:
    placed = candidate(machine_type, zone=ZONE).placement
    asked, between = Setup(options=options), present(MANIFEST.limits.fabric)
    assert text in str(between(placed._replace(nodes=2), asked))
    assert between(placed, asked) is None


@pytest.mark.parametrize(("nodes", "there"), [(2, True), (1, False)])
def test_several_nodes_on_roce_boot_the_image_with_its_driver_and_install_gib(nodes, there) -> None:
    call = creating_call(
        order(
            candidate("a4-highgpu-8g", zone=ZONE)._replace(nodes=nodes), nodes=nodes, options=ROCE
        )
    )
    body = call.body["instanceProperties"]
    image = body["disks"][0]["initializeParams"]["sourceImage"]
    told = {item["key"]: item["value"] for item in body.get("metadata", {}).get("items", ())}
    assert ("ubuntu-accelerator-2204-amd64" in image) is there
    assert ("apt-get install -qy nccl-gib" in told.get("startup-script", "")) is there
