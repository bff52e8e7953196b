"""Files to and from a machine: a tar stream over its line. Owns names, and what is taken from a stranger's answer.

tar over the line, rather than sftp: marketplace images often have no sftp server, a folder arrives under the name that was asked for however often it
is sent, and what comes back is unpacked here by our own rules: plain files and folders under one name, nothing else.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import shlex
import shutil
import tarfile
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from providers.engine.remote.run import ended, started
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.engine.remote.line import Line

_MODE = 0o755


async def put(line: Line, local: str | os.PathLike[str], remote: str | None = None) -> str:
    """Copies a file or folder there; its path there. Without `remote` it keeps its name, in the home folder; `remote/` puts it into that folder.

    What is there under that name is written over; other files of a folder stay. Raises GpusError.
    """
    source = Path(local).expanduser()
    if not source.exists():
        raise GpusError(f"put: wanted a file or folder, found none at {source}")
    name = source.resolve().name
    target = name if remote is None else _remote(remote) + name if remote.endswith("/") else _remote(remote)
    folder, base = posixpath.split(posixpath.normpath(target))
    if base in {"", ".", ".."}:
        raise GpusError(f"put: wanted the name of a file or folder there, found {remote!r}")
    script = f"mkdir -p -- {_quoted(folder or '.')} && exec tar -xf - -C {_quoted(folder or '.')}"
    reading, writing = os.pipe()

    def pack() -> str:
        try:
            with os.fdopen(writing, "wb") as pipe, tarfile.open(fileobj=pipe, mode="w|") as archive:
                archive.add(source.resolve(), arcname=base)
        except BrokenPipeError:
            return ""  # The other side says why.
        except OSError as error:
            return f"{error.strerror or error}: {error.filename or source}"
        return ""

    await _carried(line, script, pack, f"put {source} to {target}", stdin=reading)
    return target


async def get(line: Line, remote: str, local: str | os.PathLike[str] | None = None) -> Path:
    """Copies a file or folder from there; its path here. Without `local` it keeps its name, in this folder; an existing folder takes it in.

    Links there are followed. Raises GpusError, also for an answer that holds anything but what was asked for.
    """
    folder, base = posixpath.split(posixpath.normpath(_remote(remote)))
    if base in {"", ".", ".."}:
        raise GpusError(f"get: wanted the name of a file or folder there, found {remote!r}")
    target = Path(base if local is None else local).expanduser()
    if local is not None and (target.is_dir() or str(local).endswith(os.sep)):
        target = target / base
    script = f"exec tar -chf - -C {_quoted(folder or '.')} -- {_quoted(base)}"
    reading, writing = os.pipe()

    def unpack() -> str:
        try:
            with os.fdopen(reading, "rb") as pipe:
                return _unpacked(pipe, base, target)
        except tarfile.TarError as error:
            return f"no tar stream came: {error}"
        except OSError as error:
            return f"{error.strerror or error}: {error.filename or target}"

    await _carried(line, script, unpack, f"get {remote} to {target}", stdout=writing)
    return target


async def _carried(line: Line, script: str, work: Callable[[], str], what: str, *, stdin: int = DEVNULL, stdout: int = DEVNULL) -> None:
    """Runs the script there with our end of the pipe in a thread. Whatever ends first, the other follows."""
    async with started(line.command(f"exec sh -c {shlex.quote(script)}"), stdin=stdin, stdout=stdout) as process:
        # The program has its own copy: the pipe ends when either side does.
        os.close(max(stdin, stdout))
        thread = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            assert process.stderr is not None
            errors = (await process.stderr.read()).decode(errors="replace").strip()
            code = await process.wait()
            failed = await thread
        except BaseException:
            await ended(process)
            await asyncio.wait([thread])
            raise
    if code != 0:
        raise GpusError(f"{what}: {errors.splitlines()[0] if errors else f'ended with {code}'}")
    if failed:
        raise GpusError(f"{what}: {failed}")


def _unpacked(pipe: BinaryIO, base: str, target: Path) -> str:
    """Writes what the stream holds to `target`; says what is wrong with it, or nothing.

    Nothing is written beside the target: links are not taken, so none can lead elsewhere.
    """
    came, refused = False, ""
    with tarfile.open(fileobj=pipe, mode="r|") as archive:
        for member in archive:
            parts = posixpath.normpath(member.name).split("/")
            if parts[0] != base or ".." in parts or not (member.isfile() or member.isdir()):
                refused = refused or f"refused {member.name!r}, which is no plain file or folder under {base}"
                continue
            came = True
            place = target.joinpath(*parts[1:])
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(member)
            assert content is not None
            with place.open("wb") as file:
                shutil.copyfileobj(content, file)
            place.chmod(0o600 | member.mode & _MODE)
    # What is left in the pipe is padding; the sender must not be cut off by a closed one.
    while pipe.read(1 << 16):
        pass
    return refused or ("" if came else "nothing came")


def _remote(path: str) -> str:
    """A path there, below the home folder unless absolute."""
    if not path or "\0" in path:
        raise GpusError(f"wanted a path on the machine, found {path!r}")
    return path.removeprefix("~/") or "./"


def _quoted(path: str) -> str:
    # A leading dash would be read as an option.
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
