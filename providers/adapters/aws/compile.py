"""From an order to the one creating call, and which candidates may share one. Pure: no client, no
clock, no network.

Owns every field of the request bodies. Fields and enums: botocore 1.44.8's model of EC2 2016-11-15.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.aws import limit, machines, optin
from providers.adapters.aws import secrets as secret
from providers.adapters.aws.host import DEFAULT_DISK_GIB
from providers.adapters.aws.options import NONE
from providers.adapters.aws.options import read as read_options
from providers.adapters.base import keep_status, too_large
from providers.errors import NotEnabled, Unsupported
from providers.model import idle, shell
from providers.model.ask import ON_DEMAND, RESERVATION, SPOT
from providers.model.duration import text as duration_text
from providers.model.place import Scope
from providers.model.secret import referred
from providers.model.workload import BOOT_SCRIPT, packed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.aws.options import Options
    from providers.adapters.base import Placement
    from providers.errors import Problem
    from providers.model.machine import Mark, Order, Setup
    from providers.model.offer import Candidate

FLEET, RUN = "CreateFleet", "RunInstances"

MOST_OVERRIDES = 50
"""Of one fleet. EC2's own limit is higher; a region has fewer zones times types for one ask."""

OWNER, CLUSTER, GENERATION, FINGERPRINT = (
    "gpus-owner",
    "gpus-cluster",
    "gpus-generation",
    "gpus-fingerprint",
)
ORDER, LABELS, NAME = "gpus-order", "gpus-labels", "Name"
"""`gpus-order` is the token of the order that made a machine: a fleet's machines do not bear the
fleet's client token. `gpus-labels` names the user's own tags, so that an edit takes away what it no
longer lists and leaves alone what others put there.
"""
_TAG_MAX = 256
USER_DATA_MAX = 16_384
"""Bytes, before they are encoded (EC2 user guide, "Work with instance user data", read 2026-11-28).
"""

_WORK_UNIT = f"""[Unit]
Description=What this machine is for
Wants=network-online.target
After=network-online.target
[Service]
ExecStart=/bin/bash {BOOT_SCRIPT}
KillMode=mixed
[Install]
WantedBy=multi-user.target
"""


class Image(NamedTuple):
    """What the machine boots from. `device` is the root device's name, which differs between
    images; `least_gib` the snapshot's size.
    """

    id: str
    device: str = "/dev/sda1"
    least_gib: int = 1


class Reservation(NamedTuple):
    """A Capacity Reservation or Capacity Block that the user owns, as EC2 describes it."""

    id: str
    machine_type: str
    zone: str
    block: bool = False


class Around(NamedTuple):
    """What was found in the region beforehand. `zones` are the ids of those that the account has
    enabled (empty: not known), `subnets` the default ones by zone id; `zone_names` is empty where
    the client's API model takes zone ids, else this account's names by id. `new_group` is the
    security group if it was made just now, for this order. `placement_group` is that of the
    machines which the order joins.
    """

    image: Image
    groups: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    subnets: tuple[tuple[str, str], ...] = ()
    zone_names: tuple[tuple[str, str], ...] = ()
    reservation: Reservation | None = None
    new_group: str = ""
    placement_group: str = ""


class Call(NamedTuple):
    """One creating call. `template` is the launch template that a fleet needs, made before and
    deleted after it; None otherwise.

    `candidates` are those that the call can make. `notes` say what a user would not expect.
    """

    method: str
    region: str
    candidates: tuple[Candidate, ...]
    body: dict[str, Any]
    template: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def group(candidates: Sequence[Candidate]) -> int:
    """How many leading candidates one creating call may choose among without changing the plan's
    order; at least 1.

    A fleet on demand tries its overrides strictly by priority (`prioritized`), so a region's whole
    run goes out as one, types mixed. On Spot EC2 looks at capacity first and at priorities second
    (`capacity-optimized-prioritized`), so only candidates that rank equal (one entry, one price) go
    together. A named reservation is at one place that EC2 is asked for first, so all candidates of
    it in a region are one call. Several nodes go zone by zone.
    """
    first = candidates[0]
    if first.nodes > 1 and not first.reservation:
        return 1
    if not first.zone and not first.reservation:
        return 1
    seen: set[tuple[str, str]] = set()
    for candidate in candidates:
        pool = (candidate.machine_type, candidate.zone)
        alike = (
            candidate.region == first.region
            and candidate.capacity == first.capacity
            and candidate.reservation == first.reservation
            and candidate.nodes == first.nodes
            and pool not in seen
            and len(seen) < MOST_OVERRIDES
        )
        if alike and not first.reservation:
            alike = bool(candidate.zone) and machines.architecture(
                candidate.machine_type
            ) == machines.architecture(first.machine_type)
        if alike and first.capacity == SPOT:
            alike = candidate.entry == first.entry and candidate.micro_usd == first.micro_usd
        if not alike:
            break
        seen.add(pool)
    return max(1, len(seen))


def options_of(order: Order) -> Options:
    """The order's own options."""
    return read_options(dict(order.setup.options))


def template_name(order: Order) -> str:
    """The name of an order's launch template: known before it is made, so that a repeated call says
    exactly the same.
    """
    return f"gpus-{order.token}"


def placement_group(order: Order) -> tuple[str, bool]:
    """(name, whether it is ours to make) of the placement group; ("", False) for none. Several
    nodes get one of their own unless told otherwise.
    """
    chosen = options_of(order).placement_group
    if chosen == NONE:
        return "", False
    if chosen:
        return chosen, False
    # What joins others goes into their group, which is looked up at the machines themselves.
    return (
        (f"gpus-{order.token}", True)
        if len(order.node_names) > 1 and not order.joins
        else ("", False)
    )


def mark_tags(order: Order) -> dict[str, str]:
    """The tags that say whose something is, and which order made it."""
    mark = order.mark
    return {
        OWNER: mark.owner,
        CLUSTER: mark.cluster,
        GENERATION: mark.generation,
        FINGERPRINT: mark.fingerprint,
        ORDER: order.token,
    }


def mark_of(tags: Mapping[str, str]) -> Mark | None:
    """Whose it is; None for what bears no owner."""
    from providers.model.machine import Mark

    if not tags.get(OWNER):
        return None
    return Mark(*(tags.get(key, "") for key in (OWNER, CLUSTER, GENERATION, FINGERPRINT)))


def label_tags(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's labels as tags, with the list of their names as far as it fits into one."""
    out = dict(labels)
    listed = ""
    for key in labels:
        longer = f"{listed} {key}".strip()
        if len(longer) > _TAG_MAX:
            break
        listed = longer
    return {**out, LABELS: listed} if labels else out


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as the API takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def creating_call(order: Order, around: Around) -> Call:
    """The call that makes all of the order's nodes in one zone, or none.

    Raises Unsupported where the order cannot be said to EC2: a Spot machine that is to be kept
    after its ttl, EFA on a type without it, zones without a subnet.
    """
    options = options_of(order)
    usable: list[Candidate] = []
    refused: Unsupported | None = None
    # A reservation is at one place; which of the candidates that is, EC2 was asked before.
    held = matching(order, around.reservation) if around.reservation is not None else None
    for candidate in (held,) if held is not None else order.candidates:
        try:
            _check(order, candidate, options, around)
        except Unsupported as error:
            refused = refused or error
        else:
            usable.append(candidate)
    if not usable:
        assert refused is not None
        raise refused
    if several(order) or order.candidates[0].capacity == RESERVATION:
        return _run(order, usable[0], options, around)
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


def first_boot(setup: Setup, region: str = "", *, alone: bool = True) -> str:
    """What a machine runs at its first boot: it makes the user with the keys, and what runs at
    every boot, such as the timer that ends the machine.

    EC2 has no run limit of its own: the limit is a timer inside the machine (see `limit`), and the
    machine's own shutdown then terminates it (or stops it, where the spec says to keep it). A
    machine that hangs does not end itself.
    """
    keys = [key.strip() for key in (setup.ssh_public_key, setup.own_public_key) if key.strip()]
    secrets = referred(setup.secrets)
    programs = (
        limit.script(setup.ttl_s, setup.on_ttl) if setup.ttl_s else "",
        idle.script(setup.idle_s) if setup.idle_s and alone else "",
        secret.fetching(secrets, region) if secrets else "",
        (
            shell.service(
                "gpus-work", _WORK_UNIT, BOOT_SCRIPT, setup.script, mode=0o644, at_once=False
            )
            if setup.script
            else ""
        ),
    )
    if not keys and not any(programs):
        return ""
    return "".join(
        (keep_status(), shell.program(__file__, "login", user=setup.ssh_user, keys=keys), *programs)
    )


def user_data(setup: Setup, region: str = "", *, alone: bool = True) -> str:
    """The script for cloud-init: `first_boot`, packed, after the lines that are read back. Empty
    where there is nothing to do.
    """
    program = first_boot(setup, region, alone=alone)
    if not program:
        return ""
    return shell.program(
        __file__,
        "user_data",
        gpus_ttl_s=setup.ttl_s or "",
        gpus_start=0 if setup.ttl_s else "",
        gpus_idle_s=(setup.idle_s or "") if alone else "",
        packed=packed(program.encode()),
    )


def timed_idle(order: Order) -> bool:
    """Whether the machine ends itself when it is idle. One of several does not: it cannot see
    whether the others work.
    """
    return bool(order.setup.idle_s) and not several(order)


def unreachable(placed: Placement, setup: Setup) -> str:
    """Why no login can be had from here, by what was declared; empty where one can. Pure."""
    options = read_options(dict(setup.options))
    many = len(machines.efa_cards(placed.machine_type)) > 1
    efa = placed.nodes > 1 if options.efa is None else options.efa
    return (
        "EC2 gives no public address to a machine with several network cards"
        if many and efa and placed.nodes > 1
        else ""
    )


def fits(setup: Setup) -> list[Problem]:
    """What a machine is told at its start that is more than EC2 takes. Pure."""
    found = too_large(
        "",
        "user data",
        len(user_data(setup).encode()),
        USER_DATA_MAX,
        "fetch the rest from a bucket",
    )
    return [found] if found is not None else []


def wants_efa(order: Order, candidate: Candidate, options: Options) -> bool:
    """Whether the machines get EFA: as told, else where there are several nodes and the type takes
    it.
    """
    if options.efa is not None:
        return options.efa
    return several(order) and bool(machines.efa_cards(candidate.machine_type))


def several(order: Order) -> bool:
    """Whether what is ordered is one of several machines of a cluster."""
    return len(order.node_names) + len(order.joins) > 1


def needs_subnet(order: Order) -> bool:
    """Whether the call must name a subnet: one that spells out its network interfaces must."""
    options = options_of(order)
    return any(wants_efa(order, candidate, options) for candidate in order.candidates)


def _check(order: Order, candidate: Candidate, options: Options, around: Around) -> None:
    def refuse(wanted: str, found: str, todo: str, scope: Scope) -> Unsupported:
        text = (
            f"aws {candidate.zone or candidate.region} {candidate.machine_type}"
            f" {candidate.capacity}: wanted {wanted}, found {found}; {todo}"
        )
        # Not remembered: another spec may well fit here.
        return Unsupported(text, provider="aws", block_s=0.0, scopes=[scope])

    kind = Scope("aws", machine_type=candidate.machine_type)
    here = Scope("aws", candidate.region, candidate.zone)
    if (
        candidate.capacity == SPOT
        and (order.setup.ttl_s or order.setup.idle_s)
        and order.setup.on_ttl == "keep"
    ):
        # A one-time Spot request can't be stopped; a persistent one would start a new, unmarked
        # machine by itself.
        raise refuse(
            "on_ttl: release, since a one-time Spot machine can only end",
            "on_ttl: keep",
            "change on_ttl",
            Scope("aws", capacity=SPOT),
        )
    if order.setup.secrets and not options.instance_profile:
        raise refuse(
            "an instance profile that may read the secrets",
            "none",
            "set options.aws.instance_profile",
            Scope("aws"),
        )
    if machines.family(candidate.machine_type) in machines.PROPRIETARY_DRIVER and not (
        options.ami or options.ami_ssm_parameter
    ):
        raise refuse(
            "an image with NVIDIA's proprietary driver",
            "the default one, with the open driver",
            "set options.aws.ami",
            kind,
        )
    if wants_efa(order, candidate, options) and not machines.efa_cards(candidate.machine_type):
        raise refuse("a type with EFA", candidate.machine_type, "drop options.aws.efa", kind)
    if around.zones and candidate.zone and candidate.zone not in around.zones:
        text = (
            f"aws {candidate.zone} {candidate.machine_type} {candidate.capacity}: wanted a zone"
            " that the account has, found it is not enabled"
        )
        todo = (
            optin.closed(candidate.region, candidate.zone)
            or "it can't be enabled: it is not among this account's zones"
        )
        raise NotEnabled(f"{text}; {todo}", provider="aws", code="ZONE_NOT_ENABLED", scopes=[here])
    if options.subnets and candidate.zone and not options.subnet(candidate.zone):
        raise refuse(
            "a subnet in this zone",
            "none in options.aws.subnets",
            "add one, or leave the zone out",
            here,
        )
    if wants_efa(order, candidate, options) and not _subnet(candidate.zone, options, around):
        raise refuse("a default subnet in this zone", "none", "set options.aws.subnets", here)


def _subnet(zone: str, options: Options, around: Around) -> str:
    return options.subnet(zone) or dict(around.subnets).get(zone, "")


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
    tags = {NAME: order.node_names[0], **label_tags(dict(setup.labels)), **mark_tags(order)}
    body: dict[str, Any] = {
        "ImageId": around.image.id,
        "BlockDeviceMappings": [{"DeviceName": around.image.device, "Ebs": volume}],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tag_list(tags)} for kind in ("instance", "volume")
        ],
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
                "Groups": list(around.groups),
                "DeleteOnTermination": True,
            }
        ]
    else:
        data["SecurityGroupIds"] = list(around.groups)
    if (name := placement_group(order)[0]) and name:
        data["Placement"] = {"GroupName": name}
    overrides: list[dict[str, Any]] = []
    for priority, candidate in enumerate(candidates):
        override: dict[str, Any] = {
            "InstanceType": candidate.machine_type,
            "Priority": float(priority),
        }
        subnet = options.subnet(candidate.zone) or (
            _subnet(candidate.zone, options, around) if efa else ""
        )
        override.update({"SubnetId": subnet} if subnet else _where(candidate, around))
        overrides.append(override)
    spot = first.capacity == SPOT
    body: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": order.token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": template_name(order),
                    "Version": "1",
                },
                "Overrides": overrides,
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": SPOT if spot else ON_DEMAND,
        },
        "TagSpecifications": [{"ResourceType": "fleet", "Tags": tag_list(mark_tags(order))}],
    }
    if spot:
        body["SpotOptions"] = {
            "AllocationStrategy": "capacity-optimized-prioritized",
            "InstanceInterruptionBehavior": "terminate",
        }
    else:
        body["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    template = {
        "LaunchTemplateName": template_name(order),
        "ClientToken": order.token,
        "LaunchTemplateData": data,
        "TagSpecifications": [
            {"ResourceType": "launch-template", "Tags": tag_list(mark_tags(order))}
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


def _run(order: Order, candidate: Candidate, options: Options, around: Around) -> Call:
    """All nodes in one zone, or none (`MinCount` = `MaxCount`)."""
    count = len(order.node_names)
    body = {
        **_machine(order, options, around),
        "InstanceType": candidate.machine_type,
        "MinCount": count,
        "MaxCount": count,
        "ClientToken": order.token,
    }
    if script := user_data(order.setup, order.candidates[0].region, alone=not several(order)):
        body["UserData"] = script  # the client encodes it, here and only here
    subnet = options.subnet(candidate.zone)
    placement = {} if subnet else dict(_where(candidate, around))
    if wants_efa(order, candidate, options):
        subnet = _subnet(candidate.zone, options, around)
        placement = {}
        body["NetworkInterfaces"] = [
            {
                "NetworkCardIndex": card,
                "DeviceIndex": device,
                "InterfaceType": kind,
                "SubnetId": subnet,
                "Groups": list(around.groups),
                "DeleteOnTermination": True,
            }
            for card, device, kind in machines.efa_cards(candidate.machine_type)
        ]
    else:
        body["SecurityGroupIds"] = list(around.groups)
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
            {"ResourceType": "spot-instances-request", "Tags": tag_list(mark_tags(order))},
        ]
    if candidate.capacity == RESERVATION and around.reservation is not None:
        body["CapacityReservationSpecification"] = {
            "CapacityReservationTarget": {"CapacityReservationId": around.reservation.id}
        }
        if around.reservation.block:
            body["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return Call(
        RUN,
        candidate.region,
        (candidate,),
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
    notes: list[str] = []
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
                "warning: what is on its instance store is lost when it is stopped; the EBS disk"
                " stays"
            )
    if (
        nodes > 1
        and options.efa is not False
        and len(machines.efa_cards(candidate.machine_type)) > 1
    ):
        notes.append(
            "EC2 gives no public address to a machine with several network cards: it is reached"
            " from inside its VPC"
        )
    return tuple(notes)
