"""Every family of machines at Google in every way it is sold, over Google's own client; what is
not sold is refused.
"""

import pytest

from providers.adapters.gcp import CAPABILITIES, machines
from providers.adapters.gcp import compile as native
from providers.adapters.gcp.options import ARM_IMAGE
from providers.errors import NotConfigured, Unsupported
from providers.rehearsal.clouds.gcp import machines as cloud
from tests.unit.gcp.families.rig import (
    FAMILIES,
    FUTURE,
    KINDS,
    candidate,
    fabric_of,
    nics,
    reserve,
)
from tests.unit.gcp.rig import order

SOLD = [(kind, way) for kind, row in FAMILIES.items() for way in row[3]]
NOT_SOLD = [(kind, way) for kind, row in FAMILIES.items() for way in KINDS if way not in row[3]]


@pytest.mark.parametrize(("machine_type", "capacity"), SOLD)
def test_each_family_is_had_in_every_way_that_it_is_sold(rig, machine_type, capacity) -> None:
    """Ordered, made, running, and seen as what was ordered; bare metal with its fabric, the others
    with one interface.
    """
    gpu, count, zone, _, _ = FAMILIES[machine_type]
    options = fabric_of(rig, machine_type, zone) if machine_type.endswith("-metal") else ()
    if capacity == "reservation":
        reserve(rig, machine_type, zone, future=machine_type in FUTURE)
    ticket = rig.launched(candidate(machine_type, capacity), options=options)
    node = rig.gcp.observe(ticket.handles)[0]
    assert (machine_type, gpu, count, capacity, "running", zone) == (
        node.machine_type,
        node.gpu_type,
        node.gpu_count,
        node.capacity,
        node.status,
        node.zone,
    )
    assert ticket.placed == candidate(machine_type, capacity)
    assert CAPABILITIES.orders(machine_type) and capacity in CAPABILITIES.capacities
    rig.gcp.delete(ticket.handles[0])
    rig.moment += 5
    assert rig.status(ticket.handles[0]) == "gone"


@pytest.mark.parametrize(("machine_type", "capacity"), NOT_SOLD)
def test_what_google_does_not_sell_is_refused_before_any_call(rig, machine_type, capacity) -> None:
    """The ordering restrictions of a family: nothing is sent, the refusal names the ways there are,
    and other specs are not blocked.
    """
    if capacity == "reservation":
        reserve(rig, machine_type, FAMILIES[machine_type][2])
    sent = rig.calls("instances.bulkInsert") + rig.calls("instances.insert")
    with pytest.raises(Unsupported, match="capacity that Google sells of it") as caught:
        rig.gcp.submit(order(candidate(machine_type, capacity)))
    assert FAMILIES[machine_type][3][0] in str(caught.value) and caught.value.block_s == 0
    assert sent == rig.calls("instances.bulkInsert") + rig.calls("instances.insert")


@pytest.mark.parametrize(("machine_type", "capacity"), NOT_SOLD)
def test_the_rehearsal_refuses_what_google_does_not_sell(
    rig, machine_type, capacity, monkeypatch
) -> None:
    """The cloud has the rule too: an adapter that forgot it would be refused."""
    if capacity == "reservation":
        reserve(rig, machine_type, FAMILIES[machine_type][2])
    options = (
        fabric_of(rig, machine_type, FAMILIES[machine_type][2])
        if machine_type.endswith("-metal")
        else ()
    )
    monkeypatch.setattr(
        machines, "FAMILIES", tuple(row._replace(never=()) for row in machines.FAMILIES)
    )
    with pytest.raises(
        (Unsupported, NotConfigured), match=r"not sold as|features are not compatible"
    ):
        rig.gcp.submit(order(candidate(machine_type, capacity), options=options))


def test_bare_metal_is_not_ordered_without_its_fabric(rig) -> None:
    """A4X Max has no gVNIC: without named networks there is nothing to send."""
    reserve(rig, "a4x-maxgpu-4g-metal", "us-central1-a", future=True)
    with pytest.raises(
        Unsupported,
        match=r"wanted its fabric \(2 IDPF \+ 8 MRDMA\), found none named for us-central1-a",
    ):
        rig.gcp.submit(order(candidate("a4x-maxgpu-4g-metal", "reservation")))
    assert rig.calls("instances.bulkInsert") == 0


def test_the_image_follows_the_processor_and_the_boot_disk_the_family() -> None:
    """A4X starts an Arm image unless the user names one; A3 Ultra, A4, A4X and G4 take Hyperdisk
    Balanced only.
    """
    made = {}
    for machine_type, row in FAMILIES.items():
        given = (
            (("fabric", {row[2]: nics(machine_type, row[2])}),)
            if machine_type.endswith("-metal")
            else ()
        )
        call = native.creating_call(
            order(
                candidate(machine_type, row[3][0]), options=(*given, ("boot_disk_type", "pd-ssd"))
            )
        )
        made[machine_type] = call.body["instanceProperties"]["disks"][0]["initializeParams"]
    assert set(FUTURE) == {kind for kind, disk in made.items() if disk["sourceImage"] == ARM_IMAGE}
    hyperdisk = {kind for kind, disk in made.items() if disk["diskType"] == "hyperdisk-balanced"}
    assert {kind for kind in FAMILIES if kind.startswith(("a3-ultra", "a4", "g4"))} == hyperdisk
    own = native.creating_call(
        order(
            candidate("a4x-highgpu-4g", "reservation"),
            options=(("image", "projects/my-project/global/images/arm"),),
        )
    )
    assert (
        own.body["instanceProperties"]["disks"][0]["initializeParams"]["sourceImage"]
        == "projects/my-project/global/images/arm"
    )


def test_an_image_of_the_wrong_processor_is_configuration(rig) -> None:
    """An x86 image on an Arm machine: refused by the cloud, and told as a matter of the
    declaration.
    """
    reserve(rig, "a4x-highgpu-4g", "us-central1-a", future=True)
    options = (
        ("image_family", "common-cu129-ubuntu-2204-nvidia-580"),
        ("image_project", "deeplearning-platform-release"),
    )
    with pytest.raises(Unsupported, match="architecture"):
        rig.gcp.submit(order(candidate("a4x-highgpu-4g", "reservation"), options=options))


@pytest.mark.parametrize(
    ("machine_type", "bundled", "most"),
    [
        ("a3-ultragpu-8g", True, 0),
        ("a3-ultragpu-8g-nolssd", False, 0),
        ("a4-highgpu-8g", True, 0),
        ("g4-standard-48", False, 4),
        ("g4-standard-384", False, 32),
        ("g2-standard-96", False, 8),
    ],
)
def test_local_ssd_comes_with_the_type_or_can_be_added(machine_type, bundled, most) -> None:
    """-nolssd types have none and take none; G4 takes four for each GPU."""
    assert (bundled, most) == (
        machines.bundled_ssd(machine_type),
        machines.most_local_ssds(machine_type),
    )


def test_only_whole_gpus_of_g4_are_sold() -> None:
    """A fraction of a GPU cannot be asked for by a whole count, and is not declared."""
    assert [
        CAPABILITIES.orders(f"g4-standard-{vcpus}") for vcpus in (6, 12, 24, 48, 96, 192, 384)
    ] == [False] * 3 + [True] * 4


def test_adapter_and_stand_in_agree_on_every_family() -> None:
    """Two tables, written apart: what is never sold, what is bound, how many interfaces there are."""
    for machine_type in FAMILIES:
        row = machines.family(machine_type)
        assert set(row.never) == set(cloud.first_of(cloud.NEVER, machine_type, ()))
        assert row.bound == machine_type.startswith(cloud.BOUND)
        if row.nics is not None:
            assert row.nics.host + row.nics.rdma == cloud.first_of(cloud.MOST_NICS, machine_type, 0)
        assert machines.built_in(machine_type)[0] == cloud.types()[machine_type].accelerator
        assert machines.bundled_ssd(machine_type) == bool(
            cloud.types()[machine_type].bundled_ssd_gib
        )
        assert not any(cloud.disk_refusal(machine_type, disk) for disk in row.disks)
