"""Where the stand-in's sandboxes take commands: Modal's TaskCommandRouter as far as `Sandbox.exec`
uses it. A labelled stand-in: a local shell.

Owns the processes that it started, in this server's memory. Every command runs in a folder of its
sandbox's, with GPUS_STAND_IN in its environment; there is no GPU. Shapes are those of the client's
protocol of 1.6.4.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from grpclib import GRPCError, Status
from modal_proto import task_command_router_grpc
from modal_proto import task_command_router_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from providers.rehearsal.clouds.modal.state import State

_CHUNK = 65_536


class _Run(NamedTuple):
    """A command that was started: its process, its output so far by descriptor, who collects it,
    the bytes of stdin that were taken (one number), and which descriptors have ended; and both ends
    of its terminal, if it has one.
    """

    process: asyncio.subprocess.Process
    output: dict[int, bytearray]
    readers: dict[int, asyncio.Task[None]]
    changed: asyncio.Condition
    taken: list[int]
    closed: set[int]
    terminal: tuple[int, ...]


class Router:
    """The answers, one method for each RPC, each given the stream's request and what sends a
    message of an answer in parts.
    """

    def __init__(self, state: State, folder: Path) -> None:
        self.state, self.folder = state, folder
        self._runs: dict[str, _Run] = {}

    async def TaskExecStart(self, request: Any, _send: Any) -> Any:
        if request.exec_id not in self._runs:
            row = self.state.by_task(request.task_id)
            if row is None or row.ended is not None:
                raise GRPCError(Status.NOT_FOUND, f"Task {request.task_id!r} not found")
            home = self.folder / row.id
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            environment = {"PATH": path, "HOME": str(home), "GPUS_STAND_IN": row.id}
            if request.HasField("pty_info"):
                process, terminal, source = await _on_terminal(request, home, environment)
                stderr = asyncio.StreamReader()
                stderr.feed_eof()
                run = _Run(process, {}, {}, asyncio.Condition(), [0], set(), terminal)
                sources = {
                    api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT: source,
                    api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR: stderr,
                }
            else:
                process = await asyncio.create_subprocess_exec(
                    *request.command_args,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=PIPE,
                    cwd=home,
                    env=environment,
                )
                assert process.stdout is not None
                assert process.stderr is not None
                run = _Run(process, {}, {}, asyncio.Condition(), [0], set(), ())
                sources = {
                    api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT: process.stdout,
                    api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR: process.stderr,
                }
            for number, source in sources.items():
                run.output[number] = bytearray()
                run.readers[number] = asyncio.create_task(_collect(run, number, source))
            self._runs[request.exec_id] = run
        return api.TaskExecStartResponse()

    async def TaskExecStdinWrite(self, request: Any, _send: Any) -> Any:
        run = self._run(request.exec_id)
        # The same bytes may be sent again after a lost answer.
        fresh = request.data[max(0, run.taken[0] - request.offset) :]
        run.taken[0] += len(fresh)
        if run.terminal:
            if run.process.returncode is None:
                await asyncio.to_thread(os.write, run.terminal[0], fresh)
            return api.TaskExecStdinWriteResponse()
        assert run.process.stdin is not None
        with suppress(OSError):
            run.process.stdin.write(fresh)
            await run.process.stdin.drain()
        if request.eof:
            run.process.stdin.close()
        return api.TaskExecStdinWriteResponse()

    async def TaskExecStdioRead(self, request: Any, send: Any) -> None:
        run, at = self._run(request.exec_id), int(request.offset)
        number = request.file_descriptor
        while True:
            async with run.changed:
                while len(run.output[number]) <= at and number not in run.closed:
                    await run.changed.wait()
                chunk = bytes(run.output[number][at : at + _CHUNK])
            if not chunk:
                return
            await send(api.TaskExecStdioReadResponse(data=chunk))
            at += len(chunk)

    async def TaskExecWait(self, request: Any, _send: Any) -> Any:
        code = await self._run(request.exec_id).process.wait()
        return (
            api.TaskExecWaitResponse(code=code)
            if code >= 0
            else api.TaskExecWaitResponse(signal=-code)
        )

    def _run(self, exec_id: str) -> _Run:
        if exec_id not in self._runs:
            raise GRPCError(Status.NOT_FOUND, f"Exec {exec_id!r} not found")
        return self._runs[exec_id]


async def _on_terminal(
    request: Any, home: Path, environment: dict[str, str]
) -> tuple[asyncio.subprocess.Process, tuple[int, int], Any]:
    """(process, both ends of its terminal, what it writes there): the leader of a session gets the
    first terminal that it opens as its own.
    """
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(
        theirs,
        termios.TIOCSWINSZ,
        struct.pack("HHHH", request.pty_info.winsz_rows, request.pty_info.winsz_cols, 0, 0),
    )
    argv = (
        "/bin/sh",
        "-c",
        'exec "$@" <"$0" >"$0" 2>&1',
        os.ttyname(theirs),
        *request.command_args,
    )
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        cwd=home,
        env=environment,
        start_new_session=True,
    )
    source = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(source), os.fdopen(os.dup(ours), "rb", 0)
    )

    async def closed() -> None:
        # Open until its end, which would else be seen before it is opened there.
        await process.wait()
        os.close(theirs)

    _waiting.add(waits := asyncio.create_task(closed()))
    waits.add_done_callback(_waiting.discard)
    return process, (ours, theirs), source


_waiting: set[asyncio.Task[None]] = set()


async def _collect(run: _Run, number: int, source: asyncio.StreamReader) -> None:
    with suppress(OSError):  # the end of a terminal
        while chunk := await source.read(_CHUNK):
            async with run.changed:
                run.output[number] += chunk
                run.changed.notify_all()
    async with run.changed:
        run.closed.add(number)
        run.changed.notify_all()


def handlers(state: State, folder: Path) -> Any:
    """What grpclib serves: the RPCs above; any other is UNIMPLEMENTED."""
    router = Router(state, folder)

    def answer(
        known: Callable[[Any, Any], Awaitable[Any]] | None,
    ) -> Callable[[Any, Any], Awaitable[None]]:
        async def serve(_self: Any, stream: Any) -> None:
            request = await stream.recv_message()
            if known is None:
                raise GRPCError(Status.UNIMPLEMENTED, "the rehearsal has no such call")
            reply = await known(request, stream.send_message)
            if reply is not None:
                await stream.send_message(reply)

        return serve

    base = task_command_router_grpc.TaskCommandRouterBase
    methods = {
        name: answer(getattr(router, name, None)) for name in vars(base) if not name.startswith("_")
    }
    return type("StandInRouter", (base,), methods)()
