"""Changes to a machine that runs: labels, key, start-up script, stopped or running. Owns the edit
under a fingerprint and the wait until it is done.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from providers.adapters.gcp import between_nodes, lookup, machine_metadata
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.errors import PROVIDER, Context, from_operation
from providers.errors import Transient
from providers.model import idle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.adapters.gcp.client import Client
    from providers.model.machine import Handle, Setup

EDIT_WAIT_S = 60.0


def set_state(client: Client, sleep: Callable[[float], None], handle: Handle, state: str) -> None:
    """Stops or starts a machine and waits until it is. Raises the refusal (NoCapacity where
    there is no room); nothing has changed then.
    """
    project, zone, name = read.parse(handle)
    stops = state == "stopped"
    context = Context(f"gcp {zone}: {'stopping' if stops else 'starting'} {name}", client.project)
    there, under_way = (
        (("TERMINATED", "STOPPED"), ("STOPPING", "PENDING_STOP"))
        if stops
        else (("RUNNING",), ("PROVISIONING", "STAGING"))
    )

    def look() -> dict[str, Any]:
        return client.call(
            lambda service: service.instances().get(project=project, zone=zone, instance=name),
            context,
        )

    instance = look()
    if instance.get("status") not in (*there, *under_way):
        rest: dict[str, Any] = {
            "project": project,
            "zone": zone,
            "instance": name,
            "requestId": str(uuid.uuid4()),
        }
        if stops and read.has_local_ssd(instance):
            # Google stops no machine with local SSD unless told what becomes of it.
            rest["discardLocalSsd"] = True
        operation = client.call(
            lambda s: s.instances().stop(**rest) if stops else s.instances().start(**rest),
            context,
        )
        finish(client, sleep, operation, f"zones/{zone}", context)
        instance = look()
    waited = 0.0
    while instance.get("status") in under_way and waited < EDIT_WAIT_S:
        sleep(2.0)
        waited, instance = waited + 2.0, look()
    if instance.get("status") not in there:
        raise Transient(
            f"{context.what}: it is {instance.get('status')}; it is asked again",
            provider=PROVIDER,
            code="TIMEOUT",
        )


def edit_labels(
    client: Client,
    sleep: Callable[[float], None],
    handle: Handle,
    edit: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    """Changes the machine's labels."""
    project, zone, name = read.parse(handle)
    context = Context(f"gcp {zone}: labelling {name}", client.project)

    def request(service: Any, instance: dict[str, Any]) -> Any:
        body = {
            "labels": edit(dict(instance.get("labels", {}))),
            "labelFingerprint": instance.get("labelFingerprint", ""),
        }
        return service.instances().setLabels(
            project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()), body=body
        )

    _edit(client, sleep, project, zone, name, context, request)


def edit_script(
    client: Client, sleep: Callable[[float], None], handle: Handle, setup: Setup
) -> None:
    """What it runs at its next boots; its idle timer, if it has one, stays as it was ordered."""

    def edited(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        present = next(
            (str(item.get("value", "")) for item in items if item.get("key") == "startup-script"),
            "",
        )
        script = machine_metadata.start_up(
            setup._replace(idle_s=idle.limit_s(present)), rdma=between_nodes.GIB in present
        )
        kept = [item for item in items if item.get("key") != "startup-script"]
        return [*kept, {"key": "startup-script", "value": script}] if script else kept

    _edit_metadata(client, sleep, handle, "setting the start-up script of", edited)


def edit_key(
    client: Client, sleep: Callable[[float], None], handle: Handle, user: str, public_key: str
) -> None:
    """Exchanges the user's public key."""

    def edited(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        present = next(
            (str(item.get("value", "")) for item in items if item.get("key") == "ssh-keys"), ""
        )
        kept = [item for item in items if item.get("key") != "ssh-keys"]
        # The user's key is exchanged; the one that the engine looks at the machine with stays.
        keys = machine_metadata.ssh_keys(user, public_key, *machine_metadata.own_keys(present))
        return [*kept, {"key": "ssh-keys", "value": keys}] if keys else kept

    _edit_metadata(client, sleep, handle, "setting the ssh key of", edited)


def _edit_metadata(
    client: Client,
    sleep: Callable[[float], None],
    handle: Handle,
    what: str,
    edited: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
) -> None:
    project, zone, name = read.parse(handle)
    context = Context(f"gcp {zone}: {what} {name}", client.project)

    def request(service: Any, instance: dict[str, Any]) -> Any:
        metadata = instance.get("metadata", {})
        body = {
            "fingerprint": metadata.get("fingerprint", ""),
            "items": edited(list(metadata.get("items", ()))),
        }
        return service.instances().setMetadata(
            project=project, zone=zone, instance=name, requestId=str(uuid.uuid4()), body=body
        )

    _edit(client, sleep, project, zone, name, context, request)


def _edit(
    client: Client,
    sleep: Callable[[float], None],
    project: str,
    zone: str,
    name: str,
    context: Context,
    request: Callable[[Any, dict[str, Any]], Any],
) -> None:
    """Reads the machine, edits it under its fingerprint, and waits until the edit is done. Once
    more when somebody else was faster.
    """
    for last in (False, True):
        instance = client.call(
            lambda service: service.instances().get(project=project, zone=zone, instance=name),
            context,
        )
        try:
            operation = client.call(
                lambda service, seen=instance: request(service, seen),  # type: ignore[misc]
                context,
            )
        except Transient as error:
            if last or error.code != "conditionNotMet":
                raise
        else:
            finish(client, sleep, operation, f"zones/{zone}", context)
            return


def finish(
    client: Client,
    sleep: Callable[[float], None],
    operation: Mapping[str, Any],
    scope: str,
    context: Context,
) -> None:
    """Waits until an operation is done, at Google where it can. Raises its refusal, or Transient
    after some time.
    """
    waited, pause = 0.0, 0.1
    while operation.get("status") != "DONE":
        if waited >= EDIT_WAIT_S:
            raise Transient(
                f"{context.what}: not done after {EDIT_WAIT_S:.0f} s; it is asked again",
                provider=PROVIDER,
                code="TIMEOUT",
            )
        began = time.monotonic()
        name = str(operation.get("name", ""))
        found = lookup.operation_named(client, scope, name, context, held=True)
        if found is None:
            return
        operation = found
        held_s = time.monotonic() - began
        if operation.get("status") != "DONE" and held_s < pause:
            # It answers early where it is overloaded.
            sleep(pause - held_s)
        waited, pause = waited + max(pause, held_s), min(pause * 1.6, 2.0)
    if operation.get("error"):
        raise from_operation(operation, context)
