"""What an order needs in a region besides the machine: image, network, security group, placement
group, reservation, launch template.

Owns finding and making them, and tidying away what this adapter made. None of it costs anything.
Must not create or delete machines.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.aws import compile as native
from providers.adapters.aws import demands, optin, region_facts, reservations, tagging
from providers.adapters.aws.errors import PROVIDER, Context
from providers.adapters.aws.nodes import machines_of, parse
from providers.errors import CloudError, NotEnabled, Unsupported
from providers.model import foreign
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.options import Options
    from providers.model.machine import Order

SSH_PORT = 22
IMAGE_S = 3_600.0
"""How long an image's name is believed: AWS moves the parameter with each release."""
TEMPLATE_S = 600.0
"""A launch template lives for one call; one that is older was left behind."""
LIVE_STATES = ("pending", "running", "shutting-down", "stopping", "stopped")


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
        self._enabled: tuple[str, ...] = ()

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
        """Everything the order needs in its region; what must be made is made. Reads, and at most
        three calls that make helpers.
        """
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
        reservation = (
            reservations.named(self._client, self.zone_ids(region), order)
            if first.reservation
            else None
        )
        by_id = self._client.takes(
            "CreateFleet", "LaunchTemplateConfigs", "Overrides", "AvailabilityZoneId"
        ) and self._client.takes("RunInstances", "Placement", "AvailabilityZoneId")
        ids = self.zone_ids(region)
        zones = tuple(zone_id for zone_id in ids.values() if zone_id)
        names = () if by_id else tuple((zone_id, name) for name, zone_id in ids.items())
        image = self.image(region, options, _architecture(order))
        subnets = (
            self._default_subnets(region, context)
            if demands.needs_subnet(order) and not options.subnets
            else ()
        )
        own, new = (
            ("", False) if options.security_group else self._security_group(order, options, context)
        )
        self._placement_group(order, context)
        joined = (
            self._joined_group(order, context)
            if order.joins and not options.placement_group
            else ""
        )
        return region_facts.Around(
            image,
            options.security_group or (own,),
            zones,
            subnets,
            names,
            reservation,
            own if new else "",
            joined,
        )

    def _default_subnets(self, region: str, context: Context) -> tuple[tuple[str, str], ...]:
        found = self._client.call(
            "describe_subnets", context, Filters=[{"Name": "default-for-az", "Values": ["true"]}]
        )
        ids = self.zone_ids(region)
        return tuple(
            (
                str(
                    item.get("AvailabilityZoneId") or ids.get(str(item.get("AvailabilityZone")), "")
                ),
                str(item["SubnetId"]),
            )
            for item in found.get("Subnets", ())
        )

    def _vpc(self, region: str, options: Options, context: Context) -> str:
        if options.subnets:
            ids = sorted({subnet for _, subnet in options.subnets})
            # A spec may name subnets of several regions: those of this one are picked out, instead
            # of asked for by id.
            found = self._client.call(
                "describe_subnets", context, Filters=[{"Name": "subnet-id", "Values": ids}]
            ).get("Subnets", ())
        else:
            found = self._client.call(
                "describe_vpcs", context, Filters=[{"Name": "is-default", "Values": ["true"]}]
            ).get("Vpcs", ())
        if not found:
            wanted = "one of options.aws.subnets" if options.subnets else "a default VPC"
            text = (
                f"aws {region}: wanted {wanted}, found none here; aws ec2 create-default-vpc makes"
                " one, or set options.aws.subnets"
            )
            raise Unsupported(
                text,
                provider=PROVIDER,
                code="VPCIdNotSpecified",
                scopes=[Scope(PROVIDER, region)],
                block_s=0.0,
            )
        return str(found[0]["VpcId"])

    # Making

    def _security_group(self, order: Order, options: Options, context: Context) -> tuple[str, bool]:
        """The owner's group in the region, and whether it had to be made.

        It lets in ssh from anywhere and everything from itself (which EFA needs), and lets out
        everything. The default VPC's own group lets nobody in, so a machine in it could not be
        reached.
        """
        vpc = self._vpc(context.region, options, context)
        owner = order.label.owner
        name = f"gpus-{owner}"
        wanted = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [vpc]}]
        found = self._client.call("describe_security_groups", context, Filters=wanted).get(
            "SecurityGroups", ()
        )
        if found:
            group_id = str(found[0]["GroupId"])
            if found[0].get("IpPermissions"):
                return group_id, False
        else:
            tags = tagging.tag_list({tagging.NAME: name, tagging.OWNER: owner})
            group_id = str(
                self._client.call(
                    "create_security_group",
                    context,
                    GroupName=name,
                    Description="ssh to the machines of one stack, and everything among them",
                    VpcId=vpc,
                    TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
                )["GroupId"]
            )
        itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
        ssh = {
            "IpProtocol": "tcp",
            "FromPort": SSH_PORT,
            "ToPort": SSH_PORT,
            "IpRanges": [{"CidrIp": "0.0.0.0/0", "Description": "ssh, by key only"}],
        }
        self._quietly(
            "InvalidPermission.Duplicate",
            "authorize_security_group_ingress",
            context,
            GroupId=group_id,
            IpPermissions=[itself, ssh],
        )
        # EFA's traffic is no IP traffic: "all addresses" does not hold it, the group itself does
        # (EC2 user guide on EFA).
        self._quietly(
            "InvalidPermission.Duplicate",
            "authorize_security_group_egress",
            context,
            GroupId=group_id,
            IpPermissions=[itself],
        )
        return group_id, not found

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
        self._quietly(
            "InvalidPlacementGroup.Duplicate",
            "create_placement_group",
            context,
            GroupName=name,
            Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": tags}],
        )

    def template(self, call: native.Call, context: Context) -> None:
        """Makes the launch template of a fleet; one that an earlier try of the same order made is
        the same.
        """
        if call.template is not None:
            self._quietly(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "create_launch_template",
                context,
                **call.template,
            )

    def _quietly(self, fine: str, operation: str, context: Context, **parameters: Any) -> None:
        try:
            self._client.call(operation, context, **parameters)
        except CloudError as error:
            if error.code != fine:
                raise

    # Tidying: best effort everywhere, since none of it costs anything and the next one tries again

    def drop_template(self, order: Order) -> None:
        """Deletes the order's launch template, if there is one."""
        region = order.candidates[0].region
        self._try(
            "delete_launch_template", region, LaunchTemplateName=region_facts.template_name(order)
        )

    def drop_groups(self, order: Order, new_group: str = "") -> None:
        """Deletes the order's own placement group, if there is one, and a security group that was
        made for it; not what is in use.
        """
        name, ours = region_facts.placement_group(order)
        region = order.candidates[0].region
        if ours:
            self._try("delete_placement_group", region, GroupName=name)
        if new_group:
            self._try("delete_security_group", region, GroupId=new_group)

    def tidy(self, region: str, owner: str) -> None:
        """Deletes what the owner's machines no longer need in a region: old launch templates, empty
        placement groups, and, with the last machine, the security group. A helper that another run
        needs at this moment is made again by it (see `errors.OWN`).
        """
        live = {"Name": "instance-state-name", "Values": list(LIVE_STATES)}
        machines = self._owned("describe_instances", "Reservations", region, owner, live)
        for item in (
            self._owned("describe_launch_templates", "LaunchTemplates", region, owner) or ()
        ):
            if self._now() - item["CreateTime"].timestamp() > TEMPLATE_S:
                self._try(
                    "delete_launch_template", region, LaunchTemplateId=item["LaunchTemplateId"]
                )
        for item in (
            self._owned("describe_placement_groups", "PlacementGroups", region, owner) or ()
        ):
            self._try("delete_placement_group", region, GroupName=item["GroupName"])
        if machines == []:
            for item in (
                self._owned("describe_security_groups", "SecurityGroups", region, owner) or ()
            ):
                self._try("delete_security_group", region, GroupId=item["GroupId"])

    def _owned(
        self, operation: str, key: str, region: str, owner: str, *more: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """What carries the owner's tag; None where it could not be listed, which is not nothing."""
        wanted = [{"Name": f"tag:{tagging.OWNER}", "Values": [owner]}, *more]
        context = Context(f"aws {region}: tidying", region)
        try:
            return [
                item
                for page in self._client.pages(operation, context, Filters=wanted)
                for item in page.get(key, ())
            ]
        except CloudError:
            return None

    def tidy_empty(self, region: str, owner: str) -> None:
        """Tidies a region that holds none of the owner's machines, if his security group is still
        there. One call where it is not.
        """
        if self._owned("describe_security_groups", "SecurityGroups", region, owner):
            self.tidy(region, owner)

    def _try(self, operation: str, region: str, **parameters: Any) -> None:
        try:
            self._client.call(operation, Context(f"aws {region}: tidying", region), **parameters)
        except CloudError:
            return


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
