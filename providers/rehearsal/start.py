"""Starts the rehearsal's servers in this process: one per provider and store, on first use.

Owns which providers are rehearsed (each folder of `clouds`) and the servers that run here. Opens no
store and imports no server before one is needed: a plan opens a rehearsal too.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from providers.home import REHEARSAL_FILE, home
from providers.model.worlds import RehearsedCloud

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from providers.rehearsal.store import Store


class Server(Protocol):
    """A running server: `url` is where it listens, `close` ends it."""

    @property
    def url(self) -> str: ...

    def close(self) -> None: ...


class Cloud(NamedTuple):
    """What a folder of `clouds` presents as `CLOUD`. `start` runs a server on a store; `base` is
    what a client's endpoint has after the server's url; `untouched` is True while nothing was
    ordered in a store; `market`: see `RehearsedCloud`.
    """

    start: Callable[[Store], Server]
    base: str
    untouched: Callable[[Store], bool]
    market: Callable[[], list[object]] | None = None


_servers: dict[tuple[str, Path], Server] = {}
_lock = threading.Lock()


@cache
def clouds() -> tuple[str, ...]:
    """The providers that are rehearsed, by name. Looks at one folder, once."""
    from pathlib import Path

    folder = Path(__file__).parent / "clouds"
    return tuple(sorted(found.parent.name for found in folder.glob("*/__init__.py")))


def server(provider: str, store: Store) -> Server:
    """This process's server for a provider on a store; starts it on first use."""
    with _lock:
        key = (provider, store.path)
        if key not in _servers:
            _servers[key] = _cloud(provider).start(store)
        return _servers[key]


def stop(file: Path | None = None) -> None:
    """Ends the servers of this process: those on this store's file, or all."""
    with _lock:
        for key in [key for key in _servers if file in (None, key[1])]:
            _servers.pop(key).close()


def rehearsed(provider: str) -> RehearsedCloud | None:
    """What the provider's adapter is given in a rehearsal of this user; None for a provider that
    is not rehearsed here. Raises OSError or sqlite3's errors where the store cannot be used; of a
    cloud with a market it is opened later, so that a plan opens none.
    """
    return _Rehearsal(provider).given() if provider in clouds() else None


def _cloud(provider: str) -> Cloud:
    from importlib import import_module

    found: Cloud = import_module(f"providers.rehearsal.clouds.{provider}").CLOUD
    return found


class _Rehearsal:
    """One provider's rehearsal in this user's store, which is opened when it is first needed."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._file = home() / REHEARSAL_FILE
        self._store: Store | None = None
        self._opening = threading.Lock()
        if _cloud(provider).market is None:
            self._opened()

    def given(self) -> RehearsedCloud:
        return RehearsedCloud(self._endpoint, self._now, self._untouched, self._market)

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                from providers.rehearsal.store import open_store

                self._store = open_store(self._file)
            return self._store

    def _is_new(self) -> bool:
        """True where there is no store: then nothing happened, and no clock was moved."""
        return self._store is None and not self._file.exists()

    def _endpoint(self) -> str:
        url = server(self._provider, self._opened()).url
        return f"{url}{_cloud(self._provider).base}"

    def _now(self) -> float:
        if self._is_new():
            import time

            return time.time()
        return self._opened().now()

    def _untouched(self) -> bool:
        return self._is_new() or _cloud(self._provider).untouched(self._opened())

    def _market(self) -> list[object] | None:
        market = _cloud(self._provider).market
        return market() if market is not None and self._untouched() else None
