"""Answers a call, once. Owns the table of all calls, and those of the services beside EC2.

A creating call with a client token is carried out once: the same token and parameters get the same
answer, other parameters are refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import (
    blocks,
    capacity_calls,
    groups,
    launch,
    machines,
    places,
    prices,
    things,
    volumes,
)
from providers.rehearsal.clouds.aws.fleet import create_fleet, run_instances
from providers.rehearsal.clouds.aws.instances import (
    attribute,
    console_output,
    create_tags,
    delete_tags,
    describe_instances,
    modify,
    start,
    stop,
    terminate,
)
from providers.rehearsal.clouds.aws.state import ACCOUNT
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.rehearsal.clouds.aws.call import Call

IDEMPOTENT = frozenset({"RunInstances", "CreateFleet", "CreateVolume"})


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
    if answer.get("Instances") or answer.get("VolumeId"):
        call.rows.remember(call.region, call.operation, token, digest, answer)
    return answer


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
        "DescribeSpotInstanceRequests": capacity_calls.spot_requests,
        "CancelSpotInstanceRequests": capacity_calls.cancel_spot,
        "DescribeSpotPriceHistory": prices.history,
        "GetSpotPlacementScores": capacity_calls.placement_scores,
        "DescribeRegions": things.regions,
        "DescribeAvailabilityZones": things.zones,
        "DescribeInstanceTypeOfferings": things.type_offerings,
        "DescribeImages": things.images,
        "DescribeVpcs": things.vpcs,
        "DescribeSubnets": things.subnets,
        "DescribeSecurityGroups": groups.describe,
        "CreateSecurityGroup": groups.create,
        "DeleteSecurityGroup": groups.delete,
        "AuthorizeSecurityGroupIngress": groups.authorize,
        "AuthorizeSecurityGroupEgress": groups.authorize,
        "ModifyNetworkInterfaceAttribute": groups.modify_interface,
        "CreatePlacementGroup": things.create_placement_group,
        "DescribePlacementGroups": things.placement_groups,
        "DeletePlacementGroup": things.delete_placement_group,
        "CreateVolume": volumes.create,
        "DescribeVolumes": volumes.describe,
        "AttachVolume": volumes.attach,
        "ModifyVolume": volumes.modify,
        "DeleteVolume": volumes.delete,
        "CreateCapacityReservation": capacity_calls.create_reservation,
        "DescribeCapacityReservations": capacity_calls.reservations,
        "CancelCapacityReservation": capacity_calls.cancel_reservation,
        "DescribeCapacityBlockOfferings": blocks.offerings,
        "PurchaseCapacityBlock": capacity_calls.purchase_block,
    },
    "ssm": {"GetParameter": get_parameter},
    "sts": {"GetCallerIdentity": caller},
    "pricing": {"GetProducts": prices.products},
    "service-quotas": {"GetServiceQuota": service_quota},
}
