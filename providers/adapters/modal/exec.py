"""One command, shell or port of a sandbox, as a program: `python -m providers.adapters.modal.exec
PROFILE SANDBOX_ID run COMMAND`.

In place of `run COMMAND`: `shell`, or `port LOCAL REMOTE`.

Owns the wiring of this process's stdin, stdout, stderr and exit code to the client's exec. The
token comes from the environment or `~/.modal.toml`, never from the arguments. Must not import the
engine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.adapters.modal.client import Client
from providers.adapters.modal.sign_in import credentials
from providers.errors import GpusError
from providers.model import shell

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 255
"""What it ends with when the sandbox could not be reached, as ssh does."""
_CHUNK = 262_144
_IN_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /; exec sh -c "$0"'
"""What the sandbox's shell is given before the command: an image may set any working folder."""
_SHELL = 'cd "${HOME:-/}" 2>/dev/null || cd /; exec "$(command -v bash || echo sh)" -i'
RUN, SHELL, PORT = "run", "shell", "port"
INTERRUPTED = 130

_PYTHON = """
import os, socket, sys, threading
there = socket.create_connection(("localhost", int(sys.argv[1])))
def send():
    while True:
        data = os.read(0, 65536)
        if not data:
            break
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while True:
    data = there.recv(65536)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
""".strip()
_PORT = ("sh", "-c", shell.program(__file__, "port", relay=_PYTHON), "sh")
"""Carries its own input and output to the port that is the word after it. Sandboxes take no
connection from outside but through a public address of Modal's that is declared beforehand; this
way nothing is opened.
"""


def main(words: Sequence[str]) -> int:
    """The command's exit code (128 and the signal's number if one ended it), or 255 with one line
    on stderr when it could not be carried out.

    Ending this program closes the command's stdin and output; Modal offers no call that ends the
    command itself.
    """
    if [words[2:3], len(words)] not in ([[RUN], 4], [[SHELL], 3], [[PORT], 5]):
        print(
            "modal: wanted PROFILE (may be empty) SANDBOX_ID and run COMMAND, shell, or port LOCAL"
            " REMOTE",
            file=sys.stderr,
        )
        return FAILED
    profile, sandbox_id, what, *more = words
    try:
        if what == SHELL and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise GpusError("wanted a terminal for a shell, found none; give a command instead")
        client = Client(credentials(profile))
        sandbox = client.within(lambda: _sandbox(client.connected(), sandbox_id), "sandbox")
        if what == SHELL:
            process = sandbox.exec("sh", "-c", _SHELL, pty=True)
            process.attach()
            return int(process.wait())
        if what == PORT:
            return asyncio.run(_ported(sandbox, *map(int, more)))
        process = client.within(
            lambda: sandbox.exec("sh", "-c", _IN_HOME, *more, text=False), "exec"
        )
    except GpusError as error:
        print(f"modal: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    threading.Thread(target=_feed, args=(process.stdin,), name="stdin", daemon=True).start()
    failures: list[BaseException] = []
    pumps = [
        threading.Thread(target=_pump, args=(source, number, failures))
        for source, number in ((process.stdout, 1), (process.stderr, 2))
    ]
    for pump in pumps:
        pump.start()
    for pump in pumps:
        pump.join()
    try:
        code = int(process.wait())
    except Exception as error:
        failures.append(error)
        code = FAILED
    if failures:
        print(
            f"modal: the connection to {sandbox_id} was lost: {type(failures[0]).__name__}:"
            f" {failures[0]}",
            file=sys.stderr,
        )
        return FAILED
    return code if code >= 0 else 128 - code


def _sandbox(client: Any, sandbox_id: str) -> Any:
    import modal

    found = modal.Sandbox.from_id(sandbox_id, client=client)
    if found.returncode is not None:
        raise GpusError(f"wanted a sandbox that runs, found that {sandbox_id} has ended")
    return found


def _feed(target: Any) -> None:
    """This process's stdin there, to its end. What the command does not read is no failure: it may
    have ended.
    """
    with suppress(Exception):
        while chunk := os.read(0, _CHUNK):
            target.write(chunk)
            target.drain()
        target.write_eof()
        target.drain()


def _pump(source: Any, number: int, failures: list[BaseException]) -> None:
    try:
        for chunk in source:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(number, rest) :]
    except Exception as error:
        failures.append(error)


async def _no_more(process: Any) -> None:
    process.stdin.write_eof()
    await process.stdin.drain.aio()


async def _ported(sandbox: Any, local: int, remote: int) -> int:
    """Carries connections until it is ended."""
    told: set[str] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            process = await sandbox.exec.aio(*_PORT, str(remote), text=False)
        except Exception as error:
            _tell(told, f"{type(error).__name__}: {error}")
            writer.close()
            return
        sending = asyncio.create_task(_sent(reader, process))
        try:
            with suppress(OSError):
                async for data in process.stdout:
                    writer.write(data)
                    await writer.drain()
            if await process.wait.aio():
                _tell(
                    told,
                    b"".join([data async for data in process.stderr])
                    .decode(errors="replace")
                    .strip()
                    .splitlines()[-1:],
                )
        finally:
            writer.close()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            with suppress(Exception):
                await _no_more(process)

    _ends_when_asked()
    async with await asyncio.start_server(carry, "127.0.0.1", local) as server:
        await server.serve_forever()
    return 0


async def _sent(reader: asyncio.StreamReader, process: Any) -> None:
    with suppress(Exception):
        while data := await reader.read(_CHUNK):
            process.stdin.write(data)
            await process.stdin.drain.aio()
        await _no_more(process)


def _tell(told: set[str], text: str | list[str]) -> None:
    """A line on stderr, each once: nobody may be reading."""
    said = "".join(text)
    if said and said not in told and len(told) < 5:
        told.add(said)
        print(said, file=sys.stderr, flush=True)


def _ends_when_asked() -> None:
    import signal

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
