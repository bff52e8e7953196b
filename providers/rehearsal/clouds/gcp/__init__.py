"""Compute Engine for rehearsals: the REST API on loopback, checked against Google's discovery
document, its state in the rehearsal store.

Owns `start`. Imports model-free parts only: the store, its own modules, and the HTTP server when it
is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.start import Cloud

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.server import Server
    from providers.rehearsal.store import Store


def start(store: Store) -> Server:
    """A server on a free loopback port, answering from its own threads: `url`, `close()`. Listens
    on one socket; makes its tables if needed.
    """
    from providers.rehearsal.clouds.gcp.compute import CLOUD
    from providers.rehearsal.clouds.gcp.server import Server

    return Server(store, CLOUD)


# One call lists every zone's machines, so it is always made.
CLOUD = Cloud(start, "/compute/v1/", lambda _store: False)
