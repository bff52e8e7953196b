"""One command in a sandbox, run as a program: `python -m providers.adapters.modal.exec PROFILE SANDBOX_ID COMMAND`.

Owns the wiring of this process's stdin, stdout, stderr and exit code to the client's exec. The token comes from the environment or `~/.modal.toml`,
never from the arguments. Must not import the engine.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.adapters.modal.client import Client, credentials
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 255
"""What it ends with when the sandbox could not be reached, as ssh does."""
_CHUNK = 262_144
_IN_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /; exec sh -c "$0"'
"""What the sandbox's shell is given before the command: an image may set any working folder."""


def main(words: Sequence[str]) -> int:
    """The command's exit code (128 and the signal's number if one ended it), or 255 with one line on stderr when it could not be carried out.

    Ending this program closes the command's stdin and output; Modal offers no call that ends the command itself.
    """
    if len(words) != 3:
        print("modal: wanted PROFILE (may be empty) SANDBOX_ID COMMAND", file=sys.stderr)
        return FAILED
    profile, sandbox_id, text = words
    try:
        client = Client(credentials(profile))
        process = client.within(lambda: _started(client.connected(), sandbox_id, text), "exec")
    except GpusError as error:
        print(f"modal: {error}", file=sys.stderr)
        return FAILED
    threading.Thread(target=_feed, args=(process.stdin,), name="stdin", daemon=True).start()
    failures: list[BaseException] = []
    pumps = [threading.Thread(target=_pump, args=(source, number, failures)) for source, number in ((process.stdout, 1), (process.stderr, 2))]
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
        print(f"modal: the connection to {sandbox_id} was lost: {type(failures[0]).__name__}: {failures[0]}", file=sys.stderr)
        return FAILED
    return code if code >= 0 else 128 - code


def _started(client: Any, sandbox_id: str, text: str) -> Any:
    import modal

    return modal.Sandbox.from_id(sandbox_id, client=client).exec("sh", "-c", _IN_HOME, text, text=False)


def _feed(target: Any) -> None:
    """This process's stdin there, to its end. What the command does not read is no failure: it may have ended."""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
