"""An order for a Capacity Block: paid for once, waited for, and then launched into. Owns the
purchase, which costs money and has no client token: it is sent once, and looked for by its tags.

A cluster has one block at a time. While one of its tags is not over, it is used, and none is
bought. What can be refused for free (rights, image, network) is asked before anything is paid.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from providers.adapters.aws import blocks, creation, lookup, tagging
from providers.adapters.aws import compile as native
from providers.adapters.aws import nodes as read
from providers.adapters.aws.errors import PROVIDER, Context, from_exception
from providers.adapters.aws.reservations import FULL, MISSING, STATE, free
from providers.errors import (
    CloudError,
    NoCapacity,
    OfferGone,
    OutcomeUnknown,
    PriceRose,
    Transient,
    Unsupported,
)
from providers.model import foreign
from providers.model.ask import BLOCK
from providers.model.machine import (
    BEGINS_AT,
    BLOCK_ENDS_AT,
    BLOCK_NAME,
    PAID_AT,
    QUEUED,
    UPFRONT,
    Order,
    Ticket,
)
from providers.model.money import dollars
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.surroundings import Surroundings
    from providers.adapters.aws.volumes import Ebs
    from providers.model.machine import Label

Json = dict[str, Any]
UNPAID = "payment-failed"
OVER = frozenset({UNPAID, "expired", "cancelled", "failed", "unsupported"})
"""States of a block that will never be used again (botocore 1.44.8, CapacityReservation.State). In
any other state but "active", known or new, it has yet to begin.
"""
LOOKS_S = (0.0, 5.0, 15.0, 40.0)
"""Seconds between the looks after which "nothing was bought" is believed."""
QUIET_S = 600.0
"""For this long after a purchase was sent, or planned by another process, a block that is not
listed may still appear.
"""


class Account(Protocol):
    """What block orders need of the account's adapter."""

    @property
    def client(self) -> Client: ...
    @property
    def surroundings(self) -> Surroundings: ...
    @property
    def volumes(self) -> Ebs: ...
    @property
    def now(self) -> Callable[[], float]: ...
    @property
    def sleep(self) -> Callable[[float], None]: ...

    def submit(self, order: Order) -> Ticket: ...
    def poll(self, ticket: Ticket) -> Ticket: ...
    def everywhere(self, look: Callable[[str], list[Json]]) -> list[list[Json]]: ...


class BlockOrders:
    """The block orders of one account, beside its adapter's other ones."""

    def __init__(self, ec2: Account, looks_s: Sequence[float] = LOOKS_S) -> None:
        self._ec2 = ec2
        self._looks_s = looks_s
        self._sent: dict[str, float] = {}
        """By order: when its purchase was sent; 0 where it certainly was not, or was refused."""

    def submit(self, order: Order) -> Ticket:
        """The block that the cluster has, else exactly one PurchaseCapacityBlock."""
        self._sent[order.token] = 0.0
        held = [item for item in self._listed(order.label) if _stands(item)]
        if held:
            return self._used(order, held)
        context = creation.context_of(order)
        self._offering(order, context)
        self._checked(order, context)
        fee = order.candidates[0].offer.term.upfront_micro_usd  # type: ignore[union-attr]
        tags = tagging.tag_list(
            {
                tagging.NAME: order.node_names[0],
                **tagging.owner_tags(order),
                tagging.BLOCK_FEE: str(fee),
            }
        )
        self._sent[order.token] = self._ec2.now()
        creating = context._replace(creating=True)
        try:
            answer = self._ec2.client.call(
                "purchase_capacity_block",
                creating,
                CapacityBlockOfferingId=order.candidates[0].offer.term.offering,  # type: ignore[union-attr]
                InstancePlatform="Linux/UNIX",
                TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
            )
        except OutcomeUnknown:
            raise
        except CloudError:
            self._sent[order.token] = 0.0
            raise
        bought = answer.get("CapacityReservation") or {}
        if not bought.get("CapacityReservationId"):
            raise from_exception(ValueError("an answer without the block"), creating)
        return self._booked(order, {**bought, "Tags": tags})

    def poll(self, ticket: Ticket) -> Ticket:
        """Where the block stands. Once it has begun, launches into it, by the order's token, which
        EC2 does once; then as any other order.
        """
        order, known = ticket.order, dict(ticket.native)
        item = self._item(known.get("region", ""), known.get(BLOCK_NAME, ""))
        if not known.get("instances"):
            if not _stands(item):
                if BEGINS_AT in known:  # to be written down before it is told
                    return ticket._replace(native=_over(ticket.native, item), detail=_said(item))
                raise NoCapacity(
                    f"{creation.context_of(order).what}: {_said(item)} is {item.get('State', '')}",
                    provider=PROVIDER,
                    code=STATE,
                )
            if item.get("State") != "active":
                return ticket._replace(detail=_said(item))
        inside = self._inside(order, item)
        context = creation.context_of(inside)
        if not known.get("instances"):
            made = lookup.made_for(self._ec2.client, order, context)
            ids = ",".join(str(instance["InstanceId"]) for instance in made)
            if not ids:
                ids = dict(self._ec2.submit(inside).native)["instances"]
            return ticket._replace(
                state="waiting", native=(*ticket.native, ("instances", ids)), detail=_said(item)
            )
        after = self._ec2.poll(ticket._replace(order=inside))
        placed = None if after.placed is None else after.placed._replace(reservation="")
        return after._replace(order=order, placed=placed)

    def resume(self, order: Order, made: Sequence[Mapping[str, Any]]) -> Ticket | None:
        """The order's block, over or not, with the machines that were `made` in it. None: none was
        bought.
        """
        for pause_s in self._looks_s if self._sent.get(order.token) != 0.0 else ():
            self._ec2.sleep(pause_s)
            found = self._listed(order.label)
            own = [item for item in found if read.tags(item).get(tagging.ORDER) == order.token]
            usable = sorted(own, key=_stands, reverse=True) or [
                item
                for item in found
                if _stands(item) and item.get("InstanceType") == order.candidates[0].machine_type
            ]
            if usable:
                ticket = self._booked(order, usable[0])
                if not made:
                    return ticket
                ids = ",".join(str(instance["InstanceId"]) for instance in made)
                return ticket._replace(state="waiting", native=(*ticket.native, ("instances", ids)))
        sent = self._sent.get(order.token, order.intended_at)
        if sent and self._ec2.now() - sent < QUIET_S:
            raise OutcomeUnknown(
                f"{creation.context_of(order).what}: the purchase may have been sent, and no"
                " block of this order is listed yet",
                provider=PROVIDER,
                code="BLOCK_NOT_LISTED",
                token=order.token,
            )
        return None

    # Looking

    def _listed(self, label: Label) -> list[dict[str, Any]]:
        """Every block that this product bought for the cluster, over or not, in every region."""
        wanted = {tagging.OWNER: label.owner, tagging.CLUSTER: label.cluster}
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items()]

        def look(region: str) -> list[dict[str, Any]]:
            context = Context(f"aws {region}: looking for blocks", region)
            return [
                {**item, "region": region}
                for page in self._ec2.client.pages(
                    "describe_capacity_reservations", context, Filters=filters
                )
                for item in page["CapacityReservations"]
                if item.get("ReservationType") == "capacity-block"
            ]

        return [item for found in self._ec2.everywhere(look) for item in found]

    def _item(self, region: str, block: str) -> dict[str, Any]:
        """One block. Raises Transient where EC2 does not list it: that proves nothing."""
        context = Context(f"aws {region}: looking at block {block}", region)
        try:
            for page in self._ec2.client.pages(
                "describe_capacity_reservations", context, CapacityReservationIds=[block]
            ):
                for item in page["CapacityReservations"]:
                    return {**item, "region": region}
        except CloudError as error:
            if error.code != MISSING:
                raise
        raise Transient(
            f"{context.what}: EC2 does not list it now", provider=PROVIDER, code="BLOCK_NOT_LISTED"
        )

    def _offering(self, order: Order, context: Context) -> None:
        """Raises OfferGone or PriceRose where the offering is not what the plan showed."""
        first = order.candidates[0]
        planned = first.offer.term
        assert planned is not None
        hours = round((planned.ends_at + blocks.MARGIN_S - planned.begins_at) / 3_600)
        for page in self._ec2.client.pages(
            "describe_capacity_block_offerings",
            context,
            InstanceType=first.machine_type,
            InstanceCount=len(order.node_names),
            CapacityDurationHours=hours,
            StartDateRange=datetime.fromtimestamp(planned.begins_at, UTC),
            EndDateRange=datetime.fromtimestamp(planned.ends_at + blocks.MARGIN_S, UTC),
        ):
            for item in page.get("CapacityBlockOfferings") or ():
                if item.get("CapacityBlockOfferingId") != planned.offering:
                    continue
                now = blocks.term_of(item)
                if now is None or now.upfront_micro_usd > planned.upfront_micro_usd:
                    raise PriceRose(
                        f"{context.what}: the block costs more than the plan showed,"
                        f" {dollars(planned.upfront_micro_usd)}",
                        provider=PROVIDER,
                        code="BLOCK_PRICE",
                    )
                return
        raise OfferGone(
            f"{context.what}: the block is not on offer any more",
            provider=PROVIDER,
            code="BLOCK_GONE",
        )

    def _checked(self, order: Order, context: Context) -> None:
        """Raises what a launch into it would be refused for, as far as EC2 says so before."""
        around = self._ec2.surroundings.around(self._ec2.volumes.named(order), context)
        body = native.creating_call(order, around).body
        dry = {key: value for key, value in body.items() if key != "ClientToken"}
        try:
            self._ec2.client.call("run_instances", context, DryRun=True, **dry)
        except CloudError as error:
            if error.code != "DryRunOperation":
                raise

    # Using

    def _used(self, order: Order, held: Sequence[Mapping[str, Any]]) -> Ticket:
        """The cluster's own block, for this order. Raises where it cannot serve it: a second one is
        not bought.
        """
        first, nodes = order.candidates[0], len(order.node_names)
        fitting = [item for item in held if item.get("InstanceType") == first.machine_type]
        roomy = [item for item in fitting if item.get("State") != "active" or free(item) >= nodes]
        if roomy:
            return self._booked(order, roomy[0])
        item = (fitting or held)[0]
        name = item["CapacityReservationId"]
        what = f"aws: the cluster has {_said(item)}, and a second block is not bought"
        everywhere = [Scope(PROVIDER, capacity=BLOCK)]
        if fitting:
            text = f"{what}: {free(item)} of its machines are free, {nodes} are wanted"
            raise NoCapacity(text, provider=PROVIDER, code=FULL, scopes=everywhere, block_s=0.0)
        raise Unsupported(
            f'{what}; use it by capacity: ["reservation({name})"], or wait for its end',
            provider=PROVIDER,
            code="BLOCK_HELD",
            scopes=everywhere,
            block_s=0.0,
        )

    def _booked(self, order: Order, item: Mapping[str, Any]) -> Ticket:
        found, term = read.tags(item), order.candidates[0].offer.term
        begins = item["StartDate"].timestamp() if item.get("StartDate") else term.begins_at  # type: ignore[union-attr]
        ends = item["EndDate"].timestamp() if item.get("EndDate") else term.ends_at  # type: ignore[union-attr]
        paid = item["CreateDate"].timestamp() if item.get("CreateDate") else self._ec2.now()
        is_own = found.get(tagging.ORDER) == order.token
        fee = str(term.upfront_micro_usd) if is_own else found.get(tagging.BLOCK_FEE, "")  # type: ignore[union-attr]
        known = (
            ("region", str(item.get("region") or order.candidates[0].region)),
            (BLOCK_NAME, str(item["CapacityReservationId"])),
            (BEGINS_AT, f"{begins:.0f}"),
            (UPFRONT, fee),
            (PAID_AT, f"{paid:.0f}"),
            (BLOCK_ENDS_AT, f"{ends:.0f}"),
        )
        native = known if _stands(item) else _over(known, item)
        return Ticket(order, QUEUED, native, detail=_said(item))

    def _inside(self, order: Order, item: Mapping[str, Any]) -> Order:
        """The order as a launch into the block: in its zone, until its end."""
        first = order.candidates[0]
        ids = self._ec2.surroundings.zone_ids(first.region)
        zone = item.get("AvailabilityZoneId") or ids.get(str(item.get("AvailabilityZone")), "")
        term = first.offer.term._replace(  # type: ignore[union-attr]
            offering=str(item["CapacityReservationId"]),
            begins_at=item["StartDate"].timestamp(),
            ends_at=item["EndDate"].timestamp() - blocks.MARGIN_S,
        )
        offer = first.offer._replace(region=str(item["region"]), zone=str(zone), term=term)
        placed = first._replace(offer=offer, reservation=str(item["CapacityReservationId"]))
        return order._replace(candidates=(placed,))


def for_block(order: Order) -> bool:
    """Whether an order is for a block, and not yet a launch into one."""
    first = order.candidates[0]
    return first.offer.term is not None and not first.reservation


def _stands(item: Mapping[str, Any]) -> bool:
    """Whether a block is running or has yet to begin: not over, and its payment did not fail."""
    return item.get("State") not in OVER


def _over(
    native: Iterable[tuple[str, str]], item: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """What a ticket says once its block is over: it has no window any more, and cost nothing where
    the payment failed.
    """
    return tuple(
        (key, "0" if key == UPFRONT and item.get("State") == UNPAID else value)
        for key, value in native
        if key not in (BEGINS_AT, BLOCK_ENDS_AT)
    )


def _said(item: Mapping[str, Any]) -> str:
    """`block cr-0123 of 1 x p5.48xlarge from 2026-12-01 11:30 UTC to 2026-12-02 11:30 UTC`."""
    dates = [
        f" {word} {blocks.moment(item[key].timestamp())}"
        for word, key in (("from", "StartDate"), ("to", "EndDate"))
        if item.get(key)
    ]
    pending = ", payment pending" if item.get("State") == "payment-pending" else ""
    count = foreign.whole(item.get("TotalInstanceCount"), foreign.COUNT) or 1
    return (
        f"block {item['CapacityReservationId']} of {count} x {item.get('InstanceType', '')}"
        f"{''.join(dates)}{pending}"
    )
