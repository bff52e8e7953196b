"""Google's prices of machines, made of the parts that its price list has.

Owns the form of the Cloud Billing Catalog's list of Compute Engine's SKUs, and which of them a
machine is made of. It is read only with an API key, which goes in a header: never in an address, a
message or a log. Sources, as of 2026-11: docs.cloud.google.com/billing/v1/how-tos/catalog-api; the
SKUs' names as Google's invoices have them. With Google's figures of 2026 they make the bundled
prices to a micro-dollar: `tests/unit/cli/test_google_prices.py`.
"""

from __future__ import annotations

import os
import re
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from providers.catalog.price_sources import PAGE_BYTES, Said, SourceError, key_of, lines
from providers.catalog.refreshed import Priced
from providers.errors import printable
from providers.model import foreign
from providers.model.money import HOURS_PER_MONTH, micro_usd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from providers.model.offer import Offer

KEY = "GPUS_GOOGLE_API_KEY"
"""The environment variable with an API key of any project that has the Cloud Billing API."""
_PATH = "/v1/services/6F81-5844-456A/skus"
"""Compute Engine's."""
_PAGES_MAX = 40
_ON_DEMAND = "OnDemand"
_SSD = "SSD backed Local Storage"
_FAMILIES = {
    "g2": "G2 Instance",
    "a2": "A2 Instance",
    "a3-highgpu": "A3 Instance",
    "n1": "N1 Predefined Instance",
}
"""How a machine type begins -> how the SKUs of its cores and memory do. Others stay as they are."""
_GPUS = {
    "L4": "Nvidia L4 GPU",
    "A100": "Nvidia Tesla A100 GPU",
    "A100-80GB": "Nvidia Tesla A100 80GB GPU",
    "H100": "Nvidia H100 80GB GPU",
    "T4": "Nvidia Tesla T4 GPU",
    "P4": "Nvidia Tesla P4 GPU",
    "P100": "Nvidia Tesla P100 GPU",
    "V100": "Nvidia Tesla V100 GPU",
}
_UNITS = {"h": Decimal(1), "GiBy.h": Decimal(1), "GiBy.mo": Decimal(1) / HOURS_PER_MONTH}
"""What a SKU's unit is of an hour of one piece."""
_NAME = re.compile(rf"(?P<what>{_SSD}(?= in |$)|.+?(?= running in ))(?: running)?(?: in .+)?")
_DOLLARS = foreign.Bounds(0, 10_000)


def key() -> str:
    """The key, as the environment has it; empty for none. Raises SourceError for what is no key,
    and never repeats it.
    """
    text = os.environ.get(KEY, "").strip()
    if text and not re.fullmatch(r"[A-Za-z0-9_-]{8,200}", text):
        raise SourceError(
            f"{KEY}: wanted an API key, of letters, digits, - and _; found something else, of"
            f" {len(text)} characters"
        )
    return text


def google(address: str, today: str, offers: Iterable[Offer]) -> Said:
    """Google's on-demand prices of these offers now, where all parts of a machine are listed for
    its region. Raises SourceError, also without a key.
    """
    rates = _rates(address)
    prices = {}
    for offer in offers:
        made = _made_of(offer)
        each = [rates.get((name, offer.region)) for name, _, _ in made]
        if not made or None in each:
            continue
        parts = list(zip(made, each, strict=True))
        total = sum((rate * number for (_, number, _), rate in parts if rate), Decimal(0))
        text = " + ".join(
            f"{number.normalize():f} {unit} x {rate:.6f}" for (_, number, unit), rate in parts
        )
        source = address.partition("://")[2] + _PATH
        prices[key_of(offer)] = Priced(micro_usd(total), today, source, text)
    return Said(prices)


def _made_of(offer: Offer) -> list[tuple[str, Decimal, str]]:
    """(SKU's name, how many, of what) of a machine's parts; none for a machine whose SKUs are not
    known.
    """
    family = next(
        (name for begin, name in _FAMILIES.items() if offer.machine_type.startswith(f"{begin}-")),
        "",
    )
    gpu = _GPUS.get(offer.gpu_type, "")
    if not family or not gpu:
        return []
    parts = [
        (f"{family} Core", offer.vcpus, "vCPU"),
        (f"{family} Ram", offer.memory_gib, "GiB"),
        (gpu, offer.gpu_count, offer.gpu_type),
    ]
    if offer.local_ssd_gib:
        parts.append((_SSD, offer.local_ssd_gib, "GiB local SSD"))
    return [(name, Decimal(str(number)), unit) for name, number, unit in parts]


def _rates(address: str) -> dict[tuple[str, str], Decimal]:
    """Dollars an hour of each part, by its SKU's name and region. Raises SourceError for a part
    with two prices.
    """
    wanted = {
        *(f"{family} {part}" for family in _FAMILIES.values() for part in ("Core", "Ram")),
        *_GPUS.values(),
        _SSD,
    }
    found: dict[tuple[str, str], Decimal] = {}
    for sku in _skus(address):
        name = _NAME.fullmatch(str(sku.get("description", "")))
        category = sku.get("category")
        usage = category.get("usageType") if isinstance(category, dict) else None
        if name is None or name["what"] not in wanted or usage != _ON_DEMAND:
            continue
        rate = _rate(name["what"], sku)
        for region in sku.get("serviceRegions") or ():
            at = (name["what"], str(region))
            if found.setdefault(at, rate) != rate:
                raise SourceError(
                    f"{address}{_PATH}: {at[0]} in {printable(at[1])} costs {found[at]} and {rate}"
                )
    return found


def _rate(what: str, sku: Mapping[str, Any]) -> Decimal:
    """Dollars an hour of one piece, from a SKU's newest price."""
    try:
        priced = sku["pricingInfo"][-1]["pricingExpression"]
        (tier,) = priced["tieredRates"]
        price, unit = tier["unitPrice"], _UNITS[priced["usageUnit"]]
        whole = foreign.number(price.get("units") or 0, _DOLLARS)
        nanos = foreign.number(price.get("nanos") or 0, foreign.Bounds(0, 1e9))
        currency = price["currencyCode"]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise SourceError(f"{what}: wanted one price an hour, found another form") from None
    if currency != "USD" or whole is None or nanos is None or not whole + nanos:
        raise SourceError(f"{what}: wanted dollars above zero, found {printable(str(price)[:60])}")
    return (whole + nanos / 1_000_000_000) * unit


def _skus(address: str) -> Iterator[Mapping[str, Any]]:
    """Every SKU of the list, page by page."""
    secret = key()
    if not secret:
        raise SourceError(f"{KEY} is not set")
    host = urlsplit(address)
    if host.scheme != "https" and host.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise SourceError(f"{address}: wanted an address by https, since the key goes there")
    token = ""
    for page in count(1):
        query = {"currencyCode": "USD", "pageSize": 5000} | ({"pageToken": token} if token else {})
        url = f"{address}{_PATH}?{urlencode(query)}"
        try:
            found = foreign.loads("".join(lines(url, PAGE_BYTES, {"X-Goog-Api-Key": secret})))
        except ValueError:
            raise SourceError(f"{address}{_PATH}: wanted JSON, found something else") from None
        except SourceError as error:
            if error.status in {400, 401, 403}:
                raise SourceError(
                    f"{address}{_PATH}: it answered {error.status} to the key in {KEY}, which"
                    " has to be of a project with the Cloud Billing API, and allowed to call it"
                ) from None
            raise
        rows = found.get("skus") if isinstance(found, dict) else None
        if not isinstance(rows, list):
            raise SourceError(f"{address}{_PATH}: wanted a list of SKUs, found none")
        yield from (row for row in rows if isinstance(row, dict))
        token = str(found.get("nextPageToken") or "")
        if not token:
            return
        if page >= _PAGES_MAX:
            raise SourceError(f"{address}{_PATH}: more than {_PAGES_MAX} pages")
