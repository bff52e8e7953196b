"""Every family of machines at Google with the ways it is sold, and the adapter beside the stand-in
to order them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.gcp import machines
from providers.model.machine import Ticket
from providers.model.offer import Candidate, Offer
from tests.present import present
from tests.unit.gcp.rig import Rig, order

KINDS = ("on-demand", "spot", "flex-start", "reservation")
# Machine type: (GPU, count, zone, what Google sells of it, the interfaces of its full network).
FAMILIES = {
    "a3-edgegpu-8g": ("H100", 8, "us-central1-b", KINDS, "5 gVNIC"),
    "a3-edgegpu-8g-nolssd": ("H100", 8, "us-central1-b", KINDS, "5 gVNIC"),
    "a3-highgpu-8g": ("H100", 8, "us-central1-a", KINDS, "5 gVNIC"),
    "a3-megagpu-8g": ("H100-MEGA", 8, "us-central1-a", KINDS, "9 gVNIC"),
    "a3-highgpu-1g": ("H100", 1, "us-central1-a", ("spot", "flex-start"), ""),
    "a3-ultragpu-8g": ("H200", 8, "us-central1-b", KINDS[1:], "2 gVNIC + 8 MRDMA"),
    "a3-ultragpu-8g-nolssd": ("H200", 8, "us-central1-b", KINDS[1:], "2 gVNIC + 8 MRDMA"),
    "a4-highgpu-8g": ("B200", 8, "us-central1-b", KINDS[1:], "2 gVNIC + 8 MRDMA"),
    "a4x-highgpu-4g": ("GB200", 4, "us-central1-a", ("reservation",), "2 gVNIC + 4 MRDMA"),
    "a4x-maxgpu-4g-metal": ("GB300", 4, "us-central1-a", ("reservation",), "2 IDPF + 8 MRDMA"),
    "g4-standard-48": (
        "RTX-PRO-6000",
        1,
        "us-central1-a",
        ("on-demand", "spot", "reservation"),
        "",
    ),
    "g4-standard-384": (
        "RTX-PRO-6000",
        8,
        "us-central1-a",
        ("on-demand", "spot", "reservation"),
        "",
    ),
    "g2-standard-96": ("L4", 8, "us-central1-a", KINDS, ""),
    "a2-highgpu-8g": ("A100", 8, "us-central1-a", KINDS, ""),
    "a2-ultragpu-8g": ("A100-80GB", 8, "us-central1-a", KINDS, ""),
}
FUTURE = ("a4x-highgpu-4g", "a4x-maxgpu-4g-metal")


def candidate(
    machine_type: str, capacity: str = "spot", zone: str | None = None, region: str = ""
) -> Candidate:
    gpu, count, known, _, _ = FAMILIES[machine_type]
    zone = known if zone is None else zone
    offer = Offer(
        "gcp", region or zone.rsplit("-", 1)[0], zone, machine_type, gpu, count, capacity, 1_000_000
    )
    return Candidate(
        1, 0, offer, 1, reservation="mine" if capacity == "reservation" else "", micro_usd=1_000_000
    )


def nics(machine_type: str, zone: str) -> dict[str, list[dict[str, Any]]]:
    """The fabric of a machine type in a zone, as a user writes it."""
    wanted = present(machines.family(machine_type).nics)
    host = {
        "network": "host-#",
        "subnetwork": "host-#",
        "nic_type": wanted.host_type,
        "count": wanted.host,
    }
    rdma = (
        [
            {
                "network": f"rdma-{zone}",
                "subnetwork": "rdma-#",
                "nic_type": "MRDMA",
                "count": wanted.rdma,
            }
        ]
        if wanted.rdma
        else []
    )
    return {"nics": [host, *rdma]}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.server.close()
    assert rig.server.faulty == []


def api(rig: Rig, make: Callable[[Any], Any]) -> None:
    rig.gcp.client.call(make, rig.gcp.context(order()))
    rig.moment += 5


def fabric_of(rig: Rig, machine_type: str, zone: str) -> tuple[tuple[str, Any], ...]:
    """Makes the networks that the fabric names; the section of options that names them."""
    region, wanted = zone.rsplit("-", 1)[0], present(machines.family(machine_type).nics)
    root = "projects/rehearsal/global/networks"

    def network(**body: Any) -> None:
        body["autoCreateSubnetworks"] = False
        api(rig, lambda s: s.networks().insert(project="rehearsal", body=body))

    def subnet(name: str, network: str, addresses: str) -> None:
        body = {"name": name, "network": f"{root}/{network}", "ipCidrRange": addresses}
        api(rig, lambda s: s.subnetworks().insert(project="rehearsal", region=region, body=body))

    for number in range(wanted.host):
        network(name=f"host-{number}")
        subnet(f"host-{number}", f"host-{number}", f"10.{number}.0.0/24")
    if wanted.rdma:
        profile = f"projects/rehearsal/global/networkProfiles/{zone}-vpc-roce" + (
            "-metal" if wanted.host_type == "IDPF" else ""
        )
        network(name=f"rdma-{zone}", networkProfile=profile)
        for number in range(wanted.rdma):
            subnet(f"rdma-{number}", f"rdma-{zone}", f"10.{100 + number}.0.0/24")
    return (("fabric", {zone: nics(machine_type, zone)}),)


def reserve(rig: Rig, machine_type: str, zone: str, future: bool = False, **more: Any) -> None:
    """One machine reserved under the name `mine`, by a reservation or by a future one that is due."""
    properties = {"instanceProperties": {"machineType": machine_type}}
    if not future:
        body = {
            "name": "mine",
            "specificReservationRequired": True,
            "specificReservation": {"count": "1", **properties},
        }
        api(rig, lambda s: s.reservations().insert(project="rehearsal", zone=zone, body=body))
        return
    window = {"startTime": "2027-01-15T00:00:00Z", "endTime": "2027-02-15T00:00:00Z"}
    body = {
        "name": "ahead",
        "reservationName": "mine",
        "specificSkuProperties": {"totalCount": "1", **properties},
        "timeWindow": window,
        **more,
    }
    api(rig, lambda s: s.futureReservations().insert(project="rehearsal", zone=zone, body=body))


def seen(rig: Rig, ticket: Ticket) -> Any:
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    return rig.gcp.client.call(
        lambda s: s.instances().get(project=project, zone=zone, instance=name),
        rig.gcp.context(order()),
    )
