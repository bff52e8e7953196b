"""What a placement is, whoever asks: where it is, and which GPUs were ordered or bought there."""

from __future__ import annotations

from typing import Protocol

from providers.model.place import Placed


class Gpus(Protocol):
    """So many GPUs of one model in each of so many machines."""

    @property
    def gpu_type(self) -> str: ...
    @property
    def gpu_count(self) -> int: ...
    @property
    def nodes(self) -> int: ...


class Placement(Placed, Gpus, Protocol):
    """A place and its GPUs: a candidate, or a cluster's record."""
