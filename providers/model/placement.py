"""Where machines are, which GPUs they have, and what that costs: plain records. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Placement(NamedTuple):
    """A place, and what is bought or runs there: `gpu_count` GPUs in each of `nodes` machines.

    `zone` is empty where only the region is known. `reservation` is empty unless it is bought so.
    """

    provider: str = ""
    region: str = ""
    zone: str = ""
    machine_type: str = ""
    gpu_type: str = ""
    gpu_count: int = 0
    nodes: int = 0
    capacity: str = ""
    reservation: str = ""

    @property
    def where(self) -> str:
        """The zone, else the region, in words."""
        return self.zone or ("any region" if self.region == "any" else self.region)

    @property
    def machine(self) -> str:
        """`a3-highgpu-8g`; `container` where the type says only how many GPUs it has."""
        kind, _, count = self.machine_type.partition("-")
        return kind if kind == "container" and count.isdecimal() else self.machine_type

    @property
    def times(self) -> str:
        """`2 x ` before what each of several machines is; nothing for a single one."""
        return f"{self.nodes} x " if self.nodes > 1 else ""

    @property
    def gpu(self) -> str:
        """`H100:8`: the GPUs of one machine."""
        return f"{self.gpu_type}:{self.gpu_count}"


class Price(NamedTuple):
    """What all nodes cost per hour (None: unknown), as of which day, and by which source."""

    micro_usd: int | None = None
    as_of: str = ""
    source: str = ""
