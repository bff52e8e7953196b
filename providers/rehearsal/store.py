"""The rehearsal store: one SQLite file that every rehearsal cloud of this machine shares.

Owns the world's clock, the scenario (stock, latencies, quotas, faults) and the log of requests.
Stand-ins keep their own tables in it. Several processes and threads use it at once, so nothing
lives in memory: what has happened so far is a function of the rows and `now()`. Its file is a
`Database`; what a scenario can say is in `scenario`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.home import REHEARSAL_FILE, home
from providers.rehearsal.database import Database
from providers.rehearsal.scenario import (
    ANY,
    DEFAULT_STOCK,
    FAULTS,
    JOB_FAILS,
    LATENCIES_S,
    NODE_FAULTS,
    NODE_LOOKS,
    Fault,
    Request,
    StockLine,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

AHEAD_MAX_S = 3_650 * 86_400.0
"""How far the world may be ahead of real time: ten years, so that every moment in it can still be
written as a date.
"""


class Store(Database):
    """The shared file. Cheap to open; safe from any thread and process. `clock` is the real time
    under the world's offset.
    """

    def __init__(self, path: Path, clock: Callable[[], float] | None = None) -> None:
        import time

        self._clock = clock or time.time
        super().__init__(path)

    # The clock

    def offset(self) -> float:
        """Seconds that the world is ahead of real time."""
        return float(self.value("clock_offset_s") or 0.0)

    def now(self) -> float:
        """The world's moment, in seconds since the epoch."""
        return self._clock() + self.offset()

    def advance(self, seconds: float) -> float:
        """Moves the world ahead and returns the new moment. It never goes back: rows of the future
        would make no sense. Raises ValueError.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"the clock moves forward by a number of seconds, not by {seconds}")
        if self.offset() + seconds > AHEAD_MAX_S:
            raise ValueError("the world is at most ten years ahead of real time")
        with self.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('clock_offset_s', ?)",
                (repr(self.offset() + seconds),),
            )
            return self.now()

    def hold_at_most(self, seconds: float) -> None:
        """Sets `hold_s`: 0 where the clock jumps, so that nothing happens while anybody waits."""
        self.set_value("hold_s", repr(seconds))

    def hold_s(self) -> float:
        """How many real seconds a server holds an answer at most while there is no news."""
        return float(self.value("hold_s") or "inf")

    # Stock

    def set_stock(
        self,
        provider: str,
        place: str,
        machine_type: str,
        capacity: str,
        count: int | None,
        gpu: str = ANY,
    ) -> None:
        """Replaces the scenario's line for exactly this: `count` machines in each place it covers,
        counting those that run (None: unlimited).
        """
        with self.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO stock VALUES (?, ?, ?, ?, ?, ?, ?)",
                (provider, place, machine_type, gpu, capacity, count, self.now()),
            )

    def drop_covered(
        self, provider: str, place: str, machine_type: str, capacity: str, gpu: str = ANY
    ) -> int:
        """Drops the lines that this one covers and that would still decide, being more exact;
        returns how many.
        """
        fields = (place, machine_type, capacity, gpu)
        with self.transaction() as db:
            covered = [
                line
                for line in self.stock_lines(provider)
                if (found := (line.place, line.machine_type, line.capacity, line.gpu)) != fields
                and all(mine in (ANY, its) for mine, its in zip(fields, found, strict=True))
            ]
            for line in covered:
                db.execute(
                    "DELETE FROM stock WHERE (provider, place, machine_type, gpu, capacity) = (?,"
                    " ?, ?, ?, ?)",
                    (line.provider, line.place, line.machine_type, line.gpu, line.capacity),
                )
        return len(covered)

    def stock_lines(self, provider: str = ANY) -> tuple[StockLine, ...]:
        """The scenario's lines, of one provider or of all."""
        rows = self.connection().execute(
            "SELECT * FROM stock WHERE ? IN ('', provider) ORDER BY provider, place, machine_type,"
            " gpu, capacity",
            (provider,),
        )
        return tuple(StockLine(*row) for row in rows)

    def stock(
        self,
        provider: str,
        region: str,
        zone: str,
        machine_type: str,
        gpus: Sequence[str],
        capacity: str,
    ) -> StockLine:
        """The line that decides here: the most exact one (place first, then machine type, GPU,
        capacity kind). Without one, no end.
        """
        best, best_rank = (
            StockLine(provider, ANY, ANY, ANY, ANY, None, 0.0),
            (
                -1,
                False,
                False,
                False,
            ),
        )
        for line in self.stock_lines(provider):
            if (
                line.place in {ANY, region, zone}
                and line.machine_type in {ANY, machine_type}
                and (not line.gpu or line.gpu in gpus)
                and line.capacity in {ANY, capacity}
            ):
                rank = (
                    2 if line.place == zone and zone else 1 if line.place else 0,
                    bool(line.machine_type),
                    bool(line.gpu),
                    bool(line.capacity),
                )
                if rank > best_rank:
                    best, best_rank = line, rank
        return best

    # Latencies and quotas

    def set_latency(self, provider: str, step: str, seconds: float) -> None:
        """Sets how long a step takes, in world seconds. Raises ValueError for an unknown step."""
        if step not in LATENCIES_S:
            raise ValueError(f"unknown step {step!r}: one of {', '.join(LATENCIES_S)}")
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO latency VALUES (?, ?, ?)", (provider, step, seconds))

    def latency(self, provider: str, step: str) -> float:
        """How long a step takes, in world seconds."""
        row = (
            self.connection()
            .execute(
                "SELECT seconds FROM latency WHERE provider = ? AND step = ?", (provider, step)
            )
            .fetchone()
        )
        return float(row[0]) if row else LATENCIES_S[step]

    def latencies(self) -> tuple[tuple[str, str, float], ...]:
        """What the scenario changed: (provider, step, seconds)."""
        return tuple(
            self.connection().execute(
                "SELECT provider, step, seconds FROM latency ORDER BY provider, step"
            )
        )

    def set_quota(self, provider: str, place: str, metric: str, count: float) -> None:
        """Sets the account's limit: `place` is a region, or empty for the whole account."""
        with self.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO quota VALUES (?, ?, ?, ?)", (provider, place, metric, count)
            )

    def quota(self, provider: str, place: str, metric: str) -> float | None:
        """The account's limit at the place, else everywhere; None where the scenario sets none."""
        found = {(at, name): count for _, at, name, count in self.quotas(provider)}
        return found.get((place, metric), found.get(("", metric)))

    def quotas(self, provider: str = ANY) -> tuple[tuple[str, str, str, float], ...]:
        """The limits that the scenario sets: (provider, place, metric, count)."""
        query = (
            "SELECT provider, place, metric, count FROM quota WHERE ? IN ('', provider) ORDER BY"
            " provider, place, metric"
        )
        return tuple(self.connection().execute(query, (provider,)))

    # Faults

    def add_fault(
        self,
        provider: str,
        method: str,
        kind: str,
        times: int | None = 1,
        *,
        place: str = ANY,
        machine_type: str = ANY,
        **settings: object,
    ) -> int:
        """Plans a failure and returns its number. Raises ValueError for an unknown kind."""
        import json

        if kind not in FAULTS:
            raise ValueError(f"unknown fault {kind!r}: one of {', '.join(FAULTS)}")
        with self.transaction() as db:
            cursor = db.execute(
                "INSERT INTO fault (provider, method, kind, times, place, machine_type, settings)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (provider, method, kind, times, place, machine_type, json.dumps(settings)),
            )
            return int(cursor.lastrowid or 0)

    def faults(self, provider: str = ANY) -> tuple[Fault, ...]:
        """The failures still to come, in the order they were planned."""
        import json

        rows = self.connection().execute(
            "SELECT * FROM fault WHERE ? IN ('', provider) ORDER BY id", (provider,)
        )
        return tuple(Fault._make((*row[:7], json.loads(row[7]))) for row in rows)

    def clear_faults(self) -> None:
        """Drops every planned failure."""
        with self.transaction() as db:
            db.execute("DELETE FROM fault")

    def take_fault(
        self, provider: str, method: str, places: Sequence[str], machine_types: Sequence[str]
    ) -> Fault | None:
        """The first failure planned for this call, with one of its times used up; None if the call
        is to go well.
        """
        from fnmatch import fnmatchcase

        for fault in self.faults(provider):
            if (
                fault.kind != JOB_FAILS
                and NODE_FAULTS.get(fault.kind, "") == (method if method in NODE_LOOKS else "")
                and fnmatchcase(method, fault.method)
                and (not fault.place or fault.place in places)
                and (not fault.machine_type or fault.machine_type in machine_types)
            ):
                with self.transaction() as db:
                    if fault.times == 1:
                        db.execute("DELETE FROM fault WHERE id = ?", (fault.id,))
                    elif fault.times is not None:
                        db.execute("UPDATE fault SET times = times - 1 WHERE id = ?", (fault.id,))
                return fault
        return None

    def set_value(self, key: str, text: str) -> None:
        """Writes one word of the store's own, under a name."""
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text))

    def value(self, key: str) -> str:
        """What was written under a name; empty for nothing."""
        row = self.connection().execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row is not None else ""

    def set_work(self, machine: str, script: str) -> None:
        """What a machine runs from now on, as if it had been written there by login. `machine` is
        its native id.
        """
        import json

        self.set_value(f"work {machine}", json.dumps([self.now(), script]))

    def work(self, machine: str) -> tuple[float, str] | None:
        """(since when, script) of what was written there by login; None for nothing."""
        import json

        if not (kept := self.value(f"work {machine}")):
            return None
        since, script = json.loads(kept)
        return float(since), str(script)

    def exit_code(self, provider: str, place: str, machine_type: str) -> int:
        """What a job ends with whose machine is made there now: 0 unless a `job-fails` is planned.
        Uses none of its times up.
        """
        for fault in self.faults(provider):
            here = fault.place in ("", place) or place.startswith(f"{fault.place}-")
            if fault.kind == JOB_FAILS and here and fault.machine_type in ("", machine_type):
                return int(str(fault.settings.get("code", 1)))
        return 0

    # The log

    def log(
        self, provider: str, verb: str, method: str, path: str, status: int, fault: str = ""
    ) -> None:
        """Keeps one answered call: never its body or query."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO request (at, provider, verb, method, path, status, fault) VALUES (?,"
                " ?, ?, ?, ?, ?, ?)",
                (self.now(), provider, verb, method, path, status, fault),
            )

    def requests(self, method: str = "*") -> tuple[Request, ...]:
        """Every call so far, oldest first, whose name matches (with `*`)."""
        from fnmatch import fnmatchcase

        rows = self.connection().execute(
            "SELECT at, provider, verb, method, path, status, fault FROM request ORDER BY id"
        )
        return tuple(
            found for found in (Request(*row) for row in rows) if fnmatchcase(found.method, method)
        )

    def mutations(self) -> tuple[Request, ...]:
        """The calls that may have changed something: every verb but GET."""
        return tuple(found for found in self.requests() if found.verb != "GET")

    # Beginning

    def has_rows(self, *tables: str) -> bool:
        """Whether any of a cloud's own tables is there and has a row."""
        db = self.connection()
        made = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        return any(
            db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 - a name of this package
            for table in tables
            if table in made
        )

    def begin(self) -> None:
        """Writes the default scenario unless this store has one already."""
        with self.transaction() as db:
            if not db.execute("SELECT 1 FROM meta WHERE key = 'begun'").fetchone():
                for provider, place, machine_type, gpu, capacity, count in DEFAULT_STOCK:
                    self.set_stock(provider, place, machine_type, capacity, count, gpu)
                db.execute("INSERT INTO meta VALUES ('begun', ?)", (repr(self.now()),))

    def go_idle(self, name: str) -> None:
        """From now on the GPUs of the machine of this name have nothing to do."""
        self.set_value(f"idle:{name}", repr(self.now()))

    def is_idle(self, name: str) -> bool:
        """Whether the GPUs of the machine of this name have nothing to do; they are busy until
        somebody says otherwise.
        """
        return self.value(f"idle:{name}") != ""

    def close_off(self, db: sqlite3.Connection, machine: str, why: str) -> None:
        """Nobody reaches that machine by ssh, for this reason; empty: anybody does. `machine` is
        its native id. Within a transaction.
        """
        key = f"closed {machine}"
        db.execute("DELETE FROM meta WHERE key = ?", (key,))
        if why:
            db.execute("INSERT INTO meta VALUES (?, ?)", (key, why))

    def closed_off(self, machine: str) -> str:
        """Why nobody reaches that machine by ssh; empty where one does."""
        return self.value(f"closed {machine}")

    def reset(self) -> None:
        """Forgets everything, machines and log included, and begins again with the default scenario
        and real time.
        """
        with self.transaction() as db:
            for (table,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                db.execute(f'DELETE FROM "{table}"')  # noqa: S608 (a name from the file's own schema)
            self.begin()


def open_store(file: Path | None = None) -> Store:
    """The store of this user, with the default scenario on first use. `file`: another one."""
    store = Store(file or home() / REHEARSAL_FILE)
    if not store.connection().execute("SELECT 1 FROM meta WHERE key = 'begun'").fetchone():
        store.begin()
    return store
