"""Applies the rules to a table of offers: which rows are kept, which rule refused each other one.

Pure. Works on lots and columns; no Offer is made here.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.model.ask import BLOCK
from providers.model.offer import Unsuited
from providers.planner import blocklist, rules
from providers.planner.doubt import Doubts
from providers.planner.rules import PASSED, Accepted, Sifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from providers.catalog.table import Lot
    from providers.model.ask import Ask, Choice
    from providers.model.capability import Capabilities
    from providers.planner.rules import Hosting, Terms


def sift(terms: Terms) -> Sifted:
    """Every row that some entry accepts, and the rule that refused each other row of the GPUs asked
    for.

    A row is kept for the first entry that accepts it, and once more for a later entry only where
    that is another purchase (another count of nodes, another reservation). A row that all refuse is
    refused by the rule of the entry under which it got furthest. What the rows of a lot share is
    asked once.
    """
    own = terms.ask.price_overrides
    overrides = rules.Overrides(own) if own else None
    doubts = None if terms.ask.accept_suspect_prices else Doubts(terms.table)
    kept: list[Accepted] = []
    bought: dict[int, list[tuple[int, str]]] = {}
    refused: dict[int, tuple[int, int]] = {}
    for number, entry in enumerate(terms.ask.entries):
        judge = _Judge(terms, entry, overrides, doubts)
        for gpu_type in rules.types(entry):
            unfit = terms.fits is not None and bool(
                terms.fits(entry, gpu_type, entry.gpu_count).why
            )
            least_gib = rules.least_memory_gib(gpu_type)
            for lot in chain.from_iterable(terms.table.listed(gpu_type).lots.values()):
                rule = judge.lot(lot, least_gib, unfit=unfit)
                if rule != PASSED:
                    _refuse(refused, lot.rows, rule, number)
                    continue
                ways = judge.ways[lot.capacity]
                for row, broken_rule, (price, own_price, disk) in judge.rows(lot, gpu_type):
                    if broken_rule != PASSED:
                        _refuse(refused, (row,), broken_rule, number)
                        continue
                    done = bought.setdefault(row, [])
                    for index, reservation in ways:
                        purchase = (entry.nodes, reservation)
                        if purchase not in done:
                            done.append(purchase)
                            kept.append(
                                Accepted(
                                    row,
                                    number,
                                    index,
                                    reservation,
                                    price,
                                    price * entry.nodes,
                                    own_price,
                                    disk,
                                )
                            )
    for row in bought:
        refused.pop(row, None)
    return Sifted(kept, refused)


def _refuse(
    refused: dict[int, tuple[int, int]], rows: Iterable[int], rule: int, entry: int
) -> None:
    """Notes the refusal of rows that did not get as far, or further, under an earlier entry."""
    why = (rule, entry)
    if not entry:
        refused.update(dict.fromkeys(rows, why))
        return
    for row in rows:
        before = refused.get(row)
        if before is None or before[0] < rule:
            refused[row] = why


Cost = tuple[int, bool, str]
"""What one node costs per hour; whether the user said so; what of it is the disk's, in words."""
_NO_COST: Cost = (0, False, "")


class _Judge:
    """The rules as one entry asks them, of any lot and its rows."""

    def __init__(
        self,
        terms: Terms,
        entry: Choice,
        overrides: rules.Overrides | None,
        doubts: Doubts | None,
    ) -> None:
        self.terms = terms
        self.entry = entry
        self.overrides = overrides
        self.doubts = doubts
        self.ways: dict[str, list[tuple[int, str]]] = {}
        """Capacity kind → (place in the entry's list, reservation)."""
        for index, way in enumerate(entry.capacity):
            self.ways.setdefault(way.kind, []).append((index, way.reservation))
        self._regions, self._zones, self._prices = (
            cast("Any", terms.table.column(name)) for name in ("region", "zone", "node_micro_usd")
        )
        self._asked_regions = frozenset(terms.ask.regions)
        self._placed = bool(self._asked_regions) or terms.parted is not None
        self._sellers: dict[tuple[str, str, str], tuple[int, Hosting | None]] = {}

    def lot(self, lot: Lot, least_gib: float, *, unfit: bool) -> int:
        """The first rule that a whole lot breaks, of `gpu-count` to `sold`, and of `provider` to
        `orderable` where its place does not matter.
        """
        if lot.gpu_count != self.entry.gpu_count:
            rule = rules.GPU_COUNT
        elif 0 < lot.gpu_memory_gib < least_gib:
            rule = rules.MEMORY
        elif unfit:
            rule = rules.FIT
        elif lot.capacity not in self.ways:
            rule = rules.CAPACITY
        elif lot.restriction and not isinstance(lot.restriction, Unsuited):
            rule = rules.SOLD
        elif self._placed:
            rule = PASSED  # first come the rules of its places
        else:
            rule = self._seller(lot)[0]
        return rule

    def rows(self, lot: Lot, gpu_type: str) -> Iterator[tuple[int, int, Cost]]:
        """(row, the first rule from `region` on that it breaks, its price) of each row of a lot."""
        seller, host = self._seller(lot)
        skills = self.terms.capabilities.get(lot.provider)
        cap, nodes = self.terms.ask.max_price_micro_usd, self.entry.nodes
        blocks = blocklist.of_machine(
            self.terms.blocks.get(lot.provider, ()), lot.machine_type, gpu_type, lot.capacity
        )
        doubts = self.doubts
        if doubts is not None and doubts.clear(gpu_type, lot):
            doubts = None
        for row in lot.rows:
            region, zone = self._regions[row], self._zones[row]
            rule = self._place(lot, region, zone) if self._placed else PASSED
            if rule == PASSED:
                rule = seller
            if rule != PASSED:
                yield row, rule, _NO_COST
                continue
            cost = self._cost(row, lot, gpu_type, host, skills)
            if cost is None:
                yield row, rules.PRICE_KNOWN, _NO_COST
                continue
            if (
                doubts is not None
                and not cost[1]
                and not doubts.sound(gpu_type, lot, zone or region, self._prices[row])
            ):
                rule = rules.PRICE_DOUBT
            elif cap is not None and cost[0] * nodes > cap:
                rule = rules.PRICE_CAP
            elif blocks and (block := blocklist.at_place(blocks, region, zone)):
                rule = rules.ENABLED if block.closed else rules.BLOCKED
            yield row, rule, cost

    def _place(self, lot: Lot, region: str, zone: str) -> int:
        """REGION or VOLUME where a place breaks it, or PASSED."""
        parted = self.terms.parted
        if self._asked_regions and region not in self._asked_regions:
            return rules.REGION
        if parted is not None and parted(lot.provider, region, zone, lot.machine_type):
            return rules.VOLUME
        return PASSED

    def _seller(self, lot: Lot) -> tuple[int, Hosting | None]:
        """The first rule about the seller of a lot that it breaks, and what hosts the entry
        there.
        """
        terms = self.terms
        key = (lot.provider, lot.machine_type, lot.capacity)
        found = self._sellers.get(key)
        if found is None:
            host = terms.hosted(self.entry, *key[:2]) if terms.hosted is not None else None
            seller = _Seller(self.entry, terms, *key, terms.capabilities.get(key[0]), host)
            why = lot.restriction
            unsuited = rules.NAMES.index(why.rule) if isinstance(why, Unsuited) else PASSED
            found = self._sellers[key] = (min(broken(seller), unsuited), host)
        return found

    def _cost(
        self,
        row: int,
        lot: Lot,
        gpu_type: str,
        host: Hosting | None,
        skills: Capabilities | None,
    ) -> Cost | None:
        # A block has its price in its own offer, all of it.
        if self.overrides is not None and lot.capacity != BLOCK:
            own = self.overrides.price(
                lot.provider, self._regions[row], lot.machine_type, gpu_type, lot.capacity
            )
            if own is not None:
                return own, True, ""
        listed = rules.known(self._prices[row], skills)
        if listed is None or host is None:
            return None if listed is None else (listed, False, "")
        micro_usd, words = host.cost(self._regions[row])
        return listed + micro_usd, False, words


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
