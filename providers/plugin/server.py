"""The plugin's process: `pulumi-resource-gpu ENGINE_ADDRESS`. Owns start-up, the port on standard
output, and the end of the process.

Start-up is paid by every preview: grpc and the protocol's messages are all that is imported before
the port is printed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

from providers.home import keep_own_rights

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from providers.engine.journal.shared_lease import SharedLeases

MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""As the engine's own limit (Pulumi SDK 3.272)."""
_ORPHAN_CHECK_S = 1.0
_STARTED_S = 2.0


class Service(Protocol):
    """A servicer that can say when nothing is under way any more."""

    async def settled(self) -> None: ...


def main() -> int:
    """Serves until the engine is gone. The engine's address is the one argument; without it nothing
    is logged (schema reading, attaching).
    """

    def make(engine: str) -> Service:
        from providers.plugin.servicer import Servicer

        return Servicer(engine, of_backend)

    return serve(make)


def of_backend() -> SharedLeases | None:
    """Who has a cluster, as the CLI's backend can tell."""
    from providers.engine.journal import shared_lease

    return shared_lease.of_backend()


def serve(make: Callable[[str], Service]) -> int:
    """Runs a plugin's whole process. `make` gets the engine's address and imports the servicer;
    returns the exit status.
    """
    import gc

    # Start-up makes no garbage worth looking for.
    gc.disable()
    keep_own_rights()
    lean_pydantic()
    lean_protocol()
    import asyncio

    engine = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    try:
        asyncio.run(_serve(engine, make))
    except KeyboardInterrupt:
        return 130
    return 0


def lean_protocol() -> None:
    """Lets `pulumi.runtime.proto` be imported without the whole SDK around it, which a plugin never
    uses and which costs 0.13 s.

    For a process of its own only: afterwards `import pulumi` gives an empty package. Does nothing
    where the SDK is already imported.
    """
    import importlib.util
    import types

    if "pulumi" in sys.modules:
        return
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        return
    for name in ("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
        module = types.ModuleType(name)
        module.__path__ = [
            spec.submodule_search_locations[0] + name.removeprefix("pulumi").replace(".", os.sep)
        ]
        sys.modules[name] = module


def lean_pydantic() -> None:
    """Keeps pydantic (2.14) from looking for plugins of its own, which imports importlib.metadata
    and reads every installed distribution's files.

    Where the module has another name one day, the environment variable still says the same.
    """
    import types

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    loader = types.ModuleType("pydantic.plugin._loader")
    loader.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(loader.__name__, loader)


async def _serve(engine: str, make: Callable[[str], Any]) -> None:
    import asyncio
    import gc
    import signal

    import grpc.aio
    from pulumi.runtime.proto import provider_pb2_grpc

    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(options=options)
    servicer = make(engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_later(_STARTED_S, gc.enable)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    watch = asyncio.create_task(_watch(done))
    await done.wait()
    watch.cancel()
    # What is half made when the engine goes is settled before the process ends, not left behind.
    await server.stop(None)
    await servicer.settled()
    # The engine waits for the exit; taking the interpreter down in order would cost every preview
    # some 0.03 s.
    sys.stderr.flush()
    os._exit(0)


async def _watch(done: asyncio.Event) -> None:
    """Sets `done` once the engine's process is gone: killed with -9 it stops nobody (tried), and
    this process would stay for ever.
    """
    import asyncio

    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - a parent's end has no event
        await asyncio.sleep(_ORPHAN_CHECK_S)
    done.set()


if __name__ == "__main__":
    sys.exit(main())
