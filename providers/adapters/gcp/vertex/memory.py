"""What this machine knows of its jobs that Vertex AI cannot be told: a custom job has no call that edits it. Owns one table of an SQLite file.

A new generation, and that a job was cancelled because it was released, stand here. In a rehearsal the table stands in the rehearsal store's file, so
that it is forgotten together with the jobs. Another machine reads a job's generation as it was when it was made; what it then leaves alone its
stack's Ownership still ends. sqlite3 is imported on first use.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = "CREATE TABLE IF NOT EXISTS vertex_known (job TEXT PRIMARY KEY, generation TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 0)"


class Known(NamedTuple):
    """`generation` is empty where the label still says it."""

    generation: str = ""
    released: bool = False


class Memory:
    """The table. Safe from any thread and process; each call opens the file and closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        import os
        import sqlite3

        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self.path, timeout=30.0, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=FULL")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'vertex_known'").fetchone():
                db.execute(_SCHEMA)
            yield db

    def of(self, job: str) -> Known:
        """What is known of a job."""
        if not self.path.exists():
            return Known()
        with self._open() as db:
            row = db.execute("SELECT generation, released FROM vertex_known WHERE job = ?", (job,)).fetchone()
        return Known(str(row[0]), bool(row[1])) if row else Known()

    def relabel(self, job: str, generation: str) -> None:
        """Keeps a job's new generation. On disk when this returns."""
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO vertex_known (job) VALUES (?)", (job,))
            db.execute("UPDATE vertex_known SET generation = ? WHERE job = ?", (generation, job))

    def release(self, job: str) -> None:
        """Notes that a job is cancelled because it is released. On disk when this returns."""
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO vertex_known (job) VALUES (?)", (job,))
            db.execute("UPDATE vertex_known SET released = 1 WHERE job = ?", (job,))
