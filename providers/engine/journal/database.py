"""The journal: what was about to be bought, what became of it, what was refused lately, and who is
at work. One SQLite file for all worlds.

Owns durability: an order is on the disk (fsync) before the call that may create a machine, and
buying refuses to go on without that. It backs up the marks on the machines everywhere and is the
only memory where a cloud has none. Imported only when a journal exists or is about to.

Blocks grow: a scope that is refused again within `MEMORY_S` is left alone twice as long as the last
time, up to an hour (or its own time if that is longer); a success there clears it, since stockouts
last hours but end without notice.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.journal import process as leases
from providers.engine.journal.codec import order_in, order_out, ticket_in, ticket_out
from providers.engine.record import account_in, account_out
from providers.errors import Busy, GpusError
from providers.home import JOURNAL_FILE, private, remedy
from providers.model.machine import STOPPED, STOPPING, Handle, Order, Ticket
from providers.model.place import Block, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from providers.engine.record import Account, ClusterRecord
    from providers.model.offer import Candidate
    from providers.model.place import Placed

FILE = JOURNAL_FILE
INTENT, MADE, FAILED, RELEASED, UNSETTLED = "intent", "made", "failed", "released", "unsettled"
PENDING = (INTENT, UNSETTLED)
"""Orders of which it is not known, or not yet, what they made."""
OPEN = (INTENT, UNSETTLED, MADE)
"""Orders of which something may exist."""
EVERY = (*OPEN, FAILED, RELEASED)

GROWN_MAX_S = 3_600.0
MEMORY_S = 6 * 3_600.0
_BUSY_S = 10.0
_VERSION = 4

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
  token TEXT PRIMARY KEY, world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL, generation TEXT NOT NULL, fingerprint TEXT NOT NULL,
  provider TEXT NOT NULL, names TEXT NOT NULL, native_ids TEXT NOT NULL, state TEXT NOT NULL, micro_usd INTEGER, intent TEXT NOT NULL,
  ticket TEXT NOT NULL, detail TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS orders_of ON orders (world, owner, cluster);
CREATE TABLE IF NOT EXISTS blocks (
  world TEXT NOT NULL, provider TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL, machine_type TEXT NOT NULL, gpu_type TEXT NOT NULL,
  capacity TEXT NOT NULL, until REAL NOT NULL, reason TEXT NOT NULL, times INTEGER NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (world, provider, region, zone, machine_type, gpu_type, capacity));
CREATE TABLE IF NOT EXISTS closures (
  world TEXT NOT NULL, account TEXT NOT NULL, provider TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL, machine_type TEXT NOT NULL,
  gpu_type TEXT NOT NULL, capacity TEXT NOT NULL, opened INTEGER NOT NULL, until REAL NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (world, account, provider, region, zone, machine_type, gpu_type, capacity));
CREATE TABLE IF NOT EXISTS leases (
  world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL, holder TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
  boot TEXT NOT NULL, since REAL NOT NULL, PRIMARY KEY (world, owner, cluster));
CREATE TABLE IF NOT EXISTS launches (
  world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL, generation TEXT NOT NULL, provider TEXT NOT NULL, native_ids TEXT NOT NULL,
  micro_usd INTEGER, price_as_of TEXT NOT NULL, price_source TEXT NOT NULL, launched_at REAL NOT NULL, ended_at REAL, record TEXT NOT NULL,
  PRIMARY KEY (world, owner, cluster, generation, launched_at));
CREATE TABLE IF NOT EXISTS claims (
  world TEXT NOT NULL, owner TEXT NOT NULL, generation TEXT NOT NULL, cluster TEXT NOT NULL, native_ids TEXT NOT NULL, look INTEGER NOT NULL,
  PRIMARY KEY (world, owner, generation));
CREATE TABLE IF NOT EXISTS owners (
  world TEXT NOT NULL, owner TEXT NOT NULL, project TEXT NOT NULL, stack TEXT NOT NULL, looks INTEGER NOT NULL, PRIMARY KEY (world, owner));
CREATE TABLE IF NOT EXISTS backends (world TEXT NOT NULL, owner TEXT NOT NULL, backend TEXT NOT NULL, PRIMARY KEY (world, owner));
"""


class OrderRow(NamedTuple):
    """One order as the journal has it. `state` is intent, made, failed, released or unsettled.
    `account` is whose settings it was placed with; None where that was not written down (an older
    journal).
    """

    order: Order
    provider: str
    state: str
    ticket: Ticket | None
    handles: tuple[Handle, ...]
    micro_usd: int | None
    detail: str
    created_at: float
    account: Account | None = None


class PlacementRow(NamedTuple):
    """One placement that was had, with its price then. `ended_at` is None while it runs, as far as
    is known here.
    """

    owner: str
    cluster: str
    generation: str
    provider: str
    native_ids: tuple[str, ...]
    micro_usd: int | None
    price_as_of: str
    price_source: str
    launched_at: float
    ended_at: float | None
    record: dict[str, Any]


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
    """A generation that some state named lately, with the machines that the state knows. `cluster`
    is empty while it is only being imported.
    """

    cluster: str
    generation: str
    handles: tuple[Handle, ...]


class Closure(NamedTuple):
    """What is known of an account and a scope: closed to it until a moment, for a reason, or
    `opened`: seen to be usable.
    """

    account: Account | None
    scope: Scope
    opened: bool
    until: float
    reason: str


class JournalBroken(GpusError):
    """The journal can't be read or written. `found` is what is wrong with it, on one line, with its
    path; `todo` what mends that.
    """

    def __init__(self, found: str, todo: str, consequence: str = "") -> None:
        self.found, self.todo = found, todo
        super().__init__("; ".join(part for part in (found, consequence, todo) if part))


class Journal:
    """One open journal. Safe from several threads and processes; every change is on the disk when
    the method returns.

    Raises GpusError, never sqlite3's own errors. Moments are on the clock of the world they belong
    to, in seconds since the epoch.
    """

    whole = True
    """Whether what was written before can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    # Orders

    def intend(self, world: str, order: Order, now: float, account: Account | None = None) -> None:
        """Writes an order down before its call is made. When this returns it is on the disk; when
        it raises, nothing may be bought.

        `account` says where it is placed: a later run with other settings still finds it there.
        """
        first = order.candidates[0]
        values = (
            order.token,
            world,
            *order.mark,
            first.provider,
            json.dumps(order.node_names),
            "[]",
            INTENT,
            max(
                (
                    candidate.micro_usd
                    for candidate in order.candidates
                    if candidate.micro_usd is not None
                ),
                default=None,
            ),
            json.dumps({**order_out(order), "account": account_out(account)}, default=str),
            "",
            "",
            now,
            now,
        )
        with self._change() as db:
            db.execute(f"INSERT INTO orders VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608 - only placeholders

    def note(self, ticket: Ticket, now: float) -> None:
        """Keeps where a pending order stands, so that any later process can go on with it."""
        self._set(
            ticket.order.token,
            now,
            ticket=json.dumps(ticket_out(ticket)),
            native_ids=_ids(ticket.handles),
        )

    def made(self, ticket: Ticket, now: float) -> None:
        """The order's machines exist."""
        price = ticket.placed.micro_usd if ticket.placed is not None else None
        self._set(
            ticket.order.token,
            now,
            state=MADE,
            ticket=json.dumps(ticket_out(ticket)),
            native_ids=_ids(ticket.handles),
            micro_usd=price,
        )

    def settled(
        self,
        token: str,
        state: str,
        now: float,
        detail: str = "",
        handles: Sequence[Handle] | None = None,
    ) -> None:
        """The order ended (`failed`: nothing of it is left; `released`: deleted, confirmed), or is
        `unsettled`, with what is known of it.
        """
        more: dict[str, Any] = {} if handles is None else {"native_ids": _ids(handles)}
        self._set(token, now, state=state, detail=detail, **more)

    def release(
        self,
        world: str,
        owner: str,
        cluster: str,
        generation: str,
        now: float,
        handles: Collection[Handle] | None = None,
    ) -> None:
        """Everything of this mark is gone, confirmed: closes its orders and its launches. An empty
        cluster or generation is any.

        With `handles`, only these machines are gone: the orders that made them are closed, and
        their launches have ended.
        """
        which = (world, owner, cluster, generation)
        match = "world = ? AND owner = ? AND ? IN ('', cluster) AND ? IN ('', generation)"
        ids = None if handles is None else {handle.native_id for handle in handles}
        with self._change() as db:
            for token, known in db.execute(
                f"SELECT token, native_ids FROM orders WHERE {match} AND state IN {OPEN}",  # noqa: S608
                which,
            ).fetchall():
                if ids is None or ids & {native for _, native in json.loads(known)}:
                    db.execute(
                        "UPDATE orders SET state = 'released', updated_at = ? WHERE token = ?",
                        (now, token),
                    )
            for rowid, known in db.execute(
                f"SELECT rowid, native_ids FROM launches WHERE {match} AND ended_at IS NULL",  # noqa: S608
                which,
            ).fetchall():
                if ids is None or ids & {native for _, native in json.loads(known)}:
                    db.execute("UPDATE launches SET ended_at = ? WHERE rowid = ?", (now, rowid))

    def forget(
        self,
        world: str,
        owner: str,
        cluster: str,
        generation: str,
        handles: Collection[Handle],
        now: float,
    ) -> None:
        """These machines are gone, confirmed, and others of their orders are not: the orders stay
        open, of what is left.
        """
        ids = {handle.native_id for handle in handles}
        with self._change() as db:
            for token, known in db.execute(
                "SELECT token, native_ids FROM orders WHERE (world, owner, cluster, generation) ="  # noqa: S608
                f" (?, ?, ?, ?) AND state IN {OPEN}",
                (world, owner, cluster, generation),
            ).fetchall():
                left = [pair for pair in json.loads(known) if pair[1] not in ids]
                if left != json.loads(known):
                    db.execute(
                        "UPDATE orders SET native_ids = ?, state = ?, updated_at = ? WHERE"
                        " token = ?",
                        (json.dumps(left), MADE if left else RELEASED, now, token),
                    )

    def adopt(
        self,
        world: str,
        owner: str,
        cluster: str,
        generation: str,
        handles: Sequence[Handle],
        now: float,
    ) -> None:
        """The orders that made these machines belong to this generation from now on; the launches
        of former ones have ended.
        """
        ids = {handle.native_id for handle in handles}
        with self._change() as db:
            for token, known in db.execute(
                "SELECT token, native_ids FROM orders WHERE (world, owner, cluster) = (?, ?, ?)"  # noqa: S608
                f" AND state IN {OPEN}",
                (world, owner, cluster),
            ).fetchall():
                if ids & {native for _, native in json.loads(known)}:
                    db.execute(
                        "UPDATE orders SET generation = ?, state = 'made', updated_at = ? WHERE"
                        " token = ?",
                        (generation, now, token),
                    )
            db.execute(
                "UPDATE launches SET ended_at = ? WHERE (world, owner, cluster) = (?, ?, ?) AND"
                " generation != ? AND ended_at IS NULL",
                (now, world, owner, cluster, generation),
            )

    def orders(
        self,
        world: str,
        owner: str,
        cluster: str | None = None,
        generation: str | None = None,
        states: Sequence[str] = OPEN,
    ) -> tuple[OrderRow, ...]:
        """The orders in these states, oldest first."""
        query = (
            "SELECT intent, provider, state, ticket, native_ids, micro_usd, detail, created_at,"
            " generation FROM orders WHERE world = ? AND owner = ? AND (? IS NULL OR cluster = ?)"
            " AND (? IS NULL OR generation = ?) ORDER BY rowid"
        )
        with self._read() as db:
            rows = db.execute(
                query, (world, owner, cluster, cluster, generation, generation)
            ).fetchall()
            return tuple(_entry(row) for row in rows if row[2] in states)

    # Who claims what

    def owned(self, world: str, owner: str, project: str, stack: str, *, new: bool = False) -> None:
        """Remembers which project and stack an owner is of, and in which backend. Of a `new` one
        every claim will be here, so that the first look can tell already.
        """
        from providers.engine.journal.backend import current

        with self._change() as db:
            if backend := current():
                db.execute(
                    "INSERT OR REPLACE INTO backends VALUES (?, ?, ?)", (world, owner, backend)
                )
            db.execute(
                "INSERT OR IGNORE INTO owners VALUES (?, ?, ?, ?, ?)",
                (world, owner, project, stack, int(new)),
            )
            db.execute(
                "UPDATE owners SET project = ?, stack = ? WHERE (world, owner) = (?, ?)",
                (project, stack, world, owner),
            )

    def owners(self, world: str) -> tuple[OwnerRow, ...]:
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
        with self._read() as db:
            return tuple(OwnerRow(*row) for row in db.execute(query, (world,)).fetchall())

    def former(self, world: str, owner: str, project: str, stack: str) -> tuple[PlacementRow, ...]:
        """Placements of other owners of the same project and stack that still have machines:
        nothing but this journal may know of them any more.
        """
        with self._read() as db:
            query = (
                "SELECT owner FROM owners WHERE (world, project, stack) = (?, ?, ?) AND owner != ?"
            )
            owners = {row[0] for row in db.execute(query, (world, project, stack, owner))}
        # What another machine bought, that one's journal knows better.
        return tuple(
            launch
            for launch in self.standing(world)
            if launch.owner in owners and not launch.record.get("remembered")
        )

    def claim(
        self, world: str, owner: str, cluster: str, generation: str, handles: Sequence[Handle]
    ) -> None:
        """A state names this generation and these machines, as of the owner's present look."""
        with self._change() as db:
            look = self._looks(db, world, owner)
            db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                (world, owner, generation, cluster, _ids(handles), look),
            )

    def claims(self, world: str, owner: str) -> tuple[ClaimRow, ...] | None:
        """What states have claimed since the owner's last look; None where nobody has looked yet,
        so that nothing can be said.
        """
        with self._read() as db:
            look = self._looks(db, world, owner)
            rows = db.execute(
                "SELECT cluster, generation, native_ids FROM claims WHERE world = ? AND owner = ?"
                " AND look >= ?",
                (world, owner, look),
            ).fetchall()
            return (
                tuple(
                    ClaimRow(row[0], row[1], tuple(Handle(*pair) for pair in json.loads(row[2])))
                    for row in rows
                )
                if look
                else None
            )

    def look(self, world: str, owner: str, mine: Collection[str] = ()) -> None:
        """Begins the owner's next look: what was claimed before no longer counts, except the
        generations that this run has named already.
        """
        with self._change() as db:
            db.execute("INSERT OR IGNORE INTO owners VALUES (?, ?, '', '', 0)", (world, owner))
            db.execute(
                "UPDATE owners SET looks = looks + 1 WHERE (world, owner) = (?, ?)", (world, owner)
            )
            look = self._looks(db, world, owner)
            for generation in mine:
                db.execute(
                    "UPDATE claims SET look = ? WHERE (world, owner, generation) = (?, ?, ?)",
                    (look, world, owner, generation),
                )

    def _looks(self, db: sqlite3.Connection, world: str, owner: str) -> int:
        row = db.execute(
            "SELECT looks FROM owners WHERE (world, owner) = (?, ?)", (world, owner)
        ).fetchone()
        return int(row[0]) if row is not None else 0

    # Launches

    def launched(self, held: ClusterRecord) -> None:
        """Keeps the full record of a placement, with its price."""
        self._launched(held, {})

    def _launched(self, held: ClusterRecord, more: dict[str, Any]) -> None:
        values = (
            held.world,
            held.owner,
            held.cluster,
            held.generation,
            held.provider,
            _ids(held.handles),
            held.micro_usd,
            held.price_as_of,
            held.price_source,
            held.launched_at,
            None,
            json.dumps({**held.to_dict(), **more}),
        )
        with self._change() as db:
            # A state names the moment in whole seconds: what it tells of an open placement is no
            # second one.
            db.execute(
                "DELETE FROM launches WHERE (world, owner, cluster, generation) = (?, ?, ?, ?) "
                "AND (launched_at = 0 OR ended_at IS NULL AND CAST(launched_at AS INTEGER) = ?)",
                (held.world, held.owner, held.cluster, held.generation, int(held.launched_at)),
            )
            db.execute(
                f"INSERT OR REPLACE INTO launches VALUES ({', '.join('?' * len(values))})",  # noqa: S608
                values,
            )

    def remember(self, held: ClusterRecord) -> None:
        """Keeps a placement that a state names and that was bought from another machine; one that
        is known here stays as it is.
        """
        with self._change() as db:
            rows = db.execute(
                "SELECT launched_at FROM launches WHERE (world, owner, cluster, generation) = (?,"
                " ?, ?, ?)",
                (held.world, held.owner, held.cluster, held.generation),
            ).fetchall()
        if not any(int(moment) == int(held.launched_at) for (moment,) in rows):
            self._launched(held, {"remembered": True})

    def rests(self, held: ClusterRecord, now: float) -> None:
        """What is held was stopped and is kept: its launch has ended, its orders stay open."""
        self._amend(held, {"status": held.status}, now)

    def ends(self, held: ClusterRecord, why: str) -> None:
        """The placement is about to be ended as at its own limit, for a reason: whoever finds it
        gone knows.
        """
        self._amend(held, {"ended_why": why})

    def concluded(self, held: ClusterRecord, status: str, why: str) -> None:
        """A placement is over, and this is how: kept beyond its machines, for whoever asks later."""
        key = (held.world, held.owner, held.cluster, held.generation)
        with self._change() as db:
            rows = db.execute(
                "SELECT rowid, record FROM launches WHERE (world, owner, cluster, generation) = (?,"
                " ?, ?, ?) ORDER BY launched_at DESC LIMIT 1",
                key,
            ).fetchall()
            for rowid, record in rows:
                db.execute(
                    "UPDATE launches SET record = ? WHERE rowid = ?",
                    (json.dumps({**json.loads(record), "concluded": [status, why]}), rowid),
                )

    def destroyed(self, world: str, owner: str, cluster: str = "", generation: str = "") -> None:
        """A placement was destroyed with its declaration, or every one of the owner: how its job
        ended is asked no more.
        """
        with self._change() as db:
            match = "world = ? AND owner = ? AND ? IN ('', cluster) AND ? IN ('', generation)"
            rows = db.execute(
                f"SELECT rowid, record FROM launches WHERE {match}",  # noqa: S608
                (world, owner, cluster, generation),
            ).fetchall()
            for rowid, record in rows:
                fields = json.loads(record)
                if fields.pop("concluded", None) is not None:
                    db.execute(
                        "UPDATE launches SET record = ? WHERE rowid = ?",
                        (json.dumps(fields), rowid),
                    )

    def conclusions(self, world: str, cluster: str = "") -> tuple[PlacementRow, ...]:
        """The last placement of each cluster where that is over and its machines are gone:
        `concluded` in its record.
        """
        last = {
            (launch.owner, launch.cluster): launch for launch in self.launches(world, "", cluster)
        }
        over = [
            launch
            for launch in last.values()
            if launch.ended_at is not None and launch.record.get("concluded")
        ]
        return tuple(
            launch for launch in over if not self.orders(world, launch.owner, launch.cluster)
        )

    def _amend(
        self, held: ClusterRecord, fields: Mapping[str, object], ended_at: float | None = None
    ) -> None:
        """Writes these fields into the record of the generation's open launch, and its end if it
        has one.
        """
        with self._change() as db:
            key = (held.world, held.owner, held.cluster, held.generation)
            match = "(world, owner, cluster, generation) = (?, ?, ?, ?) AND ended_at IS NULL"
            for rowid, record in db.execute(
                f"SELECT rowid, record FROM launches WHERE {match}",  # noqa: S608
                key,
            ).fetchall():
                written = json.dumps({**json.loads(record), **fields})
                db.execute(
                    "UPDATE launches SET record = ?, ended_at = ? WHERE rowid = ?",
                    (written, ended_at, rowid),
                )

    def ended_why(self, held: ClusterRecord) -> str:
        """Why the latest placement of this generation was ended as at its own limit; empty where it
        was not.
        """
        found = [
            launch
            for launch in self.launches(held.world, held.owner, held.cluster)
            if launch.generation == held.generation
        ]
        return str(found[-1].record.get("ended_why", "")) if found else ""

    def launches(self, world: str, owner: str = "", cluster: str = "") -> tuple[PlacementRow, ...]:
        """Every placement of a world, oldest first; narrowed by owner and cluster."""
        with self._read() as db:
            rows = db.execute(
                "SELECT owner, cluster, generation, provider, native_ids, micro_usd, price_as_of,"
                " price_source, launched_at, ended_at, record FROM launches WHERE world = ? AND ?"
                " IN ('', owner) AND ? IN ('', cluster) ORDER BY launched_at",
                (world, owner, cluster),
            ).fetchall()
            return tuple(
                PlacementRow._make(
                    (
                        *row[:4],
                        tuple(native for _, native in json.loads(row[4])),
                        *row[5:10],
                        json.loads(row[10]),
                    )
                )
                for row in rows
            )

    def standing(self, world: str, cluster: str = "") -> tuple[PlacementRow, ...]:
        """The placements that still have machines, oldest first: open ones, and of a cluster
        without one the last that was stopped and is kept, or that is over: its job has ended, or
        its own limit has.
        """
        every = self.launches(world, "", cluster)
        runs = {(launch.owner, launch.cluster) for launch in every if launch.ended_at is None}
        over = [
            launch
            for launch in every
            if launch.record.get("status") in {STOPPED, STOPPING} or launch.record.get("concluded")
        ]
        rested = {(launch.owner, launch.cluster): launch for launch in over}
        kept = [
            launch for key, launch in rested.items() if key not in runs and self.orders(world, *key)
        ]
        return tuple(
            launch
            for launch in every
            if launch.native_ids and (launch.ended_at is None or launch in kept)
        )

    # Blocks

    def blocks(self, world: str) -> tuple[Block, ...]:
        """Every block of a world, expired ones too: the planner compares with the world's moment."""
        with self._read() as db:
            rows = db.execute(
                "SELECT provider, region, zone, machine_type, gpu_type, capacity, until, reason"
                " FROM blocks WHERE world = ? ORDER BY provider, region, zone, machine_type,"
                " gpu_type, capacity",
                (world,),
            ).fetchall()
        return tuple(Block(Scope(*row[:6]), row[6], row[7]) for row in rows)

    def block(self, world: str, scope: Scope, seconds: float, reason: str, now: float) -> Block:
        """Leaves a scope alone for that long, longer when it was refused before; returns the block."""
        where = (world, *scope)
        match = (
            "(world, provider, region, zone, machine_type, gpu_type, capacity) = (?, ?, ?, ?, ?,"
            " ?, ?)"
        )
        with self._change() as db:
            row = db.execute(f"SELECT times, at, until FROM blocks WHERE {match}", where).fetchone()  # noqa: S608
            times = row[0] + 1 if row is not None and now - row[1] <= MEMORY_S else 1
            until = now + min(seconds * 2 ** min(times - 1, 16), max(seconds, GROWN_MAX_S))
            if row is not None:
                until = max(until, row[2])
            db.execute(
                "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*where, until, reason, times, now),
            )
            db.execute("DELETE FROM blocks WHERE world = ? AND until < ?", (world, now - MEMORY_S))
        return Block(scope, until, reason)

    def clear(self, world: str, place: Placed | Candidate) -> None:
        """Success at a place: whatever was blocked there is open again."""
        for block in self.blocks(world):
            if block.scope.covers(place):
                self._unblock(world, block.scope)

    def unblock(self, world: str, provider: str = "") -> int:
        """Forgets every block of a world, or of one provider there, and returns how many."""
        with self._change() as db:
            return int(
                db.execute(
                    "DELETE FROM blocks WHERE world = ? AND ? IN ('', provider)", (world, provider)
                ).rowcount
            )

    def _unblock(self, world: str, scope: Scope) -> None:
        with self._change() as db:
            db.execute(
                "DELETE FROM blocks WHERE (world, provider, region, zone, machine_type, gpu_type,"
                " capacity) = (?, ?, ?, ?, ?, ?, ?)",
                (world, *scope),
            )

    # Closures

    def closures(self, world: str) -> tuple[Closure, ...]:
        """Everything remembered of what accounts can use and cannot, expired refusals too."""
        with self._read() as db:
            rows = db.execute(
                "SELECT account, provider, region, zone, machine_type, gpu_type, capacity, opened,"
                " until, reason FROM closures WHERE world = ? ORDER BY provider, region, zone,"
                " machine_type, gpu_type, capacity",
                (world,),
            ).fetchall()
        return tuple(
            Closure(account_in(json.loads(row[0])), Scope(*row[1:7]), bool(row[7]), row[8], row[9])
            for row in rows
        )

    def close_to(
        self, world: str, account: Account | None, scope: Scope, reason: str, until: float
    ) -> None:
        """This account cannot use this scope until it is changed."""
        with self._change() as db:
            values = (world, json.dumps(account_out(account)), *scope, 0, until, reason)
            db.execute(
                "INSERT OR REPLACE INTO closures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values
            )

    def open_to(
        self, world: str, account: Account | None, place: Placed, *, remember: bool
    ) -> None:
        """This account can use this place: closures that cover it are forgotten; with `remember`
        its zone is kept as one that is open.
        """
        whose = json.dumps(account_out(account))
        covering = [
            each.scope
            for each in self.closures(world)
            if not each.opened and each.account == account and each.scope.covers(place)
        ]
        if not covering and not remember:
            return
        with self._change() as db:
            for scope in covering:
                match = (
                    "(world, account, provider, region, zone, machine_type, gpu_type, capacity) ="
                    " (?, ?, ?, ?, ?, ?, ?, ?)"
                )
                db.execute(f"DELETE FROM closures WHERE {match}", (world, whose, *scope))  # noqa: S608 - own text
            if remember:
                values = (
                    world,
                    whose,
                    *Scope(place.provider, place.region, place.zone),
                    1,
                    0.0,
                    "",
                )
                db.execute(
                    "INSERT OR REPLACE INTO closures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    values,
                )

    def forget_closures(self, world: str, provider: str = "") -> None:
        """Nothing is remembered of what accounts of this provider, or of any, can use."""
        with self._change() as db:
            db.execute(
                "DELETE FROM closures WHERE world = ? AND ? IN ('', provider)", (world, provider)
            )

    # Leases

    def take(self, world: str, owner: str, cluster: str, holder: str, now: float) -> None:
        """Takes the lease of a cluster, or raises Busy. `holder` is the taker's own token: only
        with the same one may it be taken twice.

        A lease whose process has ended is taken over.
        """
        key, me = (world, owner, cluster), leases.current()
        with self._change() as db:
            row = db.execute(
                "SELECT holder, pid, started, boot, since FROM leases WHERE (world, owner, cluster)"
                " = (?, ?, ?)",
                key,
            ).fetchone()
            if row is not None and row[0] != holder and leases.alive(leases.Process(*row[1:4])):
                minutes = max(0.0, now - row[4]) / 60
                who = "this process" if row[1] == me.pid else f"process {row[1]}"
                raise Busy(
                    f"{cluster}: {who} has been at work on it for {minutes:.0f} min; wait for it to"
                    " end, or stop it" + ("" if row[1] == me.pid else f" (kill {row[1]})")
                )
            db.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, holder, *me, now),
            )

    def holder(self, world: str, owner: str, cluster: str) -> int | None:
        """The id of the live process that has the lease; None when nobody has it."""
        with self._read() as db:
            row = db.execute(
                "SELECT pid, started, boot FROM leases WHERE (world, owner, cluster) = (?, ?, ?)",
                (world, owner, cluster),
            ).fetchone()
        return row[0] if row is not None and leases.alive(leases.Process(*row)) else None

    def drop(self, world: str, owner: str, cluster: str, holder: str) -> None:
        """Gives the lease back, if it is still this holder's."""
        with self._change() as db:
            db.execute(
                "DELETE FROM leases WHERE (world, owner, cluster, holder) = (?, ?, ?, ?)",
                (world, owner, cluster, holder),
            )

    def leased(self, world: str, owner: str) -> tuple[str, ...]:
        """The clusters of an owner that some process has the lease of."""
        with self._read() as db:
            return tuple(
                row[0]
                for row in db.execute(
                    "SELECT cluster FROM leases WHERE (world, owner) = (?, ?)", (world, owner)
                )
            )

    # The file

    def _set(self, token: str, now: float, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        with self._change() as db:
            db.execute(
                f"UPDATE orders SET {names}, updated_at = ? WHERE token = ?",  # noqa: S608
                (*values.values(), now, token),
            )

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            private(self.path)
            db = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                # FULL: a commit is on the disk before it returns, in WAL mode too
                # (sqlite.org/pragma.html#pragma_synchronous).
                db.execute("PRAGMA synchronous=FULL")
                _in_wal(db)
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if version > _VERSION:
                    found = f"{self.path}: wanted a journal of version {_VERSION}, found {version}"
                    raise JournalBroken(found, "use the newer gpus that wrote it")
                if version < _VERSION:
                    prepare(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._open()
            except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
                found = f"{self.path}: wanted the journal of purchases, found {error}"
                raise JournalBroken(
                    found, remedy(error, "restore it, or move it away", self.path)
                ) from error

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                db = self._open()
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self.close()
                raise JournalBroken(
                    f"{self.path}: wanted to write the journal of purchases, found {error}",
                    remedy(error, "restore it, or move it away", self.path),
                    "nothing is bought without it",
                ) from error


def prepare(db: sqlite3.Connection) -> None:
    """Makes the tables that are not there yet."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version={_VERSION}")
    db.execute("COMMIT")


def _entry(row: Sequence[Any]) -> OrderRow:
    intent, provider, state, ticket, ids, price, detail, created, generation = row
    raw = json.loads(intent)
    order = order_in(raw)
    order = order._replace(mark=order.mark._replace(generation=generation))
    handles = tuple(Handle(*pair) for pair in json.loads(ids))
    known = ticket_in(json.loads(ticket), order) if ticket else None
    return OrderRow(
        order,
        provider,
        state,
        known,
        handles,
        price,
        detail,
        created,
        account_in(raw.get("account")),
    )


def _in_wal(db: sqlite3.Connection) -> None:
    """Switching a new file to WAL does not wait for other openers as everything else does."""
    import time

    for attempt in range(100):
        try:
            if (
                db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
                or db.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
            ):
                return
        except sqlite3.OperationalError as error:
            if attempt == 99 or error.sqlite_errorcode & 0xFF not in {
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            }:
                raise
        time.sleep(0.02)


def _ids(handles: Sequence[Handle]) -> str:
    return json.dumps([list(handle) for handle in handles])
