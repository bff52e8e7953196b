"""What this machine knows of its jobs and Vertex AI does not tell: which were cancelled to release them. Owns one table of an SQLite file.

In a rehearsal the table stands in the rehearsal store's file, so that it is forgotten together with the jobs. sqlite3 is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import kept

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

_SCHEMA = "CREATE TABLE IF NOT EXISTS vertex_released (job TEXT PRIMARY KEY)"


class Memory:
    """The table. Safe from any thread and process; each call opens the file and closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        return kept(self.path, "vertex_released", _SCHEMA)

    def released(self, job: str) -> bool:
        """True for a job that this machine cancelled in order to release it."""
        if not self.path.exists():
            return False
        with self._open() as db:
            return db.execute("SELECT 1 FROM vertex_released WHERE job = ?", (job,)).fetchone() is not None

    def release(self, job: str) -> None:
        """Notes that a job is cancelled because it is released. On disk when this returns."""
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO vertex_released VALUES (?)", (job,))
