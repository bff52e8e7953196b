"""EC2 for rehearsals: the query protocol on loopback, checked against botocore's own service model,
its state in the rehearsal store.

Owns `start`. Imports model-free parts only: the store, its own modules, botocore's description of
the API, and the HTTP server when it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.start import Cloud

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.server import Server
    from providers.rehearsal.store import Store


def start(store: Store) -> Server:
    """A server on a free loopback port, answering from its own threads: `url`, `close()`. Listens
    on one socket; makes its tables if needed.
    """
    from providers.rehearsal.clouds.aws.server import Server

    return Server(store)


def untouched(store: Store) -> bool:
    """True while nothing was ever made in this cloud. Reads the store."""
    return not store.has_rows("aws_instance", "aws_thing")


CLOUD = Cloud(start, "", untouched)
