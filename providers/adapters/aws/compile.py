"""From an order to the one creating call. Pure: no client, no clock, no network.

Owns every field of the request bodies. Fields and enums: botocore 1.44.8's model of EC2 2016-11-15.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws import machines
from providers.adapters.aws.blocks import block_notes
from providers.adapters.aws.demands import check_demands, several, timed_idle, wants_efa
from providers.adapters.aws.first_boot import user_data
from providers.adapters.aws.grouping import covers
from providers.adapters.aws.host import DEFAULT_DISK_GIB
from providers.adapters.aws.options import read as read_options
from providers.adapters.aws.region_facts import (
    Around,
    Reservation,
    options_of,
    placement_group,
    subnet_of,
    template_name,
)
from providers.adapters.aws.tagging import BLOCK as BLOCK_TAG
from providers.adapters.aws.tagging import (
    BLOCK_ENDS,
    GROUP,
    NAME,
    group_name,
    label_tags,
    owner_tags,
    tag_list,
    whose,
)
from providers.errors import Unsupported
from providers.model.ask import BLOCK, ON_DEMAND, RESERVATION, SPOT
from providers.model.duration import text as duration_text
from providers.model.note import Stops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.aws.options import Options
    from providers.model.machine import Order, Setup
    from providers.model.offer import Candidate

FLEET, RUN = "CreateFleet", "RunInstances"


class Call(NamedTuple):
    """One creating call. `template` is the launch template that a fleet needs, made before it;
    None otherwise.

    `candidates` are those that the call can make. `notes` say what a user would not expect.
    """

    method: str
    region: str
    candidates: tuple[Candidate, ...]
    body: dict[str, Any]
    template: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def creating_call(order: Order, around: Around) -> Call:
    """The call that makes all of the order's nodes in one zone, or none: RunInstances for one pool,
    and for one type in all zones of a region, a fleet for a machine from one of several pools.

    Raises Unsupported where the order cannot be said to EC2: a Spot machine that is to be kept
    after its ttl, EFA on a type without it, zones without a subnet.
    """
    options = options_of(order)
    usable: list[Candidate] = []
    refused: Unsupported | None = None
    # A reservation is at one place; which of the candidates that is, EC2 was asked before.
    reserved = matching(order, around.reservation) if around.reservation is not None else None
    for candidate in (reserved,) if reserved is not None else order.candidates:
        try:
            check_demands(order, candidate, options, around)
        except Unsupported as error:
            refused = refused or error
        else:
            usable.append(candidate)
    if not usable:
        assert refused is not None
        raise refused
    reserved_kind = order.candidates[0].capacity in (RESERVATION, BLOCK)
    if len(usable) == 1 or several(order) or reserved_kind:
        return _run(order, usable[:1], options, around)
    if covers(usable, around.sold_in):
        return _run(order, usable, options, around)
    return _fleet(order, usable, options, around)


def matching(order: Order, reservation: Reservation) -> Candidate | None:
    """The candidate that a reservation is for, its zone filled in where the catalog knows only the
    region.
    """
    for candidate in order.candidates:
        if candidate.machine_type == reservation.machine_type and candidate.zone in (
            "",
            reservation.zone,
        ):
            return candidate._replace(offer=candidate.offer._replace(zone=reservation.zone))
    return None


def _where(candidate: Candidate, around: Around) -> dict[str, str]:
    """The zone, by its id where the API takes ids."""
    if not candidate.zone:
        return {}
    names = dict(around.zone_names)
    return (
        {"AvailabilityZone": names[candidate.zone]}
        if names
        else {"AvailabilityZoneId": candidate.zone}
    )


def _machine(order: Order, options: Options, around: Around) -> dict[str, Any]:
    """What a launch template and a RunInstances call say alike."""
    setup = order.setup
    volume: dict[str, Any] = {
        "VolumeSize": max(setup.disk_gib or DEFAULT_DISK_GIB, around.image.least_gib),
        "VolumeType": options.volume_type,
        "DeleteOnTermination": True,
    }
    if options.volume_iops:
        volume["Iops"] = options.volume_iops
    if options.volume_throughput:
        volume["Throughput"] = options.volume_throughput
    body: dict[str, Any] = {
        "ImageId": around.image.id,
        "BlockDeviceMappings": [{"DeviceName": around.image.device, "Ebs": volume}],
        # Version 2 of the metadata service only: the user data and the profile's keys are not for
        # whoever can make the machine fetch a URL.
        "MetadataOptions": {"HttpTokens": "required"},
    }
    if options.key_name:
        body["KeyName"] = options.key_name
    if options.instance_profile:
        body["IamInstanceProfile"] = {
            (
                "Arn" if options.instance_profile.startswith("arn:") else "Name"
            ): options.instance_profile
        }
    if setup.ttl_s or setup.script or timed_idle(order):
        body["InstanceInitiatedShutdownBehavior"] = (
            "stop" if setup.on_ttl == "keep" else "terminate"
        )
    return body


def _tags(order: Order, around: Around) -> list[dict[str, Any]]:
    """The tags of an order's machines and their volumes, from their first moment on."""
    setup, first = order.setup, order.candidates[0]
    tags = {NAME: order.node_names[0], **label_tags(dict(setup.labels)), **owner_tags(order)}
    if not around.groups:
        tags[GROUP] = group_name(order.label.owner)
    if first.offer.term is not None:
        tags |= {BLOCK_TAG: first.reservation, BLOCK_ENDS: f"{first.offer.term.ends_at:.0f}"}
    return [{"ResourceType": kind, "Tags": tag_list(tags)} for kind in ("instance", "volume")]


def _groups(key: str, around: Around) -> dict[str, list[str]]:
    """The security groups, where they are there; else EC2 takes the VPC's own one, until the
    machines are put into theirs (see `admission`).
    """
    return {key: list(around.groups)} if around.groups else {}


def _fleet(order: Order, candidates: Sequence[Candidate], options: Options, around: Around) -> Call:
    """One machine from the first pool that has it: an instant fleet over (type, zone)."""
    first = candidates[0]
    data = _machine(order, options, around)
    if script := user_data(order.setup, order.candidates[0].region, alone=not several(order)):
        data["UserData"] = base64.b64encode(script.encode()).decode()
    efa = wants_efa(order, first, options)
    if efa:
        # One interface serves every type of the fleet: the primary card's.
        data["NetworkInterfaces"] = [
            {
                "DeviceIndex": 0,
                "NetworkCardIndex": 0,
                "InterfaceType": "efa",
                **_groups("Groups", around),
                "DeleteOnTermination": True,
            }
        ]
    else:
        data |= _groups("SecurityGroupIds", around)
    if (name := placement_group(order)[0]) and name:
        data["Placement"] = {"GroupName": name}
    overrides: list[dict[str, Any]] = []
    for priority, candidate in enumerate(candidates):
        override: dict[str, Any] = {
            "InstanceType": candidate.machine_type,
            "Priority": float(priority),
        }
        subnet = options.subnet(candidate.zone) or (
            subnet_of(candidate.zone, options, around) if efa else ""
        )
        override.update({"SubnetId": subnet} if subnet else _where(candidate, around))
        overrides.append(override)
    spot, name = first.capacity == SPOT, template_name(order, data)
    body: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": order.token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "1"},
                "Overrides": overrides,
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": SPOT if spot else ON_DEMAND,
        },
        # The machines' tags are here and not in the template, which other orders use too; an
        # instant fleet gives them at launch (EC2 API reference of CreateFleet; Karpenter does so).
        "TagSpecifications": [
            {"ResourceType": "fleet", "Tags": tag_list(owner_tags(order))},
            *_tags(order, around),
        ],
    }
    if spot:
        body["SpotOptions"] = {
            "AllocationStrategy": "capacity-optimized-prioritized",
            "InstanceInterruptionBehavior": "terminate",
        }
    else:
        body["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    template = {
        "LaunchTemplateName": name,
        "LaunchTemplateData": data,
        "TagSpecifications": [
            {"ResourceType": "launch-template", "Tags": tag_list(whose(order.label))}
        ],
    }
    return Call(
        FLEET,
        first.region,
        tuple(candidates),
        body,
        template,
        _notes(order.setup, first, options, 1),
    )


def _run(order: Order, candidates: Sequence[Candidate], options: Options, around: Around) -> Call:
    """All nodes in one zone, or none (`MinCount` = `MaxCount`). Of several candidates, which are
    alike, EC2 chooses the zone.
    """
    candidate, count = candidates[0], len(order.node_names)
    body = {
        **_machine(order, options, around),
        "InstanceType": candidate.machine_type,
        "MinCount": count,
        "MaxCount": count,
        "ClientToken": order.token,
        "TagSpecifications": _tags(order, around),
    }
    if script := user_data(order.setup, order.candidates[0].region, alone=not several(order)):
        body["UserData"] = script  # the client encodes it, here and only here
    subnet = options.subnet(candidate.zone)
    placement = {} if subnet or len(candidates) > 1 else dict(_where(candidate, around))
    if wants_efa(order, candidate, options):
        subnet = subnet_of(candidate.zone, options, around)
        placement = {}
        # One machine has one card, so that it keeps its public address.
        cards = machines.efa_cards(candidate.machine_type) if several(order) else ((0, 0, "efa"),)
        body["NetworkInterfaces"] = [
            {
                "NetworkCardIndex": card,
                "DeviceIndex": device,
                "InterfaceType": kind,
                "SubnetId": subnet,
                **_groups("Groups", around),
                "DeleteOnTermination": True,
            }
            for card, device, kind in cards
        ]
    else:
        body |= _groups("SecurityGroupIds", around)
        if subnet:
            body["SubnetId"] = subnet
    if name := placement_group(order)[0] or around.placement_group:
        placement["GroupName"] = name
    if placement:
        body["Placement"] = placement
    if candidate.capacity == SPOT:
        body["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
        body["TagSpecifications"] = [
            *body["TagSpecifications"],
            {"ResourceType": "spot-instances-request", "Tags": tag_list(owner_tags(order))},
        ]
    if candidate.capacity in (RESERVATION, BLOCK) and around.reservation is not None:
        body["CapacityReservationSpecification"] = {
            "CapacityReservationTarget": {"CapacityReservationId": around.reservation.id}
        }
        if around.reservation.block:
            body["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return Call(
        RUN,
        candidate.region,
        tuple(candidates),
        body,
        None,
        _notes(order.setup, candidate, options, len(order.node_names)),
    )


def plan_notes(candidate: Candidate, setup: Setup) -> tuple[str, ...]:
    """What to know of a candidate before it is bought; `setup.options` has every provider's
    section.
    """
    section = dict(setup.options).get("aws")
    return _notes(
        setup,
        candidate,
        read_options(section if isinstance(section, dict) else {}),
        candidate.nodes,
    )


def _notes(setup: Setup, candidate: Candidate, options: Options, nodes: int) -> tuple[str, ...]:
    notes = block_notes(candidate, setup)
    if setup.ttl_s:
        what = "stopped" if setup.on_ttl == "keep" else "terminated"
        notes.append(
            f"EC2 has no run limit: a timer inside the machine ends it {duration_text(setup.ttl_s)}"
            f" after its start, and it is then {what}"
        )
        if (
            setup.on_ttl == "keep"
            and machines.family(candidate.machine_type) not in machines.NO_INSTANCE_STORE
        ):
            notes.append(
                Stops(
                    "what is on its instance store is lost when it is stopped; the EBS disk stays"
                )
            )
    if (
        nodes > 1
        and ((options.efa is None and not setup.apart) or options.efa)
        and len(machines.efa_cards(candidate.machine_type)) > 1
    ):
        notes.append(
            Stops(
                "EC2 gives no public address to a machine with several network cards: it is reached"
                " from inside its VPC"
            )
        )
    return tuple(notes)
