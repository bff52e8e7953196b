"""Vertex AI for rehearsals: its custom jobs over REST on loopback, checked against Google's
discovery document, its state in the rehearsal store.

Owns `start`. The HTTP server is the one of Compute Engine's stand-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.start import Cloud

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.server import Server
    from providers.rehearsal.store import Store


def start(store: Store) -> Server:
    """A server on a free loopback port, answering from its own threads: `url`, `close()`. Listens
    on one socket; makes its table if needed.
    """
    from providers.rehearsal.clouds.gcp.server import Server
    from providers.rehearsal.clouds.vertex.calls import CLOUD

    return Server(store, CLOUD)


def untouched(store: Store) -> bool:
    """True where no job was ever made here. Reads the store."""
    return not store.has_rows("vertex_job")


CLOUD = Cloud(start, "/", untouched)
