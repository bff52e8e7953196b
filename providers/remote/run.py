"""Programs on this machine that carry something to another: started, streamed, ended. Owns
subprocesses; never a shell on this side.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from providers.errors import GpusError
from providers.model.screen import program

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from providers.remote.line import LocalCommand

_CHUNK = 65_536
_END_S = 3.0


@asynccontextmanager
async def started(
    launch: LocalCommand,
    *,
    stdin: int = DEVNULL,
    stdout: int | None = PIPE,
    stderr: int | None = PIPE,
) -> AsyncIterator[Process]:
    """The running program; ended when the block is left, however that happens. Raises GpusError
    when it cannot be started.
    """
    making = asyncio.ensure_future(_made(launch, stdin, stdout, stderr))
    try:
        process = await asyncio.shield(making)
    except asyncio.CancelledError:
        # Cancelled while it starts: it would go on unseen.
        with suppress(GpusError):
            await ended(await making)
        raise
    try:
        yield process
    finally:
        await ended(process)


async def _made(
    launch: LocalCommand, stdin: int, stdout: int | None, stderr: int | None
) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=None if launch.env is None else dict(launch.env),
            cwd=launch.cwd,
            # A group of its own: an interrupt at the terminal is ours to pass on, and its children
            # end with it.
            start_new_session=True,
        )
    except OSError as error:
        raise GpusError(
            f"wanted to run {launch.argv[0]}, found {error.strerror or error}"
        ) from None


async def ended(process: Process) -> int:
    """Its exit code; asks it to end if it still runs, and makes it after three seconds."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return await process.wait()


async def finished(launch: LocalCommand) -> tuple[int, str, str]:
    """(exit code, output, errors) of a short program."""
    async with started(launch) as process:
        output, errors = await process.communicate()
        return (
            await process.wait(),
            output.decode(errors="replace"),
            errors.decode(errors="replace"),
        )


async def streamed(
    launch: LocalCommand, output: TextIO | None = None, errors: TextIO | None = None
) -> int:
    """The exit code; what it writes appears as it comes, on this process's stdout and stderr unless
    told otherwise.
    """
    async with started(launch) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            _pump(process.stdout, output or sys.stdout), _pump(process.stderr, errors or sys.stderr)
        )
        return await process.wait()


async def _pump(source: asyncio.StreamReader, target: TextIO) -> None:
    # A character may be cut in two by the pipe.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    stream, colours = program(target)
    final = False
    while not final:
        chunk = await source.read(_CHUNK)
        final = not chunk
        text = decoder.decode(chunk, final)
        stream.write(text if colours is None else colours.add(text, final=final))
        stream.flush()
