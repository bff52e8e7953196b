"""Stopping a machine and keeping it, and starting it again where it is. Owns that flow and its
refusals; imports no SDK.

A stopped machine keeps its EBS disks and its id, and loses what is on its instance store (EC2 user
guide, stop and start, 2026-11). A start is by id: asked twice it starts once, and it never makes
another machine.
"""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from providers.adapters.aws import limit
from providers.adapters.aws import nodes as read
from providers.adapters.aws.errors import PROVIDER, Context, from_state
from providers.errors import Transient, Unsupported
from providers.model.ask import SPOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.aws.client import Client

WAIT_S = 90.0
"""A machine with GPUs takes a minute or so to stop; what takes longer is asked for again."""
PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
PERSISTENT = "persistent"


def switch(
    client: Client,
    region: str,
    instance_id: str,
    state: str,
    sleep: Callable[[float], None],
    now: Callable[[], float] = time.time,
) -> None:
    """Brings a machine to `stopped` or `running` and waits until it is there; nothing to do where
    it is. Calls: reads, and at most one other, before a start one more, which gives its time limit
    a new beginning.

    Raises the refusal, the zone named: NoCapacity or QuotaExceeded on a start, which leaves the
    machine stopped; Unsupported for a one-time Spot machine, which can only end, and for one that
    is gone; Transient where it takes longer than `WAIT_S`.
    """
    stops = state == "stopped"
    there, under_way = ("stopped", "stopping") if stops else ("running", "pending")
    verb = "stopping" if stops else "starting"
    waited, pause, asked, why = 0.0, PAUSE_S, False, ""
    context = Context(f"aws {region}: {verb} {instance_id}", region)
    while True:
        instance = _looked(client, instance_id, context)
        context = Context(f"aws {read.zone(instance, {}) or region}: {verb} {instance_id}", region)
        found = read.state(instance)
        if found == there:
            return
        if found in ("shutting-down", "terminated"):
            raise _never(
                context,
                "a machine that is there",
                f"that it is {found}",
                "run it again, or destroy it",
                "IncorrectInstanceState",
            )
        if asked and found == "stopped" and _reason(instance) != why:
            # EC2 took the start, found no room and stopped it again: the reason stands with the
            # machine. Its previous one is a list that lags.
            raise from_state(instance.get("StateReason") or {}, context, ())
        if (
            found != under_way
            and not asked
            and not (found == "stopping" or (stops and found == "pending"))
        ):
            if stops:
                _stoppable(client, instance, context)
            else:
                _armed(client, instance_id, context, now())
            client.call(
                "stop_instances" if stops else "start_instances", context, InstanceIds=[instance_id]
            )
            asked, why = True, _reason(instance)
        if waited >= WAIT_S:
            raise Transient(
                f"{context.what}: it is {found} after {WAIT_S:.0f} s; it is asked again",
                provider=PROVIDER,
                code="TIMEOUT",
            )
        sleep(pause)
        waited, pause = waited + pause, min(pause * 1.6, LONGEST_PAUSE_S)


def _armed(client: Client, instance_id: str, context: Context, now: float) -> None:
    """Names the start that is about to be asked for in the user data: the machine's own timer
    counts from it. Asked twice, the later one stands.
    """
    answer = client.call(
        "describe_instance_attribute", context, InstanceId=instance_id, Attribute="userData"
    )
    text = base64.b64decode(str((answer.get("UserData") or {}).get("Value") or "")).decode(
        errors="replace"
    )
    if later := limit.started(text, str(int(now * 1000))):
        client.call(
            "modify_instance_attribute",
            context,
            InstanceId=instance_id,
            UserData={"Value": later.encode()},
        )


def request_of(client: Client, instance: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    """The Spot request over a machine; empty where it has none, or EC2 no longer knows it."""
    request = str(instance.get("SpotInstanceRequestId") or "")
    if not request:
        return {}
    wanted = [{"Name": "spot-instance-request-id", "Values": [request]}]
    found = client.call("describe_spot_instance_requests", context, Filters=wanted).get(
        "SpotInstanceRequests", ()
    )
    return found[0] if found else {}


def _reason(instance: Mapping[str, Any]) -> str:
    return str((instance.get("StateReason") or {}).get("Code") or "")


def _stoppable(client: Client, instance: Mapping[str, Any], context: Context) -> None:
    if (
        read.capacity(instance) == SPOT
        and request_of(client, instance, context).get("Type") != PERSISTENT
    ):
        raise _never(
            context,
            "a machine that can be stopped",
            "a one-time Spot machine, which can only end",
            "destroy it",
            "ONE_TIME_SPOT",
        )


def _looked(client: Client, instance_id: str, context: Context) -> Mapping[str, Any]:
    filters = [{"Name": "instance-id", "Values": [instance_id]}]
    for instance in read.machines_of(
        client.call("describe_instances", context, Filters=filters), context
    ):
        return instance
    raise Unsupported(
        f"{context.what}: EC2 does not know it",
        provider=PROVIDER,
        code="InvalidInstanceID.NotFound",
        block_s=0.0,
    )


def _never(context: Context, wanted: str, found: str, todo: str, code: str) -> Unsupported:
    return Unsupported(
        f"{context.what}: wanted {wanted}, found {found}; {todo}",
        provider=PROVIDER,
        code=code,
        block_s=0.0,
    )
