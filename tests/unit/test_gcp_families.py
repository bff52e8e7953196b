"""Every family of machines at Google and every way it is sold: the adapter against the stand-in,
over Google's own client; what is not sold is refused.
"""

import pytest

from providers.adapters.gcp import CAPABILITIES, MANIFEST, fabric, machines
from providers.adapters.gcp import compile as native, grouping
from providers.adapters.gcp.options import ARM_IMAGE, problems
from providers.api import plan
from providers.errors import NoCapacity, NotConfigured, Unsupported
from providers.model.machine import Setup
from providers.model.offer import Candidate, Offer
from providers.model.spec import Cluster, Gpu
from providers.planner import render
from providers.rehearsal.clouds.gcp import machines as cloud
from tests.unit.test_gcp_adapter import Rig, order

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
SOLD = [(kind, way) for kind, row in FAMILIES.items() for way in row[3]]
NOT_SOLD = [(kind, way) for kind, row in FAMILIES.items() for way in KINDS if way not in row[3]]


def candidate(machine_type, capacity="spot", zone=None, region=""):
    gpu, count, known, _, _ = FAMILIES[machine_type]
    zone = known if zone is None else zone
    offer = Offer(
        "gcp", region or zone.rsplit("-", 1)[0], zone, machine_type, gpu, count, capacity, 1_000_000
    )
    return Candidate(
        1, 0, offer, 1, reservation="mine" if capacity == "reservation" else "", micro_usd=1_000_000
    )


def nics(machine_type, zone):
    """The fabric of a machine type in a zone, as a user writes it."""
    wanted = machines.family(machine_type).nics
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
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.server.close()
    assert [] == rig.server.faulty


def api(rig, make):
    rig.gcp._client.call(make, rig.gcp._context(order()))
    rig.moment += 5


def fabric_of(rig, machine_type, zone):
    """Makes the networks that the fabric names; the section of options that names them."""
    region, wanted = zone.rsplit("-", 1)[0], machines.family(machine_type).nics
    root = "projects/rehearsal/global/networks"
    for number in range(wanted.host):
        api(
            rig,
            lambda s: s.networks().insert(
                project="rehearsal", body={"name": f"host-{number}", "autoCreateSubnetworks": False}
            ),
        )
        body = {
            "name": f"host-{number}",
            "network": f"{root}/host-{number}",
            "ipCidrRange": f"10.{number}.0.0/24",
        }
        api(rig, lambda s: s.subnetworks().insert(project="rehearsal", region=region, body=body))
    if wanted.rdma:
        profile = f"projects/rehearsal/global/networkProfiles/{zone}-vpc-roce" + (
            "-metal" if wanted.host_type == "IDPF" else ""
        )
        body = {"name": f"rdma-{zone}", "autoCreateSubnetworks": False, "networkProfile": profile}
        api(rig, lambda s: s.networks().insert(project="rehearsal", body=body))
        for number in range(wanted.rdma):
            body = {
                "name": f"rdma-{number}",
                "network": f"{root}/rdma-{zone}",
                "ipCidrRange": f"10.{100 + number}.0.0/24",
            }
            api(
                rig, lambda s: s.subnetworks().insert(project="rehearsal", region=region, body=body)
            )
    return (("fabric", {zone: nics(machine_type, zone)}),)


def reserve(rig, machine_type, zone, future=False, **more):
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


def seen(rig, ticket):
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    return rig.gcp._client.call(
        lambda s: s.instances().get(project=project, zone=zone, instance=name),
        rig.gcp._context(order()),
    )


@pytest.mark.parametrize(("machine_type", "capacity"), SOLD)
def test_each_family_is_had_in_every_way_that_it_is_sold(rig, machine_type, capacity):
    """Ordered, made, running, and seen as what was ordered; bare metal with its fabric, the others
    with one interface.
    """
    gpu, count, zone, _, _ = FAMILIES[machine_type]
    options = fabric_of(rig, machine_type, zone) if machine_type.endswith("-metal") else ()
    if capacity == "reservation":
        reserve(rig, machine_type, zone, future=machine_type in FUTURE)
    ticket = rig.got(candidate(machine_type, capacity), options=options)
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
    assert "gone" == rig.status(ticket.handles[0])


@pytest.mark.parametrize(("machine_type", "capacity"), NOT_SOLD)
def test_what_google_does_not_sell_is_refused_before_any_call(rig, machine_type, capacity):
    """The ordering restrictions of a family: nothing is sent, the refusal names the ways there are,
    and other specs are not blocked.
    """
    if capacity == "reservation":
        reserve(rig, machine_type, FAMILIES[machine_type][2])
    sent = rig.calls("instances.bulkInsert") + rig.calls("instances.insert")
    with pytest.raises(Unsupported, match="capacity that Google sells of it") as caught:
        rig.gcp.submit(order(candidate(machine_type, capacity)))
    assert FAMILIES[machine_type][3][0] in str(caught.value) and 0 == caught.value.block_s
    assert sent == rig.calls("instances.bulkInsert") + rig.calls("instances.insert")


@pytest.mark.parametrize(("machine_type", "capacity"), NOT_SOLD)
def test_the_rehearsal_refuses_what_google_does_not_sell(rig, machine_type, capacity, monkeypatch):
    """The cloud has the rule too: an adapter that forgot it would be refused."""
    if capacity == "reservation":
        reserve(rig, machine_type, FAMILIES[machine_type][2])
    options = (
        fabric_of(rig, machine_type, FAMILIES[machine_type][2])
        if machine_type.endswith("-metal")
        else ()
    )
    monkeypatch.setattr(
        machines, "_FAMILIES", tuple(row._replace(never=()) for row in machines._FAMILIES)
    )
    with pytest.raises(
        (Unsupported, NotConfigured), match="not sold as|features are not compatible"
    ):
        rig.gcp.submit(order(candidate(machine_type, capacity), options=options))


@pytest.mark.parametrize(
    "machine_type", [kind for kind, row in FAMILIES.items() if row[4] and kind not in FUTURE]
)
def test_a_named_fabric_is_compiled_for_its_zone(rig, machine_type):
    """Every interface in its network, RDMA ones of their type, an outside address on the first
    alone; the machine is had with them.
    """
    _, _, zone, ways, shape = FAMILIES[machine_type]
    ticket = rig.got(candidate(machine_type, ways[0]), options=fabric_of(rig, machine_type, zone))
    found = seen(rig, ticket)["networkInterfaces"]
    wanted = machines.family(machine_type).nics
    assert shape == str(wanted) and wanted.host + wanted.rdma == len(found)
    assert ["GVNIC"] * wanted.host + ["MRDMA"] * wanted.rdma == [nic["nicType"] for nic in found]
    assert [True] + [False] * (len(found) - 1) == ["accessConfigs" in nic for nic in found]
    assert len(found) == len({nic["subnetwork"] for nic in found})


def test_without_a_fabric_for_the_zone_there_is_one_interface(rig):
    """A fabric of another zone, or of another kind of machine, leaves the machine with a single
    ordinary interface.
    """
    options = fabric_of(rig, "a3-ultragpu-8g", "us-central1-b")
    elsewhere = rig.got(candidate("a3-ultragpu-8g", zone="us-east4-b"), options=options)
    unlike = rig.got(candidate("a3-edgegpu-8g"), options=options, generation="gen2")
    assert [1, 1] == [len(seen(rig, ticket)["networkInterfaces"]) for ticket in (elsewhere, unlike)]


def test_zones_with_unlike_fabrics_share_no_call():
    """One body serves a whole call: a zone whose interfaces differ goes out by itself."""
    run = [
        candidate("a3-ultragpu-8g", zone=zone)
        for zone in ("us-central1-b", "us-central1-c", "us-central1-f")
    ]
    section = {"fabric": {"us-central1-b": nics("a3-ultragpu-8g", "us-central1-b")}}
    assert (3, 1) == (MANIFEST.limits.together(run, {}), MANIFEST.limits.together(run, section))
    assert 2 == MANIFEST.limits.together(run[1:], section)
    assert 3 == grouping.group(run)


def test_machines_of_unlike_disks_or_interfaces_share_no_call():
    """A call has one boot disk and one set of local SSDs, so that only types that take the same go
    together.
    """
    high, edge, bare, ultra = (
        candidate(kind, zone="us-central1-b")
        for kind in ("a3-highgpu-8g", "a3-edgegpu-8g", "a3-edgegpu-8g-nolssd", "a3-ultragpu-8g")
    )
    assert [2, 1, 1] == [grouping.group([high, other]) for other in (edge, bare, ultra)]


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
def test_machines_are_bound_to_what_a_future_reservation_delivered(rig, machine_type):
    """RESERVATION_BOUND with a termination action, under the zone that the look-up found; it is
    seen as a reservation, and ends with it.
    """
    zone = FAMILIES[machine_type][2]
    reserve(rig, machine_type, zone, future=True)
    ticket = rig.got(candidate(machine_type, "reservation", "", zone.rsplit("-", 1)[0]))
    found = seen(rig, ticket)["scheduling"]
    assert ("RESERVATION_BOUND", "DELETE") == (
        found["provisioningModel"],
        found["instanceTerminationAction"],
    )
    assert (zone, "reservation") == (
        ticket.placed.zone,
        rig.gcp.observe(ticket.handles)[0].capacity,
    )
    assert (
        "bound to its reservation: at the reservation's end the machine is deleted" in ticket.detail
    )
    rig.moment += 40 * 86_400
    assert "gone" == rig.status(ticket.handles[0])


def test_an_ordinary_reservation_binds_nothing(rig):
    """A reservation that no future one delivered is used by a standard machine; so is one for a
    family that is never bound.
    """
    reserve(rig, "a3-ultragpu-8g", "us-central1-b")
    ticket = rig.got(candidate("a3-ultragpu-8g", "reservation"))
    assert "STANDARD" == seen(rig, ticket)["scheduling"]["provisioningModel"]


def test_a_future_reservation_of_a_family_that_is_never_bound(rig):
    """A2's future reservations deliver ordinary ones."""
    reserve(rig, "a2-highgpu-8g", "us-central1-a", future=True)
    assert (
        "STANDARD"
        == seen(rig, rig.got(candidate("a2-highgpu-8g", "reservation")))["scheduling"][
            "provisioningModel"
        ]
    )


def test_a_reservation_that_is_not_due_yet_is_not_there(rig):
    """Before its start a future reservation has delivered nothing: refused without a creating call."""
    window = {"startTime": "2027-03-15T00:00:00Z", "duration": {"seconds": "86400"}}
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True, timeWindow=window)
    with pytest.raises(Unsupported, match="none of that name"):
        rig.gcp.submit(order(candidate("a4-highgpu-8g", "reservation")))
    assert 0 == rig.calls("instances.bulkInsert")


def test_a_reservation_elsewhere_is_named(rig):
    """The refusal of a place says where the reservation is; nothing is sent, nothing remembered."""
    reserve(rig, "a3-highgpu-8g", "us-central1-a")
    with pytest.raises(Unsupported, match="it is in us-central1-a") as caught:
        rig.gcp.submit(order(candidate("a3-highgpu-8g", "reservation", "us-east4-a")))
    assert 0 == rig.calls("instances.bulkInsert") and 0 == caught.value.block_s


def test_an_order_on_a_reservation_without_a_zone_is_settled(rig):
    """A lost answer is found again by the token, in the zone of the reservation; bought once."""
    reserve(rig, "a4x-highgpu-4g", "us-central1-a", future=True)
    rig.store.add_fault("gcp", "instances.bulkInsert", "reply-lost", 1)
    wanted = order(candidate("a4x-highgpu-4g", "reservation", "", "us-central1"))
    with pytest.raises(Exception, match="lost"):
        rig.gcp.submit(wanted)
    ticket = rig.had(rig.gcp.resume(wanted))
    assert ("us-central1-a", 1) == (ticket.placed.zone, len(rig.gcp.find("own1")))


def test_a_reservation_that_is_used_up_is_no_capacity(rig):
    """The second machine of a reservation of one is refused as sold out."""
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True)
    rig.got(candidate("a4-highgpu-8g", "reservation"))
    with pytest.raises(NoCapacity):
        rig.got(candidate("a4-highgpu-8g", "reservation"), generation="gen2")


def test_bare_metal_is_not_ordered_without_its_fabric(rig):
    """A4X Max has no gVNIC: without named networks there is nothing to send."""
    reserve(rig, "a4x-maxgpu-4g-metal", "us-central1-a", future=True)
    with pytest.raises(
        Unsupported,
        match=r"wanted its fabric \(2 IDPF \+ 8 MRDMA\), found none named for us-central1-a",
    ):
        rig.gcp.submit(order(candidate("a4x-maxgpu-4g-metal", "reservation")))
    assert 0 == rig.calls("instances.bulkInsert")


def test_the_image_follows_the_processor_and_the_boot_disk_the_family():
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
        "projects/my-project/global/images/arm"
        == own.body["instanceProperties"]["disks"][0]["initializeParams"]["sourceImage"]
    )


def test_an_image_of_the_wrong_processor_is_configuration(rig):
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
def test_local_ssd_comes_with_the_type_or_can_be_added(machine_type, bundled, most):
    """-nolssd types have none and take none; G4 takes four for each GPU."""
    assert (bundled, most) == (
        machines.bundled_ssd(machine_type),
        machines.most_local_ssds(machine_type),
    )


def test_only_whole_gpus_of_g4_are_sold():
    """A fraction of a GPU cannot be asked for by a whole count, and is not declared."""
    assert [False] * 3 + [True] * 4 == [
        CAPABILITIES.orders(f"g4-standard-{vcpus}") for vcpus in (6, 12, 24, 48, 96, 192, 384)
    ]


def test_adapter_and_stand_in_agree_on_every_family():
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


HOSTS = {"network": "h-#", "subnetwork": "h-#", "count": 2}
RDMA = {"network": "r", "subnetwork": "r-#", "nic_type": "MRDMA", "count": 8}


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"us-central1-b": {"nics": [HOSTS, RDMA]}}, []),
        ({"us-central1-b": [{"nics": [HOSTS, RDMA]}, {"nics": [{**HOSTS, "count": 5}]}]}, []),
        (
            {
                "us-central1-b": {
                    "nics": [
                        HOSTS,
                        {**RDMA, "subnetwork": "projects/p/regions/us-central1/subnetworks/r-#"},
                    ]
                }
            },
            [],
        ),
        ([], ["fabric"]),
        ({"us-central1": {"nics": [HOSTS, RDMA]}}, ["fabric.us-central1"]),
        ({"us-central1-b": {"nics": []}}, ["fabric.us-central1-b"]),
        ({"us-central1-b": []}, ["fabric.us-central1-b"]),
        ({"us-central1-b": {"nics": [{**HOSTS, "count": 3}, RDMA]}}, ["fabric.us-central1-b.nics"]),
        ({"us-central1-b": {"nics": [RDMA, HOSTS]}}, ["fabric.us-central1-b.nics[0].nic_type"]),
        (
            {"us-central1-b": {"nics": [HOSTS, {**RDMA, "network": "r-#"}]}},
            ["fabric.us-central1-b.nics"],
        ),
        (
            {"us-central1-b": {"nics": [HOSTS, {**RDMA, "subnetwork": "r"}]}},
            ["fabric.us-central1-b.nics[1].subnetwork"],
        ),
        (
            {
                "us-central1-b": {
                    "nics": [
                        {"network": "a", "subnetwork": "a"},
                        {"network": "b", "subnetwork": "a"},
                        RDMA,
                    ]
                }
            },
            ["fabric.us-central1-b.nics"],
        ),
        (
            {"us-central1-b": {"nics": [{**HOSTS, "nic_type": "RDMA"}, {**RDMA, "count": 0}]}},
            ["fabric.us-central1-b.nics[0].nic_type", "fabric.us-central1-b.nics[1].count"],
        ),
        (
            {"us-central1-b": {"nics": [{**HOSTS, "subnetwork": "A B"}, {**RDMA, "nic": 1}]}},
            ["fabric.us-central1-b.nics[0].subnetwork", "fabric.us-central1-b.nics[1]"],
        ),
        (
            {
                "us-central1-b": [
                    {"nics": [HOSTS, RDMA]},
                    {"nics": [{**HOSTS, "network": "x-#", "subnetwork": "x-#"}, RDMA]},
                ]
            },
            ["fabric.us-central1-b[1]"],
        ),
    ],
)
def test_a_fabric_is_checked_before_anything_is_planned(given, paths):
    """Every problem with its path; a fabric that fits no machine type names the shapes there are."""
    assert paths == [problem.path for problem in problems({"fabric": given})]


def test_a_fabric_that_fits_nothing_names_the_shapes():
    """Three interfaces are no machine's: the message lists each shape with the machine types that
    have it.
    """
    problem = problems({"fabric": {"us-central1-b": {"nics": [{**HOSTS, "count": 3}]}}})[0]
    assert (
        "2 gVNIC + 8 MRDMA (a4-highgpu, a3-ultragpu)" in problem.wanted
        and "3 gVNIC" == problem.found
    )


# Notes in the plan


def spec(**rest):
    return Cluster(name="train", gpu=Gpu("H200", count=8, spot="only"), providers=["gcp"], **rest)


def test_the_row_says_single_nic_unless_a_fabric_is_named():
    """The plan's row says which interfaces the machine gets, by the spec's own options."""
    assert "single NIC: options.gcp.fabric names no 2 gVNIC + 8 MRDMA for this zone" in " ".join(
        render.as_text(plan("H200:8", spot="only")).split()
    )
    zone = plan(spec()).best.zone
    named = plan(spec(options={"gcp": {"fabric": {zone: nics("a3-ultragpu-8g", zone)}}}))
    assert "2 gVNIC + 8 MRDMA on the networks named in options.gcp.fabric" in " ".join(
        render.as_text(named).split()
    )
    assert (1,) == next(ranks for text, ranks in named.notes.items() if "networks named" in text)
    assert not plan("L4:1").notes


def test_b35_the_preview_warns_that_local_ssd_data_goes():
    """on_ttl: keep on a machine with local SSD: the plan says that Google discards it at a stop;
    without local SSD, or without keep, it does not.
    """
    kept = plan(
        Cluster(name="train", gpu="A100-80GB:8", providers=["gcp"], ttl="20h", on_ttl="keep")
    )
    assert "what is on local SSD is discarded then" in " ".join(render.as_text(kept).split())
    assert "what is on local SSD is discarded then" in render.as_markdown(kept)
    assert any("discarded" in text for text in render.as_json(kept)["summary"]["notes"])
    assert not any(
        "local SSD" in text
        for text in plan(
            Cluster(name="train", gpu="A100-80GB:8", providers=["gcp"], ttl="20h")
        ).notes
    )
    assert not any(
        "local SSD" in text
        for text in plan(
            Cluster(name="train", gpu="A100:1", providers=["gcp"], ttl="20h", on_ttl="keep")
        ).notes
    )
    added = Setup(on_ttl="keep", options=(("gcp", {"local_ssd_count": 1}),))
    assert any(
        "local SSD" in text for text in MANIFEST.pricing.notes(candidate("a2-highgpu-8g"), added)
    )
    assert any(
        "at preemption" in text
        for text in MANIFEST.pricing.notes(candidate("a3-ultragpu-8g"), Setup())
    )


@pytest.mark.parametrize(
    "machine_type",
    [kind for kind, row in FAMILIES.items() if "spot" in row[3] and not kind.endswith("-nolssd")],
)
def test_b35_a_kept_machine_with_local_ssd_stops_with_the_choice_stated(rig, machine_type):
    """on_ttl: keep sends discardLocalSsd where there is local SSD, the cloud takes it, and at its
    limit the machine is stopped, not gone.
    """
    ticket = rig.got(candidate(machine_type), ttl_s=3600, on_ttl="keep")
    found = seen(rig, ticket)["scheduling"]
    assert machines.bundled_ssd(machine_type) == found.get("onInstanceStopAction", {}).get(
        "discardLocalSsd", False
    )
    assert machines.bundled_ssd(machine_type) == ("local SSD is lost" in ticket.detail)
    rig.moment += 3700
    assert "ended" == rig.status(ticket.handles[0])


def test_b35_a_bound_machine_that_is_kept_states_the_choice_too(rig):
    """The end of a reservation stops a kept machine: with its local SSD discarded, as said."""
    reserve(rig, "a4-highgpu-8g", "us-central1-b", future=True)
    found = seen(rig, rig.got(candidate("a4-highgpu-8g", "reservation"), on_ttl="keep"))[
        "scheduling"
    ]
    assert ("STOP", {"discardLocalSsd": True}) == (
        found["instanceTerminationAction"],
        found["onInstanceStopAction"],
    )


@pytest.mark.parametrize(
    ("machine_type", "discards"),
    [
        ("a2-ultragpu-8g", True),
        ("a3-ultragpu-8g", True),
        ("g2-standard-96", False),
        ("a3-edgegpu-8g-nolssd", False),
    ],
)
def test_b35_stop_states_what_becomes_of_local_ssd(rig, machine_type, discards):
    """Stopped with discardLocalSsd where there is local SSD, and only there; seen as stopped by
    somebody, not preempted; started again as the same machine.
    """
    handle = rig.got(candidate(machine_type)).handles[0]
    rig.gcp.update(handle, {"state": "stopped"})
    assert "stopped" == rig.status(handle)
    assert machines.bundled_ssd(machine_type) == discards
    rig.gcp.update(handle, {"state": "stopped"})
    assert 1 == rig.calls("instances.stop")
    rig.gcp.update(handle, {"state": "running"})
    assert "running" == rig.status(handle)
    rig.gcp.update(handle, {"state": "running"})
    assert 1 == rig.calls("instances.start")


def test_b35_a_refused_stop_is_an_error(rig):
    """HTTP 400 on a stop: classified, and the machine is seen running."""
    handle = rig.got(candidate("a2-ultragpu-8g")).handles[0]
    rig.store.add_fault("gcp", "instances.stop", "http", 1, status=400, reason="badRequest")
    with pytest.raises(Unsupported, match="stopping"):
        rig.gcp.update(handle, {"state": "stopped"})
    assert "running" == rig.status(handle)


def test_b41_a_start_without_room_leaves_it_stopped(rig):
    """The zone is full: NoCapacity that names it; the machine is still there, stopped."""
    handle = rig.got(candidate("a2-ultragpu-8g")).handles[0]
    rig.gcp.update(handle, {"state": "stopped"})
    rig.store.set_stock("gcp", "us-central1-a", "a2-ultragpu-8g", "", 0)
    with pytest.raises(NoCapacity, match="gcp us-central1-a: starting"):
        rig.gcp.update(handle, {"state": "running"})
    assert "stopped" == rig.status(handle)


def test_fabric_names_stand_as_given_or_as_links():
    """Bare names become links of the candidate's region; a shared network's links stay as they are."""
    shared = {
        "network": "projects/host/global/networks/h-#",
        "subnetwork": "projects/host/regions/us-central1/subnetworks/h-#",
        "count": 5,
    }
    made = fabric.interfaces(
        fabric.read({"us-central1-a": {"nics": [shared]}})[0][0][1][0],
        "us-central1",
        external_ip=False,
    )
    assert {
        "network": "projects/host/global/networks/h-4",
        "subnetwork": "projects/host/regions/us-central1/subnetworks/h-4",
        "nicType": "GVNIC",
    } == made[4]
    bare = fabric.interfaces((fabric.Nic("", "s"),), "us-central1", external_ip=True)
    assert {"subnetwork": "regions/us-central1/subnetworks/s", "nicType": "GVNIC"} == {
        key: bare[0][key] for key in ("subnetwork", "nicType")
    }
