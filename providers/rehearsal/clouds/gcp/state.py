"""The rows of the stand-in: virtual machines, disks, operations, and everything small. Owns their
tables and what a row means at a time.

A machine's row holds a timeline, `[[moment, status], ...]`, written ahead when something is asked
for; its status is the last entry that has passed. So whoever reads next, from any process and after
any jump of the clock, sees the same. Imports the store and the wire's shapes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.clouds.gcp.wire import ROOT, Json, timestamp

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Container, Iterable

    from providers.rehearsal.store import Store

PROVIDER = "gcp"
GONE = "GONE"
HOLDING = frozenset({"PROVISIONING", "STAGING", "RUNNING", "STOPPING"})
"""The statuses in which a machine takes up capacity."""
FOREVER = 1e15

SCHEMA = """
CREATE TABLE IF NOT EXISTS gcp_vm (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, region TEXT NOT NULL,
  zone TEXT NOT NULL, name TEXT NOT NULL, machine_type TEXT NOT NULL, gpu TEXT NOT NULL,
  gpu_count REAL NOT NULL, capacity TEXT NOT NULL, reservation TEXT NOT NULL,
  created REAL NOT NULL, wait_until REAL, body TEXT NOT NULL, timeline TEXT NOT NULL,
  gone REAL NOT NULL);
CREATE INDEX IF NOT EXISTS gcp_vm_name ON gcp_vm (project, zone, name);
CREATE TABLE IF NOT EXISTS gcp_disk (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, zone TEXT NOT NULL,
  name TEXT NOT NULL, vm INTEGER NOT NULL, auto_delete INTEGER NOT NULL, created REAL NOT NULL,
  body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gcp_operation (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, scope TEXT NOT NULL,
  name TEXT NOT NULL, type TEXT NOT NULL, target TEXT NOT NULL, target_id TEXT NOT NULL,
  request TEXT NOT NULL, method TEXT NOT NULL, user TEXT NOT NULL, created REAL NOT NULL,
  done REAL, errors TEXT NOT NULL, vm INTEGER NOT NULL, group_id TEXT NOT NULL,
  locations TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS gcp_operation_name ON gcp_operation (project, scope, name);
CREATE INDEX IF NOT EXISTS gcp_operation_request ON gcp_operation (request) WHERE request != '';
CREATE TABLE IF NOT EXISTS gcp_resource (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, scope TEXT NOT NULL,
  kind TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL, ready REAL NOT NULL, gone REAL,
  body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS gcp_resource_name ON gcp_resource (project, kind, scope, name);
"""

Timeline = list[tuple[float, str]]


class Vm(NamedTuple):
    """A machine's row. `capacity` is on-demand, spot, flex-start or reservation; `wait_until` is
    set while a Flex-start request may wait.
    """

    id: int
    project: str
    region: str
    zone: str
    name: str
    machine_type: str
    gpu: str
    gpu_count: float
    capacity: str
    reservation: str
    created: float
    wait_until: float | None
    body: Json
    timeline: Timeline

    def status(self, now: float) -> str:
        """The status at a time; empty before it was made, GONE after it was deleted."""
        return status_at(self.timeline, now)

    def exists(self, now: float) -> bool:
        """True while the name is taken and the machine can be read."""
        return self.status(now) not in {"", GONE}

    def link(self) -> str:
        """The machine's full link."""
        return f"{ROOT}/projects/{self.project}/zones/{self.zone}/instances/{self.name}"


def status_at(timeline: Timeline, now: float) -> str:
    """The last status that has begun; empty before the first."""
    current = ""
    for moment, status in timeline:
        if moment > now:
            break
        current = status
    return current


def cut(timeline: Timeline, now: float, then: Iterable[tuple[float, str]]) -> Timeline:
    """What has happened until now, and a new future."""
    return [entry for entry in timeline if entry[0] <= now] + list(then)


def first_with_room(
    others: Iterable[Timeline],
    holding: Container[str],
    since: float,
    until: float,
    free: Callable[[float], int],
    wanted: int,
) -> float | None:
    """The first moment at which so many are free: `since`, or when another one stops holding its
    place. None where that is not until then.
    """
    ends = {at for each in others for at, status in each if status not in holding and at > since}
    return next((at for at in sorted({since} | ends) if at <= until and free(at) >= wanted), None)


def _gone(timeline: Timeline) -> float:
    return next((at for at, status in timeline if status == GONE), FOREVER)


def vm_number(vm_id: int) -> str:
    """The machine's numeric id, as Google's: 19 digits."""
    return str(4_000_000_000_000_000_000 + vm_id)


class Rows:
    """The tables within one transaction, at one moment of the world."""

    def __init__(self, store: Store, db: sqlite3.Connection, now: float) -> None:
        self.store = store
        self.db = db
        self.now = now

    def latency(self, step: str) -> float:
        """How long a step takes here, in world seconds."""
        return self.store.latency(PROVIDER, step)

    # Machines

    def vms(
        self, where: str = "1", args: tuple[object, ...] = (), *, existing: bool = True
    ) -> list[Vm]:
        """Machines in the order they were made; without `existing`, those of the past and of the
        future too.
        """
        where, args = (
            (f"created <= ? AND gone > ? AND {where}", (self.now, self.now, *args))
            if existing
            else (where, args)
        )
        rows = self.db.execute(f"SELECT * FROM gcp_vm WHERE {where} ORDER BY id", args)  # noqa: S608 (conditions are literals of this package)
        return [
            Vm._make(
                (
                    *row[:12],
                    json.loads(row[12]),
                    [(float(at), status) for at, status in json.loads(row[13])],
                )
            )
            for row in rows
        ]

    def vm(self, project: str, zone: str, name: str) -> Vm | None:
        """The machine that bears this name now."""
        found = self.vms("project = ? AND zone = ? AND name = ?", (project, zone, name))
        return found[-1] if found else None

    def add_vm(self, vm: Vm) -> Vm:
        """Writes a new machine and returns it with its id."""
        values = (*vm[1:12], json.dumps(vm.body), json.dumps(vm.timeline), _gone(vm.timeline))
        columns = (
            "project, region, zone, name, machine_type, gpu, gpu_count, capacity, reservation,"
            " created, wait_until, body, timeline, gone"
        )
        cursor = self.db.execute(
            f"INSERT INTO gcp_vm ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
            values,
        )
        return vm._replace(id=int(cursor.lastrowid or 0))

    def write_vm(self, vm: Vm) -> None:
        """Writes a machine's changed body, timeline and wait."""
        self.db.execute(
            "UPDATE gcp_vm SET body = ?, timeline = ?, gone = ?, wait_until = ? WHERE id = ?",
            (
                json.dumps(vm.body),
                json.dumps(vm.timeline),
                _gone(vm.timeline),
                vm.wait_until,
                vm.id,
            ),
        )

    def reshape(self, vm: Vm) -> None:
        """Writes what a machine is: its type, its GPUs, its body."""
        query = "UPDATE gcp_vm SET machine_type = ?, gpu = ?, gpu_count = ?, body = ? WHERE id = ?"
        self.db.execute(query, (vm.machine_type, vm.gpu, vm.gpu_count, json.dumps(vm.body), vm.id))

    def drop_plans(self, vm_id: int) -> None:
        """Forgets the system operations that were foreseen for a machine and will
        now not happen.
        """
        self.db.execute("DELETE FROM gcp_operation WHERE vm = ? AND created > ?", (vm_id, self.now))

    # Operations

    def add_operation(
        self,
        project: str,
        scope: str,
        kind: str,
        target: str,
        done: float | None,
        *,
        target_id: str = "",
        request: str = "",
        method: str = "",
        user: str = "rehearsal@example.com",
        created: float | None = None,
        errors: Iterable[Json] = (),
        vm: int = 0,
        group: str = "",
        locations: Json | None = None,
    ) -> Json:
        """Writes an operation and returns it as the API shows it now. `done` None: it ends when its
        machine is launched.
        """
        import uuid

        began = self.now if created is None else created
        # Names sort by time, and within a moment by the order in which they were made.
        number = self.db.execute("SELECT coalesce(max(id), 0) + 1 FROM gcp_operation").fetchone()[0]
        name = f"operation-{int(began * 1000)}-{number:08x}-{uuid.uuid4().hex[:12]}"
        cursor = self.db.execute(
            "INSERT INTO gcp_operation (project, scope, name, type, target, target_id, request,"
            " method, user, created, done, errors, vm, group_id, locations) VALUES"
            " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                *(project, scope, name, kind, target, target_id, request, method, user),
                *(began, done, json.dumps(list(errors)), vm, group, json.dumps(locations or {})),
            ),
        )
        return self.operation_body(
            self.db.execute(
                "SELECT * FROM gcp_operation WHERE id = ?", (cursor.lastrowid,)
            ).fetchone()
        )

    def end_operation(self, vm_id: int, done: float, errors: Iterable[Json] = ()) -> None:
        """Ends the open operation of a machine."""
        self.db.execute(
            "UPDATE gcp_operation SET done = ?, errors = ? WHERE vm = ? AND done IS NULL",
            (done, json.dumps(list(errors)), vm_id),
        )

    def end_creation(self, vm: Vm, error: Json) -> None:
        """Ends, with an error, the insert that still makes this machine; a bulk insert ends with
        the last of its inserts.
        """
        still = "project = ? AND type = 'insert' AND target = ? AND done > ?"
        which = (vm.project, vm.link(), self.now)
        groups = self.db.execute(
            f"SELECT DISTINCT group_id FROM gcp_operation WHERE {still}",  # noqa: S608
            which,
        ).fetchall()
        self.db.execute(
            f"UPDATE gcp_operation SET done = ?, errors = ? WHERE {still}",  # noqa: S608
            (self.now, json.dumps([error]), *which),
        )
        for (group,) in groups:
            if group:
                last = self.db.execute(
                    "SELECT max(done) FROM gcp_operation WHERE group_id = ? AND type = 'insert'",
                    (group,),
                ).fetchone()[0]
                self.db.execute(
                    "UPDATE gcp_operation SET done = ?, errors = ? WHERE group_id = ? AND type ="
                    " 'bulkInsert' AND done > ?",
                    (last, json.dumps([error]), group, self.now),
                )

    def operations(
        self, project: str, where: str = "1", args: tuple[object, ...] = ()
    ) -> list[Json]:
        """Operations that have begun, oldest first, as the API shows them now."""
        query = (
            "SELECT * FROM gcp_operation WHERE project = ? AND created <= ? AND"  # noqa: S608
            f" {where} ORDER BY id"
        )
        return [
            self.operation_body(row) for row in self.db.execute(query, (project, self.now, *args))
        ]

    def operation_body(self, row: tuple[Any, ...]) -> Json:
        """One operation, as the API shows it now."""
        (
            number,
            project,
            scope,
            name,
            kind,
            target,
            target_id,
            request,
            _,
            user,
            created,
            done,
            errors,
            _,
            group,
            locations,
        ) = row
        finish = FOREVER if done is None else float(done)
        status = "DONE" if self.now >= finish else "RUNNING" if self.now > created else "PENDING"
        where = f"projects/{project}/{scope}"
        out: Json = {
            "kind": "compute#operation",
            "id": str(7_000_000_000_000_000_000 + number),
            "name": name,
            "operationType": kind,
            "targetLink": target,
            "status": status,
            "user": user,
            "progress": 100 if status == "DONE" else 0,
            "insertTime": timestamp(created),
            "startTime": timestamp(created),
            "selfLink": f"{ROOT}/{where}/operations/{name}",
        }
        if target_id:
            out["targetId"] = target_id
        if request:
            out["clientOperationId"] = request
        if group:
            out["operationGroupId"] = group
        if scope.startswith("zones/"):
            out["zone"] = f"{ROOT}/{where}"
        elif scope.startswith("regions/"):
            out["region"] = f"{ROOT}/{where}"
        places = json.loads(locations)
        if places:
            out["instancesBulkInsertOperationMetadata"] = {
                "perLocationStatus": _location_status(
                    places, status, self.now, float(created), finish
                )
            }
        if status == "DONE":
            out["endTime"] = timestamp(finish)
            failed = json.loads(errors)
            if failed:
                http, text = http_status(failed[0]["code"])
                out |= {
                    "error": {"errors": failed},
                    "httpErrorStatusCode": http,
                    "httpErrorMessage": text,
                }
        return out

    # Small resources: networks, subnetworks, firewalls, reservations

    def resources(
        self, project: str, kind: str, scope: str = "", name: str = ""
    ) -> list[tuple[int, str, str, Json]]:
        """(id, scope, name, body) of what exists now, oldest first. Empty scope or name: all."""
        query = (
            "SELECT id, scope, name, body FROM gcp_resource WHERE project = ? AND kind = ? AND ? IN"
            " ('', scope) AND ? IN ('', name) AND created <= ? AND (gone IS NULL OR gone > ?) ORDER"
            " BY id"
        )
        rows = self.db.execute(query, (project, kind, scope, name, self.now, self.now))
        return [(number, where, called, json.loads(body)) for number, where, called, body in rows]

    def add_resource(
        self,
        project: str,
        kind: str,
        scope: str,
        name: str,
        body: Json,
        ready: float,
        begin: float | None = None,
    ) -> int:
        """Writes a new small resource, which is there from `begin` on (now, if not given), and
        returns its id.
        """
        cursor = self.db.execute(
            "INSERT INTO gcp_resource (project, scope, kind, name, created, ready, body) VALUES"
            " (?,?,?,?,?,?,?)",
            (
                project,
                scope,
                kind,
                name,
                self.now if begin is None else begin,
                ready,
                json.dumps(body),
            ),
        )
        return int(cursor.lastrowid or 0)

    def write_resource(self, number: int, body: Json) -> None:
        """Writes a small resource's changed body."""
        self.db.execute("UPDATE gcp_resource SET body = ? WHERE id = ?", (json.dumps(body), number))

    def end_resource(self, number: int, gone: float) -> None:
        """From that moment on it is not there."""
        self.db.execute("UPDATE gcp_resource SET gone = ? WHERE id = ?", (gone, number))


def _location_status(places: Json, status: str, now: float, created: float, finish: float) -> Json:
    """What a bulk insert has done in each zone: {zones/Z: {targetVmCount, createdVmCount,
    failedToCreateVmCount, deletedVmCount, status}}.
    """
    out: Json = {}
    for zone, plan in places.items():
        half = now >= created + (finish - created) / 2
        rolled_back = plan["deleted"] > 0
        out[f"zones/{zone}"] = {
            "targetVmCount": plan["target"],
            "createdVmCount": plan["created"] if status == "DONE" or half else 0,
            "failedToCreateVmCount": plan["failed"] if status == "DONE" or half else 0,
            "deletedVmCount": plan["deleted"] if status == "DONE" else 0,
            "status": (
                "DONE"
                if status == "DONE"
                else "ROLLING_BACK"
                if half and rolled_back
                else "CREATING"
            ),
        }
    return out


def http_status(code: str) -> tuple[int, str]:
    """The HTTP status that a failed operation carries for its first error's code."""
    table = {
        "ZONE_RESOURCE_POOL_EXHAUSTED": (503, "SERVICE UNAVAILABLE"),
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": (503, "SERVICE UNAVAILABLE"),
        "STOCKOUT": (503, "SERVICE UNAVAILABLE"),
        "VM_MIN_COUNT_NOT_REACHED": (503, "SERVICE UNAVAILABLE"),
        "QUOTA_EXCEEDED": (403, "FORBIDDEN"),
        "IAM_PERMISSION_DENIED": (403, "FORBIDDEN"),
        "RESOURCE_NOT_FOUND": (404, "NOT FOUND"),
        "RESOURCE_OPERATION_RATE_EXCEEDED": (429, "TOO MANY REQUESTS"),
    }
    return table.get(code, (400, "BAD REQUEST"))
