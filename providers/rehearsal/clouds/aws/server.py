"""The stand-in's HTTP side: one small server on loopback, its checks, the planned faults, the log.
Owns Server.

Started inside the process that needs it; everything it knows is in the store, so any number of them
answer as one cloud. A call's service and region are in its signature, as boto writes it. The log's
verb is GET for a call that only reads: on the wire all of this protocol is POST.
"""

from __future__ import annotations

import threading
import time
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.aws import call, calls, places, wire
from providers.rehearsal.clouds.aws.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.clouds.aws.wire import Refusal, Request

if TYPE_CHECKING:
    from email.message import Message

    from providers.rehearsal.clouds.aws.wire import Json
    from providers.rehearsal.store import Fault, Store

    Headers = Message[str, str]

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


class Answer(NamedTuple):
    """What goes back. `content` None: the connection closes without a word. `cut`: only half of it
    is sent.
    """

    status: int
    content: bytes | None
    kind: str = "text/xml;charset=UTF-8"
    cut: bool = False


class Server:
    """A running stand-in. `url` is the endpoint of every service."""

    def __init__(self, store: Store) -> None:
        store.tables(SCHEMA)
        self.store = store
        self.faulty: list[str] = []
        """Answers of its own that broke the description of the API: always empty unless the
        stand-in is wrong.
        """
        self._http = _Http(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="aws-standin",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        """Stops answering. What happened stays in the store."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, headers: Headers, payload: bytes) -> Answer:
        """The answer to one request, its work done and logged."""
        service, operation, region = "", "", ""
        try:
            service, region = wire.addressed(headers)
            operation = wire.operation_of(service, calls.HANDLERS[service], headers, payload)
            request = Request(
                service, region, operation, wire.parameters(service, operation, payload)
            )
        except Refusal as refusal:
            self.store.log(
                PROVIDER,
                "POST",
                f"{service}.{operation}" if operation else "unknown",
                f"/{region}",
                refusal.status,
            )
            return Answer(refusal.status, *wire.refused(service, refusal))
        return self._serve(request)

    def _serve(self, request: Request, *, late: bool = False) -> Answer:
        with self.store.transaction() as db:
            rows = Rows(self.store, db, self.store.now())
            fault = (
                None
                if late
                else self.store.take_fault(PROVIDER, request.method, *_about(request, rows))
            )
            waits = fault is not None and fault.kind == "overtaken"
            if fault and fault.kind == "twice":
                self._work(request._replace(parameters=deepcopy(request.parameters)), rows, fault)
            out = _refused(request.service, fault) or (
                Answer(0, None) if waits else self._work(request, rows, fault)
            )
            verb = (
                "GET"
                if request.operation.startswith(("Describe", "Get"))
                or request.parameters.get("DryRun")
                else "POST"
            )
            status = 0 if out.content is None else out.status
            self.store.log(
                PROVIDER,
                verb,
                request.method,
                f"/{request.region}",
                status,
                fault.kind if fault else "",
            )
        if fault and fault.kind in {"delay", "overtaken"}:
            time.sleep(float(str(fault.settings.get("seconds", 1))))
        return self._serve(request, late=True) if waits else out

    def _work(self, request: Request, rows: Rows, fault: Fault | None) -> Answer:
        rows.db.execute("SAVEPOINT work")
        try:
            body = calls.work(
                call.Call(
                    rows,
                    request.service,
                    request.operation,
                    request.region,
                    request.parameters,
                    fault,
                )
            )
            content, kind = wire.answer(request, body)
        except Refusal as refusal:
            rows.db.execute("ROLLBACK TO work")
            return Answer(refusal.status, *wire.refused(request.service, refusal))
        except ValueError as wrong:
            rows.db.execute("ROLLBACK TO work")
            self.faulty.append(f"{request.method}: {wrong}")
            return Answer(
                500,
                *wire.refused(request.service, Refusal(500, "InternalError", f"stand-in: {wrong}")),
            )
        if fault and fault.kind == "reply-lost":
            return Answer(200, None)
        if fault and fault.kind == "error-after":
            status = int(str(fault.settings.get("status", 503)))
            reason = str(
                fault.settings.get("reason", "InternalError" if status == 500 else "Unavailable")
            )
            return Answer(
                status,
                *wire.refused(
                    request.service, Refusal(status, reason, "An internal error has occurred")
                ),
            )
        return Answer(200, content, kind, cut=bool(fault and fault.kind == "malformed"))


def _refused(service: str, fault: Fault | None) -> Answer | None:
    """The answer of a fault that comes before any work."""
    if fault is None:
        return None
    given = fault.settings
    if fault.kind == "html":
        return Answer(502, _HTML, "text/html")
    if fault.kind == "quota":
        code = str(given.get("metric", "VcpuLimitExceeded"))
        return Answer(
            400,
            *wire.refused(
                service,
                Refusal(
                    400,
                    code,
                    "You have requested more vCPU capacity than your current vCPU limit allows.",
                ),
            ),
        )
    if fault.kind == "http":
        status, reason = (
            int(str(given.get("status", 500))),
            str(given.get("reason", "InternalError")),
        )
        return Answer(
            status,
            *wire.refused(
                service,
                Refusal(status, reason, str(given.get("message", "planned by the scenario"))),
            ),
        )
    if fault.kind in _BEFORE:
        return Answer(_BEFORE[fault.kind][0], *wire.refused(service, Refusal(*_BEFORE[fault.kind])))
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


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # A burst of parallel calls must not be refused at the door.
    request_queue_size = 64

    def __init__(self, standin: Server) -> None:
        self.standin = standin
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # The base class looks its own name up, which may take seconds without a network.
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Http

    def do_POST(self) -> None:
        """Every call of these protocols is a POST to the root."""
        payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.standin.answer(self.headers, payload)
        if answer.content is None:
            self.close_connection = True
            return
        sent = answer.content[: len(answer.content) // 2] if answer.cut else answer.content
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nothing on the screen: the store has the log."""
