"""The stand-in's deployed apps: their functions, calls and containers. Owns what a row means at a
time. Imports only the store.

A call waits for a container, which takes the first GPU of its function's list that the scenario
has; a job then runs for the scenario's `job` seconds, or until its time limit, and again for each
further attempt. A service has as many containers as always run. Who reads next settles that first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.modal.deployed_rows import (
    DEPLOYED,
    FAILURE,
    INITIALIZING,
    SCHEMA,
    STOPPED,
    SUCCESS,
    App,
    Call,
    Container,
    Function,
)
from providers.rehearsal.clouds.modal.gpus import ANYWHERE, PROVIDER, machine_type, upgrade_of
from providers.rehearsal.clouds.modal.state import TERMINATED, TIMEOUT, new_id

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from providers.rehearsal.clouds.modal.state import State


class Deployed:
    """What the server knows of deployed apps. Every method is one transaction or less."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.store = state.store
        self.store.tables(SCHEMA)

    # Apps

    def create(self, name: str, environment: str, tags: Mapping[str, str], key: str) -> str:
        """The id of a new app that is not live yet; the same for the same key."""
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT id FROM modal_deployed WHERE idempotency = ? AND idempotency != ''", (key,)
            ).fetchone()
            if row is None:
                row = (new_id("ap"),)
                values = App(
                    row[0],
                    name,
                    environment,
                    INITIALIZING,
                    json.dumps(dict(tags)),
                    self.store.now(),
                    None,
                    None,
                    key,
                )
                db.execute(
                    f"INSERT INTO modal_deployed VALUES ({', '.join('?' * len(values))})",  # noqa: S608
                    values,
                )
            return str(row[0])

    def app(self, app: str) -> App | None:
        """The row as of now."""
        self.settle()
        row = (
            self.store.connection()
            .execute("SELECT * FROM modal_deployed WHERE id = ?", (app,))
            .fetchone()
        )
        return App(*row) if row else None

    def live(self, name: str, environment: str) -> App | None:
        """The deployed app of that name."""
        query = "SELECT * FROM modal_deployed WHERE name = ? AND environment = ? AND state = ?"
        row = self.store.connection().execute(query, (name, environment, DEPLOYED)).fetchone()
        return App(*row) if row else None

    def apps(self, environment: str) -> list[App]:
        """Every app of the environment, stopped ones too."""
        self.settle()
        return [
            App(*row)
            for row in self.store.connection().execute(
                "SELECT * FROM modal_deployed WHERE environment = ?", (environment,)
            )
        ]

    def set_tags(self, app: str, tags: Mapping[str, str]) -> None:
        """Replaces the tags."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_deployed SET tags = ? WHERE id = ?", (json.dumps(dict(tags)), app)
            )

    def publish(self, app: str, functions: frozenset[str], tags: Mapping[str, str]) -> float:
        """Makes these functions the app's, and it live: the containers of a service roll over, what
        was overridden is forgotten.
        """
        now = self.store.now()
        with self.store.transaction() as db:
            for row in self._functions(db, "app = ?", (app,)):
                live = int(row.id in functions)
                db.execute(
                    "UPDATE modal_function SET live = ?, override = '{}' WHERE id = ?",
                    (live, row.id),
                )
                if row.web or not live:
                    db.execute(
                        "UPDATE modal_container SET ended = ? WHERE function = ? AND ended IS NULL",
                        (now, row.id),
                    )
            query = "UPDATE modal_deployed SET state = ?, tags = ?, published = ? WHERE id = ?"
            db.execute(query, (DEPLOYED, json.dumps(dict(tags)), now, app))
        self.settle()
        return now

    def stop(self, app: str) -> None:
        """Ends an app, its calls and its containers."""
        now = self.store.now()
        self.settle()
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_deployed SET state = ?, stopped = ? WHERE id = ? AND state != ?",
                (STOPPED, now, app, STOPPED),
            )
            ended = (
                "UPDATE modal_call SET status = ?, ended = ? WHERE ended IS NULL AND function IN"
                " (SELECT id FROM modal_function WHERE app = ?)"
            )
            db.execute(ended, (TERMINATED, now, app))
            db.execute(
                "UPDATE modal_container SET ended = ? WHERE app = ? AND ended IS NULL", (now, app)
            )

    # Functions

    def reserve(self, app: str, name: str) -> str:
        """The id of an app's function of that name, new or as it was."""
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT id FROM modal_function WHERE app = ? AND name = ?", (app, name)
            ).fetchone()
            if row is None:
                row = (new_id("fu"),)
                values = Function(
                    row[0], app, name, 0, "[]", ANYWHERE, 300.0, 0, "{}", "{}", 0, "", b""
                )
                db.execute(
                    f"INSERT INTO modal_function VALUES ({', '.join('?' * len(values))})",  # noqa: S608
                    values,
                )
            return str(row[0])

    def define(self, function: Function) -> None:
        """Writes what a function is; it goes live with the app's next publication."""
        with self.store.transaction() as db:
            live = db.execute(
                "SELECT live FROM modal_function WHERE id = ?", (function.id,)
            ).fetchone()
            values = function._replace(live=int(live[0]) if live else 0)
            db.execute(
                f"INSERT OR REPLACE INTO modal_function VALUES ({', '.join('?' * len(values))})",  # noqa: S608
                values,
            )

    def function(self, function: str) -> Function | None:
        """The row of a function."""
        found = self._functions(self.store.connection(), "id = ?", (function,))
        return found[0] if found else None

    def functions(self, app: str) -> list[Function]:
        """The functions of an app that are live."""
        return self._functions(self.store.connection(), "app = ? AND live = 1", (app,))

    def override(self, function: str, settings: Mapping[str, int]) -> None:
        """Overrides autoscaler settings until the next deployment."""
        with self.store.transaction() as db:
            row = self._functions(db, "id = ?", (function,))[0]
            merged = {**json.loads(row.override), **settings}
            db.execute(
                "UPDATE modal_function SET override = ? WHERE id = ?",
                (json.dumps(merged), function),
            )
        self.settle()

    def _functions(
        self, db: sqlite3.Connection, where: str, values: tuple[object, ...]
    ) -> list[Function]:
        return [
            Function(*row)
            for row in db.execute(f"SELECT * FROM modal_function WHERE {where}", values)  # noqa: S608
        ]

    # Calls

    def spawn(self, function: Function, key: str, doom: str, extra_s: float) -> str:
        """The id of a new call, waiting for a container; the same for the same key."""
        now = self.store.now()
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT id FROM modal_call WHERE idempotency = ? AND idempotency != ''", (key,)
            ).fetchone()
            if row is not None:
                return str(row[0])
            call, task = new_id("fc"), new_id("ta")
            db.execute(
                "INSERT INTO modal_call VALUES (?, ?, ?, ?, ?, ?, '', '', NULL, 0)",
                (call, function.id, key, now, doom, task),
            )
            self._want(
                db, function, task, call, now + self.store.latency(PROVIDER, "create") + extra_s
            )
            return call

    def calls(self, function: str) -> list[Call]:
        """Every call of a function."""
        self.settle()
        return self._calls(self.store.connection(), "function = ?", (function,))

    def call(self, call: str) -> Call | None:
        """The row as of now."""
        self.settle()
        found = self._calls(self.store.connection(), "id = ?", (call,))
        return found[0] if found else None

    def cancel(self, call: str) -> None:
        """Ends a call and its container, unless it has ended."""
        self.settle()
        now = self.store.now()
        with self.store.transaction() as db:
            db.execute(
                "UPDATE modal_call SET status = ?, exception = 'cancelled', ended = ? WHERE id = ?"
                " AND ended IS NULL",
                (TERMINATED, now, call),
            )
            db.execute(
                "UPDATE modal_container SET ended = ? WHERE call = ? AND ended IS NULL", (now, call)
            )

    def _calls(self, db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Call]:
        return [Call(*row) for row in db.execute(f"SELECT * FROM modal_call WHERE {where}", values)]  # noqa: S608 (conditions of this file)

    # Containers

    def containers(self, app: str = "") -> list[Container]:
        """Every container that is listed: those that run, and those whose end has not reached the
        list yet; of one app if it is named.
        """
        self.settle()
        lag = self.store.latency(PROVIDER, "delete")
        rows = self._containers(
            self.store.connection(), "? IN ('', app) AND started IS NOT NULL", (app,)
        )
        return [row for row in rows if row.ended is None or self.store.now() < row.ended + lag]

    def history(self, app: str) -> list[Container]:
        """Every container of an app that was ever there."""
        self.settle()
        return self._containers(self.store.connection(), "app = ? AND started IS NOT NULL", (app,))

    def waiting(self, app: str) -> list[Container]:
        """The containers of an app that are wanted and not there yet."""
        self.settle()
        return self._containers(
            self.store.connection(), "app = ? AND started IS NULL AND ended IS NULL", (app,)
        )

    def container(self, task: str) -> Container | None:
        """The row of a container that has started."""
        self.settle()
        found = self._containers(self.store.connection(), "id = ? AND started IS NOT NULL", (task,))
        return found[0] if found else None

    def take_back(self, app: str) -> int:
        """Takes the containers of an app back; a job's input is restarted, a service's container
        replaced. How many that were.
        """
        now = self.store.now()
        taken = [row for row in self.containers(app) if row.ended is None]
        with self.store.transaction() as db:
            for row in taken:
                db.execute("UPDATE modal_container SET ended = ? WHERE id = ?", (now, row.id))
                if row.call:
                    task = new_id("ta")
                    db.execute("UPDATE modal_call SET task = ? WHERE id = ?", (task, row.call))
                    self._want(
                        db,
                        self._functions(db, "id = ?", (row.function,))[0],
                        task,
                        row.call,
                        now + self.store.latency(PROVIDER, "create"),
                    )
        return len(taken)

    def _containers(
        self, db: sqlite3.Connection, where: str, values: tuple[object, ...]
    ) -> list[Container]:
        return [
            Container(*row)
            for row in db.execute(f"SELECT * FROM modal_container WHERE {where}", values)  # noqa: S608
        ]

    def _want(
        self, db: sqlite3.Connection, function: Function, task: str, call: str, ready: float
    ) -> None:
        row = Container(
            task,
            function.app,
            function.id,
            call,
            function.choices,
            function.region,
            self.store.now(),
            ready,
            None,
            "",
            0,
            None,
        )
        db.execute(f"INSERT INTO modal_container VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 (question marks only)

    # What has happened by now

    def settle(self) -> None:
        """Containers that always run are wanted, wanted ones started, calls ended."""
        now = self.store.now()
        with self.store.transaction() as db:
            for function in self._functions(
                db,
                "live = 1 AND web = 1 AND app IN (SELECT id FROM modal_deployed WHERE state = ?)",
                (DEPLOYED,),
            ):
                self._scale(db, function, now)
            for row in self._containers(
                db, "ended IS NULL AND started IS NULL AND ready <= ? ORDER BY created, id", (now,)
            ):
                self._start(db, row, now)
            for call in self._calls(db, "ended IS NULL", ()):
                self._end(db, call, now)

    def _scale(self, db: sqlite3.Connection, function: Function, now: float) -> None:
        least = function.settings().get("min_containers", 0)
        there = self._containers(
            db, "function = ? AND ended IS NULL ORDER BY created, id", (function.id,)
        )
        for _ in range(least - len(there)):
            self._want(db, function, new_id("ta"), "", now + self.store.latency(PROVIDER, "create"))
        window = float(function.settings().get("scaledown_window", 60))
        for row in there[least:]:
            # Nobody sends requests here: what is above the floor idles until its window is over.
            if row.started is None or now >= row.started + window:
                db.execute(
                    "UPDATE modal_container SET ended = ? WHERE id = ?",
                    (now if row.started is None else row.started + window, row.id),
                )

    def _start(self, db: sqlite3.Connection, row: Container, now: float) -> None:
        choices: list[tuple[str, bool, int]] = [tuple(choice) for choice in json.loads(row.choices)]
        for name, exact, count in choices:
            upgrade = upgrade_of(name, exact=exact)
            offered = (
                [name, upgrade]
                if upgrade and any(line.gpu == upgrade for line in self.store.stock_lines(PROVIDER))
                else [name]
            )
            for delivered in offered:
                since = self.state.free_since(db, row.region, machine_type(count), delivered)
                if since is None:
                    continue
                started = min(now, max(row.ready, since))
                query = (
                    "UPDATE modal_container SET started = ?, delivered = ?, gpu_count = ? WHERE"
                    " id = ?"
                )
                db.execute(query, (started, delivered, count, row.id))
                return

    def _end(self, db: sqlite3.Connection, call: Call, now: float) -> None:
        """A job's attempts, one after the other in its container."""
        found = self._containers(db, "id = ? AND started IS NOT NULL", (call.task,))
        function = self._functions(db, "id = ?", (call.function,))
        if not found or found[0].started is None or not function:
            return
        runs = self.store.latency(PROVIDER, "job")
        late = runs > function[0].timeout_s
        once = min(runs, function[0].timeout_s)
        word = (
            TIMEOUT
            if late
            else (
                SUCCESS if call.doom in {"", "0"} else FAILURE if call.doom.isdigit() else call.doom
            )
        )
        attempts = 1 if word == SUCCESS else function[0].retries + 1
        over = found[0].started + once * attempts
        if now < over:
            return
        exception = (
            ""
            if word == SUCCESS
            else (
                f"timed out after {once:g}s"
                if late
                else f"RuntimeError: exit code {call.doom}"
                if word == FAILURE
                else ""
            )
        )
        query = (
            "UPDATE modal_call SET status = ?, exception = ?, ended = ?, attempts = ? WHERE id = ?"
        )
        db.execute(query, (word, exception, over, attempts, call.id))
        db.execute("UPDATE modal_container SET ended = ? WHERE id = ?", (over, call.task))
