"""The two calls that make machines: RunInstances and CreateFleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import (
    launch,
    launch_spec,
    places,
    things,
)
from providers.rehearsal.clouds.aws.instances import body
from providers.rehearsal.clouds.aws.state import ACCOUNT, Instance
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.call import Call


def run_instances(call: Call) -> Json:
    """Machines of one type in one zone: as many as there is capacity for, up to MaxCount, or none
    below MinCount.
    """
    given = call.given
    if call.planned:
        raise call.planned
    least, most = given["MinCount"], given["MaxCount"]
    if not 1 <= least <= most:
        raise Refusal(400, "InvalidParameterValue", "MinCount and MaxCount do not fit")
    wanted = launch_spec.read(call.rows, call.region, given)
    options = (
        [wanted]
        if wanted.zone
        else [wanted._replace(zone=zone) for zone in places.names(call.region).values()]
    )
    refusals: list[Refusal] = []
    for option in options:
        refused = launch.refusal(call.rows, option, least)
        if refused is not None:
            refusals.append(refused)
        else:
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
    # Of zones that EC2 may choose among, those that have not the type say nothing.
    raise min(refusals, key=lambda each: each.code == "Unsupported")


def create_fleet(call: Call) -> Json:
    """An instant fleet: one pool after another, by priority, until the target is reached. Refusals
    are in the answer, which is HTTP 200 even so.
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
    for item in given.get("TagSpecifications", ()):
        if item.get("ResourceType") not in ("fleet", "instance", "volume"):
            raise Refusal(400, "InvalidParameterValue", "A fleet gives no tags to that")
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


def _override(call: Call, data: Json, override: Json) -> launch_spec.Launch:
    """A pool of a fleet: the template's data, overridden, with the tags that the fleet gives its
    machines and their volumes at launch.
    """
    given = call.given.get("TagSpecifications", ())
    spec = {
        **data,
        "TagSpecifications": [
            *data.get("TagSpecifications", ()),
            *(item for item in given if item.get("ResourceType") != "fleet"),
        ],
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
    found = launch_spec.read(call.rows, call.region, spec)
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
