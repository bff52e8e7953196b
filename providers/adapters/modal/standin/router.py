"""Where the stand-in's sandboxes take commands: Modal's TaskCommandRouter as far as `Sandbox.exec` uses it. A labelled stand-in: a local shell.

Owns the processes that it started, in this server's memory. Every command runs in a folder of its sandbox's, with GPUS_STAND_IN in its environment;
there is no GPU. Shapes are those of the client's protocol of 1.6.4.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from grpclib import GRPCError, Status
from modal_proto import task_command_router_grpc
from modal_proto import task_command_router_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from providers.adapters.modal.standin.state import State

_CHUNK = 65_536


class _Run(NamedTuple):
    """A command that was started: its process, its output so far by descriptor, who collects it, the bytes of stdin that were taken (one number), and
    which descriptors have ended.
    """

    process: asyncio.subprocess.Process
    output: dict[int, bytearray]
    readers: dict[int, asyncio.Task[None]]
    changed: asyncio.Condition
    taken: list[int]
    closed: set[int]


class Router:
    """The answers, one method for each RPC, each given the stream's request and what sends a message of an answer in parts."""

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
            process = await asyncio.create_subprocess_exec(*request.command_args, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=home, env=environment)
            run = _Run(process, {}, {}, asyncio.Condition(), [0], set())
            sources = {api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT: process.stdout, api.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR: process.stderr}
            for number, source in sources.items():
                assert source is not None
                run.output[number] = bytearray()
                run.readers[number] = asyncio.create_task(_collect(run, number, source))
            self._runs[request.exec_id] = run
        return api.TaskExecStartResponse()

    async def TaskExecStdinWrite(self, request: Any, _send: Any) -> Any:
        run = self._run(request.exec_id)
        assert run.process.stdin is not None
        # The same bytes may be sent again after a lost answer.
        fresh = request.data[max(0, run.taken[0] - request.offset) :]
        with suppress(OSError):
            run.process.stdin.write(fresh)
            await run.process.stdin.drain()
        run.taken[0] += len(fresh)
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
        return api.TaskExecWaitResponse(code=code) if code >= 0 else api.TaskExecWaitResponse(signal=-code)

    def _run(self, exec_id: str) -> _Run:
        if exec_id not in self._runs:
            raise GRPCError(Status.NOT_FOUND, f"Exec {exec_id!r} not found")
        return self._runs[exec_id]


async def _collect(run: _Run, number: int, source: asyncio.StreamReader) -> None:
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

    def answer(known: Callable[[Any, Any], Awaitable[Any]] | None) -> Callable[[Any, Any], Awaitable[None]]:
        async def serve(_self: Any, stream: Any) -> None:
            request = await stream.recv_message()
            if known is None:
                raise GRPCError(Status.UNIMPLEMENTED, "the rehearsal has no such call")
            reply = await known(request, stream.send_message)
            if reply is not None:
                await stream.send_message(reply)

        return serve

    base = task_command_router_grpc.TaskCommandRouterBase
    methods = {name: answer(getattr(router, name, None)) for name in vars(base) if not name.startswith("_")}
    return type("StandInRouter", (base,), methods)()
