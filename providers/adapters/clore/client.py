"""Clore's REST API over httpx: one method a call. Owns requests, answers and their reading; imports
httpx on the first call.

Nothing is ever sent twice: the pace is kept before a call, and what went wrong is raised as an
error of the tree. The key is in the header `auth` alone, never in an address, a message or a log.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.clore import errors
from providers.model import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    from providers.adapters.clore.gate import Gate

BASE_URL = "https://api.clore.ai/v1"
USER_AGENT = "gpus/0.1"
"""Our own: the front of the service refuses default ones (403, "error code: 1010")."""

TIMEOUT_S = 30.0
MARKET_TIMEOUT_S = 60.0
"""The whole market is one reply of some megabytes."""


class Client:
    """Calls of one key. Safe from several threads. `base` is asked for the API's address when the
    first call is made.

    `trust_environment` lets proxy variables count; not for loopback.
    """

    def __init__(
        self, key: str, gate: Gate, base: Callable[[], str], *, trust_environment: bool = True
    ) -> None:
        self._key = key
        self.gate = gate
        self._base = base
        self._trust_environment = trust_environment
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None

    def marketplace(self) -> list[object]:
        """Every server, rented ones too. Needs no key, so none is sent. Calls: 1."""
        servers = self.call("GET", "marketplace", keyed=False, timeout_s=MARKET_TIMEOUT_S).get(
            "servers"
        )
        return list(servers) if isinstance(servers, list) else []

    def my_orders(self, *, completed: bool = False) -> list[Mapping[str, object]]:
        """The rows of the key's orders, those that ended too where asked for. Calls: 1. A reply
        without rows is malformed, not empty; so is one with a row that does not say which order it
        is, or of which server: it may be the very one that is looked for.
        """
        params = {"return_completed": "true"} if completed else {}
        rows = self.call("GET", "my_orders", params=params).get("orders")
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and _is_id(row.get("id")) and _is_id(row.get("si"))
            for row in rows
        ):
            raise errors.error("html", doing="my_orders")
        return rows

    def wallets(self) -> list[Mapping[str, object]]:
        """Balances by coin; a balance can be null. Calls: 1."""
        rows = self.call("GET", "wallets").get("wallets")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def renter_fees(self) -> Mapping[str, object]:
        """The fees as the service states them now; the shape is not documented in full.
        Calls: 1.
        """
        return self.call("GET", "renter_fees")

    def spot_market(self, server: int) -> Mapping[str, object]:
        """The bids on one server: `offers`, `server`, `currency_rates_in_usd`. Calls: 1."""
        reply = self.call("GET", "spot_marketplace", params={"market": str(server)})
        inner = reply.get("market")
        return inner if isinstance(inner, dict) else reply

    def create_order(
        self, body: Mapping[str, object], *, token: str, server: int, capacity: str
    ) -> None:
        """Sends exactly one order. Returning means `{"code": 0}`, which holds no id. Calls: 1."""
        self.call(
            "POST",
            "create_order",
            body=body,
            creating=True,
            token=token,
            server=server,
            capacity=capacity,
        )

    def cancel_order(self, order: int) -> None:
        """Ends an order. Calls: 1."""
        self.call("POST", "cancel_order", body={"id": order})

    def set_spot_price(self, order: int, per_day: float) -> None:
        """Changes a bid, per day in the order's coin. Calls: 1."""
        self.call("POST", "set_spot_price", body={"order_id": order, "desired_price": per_day})

    def close(self) -> None:
        """Closes connections."""
        if self._http is not None:
            self._http.close()

    def _connection(self, base: str) -> httpx.Client:
        with self._lock:
            if self._http is None:
                import httpx

                # Loading the certificates costs 0.5 s; loopback has none.
                self._http = httpx.Client(
                    verify=base.startswith("https:"),
                    headers={"user-agent": USER_AGENT, "accept": "application/json"},
                    trust_env=self._trust_environment,
                )
            return self._http

    def call(
        self,
        verb: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        keyed: bool = True,
        creating: bool = False,
        token: str = "",
        server: int = 0,
        capacity: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """One call, once. The JSON of a good answer, else the error of the table."""
        reply: object = None

        def fault(code: str) -> Exception:
            told = reply if isinstance(reply, dict) else None
            return errors.error(
                code,
                creating=creating,
                token=token,
                server=server,
                capacity=capacity,
                reply=told,
                doing=path,
            )

        base = self._base()
        try:
            http = self._connection(base)
        except Exception as problem:
            # A proxy variable that cannot be used, or certificates that cannot be read.
            raise fault("unreachable") from problem
        if keyed:
            self.gate.turn(order=creating)
        try:
            answer = http.request(
                verb,
                f"{base}/{path}",
                params=dict(params or {}),
                content=None if body is None else json.dumps(body),
                headers=({"auth": self._key} if keyed else {})
                | ({"content-type": "application/json"} if body is not None else {}),
                timeout=timeout_s,
            )
        except Exception as problem:
            raise fault(code_of(problem)) from problem
        try:
            reply = foreign.loads(answer.content)
        except ValueError:
            reply = None
        code = errors.code_of(answer.status_code, reply)
        if code or not isinstance(reply, dict):
            raise fault(code or "html")
        return reply


def _is_id(value: object) -> bool:
    """True for a whole number from 1, as JSON or as text."""
    return isinstance(value, (int, str)) and foreign.whole(value, foreign.ID) is not None


def code_of(problem: Exception) -> str:
    """What a failed request comes to: nothing sent, no answer in time, or the answer lost."""
    import httpx

    if isinstance(
        problem,
        (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.ProxyError,
            httpx.UnsupportedProtocol,
            httpx.InvalidURL,
        ),
    ):
        return "unreachable"
    return "timeout" if isinstance(problem, httpx.TimeoutException) else "lost"
