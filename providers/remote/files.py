"""Files to and from a machine: a tar stream over its line. Owns names; what is taken from a
stranger's answer is `unpack`'s.

tar over the line, rather than sftp: marketplace images often have no sftp server, a folder arrives
under the name that was asked for however often it is sent, and what comes back is unpacked here by
our own rules: plain files and folders under one name, nothing else.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import shlex
import tarfile
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError, printable, shortened
from providers.model.regular import size
from providers.remote.run import ended, started
from providers.remote.unpack import Limits
from providers.remote.unpack import unpacked as unpack_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.remote.line import Line

_SAID_MAX = 64 << 10
"""Bytes of what the other side says is wrong; the rest is dropped."""


class _Failed(NamedTuple):
    """What went wrong here, and what stands here all the same. `decides`: whatever the other side
    says follows from it.
    """

    text: str
    rest: str = ""
    decides: bool = False


async def put(line: Line, local: str | os.PathLike[str], remote: str | None = None) -> str:
    """Copies a file or folder there; its path there. Without `remote` it keeps its name, in the
    home folder; `remote/` puts it into that folder.

    What is there under that name is written over; other files of a folder stay. Raises GpusError.
    """
    source = _local(local)
    if not source.exists():
        raise GpusError(f"put: wanted a file or folder, found none at {source}")
    name = source.resolve().name
    target = (
        name
        if remote is None
        else _remote(remote) + name
        if remote.endswith("/")
        else _remote(remote)
    )
    folder, base = posixpath.split(posixpath.normpath(target))
    if base in {"", ".", ".."}:
        raise GpusError(f"put: wanted the name of a file or folder there, found {remote!r}")
    script = f"mkdir -p -- {_quoted(folder or '.')} && exec tar -xf - -C {_quoted(folder or '.')}"
    reading, writing = os.pipe()

    def pack() -> _Failed | None:
        try:
            with os.fdopen(writing, "wb") as pipe, tarfile.open(fileobj=pipe, mode="w|") as archive:
                archive.add(source.resolve(), arcname=base)
        except BrokenPipeError:
            return None  # The other side says why.
        except (OSError, ValueError, RecursionError) as error:
            return _Failed(
                f"{getattr(error, 'strerror', None) or error}:"
                f" {getattr(error, 'filename', None) or source}",
                decides=True,
            )
        return None

    await _carried(line, script, pack, f"put {source} to {target}", stdin=reading)
    return target


async def get(
    line: Line,
    remote: str,
    local: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
) -> Path:
    """Copies a file or folder from there; its path here. Without `local` it keeps its name, in this
    folder; an existing folder takes it in.

    Links there are followed, links here are not: one at the target, or in it, is refused. Raises
    GpusError, also for an answer that holds anything but what was asked for, or more than the
    limits; it says what stands here then.
    """
    folder, base = posixpath.split(posixpath.normpath(_remote(remote)))
    if base in {"", ".", ".."}:
        raise GpusError(f"get: wanted the name of a file or folder there, found {remote!r}")
    target = _local(base if local is None else local)
    if local is not None and (
        str(local).endswith(os.sep) or (target.is_dir() and not target.is_symlink())
    ):
        target = target / base
    no_link(target)
    script = f"exec tar -chf - -C {_quoted(folder or '.')} -- {_quoted(base)}"
    reading, writing = os.pipe()

    def unpacked() -> _Failed | None:
        with os.fdopen(reading, "rb") as pipe:
            found = unpack_stream(pipe, base, target, limits)
        if not found.wrong:
            return None
        rest = (
            f"what came before, {size(found.size)} in {found.files:,} files and folders, stands at"
            f" {target}"
            if found.files
            else ""
        )
        return _Failed(found.wrong, rest, decides=found.cut)

    await _carried(line, script, unpacked, f"get {remote} to {target}", stdout=writing)
    return target


async def _carried(
    line: Line,
    script: str,
    work: Callable[[], _Failed | None],
    what: str,
    *,
    stdin: int = DEVNULL,
    stdout: int = DEVNULL,
) -> None:
    """Runs the script there with our end of the pipe in a thread. Whatever ends first, the other
    follows.
    """
    async with started(
        line.command(f"exec sh -c {shlex.quote(script)}"), stdin=stdin, stdout=stdout
    ) as process:
        # The program has its own copy: the pipe ends when either side does.
        os.close(max(stdin, stdout))
        thread = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            assert process.stderr is not None
            errors = await _said(process.stderr)
            code = await process.wait()
            failed = await thread
        except BaseException:
            await ended(process)
            await asyncio.wait([thread])
            raise
    if code == 0 and failed is None:
        return
    why = (
        failed.text
        if failed is not None and (failed.decides or code == 0)
        else errors or f"ended with {code}"
    )
    rest = f"; {failed.rest}" if failed is not None and failed.rest else ""
    raise GpusError(f"{what}: {why}{rest}")


async def _said(stream: asyncio.StreamReader) -> str:
    """The first line of what the other side says is wrong, printable. All of it is read, or the
    other side would wait; little of it is kept.
    """
    kept = b""
    while chunk := await stream.read(_SAID_MAX):
        kept = kept or chunk
    lines = kept.decode(errors="replace").strip().splitlines()
    return shortened(printable(lines[0]), 300) if lines else ""


def no_link(target: Path) -> None:
    """Raises GpusError where a link stands: what comes from elsewhere is not written to wherever
    that leads.
    """
    if target.is_symlink():
        slash = (
            f", or write {target}{os.sep} to go into the folder that it names"
            if target.is_dir()
            else ""
        )
        raise GpusError(
            f"wanted a file or folder to write to, found a link at {target}; remove it{slash}"
        )


def _local(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a home of nobody
        return Path(path)


def _remote(path: str) -> str:
    """A path there, below the home folder unless absolute."""
    if not path or "\0" in path:
        raise GpusError(f"wanted a path on the machine, found {path!r}")
    return path.removeprefix("~/") or "./"


def _quoted(path: str) -> str:
    # A leading dash would be read as an option.
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
