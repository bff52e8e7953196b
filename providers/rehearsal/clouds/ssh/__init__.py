"""A rehearsal of machines that somebody owns: two boxes with made-up cards, on which the adapter's
own program runs in a folder. Nothing here is a real machine or price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.start import Cloud, Server

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def start(store: Store) -> Server:
    """Starts a server on a free port of loopback, on threads of this process."""
    from providers.rehearsal.clouds.ssh.server import Boxes

    return Boxes(store)


def untouched(store: Store) -> bool:
    """True while no box was ever asked for anything."""
    from providers.rehearsal.clouds.ssh.box import root

    return not root(store).exists()


def market() -> list[object]:
    """Nothing is listed: a box is asked what it has."""
    return []


CLOUD = Cloud(start, "", untouched, market)
