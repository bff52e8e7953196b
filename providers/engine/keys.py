"""A cluster's own key pair and token, in a folder of this machine.
Owns its layout; asks no cloud.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError
from providers.home import home, private, private_folder
from providers.model.machine import OWN_KEY
from providers.model.worlds import REHEARSAL
from providers.rehearsal import node as standin
from providers.remote.ssh import made_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from providers.engine.runtime.world import World
    from providers.remote.ssh import Key
KEYS = "keys"

TOKEN_FILE = "token"  # noqa: S105 - a file's name
TOKEN_BYTES = 24


class ClusterKeys(NamedTuple):
    """What this machine keeps of a cluster. `key` is None where there is none: a rehearsal needs no
    OpenSSH.
    """

    folder: Path
    key: Key | None

    @property
    def public(self) -> str:
        """The public half of the key; empty without one."""
        return "" if self.key is None else self.key.public

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def nodes(self) -> Path:
        return self.folder / "nodes"


def folder(world: str, owner: str, cluster: str = "") -> Path:
    """Where a cluster's folder is or would be; without a cluster its owner's. Raises GpusError for
    what cannot be a folder's name. Pure.
    """
    parts = (world, owner, cluster) if cluster else (world, owner)
    if any(not part or part.startswith(".") or "/" in part for part in parts):
        raise GpusError(
            f"wanted the names of a world, an owner and a cluster, found {'/'.join(parts)!r}"
        )
    return home(writable=False).joinpath(KEYS, *parts)


def make(world: str, owner: str, cluster: str) -> ClusterKeys:
    """The folder of a cluster that is about to be bought, with its key pair; an earlier one is used
    again. Runs ssh-keygen, once.

    Raises NoOpenSsh where that is not installed, and GpusError where the folder cannot be written.
    """
    home()
    place = folder(world, owner, cluster)
    try:
        private_folder(place)
    except OSError as error:
        raise GpusError(
            f"{place}: wanted a folder for the cluster's ssh key, found {error.strerror or error}"
        ) from None
    return ClusterKeys(place, made_key(place, f"{OWN_KEY}{cluster}"))


def opened(world: str, owner: str, cluster: str) -> ClusterKeys | None:
    """What is kept of a cluster here; None where it was bought from another machine, or is gone.
    Reads only.
    """
    place = folder(world, owner, cluster)
    if not place.is_dir():
        return None
    return ClusterKeys(place, made_key(place, "") if (place / "id_ed25519").exists() else None)


def forget(world: str, owner: str, cluster: str = "") -> None:
    """Removes what is kept of a cluster that is confirmed gone, or of all of an owner's, and ends
    what its stand-ins still run.
    """
    if world == REHEARSAL:
        standin.end(folder(world, owner, cluster))
    shutil.rmtree(folder(world, owner, cluster), ignore_errors=True)


def tidied(world: World, owner: str, cluster: str) -> None:
    """Forgets the cluster if nothing of it is left, as far as the journal knows: another
    generation's machines bear the same key.
    """
    if not owner or not cluster:
        return
    open_ones = any(
        launch.ended_at is None for launch in world.journal.launches(world.name, owner, cluster)
    )
    if not open_ones and not world.journal.orders(world.name, owner, cluster):
        forget(world.name, owner, cluster)


@contextmanager
def kept(world: World, owner: str, cluster: str) -> Iterator[None]:
    """A purchase that came to nothing leaves no key behind."""
    try:
        yield
    except BaseException:
        with suppress(GpusError):
            tidied(world, owner, cluster)
        raise


def token(world: str, owner: str, cluster: str) -> str:
    """A service's token, made on first use and kept beside the cluster's key. Reads and writes one
    file. Raises GpusError.
    """
    place = folder(world, owner, cluster) / TOKEN_FILE
    try:
        if place.exists():
            return place.read_text(encoding="ascii").strip()
        private_folder(place.parent)
        private(place).write_text(
            made := f"gpus-{secrets.token_urlsafe(TOKEN_BYTES)}", encoding="ascii"
        )
    except OSError as error:
        raise GpusError(
            f"{place}: wanted a place for the service's token, found {error.strerror or error}"
        ) from None
    return made
