"""The plugin's process: `pulumi-resource-gpu ENGINE_ADDRESS`. Owns start-up, the port on standard output, and the end of the process.

Start-up is paid by every preview: grpc and the protocol's messages are all that is imported before the port is printed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    import grpc.aio

    from providers.plugin.servicer import Servicer

MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""As the engine's own limit (Pulumi SDK 3.272)."""
_ORPHAN_CHECK_S = 1.0


def lean_protocol() -> None:
    """Lets `pulumi.runtime.proto` be imported without the whole SDK around it, which a plugin never uses and which costs 0.13 s.

    For a process of its own only: afterwards `import pulumi` gives an empty package. Does nothing where the SDK is already imported.
    """
    import importlib.util
    import types

    if "pulumi" in sys.modules:
        return
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        return
    for name, folder in (("pulumi", ""), ("pulumi.runtime", f"{os.sep}runtime")):
        module = types.ModuleType(name)
        module.__path__ = [f"{spec.submodule_search_locations[0]}{folder}"]
        sys.modules[name] = module


def main() -> int:
    """Serves until the engine is gone. The engine's address is the one argument; without it nothing is logged (schema reading, attaching)."""
    lean_protocol()
    import asyncio

    engine = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    try:
        asyncio.run(_serve(engine))
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(engine: str) -> None:
    import asyncio
    import signal

    import grpc.aio

    from providers.plugin.servicer import Servicer, add_to_server

    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options)
    servicer = Servicer(engine)
    add_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    watch = asyncio.create_task(_watch(done))
    await done.wait()
    watch.cancel()
    await _finish(server, servicer)


async def _watch(done: asyncio.Event) -> None:
    """Sets `done` once the engine's process is gone: killed with -9 it stops nobody (tried), and this process would stay for ever."""
    import asyncio

    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - a parent's end has no event
        await asyncio.sleep(_ORPHAN_CHECK_S)
    done.set()


async def _finish(server: grpc.aio.Server, servicer: Servicer) -> None:
    """Ends once every purchase under way is settled: what is half made when the engine goes is released, not left behind."""
    await server.stop(None)
    await servicer.settled()


if __name__ == "__main__":
    sys.exit(main())
