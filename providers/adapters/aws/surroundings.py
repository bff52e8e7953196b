"""What an order needs in a region besides the machine: image, network, security group, placement
group, reservation.

Owns finding it, side by side, and remembering what hardly changes; what is made and kept is
`kept`'s. None of it costs anything. Must not create or delete machines.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from providers.adapters.aws import (
    demands,
    grouping,
    optin,
    region_facts,
    reservations,
    tagging,
)
from providers.adapters.aws.error_codes import OWN
from providers.adapters.aws.errors import PROVIDER, Context
from providers.adapters.aws.kept import Kept
from providers.adapters.aws.nodes import machines_of, parse
from providers.adapters.aws.quotas import Quotas
from providers.errors import CloudError, NotEnabled, Unsupported
from providers.model import foreign
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.options import Options
    from providers.model.machine import Order

IMAGE_S = 3_600.0
"""How long an image's name is believed: AWS moves the parameter with each release."""
READS_AT_ONCE = 5
NETWORK_S = 3_600.0
"""How long the default VPC and its subnets are believed to be the same."""
T = TypeVar("T")


class Surroundings:
    """One account's, over all regions; what does not change is asked for once. Safe from several
    threads.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._lock = threading.Lock()
        self._zones: dict[str, dict[str, str]] = {}
        self._images: dict[tuple[str, str, str], tuple[float, region_facts.Image]] = {}
        self._networks: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._enabled: tuple[str, ...] = ()
        self.kept = Kept(client, now)
        self.quotas = Quotas(client, now)

    # Reading

    def enabled(self) -> tuple[str, ...]:
        """The regions that the account has enabled. One call a process."""
        if not self._enabled:
            found = self._client.call(
                "describe_regions", Context("aws: listing regions"), AllRegions=False
            )
            self._enabled = tuple(
                sorted(str(region["RegionName"]) for region in found.get("Regions", ()))
            )
        return self._enabled

    def zone_ids(self, region: str) -> dict[str, str]:
        """This account's zone names -> ids, of the zones that it has enabled. One call a region."""
        with self._lock:
            known = self._zones.get(region)
        if known is None:
            found = self._client.call(
                "describe_availability_zones", Context(f"aws {region}: listing zones", region)
            )
            known = {
                str(zone["ZoneName"]): str(zone.get("ZoneId", ""))
                for zone in found.get("AvailabilityZones", ())
            }
            with self._lock:
                self._zones[region] = known
        return known

    def usable(self, places: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Those of these (region, zone) that the account can use now. Two calls at most for each
        region, remembered.
        """
        return tuple(
            (region, zone)
            for region, zone in places
            if region in self.enabled() and (not zone or zone in self.zone_ids(region).values())
        )

    def image(self, region: str, options: Options, architecture: str) -> region_facts.Image:
        """What to boot from: as told, else the newest Deep Learning image. Up to two calls,
        remembered for an hour.
        """
        key = (region, options.ami or options.parameter(architecture), architecture)
        with self._lock:
            moment, known = self._images.get(key, (0.0, None))
        if known is not None and self._now() - moment < IMAGE_S:
            return known
        context = Context(f"aws {region}: looking for the image", region)
        image_id = options.ami
        if not image_id:
            name = options.parameter(architecture)
            context = context._replace(what=f"aws {region}: looking for the image of {name}")
            image_id = str(
                self._client.call("get_parameter", context, service="ssm", Name=name)["Parameter"][
                    "Value"
                ]
            )
        images = self._client.call("describe_images", context, ImageIds=[image_id]).get(
            "Images", ()
        )
        found = _one_image(image_id, images[0] if images else {}, region, architecture)
        with self._lock:
            self._images[key] = (self._now(), found)
        return found

    def around(self, order: Order, context: Context) -> region_facts.Around:
        """Everything the order needs in its region. Reads side by side; made is a placement group
        for several nodes, and for some the security group, see `_groups`. Raises
        QuotaExceeded where no order could be granted.
        """
        from concurrent.futures import ThreadPoolExecutor

        first = order.candidates[0]
        region, options = first.region, region_facts.options_of(order)
        if region not in self.enabled():
            text = (
                f"aws {region}: wanted a region that the account has enabled; enable it:"
                f" {optin.region_command(region)}"
            )
            raise NotEnabled(
                text, provider=PROVIDER, code="OptInRequired", scopes=[Scope(PROVIDER, region)]
            )
        with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="aws-around") as pool:
            quota = pool.submit(self.quotas.check, order, context)
            zones_there = pool.submit(self.zone_ids, region)
            image = pool.submit(self.image, region, options, _architecture(order))
            groups = pool.submit(self._groups, order, options, context)
            sold_in = pool.submit(self._sold_in, order)
            quota.result()
            ids = zones_there.result()
            reservation = (
                reservations.named(self._client, ids, order) if first.reservation else None
            )
            if (
                options.ami or options.ami_ssm_parameter
            ):  # not in every region: there nothing is made
                image.result()
            named = groups.result()
            where = tuple(zone for zone in sold_in.result() if zone in ids.values())
        booted = image.result()
        by_id = self._client.takes(
            "CreateFleet", "LaunchTemplateConfigs", "Overrides", "AvailabilityZoneId"
        ) and self._client.takes("RunInstances", "Placement", "AvailabilityZoneId")
        subnets = (
            self._default_subnets(region, context)
            if demands.needs_subnet(order) and not options.subnets
            else ()
        )
        self._placement_group(order, context)
        joined = (
            self._joined_group(order, context)
            if order.joins and not options.placement_group
            else ""
        )
        return region_facts.Around(
            booted,
            named,
            tuple(zone_id for zone_id in ids.values() if zone_id),
            subnets,
            () if by_id else tuple((zone_id, name) for name, zone_id in ids.items()),
            reservation,
            joined,
            where,
        )

    def _remembered(self, key: tuple[str, ...], look: Callable[[], T]) -> T:
        """What a look found, if that was not long ago. One that raises is not remembered."""
        with self._lock:
            moment, known = self._networks.get(key, (0.0, None))
        if moment and self._now() - moment < NETWORK_S:
            return known  # type: ignore[no-any-return]
        found = look()
        with self._lock:
            self._networks[key] = (self._now(), found)
        return found

    def _sold_in(self, order: Order) -> tuple[str, ...]:
        """The zones in which EC2 has the type of an order whose zone it may choose. One call,
        remembered for an hour; for one order always the same, since its call has to be. Empty where
        EC2 does not tell.
        """
        first = order.candidates[0]
        if not grouping.spreads(order):
            return ()

        def look() -> tuple[str, ...]:
            context = Context(f"aws {first.region}: looking for {first.machine_type}", first.region)
            wanted = [{"Name": "instance-type", "Values": [first.machine_type]}]
            pages = self._client.pages(
                "describe_instance_type_offerings",
                context,
                LocationType="availability-zone-id",
                Filters=wanted,
            )
            return tuple(
                str(item["Location"])
                for page in pages
                for item in page.get("InstanceTypeOfferings") or ()
            )

        def told() -> tuple[str, ...]:
            try:
                return self._remembered(("zones", first.region, first.machine_type), look)
            except CloudError:
                return ()

        return self._remembered(("order", order.token), told)

    def _default_subnets(self, region: str, context: Context) -> tuple[tuple[str, str], ...]:
        """(zone id, subnet) of each default subnet. One call, remembered for an hour."""

        def look() -> tuple[tuple[str, str], ...]:
            wanted = [{"Name": "default-for-az", "Values": ["true"]}]
            found = self._client.call("describe_subnets", context, Filters=wanted)
            ids = self.zone_ids(region)
            return tuple(
                (
                    str(
                        item.get("AvailabilityZoneId")
                        or ids.get(str(item.get("AvailabilityZone")), "")
                    ),
                    str(item["SubnetId"]),
                )
                for item in found.get("Subnets", ())
            )

        return self._remembered(("subnets", region), look)

    def _groups(self, order: Order, options: Options, context: Context) -> tuple[str, ...]:
        """The security groups as told, else the owner's, if it is there. Two are not ordered before
        it is: what is paid in full beforehand, since a group that cannot be made would be paid for;
        and what goes into a subnet of the user's, since nobody may use the default group of a VPC
        that another account shares with him (VPC user guide on shared subnets, 2026).
        """
        if options.security_group:
            return options.security_group
        label, linked = order.label, demands.needs_subnet(order)
        vpc = self._vpc(context.region, options, context)
        if order.candidates[0].offer.term is None and not options.subnets:
            return self.kept.standing(order, vpc, context, linked=linked)
        return (self.kept.group(label.owner, label.cluster, vpc, context, linked=linked),)

    def _vpc(self, region: str, options: Options, context: Context) -> str:
        """The VPC of the order's subnets, else the default one. One call, remembered for an
        hour.
        """
        ids = sorted({subnet for _, subnet in options.subnets})

        def look() -> str:
            # A spec may name subnets of several regions: those of this one are picked out, instead
            # of asked for by id.
            operation, key, wanted = (
                ("describe_subnets", "Subnets", {"Name": "subnet-id", "Values": ids})
                if ids
                else ("describe_vpcs", "Vpcs", {"Name": "is-default", "Values": ["true"]})
            )
            found = self._client.call(operation, context, Filters=[wanted]).get(key, ())
            if not found:
                asked = "one of options.aws.subnets" if ids else "a default VPC"
                text = (
                    f"aws {region}: wanted {asked}, found none here; aws ec2 create-default-vpc"
                    " makes one, or set options.aws.subnets"
                )
                raise Unsupported(
                    text,
                    provider=PROVIDER,
                    code="VPCIdNotSpecified",
                    scopes=[Scope(PROVIDER, region)],
                    block_s=0.0,
                )
            return str(found[0]["VpcId"])

        return self._remembered(("vpc", region, *ids), look)

    # Making

    def _joined_group(self, order: Order, context: Context) -> str:
        """The placement group of the machines that the order joins; empty where they are in none.
        One call.
        """
        ids = [parse(handle)[1] for handle in order.joins]
        answer = self._client.call("describe_instances", context, InstanceIds=ids)
        return next(
            (
                name
                for instance in machines_of(answer, context)
                if (name := str((instance.get("Placement") or {}).get("GroupName", "")))
            ),
            "",
        )

    def _placement_group(self, order: Order, context: Context) -> None:
        name, ours = region_facts.placement_group(order)
        if not ours:
            return
        tags = tagging.tag_list(tagging.owner_tags(order))
        self.kept.quietly(
            "InvalidPlacementGroup.Duplicate",
            "create_placement_group",
            context,
            GroupName=name,
            Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
        )

    def drop_placement_group(self, order: Order) -> None:
        """Deletes the order's own placement group, if there is one; not one that is in use."""
        name, ours = region_facts.placement_group(order)
        if ours:
            self.kept.attempt("delete_placement_group", order.candidates[0].region, GroupName=name)

    def refused(self, order: Order, error: CloudError) -> None:
        """What follows from a refused order for what is around it."""
        self.drop_placement_group(order)
        if error.code in OWN:
            self.kept.forget(order.candidates[0].region, order.label.owner)


def _architecture(order: Order) -> str:
    from providers.adapters.aws import machines

    return machines.architecture(order.candidates[0].machine_type)


def _one_image(
    image_id: str, item: Mapping[str, Any], region: str, architecture: str
) -> region_facts.Image:
    """What must be known of an image. Raises Unsupported for one that the region has not, or of
    another processor.
    """
    where = [Scope(PROVIDER, region)]
    if not item:
        text = (
            f"aws {region}: wanted image {image_id}, found none of that id here; images exist in"
            " one region each"
        )
        raise Unsupported(
            text, provider=PROVIDER, code="InvalidAMIID.NotFound", scopes=where, block_s=0.0
        )
    found = str(item.get("Architecture") or architecture)
    if found != architecture:
        text = (
            f"aws {region}: wanted an image for {architecture}, found {image_id} for {found}; look"
            " at options.aws"
        )
        raise Unsupported(
            text, provider=PROVIDER, code="InvalidAMIID.Unavailable", scopes=where, block_s=0.0
        )
    device = str(item.get("RootDeviceName") or "/dev/sda1")
    sizes = [
        foreign.whole((mapping.get("Ebs") or {}).get("VolumeSize"), foreign.COUNT) or 0
        for mapping in item.get("BlockDeviceMappings") or ()
        if mapping.get("DeviceName") == device
    ]
    return region_facts.Image(image_id, device, max([1, *sizes]))
