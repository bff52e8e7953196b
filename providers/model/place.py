"""Places and what is blocked there. Owns Scope and Block; pure, imports nothing.

Region and zone are never mixed: `us-central1` is a region, `us-central1-a` a zone of it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Placed(Protocol):
    """Whatever has a place: an offer or a candidate."""

    @property
    def provider(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def machine_type(self) -> str: ...
    @property
    def gpu_type(self) -> str: ...
    @property
    def capacity(self) -> str: ...


class Scope(NamedTuple):
    """A set of offers: an empty field matches everything. `Scope("gcp")` is the whole provider."""

    provider: str
    region: str = ""
    zone: str = ""
    machine_type: str = ""
    gpu_type: str = ""
    capacity: str = ""

    def covers(self, place: Placed) -> bool:
        """True when every field that is set equals the place's."""
        return (
            self.provider == place.provider
            and (not self.region or self.region == place.region)
            and (not self.zone or self.zone == place.zone)
            and (not self.machine_type or self.machine_type == place.machine_type)
            and (not self.gpu_type or self.gpu_type == place.gpu_type)
            and (not self.capacity or self.capacity == place.capacity)
        )

    def __str__(self) -> str:
        where = self.zone or self.region or "everywhere"
        what = " ".join(
            part for part in (self.machine_type or self.gpu_type, self.capacity) if part
        )
        return f"{self.provider} {where}" + (f" {what}" if what else "")


class Block(NamedTuple):
    """A scope to leave alone until a moment (seconds since the epoch, on the world's clock), and
    why.

    `closed`: the account cannot use it until somebody changes the account; else it was recently out
    of capacity.
    """

    scope: Scope
    until: float
    reason: str
    closed: bool = False
