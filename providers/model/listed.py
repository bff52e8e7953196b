"""Offers as a person reads them: prices in dollars, counts as whole numbers. Pure.

A row is a named tuple of plain values, so that `pandas.DataFrame(offers)` and
`polars.DataFrame(offers)` have its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model.money import usd

if TYPE_CHECKING:
    from providers.model.offer import Offer

_SHOWN = 20


class OfferRow(NamedTuple):
    """One offer of one node. `price_usd_per_hour` is all-in; None where no source has a price.
    `gpu_count` is a fraction only for a part of a GPU. The other fields are an Offer's.
    """

    provider: str
    region: str
    zone: str
    machine_type: str
    gpu_type: str
    gpu_count: int | float
    capacity: str
    price_usd_per_hour: float | None
    price_as_of: str
    price_source: str
    gpu_memory_gib: float
    vcpus: int | float
    memory_gib: float
    local_ssd_gib: int
    accelerator: str
    parts: str
    left_out: str
    restriction: str

    def __repr__(self) -> str:
        return f"<OfferRow: {' '.join(map(str, self.cells()))}>"

    def cells(self) -> tuple[str, str, str, str, str, str]:
        """Provider, place, machine, GPU, capacity and price, as texts."""
        price = self.price_usd_per_hour
        return (
            self.provider,
            self.zone or self.region,
            self.machine_type,
            f"{self.gpu_type}:{self.gpu_count}",
            self.capacity,
            "no price" if price is None else f"${price:,.4f}/h",
        )


def row(offer: Offer, micro_usd: int | None) -> OfferRow:
    """The offer, at a price that is known or not."""
    fields = offer._asdict()
    del fields["node_micro_usd"], fields["term"]
    for count in ("gpu_count", "vcpus"):
        if fields[count] == int(fields[count]):
            fields[count] = int(fields[count])
    return OfferRow(**fields, price_usd_per_hour=None if micro_usd is None else usd(micro_usd))


class Offers(tuple[OfferRow, ...]):
    """Offers, cheapest first. A tuple of rows, which a notebook shows as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        first = f", from {' '.join(self[0].cells())}" if self else ""
        return f"<Offers: {len(self):,}{first}>"

    def _repr_html_(self) -> str:
        from providers.model.html import table

        more = len(self) - _SHOWN
        return table(
            ("provider", "place", "machine", "GPU", "capacity", "price"),
            (each.cells() for each in self[:_SHOWN]),
            title=f"{len(self):,} offers, cheapest first",
            note=f"and {more:,} more: pandas.DataFrame(offers) has all" if more > 0 else "",
        )
