"""From an order to the one custom job that is asked for, and back from a job to what is seen of it.
Pure: no client, no clock, no network.

Owns every field of the request body, and what a job's state means. Fields and enums: discovery
document aiplatform v1, revision 20261106. A job of several nodes is one resource; each node has a
handle of its own, which ends with `/replicas/N`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.gcp.nodes import moment
from providers.adapters.gcp.vertex.errors import PROVIDER
from providers.adapters.gcp.vertex.offers import ACCELERATORS, GPU_OF
from providers.adapters.gcp.vertex.options import DISK_MIN_GIB, Options, read
from providers.errors import Problem, SpecError, Unsupported
from providers.model import foreign
from providers.model.ask import FLEX_START, ON_DEMAND, SPOT
from providers.model.duration import text as duration_text
from providers.model.machine import (
    ENDED,
    FAILED,
    PENDING,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STOPPED,
    STOPPING,
    Handle,
    Label,
    Node,
)
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Order

OWNER, CLUSTER, GENERATION, FINGERPRINT, ORDER = (
    "gpus_owner",
    "gpus_cluster",
    "gpus_generation",
    "gpus_fingerprint",
    "gpus_order",
)
"""Labels. With underscores: the list's filter is documented only for plain names."""

STRATEGIES = {ON_DEMAND: "STANDARD", SPOT: "SPOT", FLEX_START: "FLEX_START"}
_CAPACITIES = {"SPOT": SPOT, "FLEX_START": FLEX_START}

FLEX_START_MAX_S = 7 * 86_400
"""Google, "Schedule training jobs based on resource availability", 2026: a queued job's timeout is
at most 7 days.
"""

WAITS = frozenset(
    {"JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_UNSPECIFIED", "JOB_STATE_PAUSED"}
)
RUNS = frozenset({"JOB_STATE_RUNNING", "JOB_STATE_UPDATING"})
CANCELLING, CANCELLED, SUCCEEDED = (
    "JOB_STATE_CANCELLING",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_SUCCEEDED",
)
FINAL = frozenset(
    {SUCCEEDED, CANCELLED, "JOB_STATE_FAILED", "JOB_STATE_EXPIRED", "JOB_STATE_PARTIALLY_SUCCEEDED"}
)
_NO_ROOM = 8
"""google.rpc.Code RESOURCE_EXHAUSTED: what a Spot job ends with once its machines are taken back
and not had again.
"""


def body(order: Order) -> dict[str, Any]:
    """The CustomJob of an order. Raises Unsupported where it cannot be said to Vertex AI; nothing
    is sent then.
    """
    first, setup = order.candidates[0], order.setup
    options = read(dict(setup.options))
    reasons = _reasons(order, options)
    if reasons:
        scope = Scope(
            PROVIDER, first.region, machine_type=first.machine_type, capacity=first.capacity
        )
        text = f"vertex {first.region} {first.machine_type} {first.capacity}: {'; '.join(reasons)}"
        raise Unsupported(text, provider=PROVIDER, code="job", block_s=0.0, scopes=[scope])
    spec: dict[str, Any] = {
        "workerPoolSpecs": [
            _pool(order, options, replicas)
            for replicas in ([1] if first.nodes == 1 else [1, first.nodes - 1])
        ],
        "scheduling": _scheduling(order),
    }
    if options.service_account:
        spec["serviceAccount"] = options.service_account
    if options.network:
        spec["network"] = options.network
    if options.output:
        spec["baseOutputDirectory"] = {"outputUriPrefix": options.output}
    label = order.label
    labels = {
        OWNER: label.owner,
        CLUSTER: label.cluster,
        GENERATION: label.generation,
        FINGERPRINT: label.fingerprint,
        ORDER: order.token,
    }
    return {
        "displayName": base_name(order),
        "jobSpec": spec,
        "labels": {**dict(setup.labels), **labels},
    }


def _reasons(order: Order, options: Options) -> list[str]:
    first, setup = order.candidates[0], order.setup
    found = []
    if first.kind != "job":
        found.append(
            f"wanted a job, which is all that Vertex AI's custom jobs can be, found a {first.kind}"
        )
    if not options.image:
        found.append("wanted a container image, found none; set workload.image")
    if first.gpu_type not in ACCELERATORS:
        found.append(f"Vertex AI has no accelerator type for {first.gpu_type}")
    if first.capacity not in STRATEGIES:
        found.append(f"capacity {first.capacity} is none of Vertex AI's scheduling strategies")
    if first.capacity == FLEX_START and (setup.ttl_s or 0) > FLEX_START_MAX_S:
        found.append(
            f"wanted a ttl of at most 7d for Flex-start, found {duration_text(setup.ttl_s or 0)}"
        )
    if setup.secrets:
        found.append(
            "secrets would stand in the job in clear; let the code fetch them as the job's service"
            " account"
        )
    if order.joins:
        found.append("a job takes no further node; it is bought again as a whole")
    return found


def _pool(order: Order, options: Options, replicas: int) -> dict[str, Any]:
    """A pool of workers; the first has one replica, as Vertex AI wants. Machine and GPU are both
    stated, for types that bring their GPUs too.
    """
    first = order.candidates[0]
    container: dict[str, Any] = {"imageUri": options.image}
    if options.command:
        container["command"] = list(options.command)
    if options.env:
        # `$(NAME)` would be replaced by another variable's text.
        container["env"] = [
            {"name": name, "value": text.replace("$(", "$$(")} for name, text in options.env
        ]
    pool: dict[str, Any] = {
        "machineSpec": {
            "machineType": first.machine_type,
            "acceleratorType": ACCELERATORS[first.gpu_type],
            "acceleratorCount": first.gpu_count,
        },
        "replicaCount": str(replicas),
        "containerSpec": container,
    }
    disk: dict[str, Any] = {}
    if order.setup.disk_gib:
        disk["bootDiskSizeGb"] = max(order.setup.disk_gib, DISK_MIN_GIB)
    if options.boot_disk_type:
        disk["bootDiskType"] = options.boot_disk_type
    if disk:
        pool["diskSpec"] = disk
    return pool


def _scheduling(order: Order) -> dict[str, Any]:
    first, ttl_s = order.candidates[0], order.setup.ttl_s
    out: dict[str, Any] = {"strategy": STRATEGIES[first.capacity]}
    if ttl_s:
        out["timeout"] = f"{ttl_s}s"
    if first.capacity == FLEX_START:
        # 0 would be for ever.
        out["maxWaitDuration"] = f"{max(1, order.wait_s)}s"
    return out


def base_name(order: Order) -> str:
    """`train-1a2b3c4d`: the job's display name; its nodes' names add their numbers."""
    return order.node_names[0].rpartition("-")[0]


# Reading a job


def handles(name: str, nodes: int) -> tuple[Handle, ...]:
    """One handle for each node of the job of this resource name."""
    return (
        (Handle(PROVIDER, name),)
        if nodes == 1
        else tuple(Handle(PROVIDER, f"{name}/replicas/{index}") for index in range(nodes))
    )


def parse(handle: Handle) -> tuple[str, str, int]:
    """(resource name, region, number of the node) of a handle.
    Raises SpecError for what is none.
    """
    parts = handle.native_id.split("/")
    shape = (*parts[0:1], *parts[2:3], *parts[4:5])
    index = (
        parts[7] if len(parts) == 8 and parts[6] == "replicas" else "0" if len(parts) == 6 else ""
    )
    if shape != ("projects", "locations", "customJobs") or not all(parts) or not index.isdigit():
        raise SpecError(
            [Problem("", "projects/P/locations/L/customJobs/ID", repr(handle.native_id))]
        )
    return "/".join(parts[:6]), parts[3], int(index)


def region_of(name: str) -> str:
    """The region of a job's resource name."""
    return name.split("/")[3]


def state(job: Mapping[str, Any]) -> str:
    """The job's state as Vertex AI names it."""
    return str(job.get("state") or "JOB_STATE_UNSPECIFIED")


def ran(job: Mapping[str, Any]) -> bool:
    """True once all of its machines were there."""
    return state(job) in RUNS or bool(job.get("startTime")) or state(job) == SUCCEEDED


def nodes_of(job: Mapping[str, Any]) -> int:
    """How many machines it has."""
    return sum(foreign.whole(pool.get("replicaCount"), foreign.COUNT) or 1 for pool in _pools(job))


def status(job: Mapping[str, Any]) -> tuple[str, str]:
    """(status, detail). One that has ended is done, well or not; one that never ran is none, and a
    Spot job that lost its machines was preempted.
    """
    word = state(job)
    error = job.get("error") or {}
    said = f"{word.removeprefix('JOB_STATE_').lower()}"
    if error:
        said += f": code {error.get('code', 0)} {error.get('message', '')}".rstrip()
    if word == SUCCEEDED:
        return ENDED, "exit code 0"
    if word in WAITS:
        return (QUEUED if _strategy(job) == "FLEX_START" else PENDING), said
    if word in RUNS:
        return RUNNING, ""
    if word == CANCELLING:
        return STOPPING, said
    if word != CANCELLED and not ran(job):
        return STOPPED, f"it never ran; {said}"
    if (
        word == "JOB_STATE_FAILED"
        and _strategy(job) == "SPOT"
        and foreign.whole(error.get("code"), foreign.COUNT) == _NO_ROOM
    ):
        return PREEMPTED, said
    return FAILED, said


def label(job: Mapping[str, Any]) -> Label | None:
    """Whose it is, by its labels; None for a job that carries no owner."""
    labels = job.get("labels") or {}
    if not labels.get(OWNER):
        return None
    return Label(*(str(labels.get(key, "")) for key in (OWNER, CLUSTER, GENERATION, FINGERPRINT)))


def node(handle: Handle, job: Mapping[str, Any]) -> Node:
    """One node of an existing job."""
    name, region, index = parse(handle)
    machine = (_pools(job) or [{}])[0].get("machineSpec") or {}
    kind = str(machine.get("acceleratorType", ""))
    word, detail = status(job)
    return Node(
        handle=handle,
        name=f"{job.get('displayName', '')}-{index}",
        status=word,
        label=label(job),
        region=region,
        machine_type=str(machine.get("machineType", "")),
        gpu_type=GPU_OF.get(kind, kind),
        gpu_count=foreign.whole(machine.get("acceleratorCount"), foreign.COUNT) or 0,
        capacity=_CAPACITIES.get(_strategy(job), ON_DEMAND),
        created_at=moment(str(job.get("createTime", ""))),
        detail=detail,
        login=f"gcloud ai custom-jobs stream-logs {name}",
        url=logs(name),
        kind="job",
    )


def logs(name: str) -> str:
    """Where the browser shows what the job wrote: Cloud Logging, narrowed to it (resource type
    `ml_job`; Google, "View logs", 2026-11).
    """
    _, project, _, _, _, number = name.split("/")
    query = f'resource.type%3D"ml_job"%0Aresource.labels.job_id%3D"{number}"'.replace('"', "%22")
    return f"https://console.cloud.google.com/logs/query;query={query}?project={project}"


def _pools(job: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (job.get("jobSpec") or {}).get("workerPoolSpecs") or []


def _strategy(job: Mapping[str, Any]) -> str:
    return str(((job.get("jobSpec") or {}).get("scheduling") or {}).get("strategy", ""))
