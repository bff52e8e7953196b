"""Storage that outlives machines: as it is declared, ordered, observed and mounted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.model.machine import Handle

VOLUME_IDS = "/var/lib/gpus/volumes"
"""The file on a machine that says which disk is which volume, where the disk's name doesn't."""
CREATING, READY, DELETING = "creating", "ready", "deleting"
"""The states of a volume that exists."""


class VolumeSpec(NamedTuple):
    """A volume as declared. `place` is a zone of the provider, empty where it has none; `type` is
    the provider's own name; `size_gib` is 0 where volumes grow by themselves.
    """

    name: str
    provider: str
    place: str = ""
    size_gib: int = 0
    type: str = ""
    region: str = ""

    def __str__(self) -> str:
        size = f"{self.size_gib:,} GiB " if self.size_gib else ""
        return " ".join(filter(None, (f"{size}{self.type}", "at", self.provider, self.place)))


class VolumeOrder(NamedTuple):
    """One creating call: what, whose, and the token (a UUID) that the cloud does once. `stack` is
    `stack_id` of its project and stack; `title` is for people.
    """

    spec: VolumeSpec
    owner: str
    stack: str
    token: str
    title: str = ""


class Volume(NamedTuple):
    """A volume as observed. `users` are the machines that it is attached to; `created_at` in
    seconds since the epoch, 0 for unknown.
    """

    handle: Handle
    spec: VolumeSpec
    status: str
    owner: str = ""
    stack: str = ""
    users: tuple[str, ...] = ()
    created_at: float = 0.0


class VolumeSales(NamedTuple):
    """What volumes a provider has. `types` has each type with its least and greatest size in GiB,
    the default first; none where volumes grow by themselves and have no place.

    `shared` are the types that several machines can mount read-only at once. `attaches` says of
    (machine type, type of volume) which types that machine takes instead; empty where it takes it.
    """

    types: tuple[tuple[str, int, int], ...] = ()
    shared: frozenset[str] = frozenset()
    attaches: Callable[[str, str], str] | None = None
    name_most: int = 40
    """How long a volume's name may be."""


def stack_id(project: str, stack: str) -> str:
    """Twelve hex digits that stand for a project's stack on a label, the same in each of its lives.
    Pure.
    """
    import hashlib

    return hashlib.sha256(f"{project}/{stack}".encode()).hexdigest()[:12]
