"""Prices that `gpus prices refresh` got from a provider's own list, laid over the bundled ones.

Owns the files `prices/PROVIDER.json` in the state folder: their form, reading and writing. On the
way to a plan it looks at one folder, and reads nothing where none was refreshed.
"""

from __future__ import annotations

import os.path
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.catalog.table import COLUMNS, OfferTable
from providers.home import home, home_text
from providers.model import foreign
from providers.model.ask import ON_DEMAND, RESERVATION, SPOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from providers.model.offer import Offer

FOLDER, _ENDING = "prices", ".json"
_MOST = foreign.Bounds(1, 10**10)
"""Micro-dollars an hour that a machine can cost: up to $10,000."""


class Key(NamedTuple):
    """One kind of machine in one region, as an offer names it."""

    machine_type: str
    gpu_type: str
    gpu_count: float
    region: str


class Priced(NamedTuple):
    """What it costs on demand, in micro-dollars an hour; as of which day, and by which source.
    `parts` is empty where the price holds what the bundled one held.
    """

    micro_usd: int
    as_of: str
    source: str
    parts: str = ""


def path_of(provider: str) -> Path:
    """Where a provider's refreshed prices are kept, whether there are any or not."""
    return home(writable=False) / FOLDER / (provider + _ENDING)


def read(provider: str) -> dict[Key, Priced]:
    """A provider's refreshed prices; none where there is no file. Raises ValueError for a file that
    `write` did not make, OSError where it cannot be read.
    """
    try:
        text = path_of(provider).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    import json
    import re

    day = re.compile(r"20\d\d-[01]\d-[0-3]\d")
    found: dict[Key, Priced] = {}
    raw = json.loads(text)
    for row in raw["prices"] if isinstance(raw, dict) and "prices" in raw else [None]:
        try:
            machine, gpu, count, region, micro, as_of, source, parts = row
            texts = [machine, gpu, region, as_of, source, parts]
            price, each = foreign.whole(micro, _MOST), foreign.real(count, foreign.COUNT)
        except (TypeError, ValueError):
            raise ValueError(f"wanted a price, found {str(row)[:80]}") from None
        told = all(isinstance(text, str) for text in texts)
        if price is None or not each or not told or not day.fullmatch(as_of):
            raise ValueError(f"wanted a price, found {str(row)[:80]}")
        found[Key(machine, gpu, each, region)] = Priced(price, as_of, source, parts)
    return found


def write(provider: str, prices: Mapping[Key, Priced]) -> Path:
    """Replaces a provider's refreshed prices in one step: whoever reads finds all of the old ones
    or all of the new ones. Raises OSError.
    """
    import json
    import tempfile
    from pathlib import Path

    from providers.home import private_folder

    path = path_of(provider)
    home()
    private_folder(path.parent)
    rows = [[*key, *price] for key, price in sorted(prices.items())]
    part, name = tempfile.mkstemp(prefix=f".{provider}-", dir=path.parent)
    try:
        with os.fdopen(part, "w", encoding="utf-8") as file:
            json.dump({"prices": rows}, file, indent=0)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def over(base: OfferTable) -> OfferTable:
    """The table with every refreshed price that is newer than its own. A spot price above the new
    on-demand price is of another time: it is not known. A file that cannot be read is a warning.
    """
    folder = os.path.join(os.path.expanduser(home_text()), FOLDER)  # noqa: PTH111, PTH118 - as in `offers`
    try:
        with os.scandir(folder) as entries:
            files = tuple(
                (each.name.removesuffix(_ENDING), each.stat().st_mtime_ns, each.stat().st_size)
                for each in entries
                if each.name.endswith(_ENDING) and not each.name.startswith(".")
            )
    except OSError:
        return base
    return _over(base, folder, tuple(sorted(files))) if files else base


@cache
def _over(base: OfferTable, _folder: str, files: tuple[tuple[str, int, int], ...]) -> OfferTable:
    found: dict[str, dict[Key, Priced]] = {}
    warnings = list(base.warnings)
    for provider, _, _ in files:
        try:
            found[provider] = read(provider)
        except (OSError, ValueError) as error:
            warnings.append(
                f"{path_of(provider)}: wanted refreshed prices, found {error}; the bundled ones"
                f" are used; `gpus prices refresh {provider}` writes it again"
            )
    names = ("provider", "machine_type", "gpu_type", "gpu_count", "region", "capacity")
    changed = ("node_micro_usd", "price_as_of", "price_source", "parts")
    columns: dict[str, list[Any]] = {name: list(base.column(name)) for name in changed}
    prices, dates, sources, parts = columns.values()
    for row, (provider, *key, capacity) in enumerate(zip(*map(base.column, names), strict=True)):
        price = found[provider].get(Key._make(key)) if provider in found else None
        if price is None or price.as_of <= dates[row]:
            continue
        if capacity == SPOT and (prices[row] or 0) > price.micro_usd:
            prices[row], dates[row], sources[row] = None, "", ""
            parts[row] = "no price: the bundled one is above what it costs on demand now"
        elif capacity in {ON_DEMAND, RESERVATION}:
            more = parts[row].partition("; a reservation")
            prices[row], dates[row], sources[row] = price.micro_usd, price.as_of, price.source
            parts[row] = (price.parts or more[0]) + more[1] + more[2]
    return OfferTable(
        tuple(
            columns.get(name, column) for name, column in zip(COLUMNS, base.columns, strict=True)
        ),
        base.by_gpu,
        tuple(warnings),
    )


def row_of(offer: Offer) -> tuple[str, str] | None:
    """(file, row) of the refreshed price of an offer; None where it has another one."""
    try:
        price = read(offer.provider).get(Key(*offer[3:6], offer.region))
    except (OSError, ValueError):
        return None
    if price is None or price[:3] != (offer.node_micro_usd, offer.price_as_of, offer.price_source):
        return None
    return str(path_of(offer.provider)), ",".join(map(str, price))


def newest(provider: str) -> str:
    """The newest date of a provider's refreshed prices; empty where it has none."""
    try:
        return max((price.as_of for price in read(provider).values()), default="")
    except (OSError, ValueError):
        return ""


def on_demand(table: OfferTable, provider: str) -> Iterable[Offer]:
    """The provider's offers on demand that it sells. Pure."""
    kinds = table.column("capacity")
    for row, name in enumerate(table.column("provider")):
        if name == provider and kinds[row] == ON_DEMAND:
            offer = table.offer(row)
            if not offer.restriction:
                yield offer
