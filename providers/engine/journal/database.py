"""The journal's file: one SQLite database for all worlds, its schema and its migration.

Owns durability: every change is on the disk (fsync) when it returns. Raises `JournalBroken`, never
sqlite3's own errors.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from providers.errors import GpusError
from providers.home import private, remedy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY_S = 10.0
"""How long a process waits for another one that is writing."""
_VERSION = 10

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    token TEXT PRIMARY KEY, world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL,
  generation TEXT NOT NULL, fingerprint TEXT NOT NULL,
    provider TEXT NOT NULL, names TEXT NOT NULL, native_ids TEXT NOT NULL, state TEXT NOT NULL,
  micro_usd INTEGER, intent TEXT NOT NULL,
  ticket TEXT NOT NULL, detail TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS orders_of ON orders (world, owner, cluster);
CREATE TABLE IF NOT EXISTS blocks (
    world TEXT NOT NULL, provider TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL,
  machine_type TEXT NOT NULL, gpu_type TEXT NOT NULL,
    capacity TEXT NOT NULL, until REAL NOT NULL, reason TEXT NOT NULL, since REAL NOT NULL, at
  REAL NOT NULL,
  PRIMARY KEY (world, provider, region, zone, machine_type, gpu_type, capacity));
CREATE TABLE IF NOT EXISTS tries (
    world TEXT NOT NULL, provider TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL,
  machine_type TEXT NOT NULL, gpu_type TEXT NOT NULL, capacity TEXT NOT NULL, outcome TEXT NOT
  NULL, seconds REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS tries_of ON tries (world, at);
CREATE TABLE IF NOT EXISTS closures (
    world TEXT NOT NULL, account TEXT NOT NULL, provider TEXT NOT NULL, region TEXT NOT NULL, zone
  TEXT NOT NULL, machine_type TEXT NOT NULL,
    gpu_type TEXT NOT NULL, capacity TEXT NOT NULL, opened INTEGER NOT NULL, until REAL NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (world, account, provider, region, zone, machine_type, gpu_type, capacity));
CREATE TABLE IF NOT EXISTS leases (
    world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL, holder TEXT NOT NULL, pid
  INTEGER NOT NULL, started TEXT NOT NULL,
  boot TEXT NOT NULL, since REAL NOT NULL, PRIMARY KEY (world, owner, cluster));
CREATE TABLE IF NOT EXISTS launches (
    world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL, generation TEXT NOT NULL,
  provider TEXT NOT NULL, native_ids TEXT NOT NULL,
    micro_usd INTEGER, price_as_of TEXT NOT NULL, price_source TEXT NOT NULL, launched_at REAL NOT
  NULL, ended_at REAL, record TEXT NOT NULL,
  PRIMARY KEY (world, owner, cluster, generation, launched_at));
CREATE TABLE IF NOT EXISTS claims (
    world TEXT NOT NULL, owner TEXT NOT NULL, generation TEXT NOT NULL, cluster TEXT NOT NULL,
  native_ids TEXT NOT NULL, look INTEGER NOT NULL,
  PRIMARY KEY (world, owner, generation));
CREATE TABLE IF NOT EXISTS owners (
    world TEXT NOT NULL, owner TEXT NOT NULL, project TEXT NOT NULL, stack TEXT NOT NULL, looks
  INTEGER NOT NULL, PRIMARY KEY (world, owner));
CREATE TABLE IF NOT EXISTS volumes (world TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
  intent TEXT NOT NULL, created_at REAL NOT NULL, PRIMARY KEY (world, owner, name));
CREATE TABLE IF NOT EXISTS volume_spells (
    world TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, native_id TEXT NOT NULL,
  spec TEXT NOT NULL, account TEXT NOT NULL, micro_usd INTEGER, price_as_of TEXT NOT NULL,
  began_at REAL NOT NULL, ended_at REAL, kept INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS volume_spells_of ON volume_spells (world, owner);
CREATE TABLE IF NOT EXISTS waits (world TEXT NOT NULL, owner TEXT NOT NULL, cluster TEXT NOT NULL,
  record TEXT NOT NULL, PRIMARY KEY (world, owner, cluster));
CREATE TABLE IF NOT EXISTS races (race TEXT PRIMARY KEY, token TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS backends (world TEXT NOT NULL, owner TEXT NOT NULL, backend TEXT NOT
  NULL, PRIMARY KEY (world, owner));
"""


class JournalBroken(GpusError):
    """The journal can't be read or written. `found` is what is wrong with it, on one line, with its
    path; `todo` is the remedy.
    """

    def __init__(self, found: str, todo: str, consequence: str = "") -> None:
        self.found, self.todo = found, todo
        super().__init__("; ".join(part for part in (found, consequence, todo) if part))


class Database:
    """One open journal file. Safe from several threads and processes."""

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

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._opened()
            except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
                found = f"{self.path}: wanted the journal of purchases, found {error}"
                raise JournalBroken(
                    found, remedy(error, "restore it, or move it away", self.path)
                ) from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                db = self._opened()
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

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            private(self.path)
            db = sqlite3.connect(
                self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
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


def prepare(db: sqlite3.Connection) -> None:
    """Makes the tables that are not there yet, and keeps what older ones hold. Blocks of an older
    form are forgotten.
    """
    db.execute("BEGIN IMMEDIATE")
    columns = [row[1] for row in db.execute("PRAGMA table_info(blocks)")]
    if columns and "since" not in columns:
        db.execute("DROP TABLE blocks")
    # Up to version 8 two volumes of one owner, name and time were one row.
    keyed = any(row[5] for row in db.execute("PRAGMA table_info(volume_spells)"))
    if keyed:
        db.execute("ALTER TABLE volume_spells RENAME TO keyed_spells")
    for statement in _SCHEMA.split(";"):
        if statement.strip():
            db.execute(statement)
    if keyed:
        db.execute("INSERT INTO volume_spells SELECT * FROM keyed_spells")
        db.execute("DROP TABLE keyed_spells")
    # An order of a volume that an older version wrote down: what it costs is not known, and it is
    # not forgotten.
    db.execute(
        "INSERT INTO volume_spells SELECT world, owner, name, '', json_extract(intent, '$[0]'),"
        " 'null', NULL, '', created_at, NULL, 0 FROM volumes AS made WHERE NOT EXISTS (SELECT 1"
        " FROM volume_spells AS known WHERE (known.world, known.owner, known.name) = (made.world,"
        " made.owner, made.name) AND ended_at IS NULL)"
    )
    db.execute(f"PRAGMA user_version={_VERSION}")
    db.execute("COMMIT")


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
