"""Making machines: whether a launch has capacity, and its rows. Owns stock, quota and what they
refuse.

The stand-in also plays the machine: of its user data it reads the line that sets the end of the
run, and shuts down then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.model import idle
from providers.rehearsal import script
from providers.rehearsal.clouds.aws import blocks, groups, machines, places, user_data
from providers.rehearsal.clouds.aws.launch_spec import Launch
from providers.rehearsal.clouds.aws.state import HOLDING, PROVIDER, SHOWN_S, Instance, Timeline, cut
from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.state import Rows

UNLIMITED = 10**9
DEFAULT_VCPUS = 10_000.0


def refusal(rows: Rows, launch: Launch, count: int) -> Refusal | None:
    """Why this many machines can't be launched there now; None when they can."""
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
    limit = rows.store.quota(PROVIDER, region, code)
    return DEFAULT_VCPUS if limit is None else limit


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
        found = rows.things(launch.region, "reservation", launch.reservation)[0]
        if blocks.state(found, rows.now) != "active":
            return 0
        return int(found["TotalInstanceCount"]) - sum(
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
            "interfaces": groups.interfaces_of(launch.region, spec),
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
            "user_data": given,
            # Of what it runs from its boot on, or of what is started there later.
            "exit_code": rows.store.exit_code(PROVIDER, launch.zone, launch.machine_type),
        }
        if ttl_s := user_data.ttl_s(given):
            body |= {"ends": up + ttl_s, "limit_of": user_data.start_of(given)}
        timeline: Timeline = [(rows.now, "pending", ""), (up, "running", "")]
        ends = [body["ends"]] if "ends" in body else []
        over = blocks.ends_machines_at(rows, launch.region, launch.reservation)
        if script.find(given) is not None:
            body["script"] = given
            done = script.over(rows.store, PROVIDER, given, up)
            ends += [] if done is None else [done]
        if ends:
            timeline += _end_of_run(rows, min(ends), body["shutdown"])
        if over and (not ends or over < min(ends)):
            done = over + rows.latency("delete")
            reason = "Server.ScheduledStop"
            timeline = [
                *timeline[:2],
                (over, "shutting-down", reason),
                (done, "terminated", reason),
                (done + SHOWN_S, "", ""),
            ]
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
    groups.note(rows, out)
    return out


def restart(rows: Rows, item: Instance, slower_s: float = 0.0) -> Instance:
    """A stopped machine comes up again. Its timer counts again where its user data names another
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
    done = script.over(rows.store, PROVIDER, str(item.body.get("script", "")), up)
    ends += [] if done is None else [done]
    if ends:
        timeline += _end_of_run(rows, min(ends), behaviour)
    later = item._replace(timeline=cut(item.timeline, rows.now, timeline))
    rows.write(later)
    if (request := request_over(rows, item)).get("state") == "disabled":
        rows.write_thing({**request, "state": "active"})
    return later


def goes_idle(rows: Rows, item: Instance) -> float:
    """From now on the machine's GPUs have nothing to do;
    when its own timer ends it, 0 for never.
    """
    limit_s = item.body.get("idle_s", 0)
    begin = rows.now + limit_s
    if not limit_s or item.state(rows.now) != "running":
        return 0.0
    ended = [moment for moment, state, _ in item.timeline if moment > rows.now and state]
    if not ended or begin < ended[0]:
        powers_off(rows, item, begin)
    return float(begin)


def powers_off(rows: Rows, item: Instance, at: float) -> None:
    """The machine shuts itself down then: stopped or terminated, as its launch said."""
    end = _end_of_run(rows, at, item.body["shutdown"])
    rows.write(item._replace(timeline=cut(item.timeline, rows.now, end)))


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
    found = request_over(rows, ended)
    if found.get("type") == "persistent" and found["state"] in ("active", "disabled"):
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
    found = (
        rows.things(item.region, "spot-request", item.body["spot_request"])
        if item.body["spot_request"]
        else []
    )
    return found[0] if found else {}


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
