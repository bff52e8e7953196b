"""The stand-ins' HTTP side: one small server on loopback for an API of Google's, its checks, the
planned faults, the log. Owns Server and Cloud.

Started inside the process that needs it; everything it knows is in the store, so any number of them
answer as one cloud.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from providers.rehearsal.clouds.gcp import fields
from providers.rehearsal.clouds.gcp.wire import Json, Refusal

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from providers.rehearsal.clouds.gcp.discovery import Document, Method
    from providers.rehearsal.store import Fault, Store

WAIT_S = 20.0
"""How long operations.wait holds an answer back, in real seconds; Google's own limit is two
minutes, and it may answer sooner.
"""
_POLL_S = 0.05


class Answer(NamedTuple):
    """What goes back. `body` None: the connection closes without a word. `cut`: only half of it is
    sent.
    """

    status: int
    body: Json | None
    html: str = ""
    cut: bool = False


class Request(NamedTuple):
    """One request, checked and in its transaction. `fault` is the failure that the scenario planned
    for it.
    """

    method: str
    store: Store
    db: sqlite3.Connection
    path: dict[str, str]
    query: Json
    body: Json
    fault: Fault | None = None


class Cloud(NamedTuple):
    """What a server is a stand-in of. `settle` decides what is due by now; `about` gives the
    (places, machine types) that a request concerns; `work` does it; `refused` is the answer of a
    fault that comes before any work; `told` is a refusal's JSON.
    """

    provider: str
    schema: str
    document: Document
    settle: Callable[[Store, sqlite3.Connection], None]
    about: Callable[[Request], tuple[list[str], list[str]]]
    work: Callable[[Request], Json]
    refused: Callable[[Fault], Answer | None]
    told: Callable[[Refusal], Json] = Refusal.body


class Server:
    """A running stand-in. `url` has no trailing slash; clients add the API's own prefix."""

    def __init__(self, store: Store, cloud: Cloud) -> None:
        store.tables(cloud.schema)
        self.store = store
        self.cloud = cloud
        self.faulty: list[str] = []
        """Calls that it could not answer, or not by the schema: always empty unless the stand-in
        itself is wrong.
        """
        self._http = _Http(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.1},
            name=f"{cloud.provider}-standin",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        """Stops answering, on open connections too. What happened stays in the store."""
        self._http.shutdown()
        self._http.server_close()
        self._http.hang_up()
        self._thread.join()

    def answer(self, verb: str, target: str, payload: bytes) -> Answer:
        """The answer to one request, its work done and logged. `target` is the path with its query."""
        parts = urlsplit(target)
        name = "unknown"
        try:
            method, path = self.cloud.document.match(verb, parts.path)
            name = method.name
            query = self.cloud.document.query(method, parse_qs(parts.query, keep_blank_values=True))
            body = self._payload(payload, method)
            body = body if method.request else {}
        except Refusal as refusal:
            self.store.log(self.cloud.provider, verb, name, parts.path, refusal.status)
            return Answer(refusal.status, self.cloud.told(refusal))
        out = self._serve(method, verb, parts.path, path, query, body)
        if name.endswith("Operations.wait"):
            until = time.monotonic() + WAIT_S
            while (
                out.status == 200
                and out.body
                and out.body.get("status", "DONE") != "DONE"
                and time.monotonic() < until
            ):
                time.sleep(_POLL_S)
                out = self._serve(method, verb, parts.path, path, query, body, quiet=True)
        return out

    def _serve(
        self,
        method: Method,
        verb: str,
        where: str,
        path: dict[str, str],
        query: Json,
        body: Json,
        *,
        quiet: bool = False,
    ) -> Answer:
        cloud = self.cloud
        with self.store.transaction() as db:
            cloud.settle(self.store, db)
            request = Request(method.name, self.store, db, path, query, body)
            fault = (
                None
                if quiet
                else self.store.take_fault(cloud.provider, method.name, *cloud.about(request))
            )
            late = fault is not None and fault.kind == "overtaken"
            request = request._replace(fault=fault)
            if fault and fault.kind == "twice":
                self._work(request._replace(body=deepcopy(body)), method)
            out = (cloud.refused(fault) if fault else None) or (
                Answer(0, None) if late else self._work(request, method)
            )
            if not quiet:
                status = 0 if out.body is None and not out.html else out.status
                self.store.log(
                    cloud.provider, verb, method.name, where, status, fault.kind if fault else ""
                )
        if fault and fault.kind in {"delay", "overtaken"}:
            time.sleep(float(str(fault.settings.get("seconds", 1))))
        return self._serve(method, verb, where, path, query, body, quiet=True) if late else out

    def _work(self, request: Request, method: Method) -> Answer:
        cloud, db = self.cloud, request.db
        db.execute("SAVEPOINT work")
        try:
            wanted = fields.parse(str(request.query["fields"])) if "fields" in request.query else {}
            body = cloud.work(request)
            cloud.document.answer(method.response, body)
            body = (
                fields.select(cloud.document.content["schemas"], method.response, body, wanted)
                if wanted
                else body
            )
        except Refusal as refusal:
            db.execute("ROLLBACK TO work")
            return Answer(refusal.status, cloud.told(refusal))
        except Exception as wrong:
            db.execute("ROLLBACK TO work")
            self.faulty.append(f"{method.name}: {wrong!r}")
            return Answer(500, cloud.told(Refusal(500, "internalError", f"stand-in: {wrong!r}")))
        fault = request.fault
        if fault and fault.kind == "reply-lost":
            return Answer(200, None)
        if fault and fault.kind == "error-after":
            status = int(str(fault.settings.get("status", 503)))
            return Answer(
                status,
                cloud.told(
                    Refusal(
                        status, str(fault.settings.get("reason", "backendError")), "Backend Error"
                    )
                ),
            )
        return Answer(200, body, cut=bool(fault and fault.kind == "malformed"))

    def _payload(self, payload: bytes, method: Method) -> Json:
        if not payload.strip():
            return {}
        try:
            body = json.loads(payload)
        except ValueError:
            raise Refusal(400, "parseError", "Parse Error") from None
        if not method.request:
            if body:
                raise Refusal(
                    400,
                    "badRequest",
                    f"Invalid JSON payload received: {method.name} takes no body.",
                )
            return {}
        self.cloud.document.body(method.request, body)
        out: Json = _without_null(body)
        return out


def _without_null(value: Any) -> Any:
    """Google reads null as absent, at any depth."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return (
        [_without_null(item) for item in value if item is not None]
        if isinstance(value, list)
        else value
    )


def web_page() -> Answer:
    """What a proxy answers instead of the API."""
    return Answer(
        502,
        None,
        html=(
            "<!DOCTYPE html><html><title>Error 502 (Server Error)!!1</title><p>That's an"
            " error.</html>"
        ),
    )


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # A burst of parallel calls must not be refused at the door.
    request_queue_size = 64

    def __init__(self, standin: Server) -> None:
        self.standin = standin
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # The base class looks its own name up, which may take seconds without a network.
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Ends the connections that clients keep open."""
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Http

    def _handle(self) -> None:
        payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.standin.answer(self.command, self.path, payload)
        if answer.body is None and not answer.html:
            self.close_connection = True
            return
        data = answer.html.encode() if answer.html else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header(
            "Content-Type",
            "text/html; charset=UTF-8" if answer.html else "application/json; charset=UTF-8",
        )
        sent = data[: len(data) // 2] if answer.cut else data
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.wfile.flush()

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _handle  # noqa: N815 (the base class looks these names up)

    def finish(self) -> None:
        super().finish()
        # Each connection has its own thread, and so its own connection to the store.
        self.server.standin.store.close()

    def log_message(self, *_: object) -> None:
        """Nothing on the screen: the store has the log."""
