"""The bundled catalog: dated prices of every provider. Owns the reading of `data/`; imports the
model and the offer table.

One line of a provider's file is a machine at a place, with what it costs on demand and as spot;
`machines.csv` says what the machine is and which kinds of capacity are sold; `sources.csv` names
and dates the prices. A provider of `machines.csv` has one file of its name. The files are made by
`providers.catalog.generate` and hold no comma and no quote, so that a split reads them. Columns are
filled machine by machine, not offer by offer: that is what keeps a cold load short.
"""

from __future__ import annotations

import os.path
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.catalog.table import COLUMNS, OfferTable
from providers.model.ask import CAPACITIES, FLEX_START, ON_DEMAND, RESERVATION, SPOT

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping, Sequence

    from providers.model.offer import Offer

STALE_AFTER_DAYS = 180

NOT_LISTED = "-"
"""In a capacity column of `machines.csv`: nobody lists this kind for this machine, not even to
refuse it.
"""

_DATA = os.path.join(os.path.dirname(__file__), "data")  # noqa: PTH118, PTH120 - pathlib would be imported for this alone
_ON_DEMAND_SOURCE, _SPOT_SOURCE = 4, 7
"""Columns of a provider's file."""
_RESERVED = "; a reservation is billed at the on-demand rate whether used or not"


class Catalog(NamedTuple):
    """The offers, and per provider the oldest and the newest date of its prices (ISO; a year alone
    where the source gives no more).
    """

    offers: OfferTable
    dates: Mapping[str, tuple[str, str]]


def lines(name: str, folder: str = _DATA) -> list[list[str]]:
    """The fields of a data file, line by line, without the remark and the heading at its top. One
    file read.
    """
    with open(os.path.join(folder, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
        return [line.split(",") for line in file.read().splitlines()[2:]]


@cache
def catalog(folder: str = _DATA) -> Catalog:
    """Everything that is bundled, read once per process. Raises KeyError or ValueError for files
    that the generator did not make.
    """
    sources = {source: (as_of, text) for source, as_of, text in lines("sources.csv", folder)}
    sources[""] = ("", "")
    machines = {(fields[0], fields[1]): fields[2:] for fields in lines("machines.csv", folder)}
    columns: tuple[list[Any], ...] = tuple([] for _ in COLUMNS)
    by_gpu: dict[str, list[int]] = {}
    dates: dict[str, tuple[str, str]] = {}
    for provider in dict.fromkeys(provider for provider, _ in machines):
        rows = lines(f"{provider}.csv", folder)
        used: set[str] = set()
        start = 0
        while start < len(rows):
            machine = rows[start][0]
            end = start + 1
            while end < len(rows) and rows[end][0] == machine:
                end += 1
            used.update(
                _machine(
                    provider, machines[provider, machine], rows[start:end], sources, columns, by_gpu
                )
            )
            start = end
        found = sorted(sources[source][0] for source in used if source)
        dates[provider] = (found[0], found[-1]) if found else ("", "")
    return Catalog(OfferTable(columns, by_gpu), dates)


def load() -> OfferTable:
    """The bundled offers, at refreshed prices where there are any: each file is read once per
    process.
    """
    from providers.catalog import refreshed

    return refreshed.over(catalog().offers)


def rows_of(offer: Offer, folder: str = _DATA) -> tuple[tuple[str, str], ...]:
    """(file, line) of the bundled rows that an offer is made of: its machine, its price, and the
    price's source; none for an offer that is not bundled.
    """
    found = [
        ("machines.csv", fields)
        for fields in lines("machines.csv", folder)
        if (fields[0], fields[2], fields[3]) == (offer.provider, offer.machine_type, offer.gpu_type)
        and float(fields[4]) == offer.gpu_count
    ]
    for _, (provider, key, *_rest) in tuple(found):
        name = f"{provider}.csv"
        found += [
            (name, fields)
            for fields in lines(name, folder)
            if fields[:3] == [key, offer.region, offer.zone]
        ]
    prices = [fields for name, fields in found if name != "machines.csv"]
    if not prices:
        return ()
    from providers.catalog import refreshed

    if (newer := refreshed.row_of(offer)) is not None:
        return (*((name, ",".join(fields)) for name, fields in found), newer)
    at = _SPOT_SOURCE if offer.capacity == SPOT else _ON_DEMAND_SOURCE
    named = set() if offer.node_micro_usd is None else {fields[at] for fields in prices}
    found += [("sources.csv", each) for each in lines("sources.csv", folder) if each[0] in named]
    return tuple((name, ",".join(fields)) for name, fields in found)


def as_of() -> Mapping[str, tuple[str, str]]:
    """Per provider the oldest and the newest date of its prices, refreshed ones included."""
    from providers.catalog import refreshed

    return {
        provider: (oldest, max(newest, refreshed.newest(provider)))
        for provider, (oldest, newest) in catalog().dates.items()
    }


def stale(today: datetime.date, days: int = STALE_AFTER_DAYS) -> tuple[str, ...]:
    """One line for each provider whose newest bundled price is older than `days`."""
    return tuple(
        f"{provider}: the newest price is of {newest}, {age} days ago; live prices may differ"
        for provider, (_, newest) in as_of().items()
        if newest and (age := (today - first_day(newest)).days) > days
    )


def first_day(date: str) -> datetime.date:
    """The first day that an ISO date, perhaps of a year or a month alone, can mean."""
    import datetime

    return datetime.date.fromisoformat(date + "-01-01"[len(date) - 4 :])


def _machine(
    provider: str,
    machine: Sequence[str],
    rows: Sequence[Sequence[str]],
    sources: Mapping[str, tuple[str, str]],
    columns: tuple[list[Any], ...],
    by_gpu: dict[str, list[int]],
) -> set[str]:
    """Appends every offer of one machine: its rows once for each kind of capacity that is listed.
    Answers the ids of the price sources used.
    """
    (
        machine_type,
        gpu,
        count,
        gpu_memory,
        vcpus,
        memory,
        ssd,
        accelerator,
        parts,
        left_out,
        *restrictions,
    ) = machine
    turned: list[tuple[str, ...]] = list(zip(*rows, strict=True))
    (
        _,
        regions,
        zones,
        on_demand,
        on_demand_source,
        on_demand_parts,
        spot,
        spot_source,
        spot_parts,
    ) = turned
    priced: dict[str, tuple[list[int | None], list[str], list[str], list[str]]] = {
        ON_DEMAND: _prices(on_demand, on_demand_source, on_demand_parts, parts, sources),
        SPOT: _prices(spot, spot_source, spot_parts, parts, sources),
        FLEX_START: ([None] * len(rows), [""] * len(rows), [""] * len(rows), [""] * len(rows)),
    }
    prices, dates, names, texts = priced[ON_DEMAND]
    # A reservation costs what its machines cost on demand.
    priced[RESERVATION] = (
        prices,
        dates,
        names,
        [
            text + _RESERVED if price is not None else text
            for price, text in zip(prices, texts, strict=True)
        ],
    )
    size = len(rows)
    fixed = (float(gpu_memory), float(vcpus), float(memory), int(ssd), accelerator)
    for kind, restriction in zip(CAPACITIES, restrictions, strict=True):
        if restriction == NOT_LISTED:
            continue
        first = len(columns[0])
        by_gpu.setdefault(gpu, []).extend(range(first, first + size))
        prices, dates, names, texts = priced[kind]
        filled: tuple[Sequence[object], ...] = (
            [provider] * size,
            regions,
            zones,
            *([value] * size for value in (machine_type, gpu, float(count), kind)),
            prices,
            dates,
            names,
            *([value] * size for value in fixed),
            texts,
            [left_out] * size,
            [restriction] * size,
            [None] * size,
        )
        for column, values in zip(columns, filled, strict=True):
            column.extend(values)
    return {*on_demand_source, *spot_source}


def _prices(
    prices: Sequence[str],
    ids: Sequence[str],
    row_parts: Sequence[str],
    parts: str,
    sources: Mapping[str, tuple[str, str]],
) -> tuple[list[int | None], list[str], list[str], list[str]]:
    """Price, date, source and parts of each row. Without a price, the parts say what is known of
    it, if anything.
    """
    return (
        [int(price) if price else None for price in prices],
        [sources[source][0] for source in ids],
        [sources[source][1] for source in ids],
        [own or (parts if price else "") for price, own in zip(prices, row_parts, strict=True)],
    )
