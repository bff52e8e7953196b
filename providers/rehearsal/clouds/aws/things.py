"""Networks, templates, placement groups, images: everything beside the machines but `groups`. Owns
their bodies and the calls on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import filters, places
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.call import Call


def tags_given(call: Call, kind: str) -> dict[str, str]:
    """The tags that a creating call gives to a kind of resource."""
    for item in call.given.get("TagSpecifications", ()):
        if item.get("ResourceType") != kind:
            raise Refusal(
                400,
                "InvalidParameterValue",
                f"'{item.get('ResourceType')}' is not a valid taggable resource type for this"
                " operation.",
            )
    return {
        str(tag["Key"]): str(tag.get("Value", ""))
        for item in call.given.get("TagSpecifications", ())
        for tag in item.get("Tags", ())
    }


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as the API shows them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


# Places


def regions(call: Call) -> Json:
    """Every region is enabled in the rehearsal's account."""
    del call
    return {
        "Regions": [
            {
                "RegionName": name,
                "Endpoint": f"ec2.{name}.amazonaws.com",
                "OptInStatus": "opt-in-not-required",
            }
            for name in places.regions()
        ]
    }


def zones(call: Call) -> Json:
    """The region's zones, by this account's names."""
    return {
        "AvailabilityZones": [
            {
                "ZoneName": name,
                "ZoneId": zone,
                "RegionName": call.region,
                "State": "available",
                "ZoneType": "availability-zone",
            }
            for name, zone in places.names(call.region).items()
        ]
    }


def type_offerings(call: Call) -> Json:
    """Which instance types are in which of the account's zones."""
    if call.given.get("LocationType") != "availability-zone-id":
        raise Refusal(400, "InvalidParameterValue", "This stand-in tells offerings by zone id.")
    found = [
        {"InstanceType": kind, "LocationType": "availability-zone-id", "Location": zone}
        for zone in places.names(call.region).values()
        for kind in sorted(places.known_types())
        if places.has(zone, kind)
    ]
    fields = {
        "instance-type": lambda item: [item["InstanceType"]],
        "location": lambda item: [item["Location"]],
    }
    return filters.paged(
        {"InstanceTypeOfferings": filters.chosen(found, call.given, fields)}, call.given
    )


def vpcs(call: Call) -> Json:
    """The default VPC."""
    found = [
        {
            "VpcId": places.default_vpc(call.region),
            "IsDefault": True,
            "State": "available",
            "CidrBlock": "172.31.0.0/16",
        }
    ]
    fields = {"is-default": lambda _: ["true"], "vpc-id": lambda item: [item["VpcId"]]}
    return {
        "Vpcs": filters.chosen(
            found,
            call.given,
            fields,
            ids=("VpcIds", lambda item: item["VpcId"], "InvalidVpcID.NotFound"),
        )
    }


def subnets(call: Call) -> Json:
    """A default subnet in each zone."""
    found = [
        {
            "SubnetId": places.default_subnet(zone),
            "VpcId": places.default_vpc(call.region),
            "AvailabilityZone": name,
            "AvailabilityZoneId": zone,
            "DefaultForAz": True,
            "MapPublicIpOnLaunch": True,
            "State": "available",
            "AvailableIpAddressCount": 4091,
        }
        for name, zone in places.names(call.region).items()
    ]
    fields = {
        "default-for-az": lambda _: ["true"],
        "subnet-id": lambda item: [item["SubnetId"]],
        "vpc-id": lambda item: [item["VpcId"]],
        "availability-zone-id": lambda item: [item["AvailabilityZoneId"]],
    }
    return {
        "Subnets": filters.chosen(
            found,
            call.given,
            fields,
            ids=("SubnetIds", lambda item: item["SubnetId"], "InvalidSubnetID.NotFound"),
        )
    }


def images(call: Call) -> Json:
    """The Deep Learning images."""
    found = [
        {
            "ImageId": name,
            "Architecture": image["architecture"],
            "RootDeviceName": image["device"],
            "RootDeviceType": "ebs",
            "State": "available",
            "BlockDeviceMappings": [
                {
                    "DeviceName": image["device"],
                    "Ebs": {"VolumeSize": places.IMAGE_GIB, "VolumeType": "gp3"},
                }
            ],
        }
        for name, image in places.images(call.region).items()
    ]
    return {
        "Images": filters.chosen(
            found,
            call.given,
            {},
            ids=("ImageIds", lambda item: item["ImageId"], "InvalidAMIID.NotFound"),
        )
    }


# Placement groups


def create_placement_group(call: Call) -> Json:
    """A new placement group."""
    name = call.given.get("GroupName", "")
    if not name or call.given.get("Strategy") not in ("cluster", "spread", "partition"):
        raise Refusal(400, "InvalidParameterValue", "A placement group has a name and a strategy")
    if call.rows.things(call.region, "placement-group", name):
        raise Refusal(
            400, "InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists."
        )
    body = {
        "GroupName": name,
        "Strategy": call.given["Strategy"],
        "tags": tags_given(call, "placement-group"),
    }
    call.rows.add_thing(call.region, "placement-group", name, body)
    return {
        "PlacementGroup": {
            "GroupName": name,
            "Strategy": body["Strategy"],
            "State": "available",
            "Tags": tag_list(body["tags"]),
        }
    }


def placement_groups(call: Call) -> Json:
    """Placement groups."""
    found = [
        {
            "GroupName": item["GroupName"],
            "Strategy": item["Strategy"],
            "State": "available",
            "Tags": tag_list(item["tags"]),
        }
        for item in call.rows.things(call.region, "placement-group")
    ]
    fields = {"group-name": lambda item: [item["GroupName"]]}
    ids = ("GroupNames", lambda item: item["GroupName"], "InvalidPlacementGroup.Unknown")
    return {"PlacementGroups": filters.chosen(found, call.given, fields, ids=ids)}


def delete_placement_group(call: Call) -> Json:
    """Ends a placement group that is empty."""
    name = call.given.get("GroupName", "")
    found = call.rows.things(call.region, "placement-group", name) if name else []
    if not found:
        raise Refusal(
            400, "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
        )
    users = [
        item
        for item in call.rows.instances(call.region)
        if item.state(call.rows.now) != "terminated" and item.body["placement_group"] == name
    ]
    if users:
        raise Refusal(
            400,
            "InvalidPlacementGroup.InUse",
            f"The placement group '{name}' is in use and may not be deleted.",
        )
    call.rows.end_thing(found[0])
    return {}


# Launch templates


def create_template(call: Call) -> Json:
    """A new launch template, its first version."""
    name, data = call.given["LaunchTemplateName"], call.given["LaunchTemplateData"]
    if call.rows.things(call.region, "template", name):
        raise Refusal(
            400,
            "InvalidLaunchTemplateName.AlreadyExistsException",
            "Launch template name already in use.",
        )
    if not data:
        raise Refusal(400, "MissingParameter", "The launch template has no data")
    body = {
        "LaunchTemplateId": places.made_up("lt", call.region, name, repr(call.rows.now)),
        "LaunchTemplateName": name,
        "data": data,
        "tags": tags_given(call, "launch-template"),
    }
    call.rows.add_thing(call.region, "template", name, body)
    return {"LaunchTemplate": _template({**body, "_created": call.rows.now})}


def _template(item: Json) -> Json:
    return {
        "LaunchTemplateId": item["LaunchTemplateId"],
        "LaunchTemplateName": item["LaunchTemplateName"],
        "CreateTime": item["_created"],
        "DefaultVersionNumber": 1,
        "LatestVersionNumber": 1,
        "Tags": tag_list(item["tags"]),
    }


def templates(call: Call) -> Json:
    """Launch templates."""
    found = [_template(item) for item in call.rows.things(call.region, "template")]
    return filters.paged({"LaunchTemplates": filters.chosen(found, call.given, {})}, call.given)


def template_named(call: Call, named: Json) -> Json:
    """The template that a call names by id or name. Raises Refusal."""
    for item in call.rows.things(call.region, "template"):
        if item["LaunchTemplateId"] == named.get("LaunchTemplateId") or item[
            "LaunchTemplateName"
        ] == named.get("LaunchTemplateName"):
            return item
    if named.get("LaunchTemplateId"):
        raise Refusal(
            400,
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {named['LaunchTemplateId']}, does not"
            " exist.",
        )
    name = named.get("LaunchTemplateName", "")
    raise Refusal(
        400,
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def delete_template(call: Call) -> Json:
    """Ends a launch template."""
    item = template_named(call, call.given)
    call.rows.end_thing(item)
    return {"LaunchTemplate": _template(item)}
