"""What Compute Engine refuses, the stand-in refuses, in Google's own words."""

from typing import Any

import pytest

from tests.unit.gcp.standin_rig import (
    Cloud,
    P,
    R,
    Z,
    flex,
    instance,
    properties,
    raw,
    refused,
    t4,
)


def _with(body, path, value):
    import copy

    out = copy.deepcopy(body)
    *way, last = path.split(".")
    inner = out
    for part in way:
        inner = inner[int(part)] if part.isdigit() else inner.setdefault(part, {})
    if value is None:
        inner.pop(last, None)
    else:
        inner[int(last) if last.isdigit() else last] = value
    return out


N1 = "guestAccelerators"
ACCELERATOR = f"zones/{Z}/acceleratorTypes/"
REFUSED = [
    (
        "b10 live migration with a built-in GPU",
        instance("g2-standard-4", "STANDARD"),
        "scheduling.onHostMaintenance",
        "MIGRATE",
        400,
        "badRequest",
    ),
    (
        "b10 no maintenance setting at all",
        t4(),
        "scheduling.onHostMaintenance",
        None,
        400,
        "badRequest",
    ),
    (
        "b10 an A100 on N1",
        t4(),
        N1,
        [{"acceleratorType": ACCELERATOR + "nvidia-tesla-a100", "acceleratorCount": 1}],
        400,
        "badRequest",
    ),
    (
        "another GPU than the built-in one",
        instance(),
        N1,
        [{"acceleratorType": ACCELERATOR + "nvidia-l4", "acceleratorCount": 8}],
        400,
        "badRequest",
    ),
    ("b09 a count that cannot be attached", t4(), f"{N1}.0.acceleratorCount", 3, 400, "invalid"),
    (
        "b21 a GPU that the zone has not",
        t4(zone="us-central1-a"),
        f"{N1}.0.acceleratorType",
        ACCELERATOR + "nvidia-tesla-x9",
        404,
        "notFound",
    ),
    (
        "b21 a type that the zone has not",
        instance(),
        "machineType",
        f"zones/{Z}/machineTypes/a3-megagpu-99g",
        400,
        "invalid",
    ),
    ("a bare machine type", instance(), "machineType", "a3-highgpu-8g", 400, "invalid"),
    (
        "a machine type of another zone",
        instance(),
        "machineType",
        "zones/us-east4-a/machineTypes/a3-highgpu-8g",
        400,
        "invalid",
    ),
    (
        "too large a host for one GPU",
        t4(),
        "machineType",
        f"zones/{Z}/machineTypes/n1-standard-64",
        400,
        "badRequest",
    ),
    ("no boot disk", instance(), "disks.0.boot", False, 400, "invalid"),
    ("no disks", instance(), "disks", [], 400, "invalid"),
    (
        "pd-standard on A3",
        instance(),
        "disks.0.initializeParams.diskType",
        f"zones/{Z}/diskTypes/pd-standard",
        400,
        "badRequest",
    ),
    (
        "pd-extreme on G2",
        instance("g2-standard-4"),
        "disks.0.initializeParams.diskType",
        f"zones/{Z}/diskTypes/pd-extreme",
        400,
        "badRequest",
    ),
    (
        "the default disk kind on A3",
        instance(),
        "disks.0.initializeParams.diskType",
        None,
        400,
        "badRequest",
    ),
    (
        "a bare disk kind",
        instance(),
        "disks.0.initializeParams.diskType",
        "pd-balanced",
        400,
        "invalid",
    ),
    (
        "an unknown image",
        instance(),
        "disks.0.initializeParams.sourceImage",
        "projects/x/global/images/family/y",
        404,
        "notFound",
    ),
    ("no image", instance(), "disks.0.initializeParams.sourceImage", None, 400, "invalid"),
    (
        "a disk below the image",
        instance(),
        "disks.0.initializeParams.diskSizeGb",
        "10",
        400,
        "invalid",
    ),
    ("no network", instance(), "networkInterfaces", [], 400, "invalid"),
    (
        "an unknown network",
        instance(),
        "networkInterfaces.0.network",
        "global/networks/nowhere",
        404,
        "notFound",
    ),
    (
        "an unknown subnetwork",
        instance(),
        "networkInterfaces.0.subnetwork",
        f"regions/{R}/subnetworks/nowhere",
        404,
        "notFound",
    ),
    (
        "a subnetwork of another region",
        instance(),
        "networkInterfaces.0.subnetwork",
        "regions/us-east4/subnetworks/default",
        400,
        "invalid",
    ),
    ("VIRTIO_NET on A3", instance(), "networkInterfaces.0.nicType", "VIRTIO_NET", 400, "invalid"),
    ("restart of Spot", instance(), "scheduling.automaticRestart", True, 400, "invalid"),
    (
        "an action without Spot or a limit",
        instance(model="STANDARD"),
        "scheduling.instanceTerminationAction",
        "DELETE",
        400,
        "badRequest",
    ),
    (
        "a limit without an action",
        instance(model="STANDARD"),
        "scheduling.maxRunDuration",
        {"seconds": "3600"},
        400,
        "invalid",
    ),
    (
        "a limit of a second",
        instance(),
        "scheduling.maxRunDuration",
        {"seconds": "1"},
        400,
        "invalid",
    ),
    (
        "two limits",
        _with(instance(), "scheduling.maxRunDuration", {"seconds": "60"}),
        "scheduling.terminationTime",
        "2030-01-01T00:00:00Z",
        400,
        "invalid",
    ),
    (
        "an end in the past",
        instance(),
        "scheduling.terminationTime",
        "2020-01-01T00:00:00Z",
        400,
        "invalid",
    ),
    ("Flex-start without a limit", flex(), "scheduling.maxRunDuration", None, 400, "invalid"),
    (
        "Flex-start for eight days",
        flex(),
        "scheduling.maxRunDuration",
        {"seconds": str(8 * 86400)},
        400,
        "invalid",
    ),
    ("Flex-start that would use reservations", flex(), "reservationAffinity", None, 400, "invalid"),
    (
        "Flex-start that waits a minute",
        flex(),
        "params.requestValidForDuration",
        {"seconds": "60"},
        400,
        "invalid",
    ),
    (
        "waiting without Flex-start",
        instance(),
        "params.requestValidForDuration",
        {"seconds": "600"},
        400,
        "invalid",
    ),
    ("one H100 on demand", instance("a3-highgpu-1g", "STANDARD"), "name", "vm", 400, "badRequest"),
    (
        "an A4 on demand",
        instance("a3-ultragpu-8g", "STANDARD", zone="us-central1-b"),
        "name",
        "vm",
        400,
        "badRequest",
    ),
    (
        "a reservation that is not there",
        instance(model="STANDARD"),
        "reservationAffinity",
        {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": ["r"],
        },
        400,
        "invalid",
    ),
    (
        "the short reservation key",
        instance(model="STANDARD"),
        "reservationAffinity",
        {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "googleapis.com/reservation-name",
            "values": ["r"],
        },
        400,
        "invalid",
    ),
    (
        "b35 a stop at the limit without a word on local SSD",
        _with(instance(), "scheduling.maxRunDuration", {"seconds": "3600"}),
        "scheduling.instanceTerminationAction",
        "STOP",
        400,
        "badRequest",
    ),
    ("a label key with a capital", instance(), "labels", {"Stack": "x"}, 400, "invalid"),
    ("a label value with a dot", instance(), "labels", {"stack": "a.b"}, 400, "invalid"),
    (
        "too many labels",
        instance(),
        "labels",
        {f"k{index}": "" for index in range(65)},
        400,
        "invalid",
    ),
    ("a bad name", instance(), "name", "Bad_Name", 400, "invalid"),
    ("an unknown field", instance(), "scheduling.provisioning", "SPOT", 400, "invalid"),
    ("an unknown value", instance(), "scheduling.provisioningModel", "CHEAP", 400, "invalid"),
    ("a wrong type", instance(), "labels", "x", 400, "invalid"),
]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    found = Cloud(tmp_path_factory.mktemp("untouched") / "r.db")
    yield found
    assert found.server.faulty == []
    found.server.close()


@pytest.mark.parametrize("case", REFUSED, ids=[case[0] for case in REFUSED])
def test_what_compute_engine_refuses_is_refused(untouched, case) -> None:
    """A body that Compute Engine would not take is refused before anything is made, in Google's
    error shape.
    """
    _, body, path, value, status, reason = case
    zone = body["machineType"].split("/")[1]
    assert refused(lambda: untouched.insert(_with(body, path, value), zone=zone))[:2] == (
        status,
        reason,
    )
    assert untouched.names() == []


def test_bulk_takes_names_where_insert_takes_links(cloud) -> None:
    """InstanceProperties hold bare names; a link, a missing name, and fields of the regional call
    are refused in a zonal one.
    """
    link = properties(f"zones/{Z}/machineTypes/a3-highgpu-8g")
    one: dict[str, dict[str, Any]] = {"vm": {}}
    assert refused(lambda: cloud.bulk(perInstanceProperties=one, instanceProperties=link))[:2] == (
        400,
        "invalid",
    )
    assert refused(lambda: cloud.bulk(instanceProperties=properties()))[:2] == (400, "invalid")
    assert refused(
        lambda: cloud.bulk(count="3", perInstanceProperties=one, instanceProperties=properties())
    )[:2] == (400, "invalid")
    assert refused(
        lambda: cloud.bulk(
            count="1", minCount="2", namePattern="x-#", instanceProperties=properties()
        )
    )[:2] == (400, "invalid")
    assert (
        refused(
            lambda: cloud.bulk(
                perInstanceProperties=one,
                instanceProperties=properties(),
                locationPolicy={"targetShape": "ANY"},
            )
        )[0]
        == 400
    )
    assert refused(lambda: cloud.bulk(perInstanceProperties=one))[:2] == (400, "required")
    other = {"locations": {"zones/us-east4-a": {"preference": "ALLOW"}}}
    assert refused(
        lambda: cloud.regional(
            perInstanceProperties=one, instanceProperties=properties(), locationPolicy=other
        )
    )[:2] == (400, "invalid")
    nowhere = properties("a2-megagpu-16g")
    assert refused(
        lambda: cloud.regional("me-west1", perInstanceProperties=one, instanceProperties=nowhere)
    )[:2] == (400, "invalid")
    assert refused(lambda: cloud.insert(instance(), zone="us-central1-z"))[:2] == (400, "invalid")


def test_unknown_routes_and_parameters_fail_and_are_recorded(cloud) -> None:
    """What the discovery document does not know is refused, and the log has it."""
    assert raw(cloud, "GET", f"/compute/v1/projects/{P}/zones/{Z}/teapots")[0] == 404
    assert raw(cloud, "POST", f"/compute/v1/projects/{P}/zones/{Z}/instances/vm/suspend")[0] == 404
    assert raw(cloud, "GET", "/projects/p/zones/z/instances")[0] == 404
    assert (
        raw(
            cloud, "GET", f"/compute/v1/projects/{P}/zones/{Z}/instances?returnPartialSuccess=true"
        )[1]["error"]["errors"][0]["reason"]
        == "badRequest"
    )
    assert (
        raw(cloud, "GET", f"/compute/v1/projects/{P}/zones/{Z}/instances?maxResults=many")[0] == 400
    )
    assert (
        raw(cloud, "GET", f"/compute/v1/projects/{P}/zones/{Z}/instances?maxResults=501")[0] == 400
    )
    for unread in ("fields=items", "orderBy=name"):
        assert raw(cloud, "GET", f"/compute/v1/projects/{P}/zones/{Z}/instances?{unread}")[0] == 400
    assert raw(cloud, "GET", "/compute/v1/projects/Bad_Project/regions")[0] == 400
    assert (
        raw(cloud, "POST", f"/compute/v1/projects/{P}/zones/{Z}/instances", b"{nope")[1]["error"][
            "errors"
        ][0]["reason"]
        == "parseError"
    )
    assert [found.status for found in cloud.store.requests("unknown")] == [404, 404, 404, 400]
