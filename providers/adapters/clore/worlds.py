"""How the adapter of one world is put together: key, pace, memory, clock, endpoint. Starts the
stand-in for a rehearsal; makes no calls.
"""

from __future__ import annotations

import os
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from providers.adapters.clore.adapter import CloreAdapter
from providers.adapters.clore.client import BASE_URL, Client
from providers.adapters.clore.gate import LIVE_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.options import read
from providers.adapters.clore.orders import order_id
from providers.errors import NotConfigured, Problem, SpecError
from providers.home import home
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from providers.adapters.clore.options import Options
    from providers.rehearsal.clouds.clore.server import Server
    from providers.rehearsal.store import Store

KEY_VARIABLE, JUPYTER_VARIABLE = "CLORE_API_KEY", "CLORE_JUPYTER_TOKEN"
"""Secrets come from the environment alone: settings are kept in a stack's state."""

ACCOUNT = "key"
"""Under this name a key's fingerprint stands with every order."""

LIVE_SOURCE = "clore.ai marketplace, listed live"

_servers: dict[str, Server] = {}
_lock = threading.Lock()


def connect(world: str, config: Mapping[str, str]) -> CloreAdapter:
    """See `providers.adapters.clore.connect`."""
    if find_spec("httpx") is None:
        raise NotConfigured(
            "clore: wanted the HTTP client httpx, found none; install it: pip install"
            " 'gpus[clore]'",
            provider="clore",
        )
    fingerprint = config.get(ACCOUNT, "")
    try:
        chosen = read({name: value for name, value in config.items() if name != ACCOUNT})
    except SpecError as error:
        raise SpecError(
            [Problem(f"settings.clore.{found.path}", *found[1:]) for found in error.problems]
        ) from None
    token = os.environ.get(JUPYTER_VARIABLE, "").strip()
    if world == REHEARSAL:
        return _rehearsal(chosen, token)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    missing = (
        ""
        if key
        else (
            "wanted an API key to rent with, found none; make one at clore.ai (Account, API) and"
            f" set {KEY_VARIABLE}"
        )
    )
    if fingerprint and not key:
        raise NotConfigured(
            f"clore: {missing}: the one with the fingerprint {fingerprint}, or a later one of that"
            " account",
            provider="clore",
        )
    gate = Gate(
        home(writable=False) / f"clore-{_short(key)}.pace", LIVE_PACE, time.time, time.sleep
    )
    client, memory = Client(key, gate, lambda: BASE_URL), Memory(home(writable=False) / "clore.db")
    if fingerprint and fingerprint != fingerprint_of(key):
        same_account(client, memory, fingerprint, fingerprint_of(key))
    return CloreAdapter(
        world,
        client,
        memory,
        chosen,
        time.time,
        LIVE_SOURCE,
        not_configured=missing,
        jupyter_token=token,
        variable=_variable,
        account={ACCOUNT: fingerprint or fingerprint_of(key)} if key else {},
    )


def fingerprint_of(key: str) -> str:
    """What tells one key from another and cannot be turned back into it."""
    import hashlib

    return hashlib.sha256(f"gpus account {key}".encode()).hexdigest()[:12]


def same_account(client: Client, memory: Memory, wanted: str, found: str) -> None:
    """Raises NotConfigured unless the present key, though another, sees an order that was made from
    here with an earlier one: a key that was changed.

    Order ids are the market's own, so one that is seen tells the account. Calls: 1, or 2. Raises
    CloudError when the market cannot be asked.
    """
    ours = set(memory.rentals())
    for completed in (False, True):
        if ours and ours & {order_id(row) for row in client.my_orders(completed=completed)}:
            return
    text = (
        f"clore: wanted the key that it was bought with (fingerprint {wanted}), or another of that"
        f" account, found one of another ({found})"
    )
    raise NotConfigured(f"{text}; set {KEY_VARIABLE}", provider="clore", code="other-key")


class _Rehearsal:
    """The rehearsal market of this home. Its store is opened, and its stand-in started (once in
    this process), when they are first needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store: Store | None = None

    def store(self) -> Store:
        """The shared store."""
        if self._store is None:
            from providers.rehearsal.store import open_store

            self._store = open_store()
        return self._store

    def now(self) -> float:
        """The world's moment. A store that is not there has moved no clock."""
        return self.store().now() if self._store is not None or self.path.exists() else time.time()

    def address(self) -> str:
        """Where the stand-in listens."""
        with _lock:
            server = _servers.get(str(self.path))
            if server is None:
                from providers.rehearsal.clouds.clore.server import start

                server = _servers[str(self.path)] = start(self.store())
            return server.url

    def unopened(self) -> list[object] | None:
        """The market as the stand-in would list it, while nothing has happened in it: a plan then
        starts no server and imports no HTTP client.
        """
        if self.path.exists():
            from providers.rehearsal.clouds.clore import untouched

            if not untouched(self.store()):
                return None
        from providers.rehearsal.clouds.clore.inventory import servers

        return list(servers())


def _rehearsal(chosen: Options, token: str) -> CloreAdapter:
    from providers.rehearsal.clouds.clore import KEY, PACE, SOURCE

    found = _Rehearsal(home() / "rehearsal.db")
    gate = Gate(home() / "clore-rehearsal.pace", PACE, time.time, time.sleep)
    client = Client(KEY, gate, found.address, trust_environment=False)
    memory = Memory(found.path)
    return CloreAdapter(
        REHEARSAL,
        client,
        memory,
        chosen,
        found.now,
        SOURCE,
        jupyter_token=token,
        variable=_variable,
        unopened=found.unopened,
        sole=True,
    )


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _short(key: str) -> str:
    """A name for the key's gate that does not tell the key."""
    import hashlib

    return hashlib.sha256(f"gpus pace {key}".encode()).hexdigest()[:12]
