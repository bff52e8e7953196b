"""Security groups, the network interfaces that are in them, and whom they let in.

A machine is in the groups that its launch named, else in the VPC's default one, which lets in its
own members and nobody else. A machine that no group lets ssh reach does not answer there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import filters, places
from providers.rehearsal.clouds.aws.state import ACCOUNT
from providers.rehearsal.clouds.aws.things import tag_list, tags_given
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.state import Instance, Rows

SSH_PORT = 22
ANYWHERE = "0.0.0.0/0"


def default(region: str) -> str:
    """The id of the default VPC's default group."""
    return places.made_up("sg", region)


def groups(rows: Rows, region: str) -> list[Json]:
    """Every security group, the default one first."""
    first = default(region)
    body = {
        "GroupId": first,
        "GroupName": "default",
        "VpcId": places.default_vpc(region),
        "tags": {},
        "ingress": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": first}]}],
        "egress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": ANYWHERE}]}],
    }
    return [body, *rows.things(region, "security-group")]


def describe(call: Call) -> Json:
    """Security groups with their rules."""
    found = [
        {
            "GroupId": item["GroupId"],
            "GroupName": item["GroupName"],
            "VpcId": item["VpcId"],
            "OwnerId": ACCOUNT,
            "Description": item.get("description", "default VPC security group"),
            "IpPermissions": item["ingress"],
            "IpPermissionsEgress": item["egress"],
            "Tags": tag_list(item["tags"]),
        }
        for item in groups(call.rows, call.region)
    ]
    fields = {
        "group-name": lambda item: [item["GroupName"]],
        "vpc-id": lambda item: [item["VpcId"]],
        "group-id": lambda item: [item["GroupId"]],
    }
    return {
        "SecurityGroups": filters.chosen(
            found,
            call.given,
            fields,
            ids=("GroupIds", lambda item: item["GroupId"], "InvalidGroup.NotFound"),
        )
    }


def create(call: Call) -> Json:
    """A new group: nothing comes in, everything goes out."""
    name, vpc = call.given["GroupName"], call.given.get("VpcId") or places.default_vpc(call.region)
    if vpc != places.default_vpc(call.region):
        raise Refusal(400, "InvalidVpcID.NotFound", f"The vpc ID '{vpc}' does not exist")
    if any(item["GroupName"] == name for item in groups(call.rows, call.region)):
        raise Refusal(
            400,
            "InvalidGroup.Duplicate",
            f"The security group '{name}' already exists for VPC '{vpc}'",
        )
    group_id = places.made_up("sg", call.region, name, repr(call.rows.now))
    body = {
        "GroupId": group_id,
        "GroupName": name,
        "VpcId": vpc,
        "description": call.given["Description"],
        "tags": tags_given(call, "security-group"),
        "ingress": [],
        "egress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    }
    call.rows.add_thing(call.region, "security-group", group_id, body)
    return {"GroupId": group_id, "Tags": tag_list(body["tags"])}


def _group(call: Call) -> Json:
    name = call.given.get("GroupId", "")
    found = call.rows.things(call.region, "security-group", name) if name else []
    if not found:
        raise _no_group(name)
    return found[0]


def _no_group(name: str) -> Refusal:
    return Refusal(400, "InvalidGroup.NotFound", f"The security group '{name}' does not exist")


def authorize(call: Call) -> Json:
    """Adds rules to a group, inward or outward."""
    group = _group(call)
    side = "ingress" if call.operation.endswith("Ingress") else "egress"
    for rule in call.given.get("IpPermissions", ()):
        if rule in group[side]:
            raise Refusal(400, "InvalidPermission.Duplicate", "the specified rule already exists")
        group[side].append(rule)
    call.rows.write_thing(group)
    note(call.rows, call.rows.instances(call.region))
    return {"Return": True}


def delete(call: Call) -> Json:
    """Ends a group that no machine uses."""
    group = _group(call)
    users = [
        item
        for item in call.rows.instances(call.region)
        if item.state(call.rows.now) != "terminated"
        and any(group["GroupId"] in each["groups"] for each in item.body["interfaces"])
    ]
    if users:
        raise Refusal(
            400, "DependencyViolation", f"resource {group['GroupId']} has a dependent object"
        )
    call.rows.end_thing(group)
    return {"Return": True, "GroupId": group["GroupId"]}


# Network interfaces


def interfaces_of(region: str, spec: Json) -> list[Json]:
    """The interfaces of a machine that is launched so, each with its groups."""
    first = {"Groups": spec.get("SecurityGroupIds")}
    return [
        {
            "type": each.get("InterfaceType") or "interface",
            "card": each.get("NetworkCardIndex", 0),
            "device": each.get("DeviceIndex", 0),
            "groups": list(each.get("Groups") or ()) or [default(region)],
        }
        for each in spec.get("NetworkInterfaces") or (first,)
    ]


def _id(item: Instance, at: int) -> str:
    return places.made_up("eni", item.name, str(at))


def shown(rows: Rows, item: Instance) -> Json:
    """What the API shows of a machine's interfaces and groups."""
    names = {each["GroupId"]: each["GroupName"] for each in groups(rows, item.region)}
    listed = [
        {
            "NetworkInterfaceId": _id(item, at),
            "InterfaceType": each["type"],
            "Status": "in-use",
            "VpcId": places.default_vpc(item.region),
            "SubnetId": places.default_subnet(item.zone),
            "Attachment": {"NetworkCardIndex": each["card"], "DeviceIndex": each["device"]},
            "Groups": [
                {"GroupId": group, "GroupName": names.get(group, "")} for group in each["groups"]
            ],
        }
        for at, each in enumerate(item.body["interfaces"])
    ]
    return {"NetworkInterfaces": listed, "SecurityGroups": listed[0]["Groups"]}


def modify_interface(call: Call) -> Json:
    """Puts an interface into other groups, whatever its machine does meanwhile."""
    name, wanted = call.given["NetworkInterfaceId"], list(call.given.get("Groups") or ())
    if not wanted:
        raise Refusal(
            400, "InvalidParameterCombination", "This stand-in knows no attribute but Groups."
        )
    known = {each["GroupId"] for each in groups(call.rows, call.region)}
    for group in wanted:
        if group not in known:
            raise _no_group(group)
    for item in call.rows.instances(call.region):
        for at, each in enumerate(item.body["interfaces"]):
            if _id(item, at) != name or item.state(call.rows.now) == "terminated":
                continue
            changed = list(item.body["interfaces"])
            changed[at] = {**each, "groups": wanted}
            later = item._replace(body={**item.body, "interfaces": changed})
            call.rows.write(later)
            note(call.rows, [later])
            return {}
    raise Refusal(
        400,
        "InvalidNetworkInterfaceID.NotFound",
        f"The networkInterface ID '{name}' does not exist",
    )


# Whom they let in


def note(rows: Rows, items: Iterable[Instance]) -> None:
    """Writes down for those who look at the machines which of them ssh cannot reach."""
    for item in items:
        names = item.body["interfaces"][0]["groups"]
        let_in = any(
            _lets_ssh_in(rule)
            for each in groups(rows, item.region)
            if each["GroupId"] in names
            for rule in each["ingress"]
        )
        why = "" if let_in else f"no security group lets ssh in: {', '.join(names)}"
        rows.store.close_off(rows.db, f"{item.region}/{item.name}", why)


def _lets_ssh_in(rule: Json) -> bool:
    ports = rule.get("FromPort", SSH_PORT), rule.get("ToPort", SSH_PORT)
    return (
        rule["IpProtocol"] in ("-1", "tcp")
        and ports[0] <= SSH_PORT <= ports[1]
        and any(each["CidrIp"] == ANYWHERE for each in rule.get("IpRanges") or ())
    )
