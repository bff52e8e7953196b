"""The stand-in's jobs: their table, what a job's state is at a time, and whether there is room for
it. Owns every decision of the scenario's.

A row holds a timeline, `[[moment, state], ...]`, written ahead; the state is the last entry that
has passed. What a queued job gets is decided at the first moment at which stock was there. So
whoever reads next, from any process and after any jump of the clock, sees the same.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.gcp.state import FOREVER, Timeline, cut, first_with_room, status_at
from providers.rehearsal.clouds.gcp.wire import Json, timestamp
from providers.rehearsal.clouds.vertex.accelerators import CAPACITY_OF, GPU_OF

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from providers.rehearsal.store import Store

PROVIDER = "vertex"
SCHEMA = """
CREATE TABLE IF NOT EXISTS vertex_job (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, region TEXT NOT NULL,
  machine_type TEXT NOT NULL, gpu TEXT NOT NULL, gpu_count INTEGER NOT NULL,
  nodes INTEGER NOT NULL, capacity TEXT NOT NULL, created REAL NOT NULL, wait_until REAL,
  body TEXT NOT NULL, timeline TEXT NOT NULL, error TEXT NOT NULL, gone REAL NOT NULL);
"""

QUEUED, PENDING, RUNNING = "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"
SUCCEEDED, FAILED, EXPIRED = "JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_EXPIRED"
CANCELLING, CANCELLED = "JOB_STATE_CANCELLING", "JOB_STATE_CANCELLED"
FINAL = frozenset({SUCCEEDED, FAILED, EXPIRED, CANCELLED})
HOLDING = frozenset({PENDING, RUNNING, CANCELLING})
"""The states in which a job takes up machines. One that waits for stock is QUEUED."""
DEFAULT_TIMEOUT_S = 7 * 86_400.0
DEFAULT_WAIT_S = 86_400.0
_UNLIMITED = 10**9


class Job(NamedTuple):
    """A job's row. `gpu` is Vertex AI's accelerator type; `error` is what it ends with where it
    fails.
    """

    id: int
    project: str
    region: str
    machine_type: str
    gpu: str
    gpu_count: int
    nodes: int
    capacity: str
    created: float
    wait_until: float | None
    body: Json
    timeline: Timeline
    error: Json
    gone: float

    def state(self, now: float) -> str:
        """The state at a time."""
        return status_at(self.timeline, now)

    @property
    def name(self) -> str:
        """The resource name."""
        number = 7_000_000_000_000_000_000 + self.id
        return f"projects/{self.project}/locations/{self.region}/customJobs/{number}"

    def shown(self, now: float) -> Json:
        """The job as the API shows it now."""
        state = self.state(now)
        began = next(
            (at for at, entered in self.timeline if entered == RUNNING and at <= now), None
        )
        ended = next((at for at, entered in self.timeline if entered in FINAL and at <= now), None)
        out: Json = {
            **self.body,
            "name": self.name,
            "state": state,
            "createTime": timestamp(self.created),
        }
        out["updateTime"] = timestamp(max(at for at, _ in self.timeline if at <= now))
        if began is not None:
            out["startTime"] = timestamp(began)
        if ended is not None:
            out["endTime"] = timestamp(ended)
        if state == FAILED and self.error:
            out["error"] = self.error
        return out


class Jobs:
    """The table within one transaction, at one moment of the world."""

    def __init__(self, store: Store, db: sqlite3.Connection) -> None:
        self.store = store
        self.db = db
        self.now = store.now()

    def latency(self, step: str) -> float:
        """How long a step takes here, in world seconds."""
        return self.store.latency(PROVIDER, step)

    def all(self, where: str = "1", args: Sequence[object] = ()) -> list[Job]:
        """Jobs whose record exists, in the order they were made."""
        rows = self.db.execute(
            f"SELECT * FROM vertex_job WHERE gone > ? AND {where} ORDER BY id",  # noqa: S608
            (self.now, *args),
        )
        return [
            Job._make(
                (*row[:10], json.loads(row[10]), _course(row[11]), json.loads(row[12]), row[13])
            )
            for row in rows
        ]

    def add(self, job: Job) -> Job:
        """Writes a new job and returns it with its id."""
        columns = (
            "project, region, machine_type, gpu, gpu_count, nodes, capacity, created, wait_until,"
            " body, timeline, error, gone"
        )
        values = (
            *job[1:10],
            json.dumps(job.body),
            json.dumps(job.timeline),
            json.dumps(job.error),
            job.gone,
        )
        cursor = self.db.execute(
            f"INSERT INTO vertex_job ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
            values,
        )
        return job._replace(id=int(cursor.lastrowid or 0))

    def write(self, job: Job) -> None:
        """Writes a job's changed wait, timeline, error and end."""
        self.db.execute(
            "UPDATE vertex_job SET wait_until = ?, timeline = ?, error = ?, gone = ? WHERE id = ?",
            (job.wait_until, json.dumps(job.timeline), json.dumps(job.error), job.gone, job.id),
        )

    # Stock

    def free(self, job: Job, at: float) -> int:
        """How many machines of this kind the region can give at a time, this job's own left out."""
        line = self.store.stock(
            PROVIDER,
            job.region,
            "",
            job.machine_type,
            (job.gpu, GPU_OF.get(job.gpu, "")),
            job.capacity,
        )
        if line.machines is None:
            return _UNLIMITED
        same = self.all(
            "region = ? AND machine_type = ? AND gpu = ? AND capacity = ?",
            (job.region, job.machine_type, job.gpu, job.capacity),
        )
        return max(
            0,
            line.machines
            - sum(
                other.nodes for other in same if other.id != job.id and other.state(at) in HOLDING
            ),
        )

    # Courses

    def launched(self, job: Job, at: float, slower_s: float = 0.0) -> Job:
        """The job whose machines are launched at this time: it runs, and ends as the scenario says,
        or with its timeout.
        """
        up = at + self.latency("create") + slower_s
        code = self.store.exit_code(PROVIDER, job.region, job.machine_type)
        timeout_s = (
            seconds((job.body["jobSpec"].get("scheduling") or {}).get("timeout", ""))
            or DEFAULT_TIMEOUT_S
        )
        took = self.latency("job")
        end = (
            (up + timeout_s, EXPIRED)
            if took > timeout_s
            else (up + took, FAILED if code else SUCCEEDED)
        )
        error = (
            {
                "code": 3,
                "message": f"The replica workerpool0-0 exited with a non-zero status of {code}.",
            }
            if code
            else {}
        )
        return job._replace(
            wait_until=None,
            timeline=cut(job.timeline, at, [(at, PENDING), (up, RUNNING), end]),
            error=error,
        )

    def settle(self) -> None:
        """Decides the queued jobs whose moment has come: launched at the first at which stock was
        there, or given up at their limit.
        """
        for job in self.all("wait_until IS NOT NULL"):
            until = float(job.wait_until or 0.0)
            line = self.store.stock(
                PROVIDER, job.region, "", job.machine_type, (job.gpu,), job.capacity
            )
            start = max(job.created, line.since)
            others = self.all(
                "region = ? AND machine_type = ? AND id != ?",
                (job.region, job.machine_type, job.id),
            )
            begins = first_with_room(
                [other.timeline for other in others],
                HOLDING,
                start,
                min(self.now, until),
                partial(self.free, job),
                wanted=job.nodes,
            )
            if begins is not None:
                self.write(self.launched(job, begins))
            elif self.now >= until:
                self.write(
                    job._replace(
                        wait_until=None,
                        timeline=cut(job.timeline, until, [(until, FAILED)]),
                        error=no_room(job.region),
                    )
                )


def _course(text: str) -> Timeline:
    return [(float(at), state) for at, state in json.loads(text)]


def no_room(region: str) -> Json:
    """What a job ends with whose machines are out of capacity (openreview/openreview-expertise#401,
    2026-08-19; its code as in vertex-ai-samples#700).
    """
    return {
        "code": 8,
        "message": (
            f"Resources are insufficient in region: {region}. Please try a different region or use"
            " a different accelerator."
        ),
    }


def seconds(text: str) -> float:
    """The seconds of a duration as JSON has it: `3600s`; 0 for none."""
    return float(text.removesuffix("s")) if text else 0.0


def new(project: str, region: str, body: Json, now: float) -> Job:
    """A job as it was asked for, with no course yet."""
    spec = body["jobSpec"]
    pools = spec["workerPoolSpecs"]
    machine = pools[0]["machineSpec"]
    capacity = CAPACITY_OF.get((spec.get("scheduling") or {}).get("strategy", ""), "on-demand")
    nodes = sum(int(pool.get("replicaCount", 1)) for pool in pools)
    count = int(machine.get("acceleratorCount", 0))
    kind = (machine["machineType"], machine.get("acceleratorType", ""), count, nodes, capacity)
    return Job(0, project, region, *kind, now, None, body, [(now, QUEUED)], {}, FOREVER)
