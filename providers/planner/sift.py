"""Applies the rules to a table of offers: which rows are kept, which rule refused each other one.

Pure. Works on columns; no Offer is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.planner import blocklist, rules
from providers.planner.doubt import Doubts
from providers.planner.rules import PASSED, Accepted, Sifted

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.catalog.table import OfferTable
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.planner.rules import Hosting, Terms


def sift(terms: Terms) -> Sifted:
    """Every row that some entry accepts, and the rule that refused each other row of the GPUs asked
    for.

    A row is kept for the first entry that accepts it, and once more for a later entry only where
    that is another purchase (another count of nodes, another reservation). A row that all refuse is
    refused by the rule of the entry under which it got furthest.
    """
    columns = _Columns.of(terms.table)
    overrides = rules.Overrides(terms.ask.price_overrides)
    doubts = None if terms.ask.accept_suspect_prices else Doubts(terms.table)
    kept: list[Accepted] = []
    bought: dict[int, list[tuple[int, str]]] = {}
    refused: dict[int, tuple[int, int]] = {}
    for number, entry in enumerate(terms.ask.entries):
        judge = _Judge(terms, entry, columns, overrides, doubts)
        for gpu_type in rules.types(entry):
            unfit = terms.fits is not None and bool(
                terms.fits(entry, gpu_type, entry.gpu_count).why
            )
            least_gib = rules.least_memory_gib(gpu_type)
            for row in terms.table.by_gpu.get(gpu_type, ()):
                rule, cost = judge.machine(row, least_gib, unfit=unfit), _NO_COST
                if rule == PASSED:
                    rule, cost = judge.purchase(row, gpu_type)
                if rule != PASSED:
                    before = refused.get(row)
                    if before is None or before[0] < rule:
                        refused[row] = (rule, number)
                    continue
                done = bought.setdefault(row, [])
                for index, reservation in judge.ways[columns.capacity[row]]:
                    if (entry.nodes, reservation) not in done:
                        done.append((entry.nodes, reservation))
                        kept.append(_kept(row, number, index, reservation, cost, entry.nodes))
    for row in bought:
        refused.pop(row, None)
    return Sifted(kept, refused)


class _Cost(NamedTuple):
    """What one node costs per hour; `disk` says what of it is the disk's."""

    micro_usd: int
    overridden: bool
    disk: str


_NO_COST = _Cost(0, overridden=False, disk="")


def _kept(row: int, entry: int, way: int, reservation: str, cost: _Cost, nodes: int) -> Accepted:
    return Accepted(
        row,
        entry,
        way,
        reservation,
        cost.micro_usd,
        cost.micro_usd * nodes,
        cost.overridden,
        cost.disk,
    )


class _Columns(NamedTuple):
    """The columns of a table that rules read."""

    provider: Any
    region: Any
    zone: Any
    machine_type: Any
    gpu_count: Any
    capacity: Any
    node_micro_usd: Any
    gpu_memory_gib: Any
    restriction: Any

    @classmethod
    def of(cls, table: OfferTable) -> _Columns:
        return cls._make(cast("Any", table.column)(name) for name in cls._fields)


class _Judge:
    """The rules as one entry asks them, of any row."""

    def __init__(
        self,
        terms: Terms,
        entry: Choice,
        columns: _Columns,
        overrides: rules.Overrides,
        doubts: Doubts | None,
    ) -> None:
        self.terms = terms
        self.entry = entry
        self.columns = columns
        self.overrides = overrides
        self.doubts = doubts
        self.regions = frozenset(terms.ask.regions)
        self.ways: dict[str, list[tuple[int, str]]] = {}
        """Capacity kind → (place in the entry's list, reservation)."""
        for index, way in enumerate(entry.capacity):
            self.ways.setdefault(way.kind, []).append((index, way.reservation))
        self._sellers: dict[tuple[str, str, str], tuple[int, Hosting | None]] = {}

    def machine(self, row: int, least_gib: float, *, unfit: bool) -> int:
        """The first rule of `gpu-count` to `volume` that a row breaks."""
        columns = self.columns
        if columns.gpu_count[row] != self.entry.gpu_count:
            rule = rules.GPU_COUNT
        elif 0 < columns.gpu_memory_gib[row] < least_gib:
            rule = rules.MEMORY
        elif unfit:
            rule = rules.FIT
        elif columns.capacity[row] not in self.ways:
            rule = rules.CAPACITY
        elif columns.restriction[row]:
            rule = rules.SOLD
        elif self.regions and columns.region[row] not in self.regions:
            rule = rules.REGION
        elif self.terms.parted is not None and self._parted(row):
            rule = rules.VOLUME
        else:
            rule = PASSED
        return rule

    def _parted(self, row: int) -> bool:
        columns, parted = self.columns, self.terms.parted
        return parted is not None and bool(
            parted(
                columns.provider[row],
                columns.region[row],
                columns.zone[row],
                columns.machine_type[row],
            )
        )

    def purchase(self, row: int, gpu_type: str) -> tuple[int, _Cost]:
        """The first rule after `volume` that a row breaks, and the price of a row
        that breaks none.
        """
        rule, host = self._seller(row)
        if rule != PASSED:
            return rule, _NO_COST
        cost = self._cost(row, gpu_type, host)
        cap, terms = self.terms.ask.max_price_micro_usd, self.terms
        if cost is None:
            return rules.PRICE_KNOWN, _NO_COST
        if self.doubts is not None and not cost.overridden and self.doubts.why(row):
            return rules.PRICE_DOUBT, cost
        if cap is not None and cost.micro_usd * self.entry.nodes > cap:
            return rules.PRICE_CAP, cost
        columns = self.columns
        blocks = terms.blocks.get(columns.provider[row])
        block = blocks and blocklist.covering(
            blocks,
            columns.region[row],
            columns.zone[row],
            columns.machine_type[row],
            gpu_type,
            columns.capacity[row],
        )
        if block:
            return (rules.ENABLED if block.closed else rules.BLOCKED), cost
        return PASSED, cost

    def _seller(self, row: int) -> tuple[int, Hosting | None]:
        """The first rule about the seller of a row that it breaks,
        and what hosts the entry there.
        """
        columns, terms = self.columns, self.terms
        key = (columns.provider[row], columns.machine_type[row], columns.capacity[row])
        found = self._sellers.get(key)
        if found is None:
            host = terms.hosted(self.entry, *key[:2]) if terms.hosted is not None else None
            seller = _Seller(self.entry, terms, *key, terms.capabilities.get(key[0]), host)
            found = self._sellers[key] = (broken(seller), host)
        return found

    def _cost(self, row: int, gpu_type: str, host: Hosting | None) -> _Cost | None:
        columns = self.columns
        own = self.overrides.price(
            columns.provider[row],
            columns.region[row],
            columns.machine_type[row],
            gpu_type,
            columns.capacity[row],
        )
        if own is not None:
            return _Cost(own, overridden=True, disk="")
        listed = rules.known(
            columns.node_micro_usd[row], self.terms.capabilities.get(columns.provider[row])
        )
        if listed is None or host is None:
            return None if listed is None else _Cost(listed, overridden=False, disk="")
        micro_usd, words = host.cost(columns.region[row])
        return _Cost(listed + micro_usd, overridden=False, disk=words)


class _Seller(NamedTuple):
    """A machine type of a provider, sold one way, for an entry."""

    entry: Choice
    terms: Terms
    provider: str
    machine_type: str
    capacity: str
    skills: Capabilities | None
    host: Hosting | None

    @property
    def ask(self) -> Ask:
        return self.terms.ask

    @property
    def able(self) -> Capabilities:
        """What the provider can do; only for rules after `adapter`."""
        assert self.skills is not None
        return self.skills

    @property
    def allowed(self) -> bool:
        marketplace = self.skills is not None and self.skills.marketplace
        return self.ask.allows(self.provider, marketplace=marketplace)

    @property
    def unreachable(self) -> bool:
        closed, nodes = self.terms.closed, self.entry.nodes
        if not (rules.reached(self.ask, self.able) and rules.joined(self.ask, self.able, nodes)):
            return True
        return bool(
            closed is not None
            and nodes <= self.able.max_nodes
            and closed(self.provider, self.machine_type, nodes)
        )

    @property
    def outlived(self) -> bool:
        longest = self.able.max_ttl_s
        return longest is not None and (self.entry.ttl_s or 0) > longest

    @property
    def orderable(self) -> bool:
        return self.capacity in self.able.capacities and self.able.orders(self.machine_type)


_SELLER_RULES: tuple[tuple[int, Callable[[_Seller], bool]], ...] = (
    (rules.PROVIDER, lambda s: bool(s.ask.providers) and not s.allowed),
    (rules.MARKETPLACE, lambda s: not s.allowed),
    (rules.ADAPTER, lambda s: s.skills is None),
    (rules.KIND, lambda s: not s.able.can_be(s.ask.kind, workload=s.ask.workload is not None)),
    (rules.REACH, lambda s: s.unreachable),
    (rules.NODES, lambda s: s.entry.nodes > s.able.max_nodes),
    (rules.TTL, lambda s: s.outlived),
    (rules.REGISTRY, lambda s: bool(rules.unsigned(s.ask, s.able))),
    (rules.SECRET, lambda s: any(s.provider not in able for _, able in s.ask.secrets)),
    (rules.CHECKPOINT, lambda s: bool(rules.why_not_kept(s.ask, s.able))),
    (rules.MOUNT, lambda s: bool(rules.unmounted(s.ask, s.able))),
    (rules.DISK, lambda s: s.host is not None and bool(s.host.disk)),
    (rules.DRIVER, lambda s: s.host is not None and bool(s.host.driver)),
    (rules.CONFIGURED, lambda s: s.provider in s.terms.unavailable),
    (rules.ORDERABLE, lambda s: not s.orderable),
)
"""The rules of `provider` to `orderable`, in their order: (rule, whether a seller breaks it)."""


def broken(seller: _Seller) -> int:
    """The first rule about sellers that this one breaks, or PASSED."""
    return next((rule for rule, breaks in _SELLER_RULES if breaks(seller)), PASSED)
