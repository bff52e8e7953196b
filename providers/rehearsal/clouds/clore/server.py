"""The rehearsal market's HTTP face: routes, codes, rate limits, faults. Owns the wire; unknown
routes and fields fail.

Shapes and codes are those of docs.clore.ai for-hosts/api and of recordings by public clients, read
2026-11-27; none was recorded by this project.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from providers.rehearsal.clouds.clore import inventory
from providers.rehearsal.clouds.clore.access import KEY, LIMIT
from providers.rehearsal.clouds.clore.state import PROVIDER, State, holders, rows
from providers.rehearsal.http import NO_REPLY, Loopback, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.rehearsal.clouds.clore.access import Pace
    from providers.rehearsal.http import Headers
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

_HTML = b"<!DOCTYPE html><html><head><title>502</title></head><body>bad gateway</body></html>"
_BODY_KEYS = {
    "currency",
    "image",
    "renting_server",
    "type",
    "ports",
    "env",
    "jupyter_token",
    "ssh_password",
    "ssh_key",
    "command",
    "required_price",
    "spotprice",
    "autossh_entrypoint",
    "remember_password",
    "dockerhub_auth",
}
ROUTES = frozenset(
    {
        *(
            ("GET", name)
            for name in ("marketplace", "my_orders", "wallets", "renter_fees", "spot_marketplace")
        ),
        *(("POST", name) for name in ("create_order", "cancel_order", "set_spot_price")),
    }
)
"""Every call that is answered; each is a method of `Api`."""

_BEFORE = {
    "http",
    "unavailable",
    "rate-limit",
    "too-many",
    "unauthorized",
    "forbidden",
    "quota",
    "html",
}
_AFTER = {"reply-lost", "error-after", "malformed"}
_LOWER_S = 600.0
TOLERANCE = 0.9


class Refused(Exception):
    """A non-zero code."""

    def __init__(self, code: int, status: int = 200, **more: Any) -> None:
        super().__init__(f"code {code}")
        self.status = status
        self.reply = {"code": code} | more


def start(store: Store, pace: Pace = LIMIT) -> Loopback:
    """Starts a server on a free port of loopback, on threads of this process."""
    return Loopback(PROVIDER, store, Api(store, pace).answer, "/v1")


class Api:
    """The calls. One method a route, named as the route."""

    def __init__(self, store: Store, pace: Pace) -> None:
        self.store = store
        self.state = State(store)
        self.pace = pace

    def answer(self, verb: str, target: str, headers: Headers, content: bytes) -> Reply:
        """One request, answered and logged."""
        split = urlsplit(target)
        name = split.path.removeprefix("/v1/")
        if (verb, name) not in ROUTES or not split.path.startswith("/v1/"):
            return self._log(verb, name, split.path, _json({"code": 4}, 404))
        arguments: dict[str, Any] = {
            key: values[-1] for key, values in parse_qs(split.query).items()
        }
        try:
            read = json.loads(content) if content else {}
        except ValueError:
            read = None
        if not isinstance(read, dict):
            return self._log(verb, name, split.path, _json({"code": 2}))
        arguments |= read
        place, machine = self._place(arguments)
        fault = self.store.take_fault(PROVIDER, name, place, machine)
        if fault is not None and fault.kind in _BEFORE:
            return self._log(verb, name, split.path, _before(fault), fault.kind)
        if fault is not None and fault.kind == "overtaken":
            time.sleep(float(str(fault.settings.get("seconds", 1))))
        try:
            if name != "marketplace":
                self._admit(name, headers)
            arguments = {**arguments, "_fault": fault} if name == "create_order" else arguments
            good = _json({"code": 0, **getattr(self, name)(arguments)})
            if fault is not None and fault.kind == "twice":
                good = _json({"code": 0, **getattr(self, name)(arguments)})
        except Refused as refusal:
            return self._log(
                verb,
                name,
                split.path,
                _json(refusal.reply, refusal.status),
                fault.kind if fault else "",
            )
        if fault is not None and fault.kind == "delay":
            time.sleep(float(str(fault.settings.get("seconds", 1))))
        if fault is not None and fault.kind in _AFTER:
            return self._log(verb, name, split.path, _after(fault, good), fault.kind)
        return self._log(verb, name, split.path, good, fault.kind if fault else "")

    def _place(self, arguments: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        number = arguments.get("renting_server")
        server = self.state.server(number) if isinstance(number, int) else None
        country = server.get("specs", {}).get("net", {}).get("cc", "") if server else ""
        return ([country] if country else []), ([f"server-{number}"] if number else [])

    def _log(self, verb: str, name: str, path: str, answer: Reply, fault: str = "") -> Reply:
        self.store.log(
            PROVIDER, verb, name, path, answer.status if answer.content is not None else 0, fault
        )
        return answer

    def _admit(self, name: str, headers: Headers) -> None:
        if headers.get("auth") != KEY:
            raise Refused(3)
        if self.state.too_fast("call", self.pace.call_s * TOLERANCE):
            raise Refused(5, 429)
        if name == "create_order" and self.state.too_fast("order", self.pace.order_s * TOLERANCE):
            raise Refused(5, 429)

    # Reading

    def marketplace(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, set())
        return {"servers": self.state.servers(), "my_servers": []}

    def my_orders(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, {"return_completed"})
        return {
            "orders": rows(self.state, completed=arguments.get("return_completed") == "true"),
            "limit": 100,
        }

    def wallets(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, set())
        return {
            "wallets": [
                {"name": coin, "deposit": "rehearsal", "balance": balance}
                for coin, balance in self.state.wallets().items()
            ]
        }

    def renter_fees(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, set())
        return {"on_demand": {"base": 10}, "spot": {"base": 2.5}}

    def spot_marketplace(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, {"market"})
        word = str(arguments.get("market", ""))
        server = self.state.server(int(word)) if word.isdigit() else None
        if server is None:
            raise Refused(2)
        number = int(word)
        ours = holders(self.state, number)
        listed = [
            {
                "offer_id": made.id,
                "bid": made.per_day,
                "active": self.state.beaten_at(made) is None,
                "my": True,
                "currency": made.coin,
            }
            for made in ours
        ]
        others = self.state.bids(number)
        top = max(
            (per_day * inventory.USD_PER_COIN[coin] for _, coin, per_day, _ in others), default=0.0
        )
        held = any(row["active"] for row in listed)
        listed += [
            {
                "offer_id": bid,
                "bid": per_day,
                "active": not held and per_day * inventory.USD_PER_COIN[coin] == top,
                "my": False,
                "currency": coin,
            }
            for bid, coin, per_day, _ in others
        ]
        floor = server["price"]["spot"]
        about = {"min_pricing": floor, "mrl": server["mrl"], "online": True, "visibility": "public"}
        return {
            "market": {
                "offers": listed,
                "server": about,
                "currency_rates_in_usd": inventory.USD_PER_COIN,
            }
        }

    # Changing

    def create_order(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        fault: Fault | None = arguments["_fault"]
        body = {key: value for key, value in arguments.items() if key != "_fault"}
        spot, coin = self._checked(body)
        server = self.state.server(body["renting_server"])
        if server is None:
            raise Refused(6, error="server-offline")
        kind = body["type"]
        if self.state.refuses(server, kind):
            raise Refused(6, error="server-already-rented")
        if coin not in server["allowed_coins"]:
            raise Refused(6, error="currency-not-allowed")
        listed = server["price"]["spot" if spot else "on_demand"].get(coin) or 0
        if not listed:
            raise Refused(6, error="currency-not-allowed")
        per_day = float(body["spotprice"]) if spot else float(listed)
        if spot and per_day < listed:
            raise Refused(6, error="too_low_price", min_price=listed)
        if (
            not spot
            and "required_price" in body
            and abs(float(body["required_price"]) - listed) > 1e-9
        ):
            # The real service answers a missed price with its catch-all.
            raise Refused(1, 500)
        balance = self.state.wallets().get(coin)
        if balance is not None and balance < per_day / 24:
            raise Refused(6, error="not_enough_balance")
        settings = fault.settings if fault is not None else {}
        made = self.state.make(
            server["id"],
            spot=spot,
            coin=coin,
            per_day=per_day,
            image=body["image"],
            ports=body["ports"],
            mrl=server["mrl"],
            lag_s=float(str(settings.get("lag_s", 0))),
            slow_s=(
                float(str(settings.get("seconds", 0)))
                if fault is not None and fault.kind == "slow"
                else 0.0
            ),
        )
        if fault is not None and fault.kind == "op-error":
            self.state.end(made.id, made.up_at)
        return {}

    def _checked(self, body: Mapping[str, Any]) -> tuple[bool, str]:
        """(spot, coin) of a body in order. Code 2 for anything else."""
        ports, env, spot = body.get("ports"), body.get("env", {}), body.get("type") == "spot"
        good = (
            set(body) <= _BODY_KEYS
            and body.get("type") in {"on-demand", "spot"}
            and body.get("currency") in inventory.USD_PER_COIN
            and isinstance(body.get("renting_server"), int)
            and isinstance(body.get("image"), str)
            and isinstance(ports, dict)
            and all(str(port).isdigit() and kind in {"tcp", "http"} for port, kind in ports.items())
            and list(ports.values()).count("http") <= 1
            and isinstance(env, dict)
            and isinstance(body.get("autossh_entrypoint", False), bool)
            and (
                not spot
                or (isinstance(body.get("spotprice"), (int, float)) and body["spotprice"] > 0)
            )
            and len(str(body.get("ssh_password", ""))) <= 32
        )
        if not good:
            raise Refused(2)
        if any("&" in str(value) for value in env.values()):
            raise Refused(1)
        return spot, body["currency"]

    def cancel_order(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, {"id", "issue"})
        made = self.state.order(arguments["id"]) if isinstance(arguments.get("id"), int) else None
        if made is None or self.state.ends_at(made) is not None:
            raise Refused(2)
        self.state.end(made.id, self.store.now() + self.store.latency(PROVIDER, "delete"))
        return {}

    def set_spot_price(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        _only(arguments, {"order_id", "desired_price"})
        made = (
            self.state.order(arguments["order_id"])
            if isinstance(arguments.get("order_id"), int)
            else None
        )
        wanted = arguments.get("desired_price")
        if (
            made is None
            or not made.spot
            or self.state.ends_at(made) is not None
            or not isinstance(wanted, (int, float))
            or wanted <= 0
        ):
            raise Refused(2)
        server = self.state.server(made.si)
        floor = (server or {}).get("price", {}).get("spot", {}).get(made.coin) or 0
        if wanted < floor:
            raise Refused(6, error="too_low_price", min_price=floor)
        lowered = wanted < made.per_day
        since = _LOWER_S if made.lowered_at is None else self.store.now() - made.lowered_at
        if lowered and since < _LOWER_S:
            raise Refused(
                6, error="can_lower_every_600_seconds", time_to_lowering=round(_LOWER_S - since)
            )
        self.state.reprice(made.id, float(wanted), lowered=lowered)
        return {}


def _only(arguments: Mapping[str, Any], known: set[str]) -> None:
    if set(arguments) - known:
        raise Refused(2)


def _json(reply: Mapping[str, Any], status: int = 200) -> Reply:
    return Reply(status, json.dumps(reply).encode(), "application/json")


def _before(fault: Fault) -> Reply:
    """The answer of a call that did no work."""
    settings = fault.settings
    status = int(str(settings.get("status", 500)))
    if fault.kind in {"rate-limit", "too-many"}:
        return _json({"code": 5}, 429)
    if fault.kind == "unauthorized":
        return _json({"code": 3}, 401)
    if fault.kind == "forbidden":
        return Reply(403, b"error code: 1010", "text/plain")
    if fault.kind == "quota":
        return _json({"code": 6, "error": "not_enough_balance"})
    if fault.kind == "http":
        more = {key: value for key, value in settings.items() if key not in {"status", "reason"}}
        return _json(
            (
                {"code": 6, "error": settings["reason"], **more}
                if "reason" in settings
                else {"code": 1, **more}
            ),
            status,
        )
    return Reply(503 if fault.kind == "unavailable" else 502, _HTML, "text/html")


def _after(fault: Fault, good: Reply) -> Reply:
    """The answer of a call whose work is done."""
    if fault.kind == "reply-lost":
        return NO_REPLY
    if fault.kind == "malformed":
        return good._replace(cut=True)
    status = int(str(fault.settings.get("status", 503)))
    if fault.settings.get("html"):
        return Reply(status, _HTML, "text/html")
    return _json({"code": fault.settings.get("code", 1)}, status)
