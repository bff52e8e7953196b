"""What is for sale, and what a plan makes of it: plain records. Pure.

Hardware (what a GPU is) and offer (what somebody sells) are separate: an offer names its
`gpu_type`, the catalog knows the rest.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from providers.model.money import usd
from providers.model.placement import Placement, Price

AT_MOST = "at most "
"""How the parts of a price begin that is paid only while all of them are busy."""


class Term(NamedTuple):
    """The window that an offer is for, in seconds since the epoch, and what all nodes cost for all
    of it, to be paid at once. `offering` is its cloud's name for it.

    Its machines are ended at `ends_at`; the window itself may be a little longer.
    """

    offering: str
    begins_at: float
    ends_at: float
    upfront_micro_usd: int

    @property
    def paid(self) -> bool:
        """Whether nothing is to be paid any more: no cloud sells one for nothing."""
        return not self.upfront_micro_usd


class Offer(NamedTuple):
    """One way to buy one node: where, what, how, and for how much.

    `zone` is empty where the source names only the region. `gpu_count` is per node and a fraction
    for a slice of a GPU. `node_micro_usd` is all-in for one node per hour (machine + GPU + bundled
    disk); None means that no source had a price. `left_out` names what the price does not hold.
    `restriction` is non-empty where the cloud does not sell this kind of capacity, or not for what
    is asked (`Unsuited`).
    """

    provider: str
    region: str
    zone: str
    machine_type: str
    gpu_type: str
    gpu_count: float
    capacity: str
    node_micro_usd: int | None
    price_as_of: str = ""
    price_source: str = ""
    gpu_memory_gib: float = 0.0
    vcpus: float = 0.0
    memory_gib: float = 0.0
    local_ssd_gib: int = 0
    accelerator: str = ""
    """What the cloud calls a GPU that is attached to a plain host (`nvidia-tesla-t4`); empty where
    the machine type brings it.
    """
    parts: str = ""
    left_out: str = ""
    restriction: str = ""
    term: Term | None = None
    """The window that it is for; None for capacity by the hour."""

    @property
    def by_use(self) -> bool:
        """Whether its price is what all that may run at once costs: less runs, and is billed, when
        there is less to do.
        """
        return self.parts.removeprefix("(").startswith(AT_MOST)

    @property
    def id(self) -> str:
        """`gcp/us-central1-a/a3-highgpu-8g/H100:8/spot`: unique within a catalog."""
        count = int(self.gpu_count) if self.gpu_count == int(self.gpu_count) else self.gpu_count
        return (
            f"{self.provider}/{self.zone or self.region}/{self.machine_type}"
            f"/{self.gpu_type}:{count}/{self.capacity}"
            + (f"/{self.term.offering}" if self.term else "")
        )


class Candidate(NamedTuple):
    """A ranked offer that satisfies the ask. `rank` counts from 1. `entry` is the index of the
    ask's entry that it serves.

    The price is always the whole candidate: all nodes, per hour.
    """

    rank: int
    entry: int
    offer: Offer
    nodes: int
    reservation: str = ""
    micro_usd: int | None = None
    exact: bool = False
    """Asked with a `!`: no upgrade may be delivered instead."""
    kind: str = "machine"
    """What is made there: machine, job or service."""

    @property
    def provider(self) -> str:
        return self.offer.provider

    @property
    def region(self) -> str:
        return self.offer.region

    @property
    def zone(self) -> str:
        return self.offer.zone

    @property
    def machine_type(self) -> str:
        return self.offer.machine_type

    @property
    def gpu_type(self) -> str:
        return self.offer.gpu_type

    @property
    def gpu_count(self) -> int:
        """Per node."""
        return int(self.offer.gpu_count)

    @property
    def capacity(self) -> str:
        return self.offer.capacity

    @property
    def price_usd_per_hour(self) -> float | None:
        """All nodes; None when unknown."""
        return None if self.micro_usd is None else usd(self.micro_usd)

    @property
    def placement(self) -> Placement:
        """Where it is and what it has, all nodes."""
        return Placement(
            *self.offer[:5], self.gpu_count, self.nodes, self.capacity, self.reservation
        )

    @property
    def price(self) -> Price:
        """All nodes per hour, with the offer's date and source."""
        return Price(self.micro_usd, self.offer.price_as_of, self.offer.price_source)


class Unsuited(str):
    """A restriction that follows from what is asked for. `rule` is the planner's rule that the
    place breaks by it.
    """

    __slots__ = ("rule",)
    rule: str

    def __new__(cls, text: str, rule: str) -> Self:
        made = super().__new__(cls, text)
        made.rule = rule
        return made


def dated(as_of: str) -> str:
    """The date of a price as people read it; `in 2026` where its source names no day."""
    whole = 10
    return as_of if len(as_of) >= whole or not as_of else f"in {as_of}"


class Rejection(NamedTuple):
    """An offer that was refused, by which rule, and why."""

    offer: Offer
    rule: str
    wanted: str
    found: str
