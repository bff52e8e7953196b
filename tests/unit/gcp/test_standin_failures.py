"""Failures that the Compute Engine stand-in plays, and requests that arrive twice."""

import threading
import uuid

import pytest
from googleapiclient.errors import HttpError

from providers.rehearsal.clouds.gcp import start
from tests.unit.gcp.standin_rig import P, R, Z, client, codes, instance, properties, raw, refused

# Never twice


def test_b26_the_same_request_id_is_the_same_operation(cloud) -> None:
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


def test_b26_a_taken_name_is_refused(cloud) -> None:
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


def test_several_servers_are_one_cloud(cloud) -> None:
    """Two servers on one store, asked in parallel for more than there is, give away exactly what
    there is.
    """
    cloud.store.set_stock("gcp", Z, "g2-standard-4", "spot", 3)
    other = start(cloud.store)
    results = []

    def ask(url, name) -> None:
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
    assert len(results) == 8 and len(cloud.names()) == 3
    assert sum("error" in cloud.operation(op) for op in results) == 5


# Planned failures


def test_b26_b44_the_reply_may_be_lost_after_the_work(cloud) -> None:
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
def test_http_failures(cloud, kind, settings, status, reason, made) -> None:
    """Each planned HTTP failure has its status and reason, comes once, and does the work or not as
    it says.
    """
    cloud.store.add_fault("gcp", "instances.insert", kind, **settings)
    assert refused(lambda: cloud.insert(instance()))[:2] == (status, reason)
    assert cloud.names() == (["vm"] if made else [])
    cloud.insert(instance(name="next"))


def test_garbled_answers(cloud) -> None:
    """A web page instead of JSON before any work, and half an answer after it."""
    cloud.store.add_fault("gcp", "instances.insert", "html")
    with pytest.raises(HttpError) as caught:
        cloud.insert(instance())
    assert caught.value.status_code == 502 and caught.value.content.startswith(b"<!DOCTYPE")
    cloud.store.add_fault("gcp", "instances.insert", "malformed")
    assert isinstance(cloud.insert(instance()), str), "Google's client hands broken JSON on as text"
    assert cloud.names() == ["vm"]


def test_refused_keys(cloud) -> None:
    """401 in Google's shape, before any work."""
    cloud.store.add_fault("gcp", "*", "unauthorized")
    status, body = raw(cloud, "GET", f"/compute/v1/projects/{P}/regions")
    assert (status, body["error"]["errors"][0]["reason"]) == (401, "authError")


def test_b23_deletes_can_fail_and_lag(cloud) -> None:
    """A delete fails as often as planned, or takes as long as planned; the machine is there until
    it is really gone.
    """
    cloud.done(cloud.insert(instance()))

    def drop():
        return cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute()

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


def test_b18_an_operation_can_fail_with_any_code(cloud) -> None:
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


def test_a_delayed_answer_still_comes(cloud) -> None:
    """A delay holds the answer back and changes nothing else."""
    cloud.store.add_fault("gcp", "instances.list", "delay", seconds=0.01)
    assert "items" not in cloud.api.instances().list(project=P, zone=Z).execute()
