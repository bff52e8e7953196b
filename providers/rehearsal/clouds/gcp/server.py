"""The server of an API of Google's in a rehearsal: its requests, checked by the API's own document,
and its answers. Owns Server and Cloud.

The log's verb is GET for a call that only reads, whatever it is on the wire.
"""

from __future__ import annotations

import json
import time
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from providers.rehearsal.clouds.gcp.wire import Json, Refusal
from providers.rehearsal.http import Exchange, Logged, Loopback, Reply, serve

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from providers.rehearsal.clouds.gcp.discovery import Document, Method
    from providers.rehearsal.http import Headers
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

HOLD_S, HOLD_STEP_S = 120.0, 0.05
"""`zoneOperations.wait` answers after two minutes at the latest, in real seconds; between looks."""
_READS = frozenset({"advice.capacity"})
"""What is asked by POST and changes nothing."""


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
    """What a server is the rehearsal of. `settle` decides what is due by now; `about` gives the
    (places, machine types) that a request concerns; `work` does it; `refused` is the answer of a
    fault that comes before any work; `told` is a refusal's JSON.
    """

    provider: str
    schema: str
    document: Document
    settle: Callable[[Store, sqlite3.Connection], None]
    about: Callable[[Request], tuple[list[str], list[str]]]
    work: Callable[[Request], Json]
    refused: Callable[[Fault], Reply | None]
    told: Callable[[Refusal], Json] = Refusal.body
    pending: Callable[[Store, str, dict[str, str]], bool] = lambda *_: False
    """Whether the answer to a call of this method and path is held for now."""


class Server(Loopback):
    """A running server. `url` has no trailing slash; clients add the API's own prefix."""

    def __init__(self, store: Store, cloud: Cloud) -> None:
        store.tables(cloud.schema)
        self.cloud = cloud
        self.faulty: list[str] = []
        """Calls that it could not answer, or not by the schema: always empty unless the server
        itself is wrong.
        """
        super().__init__(cloud.provider, store, self._answer)

    def _answer(self, verb: str, target: str, _headers: Headers, payload: bytes) -> Reply:
        parts = urlsplit(target)
        name = "unknown"
        try:
            method, path = self.cloud.document.match(verb, parts.path)
            name = method.name
            query = self.cloud.document.query(method, parse_qs(parts.query, keep_blank_values=True))
            body = self._payload(payload, method)
        except Refusal as refusal:
            self.store.log(self.cloud.provider, verb, name, parts.path, refusal.status)
            return reply(refusal.status, self.cloud.told(refusal))
        self._hold(name, path)
        shown = "GET" if name in _READS else verb
        logged = Logged(self.cloud.provider, shown, name, parts.path)
        begin = partial(self._begin, method, path, query, body if method.request else {})
        return serve(self.store, logged, begin)

    def _hold(self, method: str, path: dict[str, str]) -> None:
        """Lets the caller wait while the cloud has no news for it, at most `HOLD_S`."""
        until: float | None = None
        while self.cloud.pending(self.store, method, path):
            now = time.monotonic()
            until = now + min(HOLD_S, self.store.hold_s()) if until is None else until
            if now >= until or self.closing.wait(HOLD_STEP_S):
                return

    def _begin(
        self, method: Method, path: dict[str, str], query: Json, body: Json, db: sqlite3.Connection
    ) -> Exchange:
        self.cloud.settle(self.store, db)
        request = Request(method.name, self.store, db, path, query, body)
        return Exchange(
            partial(self.cloud.about, request),
            partial(self._work, request, method),
            partial(self._refused, method),
            self.cloud.refused,
            self._failed,
        )

    def _work(self, request: Request, method: Method, fault: Fault | None) -> Reply:
        body = self.cloud.work(request._replace(body=deepcopy(request.body), fault=fault))
        self.cloud.document.answer(method.response, body)
        return reply(200, body)

    def _refused(self, method: Method, error: Exception) -> Reply:
        if isinstance(error, Refusal):
            return reply(error.status, self.cloud.told(error))
        self.faulty.append(f"{method.name}: {error!r}")
        refusal = Refusal(500, "internalError", f"rehearsal: {error!r}")
        return reply(500, self.cloud.told(refusal))

    def _failed(self, fault: Fault) -> Reply:
        status = int(str(fault.settings.get("status", 503)))
        reason = str(fault.settings.get("reason", "backendError"))
        return reply(status, self.cloud.told(Refusal(status, reason, "Backend Error")))

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


def reply(status: int, body: Json) -> Reply:
    """A reply in JSON."""
    return Reply(status, json.dumps(body).encode())


def web_page() -> Reply:
    """What a proxy answers instead of the API."""
    text = (
        "<!DOCTYPE html><html><title>Error 502 (Server Error)!!1</title><p>That's an error.</html>"
    )
    return Reply(502, text.encode(), "text/html; charset=UTF-8")
