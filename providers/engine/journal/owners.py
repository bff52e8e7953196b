"""Owners: the stacks that this home has met, and what their states claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import placements
from providers.engine.journal.codec import handles_in, handles_out

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from providers.engine.journal.database import Database
    from providers.engine.journal.placements import PlacementRow
    from providers.model.machine import Handle


class OwnerRow(NamedTuple):
    """An owner that this machine has met. `project` and `stack` are empty for what was bought
    without a stack; `backend` is where the stack's state was kept when it was last seen, empty
    where that is not known.
    """

    owner: str
    project: str
    stack: str
    backend: str


class ClaimRow(NamedTuple):
    """A generation that some state named recently, with the machines that the state knows.
    `cluster` is empty while it is only being imported.
    """

    cluster: str
    generation: str
    handles: tuple[Handle, ...]


def owned(
    journal: Database, world: str, owner: str, project: str, stack: str, *, new: bool = False
) -> None:
    """Remembers which project and stack an owner is of, and in which backend. Every claim
    of a `new` one will be here, so that its first look is already complete.
    """
    from providers.engine.journal.backend import current

    with journal.change() as db:
        if backend := current():
            db.execute("INSERT OR REPLACE INTO backends VALUES (?, ?, ?)", (world, owner, backend))
        db.execute(
            "INSERT OR IGNORE INTO owners VALUES (?, ?, ?, ?, ?)",
            (world, owner, project, stack, int(new)),
        )
        db.execute(
            "UPDATE owners SET project = ?, stack = ? WHERE (world, owner) = (?, ?)",
            (project, stack, world, owner),
        )


def find(journal: Database, world: str) -> tuple[OwnerRow, ...]:
    """Every owner of a world that this machine has met: as a stack's, or as whose something was
    ordered.
    """
    query = (
        "SELECT met.owner, coalesce(project, ''), coalesce(stack, ''), coalesce(backend, '')"
        " FROM (SELECT owner FROM owners WHERE world = ?1 UNION SELECT owner FROM orders WHERE"
        " world = ?1 UNION SELECT owner FROM launches WHERE world = ?1) AS met LEFT JOIN owners"
        " ON (owners.world, owners.owner) = (?1, met.owner) LEFT JOIN backends ON"
        " (backends.world, backends.owner) = (?1, met.owner) ORDER BY met.owner"
    )
    with journal.read() as db:
        return tuple(OwnerRow(*row) for row in db.execute(query, (world,)).fetchall())


def previous(
    journal: Database, world: str, owner: str, project: str, stack: str
) -> tuple[PlacementRow, ...]:
    """Placements of other owners of the same project and stack that still have machines:
    perhaps only this journal still knows of them.
    """
    with journal.read() as db:
        query = "SELECT owner FROM owners WHERE (world, project, stack) = (?, ?, ?) AND owner != ?"
        owners = {row[0] for row in db.execute(query, (world, project, stack, owner))}
    # What another machine bought, that one's journal knows better.
    return tuple(
        launch
        for launch in placements.standing(journal, world)
        if launch.owner in owners and not launch.record.get("remembered")
    )


def claim(
    journal: Database,
    world: str,
    owner: str,
    cluster: str,
    generation: str,
    handles: Sequence[Handle],
) -> None:
    """A state names this generation and these machines, as of the owner's present look."""
    with journal.change() as db:
        look = _looks(db, world, owner)
        db.execute(
            "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
            (world, owner, generation, cluster, handles_out(handles), look),
        )


def claims(journal: Database, world: str, owner: str) -> tuple[ClaimRow, ...] | None:
    """What states have claimed since the owner's last look; None where nobody has looked yet,
    so that nothing is known.
    """
    with journal.read() as db:
        look = _looks(db, world, owner)
        rows = db.execute(
            "SELECT cluster, generation, native_ids FROM claims WHERE world = ? AND owner = ?"
            " AND look >= ?",
            (world, owner, look),
        ).fetchall()
        return tuple(ClaimRow(row[0], row[1], handles_in(row[2])) for row in rows) if look else None


def look(journal: Database, world: str, owner: str, mine: Collection[str] = ()) -> None:
    """Begins the owner's next look: what was claimed before no longer counts, except the
    generations that this run has named already.
    """
    with journal.change() as db:
        db.execute("INSERT OR IGNORE INTO owners VALUES (?, ?, '', '', 0)", (world, owner))
        db.execute(
            "UPDATE owners SET looks = looks + 1 WHERE (world, owner) = (?, ?)", (world, owner)
        )
        look = _looks(db, world, owner)
        for generation in mine:
            db.execute(
                "UPDATE claims SET look = ? WHERE (world, owner, generation) = (?, ?, ?)",
                (look, world, owner, generation),
            )


def _looks(db: sqlite3.Connection, world: str, owner: str) -> int:
    row = db.execute(
        "SELECT looks FROM owners WHERE (world, owner) = (?, ?)", (world, owner)
    ).fetchone()
    return int(row[0]) if row is not None else 0
