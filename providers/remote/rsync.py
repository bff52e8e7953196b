"""A folder to a machine: what differs of it, by rsync over the machine's line. Owns the order of
its steps, so that an interrupted one is gone on with, and what was deleted here is deleted there.

What a program there wrote into the folder stays: only names that were sent are ever removed. Beside
the folder lie `FOLDER.list`, the names that were sent, and, once all has arrived, `FOLDER.digest`.
rsync starts the other side by a program of ours that is given a command's words, as ssh would be:
so every line carries it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError, printable, shortened
from providers.model import shell
from providers.remote.line import LocalCommand, as_root
from providers.remote.run import started
from providers.remote.ssh import FAILED, Ssh

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from providers.remote.line import Line
    from providers.remote.tree import Tree

PAUSES_S = (1.0, 5.0, 15.0)
"""Before each further try, where the connection was lost."""
_OPEN_S = 0.02
_SOCKET_MOST = 80
"""Characters of a folder: a socket's name may have 108, and ssh adds 17 while it makes one."""
ARGUMENTS_MOST = 1 << 19
"""Bytes of names that are given as arguments: a list rsync reads by a system call for each byte."""
_STILL_S = 60
"""A transfer in which nothing moves for so long is lost."""
_LOST = frozenset({10, 12, 30, 35, 255})
"""What rsync ends with where the connection failed (rsync(1), EXIT VALUES): it is tried again."""
_VANISHED, _IN_PART = 24, 23
"""A file vanished here while it was sent; one could not be read here, or not written there."""


class NotSendable(GpusError):
    """The folder cannot be sent from here as it is; another machine would not take it either."""


class There(NamedTuple):
    """A folder on a machine: a path, absolute or below the home folder. `as_root` writes it as root
    where the login may. `wait_s`: how long a start-up script may take to install rsync.
    """

    folder: str
    as_root: bool = False
    wait_s: int = 0


async def sent(line: Line, tree: Tree, there: There) -> None:
    """Makes the folder there what the tree is, but for what others wrote into it. Raises GpusError;
    then it is not complete there, and the next call goes on with it.
    """
    there = there._replace(
        folder=line.path(there.folder) if there.folder.startswith("/") else there.folder,
        as_root=there.as_root and not line.stand_in,
    )
    for pause in (*PAUSES_S, None):
        try:
            async with _shared(line) as each:
                return await _sent(each, tree, there)
        except _LostError as lost:
            if pause is None:
                raise GpusError(str(lost)) from None
            await asyncio.sleep(pause)
    raise AssertionError("the last try either returns or raises")


class _LostError(Exception):
    """The connection failed."""


@asynccontextmanager
async def _shared(line: Line) -> AsyncIterator[Line]:
    """The line by one connection for all steps, where it is OpenSSH's. Raises _LostError."""
    with tempfile.TemporaryDirectory(prefix="gpus-") as folder:
        if not isinstance(line, Ssh) or len(folder) > _SOCKET_MOST:
            yield line
            return
        socket = Path(folder, "c")
        line = line._replace(connection=socket)
        async with started(line.master(), stdout=DEVNULL) as master:
            while not socket.exists() and master.returncode is None:  # noqa: ASYNC110 - a socket that appears has no event
                await asyncio.sleep(_OPEN_S)
            if master.returncode is not None:
                _, errors = await master.communicate()
                _raise(master.returncode, errors, lost=(FAILED,))
            try:
                yield line
            finally:
                # Asked to end while the last command's channel closes, OpenSSH (9.2) may sleep on.
                with suppress(ProcessLookupError):
                    master.kill()


async def _sent(line: Line, tree: Tree, there: There) -> None:
    names = b"".join(os.fsencode(name) + b"\0" for name in tree.files)
    before = await _step(line, there, "prepare", names, wait_s=there.wait_s)
    gone = {each for each in before.split(b"\0") if each} - set(names.split(b"\0"))
    if gone:
        # First, since a folder may have become a link, or a file.
        await _step(line, there, "remove", b"".join(sorted(each + b"\0" for each in gone)))
    await _transferred(line, tree, names, there)
    await _step(line, there, "conclude", b"", digest=tree.digest)


async def _step(line: Line, there: There, name: str, content: bytes, **more: str | int) -> bytes:
    """What one of the programs beside this module writes there. Raises _LostError and GpusError."""
    text = shell.program(__file__, name, folder=there.folder, **more)
    command = as_root(text) if there.as_root else f"sh -c {shlex.quote(text)}"
    launch = line.command(f"exec sh -c {shlex.quote(command)}")
    async with started(launch, stdin=PIPE) as process:
        output, errors = await process.communicate(content)
        code = await process.wait()
    if code:
        _raise(code, errors, lost=(255,))
    return output


def _raise(code: int, errors: bytes, *, lost: Iterable[int]) -> None:
    lines = [each for each in errors.decode(errors="replace").splitlines() if each.strip()]
    # rsync's last line only repeats its exit code.
    said = next((each for each in lines if not each.startswith("rsync error:")), "")
    text = shortened(printable(said.strip()), 300) or f"rsync ended with {code}"
    if code in lost:
        raise _LostError(text)
    raise NotSendable(text) if code == _IN_PART else GpusError(text)


async def _transferred(line: Line, tree: Tree, names: bytes, there: There) -> None:
    program = shutil.which("rsync")
    if program is None:
        raise NotSendable("wanted rsync on PATH, found none; install the package rsync")
    launch = line.command("")
    with tempfile.TemporaryDirectory(prefix="gpus-") as folder:
        shell_file, list_file = Path(folder, "rsh"), Path(folder, "names")
        # The word for the host is left out: the line is to one.
        at = shlex.quote(launch.cwd or str(Path.cwd()))
        shell_file.write_text(f'shift\ncd {at} || exit\nexec {shlex.join(launch.argv[:-1])} "$*"\n')
        if len(names) <= ARGUMENTS_MOST:
            which = ("--relative", "--", *(f"./{name}" for name in tree.files))
        else:
            list_file.write_bytes(names)
            which = ("--from0", f"--files-from={list_file}", "--", "./")
        argv = (
            program,
            # Nanoseconds count: an edit within a second of the last one may keep the size.
            *("--links", "--perms", "--times", "--modify-window=-1"),
            "--partial-dir=.rsync-partial",
            # What is deleted here meanwhile is no fault: the next sync removes it there.
            *("--ignore-missing-args", f"--timeout={_STILL_S}"),
            *(f"--rsh=sh '{shell_file}'", f"--rsync-path={_other_side(as_root=there.as_root)}"),
            *(*which, f"machine:{there.folder}/"),
        )
        async with started(LocalCommand(argv, launch.env, str(tree.root))) as process:
            _, errors = await process.communicate()
            code = await process.wait()
    if code not in {0, _VANISHED}:
        _raise(code, errors, lost=_LOST)


def _other_side(*, as_root: bool) -> str:
    """The words that start rsync there; its arguments follow. Pure."""
    if not as_root:
        return "rsync"
    text = (
        's=; [ -n "${GPUS_LEASE:-}" ] || s=$(command -v sudo || true); exec ${s:+$s -n} rsync "$@"'
    )
    return f"exec sh -c {shlex.quote(text)} rsync"
