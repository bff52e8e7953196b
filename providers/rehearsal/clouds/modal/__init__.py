"""The rehearsal's Modal: a gRPC server on a unix socket that the real client talks to. Owns its
life; `service` answers, `state` keeps.

It runs in a thread and an event loop of its own, beside whatever else the process serves.
Everything it knows is in the shared store, so two processes with a server each are one cloud.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.modal.gpus import PROVIDER
from providers.rehearsal.start import Cloud

if TYPE_CHECKING:
    from pathlib import Path

    from providers.rehearsal.store import Store

START_S = 20.0
SOCKET_PATH_MAX = 100
"""Linux takes 107 bytes for a socket's path."""


class Server:
    """A running server. `url` is what the client connects to; `close` ends it. With `tcp` it also
    answers at a port of 127.0.0.1, `tcp_url`, where sandboxes take commands: the client speaks
    without TLS to such a place alone.
    """

    def __init__(self, store: Store, path: Path, *, tcp: bool = False) -> None:
        self.path = path
        self.tcp_url = f"http://127.0.0.1:{_free_port()}" if tcp else ""
        self.url = f"unix://{path}"
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: Any = None
        self._stop: Any = None
        self._thread = threading.Thread(
            target=self._run, args=(store,), name="gpus-modal-stand-in", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)
        if not self._started.wait(START_S) or self._failure is not None:
            raise OSError(
                f"the rehearsal's Modal did not start at {path}: {self._failure or 'no answer'}"
            )

    def _run(self, store: Store) -> None:
        import asyncio

        try:
            asyncio.run(self._serve(store))
        except BaseException as error:
            self._failure = error
            self._started.set()

    async def _serve(self, store: Store) -> None:
        import asyncio

        from grpclib.server import Server as GrpcServer
        from modal._utils.grpc_utils import custom_detail_codec

        from providers.rehearsal.clouds.modal.service import handlers

        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        services = [handlers(store, self.tcp_url)]
        servers = [GrpcServer(services, status_details_codec=custom_detail_codec)]
        await servers[0].start(path=str(self.path))
        if self.tcp_url:
            from providers.rehearsal.clouds.modal import router
            from providers.rehearsal.clouds.modal.state import State

            services = [
                *services,
                router.handlers(State(store), self.path.parent / "modal-sandboxes"),
            ]
            servers.append(GrpcServer(services, status_details_codec=custom_detail_codec))
            await servers[1].start("127.0.0.1", int(self.tcp_url.rpartition(":")[2]))
        self._started.set()
        await self._stop.wait()
        for server in servers:
            server.close()
            await server.wait_closed()
        store.close()

    def close(self) -> None:
        """Ends the server and removes its socket; the process's end does so too.
        Again is nothing.
        """
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(5.0)
        self.path.unlink(missing_ok=True)


def start(store: Store, *, tcp: bool = False) -> Server:
    """Starts a server on this store, on a socket of its own, and on a port as well if told so."""
    return Server(store, _socket_path(store.path.parent), tcp=tcp)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def untouched(store: Store) -> bool:
    """True while nothing was ever ordered and no failure is planned. A few reads of the store."""
    return not (
        store.has_rows("modal_app", "modal_sandbox", "modal_volume") or store.faults(PROVIDER)
    )


CLOUD = Cloud(start, "", untouched)


def _socket_path(folder: Path) -> Path:
    """A path for a new socket, in `folder` unless that is too deep; sockets of processes that are
    gone are removed.
    """
    import os
    import secrets
    import tempfile
    from pathlib import Path

    for old in folder.glob(f"{PROVIDER}-*.sock"):
        owner = old.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            old.unlink(missing_ok=True)
    path = folder / f"{PROVIDER}-{os.getpid()}-{secrets.token_hex(3)}.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    return Path(tempfile.mkdtemp(prefix="gpus-")) / path.name
