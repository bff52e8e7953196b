"""OpenSSH's own configuration, told of our machines: a file of `Host` blocks, and the one line that
includes it. Owns both files' writing; no other line of the user's is touched.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from providers.errors import GpusError
from providers.home import private_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = "# Written by `gpus ssh-config --write`, which replaces the whole file."
_BLOCK = re.compile(rb"^\s*(host|match)\b", re.IGNORECASE)
_NOT_LITERAL = re.compile(r'["\\%*?\[\]\n\r]|\$\{')
"""What OpenSSH does not take literally in the path of an Include."""


def text(entries: Sequence[str]) -> str:
    """The content of a configuration file with these `Host` blocks. Pure."""
    return "".join(f"{block}\n\n" for block in entries).rstrip("\n") + "\n" if entries else ""


def write(file: Path, entries: Sequence[str]) -> None:
    """Replaces the file by these `Host` blocks in one step, only for this user. Raises
    GpusError.
    """
    _replace(file, f"{HEAD}\n\n{text(entries)}".encode(), 0o600)


def include(config: Path, file: Path) -> bool:
    """Sees to it that the user's configuration includes the file before any block; True where the
    line had to be added. A symlink stays one: what it leads to is changed. Raises GpusError.
    """
    if _NOT_LITERAL.search(str(file)):
        raise GpusError(
            f"{file}: wanted a path that OpenSSH's Include takes as it is, found one with a quote"
            " or a wildcard; set GPUS_HOME to another folder"
        )
    line = f'Include "{file}"'
    target = Path(os.path.realpath(config))
    try:
        before, mode = target.read_bytes(), target.stat().st_mode & 0o777
    except FileNotFoundError:
        before, mode = b"", 0o600
    except OSError as error:
        raise _unwritable(config, line, error) from None
    for known in before.splitlines():
        if _BLOCK.match(known):
            break
        if known.strip() == line.encode():
            return False
    try:
        private_folder(config.parent)
        _replace(target, f"{line}\n".encode() + before, mode)
    except GpusError as error:
        raise _unwritable(config, line, error) from None
    except OSError as error:
        raise _unwritable(config, line, error) from None
    return True


def _unwritable(config: Path, line: str, error: Exception) -> GpusError:
    why = getattr(error, "strerror", None) or error
    return GpusError(
        f"{config}: wanted to add a line at its top, found {why}; add it yourself: {line}"
    )


def _replace(file: Path, content: bytes, mode: int) -> None:
    """Another process sees the old file or the new one, and a run that is cut short leaves the
    old.
    """
    try:
        number, partial = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(number, "wb") as out:
                os.fchmod(out.fileno(), mode)
                out.write(content)
            Path(partial).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(partial).unlink()
            raise
    except OSError as error:
        raise GpusError(f"{file}: wanted to write it, found {error.strerror or error}") from None
