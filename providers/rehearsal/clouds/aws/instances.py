"""The calls about machines that are there: describe, start, stop, terminate, their tags."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from providers.rehearsal import script as played
from providers.rehearsal.clouds.aws import (
    filters,
    groups,
    launch,
    places,
    volumes,
)
from providers.rehearsal.clouds.aws.state import (
    ACCOUNT,
    FORGOTTEN,
    HOLDING,
    PROVIDER,
    Instance,
    cut,
)
from providers.rehearsal.clouds.aws.wire import Json, Refusal
from providers.rehearsal.nodes import machine, mode, network

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
        out |= groups.shown(rows, item)
        # EC2 gives no public address to a machine with several interfaces.
        if state in HOLDING and len(kept["interfaces"]) == 1:
            given = f"198.19.{item.id // 250 % 250}.{item.id % 250 + 4}"
            out["PublicIpAddress"] = network.address(rows.store, given)
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
    """What a machine wrote while it started. Of a played one that nothing boots, and its script's
    course.
    """
    (item,) = _named(call._replace(given={"InstanceIds": [call.given["InstanceId"]]}))
    if mode.runs(call.rows.store, PROVIDER):
        text = machine.console(call.rows.store, machine.key(PROVIDER, item.name))
        return {"InstanceId": item.name, "Output": base64.b64encode(text.encode()).decode()}
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
    """Writes a machine's user data again, which EC2 allows while it is stopped."""
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
    """Adds or replaces tags of machines and volumes."""
    ids = call.given["Resources"]
    for thing in [
        volumes.named(call.rows, call.region, each) for each in ids if each.startswith("vol-")
    ]:
        tags = {**thing["tags"], **launch.dict_of(call.given["Tags"])}
        call.rows.write_thing({**thing, "tags": tags})
    machines = [each for each in ids if not each.startswith("vol-")]
    for item in _tagged(call._replace(given={"Resources": machines})):
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
