"""What the Compute Engine stand-in has in stock, sells in bulk, queues and limits by quota."""

from typing import Any

import pytest

from providers.rehearsal.clouds.gcp import console
from tests.unit.gcp.standin_rig import P, R, Z, codes, flex, instance, properties, refused, t4

# Stories


def test_default_scenario_sells_out_the_cheapest_places_for_h100(cloud) -> None:
    """A newcomer's eight spot H100s: the cheapest places have none, the next has."""
    cloud.store.begin()
    edge = "a3-edgegpu-8g-nolssd"
    for region, kind in (
        ("europe-west2", edge),
        *(
            (where, "a3-highgpu-8g")
            for where in ("europe-north1", "australia-southeast2", "europe-west9")
        ),
    ):
        op = cloud.done(
            cloud.regional(
                region, perInstanceProperties={"vm": {}}, instanceProperties=properties(kind)
            )
        )
        assert codes(op) == [
            "VM_MIN_COUNT_NOT_REACHED",
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        ]
        assert op["httpErrorStatusCode"] == 503
    op = cloud.done(
        cloud.regional(
            "asia-northeast1", perInstanceProperties={"vm": {}}, instanceProperties=properties()
        )
    )
    assert "error" not in op
    assert cloud.get(zone="asia-northeast1-b")["status"] == "RUNNING"
    assert cloud.names() == ["vm"]


def test_b11_progress_depends_on_the_moment_alone(cloud) -> None:
    """A machine goes PROVISIONING, STAGING, RUNNING by the world's clock; it shows the built-in
    GPU, and an address once it is staged.
    """
    op = cloud.insert(instance())
    assert op["status"] == "PENDING" and op["operationType"] == "insert" and "targetId" in op
    assert cloud.get()["status"] == "PROVISIONING"
    assert "natIP" not in cloud.get()["networkInterfaces"][0]["accessConfigs"][0]
    cloud.later(0.6)
    assert (cloud.get()["status"], cloud.operation(op)["status"]) == ("STAGING", "RUNNING")
    cloud.later(0.6)
    vm = cloud.get()
    assert (vm["status"], cloud.operation(op)["status"], cloud.operation(op)["progress"]) == (
        "RUNNING",
        "DONE",
        100,
    )
    assert vm["guestAccelerators"][0]["acceleratorCount"] == 8
    assert vm["networkInterfaces"][0]["accessConfigs"][0]["natIP"].startswith("198.18.")
    assert (
        vm["machineType"].endswith(f"/zones/{Z}/machineTypes/a3-highgpu-8g")
        and vm["id"] == op["targetId"]
    )


def test_b18_b22_stockout_is_told_by_the_operation_and_leaves_nothing(cloud) -> None:
    """The insert is accepted; the operation fails later with the real code, the zones that have
    stock, and no trace of the machine.
    """
    cloud.store.set_stock("gcp", Z, "", "on-demand", 0, gpu="T4")
    op = cloud.insert(t4())
    assert op["status"] == "PENDING"
    op = cloud.done(op, 0.5)
    error = op["error"]["errors"][0]
    info = error["errorDetails"][0]["errorInfo"]
    assert (
        error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        and "state:STOCKOUT" in error["message"]
    )
    assert (info["reason"], info["domain"], info["metadatas"]["attachment"]) == (
        "resource_availability",
        "compute.googleapis.com",
        "nvidia-tesla-t4:1",
    )
    assert (info["metadatas"]["vmType"], info["metadatas"]["zone"]) == ("n1-standard-8", Z)
    elsewhere = info["metadatas"]["zonesAvailable"].split(",")
    assert "us-central1-b" in elsewhere and Z not in elsewhere
    assert refused(cloud.get)[:2] == (404, "notFound")
    assert console.disks(cloud.store) == ()
    cloud.done(cloud.insert(t4(zone="us-central1-b"), zone="us-central1-b"))
    assert cloud.names() == ["vm"]


def test_stock_is_given_back(cloud) -> None:
    """A machine holds its stock until it is deleted or stopped, in its place and kind only."""
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 1)
    cloud.done(cloud.insert(instance()))
    assert codes(cloud.done(cloud.insert(instance(name="second"))))[0].startswith("ZONE_RESOURCE")
    assert "error" not in cloud.done(cloud.insert(instance(name="other", model="STANDARD")))
    op = cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute()
    assert cloud.get()["status"] == "STOPPING"
    assert codes(cloud.done(cloud.insert(instance(name="third")), 0.4))
    cloud.done(op)
    assert refused(cloud.get)[0] == 404
    assert "error" not in cloud.done(cloud.insert(instance(name="fourth")))


# Bulk


def test_b45_bulk_is_all_or_nothing(cloud) -> None:
    """Short of minCount, what was made is taken back: it can be seen meanwhile and holds stock; the
    status by place says so.
    """
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 1)
    op = cloud.bulk(
        count="2", perInstanceProperties={"n0": {}, "n1": {}}, instanceProperties=properties()
    )
    assert cloud.names() == ["n0"]
    cloud.later(0.3)
    assert (
        cloud.operation(op)["instancesBulkInsertOperationMetadata"]["perLocationStatus"][
            f"zones/{Z}"
        ]["status"]
        == "ROLLING_BACK"
    )
    op = cloud.done(op)
    assert codes(op) == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"]
    status = op["instancesBulkInsertOperationMetadata"]["perLocationStatus"][f"zones/{Z}"]
    assert status == {
        "targetVmCount": 2,
        "createdVmCount": 1,
        "failedToCreateVmCount": 1,
        "deletedVmCount": 1,
        "status": "DONE",
    }
    assert cloud.names() == [] and console.disks(cloud.store) == ()
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter=f'operationGroupId="{op["operationGroupId"]}"')
        .execute()["items"]
    )
    assert [item["operationType"] for item in own] == ["insert", "insert", "bulkInsert"]


def test_bulk_keeps_what_reaches_the_least_count(cloud) -> None:
    """With minCount below count, what was launched is kept and the operation succeeds."""
    cloud.store.set_stock("gcp", Z, "g2-standard-4", "spot", 3)
    op = cloud.done(
        cloud.bulk(
            count="5",
            minCount="2",
            namePattern="gpu-####",
            instanceProperties=properties("g2-standard-4"),
        )
    )
    assert "error" not in op and cloud.names() == ["gpu-0001", "gpu-0002", "gpu-0003"]
    cloud.store.set_stock("gcp", Z, "g2-standard-4", "spot", None)
    cloud.done(
        cloud.bulk(
            count="1", namePattern="gpu-####", instanceProperties=properties("g2-standard-4")
        )
    )
    assert cloud.names()[-1] == "gpu-0004"


def test_regional_bulk_picks_one_allowed_zone(cloud) -> None:
    """ANY_SINGLE_ZONE puts all into one zone with room; denied zones are never used."""
    for zone, count in (("us-central1-a", 0), ("us-central1-b", 1), ("us-central1-c", 2)):
        cloud.store.set_stock("gcp", zone, "a3-highgpu-8g", "spot", count)
    two = {
        "count": "2",
        "perInstanceProperties": {"n0": {}, "n1": {}},
        "instanceProperties": properties(),
    }
    denied = {"locations": {"zones/us-central1-c": {"preference": "DENY"}}}
    op = cloud.done(cloud.regional(locationPolicy=denied, **two))
    assert codes(op)[0] == "VM_MIN_COUNT_NOT_REACHED" and len(codes(op)) == 3
    op = cloud.done(cloud.regional(**two))
    assert list(op["instancesBulkInsertOperationMetadata"]["perLocationStatus"]) == [
        "zones/us-central1-c"
    ]
    assert cloud.names() == ["n0", "n1"]


@pytest.mark.parametrize(
    ("shape", "zones"), [("BALANCED", {"a": 2, "b": 1, "c": 1}), ("ANY", {"a": 4})]
)
def test_regional_bulk_may_spread(cloud, shape, zones) -> None:
    """BALANCED evens out over zones; ANY fills the first with room."""
    names: dict[str, dict[str, Any]] = {f"n{index}": {} for index in range(4)}
    cloud.done(
        cloud.regional(
            perInstanceProperties=names,
            instanceProperties=properties("g2-standard-4"),
            locationPolicy={"targetShape": shape},
        )
    )
    items = cloud.api.instances().aggregatedList(project=P).execute()["items"]
    assert {f"zones/us-central1-{zone}": count for zone, count in zones.items()} == {
        key: len(value["instances"]) for key, value in items.items() if "instances" in value
    }


def test_regional_bulk_follows_ranks(cloud) -> None:
    """Lower ranks come first, in any zone; pairs that do not exist are dropped; one valid pair is
    enough.
    """
    body = properties()
    del body["machineType"]
    policy = {
        "instanceSelections": {
            "x": {"machineTypes": ["a2-ultragpu-8g"], "rank": "2"},
            "y": {"machineTypes": ["a3-highgpu-8g"], "rank": "1"},
        }
    }
    cloud.done(
        cloud.regional(
            perInstanceProperties={"n0": {}},
            instanceProperties=body,
            instanceFlexibilityPolicy=policy,
        )
    )
    cloud.store.set_stock("gcp", R, "a3-highgpu-8g", "spot", 0)
    cloud.done(
        cloud.regional(
            perInstanceProperties={"n1": {}},
            instanceProperties=body,
            instanceFlexibilityPolicy=policy,
        )
    )
    kinds = {vm["name"]: vm["machineType"].rsplit("/", 1)[1] for _, vm in all_vms(cloud)}
    assert kinds == {"n0": "a3-highgpu-8g", "n1": "a2-ultragpu-8g"}
    mixed = {
        "instanceSelections": {
            "x": {"machineTypes": ["a3-megagpu-99g", "g2-standard-4"], "rank": "1"}
        }
    }
    assert "error" not in cloud.done(
        cloud.regional(
            perInstanceProperties={"n2": {}},
            instanceProperties=body,
            instanceFlexibilityPolicy=mixed,
        )
    )


def all_vms(cloud):
    items = cloud.api.instances().aggregatedList(project=P).execute()["items"]
    return [(scope, vm) for scope, found in items.items() for vm in found.get("instances", [])]


# Quota


def test_b19_quota_is_told_by_code_scope_and_limit(cloud) -> None:
    """The regional metric and the global one, at once for an insert and inside the operation for a
    bulk insert.
    """
    cloud.store.set_quota("gcp", R, "PREEMPTIBLE_NVIDIA_H100_GPUS", 4)
    code, reason, text = refused(lambda: cloud.insert(instance()))
    assert (
        (code, reason) == (403, "quotaExceeded")
        and "PREEMPTIBLE_NVIDIA_H100_GPUS" in text
        and "in region us-central1" in text
    )
    op = cloud.done(
        cloud.regional(perInstanceProperties={"vm": {}}, instanceProperties=properties())
    )
    info = op["error"]["errors"][-1]
    assert info["code"] == "QUOTA_EXCEEDED"
    assert (
        info["errorDetails"][0]["quotaInfo"]["dimensions"] == {"region": R}
        and info["errorDetails"][0]["quotaInfo"]["limit"] == 4
    )
    assert "error" not in cloud.done(cloud.insert(instance(zone="us-east4-a"), zone="us-east4-a"))
    cloud.store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 8)
    code, reason, text = refused(lambda: cloud.insert(instance("g2-standard-4")))
    assert (
        (code, reason) == (403, "quotaExceeded")
        and "GPUS_ALL_REGIONS" in text
        and "globally" in text
    )
    quotas = {
        row["metric"]: row
        for row in cloud.api.regions().get(project=P, region=R).execute()["quotas"]
    }
    assert quotas["PREEMPTIBLE_NVIDIA_H100_GPUS"]["limit"] == 4
    assert "NVIDIA_H100_GPUS" not in quotas
    assert cloud.api.projects().get(project=P).execute()["quotas"] == [
        {"metric": "GPUS_ALL_REGIONS", "limit": 8, "usage": 8}
    ]


# Flex-start


def test_flex_start_waits_for_stock(cloud) -> None:
    """A queued request is PENDING until stock appears, then it runs; the operation ends with the
    machine.
    """
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "flex-start", 0)
    op = cloud.insert(flex())
    cloud.later(600)
    assert (cloud.get()["status"], cloud.operation(op)["status"]) == ("PENDING", "RUNNING")
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "flex-start", 1)
    cloud.later(2)
    assert cloud.get()["status"] == "RUNNING"
    assert "error" not in cloud.operation(op) and cloud.operation(op)["status"] == "DONE"
    cloud.later(86_400)
    assert refused(cloud.get)[0] == 404


def test_flex_start_gives_up(cloud) -> None:
    """When the wait runs out, the machine is gone and the operation fails; without a wait it fails
    at once.
    """
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "flex-start", 0)
    op = cloud.insert(flex())
    cloud.later(3599)
    assert cloud.names() == ["vm"]
    op = cloud.done(op, 2)
    assert codes(op) == ["ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"] and cloud.names() == []
    assert codes(cloud.done(cloud.insert(flex(wait_s=0)), 0.5)) and cloud.names() == []


def test_flex_start_is_served_at_the_first_moment_with_stock_whoever_looks(cloud) -> None:
    """Freed stock serves the queue even if nobody looked until long after; a queued request can be
    deleted.
    """
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "flex-start", 1)
    cloud.done(cloud.insert(flex(name="first")))
    op = cloud.insert(flex(name="second"))
    dropped = cloud.insert(flex(name="third"))
    cloud.api.instances().delete(project=P, zone=Z, instance="third").execute()
    cloud.later(5)
    cloud.api.instances().delete(project=P, zone=Z, instance="first").execute()
    cloud.later(7200)
    assert cloud.names() == ["second"]
    assert cloud.get("second")["lastStartTimestamp"].startswith("2027-01-15T08:00:16.5")
    assert "error" not in cloud.operation(op) and "error" in cloud.operation(dropped)
