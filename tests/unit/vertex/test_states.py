"""What the states and errors of a Vertex AI job mean."""

import pytest

from providers.adapters.gcp.errors import Context
from providers.adapters.gcp.vertex import errors, job
from providers.errors import NoCapacity, QuotaExceeded, SpecError
from providers.model.machine import Handle, Label
from tests.unit.vertex.rig import candidate

NAME = "projects/rehearsal/locations/us-central1/customJobs/123"


def seen(state, **fields):
    machine = {
        "machineType": "a3-highgpu-8g",
        "acceleratorType": "NVIDIA_H100_80GB",
        "acceleratorCount": 8,
    }
    strategy = fields.pop("strategy", "STANDARD")
    return {
        "name": NAME,
        "displayName": "train-1",
        "state": f"JOB_STATE_{state}",
        "jobSpec": {
            "scheduling": {"strategy": strategy},
            "workerPoolSpecs": [{"machineSpec": machine, "replicaCount": "1"}],
        },
        "labels": {
            "gpus_owner": "o1",
            "gpus_cluster": "train",
            "gpus_generation": "g1",
            "gpus_fingerprint": "f1",
        },
        **fields,
    }


STARTED = {"startTime": "2026-11-28T10:00:00Z"}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (seen("QUEUED"), "pending"),
        (seen("PENDING"), "pending"),
        (seen("QUEUED", strategy="FLEX_START"), "queued"),
        (seen("RUNNING"), "running"),
        (seen("UPDATING", **STARTED), "running"),
        (seen("CANCELLING", **STARTED), "stopping"),
        (seen("SUCCEEDED", **STARTED), "ended"),
        (
            seen(
                "FAILED",
                **STARTED,
                error={
                    "code": 3,
                    "message": "The replica workerpool0-0 exited with a non-zero status of 1.",
                },
            ),
            "failed",
        ),
        (seen("FAILED", **STARTED, error={"code": 8}), "failed"),
        (seen("FAILED", **STARTED, strategy="SPOT", error={"code": 8}), "preempted"),
        (seen("FAILED", error={"code": 8}), "stopped"),
        (seen("EXPIRED", **STARTED), "failed"),
        (seen("PARTIALLY_SUCCEEDED", **STARTED), "failed"),
        (seen("CANCELLED", **STARTED), "failed"),
        (seen("CANCELLED"), "failed"),
    ],
)
def test_what_each_state_means(found, status) -> None:
    """Done, well or not, is not gone; what never ran is not done; a Spot job that lost its machines
    was preempted.
    """
    made = job.node(Handle("vertex", NAME), found)
    assert (status, "train-1-0", "H100", 8, "us-central1", "job") == (
        made.status,
        made.name,
        made.gpu_type,
        made.gpu_count,
        made.region,
        made.kind,
    )
    assert Label("o1", "train", "g1", "f1") == made.label
    assert (
        made.url
        == "https://console.cloud.google.com/logs/query;query=resource.type%3D%22ml_job%22%0Aresource.labels.job_id%3D%22123%22?project=rehearsal"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "projects/p/zones/z/instances/n",
        "projects/p/locations/l/customJobs/1/replicas/x",
        "projects//locations/l/customJobs/1",
    ],
)
def test_a_handle_that_is_none_is_told(text) -> None:
    """What is no custom job's name is a clear error."""
    with pytest.raises(SpecError):
        job.parse(Handle("vertex", text))


def test_a_limit_is_told_from_a_stockout_by_the_limits_name() -> None:
    """Both end a job with code 8; the name of a quota metric is what only a limit has."""
    context = Context("a test", "p", candidates=(candidate(),))
    room = errors.never_ran(
        {"error": {"code": 8, "message": "Resources are insufficient in region: us-central1."}},
        context,
    )
    limit = errors.never_ran(
        {
            "error": {
                "code": 8,
                "message": (
                    "The following quota metrics exceed quota limits:"
                    " aiplatform.googleapis.com/custom_model_training_cpus"
                ),
            }
        },
        context,
    )
    assert isinstance(room, NoCapacity) and isinstance(limit, QuotaExceeded)
    assert limit.metric == "custom_model_training_cpus"
    assert room.block_s > 0 and all(
        scope.covers(candidate()) for scope in (*room.scopes, *limit.scopes)
    )
