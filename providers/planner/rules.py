"""The rules by which an offer is kept or refused, in their order. Owns the rules and their
explanations; pure, no I/O.

Must not import the engine or an adapter: what adapters can do arrives as plain records. Works on
columns; no Offer is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from providers.catalog import names
from providers.model import duration
from providers.model.ask import RESERVATION
from providers.model.money import per_hour
from providers.planner import blocklist
from providers.planner.doubt import Doubts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.catalog.table import OfferTable
    from providers.model.ask import Ask, Choice, PriceOverride
    from providers.model.capability import Capabilities
    from providers.model.place import Block

RULES = (
    ("gpu", "the GPU is one that the entry accepts"),
    ("gpu-count", "one machine has exactly as many GPUs as asked for"),
    ("gpu-memory", "the memory that the seller reports is that of this GPU model"),
    ("fit", "it holds what is to run there, in the number format asked for"),
    ("capacity", "it is bought in one of the ways asked for"),
    ("sold", "the cloud sells this kind of capacity on this machine"),
    ("region", "the region is among those allowed"),
    ("provider", "the provider is among those allowed"),
    (
        "marketplace",
        (
            "a stranger's host is bought only where its marketplace is named, or marketplaces are"
            " allowed"
        ),
    ),
    ("adapter", "this product can order there"),
    ("kind", "the provider can be this kind of cluster"),
    (
        "reach",
        (
            "its machines can be reached as asked: at each port, by ssh, by what tells them of each"
            " other"
        ),
    ),
    ("nodes", "the provider can make so many nodes as one cluster"),
    ("ttl", "the provider lets a machine live as long as asked"),
    ("secret", "each secret has a reference that says how to fetch it there"),
    ("checkpoint", "what it saves can be kept from there where that is asked for"),
    ("disk", "the disk holds the boot image, the container image, the weights and what is saved"),
    ("driver", "the host's driver runs the CUDA of the container image"),
    ("configured", "credentials are there"),
    ("orderable", "the adapter orders this machine type and kind of capacity"),
    ("price-known", "the price is known; an unknown one is never bought automatically"),
    (
        "price-doubt",
        "the price can be true: spot against on-demand, and against what others ask for this GPU",
    ),
    ("price-cap", "all nodes together cost at most the cap"),
    (
        "enabled",
        "the account can use the place: its zone and region are enabled, its quota is not zero",
    ),
    ("blocked", "nothing said lately that there is none to be had"),
)
"""(name, meaning) of each rule, in the order in which they are asked. An offer is refused by the
first one that it breaks.
"""

NAMES = tuple(name for name, _ in RULES)
(
    GPU,
    COUNT,
    MEMORY,
    FIT,
    CAPACITY,
    SOLD,
    REGION,
    PROVIDER,
    MARKETPLACE,
    ADAPTER,
    KIND,
    REACH,
    NODES,
    TTL,
    SECRET,
    KEPT,
    DISK,
    DRIVER,
    CONFIGURED,
    ORDERABLE,
    PRICE,
    DOUBT,
    CAP,
    ENABLED,
    BLOCKED,
) = range(len(RULES))
_PASSED = len(RULES)

OVERRIDE_SOURCE = "prices.overrides"
"""`price_source` of an offer whose price the user gave."""


class Fitting(Protocol):
    """What a placement means for what is to run there: why not (nothing: it will do, or nobody
    knows), and the hours of the job (None: unknown).

    `remedy` names places that would hold what this one does not.
    """

    @property
    def why(self) -> str: ...

    @property
    def remedy(self) -> str: ...

    @property
    def job_hours(self) -> float | None: ...


class Hosting(Protocol):
    """What a provider's machine type means for an entry: why its disk or its driver will not do,
    and what the disk costs on top of the offer.
    """

    @property
    def disk(self) -> str: ...

    @property
    def driver(self) -> str: ...

    @property
    def micro_usd(self) -> int: ...

    @property
    def parts(self) -> str: ...


class Terms(NamedTuple):
    """Everything that a plan was made from. `blocks` are the standing ones, by provider; `fits`
    judges a GPU type and a count for an entry.
    """

    ask: Ask
    table: OfferTable
    capabilities: Mapping[str, Capabilities]
    unavailable: Mapping[str, str]
    blocks: Mapping[str, Sequence[Block]]
    now: float
    fits: Callable[[Choice, str, int], Fitting] | None = None
    closed: Callable[[str, str, int], str] | None = None
    """Why machines of (provider, machine type, count of nodes) take no login from here, where what
    runs there has to be told something by one.
    """
    hosted: Callable[[Choice, str, str], Hosting | None] | None = None
    """What (provider, machine type) brings to an entry: disk, driver, and the price of the disk."""


class Kept(NamedTuple):
    """A row that an entry accepts. `capacity` is the place of its kind in the entry's list,
    `micro_usd` the price of all nodes.
    """

    row: int
    entry: int
    capacity: int
    reservation: str
    node_micro_usd: int
    micro_usd: int
    overridden: bool
    disk: str = ""
    """What of the price is the disk's, in words; empty where the offer holds it or leaves it out.
    """


class Sifted(NamedTuple):
    """What the rules made of a table. A row that is in neither is refused by the rule `gpu`;
    `refused` maps row to (rule, entry).
    """

    kept: list[Kept]
    refused: dict[int, tuple[int, int]]


def types(entry: Choice) -> tuple[str, ...]:
    """The GPU types that an entry accepts; none for an unknown name."""
    accepted: tuple[str, ...] | None = None
    if entry.gpu:
        name = names.canonical(entry.gpu)
        accepted = () if name is None else names.accepts(name, exact=entry.exact)
    if entry.min_memory_gib is not None:
        large = names.by_memory(entry.min_memory_gib)
        accepted = large if accepted is None else tuple(gpu for gpu in accepted if gpu in large)
    return accepted or ()


def least_memory_gib(gpu_type: str) -> float:
    """The least memory per GPU that an offer of this type may report: what reports less is another
    card. 0 where the size is unknown.
    """
    return (names.nominal_memory_gib(gpu_type) or 0.0) * (1 - names.MEMORY_UNDER)


class Overrides:
    """The user's own prices, looked up by row. The first match wins."""

    def __init__(self, overrides: Sequence[PriceOverride]) -> None:
        self.overrides = [(override, self._types(override.gpu)) for override in overrides]

    @staticmethod
    def _types(gpu: str) -> tuple[str, ...]:
        name = names.canonical(gpu) if gpu else None
        return () if name is None else names.accepts(name)

    def price(
        self, provider: str, region: str, machine_type: str, gpu_type: str, capacity: str
    ) -> int | None:
        """Micro-dollars for one node per hour, or None where no override matches."""
        for override, gpus in self.overrides:
            if (
                override.provider == provider
                and (not override.region or override.region == region)
                and (not override.machine_type or override.machine_type == machine_type)
                and (not override.gpu or gpu_type in gpus)
                and (not override.capacity or override.capacity == capacity)
            ):
                return override.micro_usd
        return None


def known(price: object) -> int | None:
    """A price as whole micro-dollars; None for what is no price: nothing, zero, a negative, NaN,
    infinity.
    """
    if isinstance(price, (int, float)) and 0 < price < float("inf"):
        return int(price)
    return None


def reached(ask: Ask, skills: Capabilities) -> bool:
    """Whether machines of this provider can be reached as the ask wants it. What a job or a service
    is reached by is the provider's own.
    """
    if ask.kind != "machine":
        return True
    entered = (skills.ssh or not ask.ssh) and (skills.ssh or skills.login or not ask.login)
    return entered and (skills.opens_ports or not ask.ports)


KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""The secrets by which the aws command reaches S3 from anywhere (AWS CLI reference, "Environment
variables", 2026-11).
"""


def unkept(ask: Ask, skills: Capabilities) -> str:
    """Why checkpoints can't be kept from this provider where the workload keeps them; empty where
    they can, or none are kept. Pure.
    """
    kept = ask.workload.checkpoint if ask.workload is not None else None
    if kept is None:
        return ""
    scheme = kept.to.partition(":")[0]
    if scheme == "volume":
        if not skills.volumes:
            return f"{kept.to} is a volume of Modal's: {skills.provider} has none"
        return (
            ""
            if ask.kind in skills.kinds - {"machine"}
            else (
                f"{kept.to} is for a job or a service: {skills.provider}'s machines have no volumes"
            )
        )
    if scheme in skills.buckets:
        return ""
    if scheme not in skills.keyed_buckets:
        others = (
            " or ".join(f"{name}://" for name in sorted(skills.buckets | skills.keyed_buckets))
            or "no bucket"
        )
        return (
            f"{skills.provider}'s machines have no identity for {scheme}://; from there:"
            f" {others}{', volume:NAME' if skills.volumes else ''}"
        )
    held = dict(ask.secrets)
    missing = [name for name in KEYS if skills.provider not in held.get(name, ())]
    return (
        f"{scheme}:// is reached from {skills.provider} with keys alone: {' and '.join(missing)}"
        " under secrets"
        if missing
        else ""
    )


def able(
    entry: Choice,
    ask: Ask,
    capabilities: Mapping[str, Capabilities],
    unavailable: Mapping[str, str],
    provider: str,
    machine_type: str,
    capacity: str,
    closed: Callable[[str, str, int], str] | None = None,
    host: Hosting | None = None,
) -> int:
    """The first rule of `provider` to `orderable` that this machine of this provider breaks for
    this entry, or one past the last rule.
    """
    skills = capabilities.get(provider)
    if not ask.allows(provider, marketplace=skills is not None and skills.marketplace):
        return PROVIDER if ask.providers else MARKETPLACE
    if skills is None:
        return ADAPTER
    if not skills.can_be(ask.kind, workload=ask.workload is not None):
        return KIND
    if not reached(ask, skills) or (
        closed is not None
        and entry.nodes <= skills.max_nodes
        and closed(provider, machine_type, entry.nodes)
    ):
        return REACH
    if entry.nodes > skills.max_nodes:
        return NODES
    if skills.max_ttl_s is not None and (entry.ttl_s or 0) > skills.max_ttl_s:
        return TTL
    if any(provider not in able for _, able in ask.secrets):
        return SECRET
    if unkept(ask, skills):
        return KEPT
    if host is not None and host.disk:
        return DISK
    if host is not None and host.driver:
        return DRIVER
    if provider in unavailable:
        return CONFIGURED
    if capacity not in skills.capacities or not skills.orders(machine_type):
        return ORDERABLE
    return _PASSED


def sift(terms: Terms) -> Sifted:
    """Every row that some entry accepts, and the rule that refused each other row of the GPUs asked
    for.

    A row is kept for the first entry that accepts it, and once more for a later entry only where
    that is another purchase (another count of nodes, another reservation). A row that all refuse is
    refused by the rule of the entry under which it got furthest.
    """
    ask, table, capabilities, unavailable, blocked = terms[:5]
    fits, closed, hosted = terms.fits, terms.closed, terms.hosted
    column = cast("Any", table.column)
    providers, regions, zones, machines = (
        column("provider"),
        column("region"),
        column("zone"),
        column("machine_type"),
    )
    counts, capacities, prices = column("gpu_count"), column("capacity"), column("node_micro_usd")
    memories, restrictions = column("gpu_memory_gib"), column("restriction")
    allowed, cap = frozenset(ask.regions), ask.max_price_micro_usd
    overrides = Overrides(ask.price_overrides) if ask.price_overrides else None
    doubts = None if ask.accept_suspect_prices else Doubts(table)

    kept: list[Kept] = []
    bought: dict[int, list[tuple[int, str]]] = {}
    refused: dict[int, tuple[int, int]] = {}
    for number, entry in enumerate(ask.entries):
        ways: dict[str, list[tuple[int, str]]] = {}
        for index, way in enumerate(entry.capacity):
            ways.setdefault(way.kind, []).append((index, way.reservation))
        sellers: dict[tuple[str, str, str], tuple[int, Hosting | None]] = {}
        want, nodes = entry.gpu_count, entry.nodes
        verdicts = [(rule, number) for rule in range(len(RULES))]
        for gpu_type in types(entry):
            least = least_memory_gib(gpu_type)
            unfit = fits is not None and bool(fits(entry, gpu_type, want).why)
            for row in table.by_gpu.get(gpu_type, ()):
                price = 0
                overridden = False
                capacity = capacities[row]
                if counts[row] != want:
                    rule = COUNT
                elif 0 < memories[row] < least:
                    rule = MEMORY
                elif unfit:
                    rule = FIT
                elif capacity not in ways:
                    rule = CAPACITY
                elif restrictions[row]:
                    rule = SOLD
                elif allowed and regions[row] not in allowed:
                    rule = REGION
                else:
                    provider, machine = providers[row], machines[row]
                    seller = (provider, machine, capacity)
                    found = sellers.get(seller)
                    if found is None:
                        host = hosted(entry, provider, machine) if hosted is not None else None
                        found = sellers[seller] = (
                            able(entry, ask, capabilities, unavailable, *seller, closed, host),
                            host,
                        )
                    rule, host = found
                    if rule == _PASSED:
                        listed = prices[row]
                        if overrides is not None:
                            own = overrides.price(
                                provider, regions[row], machine, gpu_type, capacity
                            )
                            if own is not None:
                                listed, overridden = own, True
                        if not listed or not 0 < listed < float("inf"):
                            rule = PRICE
                        else:
                            price = int(listed) + (
                                host.micro_usd if host is not None and not overridden else 0
                            )
                            if doubts is not None and not overridden and doubts.why(row):
                                rule = DOUBT
                            elif cap is not None and price * nodes > cap:
                                rule = CAP
                            elif provider in blocked:
                                block = blocklist.covering(
                                    blocked[provider],
                                    regions[row],
                                    zones[row],
                                    machine,
                                    gpu_type,
                                    capacity,
                                )
                                rule = (
                                    rule if block is None else ENABLED if block.closed else BLOCKED
                                )
                if rule == _PASSED:
                    done = bought.setdefault(row, [])
                    for index, reservation in ways[capacity]:
                        if (nodes, reservation) not in done:
                            done.append((nodes, reservation))
                            kept.append(
                                Kept(
                                    row,
                                    number,
                                    index,
                                    reservation,
                                    price,
                                    price * nodes,
                                    overridden,
                                    "" if overridden or host is None else host.parts,
                                )
                            )
                else:
                    before = refused.get(row)
                    if before is None or before[0] < rule:
                        refused[row] = verdicts[rule]
    for row in bought:
        refused.pop(row, None)
    return Sifted(kept, refused)


def explain(terms: Terms, rule: int, entry: Choice, row: int) -> tuple[str, str]:
    """(wanted, found) of one refusal, as texts for people."""
    ask, offer = terms.ask, terms.table.offer(row)
    skills = terms.capabilities.get(offer.provider)
    if rule == GPU:
        return asked(ask), offer.gpu_type
    if rule == MEMORY:
        return (
            f"{offer.gpu_type} with at least {least_memory_gib(offer.gpu_type):.1f} GiB",
            f"{offer.gpu_memory_gib:.4g} GiB reported",
        )
    if rule == FIT:
        found = (
            terms.fits(entry, offer.gpu_type, entry.gpu_count) if terms.fits is not None else None
        )
        if found is None:
            return "a place that holds the workload", ""
        place = f"{offer.gpu_type}:{entry.gpu_count}" + (
            f" on {entry.nodes} nodes" if entry.nodes > 1 else ""
        )
        return (
            "a place that holds the workload",
            f"{place}: {found.why}{f'; {found.remedy}' if found.remedy else ''}",
        )
    if rule == COUNT:
        return f"{entry.gpu_count} per machine", f"{offer.gpu_count:g} per machine"
    if rule == CAPACITY:
        return (
            " or ".join(map(str, entry.capacity)),
            f"{offer.capacity}{'' if offer.capacity != RESERVATION else ', by its name only'}",
        )
    if rule == SOLD:
        return f"{offer.capacity} capacity", offer.restriction
    if rule == REGION:
        named = (
            f"; {offer.provider} has {', '.join(sorted(skills.regions))}"
            if skills is not None and skills.regions
            else ""
        )
        return " or ".join(ask.regions), f"{offer.region or 'no region named'}{named}"
    if rule == PROVIDER:
        return " or ".join(ask.providers), offer.provider
    if rule == MARKETPLACE:
        return (
            f"{offer.provider} under providers, or marketplaces: true",
            f"a stranger's host at {offer.provider}",
        )
    if rule == ADAPTER:
        return "a provider that can be ordered from", f"no adapter for {offer.provider} yet"
    if rule == KIND:
        more = (
            " without a workload"
            if ask.workload is None and skills is not None and ask.kind in skills.workload_kinds
            else ""
        )
        return (
            f"a {ask.kind}",
            (
                f"{offer.provider} can only be a"
                f" {' or '.join(sorted(skills.kinds if skills else ()))}{more}"
            ),
        )
    if rule == REACH:
        if terms.closed is not None and (
            why := terms.closed(offer.provider, offer.machine_type, entry.nodes)
        ):
            return "machines that can be told of each other, or of a token, by login", why
        if ask.ssh and skills is not None and not skills.ssh:
            return "machines that answer ssh", f"{offer.provider}'s do not"
        if ask.login and skills is not None and not (skills.ssh or skills.login):
            return "machines that take commands from here", f"{offer.provider}'s do not"
        return (
            f"port {', '.join(map(str, ask.ports))} open",
            f"{offer.provider} opens no ports of a machine",
        )
    if rule == NODES:
        return (
            f"{entry.nodes} nodes",
            f"at most {skills.max_nodes if skills else 0} at {offer.provider}",
        )
    if rule == TTL:
        longest = skills.max_ttl_s if skills else None
        return (
            f"a ttl of {duration.text(entry.ttl_s or 0)}",
            f"a machine lives at most {duration.text(longest or 0)} at {offer.provider}",
        )
    if rule == SECRET:
        missing = ", ".join(name for name, able in ask.secrets if offer.provider not in able)
        return (
            f"a reference for {missing} at {offer.provider}",
            f"none under secrets.{missing.partition(',')[0]}.{offer.provider}",
        )
    if rule == KEPT:
        return "a place that its checkpoints can be kept from", (
            unkept(ask, skills) if skills is not None else ""
        )
    if rule in (DISK, DRIVER):
        host = (
            terms.hosted(entry, offer.provider, offer.machine_type)
            if terms.hosted is not None
            else None
        )
        if rule == DISK:
            return "a disk that holds what runs there", host.disk if host is not None else ""
        return "a driver that runs the image", host.driver if host is not None else ""
    if rule == CONFIGURED:
        return f"credentials for {offer.provider}", terms.unavailable.get(offer.provider, "none")
    if rule == ORDERABLE:
        what = (
            offer.machine_type
            if skills and not skills.orders(offer.machine_type)
            else offer.capacity
        )
        return "what the adapter can order", f"{what} cannot be ordered yet"
    if rule == PRICE:
        return "a known price", "no price"
    if rule == DOUBT:
        return "a price that can be true, or accept_suspect_prices: true", Doubts(terms.table).why(
            row
        )
    if rule == CAP:
        own = Overrides(ask.price_overrides).price(
            offer.provider, offer.region, offer.machine_type, offer.gpu_type, offer.capacity
        )
        node = own if own is not None else known(offer.node_micro_usd)
        if own is None and node is not None and terms.hosted is not None:
            host = terms.hosted(entry, offer.provider, offer.machine_type)
            node += host.micro_usd if host is not None else 0
        return (
            f"at most {per_hour(ask.max_price_micro_usd)}",
            f"{per_hour(None if node is None else node * entry.nodes)}, above the cap",
        )
    block = blocklist.covering(
        terms.blocks.get(offer.provider, ()),
        offer.region,
        offer.zone,
        offer.machine_type,
        offer.gpu_type,
        offer.capacity,
    )
    if block is not None and block.closed:
        return "a place that the account can use", block.reason
    rest = (
        f" (left alone for another {duration.text(max(block.until - terms.now, 1))})"
        if block and block.until < float("inf")
        else ""
    )
    return "a place that was not refused lately", f"{block.reason if block else 'refused'}{rest}"


def asked(ask: Ask) -> str:
    """What the entries ask for, without counts."""
    return " or ".join(dict.fromkeys(title(entry) for entry in ask.entries))


def title(entry: Choice) -> str:
    """What an entry asks for, without the count: `H100`, `H100!`, `any GPU of at least 24 GiB`."""
    name = (
        (names.canonical(entry.gpu) or entry.gpu) + ("!" if entry.exact else "")
        if entry.gpu
        else ""
    )
    if entry.min_memory_gib is None:
        return name
    return f"{name or 'any GPU'} of at least {entry.min_memory_gib:g} GiB"
