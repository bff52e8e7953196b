"""The rows of Modal's volumes in a rehearsal: a name in an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.modal.state import new_id

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS modal_volume (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, environment TEXT NOT NULL, created REAL NOT NULL);
"""
MAIN = "main"


class Volumes:
    """What was made here. Every method is one transaction or less."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.tables(SCHEMA)

    def named(self, name: str, environment: str) -> str:
        """The id of the volume of that name; empty for none."""
        row = self._one("name = ? AND environment = ?", name, environment or MAIN)
        return row[0] if row else ""

    def name(self, volume: str) -> str:
        """Its name; empty where it does not exist."""
        row = self._one("id = ?", volume)
        return row[1] if row else ""

    def _one(self, where: str, *values: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = (
            self.store.connection()
            .execute(f"SELECT id, name FROM modal_volume WHERE {where}", values)  # noqa: S608 - literals
            .fetchone()
        )
        return found

    def listed(self, environment: str) -> list[tuple[str, str, float]]:
        """(id, name, when it was made) of all, oldest first."""
        return (
            self.store.connection()
            .execute(
                "SELECT id, name, created FROM modal_volume WHERE environment = ? ORDER BY rowid",
                (environment or MAIN,),
            )
            .fetchall()
        )

    def add(self, name: str, environment: str) -> str:
        """Makes one; its id."""
        made = new_id("vo")
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO modal_volume VALUES (?, ?, ?, ?)",
                (made, name, environment or MAIN, self.store.now()),
            )
        return made

    def rename(self, volume: str, name: str) -> None:
        """Gives it another name."""
        with self.store.transaction() as db:
            db.execute("UPDATE modal_volume SET name = ? WHERE id = ?", (name, volume))

    def delete(self, volume: str) -> None:
        """Deletes it with its data."""
        with self.store.transaction() as db:
            db.execute("DELETE FROM modal_volume WHERE id = ?", (volume,))
