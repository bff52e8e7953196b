"""What each call on custom jobs does, and what a planned failure answers. Owns the table from
method to function, and the checks of a new job.

Error bodies: `{"error": {code, message, status, details}}`, as all newer APIs of Google answer; the
message of a limit from GoogleCloudPlatform/stable-diffusion-on-gcp#12 (2023-12-14).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import filters, machines
from providers.rehearsal.clouds.gcp.discovery import Document
from providers.rehearsal.clouds.gcp.server import Cloud, reply, web_page
from providers.rehearsal.clouds.gcp.state import cut
from providers.rehearsal.clouds.gcp.wire import Json, Refusal
from providers.rehearsal.clouds.vertex import jobs
from providers.rehearsal.clouds.vertex.accelerators import GPU_OF, LOCATIONS
from providers.rehearsal.clouds.vertex.jobs import (
    CANCELLED,
    CANCELLING,
    FAILED,
    FINAL,
    PROVIDER,
    SCHEMA,
    Job,
    Jobs,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from providers.rehearsal.clouds.gcp.server import Request
    from providers.rehearsal.http import Reply
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

DOCUMENT = Document(Path(__file__).parent / "discovery.json", "/")
PAGE_MAX = 100
_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def told(refusal: Refusal) -> Json:
    """A refusal's JSON. A reason in capitals stands in the details, as `errorInfo`."""
    error: Json = {
        "code": refusal.status,
        "message": str(refusal),
        "status": _WORDS.get(refusal.status, refusal.reason),
    }
    if refusal.reason.isupper() and refusal.reason != error["status"]:
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.reason,
            "domain": "googleapis.com",
        }
        error["details"] = [info]
    return {"error": error}


def _refused(fault: Fault) -> Reply | None:
    """The answer of a fault that comes before any work."""
    given = fault.settings
    if fault.kind == "html":
        return web_page()
    if fault.kind == "quota":
        metric = str(given.get("metric", "custom_model_training_nvidia_l4_gpus"))
        return _limit(metric)
    if fault.kind == "http":
        status, reason = int(str(given.get("status", 500))), str(given.get("reason", "INTERNAL"))
        return reply(
            status,
            told(Refusal(status, reason, str(given.get("message", "planned by the scenario")))),
        )
    before = {
        "unavailable": (503, "UNAVAILABLE", "The service is currently unavailable."),
        "rate-limit": (
            429,
            "RATE_LIMIT_EXCEEDED",
            "Quota exceeded for quota metric 'Resource management requests'.",
        ),
        "too-many": (
            429,
            "RATE_LIMIT_EXCEEDED",
            "Quota exceeded for quota metric 'Resource management requests'.",
        ),
        "unauthorized": (401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
        "forbidden": (
            403,
            "IAM_PERMISSION_DENIED",
            "Permission 'aiplatform.customJobs.create' denied on resource (or it may not exist).",
        ),
    }
    if fault.kind not in before:
        return None
    status, reason, text = before[fault.kind]
    return reply(status, told(Refusal(status, reason, text)))


def _limit(metric: str) -> Reply:
    text = f"The following quota metrics exceed quota limits: aiplatform.googleapis.com/{metric}"
    return reply(429, told(Refusal(429, "RESOURCE_EXHAUSTED", text)))


def _about(request: Request) -> tuple[list[str], list[str]]:
    pools = ((request.body.get("jobSpec") or {}).get("workerPoolSpecs")) or []
    kinds = [str((pool.get("machineSpec") or {}).get("machineType", "")) for pool in pools]
    if not kinds and "customJobsId" in request.path:
        kinds = [
            job.machine_type
            for job in Jobs(request.store, request.db).all()
            if job.name == _name(request)
        ]
    return [request.path["locationsId"]], [kind for kind in kinds if kind]


def _name(request: Request) -> str:
    path = request.path
    place = f"projects/{path['projectsId']}/locations/{path['locationsId']}"
    return f"{place}/customJobs/{path['customJobsId']}"


def _named(table: Jobs, request: Request) -> Job:
    for job in table.all(
        "project = ? AND region = ?", (request.path["projectsId"], request.path["locationsId"])
    ):
        if job.name == _name(request):
            return job
    raise Refusal(404, "NOT_FOUND", f"CustomJob does not exist: {_name(request)}")


def _create(request: Request) -> Json:
    region = request.path["locationsId"]
    _check(region, request.body)
    table, fault = Jobs(request.store, request.db), request.fault
    job = jobs.new(request.path["projectsId"], region, request.body, table.now)
    _check_limit(table, job)
    wait_s = (
        jobs.seconds((request.body["jobSpec"].get("scheduling") or {}).get("maxWaitDuration", ""))
        or jobs.DEFAULT_WAIT_S
    )
    given = fault.settings if fault else {}
    if fault and fault.kind == "op-error":
        error = {
            "code": int(str(given.get("code", 13))),
            "message": str(given.get("message", "planned by the scenario")),
        }
        job = job._replace(
            timeline=[*job.timeline, (table.now + table.latency("stockout"), FAILED)], error=error
        )
    elif table.free(job, table.now) >= job.nodes:
        job = table.launched(
            job,
            table.now,
            float(str(given.get("seconds", 5))) if fault and fault.kind == "slow" else 0.0,
        )
    elif job.capacity == "flex-start":
        job = job._replace(wait_until=table.now + wait_s)
    else:
        job = job._replace(
            timeline=[*job.timeline, (table.now + table.latency("stockout"), FAILED)],
            error=jobs.no_room(region),
        )
    return table.add(job).shown(table.now)


def _check(region: str, body: Json) -> None:
    """Raises 400 for what Vertex AI would not take."""
    if region not in LOCATIONS:
        raise Refusal(
            404, "NOT_FOUND", f"Location {region} is not found or access is unauthorized."
        )
    spec = body.get("jobSpec") or {}
    pools = spec.get("workerPoolSpecs") or []
    if not body.get("displayName") or not pools:
        raise _invalid("displayName and jobSpec.workerPoolSpecs are required.")
    for key, value in (body.get("labels") or {}).items():
        if not _label(key) or not _label(value) or not key[:1].isalpha():
            raise _invalid(
                f"Label {key!r} = {value!r}: at most 64 lowercase letters, digits, underscores and"
                " dashes."
            )
    if int(pools[0].get("replicaCount", 1)) != 1:
        raise _invalid("The replica count of the first worker pool must be 1.")
    for pool in pools:
        machine = pool.get("machineSpec") or {}
        if not (pool.get("containerSpec") or {}).get("imageUri"):
            raise _invalid("containerSpec.imageUri is required.")
        _check_machine(
            region,
            str(machine.get("machineType", "")),
            str(machine.get("acceleratorType", "")),
            int(machine.get("acceleratorCount", 0)),
        )
    scheduling = spec.get("scheduling") or {}
    if scheduling.get("maxWaitDuration") and scheduling.get("strategy") != "FLEX_START":
        raise _invalid("maxWaitDuration is for strategy FLEX_START.")
    if (
        scheduling.get("strategy") == "FLEX_START"
        and len({str(pool.get("machineSpec")) for pool in pools}) > 1
    ):
        raise _invalid("FLEX_START needs the same machine configuration in all worker pools.")


def _check_machine(region: str, kind: str, accelerator: str, count: int) -> None:
    found = machines.types().get(kind)
    if found is None or not found.in_region(region):
        raise _invalid(f"Machine type {kind!r} is not supported in {region}.")
    if found.accelerator and (GPU_OF.get(accelerator) != found.gpu or count != found.gpu_count):
        raise _invalid(
            f"Machine type {kind!r} needs {found.gpu_count:g} accelerators of its own GPU, found"
            f" {count} x {accelerator or 'none'}."
        )
    if not found.accelerator and accelerator:
        zones = dict(machines.attachable().values()).get(GPU_OF.get(accelerator, ""), frozenset())
        if not any(machines.region_of(zone) == region for zone in zones):
            raise _invalid(
                f"Accelerator type {accelerator} is not supported in {region} on {kind}."
            )


def _check_limit(table: Jobs, job: Job) -> None:
    metric = f"custom_model_training_{job.gpu.lower()}_gpus"
    limit = table.store.quota(PROVIDER, job.region, metric)
    if limit is None:
        return
    held = [
        other
        for other in table.all("region = ? AND gpu = ?", (job.region, job.gpu))
        if other.state(table.now) in jobs.HOLDING
    ]
    if sum(other.gpu_count * other.nodes for other in [*held, job]) > limit:
        raise Refusal(
            429,
            "RESOURCE_EXHAUSTED",
            f"The following quota metrics exceed quota limits: aiplatform.googleapis.com/{metric}",
        )


def _label(text: str) -> bool:
    return len(text) <= 64 and all(
        letter in "_-" or letter.isdigit() or (letter.isalpha() and letter == letter.lower())
        for letter in text
    )


def _invalid(text: str) -> Refusal:
    return Refusal(400, "INVALID_ARGUMENT", text)


def _list(request: Request) -> Json:
    table = Jobs(request.store, request.db)
    test = filters.compile_filter(str(request.query.get("filter", "")))
    found = table.all(
        "project = ? AND region = ?", (request.path["projectsId"], request.path["locationsId"])
    )
    shown = [item for item in (job.shown(table.now) for job in reversed(found)) if test(item)]
    size = min(int(request.query.get("pageSize", 0)) or PAGE_MAX, PAGE_MAX)
    token = str(request.query.get("pageToken", ""))
    if token and not (token.startswith("p") and token[1:].isdigit()):
        raise _invalid("The page token is invalid.")
    begin = int(token[1:]) if token else 0
    out: Json = {"customJobs": shown[begin : begin + size]} if shown[begin:] else {}
    if begin + size < len(shown):
        out["nextPageToken"] = f"p{begin + size}"
    return out


def _get(request: Request) -> Json:
    table = Jobs(request.store, request.db)
    return _named(table, request).shown(table.now)


def _cancel(request: Request) -> Json:
    """Accepted at once; it takes effect later. Of a job that has ended it is refused."""
    table = Jobs(request.store, request.db)
    job = _named(table, request)
    if job.state(table.now) in FINAL:
        raise Refusal(
            400, "FAILED_PRECONDITION", f"The job {job.name} has ended: {job.state(table.now)}."
        )
    if job.state(table.now) != CANCELLING:
        end = [(table.now, CANCELLING), (table.now + table.latency("delete"), CANCELLED)]
        table.write(
            job._replace(wait_until=None, timeline=cut(job.timeline, table.now, end), error={})
        )
    return {}


def _delete(request: Request) -> Json:
    """The record of a job that has ended, at once; the operation is done."""
    table = Jobs(request.store, request.db)
    job = _named(table, request)
    if job.state(table.now) not in FINAL:
        raise Refusal(
            400, "FAILED_PRECONDITION", f"The job {job.name} has not ended: {job.state(table.now)}."
        )
    table.write(job._replace(gone=table.now))
    where = job.name.rpartition("/customJobs/")[0]
    return {"name": f"{where}/operations/{8_000_000_000_000_000_000 + job.id}", "done": True}


HANDLERS: dict[str, Callable[[Request], Json]] = {
    "customJobs.create": _create,
    "customJobs.get": _get,
    "customJobs.list": _list,
    "customJobs.cancel": _cancel,
    "customJobs.delete": _delete,
}


def _settle(store: Store, db: sqlite3.Connection) -> None:
    Jobs(store, db).settle()


CLOUD = Cloud(
    PROVIDER,
    SCHEMA,
    DOCUMENT,
    _settle,
    _about,
    lambda request: HANDLERS[request.method](request),
    _refused,
    told,
)
