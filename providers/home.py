"""The state folder of this machine, its files, and what to do when one cannot be used."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

_ROOM = 64 * 1024
"""Bytes that SQLite needs to open a file beside which it keeps its log."""
JOURNAL_FILE = "journal.db"
REHEARSAL_FILE = "rehearsal.db"
SSH_CONFIG_FILE = "ssh.config"


def home_text() -> str:
    """The path of the state folder as it is set, perhaps with a `~`. Imports nothing that a plan
    lacks.
    """
    import os

    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.environ.get("GPUS_HOME") or f"{state}/gpus"


def home(*, writable: bool = True) -> Path:
    """The folder of everything kept between runs: `$GPUS_HOME`, else
    `${XDG_STATE_HOME:-~/.local/state}/gpus`.

    Made on first use, for its owner alone; one that others may use is closed to them, with a line
    on stderr. Reads the environment and makes at most one folder. Raises NoHome where it is none,
    or cannot be written. With `writable=False` only its path, which may be there or not.
    """
    import os
    from pathlib import Path

    folder = Path(home_text())
    try:
        folder = folder.expanduser()
        if not writable:
            return folder
        if not folder.is_dir():
            private_folder(folder)
        elif (mode := folder.stat().st_mode) & 0o077:
            _closed(folder, mode)
        found = "" if os.access(folder, os.W_OK | os.X_OK) else "it cannot be written"
    except OSError as error:
        found = error.strerror or str(error)
    except RuntimeError as error:  # a home of nobody, as in ~nobody/gpus
        found = str(error)
    if found:
        from providers.errors import NoHome

        raise NoHome(
            f"wanted a folder for what is kept between runs, found {folder}: {found}; set GPUS_HOME"
            " to one that can be written"
        )
    return folder


def _closed(folder: Path, mode: int) -> None:
    """Closes an existing home to all but its owner. One that is somebody else's stays as it is."""
    import contextlib
    import sys

    with contextlib.suppress(OSError):
        folder.chmod(mode & 0o700)
        print(
            f"gpus: {folder} was open to other users (mode {mode & 0o777:04o}); now only you have"
            " access (0700)",
            file=sys.stderr,
        )


def private_folder(folder: Path) -> Path:
    """The folder, made with what is missing above it only for this user, whatever the umask. Raises
    OSError.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)
            each.chmod(0o700)
    return folder


def private(path: Path) -> Path:
    """The file, made empty where it is missing, and readable and writable only by this user
    whatever the umask. Raises OSError.
    """
    import contextlib
    import os

    try:
        if path.stat().st_mode & 0o077:
            with contextlib.suppress(OSError):
                path.chmod(0o600)
    except FileNotFoundError:
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            os.fchmod(file, 0o600)
        finally:
            os.close(file)
    return path


def keep_own_rights() -> None:
    """Lets this process and those that it starts use the files that they make, whatever the umask;
    what that keeps from others stays kept.
    """
    import os

    os.umask(os.umask(0o077) & 0o077)


@contextmanager
def kept(path: Path, table: str, schema: str) -> Iterator[sqlite3.Connection]:
    """An adapter's own tables in an SQLite file, made by the schema where this one of them is
    missing; what is written is on disk when it returns.

    The file is its owner's alone, and may be the rehearsal store's. Opened and closed by each use,
    so safe from any thread and process.
    """
    import sqlite3

    if not path.exists():
        private(path)
    with closing(sqlite3.connect(path, timeout=30.0, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=FULL")
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            db.executescript(schema)
        yield db


def remedy(error: Exception, otherwise: str, path: Path | None = None) -> str:
    """What to do about a file of that folder that SQLite cannot use: `otherwise`, unless it is the
    folder's or the disk's fault, or another process has it. Looks at the disk of the path, since
    SQLite calls a full one by several names.
    """
    import errno
    import sqlite3

    code, number = getattr(error, "sqlite_errorcode", 0) & 0xFF, getattr(error, "errno", 0)
    if (
        code == sqlite3.SQLITE_FULL
        or number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        or (path is not None and _is_full(path))
    ):
        return "make room on its disk"
    if code == sqlite3.SQLITE_IOERR:
        return "make room on its disk, or under your quota there, and see that the disk is sound"
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return "another process holds it: wait for that to end, or stop it"
    if code in {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
    } or number in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return "make it and its folder writable, or set GPUS_HOME to a folder that is"
    return otherwise


def _is_full(path: Path) -> bool:
    import os

    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM or (disk.f_files > 0 and disk.f_favail == 0)
