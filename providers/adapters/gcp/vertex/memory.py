"""What this machine knows of its jobs and Vertex AI does not tell: which were cancelled to release
them. Owns one table of an SQLite file.

In a rehearsal the table stands in the rehearsal store's file, so that it is forgotten together with
the jobs. sqlite3 is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.home import kept

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

_SCHEMA = "CREATE TABLE IF NOT EXISTS vertex_released (job TEXT PRIMARY KEY)"


class Memory:
    """The table. Safe from any thread and process; each call opens the file and closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._here: set[str] = set()
        """What this process has released, whether it could be written down or not."""

    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        return kept(self.path, "vertex_released", _SCHEMA)

    def released(self, job: str) -> bool:
        """True for a job that this machine cancelled in order to release it."""
        import sqlite3

        if job in self._here:
            return True
        try:
            if not self.path.exists():
                return False
            with self._open() as db:
                return (
                    db.execute("SELECT 1 FROM vertex_released WHERE job = ?", (job,)).fetchone()
                    is not None
                )
        except (sqlite3.Error, OSError):
            # Then it counts as still there: a release goes on with it.
            return False

    def release(self, job: str) -> None:
        """Notes that a job is cancelled because it is released. On disk when this returns; where
        that cannot be written, this process knows it.
        """
        import sqlite3
        from contextlib import suppress

        self._here.add(job)
        with suppress(sqlite3.Error, OSError), self._open() as db:
            db.execute("INSERT OR IGNORE INTO vertex_released VALUES (?)", (job,))
