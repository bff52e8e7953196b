"""One SQLite file that several processes and threads use at once. Owns its opening and its
transactions; sqlite3 is imported when one is opened.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from providers.home import private, remedy

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

VERSION = 1
"""Of the file's tables, the stand-ins' own included: to be raised with every change that an older
file does not have.
"""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS stock (
  provider TEXT NOT NULL, place TEXT NOT NULL, machine_type TEXT NOT NULL, gpu TEXT NOT NULL,
  capacity TEXT NOT NULL, count INTEGER, since REAL NOT NULL,
  PRIMARY KEY (provider, place, machine_type, gpu, capacity));
CREATE TABLE IF NOT EXISTS latency (
  provider TEXT NOT NULL, step TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (provider, step));
CREATE TABLE IF NOT EXISTS quota (
  provider TEXT NOT NULL, place TEXT NOT NULL, metric TEXT NOT NULL, count REAL NOT NULL,
  PRIMARY KEY (provider, place, metric));
CREATE TABLE IF NOT EXISTS fault (
  id INTEGER PRIMARY KEY, provider TEXT NOT NULL, method TEXT NOT NULL, kind TEXT NOT NULL,
  times INTEGER, place TEXT NOT NULL, machine_type TEXT NOT NULL, settings TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS request (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, provider TEXT NOT NULL, verb TEXT NOT NULL,
  method TEXT NOT NULL, path TEXT NOT NULL, status INTEGER NOT NULL, fault TEXT NOT NULL);
"""


class Database:
    """The shared file. Cheap to open; safe from any thread and process."""

    def __init__(self, path: Path) -> None:
        import threading

        self.path = path
        self._local = threading.local()
        self._prepare()

    def _prepare(self) -> None:
        import errno
        import sqlite3
        import time

        for attempt in range(250):
            try:
                db = self.connection()
                if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    db.execute("PRAGMA journal_mode=WAL")
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'request'").fetchone():
                    with self.transaction() as writer:
                        self.tables(_SCHEMA)
                        writer.execute(f"PRAGMA user_version = {VERSION}")
                found = db.execute("PRAGMA user_version").fetchone()[0]
                if found != VERSION:
                    text = (
                        f"the rehearsal store is of version {found}, and this is version {VERSION};"
                        " move it away to start over"
                    )
                    raise OSError(errno.EINVAL, text, str(self.path))
            except sqlite3.DatabaseError as error:
                # Switching a new file to WAL does not wait for other openers as everything else
                # does.
                if (
                    error.sqlite_errorcode not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
                    or attempt == 249
                ):
                    todo = remedy(error, "move it away to start over")
                    raise OSError(
                        errno.EIO,
                        f"the rehearsal store cannot be used ({error}); {todo}",
                        str(self.path),
                    ) from error
                time.sleep(0.02)
            else:
                return

    def connection(self) -> sqlite3.Connection:
        """This thread's connection. Reads may use it directly; writes go through `transaction`."""
        import sqlite3

        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            with suppress(OSError):  # a file that cannot be made is SQLite's to tell
                private(self.path)
            found = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            found.execute("PRAGMA synchronous=NORMAL")
            self._local.db = found
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The only writer until the block ends; kept if it ends well, undone otherwise. Inside
        another one it is part of that.
        """
        db = self.connection()
        if db.in_transaction:
            yield db
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def tables(self, schema: str) -> None:
        """Makes a stand-in's tables if they are not there: statements of the form `CREATE TABLE IF
        NOT EXISTS`, ended by `;`.
        """
        with self.transaction() as db:
            for statement in schema.split(";"):
                if statement.strip():
                    db.execute(statement)

    def close(self) -> None:
        """Closes this thread's connection; the next use opens it again."""
        found = getattr(self._local, "db", None)
        if found is not None:
            found.close()
            del self._local.db
