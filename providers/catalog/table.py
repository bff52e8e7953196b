"""The offer table: columns and an index over them. Owns the in-memory form of the catalog; pure.

Columns, not objects: a plan over some thousand offers reads a few columns of a few rows; an `Offer`
is made when somebody looks at one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.model.ask import ON_DEMAND
from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

COLUMNS = Offer._fields
"""One column for each field of Offer, of the same name."""


class Lot(NamedTuple):
    """Rows of one GPU type that differ only in their place and their price."""

    provider: str
    machine_type: str
    gpu_count: float
    capacity: str
    gpu_memory_gib: float
    restriction: str
    rows: Sequence[int]


class Listed:
    """What is listed of one GPU type: lots by the count of GPUs, and what they cost."""

    __slots__ = ("_elsewhere", "lots", "on_demand", "prices")

    def __init__(
        self,
        lots: Mapping[float, Sequence[Lot]],
        prices: Mapping[tuple[str, str], Sequence[float]],
        on_demand: Mapping[tuple[object, ...], int],
    ) -> None:
        self.lots = lots
        self.prices = prices
        """(provider, capacity) → what one GPU costs in micro-dollars, ascending, where it is sold.
        """
        self.on_demand = on_demand
        """(provider, zone or region, machine type, count) → the least price of a node."""
        self._elsewhere: dict[str, Sequence[float]] = {}

    def elsewhere(self, provider: str) -> Sequence[float]:
        """What one GPU costs on demand at all others, ascending."""
        found = self._elsewhere.get(provider)
        if found is None:
            found = self._elsewhere[provider] = sorted(
                each
                for (name, capacity), prices in self.prices.items()
                if capacity == ON_DEMAND and name != provider
                for each in prices
            )
        return found


class OfferTable:
    """`columns[i]` belongs to `COLUMNS[i]`; all have the same length. `by_gpu` maps a GPU type to
    its row numbers, ascending. A table never changes, so what is derived from it is made once.

    `warnings` are lines for the user about what could not be listed (one failing provider is a
    line, never a failed plan). `parts` are two tables of unlike providers, whose rows these are,
    one after the other.
    """

    __slots__ = ("_listed", "_places", "by_gpu", "columns", "parts", "warnings")

    def __init__(
        self,
        columns: tuple[Sequence[object], ...],
        by_gpu: Mapping[str, Sequence[int]],
        warnings: tuple[str, ...] = (),
        parts: tuple[OfferTable, OfferTable] | None = None,
    ) -> None:
        self.columns = columns
        self.by_gpu = by_gpu
        self.warnings = warnings
        self.parts = parts
        self._listed: dict[str, Listed] = {}
        self._places: dict[str, Sequence[tuple[str, str]]] = {}

    def noting(self, lines: Iterable[str]) -> OfferTable:
        """The same offers with more warnings."""
        warnings = tuple(dict.fromkeys((*self.warnings, *lines)))
        other = OfferTable(self.columns, self.by_gpu, warnings, self.parts)
        other._listed, other._places = self._listed, self._places
        return other

    @property
    def places(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Provider → every (region, zone) that it is listed with."""
        if not self._places and len(self):
            if self.parts is not None:
                for part in self.parts:
                    self._places.update(part.places)
            else:
                found: dict[str, list[tuple[str, str]]] = {}
                rows = zip(*map(self.column, ("provider", "region", "zone")), strict=True)
                for provider, region, zone in cast("Any", dict.fromkeys(rows)):
                    found.setdefault(provider, []).append((region, zone))
                self._places.update(found)
        return self._places

    def listed(self, gpu_type: str) -> Listed:
        """What is listed of a GPU type."""
        found = self._listed.get(gpu_type)
        if found is None:
            found = self._listed[gpu_type] = self._find(gpu_type)
        return found

    def _find(self, gpu_type: str) -> Listed:
        if self.parts is None:
            return _listed(self.column, self.by_gpu.get(gpu_type, ()))
        first, second = self.parts
        old, new = first.listed(gpu_type), second.listed(gpu_type)
        lots = dict(old.lots)
        for count, found in new.lots.items():
            moved = [lot._replace(rows=[len(first) + row for row in lot.rows]) for lot in found]
            lots[count] = [*lots.get(count, ()), *moved]
        return Listed(lots, {**old.prices, **new.prices}, {**old.on_demand, **new.on_demand})

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> Sequence[object]:
        """The column of that name."""
        return self.columns[COLUMNS.index(name)]

    def offer(self, row: int) -> Offer:
        """The row as a record."""
        return Offer(*(column[row] for column in self.columns))  # type: ignore[arg-type]

    def ids(self) -> list[str]:
        """`Offer.id` of every row, without making its record."""
        fields = ("provider", "region", "zone", "machine_type", "gpu_type", "gpu_count", "capacity")
        counts = {
            count: int(count) if count == int(count) else count  # type: ignore[call-overload]
            for count in set(self.column("gpu_count"))
        }
        return [
            f"{provider}/{zone or region}/{machine}/{gpu}:{counts[count]}/{capacity}"
            for provider, region, zone, machine, gpu, count, capacity in zip(
                *map(self.column, fields), strict=True
            )
        ]


def _listed(column: Callable[[str], Sequence[object]], rows: Iterable[int]) -> Listed:
    names = Lot._fields[:-1]
    lot_columns = [cast("Any", column(name)) for name in names]
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        found.setdefault(tuple([each[row] for each in lot_columns]), []).append(row)
    price_of, regions, zones = (
        cast("Any", column(name)) for name in ("node_micro_usd", "region", "zone")
    )
    lots: dict[float, list[Lot]] = {}
    prices: dict[tuple[str, str], list[float]] = {}
    on_demand: dict[tuple[object, ...], int] = {}
    for key, members in found.items():
        lot = Lot._make((*key, members))
        lots.setdefault(lot.gpu_count, []).append(lot)
        if lot.restriction:
            continue
        priced = [(row, price) for row in members if is_price(price := price_of[row])]
        prices.setdefault((lot.provider, lot.capacity), []).extend(
            price / lot.gpu_count for _, price in priced
        )
        for row, price in priced if lot.capacity == ON_DEMAND else ():
            place = (lot.provider, zones[row] or regions[row], lot.machine_type, lot.gpu_count)
            on_demand[place] = min(int(price), on_demand.get(place, int(price)))
    for each in prices.values():
        each.sort()
    return Listed(lots, prices, on_demand)


def is_price(price: Any) -> bool:
    """Whether a listed price says anything: above nothing, and finite."""
    return bool(price) and 0 < price < float("inf")


def table(offers: Iterable[Sequence[object]], warnings: Iterable[str] = ()) -> OfferTable:
    """A table of offers (or of plain rows in the order of `COLUMNS`)."""
    rows = list(offers)
    columns = tuple(zip(*rows, strict=True)) if rows else tuple(() for _ in COLUMNS)
    by_gpu: dict[str, list[int]] = {}
    for row, gpu in enumerate(columns[COLUMNS.index("gpu_type")]):
        by_gpu.setdefault(str(gpu), []).append(row)
    return OfferTable(columns, by_gpu, tuple(warnings))
