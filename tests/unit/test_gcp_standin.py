"""The Compute Engine stand-in, spoken to with Google's own client. Time is moved, never waited for."""

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import uuid

import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient.errors import HttpError

from providers.adapters.gcp.client import Client
from providers.rehearsal.clouds.gcp import console, generate, start
from providers.rehearsal.store import Store

IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"
P, Z, R = "rehearsal", "us-central1-a", "us-central1"


class Frozen:
    """A clock that stands still unless the store is advanced."""

    def __call__(self):
        return 1_800_000_000.0


class Cloud:
    """One stand-in with its store and Google's client."""

    def __init__(self, path):
        self.store = Store(path, clock=Frozen())
        self.server = start(self.store)
        self.api = client(self.server.url)

    def later(self, seconds=10.0):
        self.store.advance(seconds)

    def get(self, name="vm", zone=Z):
        return self.api.instances().get(project=P, zone=zone, instance=name).execute()

    def insert(self, body, zone=Z, **query):
        return self.api.instances().insert(project=P, zone=zone, body=body, **query).execute()

    def bulk(self, zone=Z, request=None, **body):
        return (
            self.api.instances()
            .bulkInsert(project=P, zone=zone, requestId=request, body=body)
            .execute()
        )

    def regional(self, region=R, request=None, **body):
        return (
            self.api.regionInstances()
            .bulkInsert(project=P, region=region, requestId=request, body=body)
            .execute()
        )

    def operation(self, op):
        where = {"project": P, "operation": op["name"]}
        if "zone" in op:
            return (
                self.api.zoneOperations().get(zone=op["zone"].rsplit("/", 1)[1], **where).execute()
            )
        if "region" in op:
            return (
                self.api.regionOperations()
                .get(region=op["region"].rsplit("/", 1)[1], **where)
                .execute()
            )
        return self.api.globalOperations().get(**where).execute()

    def done(self, op, seconds=10.0):
        self.later(seconds)
        found = self.operation(op)
        assert found["status"] == "DONE"
        return found

    def names(self, **query):
        items = self.api.instances().aggregatedList(project=P, **query).execute()["items"]
        return [vm["name"] for scope in items.values() for vm in scope.get("instances", [])]


def client(url):
    return Client(P, AnonymousCredentials(), f"{url}/compute/v1/").service


@pytest.fixture
def cloud(tmp_path):
    found = Cloud(tmp_path / "r.db")
    yield found
    assert found.server.faulty == []
    found.server.close()


def properties(kind="a3-highgpu-8g", model="SPOT", **more):
    scheduling = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": model,
    }
    if model == "SPOT":
        scheduling["instanceTerminationAction"] = "DELETE"
    return {
        "machineType": kind,
        "scheduling": scheduling,
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "sourceImage": IMAGE,
                    "diskSizeGb": "100",
                    "diskType": "pd-balanced",
                },
            }
        ],
        "networkInterfaces": [
            {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
        ],
        **more,
    }


def instance(kind="a3-highgpu-8g", model="SPOT", name="vm", zone=Z, **more):
    out = properties(kind, model, **more)
    out["machineType"] = f"zones/{zone}/machineTypes/{kind}"
    out["disks"][0]["initializeParams"]["diskType"] = f"zones/{zone}/diskTypes/pd-balanced"
    return {"name": name, **out}


def t4(zone=Z, **more):
    gpu = [
        {"acceleratorType": f"zones/{zone}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    ]
    return instance("n1-standard-8", "STANDARD", guestAccelerators=gpu, zone=zone, **more)


def flex(wait_s=3600, **more):
    body = instance(
        model="FLEX_START", reservationAffinity={"consumeReservationType": "NO_RESERVATION"}, **more
    )
    body["scheduling"] |= {
        "maxRunDuration": {"seconds": "86400"},
        "instanceTerminationAction": "DELETE",
    }
    body["params"] = {"requestValidForDuration": {"seconds": str(wait_s)}}
    return body


def refused(call):
    with pytest.raises(HttpError) as caught:
        call()
    body = json.loads(caught.value.content)["error"]
    assert body["code"] == caught.value.status_code
    return body["code"], body["errors"][0]["reason"], body["message"]


def codes(op):
    return [error["code"] for error in op["error"]["errors"]]


# The document and the start


def test_the_committed_discovery_extract_equals_what_is_installed():
    """discovery.json is what the generator makes of the installed client's document; of a later
    revision it is a part.
    """
    committed = json.loads((generate.HERE / "discovery.json").read_text())
    installed = generate.discovery(generate.installed())
    if installed["revision"] == committed["revision"]:
        assert installed == committed
    for name, method in committed["methods"].items():
        later = installed["methods"][name]
        assert (method["verb"], method["path"], method["request"], method["response"]) == (
            later["verb"],
            later["path"],
            later["request"],
            later["response"],
        )
        assert method["parameters"].keys() <= later["parameters"].keys()
    for name in (
        "Instance",
        "InstanceProperties",
        "BulkInsertInstanceResource",
        "Scheduling",
        "Operation",
    ):
        assert (
            committed["schemas"][name]["properties"].keys()
            <= installed["schemas"][name]["properties"].keys()
        )


def test_the_committed_machine_table_equals_what_the_sources_say():
    """machines.json is what the generator makes of the catalog's committed sources."""
    committed = json.loads((generate.HERE / "machines.json").read_text())
    assert generate.machines(generate.HERE.parents[2] / "catalog" / "sources") == committed


def test_starting_imports_no_client_of_google():
    """The stand-in starts inside every plugin process: it needs neither Google's client nor its
    document.
    """
    code = (
        "import sys, tempfile, pathlib; from providers.rehearsal.store import Store; from"
        " providers.rehearsal.clouds.gcp import start;s ="
        " start(Store(pathlib.Path(tempfile.mkdtemp()) / 'r.db')); s.close();print([m for m in"
        " ('googleapiclient', 'google.auth', 'pydantic', 'grpc') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_every_served_method_has_a_handler():
    """No route of the committed document is without an answer."""
    from providers.rehearsal.clouds.gcp.calls import HANDLERS

    assert set(HANDLERS) == console.methods()


# Stories


def test_default_scenario_sells_out_the_cheapest_places_for_h100(cloud):
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


def test_b11_progress_depends_on_the_moment_alone(cloud):
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
    assert vm["networkInterfaces"][0]["accessConfigs"][0]["natIP"].startswith("192.0.2.")
    assert (
        vm["machineType"].endswith(f"/zones/{Z}/machineTypes/a3-highgpu-8g")
        and vm["id"] == op["targetId"]
    )


def test_b18_b22_stockout_is_told_by_the_operation_and_leaves_nothing(cloud):
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
    assert "items" not in cloud.api.disks().list(project=P, zone=Z).execute()
    cloud.done(cloud.insert(t4(zone="us-central1-b"), zone="us-central1-b"))
    assert cloud.names() == ["vm"]


def test_stock_is_given_back(cloud):
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


def test_b45_bulk_is_all_or_nothing(cloud):
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
    assert (
        cloud.names() == [] and "items" not in cloud.api.disks().list(project=P, zone=Z).execute()
    )
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter=f'operationGroupId="{op["operationGroupId"]}"')
        .execute()["items"]
    )
    assert [item["operationType"] for item in own] == ["insert", "insert", "bulkInsert"]


def test_bulk_keeps_what_reaches_the_least_count(cloud):
    """With minCount below count, what can be had is kept and the operation succeeds."""
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


def test_regional_bulk_picks_one_allowed_zone(cloud):
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
def test_regional_bulk_may_spread(cloud, shape, zones):
    """BALANCED evens out over zones; ANY fills the first with room."""
    names = {f"n{index}": {} for index in range(4)}
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


def test_regional_bulk_follows_ranks(cloud):
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


# Never twice


def test_b26_the_same_request_id_is_the_same_operation(cloud):
    """A repeated request acts once and answers with the first operation; another kind of call may
    not reuse the id.
    """
    request = str(uuid.uuid4())
    first = cloud.insert(instance(), requestId=request)
    again = cloud.insert(instance(), requestId=request)
    assert (first["name"], first["clientOperationId"]) == (again["name"], request)
    assert cloud.names() == ["vm"]
    assert (
        refused(
            lambda: cloud.bulk(request=request, namePattern="x-#", instanceProperties=properties())
        )[0]
        == 409
    )
    for wrong in ("no-uuid", str(uuid.UUID(int=0))):
        assert refused(lambda wrong=wrong: cloud.insert(instance(name="b"), requestId=wrong))[
            :2
        ] == (400, "invalid")


def test_b26_a_taken_name_is_refused(cloud):
    """The same name in the same zone is a conflict, for single and bulk inserts; in another zone it
    is not.
    """
    cloud.insert(instance())
    assert refused(lambda: cloud.insert(instance()))[:2] == (409, "alreadyExists")
    assert refused(
        lambda: cloud.bulk(perInstanceProperties={"vm": {}}, instanceProperties=properties())
    )[:2] == (409, "alreadyExists")
    cloud.insert(instance(zone="us-central1-b"), zone="us-central1-b")
    assert cloud.names() == ["vm", "vm"]


def test_several_servers_are_one_cloud(cloud):
    """Two servers on one store, asked in parallel for more than there is, give away exactly what
    there is.
    """
    cloud.store.set_stock("gcp", Z, "g2-standard-4", "spot", 3)
    other = start(cloud.store)
    results = []

    def ask(url, name):
        api = client(url)
        results.append(
            api.instances()
            .insert(project=P, zone=Z, body=instance("g2-standard-4", name=name))
            .execute()
        )

    threads = [
        threading.Thread(target=ask, args=((cloud.server, other)[index % 2].url, f"vm{index}"))
        for index in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    cloud.later()
    assert 8 == len(results) and 3 == len(cloud.names())
    assert 5 == sum("error" in cloud.operation(op) for op in results)


# Quota


def test_b19_quota_is_told_by_code_scope_and_limit(cloud):
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


# What is refused


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
def test_what_compute_engine_refuses_is_refused(untouched, case):
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


def test_bulk_takes_names_where_insert_takes_links(cloud):
    """instanceProperties hold bare names; a link, a missing name, and fields of the regional call
    are refused in a zonal one.
    """
    link = properties(f"zones/{Z}/machineTypes/a3-highgpu-8g")
    one = {"vm": {}}
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


def raw(cloud, verb, path, body=None):
    request = urllib.request.Request(
        cloud.server.url + path, method=verb, data=None if body is None else body
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_unknown_routes_and_parameters_fail_and_are_recorded(cloud):
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
    assert raw(cloud, "GET", "/compute/v1/projects/Bad_Project/zones")[0] == 400
    assert (
        raw(cloud, "POST", f"/compute/v1/projects/{P}/zones/{Z}/instances", b"{nope")[1]["error"][
            "errors"
        ][0]["reason"]
        == "parseError"
    )
    assert [404, 404, 404, 400] == [found.status for found in cloud.store.requests("unknown")]


# Time and preemption


@pytest.mark.parametrize(
    ("action", "kind", "after"),
    [("DELETE", "deferredDelete", None), ("STOP", "deferredStop", "TERMINATED")],
)
def test_b34_the_run_limit_ends_the_machine(cloud, action, kind, after):
    """When maxRunDuration has passed, the machine is deleted or stopped, whoever looks and
    whenever; a system operation says so.
    """
    body = instance("g2-standard-4", "STANDARD")
    body["scheduling"] |= {
        "maxRunDuration": {"seconds": "3600"},
        "instanceTerminationAction": action,
    }
    cloud.done(cloud.insert(body), 2)
    assert cloud.get()["resourceStatus"]["scheduling"]["terminationTimestamp"].startswith(
        "2027-01-15T09:00:01"
    )
    cloud.later(3500)
    assert cloud.get()["status"] == "RUNNING"
    cloud.later(99.2)
    assert cloud.get()["status"] == "STOPPING"
    cloud.later(10)
    assert (refused(cloud.get)[0] == 404) if after is None else (cloud.get()["status"] == after)
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter=f"operationType=compute.instances.{kind}")
        .execute()["items"]
    )
    assert [(op["user"], op["targetLink"].rsplit("/", 1)[1]) for op in own] == [("system", "vm")]
    assert ("items" in cloud.api.disks().list(project=P, zone=Z).execute()) == (after is not None)


def test_a_limit_that_was_overtaken_leaves_no_operation(cloud):
    """A machine deleted before its run limit never has a system operation, not even later."""
    body = instance()
    body["scheduling"]["maxRunDuration"] = {"seconds": "3600"}
    cloud.done(cloud.insert(body))
    cloud.done(cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute())
    cloud.later(7200)
    kinds = [
        op["operationType"]
        for op in cloud.api.zoneOperations().list(project=P, zone=Z).execute()["items"]
    ]
    assert kinds == ["insert", "delete"]


@pytest.mark.parametrize(("action", "after"), [("DELETE", None), ("STOP", "TERMINATED")])
def test_b29_preemption_follows_the_termination_action(cloud, action, after):
    """A Spot machine that is taken stops, then is terminated or gone; the zone's operations name
    it; on-demand ones are never taken.
    """
    body = instance()
    body["scheduling"]["instanceTerminationAction"] = action
    cloud.done(cloud.insert(body))
    cloud.done(cloud.insert(instance(name="mine", model="STANDARD")))
    assert (
        console.preempt(cloud.store, "vm"),
        console.preempt(cloud.store, "mine"),
        console.preempt(cloud.store, "vm"),
    ) == (1, 0, 0)
    assert cloud.get()["status"] == "STOPPING"
    cloud.later(1.1)
    if after is None:
        assert refused(cloud.get)[0] == 404
    else:
        vm = cloud.get()
        assert (
            vm["status"] == after
            and "natIP" not in vm["networkInterfaces"][0]["accessConfigs"][0]
            and "lastStopTimestamp" in vm
        )
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter='operationType="compute.instances.preempted"')
        .execute()["items"]
    )
    assert [op["targetLink"].rsplit("/", 1)[1] for op in own] == ["vm"]
    assert [machine.name for machine in console.running(cloud.store)] == (
        ["vm", "mine"] if after else ["mine"]
    )


# Flex-start


def test_flex_start_waits_for_stock(cloud):
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


def test_flex_start_gives_up(cloud):
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


def test_flex_start_is_served_at_the_first_moment_with_stock_whoever_looks(cloud):
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


# Edits


def test_labels_need_the_fingerprint_that_was_read(cloud):
    """setLabels replaces all labels, for those who have read them."""
    cloud.done(cloud.insert(instance(labels={"owner": "a"})))
    old = cloud.get()["labelFingerprint"]
    edit = (
        lambda print_, labels: cloud.api.instances()
        .setLabels(
            project=P, zone=Z, instance="vm", body={"labelFingerprint": print_, "labels": labels}
        )
        .execute()
    )
    cloud.done(edit(old, {"owner": "b"}))
    assert cloud.get()["labels"] == {"owner": "b"}
    assert refused(lambda: edit(old, {}))[:2] == (412, "conditionNotMet")
    assert refused(lambda: edit(cloud.get()["labelFingerprint"], {"Bad": ""}))[:2] == (
        400,
        "invalid",
    )
    assert (cloud.names(filter="labels.owner=b"), cloud.names(filter="labels.owner=a")) == (
        ["vm"],
        [],
    )


def test_metadata_and_scheduling_edits(cloud):
    """setMetadata needs its fingerprint; a run limit is edited only on a stopped machine."""
    cloud.done(cloud.insert(instance("g2-standard-4", "STANDARD")))
    items = [{"key": "ssh-keys", "value": "x"}]
    edit = (
        lambda print_: cloud.api.instances()
        .setMetadata(project=P, zone=Z, instance="vm", body={"fingerprint": print_, "items": items})
        .execute()
    )
    assert refused(lambda: edit("old"))[0] == 412
    cloud.done(edit(cloud.get()["metadata"]["fingerprint"]))
    assert cloud.get()["metadata"]["items"] == items
    limit = {"maxRunDuration": {"seconds": "7200"}, "instanceTerminationAction": "DELETE"}
    schedule = (
        lambda: cloud.api.instances()
        .setScheduling(project=P, zone=Z, instance="vm", body=limit)
        .execute()
    )
    assert refused(schedule)[:2] == (400, "invalid")
    cloud.done(cloud.api.instances().stop(project=P, zone=Z, instance="vm").execute())
    cloud.done(schedule())
    assert cloud.get()["scheduling"]["maxRunDuration"] == {"seconds": "7200"}
    cloud.done(cloud.api.instances().start(project=P, zone=Z, instance="vm").execute())
    cloud.later(7200)
    assert refused(cloud.get)[0] == 404


def test_b35_b41_stop_and_start(cloud):
    """With local SSD a stop must say what becomes of it; a start without stock fails and leaves the
    machine stopped.
    """
    cloud.done(cloud.insert(instance()))
    assert refused(lambda: cloud.api.instances().stop(project=P, zone=Z, instance="vm").execute())[
        :2
    ] == (400, "badRequest")
    cloud.done(
        cloud.api.instances().stop(project=P, zone=Z, instance="vm", discardLocalSsd=True).execute()
    )
    assert cloud.get()["status"] == "TERMINATED"
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 0)
    start_it = lambda: cloud.api.instances().start(project=P, zone=Z, instance="vm").execute()
    assert (
        codes(cloud.done(start_it()))[0].startswith("ZONE_RESOURCE_POOL")
        and cloud.get()["status"] == "TERMINATED"
    )
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 1)
    op = start_it()
    assert cloud.get()["status"] == "PROVISIONING"
    assert "error" not in cloud.done(op) and cloud.get()["status"] == "RUNNING"
    assert refused(start_it)[:2] == (400, "resourceNotReady")


# Lists


def test_lists_filter_page_and_name_empty_zones(cloud):
    """Both filter syntaxes, pages of any size, and scopes without a result with a warning, as at
    Google.
    """
    for index in range(5):
        cloud.insert(
            instance(
                "g2-standard-4",
                name=f"vm{index}",
                labels={"stack": "dev" if index % 2 else "prod", "n": str(index)},
            )
        )
    assert cloud.names(filter="labels.stack=dev") == ["vm1", "vm3"]
    assert cloud.names(filter='(labels.stack="dev") AND (labels.n="3")') == ["vm3"]
    assert cloud.names(filter="labels.n=1 OR labels.n=2") == ["vm1", "vm2"]
    assert cloud.names(filter="labels.stack:* NOT labels.stack=dev") == ["vm0", "vm2", "vm4"]
    assert cloud.names(filter="labels.missing:*") == []
    assert cloud.names(filter="-labels.stack=dev labels.n>0") == ["vm2", "vm4"]
    assert cloud.names(filter="name eq vm[01]") == ["vm0", "vm1"]
    assert cloud.names(filter="(name ne vm0) (name eq vm.*)") == ["vm1", "vm2", "vm3", "vm4"]
    assert cloud.names(filter="name=vm* scheduling.automaticRestart=false") == [
        f"vm{index}" for index in range(5)
    ]
    for wrong in ("name", "name=", "(name=x", "name = x )", "= x"):
        assert refused(lambda wrong=wrong: cloud.names(filter=wrong))[:2] == (400, "invalid")
    seen, request = [], cloud.api.instances().list(project=P, zone=Z, maxResults=2)
    while request:
        page = request.execute()
        seen.append([vm["name"] for vm in page["items"]])
        request = cloud.api.instances().list_next(request, page)
    assert seen == [["vm0", "vm1"], ["vm2", "vm3"], ["vm4"]]
    items = cloud.api.instances().aggregatedList(project=P).execute()["items"]
    assert (
        items["zones/us-east4-a"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
        and "instances" not in items["zones/us-east4-a"]
    )
    newest = (
        cloud.api.instances()
        .list(project=P, zone=Z, orderBy="creationTimestamp desc", maxResults=1)
        .execute()
    )
    assert newest["items"][0]["name"] == "vm4"


def test_partial_answers(cloud):
    """`fields` keeps what it names; a name that the schema has not is refused."""
    cloud.insert(instance())
    ask = (
        lambda fields: cloud.api.instances()
        .aggregatedList(project=P, filter="name=vm", fields=fields)
        .execute()
    )
    found = ask("items/*/instances(name,networkInterfaces/networkIP),nextPageToken")
    assert found["items"][f"zones/{Z}"] == {
        "instances": [
            {
                "name": "vm",
                "networkInterfaces": [
                    {"networkIP": cloud.get()["networkInterfaces"][0]["networkIP"]}
                ],
            }
        ]
    }
    for wrong in ("items/*/machines", "items(", "a//b", "items)"):
        assert refused(lambda wrong=wrong: ask(wrong))[:2] == (400, "invalidParameter")


def test_operations_can_be_found(cloud):
    """By the caller's request id, by target and by type; waiting answers at once when the operation
    is done.
    """
    request = str(uuid.uuid4())
    op = cloud.insert(instance(), requestId=request)
    for wanted in (
        f'clientOperationId="{request}"',
        f'targetLink="{op["targetLink"]}"',
        "operationType=insert",
    ):
        found = cloud.api.zoneOperations().list(project=P, zone=Z, filter=wanted).execute()["items"]
        assert [item["name"] for item in found] == [op["name"]]
    cloud.later()
    assert (
        cloud.api.zoneOperations().wait(project=P, zone=Z, operation=op["name"]).execute()["status"]
        == "DONE"
    )
    assert refused(
        lambda: cloud.api.zoneOperations().get(project=P, zone=Z, operation="operation-x").execute()
    )[:2] == (404, "notFound")
    assert refused(
        lambda: cloud.api.zoneOperations()
        .get(project="other", zone=Z, operation=op["name"])
        .execute()
    )[:2] == (404, "notFound")


def test_what_exists_where(cloud):
    """Machine types with their GPUs, accelerators, zones and regions; a type whose zone no source
    knows is in no zone.
    """
    kind = cloud.api.machineTypes().get(project=P, zone=Z, machineType="a3-highgpu-8g").execute()
    assert kind["accelerators"] == [
        {"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 8}
    ]
    assert (kind["guestCpus"], kind["memoryMb"], kind["bundledLocalSsds"]["partitionCount"]) == (
        208,
        1872 * 1024,
        16,
    )
    assert (
        refused(
            lambda: cloud.api.machineTypes()
            .get(project=P, zone="us-east1-b", machineType="a3-highgpu-8g")
            .execute()
        )[0]
        == 404
    )
    everywhere = (
        cloud.api.machineTypes()
        .aggregatedList(project=P, filter="name=a3-highgpu-8g")
        .execute()["items"]
    )
    assert 24 == sum(len(scope.get("machineTypes", [])) for scope in everywhere.values())
    cards = (
        cloud.api.acceleratorTypes()
        .get(project=P, zone=Z, acceleratorType="nvidia-tesla-t4")
        .execute()
    )
    assert cards["maximumCardsPerInstance"] == 4
    zones = cloud.api.zones().list(project=P, filter="name=us-central1-*").execute()["items"]
    assert [zone["name"] for zone in zones] == [f"us-central1-{letter}" for letter in "abcf"]
    names = [region["name"] for region in cloud.api.regions().list(project=P).execute()["items"]]
    assert "australia-southeast2" in names and R in names
    image = (
        cloud.api.images()
        .getFromFamily(
            project="deeplearning-platform-release", family="common-cu129-ubuntu-2204-nvidia-580"
        )
        .execute()
    )
    assert (
        image["status"] == "READY"
        and image
        == cloud.api.images()
        .get(project="deeplearning-platform-release", image=image["name"])
        .execute()
    )


def test_disks_go_with_their_machine_unless_told_otherwise(cloud):
    """autoDelete disks go with the machine; others stay, cost money, and can be deleted once
    unused.
    """
    body = instance("g2-standard-4")
    body["disks"].append(
        {
            "autoDelete": False,
            "initializeParams": {
                "diskName": "data",
                "diskSizeGb": "10",
                "diskType": f"zones/{Z}/diskTypes/pd-balanced",
            },
        }
    )
    cloud.done(cloud.insert(body))
    disks = lambda: [
        disk["name"]
        for disk in cloud.api.disks().list(project=P, zone=Z).execute().get("items", [])
    ]
    drop = lambda: cloud.api.disks().delete(project=P, zone=Z, disk="data").execute()
    assert disks() == ["data", "vm"] and refused(drop)[:2] == (
        400,
        "resourceInUseByAnotherResource",
    )
    cloud.done(cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute())
    assert disks() == ["data"]
    cloud.done(drop())
    assert disks() == []


# Surroundings


def test_a_managed_network_is_made_used_and_removed(cloud):
    """Network, subnetwork and firewall rule; a machine inside; nothing in use can be removed."""
    api, link = cloud.api, f"https://www.googleapis.com/compute/v1/projects/{P}/global/networks/net"
    op = cloud.done(
        api.networks()
        .insert(project=P, body={"name": "net", "autoCreateSubnetworks": False, "mtu": 8896})
        .execute()
    )
    assert op["targetLink"] == link
    subnet = {"name": "sub", "network": link, "ipCidrRange": "10.9.0.0/24"}
    cloud.done(api.subnetworks().insert(project=P, region=R, body=subnet).execute())
    assert refused(
        lambda: api.subnetworks()
        .insert(project=P, region=R, body={**subnet, "name": "again"})
        .execute()
    )[:2] == (400, "invalid")
    rule = {
        "name": "ssh",
        "network": link,
        "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
        "sourceRanges": ["0.0.0.0/0"],
        "targetTags": ["gpus"],
    }
    cloud.done(api.firewalls().insert(project=P, body=rule).execute())
    assert (
        refused(
            lambda: api.firewalls()
            .insert(project=P, body={**rule, "name": "x", "denied": rule["allowed"]})
            .execute()
        )[0]
        == 400
    )
    cloud.done(
        api.firewalls()
        .patch(project=P, firewall="ssh", body={"sourceRanges": ["198.51.100.0/24"]})
        .execute()
    )
    found = api.firewalls().get(project=P, firewall="ssh").execute()
    assert (found["sourceRanges"], found["direction"], found["priority"], found["targetTags"]) == (
        ["198.51.100.0/24"],
        "INGRESS",
        1000,
        ["gpus"],
    )
    assert refused(
        lambda: cloud.insert(instance(networkInterfaces=[{"network": "global/networks/net"}]))
    )[:2] == (400, "invalid")
    cloud.done(
        cloud.insert(instance(networkInterfaces=[{"subnetwork": f"regions/{R}/subnetworks/sub"}]))
    )
    assert cloud.get()["networkInterfaces"][0]["network"] == link and cloud.get()[
        "networkInterfaces"
    ][0]["networkIP"].startswith("10.9.0.")
    assert (
        api.networks()
        .get(project=P, network="net")
        .execute()["subnetworks"][0]
        .endswith("/subnetworks/sub")
    )
    drop_net = lambda: api.networks().delete(project=P, network="net").execute()
    drop_sub = lambda: api.subnetworks().delete(project=P, region=R, subnetwork="sub").execute()
    assert refused(drop_net)[1] == refused(drop_sub)[1] == "resourceInUseByAnotherResource"
    cloud.done(api.instances().delete(project=P, zone=Z, instance="vm").execute())
    for drop in (
        drop_sub,
        lambda: api.firewalls().delete(project=P, firewall="ssh").execute(),
        drop_net,
    ):
        assert "error" not in cloud.done(drop())
    assert [net["name"] for net in api.networks().list(project=P).execute()["items"]] == ["default"]
    assert refused(lambda: api.networks().get(project=P, network="net").execute())[:2] == (
        404,
        "notFound",
    )


def test_default_network_and_addresses(cloud):
    """Every project has a default network with a subnetwork in every region; reserved addresses are
    of the ranges kept for documentation.
    """
    subnet = cloud.api.subnetworks().get(project=P, region=R, subnetwork="default").execute()
    assert subnet["ipCidrRange"].endswith("/20")
    aggregated = cloud.api.subnetworks().aggregatedList(project=P).execute()["items"]
    assert all(len(scope["subnetworks"]) == 1 for scope in aggregated.values())
    ranges = [scope["subnetworks"][0]["ipCidrRange"] for scope in aggregated.values()]
    assert len(set(ranges)) == len(ranges)
    cloud.done(cloud.api.addresses().insert(project=P, region=R, body={"name": "ip"}).execute())
    address = cloud.api.addresses().get(project=P, region=R, address="ip").execute()
    assert (
        address["address"].startswith(("192.0.2.", "198.51.100.", "203.0.113."))
        and address["status"] == "RESERVED"
    )
    cloud.done(cloud.api.addresses().delete(project=P, region=R, address="ip").execute())
    assert "items" not in cloud.api.addresses().list(project=P, region=R).execute()


def test_a_reservation_is_used_by_name_and_runs_out(cloud):
    """A machine that names a reservation uses it, whatever the stock; beyond its count it fails; it
    must be for that machine type.
    """
    cloud.store.set_stock("gcp", Z, "", "", 0)
    body = {
        "name": "mine",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "1",
            "instanceProperties": {"machineType": "a3-highgpu-8g"},
        },
    }
    cloud.done(cloud.api.reservations().insert(project=P, zone=Z, body=body).execute())
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [f"projects/{P}/reservations/mine"],
    }
    wanted = lambda name, kind="a3-highgpu-8g": cloud.insert(
        instance(kind, "STANDARD", name=name, reservationAffinity=affinity)
    )
    assert "error" not in cloud.done(wanted("vm"))
    assert (
        cloud.api.reservations()
        .get(project=P, zone=Z, reservation="mine")
        .execute()["specificReservation"]["inUseCount"]
        == "1"
    )
    assert codes(cloud.done(wanted("second"))) == ["ZONE_RESOURCE_POOL_EXHAUSTED"]
    assert refused(lambda: wanted("third", "g2-standard-4"))[:2] == (400, "invalid")
    listed = (
        cloud.api.reservations()
        .aggregatedList(project=P)
        .execute()["items"][f"zones/{Z}"]["reservations"]
    )
    assert [found["name"] for found in listed] == ["mine"]


# Planned failures


def test_b26_b44_the_reply_may_be_lost_after_the_work(cloud):
    """The work is done, no answer comes, the client's transport sends it once more by itself; the
    same request id finds it; nothing is made twice.
    """
    request = str(uuid.uuid4())
    cloud.store.add_fault("gcp", "instances.insert", "reply-lost", 2)
    with pytest.raises(ConnectionError):
        cloud.insert(instance(), requestId=request)
    assert cloud.names() == ["vm"]
    assert cloud.insert(instance(), requestId=request)["clientOperationId"] == request
    assert [(found.status, found.fault) for found in cloud.store.mutations()] == [
        (0, "reply-lost"),
        (0, "reply-lost"),
        (200, ""),
    ]


@pytest.mark.parametrize(
    ("kind", "settings", "status", "reason", "made"),
    [
        ("unavailable", {}, 503, "backendError", False),
        ("rate-limit", {}, 403, "rateLimitExceeded", False),
        ("too-many", {}, 429, "rateLimitExceeded", False),
        ("forbidden", {}, 403, "forbidden", False),
        ("quota", {"metric": "NVIDIA_L4_GPUS", "region": R}, 403, "quotaExceeded", False),
        ("http", {"status": 418, "reason": "teapot"}, 418, "teapot", False),
        ("error-after", {}, 503, "backendError", True),
    ],
)
def test_http_failures(cloud, kind, settings, status, reason, made):
    """Each planned HTTP failure has its status and reason, comes once, and does the work or not as
    it says.
    """
    cloud.store.add_fault("gcp", "instances.insert", kind, **settings)
    assert refused(lambda: cloud.insert(instance()))[:2] == (status, reason)
    assert cloud.names() == (["vm"] if made else [])
    cloud.insert(instance(name="next"))


def test_garbled_answers(cloud):
    """A web page instead of JSON before any work, and half an answer after it."""
    cloud.store.add_fault("gcp", "instances.insert", "html")
    with pytest.raises(HttpError) as caught:
        cloud.insert(instance())
    assert caught.value.status_code == 502 and caught.value.content.startswith(b"<!DOCTYPE")
    cloud.store.add_fault("gcp", "instances.insert", "malformed")
    assert isinstance(cloud.insert(instance()), str), "Google's client hands broken JSON on as text"
    assert cloud.names() == ["vm"]


def test_refused_keys(cloud):
    """401 in Google's shape, before any work."""
    cloud.store.add_fault("gcp", "*", "unauthorized")
    status, body = raw(cloud, "GET", f"/compute/v1/projects/{P}/zones")
    assert (status, body["error"]["errors"][0]["reason"]) == (401, "authError")


def test_b23_deletes_can_fail_and_lag(cloud):
    """A delete fails as often as planned, or takes as long as planned; the machine is there until
    it is really gone.
    """
    cloud.done(cloud.insert(instance()))
    drop = lambda: cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute()
    cloud.store.add_fault("gcp", "instances.delete", "unavailable", 2, machine_type="a3-highgpu-8g")
    assert [refused(drop)[0], refused(drop)[0]] == [503, 503]
    cloud.store.add_fault("gcp", "instances.delete", "op-error", code="INTERNAL_ERROR")
    assert codes(cloud.done(drop())) == ["INTERNAL_ERROR"] and cloud.get()["status"] == "RUNNING"
    cloud.store.add_fault("gcp", "instances.delete", "slow", seconds=60)
    op = drop()
    cloud.later(50)
    assert (cloud.get()["status"], cloud.operation(op)["status"]) == ("STOPPING", "RUNNING")
    cloud.done(op, 11)
    assert refused(cloud.get)[0] == 404


def test_b18_an_operation_can_fail_with_any_code(cloud):
    """The planned code, reason and quota travel in the operation, and nothing is made."""
    cloud.store.add_fault("gcp", "*nserts*", "unavailable")
    cloud.store.add_fault(
        "gcp",
        "*.bulkInsert",
        "op-error",
        code="REGION_POOL_X",
        reason="resource_availability",
        place=R,
    )
    error = cloud.done(
        cloud.regional(perInstanceProperties={"vm": {}}, instanceProperties=properties())
    )["error"]["errors"][0]
    assert (error["code"], error["errorDetails"][0]["errorInfo"]["reason"]) == (
        "REGION_POOL_X",
        "resource_availability",
    )
    cloud.store.add_fault(
        "gcp",
        "instances.insert",
        "op-error",
        code="QUOTA_EXCEEDED",
        metric="GPUS_ALL_REGIONS",
        limit=0,
    )
    error = cloud.done(cloud.insert(instance()))["error"]["errors"][0]
    assert (
        error["errorDetails"][0]["quotaInfo"]["metricName"] == "GPUS_ALL_REGIONS"
        and cloud.names() == []
    )


def test_a_delayed_answer_still_comes(cloud):
    """A delay holds the answer back and changes nothing else."""
    cloud.store.add_fault("gcp", "instances.list", "delay", seconds=0.01)
    assert "items" not in cloud.api.instances().list(project=P, zone=Z).execute()


# What is kept


def test_nothing_stored_holds_a_port_or_a_secret(cloud):
    """Links in rows name Google's host, and the request log keeps neither bodies nor queries."""
    cloud.done(
        cloud.insert(
            instance(metadata={"items": [{"key": "k", "value": "hush"}]}),
            requestId=str(uuid.uuid4()),
        )
    )
    dump = "\n".join(cloud.store.connection().iterdump())
    assert (
        cloud.server.url.rsplit(":", 1)[1] not in dump.replace("1800000", "")
        and "127.0.0.1" not in dump
    )
    log = str(cloud.store.requests())
    assert "hush" not in log and "requestId" not in log


def test_another_server_goes_on_where_the_first_was(cloud):
    """Operations and machines outlive the server that was asked for them."""
    op = cloud.insert(instance())
    cloud.server.close()
    with pytest.raises(OSError):
        cloud.get()
    cloud.server = start(cloud.store)
    cloud.api = client(cloud.server.url)
    assert "error" not in cloud.done(op) and cloud.get()["status"] == "RUNNING"
