"""The rules by which an offer is kept or refused, in their order, and what they are asked about.

`sift` applies them, `explain` says why. Pure. Must not import the engine or an adapter: what
adapters can do arrives as plain records.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, Protocol

from providers.catalog import names
from providers.model.workload import BY_SSH, STORE_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.catalog.table import OfferTable
    from providers.model.advice import Advice, Kind
    from providers.model.ask import Ask, Choice, PriceOverride
    from providers.model.capability import Capabilities
    from providers.model.offer import Offer
    from providers.model.place import Block
    from providers.planner.expected import Tried

RULES = (
    ("gpu", "the GPU is one that the entry accepts"),
    ("gpu-count", "one machine has exactly as many GPUs as asked for"),
    ("gpu-memory", "the memory that the seller reports is that of this GPU model"),
    ("fit", "it holds what is to run there, in the number format asked for"),
    ("capacity", "it is bought in one of the ways asked for"),
    ("sold", "the cloud sells this kind of capacity on this machine"),
    ("region", "the region is among those allowed"),
    ("volume", "it stands where its volumes are, and its machine type takes them"),
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
    ("registry", "its machines can sign in to the registry of the image where that is asked for"),
    ("secret", "each secret has a reference that says how to fetch it there"),
    ("checkpoint", "what it saves can be kept from there where that is asked for"),
    ("mount", "its buckets can be folders there where that is asked for"),
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
    ("blocked", "not recently reported out of capacity"),
)
"""(name, meaning) of each rule, in the order in which they are asked. An offer is refused by the
first one that it breaks.
"""

NAMES = tuple(name for name, _ in RULES)
(
    GPU,
    GPU_COUNT,
    MEMORY,
    FIT,
    CAPACITY,
    SOLD,
    REGION,
    VOLUME,
    PROVIDER,
    MARKETPLACE,
    ADAPTER,
    KIND,
    REACH,
    NODES,
    TTL,
    REGISTRY,
    SECRET,
    CHECKPOINT,
    MOUNT,
    DISK,
    DRIVER,
    CONFIGURED,
    ORDERABLE,
    PRICE_KNOWN,
    PRICE_DOUBT,
    PRICE_CAP,
    ENABLED,
    BLOCKED,
) = range(len(RULES))
PASSED = len(RULES)
"""In place of the rule that an offer breaks: it breaks none."""

NOT_ASKED = frozenset((GPU_COUNT, CAPACITY, REGION, PROVIDER, MARKETPLACE))
"""Rules that leave out what the declaration does not ask for: no place that it could have had."""

BOOT_DISKS = frozenset(("boot disk", "EBS volumes"))
"""What price lists call the disk of a machine among what they leave out."""

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
    and what the disk costs on top of the offer at a region: micro-dollars an hour, and in words.
    """

    @property
    def disk(self) -> str: ...

    @property
    def driver(self) -> str: ...

    def cost(self, region: str) -> tuple[int, str]: ...


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
    parted: Callable[[str, str, str, str], str] | None = None
    """Why the volumes of the workload can't be mounted at (provider, region, zone, machine type);
    empty where they can. None: it mounts none.
    """
    tried: Tried | None = None
    """What the user's own tries say of places; None where there were none."""
    advice: Mapping[Kind, Advice] = {}
    """What clouds say of how likely they have room."""


class Accepted(NamedTuple):
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

    kept: list[Accepted]
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


def with_disk(offer: Offer, node_micro_usd: int, disk: str) -> Offer:
    """The offer at its price with the disk that is ordered, which is no longer left out; as it was
    where `disk` is empty.
    """
    if not disk:
        return offer
    parts = f"{offer.parts or 'machine'} + {disk}"
    rest = "; ".join(part for part in offer.left_out.split("; ") if part not in BOOT_DISKS)
    return offer._replace(node_micro_usd=node_micro_usd, parts=parts, left_out=rest)


def known(price: object, skills: Capabilities | None) -> int | None:
    """A price as whole micro-dollars; None for what is no price: nothing, a negative, NaN,
    infinity, and zero where machines are not the user's own.
    """
    if type(price) is int and price > 0:
        return price
    if isinstance(price, (int, float)) and 0 <= price < float("inf"):
        return int(price) if price or (skills is not None and skills.owned) else None
    return None


def reached(ask: Ask, skills: Capabilities) -> bool:
    """Whether machines of this provider can be reached as the ask wants it. What a job or a service
    is reached by is the provider's own.
    """
    if ask.kind != "machine":
        return True
    entered = (skills.ssh or not ask.ssh) and (skills.ssh or skills.login or not ask.login)
    return entered and (skills.opens_ports or not ask.ports)


def entrusting(ask: Ask, hosts: Iterable[str], capabilities: Mapping[str, Capabilities]) -> str:
    """What else to write before strangers' hosts get what a declaration hands over, beginning with
    a comma; empty where it hands over nothing.
    """
    out = ""
    for name in hosts:
        option = capabilities[name].entrusted_by
        is_sent = ask.workload is not None and bool(ask.workload.workdir)
        is_told = any(name in able for _, able in ask.secrets)
        given = [what for what, does in (("workdir", is_sent), ("secrets", is_told)) if does]
        if option and given:
            out += (
                f", and options: {{{name}: {{{option}: true}}}}, which hands {' and '.join(given)}"
                " to the host's owner"
            )
    return out


def joined(ask: Ask, skills: Capabilities, nodes: int) -> bool:
    """Whether so many machines of this provider log into each other where what runs there does."""
    work = ask.workload
    needed = nodes > 1 and work is not None and any(t.launcher in BY_SSH for t in work.tasks)
    return not needed or ((skills.ssh or skills.login) and not skills.marketplace)


def why_not_kept(ask: Ask, skills: Capabilities) -> str:
    """Why checkpoints can't be kept from this provider where the workload keeps them; empty where
    they can, or none are kept. Pure.
    """
    kept = ask.workload.checkpoint if ask.workload is not None else None
    if kept is None:
        return ""
    scheme = kept.to.partition(":")[0]
    if scheme == "volume":
        if not skills.volumes:
            return f"{kept.to} is a volume: {skills.provider} has none"
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
    return _keyless(ask, skills, scheme)


def _keyless(ask: Ask, skills: Capabilities, scheme: str) -> str:
    """Which keys of a store that is reached with keys alone are missing; empty for none."""
    given = dict(ask.secrets)
    missing = [name for name in STORE_KEYS[scheme] if skills.provider not in given.get(name, ())]
    return (
        f"{scheme}:// is reached from {skills.provider} only with keys: {' and '.join(missing)}"
        " under secrets"
        if missing
        else ""
    )


def unmounted(ask: Ask, skills: Capabilities) -> str:
    """Why a bucket that the workload mounts can be no folder at this provider; empty where all can,
    or none are mounted. Pure.
    """
    for mount in ask.workload.mounts if ask.workload is not None else ():
        if mount.scheme not in skills.mounts:
            others = " or ".join(f"{name}://" for name in sorted(skills.mounts)) or "no bucket"
            return f"{skills.provider} mounts no {mount.scheme}://; there: {others}"
        if not (mount.writable or skills.mounts_read_only):
            return (
                f"{skills.provider} mounts {mount.source} so that it can be written to: write"
                f" mode: rw for {mount.path} if it may be"
            )
        if mount.scheme not in skills.buckets and (why := _keyless(ask, skills, mount.scheme)):
            return why
    return ""


def unsigned(ask: Ask, skills: Capabilities) -> str:
    """Why this provider's machines can't sign in to the registry of the image as declared; empty
    where they can, or none is declared. Pure.
    """
    registry = ask.workload.registry if ask.workload is not None else None
    if registry is None or (registry.username and skills.passwords):
        return ""
    if registry.username:
        return f"{skills.provider} pulls no image with a password"
    if any(fnmatchcase(registry.host, pattern) for pattern in skills.registries):
        return ""
    others = " or ".join(skills.registries) or "none"
    more = "; declare username and password" if skills.passwords else ""
    return f"{skills.provider}'s machines have no identity at {registry.host}; at: {others}{more}"


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
