"""The real `modal` client: importing it, and sending one call within a limit of time. Owns how it
is imported.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.modal.gpu import PROVIDER
from providers.errors import Transient

if TYPE_CHECKING:
    from concurrent.futures import Future

REACH_S = 5.0
"""Real seconds for the look whether the server can be reached at all: the client itself tries for a
minute.
"""
_importing = threading.RLock()
"""One thread at a time imports the client: its modules import each other in circles, and a second
thread would see them half made.
"""


def modal_package() -> Any:
    """The package `modal`."""
    with _importing:
        import modal

        _quieten()
        return modal


def _quieten() -> None:
    """Keeps tracebacks of the client's own loops off the user's screen: while an app is deployed it
    sends heartbeats, and each that fails during an outage is printed whole (modal 1.6.4,
    `_utils/async_utils.py`). What the outage means is told by the calls that fail.
    """
    import logging

    logger = logging.getLogger("modal-utils")
    if _untold not in logger.filters:
        logger.addFilter(_untold)


def _untold(record: Any) -> bool:
    return not record.exc_info


def protocol() -> Any:
    """The module of Modal's messages."""
    with _importing:
        from modal_proto import api_pb2

        return api_pb2


def import_client(*, rehearsal: bool) -> Any:
    """Imports the client. In a rehearsal the user's own `~/.modal.toml`, which is read at import,
    stays out of it.
    """
    import os
    import sys

    from providers.home import home

    with _importing:
        if not rehearsal or "modal" in sys.modules:
            return protocol()
        old = os.environ.get("MODAL_CONFIG_PATH")
        os.environ["MODAL_CONFIG_PATH"] = str(home() / "no-modal.toml")
        try:
            modal_package()
            return protocol()
        finally:
            if old is None:
                del os.environ["MODAL_CONFIG_PATH"]
            else:
                os.environ["MODAL_CONFIG_PATH"] = old


def reach(url: str) -> None:
    """Opens and closes a socket to the first server of `url`, or to the proxy before it. Raises
    Transient: nothing was sent.
    """
    import os
    import socket
    from urllib.parse import urlsplit
    from urllib.request import proxy_bypass

    first = urlsplit(url.split(",")[0].strip())
    proxy = next(
        (
            value
            for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
            if (value := os.environ.get(name))
        ),
        "",
    )
    behind = bool(proxy and first.hostname and not proxy_bypass(first.hostname))
    if behind:
        first = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        if first.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(REACH_S)
                probe.connect(first.path)
        elif first.hostname or behind:
            port = first.port or (80 if first.scheme == "http" else 443)
            socket.create_connection((first.hostname, port), REACH_S).close()
    except (OSError, ValueError) as error:
        where = (
            f"through the proxy {first.hostname or 'of HTTPS_PROXY'}"
            if behind
            else f"at {first.hostname or first.path}"
        )
        raise Transient(
            f"Modal can't be reached {where}: {error}", provider=PROVIDER, code="unreachable"
        ) from error


def within_limit(function: Any, limit_s: float, what: str) -> Any:
    """The result of a blocking call of the client, or TimeoutError after `limit_s` real seconds; it
    is then left to end by itself.
    """
    from concurrent.futures import Future

    future: Future[Any] = Future()

    def go() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=go, name=f"gpus-modal-{what}", daemon=True).start()
    return future.result(limit_s)


_runner: Any = None


def send(client: Any, method: str, request: Any, limit_s: float, token: str | None) -> Any:
    """Sends one call on the client's own loop. With a token it is sent once, with the token as
    idempotency key.
    """
    global _runner  # noqa: PLW0603 (made once: it needs the client's import)
    if _runner is None:
        _runner = _make_runner()
    return _runner(_stub(client), method, request, limit_s, token)


def _stub(client: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        # The client warns that its stub is no stable interface; the version is pinned and a test
        # compares what is sent.
        warnings.simplefilter("ignore")
        return client.stub


def _make_runner() -> Any:
    import asyncio

    from modal._utils.async_utils import synchronizer

    async def call(stub: Any, method: str, request: Any, limit_s: float, token: str | None) -> Any:
        function = getattr(stub, method)
        if token is None:
            return await asyncio.wait_for(function(request), limit_s)
        metadata = [("x-idempotency-key", token)]
        return await asyncio.wait_for(
            function(request, retry=None, timeout=limit_s, metadata=metadata), limit_s + 1.0
        )

    return synchronizer.create_blocking(call, "modal_call", __name__)
