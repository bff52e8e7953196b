"""Reading a file that somebody else named. Owns that it is a plain file, and no larger than what is
asked for is.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


KEY_MAX, SMALL_MAX = 64 << 10, 16 << 20
"""Bytes of a key file, and of a description such as a config.json."""


def content(path: str | Path, most: int) -> bytes:
    """What a plain file holds. Raises OSError for a folder, a pipe or a device, which may never
    end, and for more than `most` bytes.

    Never waits: a pipe is opened without a writer.
    """
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    )
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{kind(found.st_mode)}, not a plain file", str(path))
        read = b"" if found.st_size > most else file.read(most + 1)
        if found.st_size > most or len(read) > most:
            raise OSError(
                errno.EFBIG,
                f"{size(max(found.st_size, len(read)))}, more than the limit of {size(most)}",
                str(path),
            )
        return read


def kind(mode: int) -> str:
    """What a file is that is no plain one."""
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "something else")


def bytes_of(text: str) -> int:
    """Bytes of `50GiB`, `1.5 TB`, `800M` or `1000`; 0 for what is no size. A bare letter counts by
    1,024.
    """
    match = re.fullmatch(
        r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kmgt]?)(i?)(b?)\s*", text, re.IGNORECASE
    )
    if match is None or (match[3] and not match[2]):
        return 0
    step = 1000 if match[2] and match[4] and not match[3] else 1024
    return int(float(match[1]) * float(step) ** " kmgt".index(match[2].lower() or " "))


def size(count: int) -> str:
    """`2.5 MiB`."""
    amount, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"
