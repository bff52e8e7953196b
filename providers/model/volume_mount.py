"""A volume as a workload sees it. Pure."""

from __future__ import annotations

from typing import NamedTuple


class VolumeMount(NamedTuple):
    """A volume as a folder of a machine, and where it stands."""

    name: str
    path: str
    writable: bool = True
    provider: str = ""
    place: str = ""
    type: str = ""
    id: str = ""
    """The disk's own id, where an order's machine has to be told it."""
