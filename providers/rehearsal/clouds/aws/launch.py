"""Making machines: what a launch says, whether it can be had, and the rows of it. Owns stock, quota
and every refusal of a launch.

The stand-in also plays the machine: of its user data it reads the line that sets the end of the
run, and shuts down then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model import idle
from providers.rehearsal import script
from providers.rehearsal.clouds.aws import machines, places, things, user_data
from providers.rehearsal.clouds.aws.state import HOLDING, PROVIDER, SHOWN_S, Instance, Timeline, cut
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.state import Rows

UNLIMITED = 10**9
DEFAULT_VCPUS = 10_000.0


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
        held = rows.things(region, "reservation", target)
        if not held:
            raise Refusal(
                400,
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{target}' does not exist",
            )
        if held[0]["InstanceType"] != machine_type or (
            zone and held[0]["AvailabilityZoneId"] != zone
        ):
            raise Refusal(
                400,
                "InvalidCapacityReservationId.NotFound",
                f"The attributes of '{target}' do not match the launch",
            )
        if held[0].get("block") and capacity != "reservation":
            raise Refusal(
                400,
                "InvalidParameterCombination",
                "A Capacity Block is used with MarketType capacity-block",
            )
        capacity, zone = "reservation", held[0]["AvailabilityZoneId"]
    elif capacity == "reservation":
        raise Refusal(
            400, "MissingParameter", "A Capacity Block must be named by CapacityReservationTarget"
        )
    return Launch(region, zone, machine_type, capacity, target, spec, lifecycle, persistent)


def check(rows: Rows, region: str, spec: Json) -> None:
    """Refuses an image, group, placement group or interface that is not there or not possible."""
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
    interfaces = spec.get("NetworkInterfaces") or []
    if interfaces and (spec.get("SecurityGroupIds") or spec.get("SubnetId")):
        raise Refusal(
            400,
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet or groups may not be specified"
            " together",
        )
    groups = [
        *spec.get("SecurityGroupIds", ()),
        *(group for item in interfaces for group in item.get("Groups", ())),
    ]
    known = {item["GroupId"] for item in things.groups(rows, region)}
    for group in groups:
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
    name = (spec.get("Placement") or {}).get("GroupName")
    if name and not rows.things(region, "placement-group", name):
        raise Refusal(
            400, "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
        )
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
    if spec.get("InstanceInitiatedShutdownBehavior") == "stop" and market(spec)[0] == "spot":
        raise Refusal(
            400, "InvalidParameterCombination", "Spot instances of a one-time request cannot stop"
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


def refusal(rows: Rows, launch: Launch, count: int) -> Refusal | None:
    """Why this many machines can't be had there now; None when they can."""
    kind, zone = launch.machine_type, launch.zone
    if kind not in places.known_types() or not places.has(zone, kind):
        text = (
            f"Your requested instance type ({kind}) is not supported in your requested Availability"
            f" Zone ({places.name_of(zone)})."
        )
        return Refusal(400, "Unsupported", text)
    bucket = machines.limit_of(kind)
    if not launch.reservation:
        code = bucket.spot if launch.capacity == "spot" else bucket.on_demand
        limit = quota(rows, launch.region, code)
        if (
            used(rows, launch.region, bucket, spot=launch.capacity == "spot")
            + count * machines.types()[kind].vcpus
            > limit
        ):
            if launch.capacity == "spot":
                return Refusal(
                    400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
                )
            text = (
                f"You have requested more vCPU capacity than your current vCPU limit of {limit:g}"
                " allows for the instance bucket."
            )
            return Refusal(400, "VcpuLimitExceeded", text)
    if free(rows, launch) < count:
        if launch.reservation:
            return Refusal(
                400,
                "ReservationCapacityExceeded",
                "The capacity reservation does not have enough available capacity.",
            )
        text = (
            f"We currently do not have sufficient {kind} capacity in the Availability Zone you"
            f" requested ({places.name_of(zone)})."
        )
        return Refusal(500, "InsufficientInstanceCapacity", text)
    return None


def quota(rows: Rows, region: str, code: str) -> float:
    """The account's limit in vCPUs: what the scenario says, else one that is never reached."""
    found = {(place, name): count for _, place, name, count in rows.store.quotas(PROVIDER)}
    return found.get((region, code), found.get(("", code), DEFAULT_VCPUS))


def used(rows: Rows, region: str, limit: machines.Limit, *, spot: bool) -> float:
    """VCPUs in use that count against a limit."""
    return float(
        sum(
            machines.types()[item.machine_type].vcpus
            for item in rows.instances(region)
            if item.state(rows.now) in HOLDING
            and item.machine_type in machines.types()
            and machines.limit_of(item.machine_type) == limit
            and (item.capacity == "spot") == spot
            and not item.reservation
        )
    )


def free(rows: Rows, launch: Launch) -> int:
    """How many machines of this kind the zone, or the reservation, can give now."""
    same = [
        item
        for item in rows.instances(launch.region)
        if item.state(rows.now) in HOLDING and item.zone == launch.zone
    ]
    if launch.reservation:
        held = rows.things(launch.region, "reservation", launch.reservation)[0]
        if held["State"] != "active":
            return 0
        return int(held["TotalInstanceCount"]) - sum(
            item.reservation == launch.reservation for item in same
        )
    gpu, _ = machines.gpus_of(launch.machine_type)
    line = rows.store.stock(
        PROVIDER, launch.region, launch.zone, launch.machine_type, (gpu,), launch.capacity
    )
    if line.machines is None:
        return UNLIMITED
    taken = sum(
        item.machine_type == launch.machine_type
        and item.capacity == launch.capacity
        and not item.reservation
        for item in same
    )
    return max(0, line.machines - taken)


def make(
    rows: Rows,
    launch: Launch,
    count: int,
    *,
    token: str = "",
    fleet: str = "",
    slower_s: float = 0.0,
) -> list[Instance]:
    """Writes the machines, with their tags, volumes and Spot requests."""
    spec, given = launch.spec, user_data.text(launch.spec)
    tags = {
        key: dict_of(item["Tags"])
        for item in spec.get("TagSpecifications", ())
        if (key := item.get("ResourceType")) and item.get("Tags")
    }
    up = rows.now + rows.latency("create") + slower_s
    out = []
    for index in range(count):
        request = (
            _spot_request(rows, launch, tags.get("spot-instances-request", {}))
            if launch.capacity == "spot"
            else ""
        )
        body: Json = {
            "image": spec["ImageId"],
            "tags": {**tags.get("instance", {}), **({"aws:ec2:fleet-id": fleet} if fleet else {})},
            "volume_tags": tags.get("volume", {}),
            "token": token,
            "index": index,
            "lifecycle": launch.lifecycle or ("spot" if launch.capacity == "spot" else ""),
            "spot_request": request,
            "key": spec.get("KeyName", ""),
            "profile": (
                (spec.get("IamInstanceProfile") or {}).get("Arn")
                or (spec.get("IamInstanceProfile") or {}).get("Name", "")
            ),
            "interfaces": len(spec.get("NetworkInterfaces") or [1]),
            "groups": list(
                spec.get("SecurityGroupIds")
                or next((item.get("Groups") for item in spec.get("NetworkInterfaces") or ()), None)
                or ()
            ),
            "placement_group": (spec.get("Placement") or {}).get("GroupName", ""),
            "volume_gib": next(
                (
                    item["Ebs"].get("VolumeSize", 8)
                    for item in spec.get("BlockDeviceMappings", ())
                    if item.get("Ebs")
                ),
                8,
            ),
            "tokens_required": (spec.get("MetadataOptions") or {}).get("HttpTokens") == "required",
            "shutdown": spec.get("InstanceInitiatedShutdownBehavior", "stop"),
            "idle_s": idle.limit_s(given),
            # Of what it runs from its boot on, or of what is started there later.
            "exit_code": rows.store.exit_code(PROVIDER, launch.zone, launch.machine_type),
        }
        if ttl_s := user_data.ttl_s(given):
            body |= {
                "ends": up + ttl_s,
                "user_data": given,
                "limit_of": user_data.start_of(given),
            }
        timeline: Timeline = [(rows.now, "pending", ""), (up, "running", "")]
        ends = [body["ends"]] if "ends" in body else []
        if (work := script.find(given)) is not None:
            body["script"] = given
            done = script.over(work, up, rows.latency("job"))
            ends += [] if done is None else [done]
        if ends:
            timeline += _end_of_run(rows, min(ends), body["shutdown"])
        out.append(
            rows.add(
                Instance(
                    0,
                    launch.region,
                    launch.zone,
                    launch.machine_type,
                    launch.capacity,
                    launch.reservation,
                    rows.now,
                    body,
                    timeline,
                )
            )
        )
    return out


def restart(rows: Rows, item: Instance, slower_s: float = 0.0) -> Instance:
    """A stopped machine comes up again. Its timer counts anew where its user data names another
    start; else it is absolute: past its moment it ends the machine at once, or, where that is kept,
    no more.
    """
    up = rows.now + rows.latency("start") + slower_s
    text = str(item.body.get("user_data", ""))
    if (named := user_data.start_of(text)) != item.body.get("limit_of", ""):
        item = item._replace(
            body={**item.body, "ends": up + user_data.ttl_s(text), "limit_of": named}
        )
    timeline: Timeline = [(rows.now, "pending", ""), (up, "running", "")]
    end, behaviour = float(item.body.get("ends", 0)), item.body["shutdown"]
    ends = [max(end, up)] if end and (end > up or behaviour == "terminate") else []
    if (work := script.find(str(item.body.get("script", "")))) is not None and (
        done := script.over(work, up, rows.latency("job"))
    ) is not None:
        ends.append(done)
    if ends:
        timeline += _end_of_run(rows, min(ends), behaviour)
    later = item._replace(timeline=cut(item.timeline, rows.now, timeline))
    rows.write(later)
    if (request := request_over(rows, item)).get("state") == "disabled":
        rows.write_thing({**request, "state": "active"})
    return later


def goes_idle(rows: Rows, item: Instance) -> float:
    """From now on the machine's GPUs have nothing to do; when its own timer ends it, 0 for never."""
    limit_s = item.body.get("idle_s", 0)
    begin = rows.now + limit_s
    if not limit_s or item.state(rows.now) != "running":
        return 0.0
    ended = [moment for moment, state, _ in item.timeline if moment > rows.now and state]
    if not ended or begin < ended[0]:
        rows.write(
            item._replace(
                timeline=cut(
                    item.timeline, rows.now, _end_of_run(rows, begin, item.body["shutdown"])
                )
            )
        )
    return float(begin)


def _end_of_run(rows: Rows, begin: float, behaviour: str) -> Timeline:
    reason = "Client.InstanceInitiatedShutdown"
    if behaviour == "terminate":
        done = begin + rows.latency("delete")
        return [
            (begin, "shutting-down", reason),
            (done, "terminated", reason),
            (done + SHOWN_S, "", ""),
        ]
    return [(begin, "stopping", reason), (begin + rows.latency("stop"), "stopped", reason)]


def _spot_request(rows: Rows, launch: Launch, tags: dict[str, str]) -> str:
    number = len(rows.db.execute("SELECT 1 FROM aws_thing WHERE kind = 'spot-request'").fetchall())
    name = places.made_up("sir", str(number), repr(rows.now))[:12]
    body = {
        "id": name,
        "type": "persistent" if launch.persistent else "one-time",
        "state": "active",
        "tags": tags,
        "type_name": launch.machine_type,
    }
    rows.add_thing(launch.region, "spot-request", name, body)
    return name


def again(rows: Rows, ended: Instance) -> None:
    """A persistent Spot request that was not cancelled starts another machine by itself: without
    tags, as EC2 does.
    """
    held = request_over(rows, ended)
    if held.get("type") == "persistent" and held["state"] in ("active", "disabled"):
        body = {**ended.body, "tags": {}, "volume_tags": {}, "token": ""}
        up = rows.now + rows.latency("create")
        rows.add(
            ended._replace(
                created=rows.now,
                body=body,
                timeline=[(rows.now, "pending", ""), (up, "running", "")],
            )
        )


def request_over(rows: Rows, item: Instance) -> Json:
    """The Spot request that a machine is under; empty for none."""
    held = (
        rows.things(item.region, "spot-request", item.body["spot_request"])
        if item.body["spot_request"]
        else []
    )
    return held[0] if held else {}


def again_of(item: Instance) -> Launch:
    """What a stopped machine needs to start: its own place and kind."""
    return Launch(
        item.region,
        item.zone,
        item.machine_type,
        item.capacity,
        item.reservation,
        {},
        item.body["lifecycle"],
    )


def dict_of(tags: Any) -> dict[str, str]:
    """Tags as a mapping."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags or ()}


def list_of(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as the API shows them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
