"""Today's prices of an account: the Price List for on-demand, the spot price history for Spot. Owns
the questions and the reading of the answers.

Read-only, within a time: what has not come by then, or is not told, stays as it was in the catalog,
with the catalog's date. Imports no SDK. Shapes: botocore 1.44.8's models of `pricing` and `ec2`; a
product's JSON as in botocore's own example of GetProducts (2026-11-27).
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from providers.adapters.aws.errors import PROVIDER, Context
from providers.adapters.base import Repriced
from providers.errors import BadCredentials, CloudError
from providers.model.ask import ON_DEMAND, RESERVATION, SPOT
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.surroundings import Surroundings
    from providers.model.offer import Offer

LIMIT_S = 5.0
"""All questions together; the plan's own limit for a provider is longer."""
AT_ONCE = 8
PRICE_LIST_REGION = "us-east-1"
"""The Price List answers for all regions, in few of them."""
PRICE_LIST, HISTORY = "AWS Price List (GetProducts)", "EC2 spot price history"
PRODUCT = "Linux/UNIX"
_PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
"""A machine as this adapter orders it: Linux without licences, shared hardware, paid while it runs.
"""

Prices = dict[tuple[str, str], int]
"""(instance type, region or zone id) -> micro-dollars per hour."""


def repriced(
    client: Client,
    around: Surroundings,
    regions: tuple[str, ...],
    offers: Sequence[Offer],
    now: float,
    limit_s: float = LIMIT_S,
) -> Repriced:
    """The offers at today's prices, where the account is told one. `regions` limits where is asked;
    empty means all that it has enabled.

    Calls: DescribeRegions unless configured, then GetProducts for each instance type and
    DescribeSpotPriceHistory for each region, at once.
    """
    until = time.monotonic() + limit_s
    wanted: dict[str, set[str]] = {}
    for offer in offers:
        wanted.setdefault(offer.region, set()).add(offer.machine_type)
    on_demand: Prices = {}
    spot: Prices = {}
    chosen = list(regions)
    trouble: list[CloudError] = []

    def kept(ask: Callable[[], None]) -> None:
        try:
            ask()
        except CloudError as error:
            trouble.append(error)

    late = 0 if chosen else _done([lambda: kept(lambda: chosen.extend(around.enabled()))], until)
    asks: list[Callable[[], None]] = [
        *(
            partial(listed_prices, on_demand, client, kind)
            for kind in sorted({offer.machine_type for offer in offers})
        ),
        *(
            partial(_history, spot, client, around, region, sorted(wanted[region]), now)
            for region in sorted(wanted.keys() & set(chosen))
        ),
    ]
    late += _done([partial(kept, ask) for ask in asks], until)
    day = datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%d")
    # Copies: what was left behind may still write.
    found = on_demand.copy(), spot.copy()
    return Repriced(
        tuple(_at(offer, *found, day) for offer in offers), tuple(_lines(trouble, late, limit_s))
    )


def _done(jobs: list[Callable[[], None]], until: float) -> int:
    """Works the jobs off, some at once; how many were not done in time. A call that hangs is left
    behind: its thread ends no process late.
    """
    left = list(reversed(jobs))
    ready = threading.Semaphore(0)

    def worker() -> None:
        while time.monotonic() < until:
            try:
                work = left.pop()
            except IndexError:
                return
            try:
                work()
            finally:
                ready.release()

    for _ in range(min(AT_ONCE, len(jobs))):
        threading.Thread(target=worker, name="aws-prices", daemon=True).start()
    return sum(not ready.acquire(timeout=max(0.0, until - time.monotonic())) for _ in jobs)


def _lines(trouble: Iterable[CloudError], late: int, limit_s: float) -> Iterable[str]:
    """What kept prices from being today's, one line for each kind of failure."""
    said: dict[str, CloudError] = {error.code: error for error in reversed(list(trouble))}
    for error in said.values():
        todo = (
            "; allow pricing:GetProducts and ec2:DescribeSpotPriceHistory"
            if isinstance(error, BadCredentials)
            else ""
        )
        yield (
            f"{PROVIDER}: some of today's prices could not be read, the bundled ones are shown:"
            f" {error}{todo}"
        )
    if late:
        yield (
            f"{PROVIDER}: {late} questions for today's prices had no answer within {limit_s:g}s,"
            " the bundled prices are shown there"
        )


def _at(
    offer: Offer,
    on_demand: Mapping[tuple[str, str], int],
    spot: Mapping[tuple[str, str], int],
    day: str,
) -> Offer:
    if offer.capacity == SPOT:
        price, source = spot.get((offer.machine_type, offer.zone)), HISTORY
    elif offer.capacity == ON_DEMAND or (offer.capacity == RESERVATION and offer.node_micro_usd):
        # A Local Zone has prices of its own, which the list keeps under another location.
        price, source = (
            (
                None
                if offer.zone.count("-") > 1
                else on_demand.get((offer.machine_type, offer.region))
            ),
            PRICE_LIST,
        )
    else:
        return offer
    return (
        offer
        if price is None
        else offer._replace(node_micro_usd=price, price_as_of=day, price_source=source)
    )


def listed_prices(prices: Prices, client: Client, machine_type: str) -> None:
    """Writes the on-demand prices of one instance type, by region."""
    context = Context(f"aws: reading the price of {machine_type}", PRICE_LIST_REGION)
    terms = {"instanceType": machine_type, **_PLAIN}
    wanted = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()
    ]
    found: dict[str, set[int]] = {}
    for page in client.pages(
        "get_products",
        context,
        service="pricing",
        ServiceCode="AmazonEC2",
        Filters=wanted,
        FormatVersion="aws_v1",
    ):
        for text in page.get("PriceList") or ():
            for region, price in product_prices(text, machine_type):
                found.setdefault(region, set()).add(price)
    # Two prices for what should be one thing: which of them is ours is anybody's guess.
    prices.update(
        {
            (machine_type, region): next(iter(told))
            for region, told in found.items()
            if len(told) == 1
        }
    )


def product_prices(text: object, machine_type: str) -> Iterable[tuple[str, int]]:
    """(region, micro-dollars per hour) of one product of the list; nothing of one that is something
    else or cannot be read.
    """
    try:
        product: Any = json.loads(text) if isinstance(text, str) else text
        about = product["product"]["attributes"]
        # Capacity Blocks and reserved, unused capacity stand in the list too, at prices of another
        # kind.
        plain = (
            about.get("marketoption", "OnDemand") == "OnDemand"
            and about.get("locationType", "AWS Region") == "AWS Region"
        )
        if about.get("instanceType") != machine_type or not plain or not about.get("regionCode"):
            return
        for term in product["terms"]["OnDemand"].values():
            for part in term["priceDimensions"].values():
                price = _micro(part["pricePerUnit"].get("USD"))
                if part.get("unit") == "Hrs" and price is not None:
                    yield str(about["regionCode"]), price
    except (KeyError, TypeError, AttributeError, ValueError):
        return


def _history(
    prices: Prices,
    client: Client,
    around: Surroundings,
    region: str,
    machine_types: Sequence[str],
    now: float,
) -> None:
    """Writes the Spot prices of a region now, by zone id: the latest of each type and zone."""
    context = Context(f"aws {region}: reading spot prices", region)
    moment = datetime.fromtimestamp(now, tz=UTC)
    latest: dict[tuple[str, str], tuple[Any, int]] = {}
    asked: dict[str, Any] = {
        "InstanceTypes": list(machine_types),
        "ProductDescriptions": [PRODUCT],
        "StartTime": moment,
        "EndTime": moment,
    }
    for page in client.pages("describe_spot_price_history", context, **asked):
        for item in page.get("SpotPriceHistory") or ():
            price, when = _micro(item.get("SpotPrice")), item.get("Timestamp")
            zone = str(item.get("AvailabilityZoneId") or "") or around.zone_ids(region).get(
                str(item.get("AvailabilityZone")), ""
            )
            place = (str(item.get("InstanceType")), zone)
            if (
                price is not None
                and zone
                and (place not in latest or (when is not None and when > latest[place][0]))
            ):
                latest[place] = (when, price)
    prices.update({place: price for place, (_, price) in latest.items()})


def _micro(text: object) -> int | None:
    """Micro-dollars; None for what is no price: nothing, zero, a word."""
    try:
        price = micro_usd(str(text))
    except ValueError:
        return None
    return price if price > 0 else None
