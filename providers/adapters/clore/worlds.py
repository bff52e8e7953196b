"""How the adapter of one world is put together: key, pace, memory, clock, endpoint. Makes no
calls.
"""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from providers.adapters.base import given
from providers.adapters.clore.adapter import CloreAdapter
from providers.adapters.clore.client import BASE_URL, Client
from providers.adapters.clore.gate import LIVE_PACE, REHEARSAL_PACE, Gate
from providers.adapters.clore.memory import Memory
from providers.adapters.clore.options import read
from providers.adapters.clore.orders import order_id
from providers.errors import NotConfigured, Problem, SpecError
from providers.home import REHEARSAL_FILE, home
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.clore.options import Options
    from providers.model.worlds import RehearsedCloud

KEY_VARIABLE, JUPYTER_VARIABLE = "CLORE_API_KEY", "CLORE_JUPYTER_TOKEN"
"""Secrets come only from the environment: settings are kept in a stack's state."""

ACCOUNT = "key"
"""Under this name a key's fingerprint stands with every order."""

LIVE_SOURCE = "clore.ai marketplace, listed live"

REHEARSAL_KEY, REHEARSAL_SOURCE = "rehearsal", "rehearsal market, made up 2026-11-27"


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> CloreAdapter:
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
        return _rehearsal(chosen, token, given("clore", rehearsed))
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


def _rehearsal(chosen: Options, token: str, rehearsed: RehearsedCloud) -> CloreAdapter:
    gate = Gate(home() / "clore-rehearsal.pace", REHEARSAL_PACE, time.time, time.sleep)
    client = Client(REHEARSAL_KEY, gate, rehearsed.endpoint, trust_environment=False)
    return CloreAdapter(
        REHEARSAL,
        client,
        Memory(home() / REHEARSAL_FILE),
        chosen,
        rehearsed.now,
        REHEARSAL_SOURCE,
        jupyter_token=token,
        variable=_variable,
        unopened=rehearsed.market,
        sole=True,
    )


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _short(key: str) -> str:
    """A name for the key's gate that does not tell the key."""
    import hashlib

    return hashlib.sha256(f"gpus pace {key}".encode()).hexdigest()[:12]
