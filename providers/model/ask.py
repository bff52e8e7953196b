"""What is wanted, compiled: the plain records that the planner, the engine and the adapters read.

Owns Choice and Ask and the reading of a GPU string. Pure; imports nothing heavy, so that
`gpus plan` starts fast. The typed face of the same content, for Python programs and stack files, is
`providers.model.spec`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.offer import Offer
    from providers.model.workload import Override, Workload

ON_DEMAND, SPOT, FLEX_START, RESERVATION = "on-demand", "spot", "flex-start", "reservation"
CAPACITIES = (ON_DEMAND, SPOT, FLEX_START, RESERVATION)
"""The kinds that the catalog lists."""
BLOCK = "block"
"""A window in the calendar, paid for in full beforehand: listed by its cloud alone."""
BY_CHOICE, PREFERENCE, PRICE, PERFORMANCE, EXPECTED = (
    "price_by_choice",
    "preference",
    "price",
    "performance_per_dollar",
    "expected",
)
RANKS = (BY_CHOICE, PREFERENCE, PRICE, PERFORMANCE, EXPECTED)
"""What comes first: the first choice that has room, at its cheapest place (the default) or at the
first provider listed; the cheapest of all choices; the most work for a dollar of all; or what costs
least of all with the wait for it, by what was tried before.
"""
DEFAULT_WAIT_S = 15 * 60
"""The field `wait` where a declaration says nothing."""
TTL_LEAST_S = 600
"""The shortest `ttl`."""
DISK_GIB = (10, 65_536)
"""The smallest and the largest boot disk that can be asked for."""

_GPU = re.compile(r"^\s*(?P<type>[^:!]*?)\s*(?P<exact>!?)\s*(?::\s*(?P<count>[^:]*?)\s*)?$")
_COUNT_MAX = 100_000
_RESERVATION = re.compile(r"^reservation\(\s*([A-Za-z0-9][A-Za-z0-9._/-]*)\s*\)$")


class Capacity(NamedTuple):
    """How capacity is bought. `reservation` is its name, for kind `reservation` only."""

    kind: str
    reservation: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({self.reservation})" if self.reservation else self.kind


class GpuText(NamedTuple):
    """`"H100!:8"`, read. `gpu_count` is None where the string names none."""

    type: str
    exact: bool
    gpu_count: int | None


class Choice(NamedTuple):
    """One acceptable choice, in order of preference: the `gpu`, then each `fallback`.

    `gpu` is the name as asked ("" when asked by memory); `gpu_count` is per node; `path` is where
    it stands in the declaration.
    """

    gpu: str
    gpu_count: int
    path: str = "gpu"
    exact: bool = False
    min_memory_gib: float | None = None
    nodes: int = 1
    capacity: tuple[Capacity, ...] = (Capacity(ON_DEMAND),)
    wait_s: int = DEFAULT_WAIT_S
    ttl_s: int | None = None
    override: Override | None = None
    """What this choice changes of the workload."""
    replicas: bool = False
    """Each node runs the whole service alone, and a proxy spreads the requests over them."""

    @property
    def span(self) -> int:
        """How many nodes one copy of the workload runs on."""
        return 1 if self.replicas else self.nodes


class PriceOverride(NamedTuple):
    """A negotiated rate, for one node per hour. Empty fields match everything; the first match
    wins.
    """

    micro_usd: int
    provider: str
    region: str = ""
    machine_type: str = ""
    gpu: str = ""
    capacity: str = ""


class BlockTerms(NamedTuple):
    """How long a block lasts, within which time it begins, and the most that all of it may cost.
    `paid` are the blocks that the cluster has paid for and that are not over.
    """

    lasts_s: int
    start_within_s: int
    max_micro_usd: int
    paid: tuple[Offer, ...] = ()


class Ask(NamedTuple):
    """Everything that decides which offers are acceptable, and in which order."""

    entries: tuple[Choice, ...]
    kind: str = "machine"
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    rank: str = BY_CHOICE
    marketplaces: bool = False
    """Strangers' hosts will do although no marketplace is named in `providers`."""
    max_price_micro_usd: int | None = None
    accept_suspect_prices: bool = False
    """A price that can hardly be true is bought all the same."""
    price_overrides: tuple[PriceOverride, ...] = ()
    disk_gib: int | None = None
    options: Mapping[str, Mapping[str, object]] = {}
    """Provider -> its own section, which may change what its offers cost."""
    ports: tuple[int, ...] = ()
    """What a machine's inside is to be reached at, besides ssh."""
    ssh: bool = False
    """Only machines that answer ssh will do."""
    login: bool = False
    """Only machines that take commands and files from here will do, by ssh or in their provider's
    own way.
    """
    workload: Workload | None = None
    """What runs there: a place that cannot hold it is refused."""
    secrets: tuple[tuple[str, frozenset[str]], ...] = ()
    """Name of each secret -> the providers that a reference says how to fetch it at."""
    by_login: bool = False
    """What runs is started by login once the machine is ready, not by the machine itself at its
    boot.
    """
    tls: bool = False
    """The proxy of its replicas has a certificate."""
    image: str = ""
    """The container image that runs there, where a market is listed for an ask."""
    gpu_types: frozenset[str] = frozenset()
    """The GPU types that its choices accept, where a market is listed for it; none: any."""
    block: BlockTerms | None = None
    """What a block may be, where one of the choices is bought as one."""

    @property
    def block_choices(self) -> tuple[Choice, ...]:
        """The choices that may be bought as a block."""
        return tuple(
            entry for entry in self.entries if any(way.kind == BLOCK for way in entry.capacity)
        )

    @property
    def replicated(self) -> bool:
        """Whether a service runs on each node alone, behind a proxy."""
        return any(entry.replicas for entry in self.entries)

    def allows(self, provider: str, *, marketplace: bool) -> bool:
        """Whether this provider may be bought from. A marketplace, whose machines are strangers'
        hosts, only where it is named or asked for.
        """
        return (
            provider in self.providers if self.providers else self.marketplaces or not marketplace
        )


def gpu_text(text: str, path: str = "gpu") -> GpuText:
    """Reads `"H100"`, `"H100:8"`, `"H100!:8"`. Raises SpecError; whether the name is known is the
    catalog's business.
    """
    match = _GPU.match(text) if isinstance(text, str) else None
    if match is None or not match["type"]:
        todo = "write TYPE or TYPE:COUNT, with ! after the type for exactly this"
        if isinstance(text, str) and re.search(r"[,|]| or ", text):
            todo = 'write several as a list, as in ["H100:8", "A100-80GB:8"]'
        raise SpecError([Problem(path, 'a GPU such as "H100:8"', repr(text)[:80], todo)])
    if match["count"] is None:
        return GpuText(match["type"], bool(match["exact"]), None)
    count = match["count"]
    if not (
        count.isascii()
        and count.isdigit()
        and len(count) <= len(str(_COUNT_MAX))
        and 1 <= int(count) <= _COUNT_MAX
    ):
        # Only a number that was said is proposed: another one changes the bill.
        begins = re.match(
            r"([1-9]\d{0,4})(?![\w.])", unicodedata.normalize("NFKC", count), re.ASCII
        )
        todo = (
            f'write "{match["type"]}:{begins[1]}"' if begins else 'write TYPE:COUNT, as in "H100:8"'
        )
        if match["type"].isdigit():
            todo = f'write "{count}:{match["type"]}"'
        raise SpecError(
            [
                Problem(
                    path, f"a whole number of GPUs from 1 to {_COUNT_MAX}", repr(count)[:80], todo
                )
            ]
        )
    return GpuText(match["type"], bool(match["exact"]), int(count))


def capacity(text: str, path: str = "capacity") -> Capacity:
    """Reads one capacity kind. Raises SpecError."""
    cleaned = text.strip() if isinstance(text, str) else ""
    match = _RESERVATION.match(cleaned)
    if match:
        return Capacity(RESERVATION, match[1])
    if cleaned in (*CAPACITIES, BLOCK) and cleaned != RESERVATION:
        return Capacity(cleaned)
    raise SpecError(
        [Problem(path, "one of on-demand, spot, flex-start, reservation(NAME), block", repr(text))]
    )


def capacities(
    spot: str | None, ordered: list[str] | tuple[str, ...] | None, path: str = ""
) -> tuple[Capacity, ...]:
    """The ordered capacity kinds: `ordered` if given, else what the `spot` sugar means (`never |
    prefer | only`).
    """
    where = f"{path}." if path else ""
    if ordered is not None:
        if spot is not None:
            raise SpecError(
                [
                    Problem(
                        f"{where}spot",
                        "either spot or capacity",
                        "both",
                        "drop spot: capacity says it all",
                    )
                ]
            )
        if not ordered:
            raise SpecError(
                [
                    Problem(
                        f"{where}capacity",
                        "at least one kind",
                        "an empty list",
                        "leave it out for on-demand",
                    )
                ]
            )
        kinds = tuple(
            capacity(item, f"{where}capacity[{index}]") for index, item in enumerate(ordered)
        )
        if len(set(kinds)) != len(kinds):
            raise SpecError(
                [Problem(f"{where}capacity", "each kind once", ", ".join(map(str, kinds)))]
            )
        return kinds
    meaning = {
        None: (ON_DEMAND,),
        "never": (ON_DEMAND,),
        "prefer": (SPOT, ON_DEMAND),
        "only": (SPOT,),
    }
    if spot not in meaning:
        raise SpecError([Problem(f"{where}spot", "one of never, prefer, only", repr(spot))])
    return tuple(Capacity(kind) for kind in meaning[spot])
