"""Where providers publish their prices for anybody to read, and what they say now.

Owns the form of each source. Never read on the way to a plan. What cannot be read is a SourceError;
nothing is guessed. Sources, as of 2026-11: Amazon's offer files (docs.aws.amazon.com, "Price List
Bulk API"), one CSV a region; Modal's page of prices. Google's list is `google_prices`'.
"""

from __future__ import annotations

import csv
import re
import urllib.error
import urllib.request
from html.parser import HTMLParser
from http.client import HTTPException
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import names
from providers.catalog.refreshed import Key, Priced
from providers.errors import printable
from providers.model import foreign
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from decimal import Decimal

    from providers.model.offer import Offer

AWS, MODAL, GCP = "aws", "modal", "gcp"
ADDRESSES = {
    AWS: "https://pricing.us-east-1.amazonaws.com",
    MODAL: "https://modal.com/pricing",
    GCP: "https://cloudbilling.googleapis.com",
}
"""Whose prices can be refreshed, and where they are published."""
BY_REGION = {
    AWS: (
        "Amazon publishes a file of some hundred MB for each region; name those that you use:"
        " gpus prices refresh aws --region us-east-1"
    )
}
"""Whose lists are by region, and what to do where none is named."""
NEEDS_KEY = {
    GCP: (
        "Google publishes no list that anybody can read: with an API key of any project that has"
        " the Cloud Billing API it is read; set {key} to one, and say gpus prices refresh gcp"
    )
}
"""Whose lists are read only with a key, and what to do where there is none."""
WHY_NOT = {
    "vertex": "its prices are made of Google's and a fee",
    "clore": "it lists its offers live, at each plan; nothing is bundled",
    "ssh": "machines of your own have the price that you give them",
}
_TIMEOUT_S = 60
_MOST_BYTES, PAGE_BYTES = 2 << 30, 32 << 20
_PRICE = foreign.Bounds(0, 10_000)
"""Dollars an hour."""


class SourceError(Exception):
    """A source that cannot be read, or says what cannot be; its text is for the user. `status` is
    the HTTP status of a refusal, else 0.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Said(NamedTuple):
    """What a source says: prices by machine and region, and machines with GPUs that the catalog
    does not know.
    """

    prices: dict[Key, Priced]
    unknown: Sequence[str] = ()


_WANTED = {
    "TermType": "OnDemand",
    "Unit": "Hrs",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
}
"""What the price of a plain machine says in Amazon's file."""
_FURTHER = ("Instance Type", "PricePerUnit", "Currency", "Region Code")


def aws(address: str, region: str, offers: Iterable[Offer]) -> Said:
    """Amazon's on-demand prices of one region. Reads a file of some hundred MB, line by line."""
    kinds = {offer.machine_type: offer for offer in offers if offer.region == region}
    url = f"{address}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
    reader = csv.reader(lines(url, _MOST_BYTES))
    found: dict[str, Decimal] = {}
    unknown: set[str] = set()
    try:
        as_of, heading = _heading(url, reader)
        plain = [(heading.index(name), value) for name, value in _WANTED.items()]
        for cells in reader:
            if len(cells) != len(heading):
                raise SourceError(f"{url}: wanted {len(heading)} cells a line, found {len(cells)}")
            if any(cells[place] != value for place, value in plain):
                continue
            row = dict(zip(heading, cells, strict=True))
            if row.get("MarketOption", "") not in {"", "OnDemand"}:
                continue
            kind = row["Instance Type"]
            if kind in kinds:
                price = _dollars(f"{url}: {kind}", row["PricePerUnit"], row["Currency"])
                if row["Region Code"] != region:
                    raise SourceError(f"{url}: {kind} is of {row['Region Code']!r}")
                if found.setdefault(kind, price) != price:
                    raise SourceError(f"{url}: {kind} costs {found[kind]} and {price}")
            elif row.get("GPU", "") not in {"", "0", "NA"}:
                unknown.add(printable(kind))
    except csv.Error as error:
        raise SourceError(f"{url}: not a table ({error})") from None
    source = url.partition("://")[2]
    return Said(
        {
            key_of(kinds[kind]): Priced(micro_usd(price), as_of, source)
            for kind, price in found.items()
        },
        sorted(unknown),
    )


def _heading(url: str, reader: Iterator[list[str]]) -> tuple[str, list[str]]:
    """The day of an offer file, and the names of its columns, which follow some lines about it."""
    as_of = ""
    for row in islice(reader, 12):
        if row[:1] == ["Publication Date"] and len(row) > 1:
            as_of = row[1][:10]
        if "PricePerUnit" in row:
            missing = [name for name in (*_WANTED, *_FURTHER) if name not in row]
            if missing or not re.fullmatch(r"20\d\d-\d\d-\d\d", as_of):
                lacking = ", ".join(missing) or "a publication date"
                raise SourceError(f"{url}: wanted Amazon's table of prices, found no {lacking}")
            return as_of, row
    raise SourceError(f"{url}: wanted Amazon's table of prices, found no heading")


_RATE = re.compile(r"([$€£¥])\s*(\d+(?:\.\d+)?)\s*/\s*sec", re.IGNORECASE)
_MADE_OF = re.compile(r"(\d+) x \S+ (\d+\.\d+) (\+ .*)")
_NAME = re.compile(r"nvidia\s+(.{1,40})\Z", re.IGNORECASE)


def modal(address: str, today: str, offers: Iterable[Offer]) -> Said:
    """Modal's prices: the GPUs' from its page; processor and memory as in the bundled price."""
    rates: dict[str, Decimal] = {}
    unknown: set[str] = set()
    text, end = _visible("".join(lines(address, PAGE_BYTES))), 0
    for match in _RATE.finditer(text):
        named = _NAME.search(text[end : match.start()].strip())
        end = match.end()
        if named is None:
            continue
        gpu = names.gpu_type(re.sub(r",? (\d+) ?GB", r"-\1GB", named[1].strip(" :-")))
        if gpu is None:
            unknown.add(printable(named[1]))
            continue
        currency = "USD" if match[1] == "$" else match[1]
        rate = _dollars(f"{address}: {gpu}", match[2], currency)
        if rates.setdefault(gpu, rate) != rate:
            raise SourceError(f"{address}: {gpu} costs {rates[gpu]} and {rate} a second")
    prices: dict[Key, Priced] = {}
    for offer in offers:
        made_of = _MADE_OF.match(offer.parts)
        if offer.gpu_type in rates and made_of and offer.node_micro_usd is not None:
            each = rates[offer.gpu_type] * 3600 * int(made_of[1])
            rest = offer.node_micro_usd - micro_usd(made_of[2])
            parts = f"{made_of[1]} x {offer.gpu_type} {each:.4f} {made_of[3]}"
            source = address.partition("://")[2]
            prices[key_of(offer)] = Priced(micro_usd(each) + rest, today, source, parts)
    return Said(prices, sorted(unknown))


class _Text(HTMLParser):
    """What a reader of a page sees of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the library's
        self._hidden += tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            self.seen.append(data)


def _visible(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    return " ".join(" ".join(reader.seen).split())


def key_of(offer: Offer) -> Key:
    """The key of an offer's price."""
    return Key(offer.machine_type, offer.gpu_type, offer.gpu_count, offer.region)


def _dollars(what: str, text: str, currency: str) -> Decimal:
    price = foreign.number(text, _PRICE)
    if currency != "USD":
        raise SourceError(f"{what}: wanted dollars, found {printable(currency[:20])!r}")
    if not price:
        raise SourceError(f"{what}: wanted a price above zero, found {printable(text[:40])!r}")
    return price


def lines(url: str, most: int, secret: Mapping[str, str] | None = None) -> Iterator[str]:
    """The lines of an answer, as they come. Raises SourceError, also where the answer ends before
    its end. `secret` are headers that no redirection takes elsewhere.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "gpus"})  # noqa: S310 - named by us or by the user
    for name, value in (secret or {}).items():
        request.add_unredirected_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            wanted, found = answer.headers.get("Content-Length"), 0
            while line := answer.readline(PAGE_BYTES):
                found += len(line)
                if found > most:
                    raise SourceError(f"{url}: more than {most >> 20:,} MiB")
                yield line.decode()
            if wanted is not None and int(wanted) != found:
                raise SourceError(f"{url}: cut off after {found:,} of {int(wanted):,} bytes")
    except urllib.error.HTTPError as error:
        raise SourceError(f"{url}: it answered {error.code}", error.code) from None
    except (OSError, HTTPException, ValueError) as error:
        why = printable(str(getattr(error, "reason", error)))
        raise SourceError(f"{url}: no answer that can be read ({why})") from None
