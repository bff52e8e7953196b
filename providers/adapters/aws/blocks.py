"""Capacity Blocks for sale: windows of EC2's calendar with their price in full. Owns the listing
and what a plan says of one; reads only.

Fields: botocore 1.44.8's model of EC2 2016-11-15. EC2 sells blocks of 1, 2, 4, 8, 16, 32 or 64
machines, and begins to terminate what runs in one 30 minutes before its end (EC2 user guide,
"Capacity Blocks for ML", 2026).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from providers.adapters.aws.errors import Context
from providers.adapters.base import Repriced
from providers.errors import CloudError
from providers.model import duration, foreign
from providers.model.ask import BLOCK
from providers.model.money import dollars, micro_usd
from providers.model.offer import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.model.ask import Ask, BlockTerms
    from providers.model.machine import Setup
    from providers.model.offer import Candidate, Offer

MARGIN_S = 1_800.0
"""How long before a block's end its machines are ended."""
COUNTS = (1, 2, 4, 8, 16, 32, 64)
SOURCE = "EC2 Capacity Blocks (DescribeCapacityBlockOfferings)"
AT_ONCE = 8
_HOUR_S = 3_600


def offered(
    client: Client,
    zone_ids: Callable[[str], Mapping[str, str]],
    regions: Iterable[str],
    ask: Ask,
    like: Sequence[Offer],
    now: float,
) -> Repriced:
    """Every offering that fits the ask's terms, of the regions and types of `like`. One list for
    each of these, side by side; a region that cannot be asked is a line. Raises CloudError where
    that leaves none: there may be some.
    """
    from concurrent.futures import ThreadPoolExecutor

    usable = set(regions)
    kinds = {(offer.region, offer.machine_type): offer for offer in like if offer.region in usable}
    nodes = ask.block_choices[0].nodes
    if nodes not in COUNTS:
        return Repriced((), (f"EC2 sells blocks of {_listed(COUNTS)} machines, not of {nodes}",))
    lines: list[str] = []
    errors: list[CloudError] = []

    def look(like: Offer) -> list[Offer]:
        assert ask.block is not None
        try:
            ids = zone_ids(like.region)
            found = offerings(client, like.region, like.machine_type, nodes, ask.block, now)
        except CloudError as error:
            lines.append(f"blocks of {like.machine_type} in {like.region} are not known: {error}")
            errors.append(error)
            return []
        made = (_offer(like, item, ids, ask.block, now) for item in found)
        return [offer for offer in made if offer is not None]

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="aws-blocks") as pool:
        offers = [offer for each in pool.map(look, kinds.values()) for offer in each]
    if errors and not offers:
        raise errors[0]
    return Repriced(offers, tuple(lines))


def offerings(
    client: Client, region: str, machine_type: str, nodes: int, terms: BlockTerms, now: float
) -> list[dict[str, Any]]:
    """What EC2 lists of one type in one region for these terms, from the next beginning on."""
    latest = now + terms.start_within_s
    context = Context(f"aws {region}: looking for blocks of {machine_type}", region)
    wanted: dict[str, Any] = {
        "InstanceType": machine_type,
        "InstanceCount": nodes,
        "CapacityDurationHours": terms.lasts_s // _HOUR_S,
        "StartDateRange": datetime.fromtimestamp(now, UTC),
        "EndDateRange": datetime.fromtimestamp(latest + terms.lasts_s, UTC),
    }
    return [
        item
        for page in client.pages("describe_capacity_block_offerings", context, **wanted)
        for item in page.get("CapacityBlockOfferings") or ()
        # One of several parts is in several zones or days: no single place to run in.
        if len(item.get("CapacityBlockOfferingSegments") or ()) < 2
        and item.get("StartDate")
        and item.get("EndDate")
        and item["StartDate"].timestamp() <= latest
    ]


def term_of(item: Mapping[str, Any]) -> Term | None:
    """An offering's window and price; None where EC2 states no price in dollars."""
    fee = foreign.number(item.get("UpfrontFee"), foreign.MONEY)
    if fee is None or not fee or item.get("CurrencyCode", "USD") != "USD":
        return None
    return Term(
        str(item["CapacityBlockOfferingId"]),
        item["StartDate"].timestamp(),
        item["EndDate"].timestamp() - MARGIN_S,
        micro_usd(fee),
    )


def _offer(
    like: Offer, item: Mapping[str, Any], ids: Mapping[str, str], terms: BlockTerms, now: float
) -> Offer | None:
    term, zone = term_of(item), ids.get(str(item.get("AvailabilityZone")), "")
    nodes = foreign.whole(item.get("InstanceCount"), foreign.COUNT)
    if term is None or not zone or not nodes:
        return None
    hours = (item["EndDate"] - item["StartDate"]).total_seconds() / _HOUR_S
    over = term.upfront_micro_usd > terms.max_micro_usd
    return like._replace(
        zone=zone,
        capacity=BLOCK,
        node_micro_usd=-int(-term.upfront_micro_usd // (nodes * hours)),
        price_as_of=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d"),
        price_source=SOURCE,
        parts=f"{dollars(term.upfront_micro_usd)} for all of it, by the hour",
        restriction=(
            f"{dollars(term.upfront_micro_usd)} for all of it, above block.max_price"
            f" {dollars(terms.max_micro_usd)}"
            if over
            else ""
        ),
        term=term,
    )


def block_notes(candidate: Candidate, setup: Setup) -> list[str]:
    """What a reader of the plan must know of a block before it is bought."""
    term = candidate.offer.term
    if term is None:
        return []
    lasts = duration.text(term.ends_at + MARGIN_S - term.begins_at)
    cost = (
        "paid already, $0 more; it is used first"
        if term.paid
        else f"{dollars(term.upfront_micro_usd)}, paid when it is bought and never given back"
    )
    notes = [
        f"a block of {lasts} from {moment(term.begins_at)} to {moment(term.ends_at + MARGIN_S)}:"
        f" {cost}"
    ]
    if setup.ttl_s and term.begins_at + setup.ttl_s > term.ends_at:
        notes.append(
            f"warning: EC2 ends machines of this block at {moment(term.ends_at)}, before a ttl of"
            f" {duration.text(setup.ttl_s)}"
        )
    return notes


def moment(at: float) -> str:
    """`2026-12-01 11:30 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _listed(numbers: Iterable[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"
