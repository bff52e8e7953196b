"""The rows of the stand-in: instances, everything small, and answers by client token. Owns their
tables and what a row means at a time.

An instance's row holds a timeline, `[[moment, state, reason], ...]`, written ahead when something
is asked for; its state is the last entry that has passed. So whoever reads next, from any process
and after any jump of the clock, sees the same. Imports the store and the wire's shapes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.clouds.aws import places

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from providers.rehearsal.clouds.aws.wire import Json
    from providers.rehearsal.store import Store

PROVIDER = "aws"
ACCOUNT = "000000000000"
FORGOTTEN = ""
"""The state before an instance was made and after EC2 forgot it."""
SHOWN_S = 3_600.0
"""How long EC2 still lists a terminated instance (EC2 user guide: about an hour)."""
HOLDING = frozenset({"pending", "running"})
"""The states in which an instance takes up capacity and quota."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS aws_instance (
  id INTEGER PRIMARY KEY AUTOINCREMENT, region TEXT NOT NULL, zone TEXT NOT NULL,
  machine_type TEXT NOT NULL, capacity TEXT NOT NULL, reservation TEXT NOT NULL,
  created REAL NOT NULL, body TEXT NOT NULL, timeline TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS aws_instance_region ON aws_instance (region);
CREATE TABLE IF NOT EXISTS aws_thing (
  id INTEGER PRIMARY KEY AUTOINCREMENT, region TEXT NOT NULL, kind TEXT NOT NULL,
  name TEXT NOT NULL, created REAL NOT NULL, gone REAL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS aws_thing_name ON aws_thing (region, kind, name);
CREATE TABLE IF NOT EXISTS aws_token (
  region TEXT NOT NULL, operation TEXT NOT NULL, token TEXT NOT NULL, digest TEXT NOT NULL,
  answer TEXT NOT NULL, PRIMARY KEY (region, operation, token));
CREATE TABLE IF NOT EXISTS aws_price (
  kind TEXT NOT NULL, machine_type TEXT NOT NULL, place TEXT NOT NULL, usd TEXT NOT NULL,
  since REAL NOT NULL, PRIMARY KEY (kind, machine_type, place));
"""

Timeline = list[tuple[float, str, str]]


class Instance(NamedTuple):
    """An instance's row. `capacity` is on-demand, spot or reservation; `body` holds what does not
    change by itself, tags included.
    """

    id: int
    region: str
    zone: str
    machine_type: str
    capacity: str
    reservation: str
    created: float
    body: Json
    timeline: Timeline

    @property
    def name(self) -> str:
        """`i-...`."""
        return places.made_up("i", str(self.id), repr(self.created))

    def at(self, now: float) -> tuple[str, str]:
        """(state, reason) at a time; an empty state before it was made and once it is forgotten."""
        current = (FORGOTTEN, "")
        for moment, state, reason in self.timeline:
            if moment > now:
                break
            current = (state, reason)
        return current

    def state(self, now: float) -> str:
        """The state at a time."""
        return self.at(now)[0]

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""
        return dict(self.body["tags"])


@lru_cache(maxsize=4096)
def _read(*row: Any) -> Instance:
    """An instance of its row. Read once and shared: nobody changes what it holds, `write` takes a
    new one.
    """
    return Instance._make(
        (
            *row[:7],
            json.loads(row[7]),
            [(float(at), state, why) for at, state, why in json.loads(row[8])],
        )
    )


def cut(timeline: Timeline, now: float, then: Iterable[tuple[float, str, str]]) -> Timeline:
    """What has happened until now, and a new future."""
    return [entry for entry in timeline if entry[0] <= now] + list(then)


class Rows:
    """The tables within one transaction, at one moment of the world."""

    def __init__(self, store: Store, db: sqlite3.Connection, now: float) -> None:
        self.store = store
        self.db = db
        self.now = now

    def latency(self, step: str) -> float:
        """How long a step takes here, in world seconds."""
        return self.store.latency(PROVIDER, step)

    # Instances

    def instances(self, region: str = "", *, shown: bool = True) -> list[Instance]:
        """Instances in the order they were made, of one region or all; with `shown`, those that EC2
        lists now.
        """
        rows = self.db.execute(
            "SELECT * FROM aws_instance WHERE ? IN ('', region) ORDER BY id", (region,)
        )
        found = [_read(*row) for row in rows]
        return [item for item in found if item.state(self.now)] if shown else found

    def add(self, instance: Instance) -> Instance:
        """Writes a new instance and returns it with its id."""
        cursor = self.db.execute(
            "INSERT INTO aws_instance (region, zone, machine_type, capacity, reservation, created,"
            " body, timeline) VALUES (?,?,?,?,?,?,?,?)",
            (*instance[1:7], json.dumps(instance.body), json.dumps(instance.timeline)),
        )
        return instance._replace(id=int(cursor.lastrowid or 0))

    def write(self, instance: Instance) -> None:
        """Writes an instance's changed type, body and timeline."""
        self.db.execute(
            "UPDATE aws_instance SET machine_type = ?, body = ?, timeline = ? WHERE id = ?",
            (
                instance.machine_type,
                json.dumps(instance.body),
                json.dumps(instance.timeline),
                instance.id,
            ),
        )

    def end(self, instance: Instance, reason: str, step: str = "delete") -> Instance:
        """Terminates an instance from now on, for a reason."""
        done = self.now + self.latency(step)
        then = [
            (self.now, "shutting-down", reason),
            (done, "terminated", reason),
            (done + SHOWN_S, FORGOTTEN, ""),
        ]
        later = instance._replace(timeline=cut(instance.timeline, self.now, then))
        self.write(later)
        return later

    # Everything small: launch templates, security groups, placement groups, reservations, Spot
    # requests

    def things(self, region: str, kind: str, name: str = "") -> list[Json]:
        """The bodies of what exists now, oldest first, each with `_id` and `_created`. An empty
        name is all.
        """
        query = (
            "SELECT id, created, body FROM aws_thing WHERE region = ? AND kind = ? AND ? IN ('',"
            " name) AND (gone IS NULL OR gone > ?) ORDER BY id"
        )
        rows = self.db.execute(query, (region, kind, name, self.now)).fetchall()
        return [
            {**json.loads(body), "_id": number, "_created": created}
            for number, created, body in rows
        ]

    def add_thing(self, region: str, kind: str, name: str, body: Json) -> None:
        """Writes a new thing."""
        self.db.execute(
            "INSERT INTO aws_thing (region, kind, name, created, body) VALUES (?,?,?,?,?)",
            (region, kind, name, self.now, json.dumps(body)),
        )

    def write_thing(self, thing: Json) -> None:
        """Writes a thing's changed body."""
        body = {key: value for key, value in thing.items() if not key.startswith("_")}
        self.db.execute(
            "UPDATE aws_thing SET body = ? WHERE id = ?", (json.dumps(body), thing["_id"])
        )

    def end_thing(self, thing: Json) -> None:
        """From now on it is not there."""
        self.db.execute("UPDATE aws_thing SET gone = ? WHERE id = ?", (self.now, thing["_id"]))

    # Client tokens

    def answered(self, region: str, operation: str, token: str) -> tuple[str, Json] | None:
        """(digest of the parameters, answer) of an earlier call with this token."""
        row = self.db.execute(
            "SELECT digest, answer FROM aws_token WHERE region = ? AND operation = ? AND token = ?",
            (region, operation, token),
        ).fetchone()
        return (row[0], json.loads(row[1])) if row else None

    def remember(self, region: str, operation: str, token: str, digest: str, answer: Json) -> None:
        """Keeps the answer to a call with a token."""
        self.db.execute(
            "INSERT OR REPLACE INTO aws_token VALUES (?,?,?,?,?)",
            (region, operation, token, digest, json.dumps(answer)),
        )
