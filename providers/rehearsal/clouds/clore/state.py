"""What the rehearsal market remembers: orders, bids, prices, wallets. Owns its tables in the
rehearsal store; progress is a function of rows and now.

Bodies that hold keys or tokens are not kept. Must not import the adapter beside it: it knows the
wire alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.clouds.clore import inventory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.rehearsal.store import Store

PROVIDER = "clore"
FEES = {False: 0.05, True: 0.0125}
"""The renter's part, on demand and spot."""

OUTBID_S = 60.0
"""How long an outbid order stands paused before it ends. Sources differ on whether it is paused or
gone at once: here it is both, in turn.
"""

WALLET = {"bitcoin": 0.0, "CLORE-Blockchain": 2_000.0, "USD-Blockchain": 500.0}
HOSTS = ("n1.rehearsal.invalid", "n2.rehearsal.invalid")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clore_order (
  id INTEGER PRIMARY KEY, si INTEGER NOT NULL, spot INTEGER NOT NULL, coin TEXT NOT NULL,
  per_day REAL NOT NULL, image TEXT NOT NULL, ports TEXT NOT NULL, ct REAL NOT NULL,
  visible_at REAL NOT NULL, up_at REAL NOT NULL, mrl REAL NOT NULL, ended_at REAL, lowered_at REAL);
CREATE TABLE IF NOT EXISTS clore_bid (
  id INTEGER PRIMARY KEY, si INTEGER NOT NULL, coin TEXT NOT NULL, per_day REAL NOT NULL,
  at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS clore_change (si INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clore_delivered (si INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clore_wallet (coin TEXT PRIMARY KEY, balance REAL);
CREATE TABLE IF NOT EXISTS clore_turn (what TEXT PRIMARY KEY, at REAL NOT NULL);
"""
_FIRST_ORDER = 2_600_001


class Made(NamedTuple):
    """One order. `ended_at` is None while nothing ended it."""

    id: int
    si: int
    spot: bool
    coin: str
    per_day: float
    image: str
    ports: dict[str, str]
    ct: float
    visible_at: float
    up_at: float
    mrl: float
    ended_at: float | None
    lowered_at: float | None


class State:
    """The market over one store. Cheap to make; safe from any thread and process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.tables(_SCHEMA)

    # Servers

    def servers(self) -> list[dict[str, Any]]:
        """Every server as it is listed now: changed prices, rented out, taken by orders of the
        rehearsal.
        """
        changes = {
            si: json.loads(content)
            for si, content in self.store.connection().execute(
                "SELECT si, content FROM clore_change"
            )
        }
        taken = {made.si for made in self.orders() if self.ends_at(made) is None}
        found = []
        for server in inventory.servers():
            number = server["id"]
            if number in changes:
                server = _merged(server, changes[number])  # noqa: PLW2901 (the listing as changed)
            if number in taken or (
                isinstance(number, int)
                and self._sold_out(server, "on-demand")
                and self._sold_out(server, "spot")
            ):
                server = server | {"rented": True}  # noqa: PLW2901
            found.append(server)
        return found

    def server(self, number: int) -> dict[str, Any] | None:
        """One server as it is listed now."""
        return next((server for server in self.servers() if server["id"] == number), None)

    def refuses(self, server: Mapping[str, Any], kind: str) -> bool:
        """True when somebody has it already, or the scenario has none of this kind left there."""
        return server.get("rented") is not False or self._sold_out(server, kind)

    def _sold_out(self, server: Mapping[str, Any], kind: str) -> bool:
        country = server.get("specs", {}).get("net", {}).get("cc", "")
        return (
            self.store.stock(
                PROVIDER, country, "", f"server-{server['id']}", gpu_names(server), kind
            ).machines
            == 0
        )

    def change(self, number: int, **content: Any) -> None:
        """Changes a listing: `price={"on_demand": {"USD-Blockchain": 20.0}}`, `rented=True`; inner
        mappings are merged.
        """
        with self.store.transaction() as db:
            row = db.execute("SELECT content FROM clore_change WHERE si = ?", (number,)).fetchone()
            merged = _merged(json.loads(row[0]) if row else {}, content)
            db.execute(
                "INSERT OR REPLACE INTO clore_change VALUES (?, ?)", (number, json.dumps(merged))
            )

    def deliver(self, number: int, **content: Any) -> None:
        """What orders on a server say of it from now on, whatever its listing says:
        `gpu_array=["RTX 4090"]`.
        """
        with self.store.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO clore_delivered VALUES (?, ?)",
                (number, json.dumps(content)),
            )

    def delivered(self) -> dict[int, dict[str, Any]]:
        """By server."""
        return {
            si: json.loads(content)
            for si, content in self.store.connection().execute(
                "SELECT si, content FROM clore_delivered"
            )
        }

    # Orders

    def orders(self) -> list[Made]:
        """Every order so far."""
        rows = self.store.connection().execute("SELECT * FROM clore_order ORDER BY id").fetchall()
        return [
            Made._make((*row[:2], bool(row[2]), *row[3:6], json.loads(row[6]), *row[7:]))
            for row in rows
        ]

    def order(self, number: int) -> Made | None:
        """One order."""
        return next((made for made in self.orders() if made.id == number), None)

    def make(
        self,
        si: int,
        *,
        spot: bool,
        coin: str,
        per_day: float,
        image: str,
        ports: Mapping[str, str],
        mrl: float,
        lag_s: float = 0.0,
        slow_s: float = 0.0,
    ) -> Made:
        """Takes an order. It is listed a moment later and up a while after that."""
        now = self.store.now()
        visible_at = now + self.store.latency(PROVIDER, "create") + lag_s
        up_at = visible_at + self.store.latency(PROVIDER, "start") + slow_s
        with self.store.transaction() as db:
            last = db.execute("SELECT MAX(id) FROM clore_order").fetchone()[0]
            number = _FIRST_ORDER if last is None else last + 1
            row = (
                number,
                si,
                int(spot),
                coin,
                per_day,
                image,
                json.dumps(dict(ports)),
                now,
                visible_at,
                up_at,
                mrl,
                None,
                None,
            )
            db.execute(f"INSERT INTO clore_order VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 (question marks)
        found = self.order(number)
        assert found is not None
        return found

    def end(self, number: int, at: float) -> None:
        """Ends an order at a time, unless it ended before."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE clore_order SET ended_at = ? WHERE id = ? AND (ended_at IS NULL OR ended_at"
                " > ?)",
                (at, number, at),
            )

    def reprice(self, number: int, per_day: float, *, lowered: bool) -> None:
        """Changes a bid of ours."""
        with self.store.transaction() as db:
            db.execute("UPDATE clore_order SET per_day = ? WHERE id = ?", (per_day, number))
            if lowered:
                db.execute(
                    "UPDATE clore_order SET lowered_at = ? WHERE id = ?", (self.store.now(), number)
                )

    def ends_at(self, made: Made) -> float | None:
        """When it ended; None while it stands. Counted from its rows: cancelled, outbid for a
        while, or its longest rental over.
        """
        now = self.store.now()
        moments = [made.ct + made.mrl * 3_600]
        if made.ended_at is not None:
            moments.append(made.ended_at)
        beaten_at = self.beaten_at(made)
        if beaten_at is not None:
            moments.append(beaten_at + OUTBID_S)
        first = min(moments)
        return first if first <= now else None

    # Bids

    def bid(self, si: int, coin: str, per_day: float) -> None:
        """Another renter bids on a server."""
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO clore_bid (si, coin, per_day, at) VALUES (?, ?, ?, ?)",
                (si, coin, per_day, self.store.now()),
            )

    def bids(self, si: int) -> list[tuple[int, str, float, float]]:
        """Other renters' bids on a server: (id, coin, per day, since)."""
        return list(
            self.store.connection().execute(
                "SELECT id, coin, per_day, at FROM clore_bid WHERE si = ? ORDER BY id", (si,)
            )
        )

    def beaten_at(self, made: Made) -> float | None:
        """When another's bid went over this order's; None while it holds."""
        if not made.spot:
            return None
        ours = made.per_day * inventory.USD_PER_COIN[made.coin]
        over = [
            at
            for _, coin, per_day, at in self.bids(made.si)
            if per_day * inventory.USD_PER_COIN[coin] > ours
        ]
        return max(min(over), made.ct) if over else None

    # Wallets

    def set_wallet(self, coin: str, balance: float | None) -> None:
        """What the wallet holds before anything of the rehearsal was spent; None for a balance that
        the service does not tell.
        """
        with self.store.transaction() as db:
            db.execute("INSERT OR REPLACE INTO clore_wallet VALUES (?, ?)", (coin, balance))

    def wallets(self) -> dict[str, float | None]:
        """Balances now, less what the orders have cost so far."""
        found: dict[str, float | None] = {
            **WALLET,
            **dict(self.store.connection().execute("SELECT coin, balance FROM clore_wallet")),
        }
        for made in self.orders():
            balance = found.get(made.coin)
            if balance is not None:
                found[made.coin] = round(balance - self.spend(made), 8)
        return found

    def spend(self, made: Made) -> float:
        """What an order has cost so far, in its coin, the renter's fee included."""
        until = self.ends_at(made) or self.store.now()
        beaten_at = self.beaten_at(made)
        if beaten_at is not None:
            until = min(until, beaten_at)
        return max(0.0, until - made.ct) / 86_400 * made.per_day * (1 + FEES[made.spot])

    # The pace

    def too_fast(self, what: str, least_s: float) -> bool:
        """True when the last call of this kind was less than so long ago; else this one counts."""
        now = self.store.now()
        with self.store.transaction() as db:
            row = db.execute("SELECT at FROM clore_turn WHERE what = ?", (what,)).fetchone()
            if row is not None and 0 <= now - row[0] < least_s:
                return True
            db.execute("INSERT OR REPLACE INTO clore_turn VALUES (?, ?)", (what, now))
            return False


def gpu_names(server: Mapping[str, Any]) -> list[str]:
    """A server's GPUs as a scenario names them: `RTX-4090`."""
    return sorted(
        {str(entry).strip().replace(" ", "-").upper() for entry in server.get("gpu_array", ())}
    )


def rows(state: State, *, completed: bool) -> list[dict[str, Any]]:
    """The orders as `my_orders` lists them: the standing ones, or those that ended."""
    now = state.store.now()
    listed, delivered = {server["id"]: server for server in inventory.servers()}, state.delivered()
    found = []
    for made in state.orders():
        ended_at = state.ends_at(made)
        if made.visible_at > now or (ended_at is not None) != completed:
            continue
        found.append(
            _row(
                state,
                made,
                _merged(listed.get(made.si, {}), delivered.get(made.si, {})),
                now,
                ended_at,
            )
        )
    return found


def _row(
    state: State, made: Made, server: Mapping[str, Any], now: float, ended_at: float | None
) -> dict[str, Any]:
    up = ended_at is None and made.up_at <= now and state.beaten_at(made) is None
    mapped = [
        f"{port}:{_public(made.id, index)}"
        for index, (port, kind) in enumerate(sorted(made.ports.items()))
        if kind == "tcp"
    ]
    row: dict[str, Any] = {
        "id": made.id,
        "si": made.si,
        "spot": made.spot,
        "price": made.per_day,
        "currency": made.coin,
        "fee": FEES[made.spot] * 100,
        "creation_fee": 0,
        "spend": round(state.spend(made), 8),
        "ct": int(made.ct),
        "mrl": made.mrl,
        "image": made.image,
        "specs": server.get("specs", {}),
        "gpu_array": server.get("gpu_array", []),
        "rating": server.get("rating", {}),
        "reliability": server.get("reliability"),
        "online": ended_at is None,
        "mon_container": 2 if up else 0,
        "pub_cluster": list(HOSTS) if up else [],
        "tcp_ports": mapped if up else [],
    }
    web = next((port for port, kind in made.ports.items() if kind == "http"), None)
    if web is not None and up:
        row |= {"http_port": web, "http_pub": f"order-{made.id}.rehearsal.invalid"}
    return row | ({"expired": True} if ended_at is not None else {})


def _public(number: int, index: int) -> int:
    """The public port of an order's container port."""
    return 10_000 + (number * 20 + index) % 50_000


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        merged[key] = (
            _merged(merged[key], value)
            if isinstance(value, dict) and isinstance(merged.get(key), dict)
            else value
        )
    return merged


def holders(state: State, si: int) -> Sequence[Made]:
    """Our standing bids on a server."""
    return [
        made
        for made in state.orders()
        if made.si == si and made.spot and state.ends_at(made) is None
    ]
