"""The rows of the stand-in: apps, images, sandboxes. Owns their tables, the queue, and what a row
means at a time. Imports only the store.

A queued sandbox gets its container when the scenario's stock allows it, first come first served;
who reads next, from any process and after any jump of the clock, settles that first and sees the
same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.modal.gpus import PROVIDER, machine_type, upgrade_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from providers.rehearsal.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS modal_app (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, environment TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS modal_image (
  id TEXT PRIMARY KEY, content TEXT NOT NULL, built REAL NOT NULL);
CREATE TABLE IF NOT EXISTS modal_sandbox (
  id TEXT PRIMARY KEY, app TEXT NOT NULL, name TEXT NOT NULL, idempotency TEXT NOT NULL,
  region TEXT NOT NULL, gpu TEXT NOT NULL, exact INTEGER NOT NULL, gpu_count INTEGER NOT NULL,
  timeout_s REAL NOT NULL, created REAL NOT NULL, ready REAL NOT NULL, doom TEXT NOT NULL,
  task TEXT NOT NULL, started REAL, delivered TEXT NOT NULL, ended REAL, status TEXT NOT NULL,
  tags TEXT NOT NULL, definition BLOB NOT NULL);
"""

TERMINATED, TIMEOUT, INTERNAL_FAILURE = "TERMINATED", "TIMEOUT", "INTERNAL_FAILURE"


class Sandbox(NamedTuple):
    """A sandbox's row. `ready` is the earliest start, `doom` the status it will end with at once
    ("" for none), `status` "" until it has ended.
    """

    id: str
    app: str
    name: str
    idempotency: str
    region: str
    gpu: str
    exact: int
    gpu_count: int
    timeout_s: float
    created: float
    ready: float
    doom: str
    task: str
    started: float | None
    delivered: str
    ended: float | None
    status: str
    tags: str
    definition: bytes

    def tag_map(self) -> dict[str, str]:
        """Its tags."""
        found: dict[str, str] = json.loads(self.tags)
        return found


class State:
    """What the server knows. Every method is one transaction or less."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.tables(SCHEMA)

    def app(self, name: str, environment: str, *, create: bool) -> str:
        """The app's id, made if asked; "" when there is none."""
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT id FROM modal_app WHERE name = ? AND environment = ?", (name, environment)
            ).fetchone()
            if row is None and create:
                row = (new_id("ap"),)
                db.execute(
                    "INSERT INTO modal_app VALUES (?, ?, ?, ?)",
                    (row[0], name, environment, self.store.now()),
                )
            return str(row[0]) if row else ""

    def has_app(self, app: str) -> bool:
        """True when there is such an app."""
        return (
            self.store.connection()
            .execute("SELECT 1 FROM modal_app WHERE id = ?", (app,))
            .fetchone()
            is not None
        )

    def image(self, content: str) -> str:
        """The id of an image of this content; the same content is the same image."""
        with self.store.transaction() as db:
            row = db.execute("SELECT id FROM modal_image WHERE content = ?", (content,)).fetchone()
            if row is None:
                row = (new_id("im"),)
                db.execute(
                    "INSERT INTO modal_image VALUES (?, ?, ?)", (row[0], content, self.store.now())
                )
            return str(row[0])

    def has_image(self, image: str) -> bool:
        """True when there is such an image."""
        return (
            self.store.connection()
            .execute("SELECT 1 FROM modal_image WHERE id = ?", (image,))
            .fetchone()
            is not None
        )

    def add(self, sandbox: Sandbox) -> None:
        """Puts a sandbox into the queue."""
        with self.store.transaction() as db:
            db.execute(
                f"INSERT INTO modal_sandbox VALUES ({', '.join('?' * len(sandbox))})",  # noqa: S608
                sandbox,
            )

    def sandbox(self, sandbox_id: str) -> Sandbox | None:
        """The row as of now."""
        self.settle()
        return _one(self.store.connection(), "id = ?", (sandbox_id,))

    def by_idempotency(self, key: str) -> Sandbox | None:
        """The sandbox that an earlier try of the same call made."""
        return _one(self.store.connection(), "idempotency = ?", (key,)) if key else None

    def by_task(self, task: str) -> Sandbox | None:
        """The sandbox of a container, as of now."""
        self.settle()
        return _one(self.store.connection(), "task = ?", (task,)) if task else None

    def by_name(self, app: str, name: str) -> Sandbox | None:
        """The unfinished sandbox of that name, as of now."""
        self.settle()
        return (
            _one(self.store.connection(), "app = ? AND name = ? AND ended IS NULL", (app, name))
            if name
            else None
        )

    def unfinished(self, app: str = "") -> list[Sandbox]:
        """Every sandbox that has not ended, newest first; of one app if it is named."""
        self.settle()
        return _many(
            self.store.connection(),
            "? IN ('', app) AND ended IS NULL ORDER BY created DESC, id",
            (app,),
        )

    def running_tasks(self, app: str) -> list[Sandbox]:
        """Every sandbox whose container is listed: those that run, and those whose end has not
        reached the list yet.
        """
        self.settle()
        lag = self.store.latency(PROVIDER, "delete")
        rows = _many(self.store.connection(), "app = ? AND started IS NOT NULL", (app,))
        return [row for row in rows if row.ended is None or self.store.now() < row.ended + lag]

    def set_tags(self, sandbox_id: str, tags: Mapping[str, str]) -> None:
        """Replaces the tags."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_sandbox SET tags = ? WHERE id = ?",
                (json.dumps(dict(tags)), sandbox_id),
            )

    def deliver(self, sandbox_id: str, gpu_type: str, count: int) -> None:
        """Changes the GPUs that a sandbox has."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_sandbox SET delivered = ?, gpu_count = ? WHERE id = ?",
                (gpu_type, count, sandbox_id),
            )

    def end(self, sandbox_id: str, status: str) -> None:
        """Ends a sandbox now, unless it has ended."""
        self.settle()
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_sandbox SET ended = ?, status = ? WHERE id = ? AND ended IS NULL",
                (self.store.now(), status, sandbox_id),
            )

    def settle(self) -> None:
        """Writes what has happened by now: containers started, time limits passed."""
        now = self.store.now()
        db = self.store.connection()
        if not db.execute("SELECT 1 FROM modal_sandbox WHERE ended IS NULL").fetchone():
            return
        with self.store.transaction() as db:
            for row in _many(db, "ended IS NULL AND started IS NOT NULL", ()):
                self._expire(db, row, now)
            for row in _many(
                db, "ended IS NULL AND started IS NULL AND ready <= ? ORDER BY created, id", (now,)
            ):
                self._start(db, row, now)

    def _expire(self, db: sqlite3.Connection, row: Sandbox, now: float) -> None:
        limit = (row.started or 0.0) + row.timeout_s
        if now >= limit:
            db.execute(
                "UPDATE modal_sandbox SET ended = ?, status = ? WHERE id = ?",
                (limit, TIMEOUT, row.id),
            )

    def _start(self, db: sqlite3.Connection, row: Sandbox, now: float) -> None:
        if row.doom:
            db.execute(
                "UPDATE modal_sandbox SET ended = ?, status = ? WHERE id = ?",
                (row.ready, row.doom, row.id),
            )
            return
        choices = [row.gpu]
        upgrade = upgrade_of(row.gpu, exact=bool(row.exact))
        # An upgrade is given only where the scenario says that there is some: else no stockout of
        # the smaller card could be rehearsed.
        if upgrade and any(line.gpu == upgrade for line in self.store.stock_lines(PROVIDER)):
            choices.append(upgrade)
        for choice in choices:
            since = self._free_since(db, row, choice)
            if since is not None:
                started = min(now, max(row.ready, since))
                moved = row._replace(started=started, delivered=choice, task=new_id("ta"))
                db.execute(
                    "UPDATE modal_sandbox SET started = ?, delivered = ?, task = ? WHERE id = ?",
                    (started, choice, moved.task, row.id),
                )
                self._expire(db, moved, now)
                return

    def _free_since(self, db: sqlite3.Connection, row: Sandbox, choice: str) -> float | None:
        """Since when the scenario has room for this one; None while it has none."""
        return self.free_since(db, row.region, machine_type(row.gpu_count), choice)

    def free_since(
        self, db: sqlite3.Connection, region: str, machine: str, choice: str
    ) -> float | None:
        """Since when the scenario has room for one more container with this GPU, whatever runs in
        it; None while it has none.
        """
        line = self.store.stock(PROVIDER, region, "", machine, [choice], "on-demand")
        if line.machines is None:
            return line.since
        running = [
            (row.gpu_count, row.delivered)
            for row in _many(db, "ended IS NULL AND started IS NOT NULL AND region = ?", (region,))
        ]
        query = (
            "SELECT gpu_count, delivered FROM modal_container WHERE ended IS NULL AND started IS"
            " NOT NULL AND region = ?"
        )
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'modal_container'").fetchone():
            running += db.execute(query, (region,)).fetchall()
        taken = [
            count
            for count, gpu_name in running
            if line.machine_type in {"", machine_type(count)} and line.gpu in {"", gpu_name}
        ]
        return line.since if len(taken) < line.machines else None


def new_id(prefix: str) -> str:
    """An id as Modal makes them: a kind and 22 letters and digits."""
    import secrets
    import string

    letters = string.ascii_letters + string.digits
    return f"{prefix}-{''.join(secrets.choice(letters) for _ in range(22))}"


def _many(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Sandbox]:
    return [
        Sandbox(*row)
        for row in db.execute(f"SELECT * FROM modal_sandbox WHERE {where}", values)  # noqa: S608
    ]


def _one(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Sandbox | None:
    found = _many(db, f"{where} LIMIT 1", values)
    return found[0] if found else None
