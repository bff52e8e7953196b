"""The disks that outlive machines, as folders of one Docker volume of the store, which each of its
machines has. Owns that volume, and which folders are in it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.nodes import docker, image, owned

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from providers.rehearsal.store import Store

FOLDER = "/var/lib/rehearsal-disks"
_KNOWN = "node disks"


class Attached(NamedTuple):
    """A disk at a machine: its key among all of the store, its name below `/dev/disk/by-id`, and
    its serial number.
    """

    key: str
    link: str
    serial: str


def volume(store: Store) -> str:
    """The volume's name at Docker."""
    return owned.named(store, "disks")


def make(store: Store) -> None:
    """Makes the volume unless it is there. Raises DockerError."""
    docker.call("volume", "create", "--label", owned.label(store), volume(store))


def known(store: Store) -> list[str]:
    """The keys of the disks that have a folder."""
    kept: list[str] = json.loads(store.value(_KNOWN) or "[]")
    return kept


def attached(store: Store, keys: Iterable[str]) -> None:
    """Keeps that these have a folder from now on."""
    before = known(store)
    if new := sorted({*keys} - {*before}):
        store.set_value(_KNOWN, json.dumps(before + new))


def sweep(store: Store, existing: Collection[str]) -> None:
    """Deletes the data of disks that their cloud no longer has. Raises DockerError."""
    before = known(store)
    gone = [key for key in before if key not in existing]
    if gone:
        words = ("run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "/bin/rm")
        folders = [f"{FOLDER}/{key}" for key in gone]
        docker.call(*words, "--volume", f"{volume(store)}:{FOLDER}", image.TAG, "-rf", *folders)
        store.set_value(_KNOWN, json.dumps([key for key in before if key not in gone]))


def remove(store: Store, *, data: bool) -> None:
    """Removes the volume where no machine has it; one with data only if that may go too."""
    if data or not known(store):
        with suppress(docker.DockerError):
            docker.call("volume", "rm", volume(store))
        store.set_value(_KNOWN, "")
