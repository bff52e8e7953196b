"""The HTTP side that rehearsed clouds share: a server on loopback, and what a planned fault does to
a request on its way through it.

Everything that a server knows is in the store, so any number of them answer as one cloud. Which
calls there are, and what a refusal looks like, is each cloud's own.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.nodes.converge import converge

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from email.message import Message

    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

    Headers = Message[str, str]
    Answering = Callable[[str, str, "Headers", bytes], "Reply"]


class Reply(NamedTuple):
    """What goes back. `content` None: the connection closes without an answer. `cut`: only half of
    it is sent.
    """

    status: int
    content: bytes | None
    kind: str = "application/json; charset=UTF-8"
    cut: bool = False


NO_REPLY = Reply(0, None)


class Loopback:
    """A running server. `answer(verb, target, headers, payload)` gives the reply to a request;
    `target` is the path with its query. `url` is `http://127.0.0.1:PORT` and the cloud's base.
    """

    def __init__(self, name: str, store: Store, answer: Answering, base: str = "") -> None:
        self.store = store
        self.answer = answer
        self.closing = threading.Event()
        self._http = _Http(self)
        self.url = f"http://127.0.0.1:{self._http.server_port}{base}"
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.05},
            name=f"{name}-rehearsal",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stops answering, on open connections too. What happened stays in the store."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._http.hang_up()
        self._thread.join()
        self.store.close()


class Exchange(NamedTuple):
    """One request in its transaction, as a cloud reads it. `about()` gives the places and the
    machine types that it concerns; `work(fault)` does it; `refused(error)` is the reply to an
    exception of the work, which is then undone; `before(fault)` is the reply of a fault that comes
    before any work; `failed(fault)` is that of one after it.
    """

    about: Callable[[], tuple[list[str], list[str]]]
    work: Callable[[Fault | None], Reply]
    refused: Callable[[Exception], Reply]
    before: Callable[[Fault], Reply | None]
    failed: Callable[[Fault], Reply]


class Logged(NamedTuple):
    """A request as the store's log has it."""

    provider: str
    verb: str
    method: str
    path: str


def serve(
    store: Store,
    request: Logged,
    begin: Callable[[sqlite3.Connection], Exchange],
    *,
    quiet: bool = False,
) -> Reply:
    """The reply to one request, with the fault that the scenario planned for it; its work is done
    and logged. `quiet`: neither a fault nor the log is asked again.
    """
    with store.transaction() as db:
        exchange = begin(db)
        fault = (
            None if quiet else store.take_fault(request.provider, request.method, *exchange.about())
        )
        kind = fault.kind if fault is not None else ""
        if kind == "twice":
            _work(db, exchange, fault)
        reply = exchange.before(fault) if fault is not None else None
        if reply is None:
            reply = NO_REPLY if kind == "overtaken" else _work(db, exchange, fault)
        if not quiet:
            status = 0 if reply.content is None else reply.status
            store.log(*request, status, kind)
    if fault is not None and kind in {"delay", "overtaken"}:
        time.sleep(float(str(fault.settings.get("seconds", 1))))
    return serve(store, request, begin, quiet=True) if kind == "overtaken" else reply


def _work(db: sqlite3.Connection, exchange: Exchange, fault: Fault | None) -> Reply:
    db.execute("SAVEPOINT work")
    try:
        reply = exchange.work(fault)
    except Exception as error:
        db.execute("ROLLBACK TO work")
        return exchange.refused(error)
    if fault is not None and fault.kind == "reply-lost":
        return NO_REPLY
    if fault is not None and fault.kind == "error-after":
        return exchange.failed(fault)
    return reply._replace(cut=fault is not None and fault.kind == "malformed")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # A burst of parallel calls must not be refused at the door.
    request_queue_size = 64

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
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

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; a fault of the server itself is told on stderr."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Http

    def _handle(self) -> None:
        payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.loopback.answer(self.command, self.path, self.headers, payload)
        converge(self.server.loopback.store)
        if reply.content is None:
            self.close_connection = True
            return
        sent = reply.content[: len(reply.content) // 2] if reply.cut else reply.content
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.wfile.flush()

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _handle  # noqa: N815 (the base class looks these names up)

    def finish(self) -> None:
        super().finish()
        # Each connection has its own thread, and so its own connection to the store.
        self.server.loopback.store.close()

    def log_message(self, *_: object) -> None:
        """Nothing on the screen: the store has the log."""
