"""The offer table: columns and an index over them. Owns the in-memory form of the catalog; pure.

Columns, not objects: a plan over some thousand offers reads a few columns of a few rows; an `Offer`
is made when somebody looks at one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLUMNS = Offer._fields
"""One column for each field of Offer, of the same name."""


class OfferTable:
    """`columns[i]` belongs to `COLUMNS[i]`; all have the same length. `by_gpu` maps a GPU type to
    its row numbers, ascending.

    `warnings` are lines for the user about what could not be listed (one failing provider is a
    line, never a failed plan).
    """

    __slots__ = ("by_gpu", "columns", "warnings")

    def __init__(
        self,
        columns: tuple[Sequence[object], ...],
        by_gpu: Mapping[str, Sequence[int]],
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.columns = columns
        self.by_gpu = by_gpu
        self.warnings = warnings

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


def table(offers: Iterable[Sequence[object]], warnings: Iterable[str] = ()) -> OfferTable:
    """A table of offers (or of plain rows in the order of `COLUMNS`)."""
    rows = list(offers)
    columns = tuple(zip(*rows, strict=True)) if rows else tuple(() for _ in COLUMNS)
    by_gpu: dict[str, list[int]] = {}
    for row, gpu in enumerate(columns[COLUMNS.index("gpu_type")]):
        by_gpu.setdefault(str(gpu), []).append(row)
    return OfferTable(columns, by_gpu, tuple(warnings))
