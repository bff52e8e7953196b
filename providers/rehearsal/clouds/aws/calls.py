"""What each call does. Owns the machines' calls and the table of all of them; the rest is in
`things`.

A creating call with a client token is carried out once: the same token and parameters get the same
answer, other parameters are refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

from providers.rehearsal import script as played
from providers.rehearsal.clouds.aws import filters, launch, machines, places, prices, things
from providers.rehearsal.clouds.aws.state import ACCOUNT, FORGOTTEN, HOLDING, Instance, cut
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.state import Rows

STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
IDEMPOTENT = frozenset({"RunInstances", "CreateFleet"})


def work(call: Call) -> Json:
    """The call's answer, its work done once. Raises Refusal."""
    if call.region not in places.regions():
        raise Refusal(
            401, "AuthFailure", "AWS was not able to validate the provided access credentials"
        )
    if call.given.get("DryRun"):
        raise Refusal(
            412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."
        )
    token = str(call.given.get("ClientToken") or "") if call.operation in IDEMPOTENT else ""
    if len(token) > 64:
        raise Refusal(400, "InvalidParameterValue", "The client token is longer than 64 characters")
    if not token:
        return HANDLERS[call.service][call.operation](call)
    digest = hashlib.sha256(json.dumps(call.given, sort_keys=True).encode()).hexdigest()
    before = call.rows.answered(call.region, call.operation, token)
    if before is not None:
        if before[0] != digest:
            raise Refusal(
                400,
                "IdempotentParameterMismatch",
                "The request uses the same client token as a previous, but non-identical request.",
            )
        return before[1]
    answer = HANDLERS[call.service][call.operation](call)
    if answer.get("Instances"):
        call.rows.remember(call.region, call.operation, token, digest, answer)
    return answer


def run_instances(call: Call) -> Json:
    """Machines of one type in one zone: as many as can be had up to MaxCount, or none below
    MinCount.
    """
    given = call.given
    if call.planned:
        raise call.planned
    least, most = given["MinCount"], given["MaxCount"]
    if not 1 <= least <= most:
        raise Refusal(400, "InvalidParameterValue", "MinCount and MaxCount do not fit")
    wanted = launch.read(call.rows, call.region, given)
    options = (
        [wanted]
        if wanted.zone
        else [wanted._replace(zone=zone) for zone in places.names(call.region).values()]
    )
    refused: Refusal | None = None
    for option in options:
        refused = launch.refusal(call.rows, option, least)
        if refused is None:
            count = next(
                number
                for number in range(most, least - 1, -1)
                if launch.refusal(call.rows, option, number) is None
            )
            made = launch.make(
                call.rows,
                option,
                count,
                token=str(given.get("ClientToken") or ""),
                slower_s=call.slower_s,
            )
            return {
                "ReservationId": _reservation_id(made[0]),
                "OwnerId": ACCOUNT,
                "Instances": [body(call.rows, item) for item in made],
            }
    assert refused is not None
    raise refused


def create_fleet(call: Call) -> Json:
    """An instant fleet: one pool after another, by priority, until the target is had. Refusals are
    in the answer, which is HTTP 200 even so.
    """
    given = call.given
    if given.get("Type") != "instant":
        raise Refusal(400, "InvalidParameterValue", "the rehearsal cloud knows instant fleets only")
    target = given["TargetCapacitySpecification"]
    capacity = target.get("DefaultTargetCapacityType", "on-demand")
    if capacity not in ("on-demand", "spot"):
        raise Refusal(
            400, "InvalidParameterValue", f"the rehearsal cloud knows no fleet of {capacity}"
        )
    if ("SpotOptions" in given) != (capacity == "spot"):
        raise Refusal(400, "InvalidParameterCombination", "SpotOptions belong to a Spot fleet")
    fleet = places.made_up("fleet", call.region, repr(call.rows.now), str(given.get("ClientToken")))
    pools: list[tuple[float, Json, Json]] = []
    for config in given["LaunchTemplateConfigs"]:
        named = config.get("LaunchTemplateSpecification") or {}
        template = things.template_named(call, named)
        if str(named.get("Version")) not in ("1", "$Latest", "$Default"):
            raise Refusal(
                400,
                "InvalidLaunchTemplateId.VersionNotFound",
                "Could not find launch template version",
            )
        if template["data"].get("InstanceMarketOptions"):
            raise Refusal(
                400, "InvalidParameterCombination", "A fleet's template has no market options"
            )
        pools += [
            (float(item.get("Priority", index)), {"template": template, "named": named}, item)
            for index, item in enumerate(config.get("Overrides") or [{}])
        ]
    instances: list[Json] = []
    errors: list[Json] = []
    missing = int(target["TotalTargetCapacity"])
    for _, config, override in sorted(pools, key=lambda pool: pool[0]):
        if not missing:
            break
        where = {"LaunchTemplateSpecification": config["named"], "Overrides": override}
        try:
            if call.planned:
                raise call.planned
            wanted = _override(call, config["template"]["data"], override)._replace(
                capacity=capacity
            )
            refused = launch.refusal(call.rows, wanted, 1)
            if refused is not None:
                raise refused
        except Refusal as refusal:
            code = refusal.code
            if code == "InsufficientInstanceCapacity" and capacity == "spot":
                code = "UnfulfillableCapacity"
            errors.append(
                {
                    "LaunchTemplateAndOverrides": where,
                    "Lifecycle": capacity,
                    "ErrorCode": code,
                    "ErrorMessage": refusal.message,
                }
            )
            continue
        count = next(
            number
            for number in range(missing, 0, -1)
            if launch.refusal(call.rows, wanted, number) is None
        )
        made = launch.make(call.rows, wanted, count, fleet=fleet, slower_s=call.slower_s)
        missing -= count
        instances.append(
            {
                "LaunchTemplateAndOverrides": where,
                "Lifecycle": capacity,
                "InstanceIds": [item.name for item in made],
                "InstanceType": wanted.machine_type,
                "AvailabilityZone": places.name_of(wanted.zone),
                "AvailabilityZoneId": wanted.zone,
                "SubnetId": places.default_subnet(wanted.zone),
            }
        )
    return {"FleetId": fleet, "Instances": instances, "Errors": errors}


def _override(call: Call, data: Json, override: Json) -> launch.Launch:
    """A pool of a fleet: the template's data, overridden."""
    spec = {
        **data,
        **{key: override[key] for key in ("InstanceType", "ImageId", "KeyName") if key in override},
    }
    if override.get("SubnetId") and spec.get("NetworkInterfaces"):
        spec["NetworkInterfaces"] = [
            {**item, "SubnetId": override["SubnetId"]} for item in spec["NetworkInterfaces"]
        ]
    elif override.get("SubnetId"):
        spec["SubnetId"] = override["SubnetId"]
    where = {
        key: override[key] for key in ("AvailabilityZone", "AvailabilityZoneId") if key in override
    }
    if where and override.get("SubnetId"):
        raise Refusal(400, "InvalidParameterCombination", "An override has a subnet or a zone")
    spec["Placement"] = {**(spec.get("Placement") or {}), **where}
    found = launch.read(call.rows, call.region, spec)
    if not found.zone:
        return found._replace(
            zone=next(
                (
                    zone
                    for zone in places.names(call.region).values()
                    if places.has(zone, found.machine_type)
                ),
                "",
            )
        )
    return found


def _reservation_id(item: Instance) -> str:
    return places.made_up("r", item.name)


def body(rows: Rows, item: Instance) -> Json:
    """A machine as the API shows it now."""
    state, reason = item.at(rows.now)
    kept = item.body
    out: Json = {
        "InstanceId": item.name,
        "ImageId": kept["image"],
        "InstanceType": item.machine_type,
        "AmiLaunchIndex": kept["index"],
        "LaunchTime": item.created,
        "State": {"Code": STATE_CODES[state], "Name": state},
        "Placement": {
            "AvailabilityZone": places.name_of(item.zone),
            "AvailabilityZoneId": item.zone,
            "GroupName": kept["placement_group"],
            "Tenancy": "default",
        },
        "Architecture": places.images(item.region)[kept["image"]]["architecture"],
        "RootDeviceName": places.images(item.region)[kept["image"]]["device"],
        "RootDeviceType": "ebs",
        "ClientToken": kept["token"],
        "Tags": launch.list_of(item.tags),
        "StateTransitionReason": "",
    }
    if reason:
        out["StateReason"] = {"Code": reason, "Message": f"{reason}: the instance {state}"}
    if kept["lifecycle"]:
        out["InstanceLifecycle"] = kept["lifecycle"]
    if kept["spot_request"]:
        out["SpotInstanceRequestId"] = kept["spot_request"]
    if item.reservation:
        out["CapacityReservationId"] = item.reservation
        out["CapacityReservationSpecification"] = {
            "CapacityReservationTarget": {"CapacityReservationId": item.reservation}
        }
    if kept["key"]:
        out["KeyName"] = kept["key"]
    if state in HOLDING or state in ("stopping", "stopped"):
        out |= {
            "VpcId": places.default_vpc(item.region),
            "SubnetId": places.default_subnet(item.zone),
        }
        out["PrivateIpAddress"] = f"172.31.{item.id // 250 % 256}.{item.id % 250 + 4}"
        # EC2 gives no public address to a machine with several interfaces.
        if state in HOLDING and kept["interfaces"] == 1:
            out["PublicIpAddress"] = f"203.0.113.{item.id % 250 + 4}"
    return out


_INSTANCE_FIELDS: dict[str, Callable[[Json], list[str]]] = {
    "instance-id": lambda item: [item["InstanceId"]],
    "instance-state-name": lambda item: [item["State"]["Name"]],
    "instance-type": lambda item: [item["InstanceType"]],
    "client-token": lambda item: [item["ClientToken"]],
    "spot-instance-request-id": lambda item: [item.get("SpotInstanceRequestId", "")],
    "availability-zone": lambda item: [item["Placement"]["AvailabilityZone"]],
    "availability-zone-id": lambda item: [item["Placement"]["AvailabilityZoneId"]],
    "instance-lifecycle": lambda item: [item.get("InstanceLifecycle", "")],
}


def describe_instances(call: Call) -> Json:
    """The region's machines, each in its reservation, page by page."""
    found = [body(call.rows, item) for item in call.rows.instances(call.region)]
    ids = ("InstanceIds", lambda item: item["InstanceId"], "InvalidInstanceID.NotFound")
    page = filters.paged(
        {"Instances": filters.chosen(found, call.given, _INSTANCE_FIELDS, ids=ids)}, call.given
    )
    listed = [
        {
            "ReservationId": places.made_up("r", item["InstanceId"]),
            "OwnerId": ACCOUNT,
            "Instances": [item],
        }
        for item in page["Instances"]
    ]
    return {
        "Reservations": listed,
        **({"NextToken": page["NextToken"]} if "NextToken" in page else {}),
    }


def console_output(call: Call) -> Json:
    """What a machine wrote while it started: nothing boots here, and that is what it says."""
    (item,) = _named(call._replace(given={"InstanceIds": [call.given["InstanceId"]]}))
    text = f"rehearsal stand-in {item.name}: nothing boots here\n"
    began = [at for at, state, _ in item.timeline if state == "running" and at <= call.rows.now]
    if began:
        native, script = f"{item.region}/{item.name}", str(item.body.get("script", ""))
        job_s, code = call.rows.latency("job"), int(item.body.get("exit_code", 0))
        lines = played.told(call.rows.store, native, script, began[0], call.rows.now, job_s, code)
        text += "".join(f"{line}\n" for _, line in lines)
    return {"InstanceId": item.name, "Output": base64.b64encode(text.encode()).decode()}


def _named(call: Call, names: Sequence[str] = ()) -> list[Instance]:
    known = {item.name: item for item in call.rows.instances(call.region)}
    names = names or call.given["InstanceIds"]
    for name in names:
        if not name.startswith("i-"):
            raise Refusal(400, "InvalidInstanceID.Malformed", f'Invalid id: "{name}"')
        if name not in known:
            raise Refusal(
                400, "InvalidInstanceID.NotFound", f"The instance ID '{name}' does not exist"
            )
    return [known[name] for name in dict.fromkeys(names)]


def _change(item: Instance, before: str, after: str) -> Json:
    return {
        "InstanceId": item.name,
        "PreviousState": {"Code": STATE_CODES[before], "Name": before},
        "CurrentState": {"Code": STATE_CODES[after], "Name": after},
    }


def terminate(call: Call) -> Json:
    """Ends machines. A persistent Spot request that still stands starts another one."""
    out = []
    for item in _named(call):
        before = item.state(call.rows.now)
        if before in ("terminated", "shutting-down"):
            out.append(_change(item, before, before))
            continue
        call.rows.end(item, "Client.UserInitiatedShutdown")
        launch.again(call.rows, item)
        out.append(_change(item, before, "shutting-down"))
    return {"TerminatingInstances": out}


def stop(call: Call) -> Json:
    """Stops machines; a one-time Spot machine cannot, and a persistent request is disabled while
    its machine is stopped.
    """
    out = []
    for item in _named(call):
        before = item.state(call.rows.now)
        if before in ("stopping", "stopped"):
            out.append(_change(item, before, before))
            continue
        if before not in HOLDING:
            raise Refusal(
                400,
                "IncorrectInstanceState",
                f"The instance '{item.name}' is not in a state from which it can be stopped.",
            )
        if item.capacity == "spot":
            request = launch.request_over(call.rows, item)
            if request.get("type") != "persistent":
                text = (
                    "You can't stop the Spot Instance because it is associated with a one-time Spot"
                    " request."
                )
                raise Refusal(400, "UnsupportedOperation", text)
            if request["state"] == "active":
                call.rows.write_thing({**request, "state": "disabled"})
        done = call.rows.now + call.rows.latency("stop")
        reason = "Client.UserInitiatedShutdown"
        call.rows.write(
            item._replace(
                timeline=cut(
                    item.timeline,
                    call.rows.now,
                    [(call.rows.now, "stopping", reason), (done, "stopped", reason)],
                )
            )
        )
        out.append(_change(item, before, "stopping"))
    return {"StoppingInstances": out}


def start(call: Call) -> Json:
    """Starts stopped machines again, each in its zone and nowhere else: without room or quota the
    call is refused and they stay stopped.
    """
    out = []
    for item in _named(call):
        before = item.state(call.rows.now)
        if before in HOLDING:
            out.append(_change(item, before, before))
            continue
        if before != "stopped":
            raise Refusal(
                400,
                "IncorrectInstanceState",
                f"The instance '{item.name}' is not in a state from which it can be started.",
            )
        refused = call.planned or launch.refusal(call.rows, launch.again_of(item), 1)
        if refused is not None:
            raise refused
        launch.restart(call.rows, item, call.slower_s)
        out.append(_change(item, before, "pending"))
    return {"StartingInstances": out}


def attribute(call: Call) -> Json:
    """A machine's user data, the one attribute that is asked for here."""
    (item,) = _named(call, [call.given["InstanceId"]])
    _user_data_only(call.given["Attribute"] == "userData")
    text = str(item.body.get("user_data", ""))
    return {
        "InstanceId": item.name,
        "UserData": {"Value": base64.b64encode(text.encode()).decode()} if text else {},
    }


def modify(call: Call) -> Json:
    """Writes a machine's user data anew, which EC2 allows while it is stopped."""
    (item,) = _named(call, [call.given["InstanceId"]])
    _user_data_only("UserData" in call.given)
    if item.state(call.rows.now) != "stopped":
        raise Refusal(
            400,
            "IncorrectInstanceState",
            f"The instance '{item.name}' must be in a 'stopped' state for this operation.",
        )
    raw = call.given["UserData"]["Value"]
    text = raw.decode() if isinstance(raw, bytes) else base64.b64decode(str(raw)).decode()
    call.rows.write(item._replace(body={**item.body, "user_data": text}))
    return {}


def _user_data_only(asked: bool) -> None:
    if not asked:
        raise Refusal(
            400, "InvalidParameterCombination", "This stand-in knows no attribute but userData."
        )


def _tagged(call: Call) -> list[Instance]:
    known = {item.name: item for item in call.rows.instances(call.region)}
    for name in call.given["Resources"]:
        if name not in known:
            raise Refusal(
                400, "InvalidInstanceID.NotFound", f"The instance ID '{name}' does not exist"
            )
    return [known[name] for name in call.given["Resources"]]


def create_tags(call: Call) -> Json:
    """Adds or replaces tags of machines."""
    for item in _tagged(call):
        tags = {**item.tags, **launch.dict_of(call.given["Tags"])}
        if len(tags) > 50:
            raise Refusal(400, "TagLimitExceeded", "The maximum number of tags is 50")
        call.rows.write(item._replace(body={**item.body, "tags": tags}))
    return {}


def delete_tags(call: Call) -> Json:
    """Takes tags off machines."""
    gone = {tag.get("Key") for tag in call.given.get("Tags", ())}
    for item in _tagged(call):
        tags = {key: value for key, value in item.tags.items() if key not in gone}
        call.rows.write(item._replace(body={**item.body, "tags": tags}))
    return {}


def preempt(rows: Rows, item: Instance) -> bool:
    """EC2 takes a Spot machine back; False for one that does not run."""
    if item.state(rows.now) not in HOLDING:
        return False
    rows.end(item, "Server.SpotInstanceTermination", "preempt")
    launch.again(rows, item)
    return True


def shown(rows: Rows) -> list[Instance]:
    """Every machine that still holds something, whoever made it."""
    return [
        item for item in rows.instances() if item.state(rows.now) not in (FORGOTTEN, "terminated")
    ]


# The services beside EC2


def get_parameter(call: Call) -> Json:
    """A public parameter: the newest Deep Learning image."""
    name = call.given["Name"]
    for image_id, image in places.images(call.region).items():
        if image["parameter"] == name:
            return {
                "Parameter": {
                    "Name": name,
                    "Type": "String",
                    "Value": image_id,
                    "Version": 1,
                    "DataType": "aws:ec2:image",
                }
            }
    raise Refusal(400, "ParameterNotFound", "")


def caller(call: Call) -> Json:
    """Whose the keys are."""
    del call
    return {
        "Account": ACCOUNT,
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/rehearsal/rehearsal",
        "UserId": "AROAREHEARSAL:rehearsal",
    }


def service_quota(call: Call) -> Json:
    """One limit, in vCPUs."""
    code = call.given["QuotaCode"]
    names = {}
    for bucket in machines.LIMITS:
        names[bucket.on_demand] = f"Running On-Demand {bucket.name} instances"
        names[bucket.spot] = f"All {bucket.name} Spot Instance Requests"
    if call.given["ServiceCode"] != "ec2" or code not in names:
        raise Refusal(
            400,
            "NoSuchResourceException",
            "The request failed because the specified service or quota does not exist.",
        )
    return {
        "Quota": {
            "ServiceCode": "ec2",
            "QuotaCode": code,
            "QuotaName": names[code],
            "Value": launch.quota(call.rows, call.region, code),
            "Unit": "None",
        }
    }


HANDLERS: dict[str, dict[str, Callable[[Call], Json]]] = {
    "ec2": {
        "CreateFleet": create_fleet,
        "RunInstances": run_instances,
        "DescribeInstances": describe_instances,
        "GetConsoleOutput": console_output,
        "TerminateInstances": terminate,
        "StartInstances": start,
        "StopInstances": stop,
        "DescribeInstanceAttribute": attribute,
        "ModifyInstanceAttribute": modify,
        "CreateTags": create_tags,
        "DeleteTags": delete_tags,
        "CreateLaunchTemplate": things.create_template,
        "DescribeLaunchTemplates": things.templates,
        "DeleteLaunchTemplate": things.delete_template,
        "DescribeSpotInstanceRequests": things.spot_requests,
        "CancelSpotInstanceRequests": things.cancel_spot,
        "DescribeSpotPriceHistory": prices.history,
        "DescribeRegions": things.regions,
        "DescribeAvailabilityZones": things.zones,
        "DescribeImages": things.images,
        "DescribeVpcs": things.vpcs,
        "DescribeSubnets": things.subnets,
        "DescribeSecurityGroups": things.describe_groups,
        "CreateSecurityGroup": things.create_group,
        "DeleteSecurityGroup": things.delete_group,
        "AuthorizeSecurityGroupIngress": things.authorize,
        "AuthorizeSecurityGroupEgress": things.authorize,
        "CreatePlacementGroup": things.create_placement_group,
        "DescribePlacementGroups": things.placement_groups,
        "DeletePlacementGroup": things.delete_placement_group,
        "CreateCapacityReservation": things.create_reservation,
        "DescribeCapacityReservations": things.reservations,
        "CancelCapacityReservation": things.cancel_reservation,
    },
    "ssm": {"GetParameter": get_parameter},
    "sts": {"GetCallerIdentity": caller},
    "pricing": {"GetProducts": prices.products},
    "service-quotas": {"GetServiceQuota": service_quota},
}
