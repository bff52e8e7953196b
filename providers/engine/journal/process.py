"""Who holds a cluster: which process, and whether it still lives. Owns the identity of a process;
reads /proc, or asks `ps`.

A process id alone says little: ids are used again. An identity is the id, when that process
started, and which boot of the machine it was.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Process(NamedTuple):
    """One process of one boot. `started` is opaque and compared as it is; empty where the machine
    cannot tell.
    """

    pid: int
    started: str
    boot: str


def current() -> Process:
    """This process."""
    return of(os.getpid())


def of(pid: int) -> Process:
    """The process that has this id now."""
    return Process(pid, _started(pid) or "", _boot())


def alive(process: Process) -> bool:
    """False only if this process has certainly ended: another boot, no such id, a zombie, or an id
    that is used again.
    """
    boot = _boot()
    if process.boot and boot and process.boot != boot:
        return False
    if not _exists(process.pid):
        return False
    started = _started(process.pid)
    if started is None:
        return True
    return bool(started) and (not process.started or started == process.started)


def words(pid: int) -> tuple[str, ...]:
    """The command line of a process; empty where the machine cannot tell."""
    try:
        return tuple(
            word.decode(errors="replace")
            for word in (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        )
    except OSError:
        return tuple(_ps(pid, "args").split())


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    if os.name == "nt":
        return True  # There, os.kill would end it.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _started(pid: int) -> str | None:
    """When it started, in the machine's own terms; "" for one that has ended and was not reaped
    yet; None when that cannot be told.
    """
    try:
        # The command's name may hold spaces and brackets; what counts comes after the last one
        # (proc(5): state is field 3, starttime 22).
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in {"Z", "X"} else fields[19]
    except (OSError, IndexError):
        pass
    if PROC.joinpath("self", "stat").exists() or os.name == "nt":
        return None
    return _ps(pid, "lstart") or None


def _ps(pid: int, field: str) -> str:
    """What `ps` says of a process; empty where it says nothing."""
    try:
        answer = subprocess.run(
            ["ps", "-ww", "-o", f"{field}=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
