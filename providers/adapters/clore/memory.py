"""What this machine knows of its orders, since the market keeps no labels. Owns two tables of one
SQLite file; sqlite3 is imported on first use.

An intent is written, and synced to disk, before the order is sent; a rental when its row was seen.
In a rehearsal both stand in the rehearsal store's file, so that they are forgotten together with
the machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.home import kept
from providers.model.machine import Label

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clore_intent (token TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clore_rental (
  order_id INTEGER PRIMARY KEY, owner TEXT NOT NULL, cluster TEXT NOT NULL,
  generation TEXT NOT NULL, fingerprint TEXT NOT NULL, token TEXT NOT NULL,
  cancelled INTEGER NOT NULL DEFAULT 0);
"""
_LABEL = "mark"
"""The stored name of an intent's label, which earlier versions wrote and read too."""


class Intent(NamedTuple):
    """An order about to be sent, or sent with an answer that does not name it. Amounts are text,
    per day in `coin`; times on the world's clock.

    `before` are the orders that the key had already. `answered` is True once the service said
    `{"code": 0}`, `refused` once it said that the server is rented already.
    """

    token: str
    label: Label
    server: int
    capacity: str
    coin: str
    per_day: str
    usd_per_day: str
    cap_usd_per_day: str
    started_at: float
    deadline_s: float
    before: tuple[int, ...] = ()
    answered: bool = False
    refused: bool = False


class Rental(NamedTuple):
    """An order of ours. `cancelled` is True once we ended it."""

    order_id: int
    label: Label
    token: str
    cancelled: bool


class Memory:
    """The tables. Safe from any thread and process; each call opens the file and closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ended: set[int] = set()
        """What this process has cancelled, whether it could be written down or not."""

    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        return kept(self.path, "clore_rental", _SCHEMA)

    def intend(self, intent: Intent) -> None:
        """Keeps an intent, over an earlier one of the same token. On disk when this returns."""
        import json

        fields = intent._asdict()
        fields[_LABEL] = fields.pop("label")
        with self._open() as db:
            db.execute(
                "INSERT OR REPLACE INTO clore_intent VALUES (?, ?)",
                (intent.token, json.dumps(fields)),
            )

    def intents(self) -> tuple[Intent, ...]:
        """Every intent that is not settled, the newest first."""
        import json

        if not self.path.exists():
            return ()
        with self._open() as db:
            rows = [
                json.loads(row[0])
                for row in db.execute("SELECT content FROM clore_intent ORDER BY rowid DESC")
            ]
        return tuple(
            Intent(**(row | {"label": Label(*row.pop(_LABEL)), "before": tuple(row["before"])}))
            for row in rows
        )

    def intent(self, token: str) -> Intent | None:
        """The unsettled intent of a token."""
        return next((intent for intent in self.intents() if intent.token == token), None)

    def settle(self, token: str) -> None:
        """Forgets an intent: nothing was made, or the rental stands in the other table."""
        with self._open() as db:
            db.execute("DELETE FROM clore_intent WHERE token = ?", (token,))

    def keep(self, order_id: int, label: Label, token: str) -> None:
        """Keeps a rental, over what was known of it."""
        with self._open() as db:
            db.execute(
                "INSERT OR REPLACE INTO clore_rental VALUES (?, ?, ?, ?, ?, ?, 0)",
                (order_id, *label, token),
            )

    def rentals(self) -> dict[int, Rental]:
        """Every rental by its order's id, ended ones too."""
        if not self.path.exists():
            return {}
        with self._open() as db:
            rows = db.execute(
                "SELECT order_id, owner, cluster, generation, fingerprint, token, cancelled FROM"
                " clore_rental"
            ).fetchall()
        return {row[0]: Rental(row[0], Label(*row[1:5]), row[5], bool(row[6])) for row in rows}

    def relabel(self, order_id: int, generation: str) -> bool:
        """Writes a new generation; False when this machine does not know the order."""
        with self._open() as db:
            return bool(
                db.execute(
                    "UPDATE clore_rental SET generation = ? WHERE order_id = ?",
                    (generation, order_id),
                ).rowcount
            )

    def cancelled(self, order_id: int) -> None:
        """Notes that we ended it, known before or not, and forgets its intent. Where that cannot be
        written, this process knows it.
        """
        from contextlib import suppress

        self._ended.add(order_id)
        with suppress(*unusable()), self._open() as db:
            db.execute(
                "INSERT OR IGNORE INTO clore_rental VALUES (?, '', '', '', '', '', 1)", (order_id,)
            )
            db.execute("UPDATE clore_rental SET cancelled = 1 WHERE order_id = ?", (order_id,))
            db.execute(
                "DELETE FROM clore_intent WHERE token = (SELECT token FROM clore_rental WHERE"
                " order_id = ?)",
                (order_id,),
            )

    def readable(self) -> tuple[dict[int, Rental], tuple[Intent, ...]]:
        """Rentals and intents as far as the file can be read. For what ends orders, which must not
        depend on it; never for what makes them.
        """
        try:
            rentals, intents = self.rentals(), self.intents()
        except unusable():
            rentals, intents = {}, ()
        ended = {
            number: (
                rentals.get(number, Rental(number, Label("", "", "", ""), "", True))._replace(
                    cancelled=True
                )
            )
            for number in self._ended
        }
        return rentals | ended, intents


def unusable() -> tuple[type[Exception], ...]:
    """What is raised where the file cannot be read or written."""
    import sqlite3

    return (sqlite3.Error, OSError)
