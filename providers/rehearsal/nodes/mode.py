"""How the machines of a rehearsal run: played, or as containers. Owns that setting of the store."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from providers.home import REHEARSAL_FILE, home

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

PLAYED, DOCKER = "played", "docker"
MODES = {
    PLAYED: "nothing of a machine runs; its course follows from the scenario",
    DOCKER: "each machine is a container with systemd, sshd and a Docker of its own",
}
_KEY = "nodes"


def clouds() -> tuple[str, ...]:
    """The providers whose machines can run. Looks at one folder."""
    folder = Path(__file__).parents[1] / "clouds"
    return tuple(sorted(found.parent.name for found in folder.glob("*/nodes.py")))


def of(store: Store) -> str:
    """`played` or `docker`."""
    return store.value(_KEY) or PLAYED


def choose(store: Store, wanted: str) -> None:
    """From now on the machines of this store are of that kind."""
    store.set_value(_KEY, wanted)


def here(provider: str) -> bool:
    """Whether they are in this user's rehearsal. Reads its store, where there is one."""
    path = home() / REHEARSAL_FILE
    return path.exists() and runs(_opened(path), provider)


@lru_cache(maxsize=1)
def _opened(path: Path) -> Store:
    from providers.rehearsal.store import open_store

    return open_store(path)


def runs(store: Store, provider: str) -> bool:
    """Whether the machines of this provider are containers."""
    return of(store) == DOCKER and provider in clouds()


def refused(store: Store) -> str:
    """What Docker last refused, while it does; else empty."""
    return store.value("nodes refused")


def refuse(store: Store, why: str) -> None:
    """Keeps that; empty: it is over."""
    store.set_value("nodes refused", why)
