"""What a price list becomes: machine types at places with their prices.

Owns the records that `generate` writes, each price with its source and date, and the reading of a
source table. Never read at run time.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal
    from pathlib import Path
NOTHING_REFUSED = ("", "", "", "")
Row = dict[str, str]


class MachineType(NamedTuple):
    """What is bought.

    `capacities` has one text for each kind in the order on-demand, spot, flex-start, reservation:
    empty where it is sold, why not where the cloud refuses it, NOT_LISTED where no offer is made of
    it. `key` names it within its provider.
    """

    provider: str
    key: str
    machine_type: str
    gpu_type: str
    gpu_count: float
    gpu_memory_gib: float
    vcpus: float
    memory_gib: float
    local_ssd_gib: int
    accelerator: str
    parts: str
    left_out: str
    capacities: tuple[str, str, str, str]


class Price(NamedTuple):
    """One price, or why there is none. `parts` is for this price alone; empty means the machine's
    own parts.
    """

    micro: int | None = None
    source: str = ""
    parts: str = ""


class Place(NamedTuple):
    """A machine at a place, with what it costs."""

    provider: str
    machine: str
    region: str
    zone: str
    on_demand: Price
    spot: Price


class VolumePrice(NamedTuple):
    """What a GiB of a volume costs a month at a region (empty: everywhere), beyond `free_gib`."""

    provider: str
    type: str
    region: str
    micro_usd: int
    free_gib: int
    source: str


class Source(NamedTuple):
    """Where prices come from, and as of when."""

    id: str
    as_of: str
    text: str


class Made(NamedTuple):
    """All that is written. `skipped` counts source rows that were left out, by reason."""

    sources: dict[str, Source]
    machines: dict[tuple[str, str], MachineType]
    places: list[Place]
    volumes: list[VolumePrice]
    skipped: dict[str, int]

    def price(
        self, dollars: str | Decimal | None, source: str, as_of: str, parts: str = ""
    ) -> Price:
        """A price with its source; no price for None or an empty cell. Raises ValueError for one
        without date or source.
        """
        if dollars is None or dollars == "":
            return Price(parts=parts)
        if not source or not as_of:
            raise ValueError(f"a price of {dollars} has no date or no source")
        return Price(micro_usd(dollars), self.source(source, as_of), parts)

    def source(self, text: str, as_of: str) -> str:
        """The id of a source, made on first use."""
        if as_of.startswith("undated"):
            # Sorted first among its year: the oldest it can be is what counts against it.
            text, as_of = f"{text} (commit without a date; lists machines of 2026)", "2026"
        for known in self.sources.values():
            if (known.text, known.as_of) == (text, as_of):
                return known.id
        made = Source(f"s{len(self.sources) + 1}", as_of, text)
        self.sources[made.id] = made
        return made.id

    def add(self, machine: MachineType, place: Place) -> None:
        """One place of a machine. Raises ValueError if the machine was described
        otherwise before.
        """
        known = self.machines.setdefault((machine.provider, machine.key), machine)
        if known != machine:
            raise ValueError(
                f"two descriptions of {machine.provider} {machine.key}: {known} and {machine}"
            )
        self.places.append(place)

    def skip(self, reason: str) -> None:
        """Counts a source row that is left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def read(folder: Path, name: str) -> Iterator[Row]:
    """The rows of a source table. Its first line says where it comes from."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        if not next(file, "").startswith("# "):
            raise ValueError(f"{name}.csv: wanted a first line `# ...` that says where it is from")
        yield from csv.DictReader(file)


def gpu_of(text: str) -> str:
    """The model that a source's text names. Raises ValueError for an unknown one."""
    name = names.gpu_type(text)
    if name is None:
        raise ValueError(f"unknown GPU {text!r}")
    return name


def memory_of(gpu: str, count: float) -> float:
    """Memory of one GPU in GiB; of the slice, for a part of a GPU."""
    nominal = names.nominal_memory_gib(gpu) or 0.0
    return nominal if count >= 1 else nominal * count
