"""Networks of many interfaces at Google: a named fabric is checked, and compiled for its zone."""

import pytest

from providers.adapters.gcp import MANIFEST, fabric, grouping, machines
from providers.adapters.gcp.options import problems
from providers.api import plan
from providers.model.spec import Cluster, Gpu
from providers.planner import render
from tests.present import present
from tests.unit.gcp.families.rig import FAMILIES, FUTURE, candidate, fabric_of, nics, seen


@pytest.mark.parametrize(
    "machine_type", [kind for kind, row in FAMILIES.items() if row[4] and kind not in FUTURE]
)
def test_a_named_fabric_is_compiled_for_its_zone(rig, machine_type) -> None:
    """Every interface in its network, RDMA ones of their type, an outside address on the first
    alone; the machine is launched with them.
    """
    _, _, zone, ways, shape = FAMILIES[machine_type]
    ticket = rig.launched(
        candidate(machine_type, ways[0]), options=fabric_of(rig, machine_type, zone)
    )
    found = seen(rig, ticket)["networkInterfaces"]
    wanted = present(machines.family(machine_type).nics)
    assert shape == str(wanted) and wanted.host + wanted.rdma == len(found)
    assert ["GVNIC"] * wanted.host + ["MRDMA"] * wanted.rdma == [nic["nicType"] for nic in found]
    assert [True] + [False] * (len(found) - 1) == ["accessConfigs" in nic for nic in found]
    assert len(found) == len({nic["subnetwork"] for nic in found})


def test_without_a_fabric_for_the_zone_there_is_one_interface(rig) -> None:
    """A fabric of another zone, or of another kind of machine, leaves the machine with a single
    ordinary interface.
    """
    options = fabric_of(rig, "a3-ultragpu-8g", "us-central1-b")
    elsewhere = rig.launched(candidate("a3-ultragpu-8g", zone="us-east4-b"), options=options)
    unlike = rig.launched(candidate("a3-edgegpu-8g"), options=options, generation="gen2")
    assert [len(seen(rig, ticket)["networkInterfaces"]) for ticket in (elsewhere, unlike)] == [1, 1]


def test_zones_with_unlike_fabrics_share_no_call() -> None:
    """One body serves a whole call: a zone whose interfaces differ goes out by itself."""
    run = [
        candidate("a3-ultragpu-8g", zone=zone)
        for zone in ("us-central1-b", "us-central1-c", "us-central1-f")
    ]
    section = {"fabric": {"us-central1-b": nics("a3-ultragpu-8g", "us-central1-b")}}
    assert (
        present(MANIFEST.limits.together)(run, {}),
        present(MANIFEST.limits.together)(run, section),
    ) == (3, 1)
    assert present(MANIFEST.limits.together)(run[1:], section) == 2
    assert grouping.group(run) == 3


def test_machines_of_unlike_disks_or_interfaces_share_no_call() -> None:
    """A call has one boot disk and one set of local SSDs, so that only types that take the same go
    together.
    """
    high, edge, bare, ultra = (
        candidate(kind, zone="us-central1-b")
        for kind in ("a3-highgpu-8g", "a3-edgegpu-8g", "a3-edgegpu-8g-nolssd", "a3-ultragpu-8g")
    )
    assert [grouping.group([high, other]) for other in (edge, bare, ultra)] == [2, 1, 1]


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
def test_a_fabric_is_checked_before_anything_is_planned(given, paths) -> None:
    """Every problem with its path; a fabric that fits no machine type names the shapes there are."""
    assert paths == [problem.path for problem in problems({"fabric": given})]


def test_a_fabric_that_fits_nothing_names_the_shapes() -> None:
    """Three interfaces are no machine's: the message lists each shape with the machine types that
    have it.
    """
    problem = problems({"fabric": {"us-central1-b": {"nics": [{**HOSTS, "count": 3}]}}})[0]
    assert (
        "2 gVNIC + 8 MRDMA (a4-highgpu, a3-ultragpu)" in problem.wanted
        and problem.found == "3 gVNIC"
    )


def spec(**rest):
    return Cluster(name="train", gpu=Gpu("H200", count=8, spot="only"), providers=("gcp",), **rest)


def test_the_row_says_single_nic_unless_a_fabric_is_named() -> None:
    """The plan's row says which interfaces the machine gets, by the spec's own options."""
    assert "one network interface, not its 2 gVNIC + 8 MRDMA: options.gcp.fabric" in " ".join(
        render.as_text(plan("H200:8", spot="only")).split()
    )
    zone = present(plan(spec()).best).zone
    named = plan(spec(options={"gcp": {"fabric": {zone: nics("a3-ultragpu-8g", zone)}}}))
    assert "2 gVNIC + 8 MRDMA on the networks named in options.gcp.fabric" in " ".join(
        render.as_text(named).split()
    )
    assert next(ranks for text, ranks in named.notes.items() if "networks named" in text) == (1,)
    assert not [text for text in plan("L4:1").notes if "network" in text or "NIC" in text]


def test_fabric_names_stand_as_given_or_as_links() -> None:
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
    assert made[4] == {
        "network": "projects/host/global/networks/h-4",
        "subnetwork": "projects/host/regions/us-central1/subnetworks/h-4",
        "nicType": "GVNIC",
    }
    bare = fabric.interfaces((fabric.Nic("", "s"),), "us-central1", external_ip=True)
    assert {key: bare[0][key] for key in ("subnetwork", "nicType")} == {
        "subnetwork": "regions/us-central1/subnetworks/s",
        "nicType": "GVNIC",
    }
