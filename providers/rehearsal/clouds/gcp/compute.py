"""Compute Engine as the server serves it: its document, its calls, what a request is about, and
what a planned failure answers. Owns no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import call as call_
from providers.rehearsal.clouds.gcp import calls, machines, place
from providers.rehearsal.clouds.gcp.discovery import COMPUTE
from providers.rehearsal.clouds.gcp.server import Cloud, reply, web_page
from providers.rehearsal.clouds.gcp.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.clouds.gcp.wire import Json, Refusal

if TYPE_CHECKING:
    import sqlite3

    from providers.rehearsal.clouds.gcp.server import Request
    from providers.rehearsal.http import Reply
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

_BEFORE = {
    "unavailable": (503, "backendError", "Backend Error", "global"),
    "rate-limit": (
        403,
        "rateLimitExceeded",
        "Quota exceeded for quota group 'default' and limit 'Queries per 100 seconds'.",
        "usageLimits",
    ),
    "too-many": (429, "rateLimitExceeded", "Rate Limit Exceeded", "usageLimits"),
    "unauthorized": (401, "authError", "Invalid Credentials", "global"),
    "forbidden": (
        403,
        "forbidden",
        "Required 'compute.instances.create' permission for the project",
        "global",
    ),
}


def _settle(store: Store, db: sqlite3.Connection) -> None:
    place.settle(Rows(store, db, store.now()))


def _pending(store: Store, method: str, path: dict[str, str]) -> bool:
    """Whether the operation that a call waits for goes on."""
    if not method.endswith("Operations.wait"):
        return False
    row = store.connection().execute(
        "SELECT done FROM gcp_operation WHERE project = ? AND scope = ? AND name = ?",
        (path["project"], calls.scope(path), path["operation"]),
    )
    found = row.fetchone()
    if found is not None and found[0] is None:
        # A queued request is decided by whoever looks.
        with store.transaction() as db:
            _settle(store, db)
    return found is not None and (found[0] is None or float(found[0]) > store.now())


def _about(request: Request) -> tuple[list[str], list[str]]:
    rows = Rows(request.store, request.db, request.store.now())
    return _places(request.path, request.body), _machine_types(rows, request.path, request.body)


def _work(request: Request) -> Json:
    rows = Rows(request.store, request.db, request.store.now())
    call = call_.Call(
        request.method,
        rows,
        request.path.get("project", ""),
        request.path,
        request.query,
        request.body,
        request.fault,
    )
    return calls.again(call) or calls.HANDLERS[request.method](call)


def _refused(fault: Fault) -> Reply | None:
    """The answer of a fault that comes before any work."""
    given = fault.settings
    if fault.kind == "html":
        return web_page()
    if fault.kind == "quota":
        metric, region = str(given.get("metric", "GPUS_ALL_REGIONS")), str(given.get("region", ""))
        where = f"in region {region}" if region else "globally"
        text = (
            f"Quota '{metric}' exceeded.  Limit: {float(str(given.get('limit', 0))):.1f} {where}."
        )
        return reply(403, Refusal(403, "quotaExceeded", text, domain="usageLimits").body())
    if fault.kind == "http":
        status, reason = (
            int(str(given.get("status", 500))),
            str(given.get("reason", "backendError")),
        )
        return reply(
            status,
            Refusal(status, reason, str(given.get("message", "planned by the scenario"))).body(),
        )
    if fault.kind in _BEFORE:
        code, reason, text, domain = _BEFORE[fault.kind]
        return reply(code, Refusal(code, reason, text, domain=domain).body())
    return None


def _places(path: dict[str, str], body: Json) -> list[str]:
    """The zones and regions that a call is about."""
    named = (
        list(((body.get("locationPolicy") or {}).get("locations") or {}).keys())
        if isinstance(body.get("locationPolicy"), dict)
        else []
    )
    zones = [key.rsplit("/", 1)[-1] for key in named]
    if "zone" in path:
        zones.append(path["zone"])
    return [
        *zones,
        *{machines.region_of(zone) for zone in zones},
        *([path["region"]] if "region" in path else []),
    ]


def _machine_types(rows: Rows, path: dict[str, str], body: Json) -> list[str]:
    """The machine types that a call is about."""
    if "instance" in path and "zone" in path:
        return [
            vm.machine_type
            for vm in rows.vms("zone = ? AND name = ?", (path["zone"], path["instance"]))
        ]
    properties = body.get("instanceProperties") or body
    selections = (body.get("instanceFlexibilityPolicy") or {}).get("instanceSelections") or {}
    named = [
        str(properties.get("machineType") or ""),
        *(kind for item in selections.values() for kind in item.get("machineTypes") or []),
    ]
    return [kind.rsplit("/", 1)[-1] for kind in named if kind]


CLOUD = Cloud(PROVIDER, SCHEMA, COMPUTE, _settle, _about, _work, _refused, pending=_pending)
