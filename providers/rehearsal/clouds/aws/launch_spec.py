"""What a launch asks for, read and checked as EC2 does before it looks for capacity.
Owns Launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.clouds.aws import groups, machines, places
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.state import Rows


class Launch(NamedTuple):
    """One kind of machine to be made, in one zone if it is named. `capacity` as the catalog has it;
    `spec` is the request's (or template's) body.
    """

    region: str
    zone: str
    machine_type: str
    capacity: str
    reservation: str
    spec: Json
    lifecycle: str = ""
    persistent: bool = False


def market(spec: Json) -> tuple[str, bool]:
    """(capacity kind, whether a Spot request would be persistent) of a launch's market options."""
    options = spec.get("InstanceMarketOptions") or {}
    kind = options.get("MarketType", "on-demand")
    if kind == "spot":
        spot = options.get("SpotOptions") or {}
        if (
            spot.get("InstanceInterruptionBehavior") in ("stop", "hibernate")
            and spot.get("SpotInstanceType") != "persistent"
        ):
            raise Refusal(
                400, "InvalidParameterCombination", "A one-time Spot request can only be terminated"
            )
        return "spot", spot.get("SpotInstanceType") == "persistent"
    return ("reservation" if kind == "capacity-block" else "on-demand"), False


def read(rows: Rows, region: str, spec: Json) -> Launch:
    """A launch from RunInstances' parameters or a template's data. Raises Refusal for what names
    nothing that exists.
    """
    machine_type = str(spec.get("InstanceType") or "m1.small")
    capacity, persistent = market(spec)
    target = (
        (spec.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    ).get("CapacityReservationId", "")
    lifecycle = {"spot": "spot", "reservation": "capacity-block"}.get(capacity, "")
    check(rows, region, spec)
    zone = _zone(region, spec)
    if target:
        found = rows.things(region, "reservation", target)
        if not found:
            raise Refusal(
                400,
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{target}' does not exist",
            )
        if found[0]["InstanceType"] != machine_type or (
            zone and found[0]["AvailabilityZoneId"] != zone
        ):
            raise Refusal(
                400,
                "InvalidCapacityReservationId.NotFound",
                f"The attributes of '{target}' do not match the launch",
            )
        if found[0].get("block") and capacity != "reservation":
            raise Refusal(
                400,
                "InvalidParameterCombination",
                "A Capacity Block is used with MarketType capacity-block",
            )
        capacity, zone = "reservation", found[0]["AvailabilityZoneId"]
    elif capacity == "reservation":
        raise Refusal(
            400, "MissingParameter", "A Capacity Block must be named by CapacityReservationTarget"
        )
    return Launch(region, zone, machine_type, capacity, target, spec, lifecycle, persistent)


def check(rows: Rows, region: str, spec: Json) -> None:
    """Refuses an image, group, placement group or interface that is not there or not possible."""
    _check_image(region, spec)
    _check_network(rows, region, spec)
    name = (spec.get("Placement") or {}).get("GroupName")
    if name and not rows.things(region, "placement-group", name):
        raise Refusal(
            400, "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
        )
    _check_interfaces(spec)
    _check_disk(spec)
    if spec.get("InstanceInitiatedShutdownBehavior") == "stop" and market(spec)[0] == "spot":
        raise Refusal(
            400, "InvalidParameterCombination", "Spot instances of a one-time request cannot stop"
        )


def _check_image(region: str, spec: Json) -> None:
    """There, and of the machine type's architecture."""
    image = str(spec.get("ImageId") or "")
    if not image:
        raise Refusal(400, "MissingParameter", "The request must contain the parameter ImageId")
    if image not in places.images(region):
        raise Refusal(400, "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
    kind = spec.get("InstanceType")
    needed = places.images(region)[image]["architecture"]
    if kind and kind in places.known_types() and machines.architecture(kind) != needed:
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"The architecture '{needed}' of the image does not match '{kind}'",
        )


def _check_network(rows: Rows, region: str, spec: Json) -> None:
    """Groups and subnets: said in one place, and there."""
    interfaces = spec.get("NetworkInterfaces") or []
    if interfaces and (spec.get("SecurityGroupIds") or spec.get("SubnetId")):
        raise Refusal(
            400,
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet or groups may not be specified"
            " together",
        )
    named = [
        *spec.get("SecurityGroupIds", ()),
        *(group for item in interfaces for group in item.get("Groups", ())),
    ]
    known = {item["GroupId"] for item in groups.groups(rows, region)}
    for group in named:
        if group not in known:
            raise Refusal(
                400, "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
            )
    subnets = [spec.get("SubnetId"), *(item.get("SubnetId") for item in interfaces)]
    for subnet in subnets:
        if subnet and places.region_of(places.subnet_zones().get(subnet, "")) != region:
            raise Refusal(
                400, "InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist"
            )


def _check_interfaces(spec: Json) -> None:
    """As many, and of such kinds, as a machine of this type can have."""
    kind, interfaces = spec.get("InstanceType"), spec.get("NetworkInterfaces") or []
    if len(interfaces) > 1 and any(item.get("AssociatePublicIpAddress") for item in interfaces):
        raise Refusal(
            400,
            "InvalidParameterCombination",
            "A public address can be associated with a single interface only",
        )
    cards = {(item.get("NetworkCardIndex", 0), item.get("DeviceIndex", 0)) for item in interfaces}
    if len(cards) != len(interfaces):
        raise Refusal(400, "InvalidParameterValue", "Two interfaces have the same card and device")
    efa = sum(str(item.get("InterfaceType", "")).startswith("efa") for item in interfaces)
    if kind in machines.types() and efa > machines.types()[kind].efa:
        raise Refusal(
            400, "InvalidParameterCombination", f"{kind} does not support {efa} EFA interfaces"
        )
    if (
        kind in machines.types()
        and not efa
        and any(item.get("InterfaceType") not in (None, "interface") for item in interfaces)
    ):
        raise Refusal(400, "InvalidParameterValue", "Unknown kind of interface")


def _check_disk(spec: Json) -> None:
    """No smaller than the image's snapshot."""
    size = next(
        (
            item["Ebs"].get("VolumeSize")
            for item in spec.get("BlockDeviceMappings", ())
            if item.get("Ebs")
        ),
        None,
    )
    if size is not None and size < places.IMAGE_GIB:
        raise Refusal(
            400,
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot, expect size >="
            f" {places.IMAGE_GIB}GB",
        )


def _zone(region: str, spec: Json) -> str:
    """The zone id that a launch names, by whatever it names it; empty for none."""
    placement = spec.get("Placement") or {}
    subnet = spec.get("SubnetId") or next(
        (item["SubnetId"] for item in spec.get("NetworkInterfaces", ()) if item.get("SubnetId")), ""
    )
    by_subnet = places.subnet_zones().get(subnet, "") if subnet else ""
    by_name = places.names(region).get(placement.get("AvailabilityZone", ""), "")
    given = placement.get("AvailabilityZoneId", "")
    if placement.get("AvailabilityZone") and not by_name:
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"Invalid availability zone: [{placement['AvailabilityZone']}]",
        )
    if given and given not in places.names(region).values():
        raise Refusal(400, "InvalidParameterValue", f"Invalid availability zone id: [{given}]")
    named = {zone for zone in (by_subnet, by_name, given) if zone}
    if len(named) > 1:
        raise Refusal(400, "InvalidParameterValue", "The subnet is not in the zone that is named")
    return next(iter(named), "")
