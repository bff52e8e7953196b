"""EC2's server in a rehearsal: how its requests are read, and what a planned fault answers. Owns
Server.

A call's service and region are in its signature, as boto writes it. The log's verb is GET for a
call that only reads: on the wire all of this protocol is POST.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import calls, places, wire
from providers.rehearsal.clouds.aws.call import Call
from providers.rehearsal.clouds.aws.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.clouds.aws.wire import Refusal, Request
from providers.rehearsal.http import Exchange, Logged, Loopback, Reply, serve

if TYPE_CHECKING:
    import sqlite3

    from providers.rehearsal.clouds.aws.wire import Json
    from providers.rehearsal.http import Headers
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

_BEFORE = {
    "unavailable": (503, "Unavailable", "The service is unavailable. Please try again shortly."),
    "rate-limit": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "too-many": (429, "Throttling", "Rate exceeded"),
    "unauthorized": (
        401,
        "AuthFailure",
        "AWS was not able to validate the provided access credentials",
    ),
    "forbidden": (
        403,
        "UnauthorizedOperation",
        (
            "You are not authorized to perform this operation. Encoded authorization failure"
            " message: hushhush"
        ),
    ),
}
_HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
)


class Server(Loopback):
    """A running server. `url` is the endpoint of every service."""

    def __init__(self, store: Store) -> None:
        store.tables(SCHEMA)
        self.faulty: list[str] = []
        """Answers of its own that broke the description of the API: always empty unless the
        server is wrong.
        """
        super().__init__(PROVIDER, store, self._answer)

    def _answer(self, _verb: str, _target: str, headers: Headers, payload: bytes) -> Reply:
        service, operation, region = "", "", ""
        try:
            service, region = wire.addressed(headers)
            operation = wire.operation_of(service, calls.HANDLERS[service], headers, payload)
            given = wire.parameters(service, operation, payload)
        except Refusal as refusal:
            named = f"{service}.{operation}" if operation else "unknown"
            self.store.log(PROVIDER, "POST", named, f"/{region}", refusal.status)
            return _refusal(service, refusal)
        request = Request(service, region, operation, given)
        # On the wire all of this protocol is POST.
        reads = operation.startswith(("Describe", "Get")) or given.get("DryRun")
        logged = Logged(PROVIDER, "GET" if reads else "POST", request.method, f"/{region}")
        return serve(self.store, logged, partial(self._begin, request))

    def _begin(self, request: Request, db: sqlite3.Connection) -> Exchange:
        rows = Rows(self.store, db, self.store.now())
        return Exchange(
            partial(_about, request, rows),
            partial(_work, request, rows),
            partial(self._refused, request),
            partial(_before, request.service),
            partial(_failed, request.service),
        )

    def _refused(self, request: Request, error: Exception) -> Reply:
        if isinstance(error, Refusal):
            return _refusal(request.service, error)
        self.faulty.append(f"{request.method}: {error!r}")
        return _refusal(request.service, Refusal(500, "InternalError", f"rehearsal: {error!r}"))


def _work(request: Request, rows: Rows, fault: Fault | None) -> Reply:
    given = deepcopy(request.parameters)
    body = calls.work(Call(rows, request.service, request.operation, request.region, given, fault))
    return Reply(200, *wire.answer(request, body))


def _refusal(service: str, refusal: Refusal) -> Reply:
    return Reply(refusal.status, *wire.refused(service, refusal))


def _failed(service: str, fault: Fault) -> Reply:
    """The reply of a fault that comes after the work."""
    status = int(str(fault.settings.get("status", 503)))
    usual = "InternalError" if status == 500 else "Unavailable"
    reason = str(fault.settings.get("reason", usual))
    return _refusal(service, Refusal(status, reason, "An internal error has occurred"))


def _before(service: str, fault: Fault) -> Reply | None:
    """The reply of a fault that comes before any work."""
    given = fault.settings
    if fault.kind == "html":
        return Reply(502, _HTML, "text/html")
    if fault.kind == "quota":
        code = str(given.get("metric", "VcpuLimitExceeded"))
        text = "You have requested more vCPU capacity than your current vCPU limit allows."
        return _refusal(service, Refusal(400, code, text))
    if fault.kind == "http":
        status, reason = int(str(given.get("status", 500))), given.get("reason", "InternalError")
        planned = str(given.get("message", "planned by the scenario"))
        return _refusal(service, Refusal(status, str(reason), planned))
    if fault.kind in _BEFORE:
        return _refusal(service, Refusal(*_BEFORE[fault.kind]))
    return None


def _about(request: Request, rows: Rows) -> tuple[list[str], list[str]]:
    """The zones and regions, and the machine types, that a call is about."""
    given = request.parameters
    named: list[Json] = [
        given,
        *(
            item
            for config in given.get("LaunchTemplateConfigs", ())
            for item in config.get("Overrides", ())
        ),
    ]
    zones, kinds = [request.region], []
    for item in named:
        placement = item.get("Placement") or {}
        for holder in (item, placement):
            zones += [str(holder[key]) for key in ("AvailabilityZoneId",) if holder.get(key)]
            zones += (
                [places.names(request.region).get(str(holder["AvailabilityZone"]), "")]
                if holder.get("AvailabilityZone")
                else []
            )
        subnets = [
            item.get("SubnetId"),
            *(part.get("SubnetId") for part in item.get("NetworkInterfaces", ())),
        ]
        zones += [places.subnet_zones().get(str(subnet), "") for subnet in subnets if subnet]
        kinds += [str(item["InstanceType"])] if item.get("InstanceType") else []
    ids = given.get("InstanceIds", ())
    if ids:
        found = [item for item in rows.instances(request.region) if item.name in ids]
        zones += [item.zone for item in found]
        kinds += [item.machine_type for item in found]
    return zones, kinds
