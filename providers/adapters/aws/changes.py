"""Changes to machines that run: their end, their Spot request's, their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import lookup, power, tagging
from providers.adapters.aws import nodes as read
from providers.adapters.aws.errors import PROVIDER, Context
from providers.errors import CloudError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.model.machine import Handle


def terminate(client: Client, region: str, ids: Sequence[str]) -> None:
    """Asks for the machines' end. One that is gone is success."""
    context = Context(f"aws {region}: deleting {', '.join(ids)}", region)
    try:
        client.call("terminate_instances", context, InstanceIds=list(ids))
    except CloudError as error:
        if error.code != "InvalidInstanceID.NotFound":
            raise


def cancelled_request(client: Client, instance: Mapping[str, Any], context: Context) -> bool:
    """Cancels the machine's Spot request if that is a persistent one; True if it was. A stopped
    machine's is `disabled`, and starts none then.
    """
    request = power.request_of(client, instance, context)
    if request.get("Type") != power.PERSISTENT:
        return False
    if request.get("State") in ("open", "active", "disabled"):
        client.call(
            "cancel_spot_instance_requests",
            context,
            SpotInstanceRequestIds=[str(request["SpotInstanceRequestId"])],
        )
    return True


def edit_labels(client: Client, handle: Handle, change: Mapping[str, object]) -> None:
    """Replaces the user's labels; tags that others put there stay."""
    region, instance_id = lookup.region_and_id(handle)
    context = Context(f"aws {region}: labelling {instance_id}", region)
    found = list(lookup.listed(client, context, [{"Name": "instance-id", "Values": [instance_id]}]))
    if not found:
        raise Unsupported(
            f"{context.what}: EC2 does not know it",
            provider=PROVIDER,
            code="InvalidInstanceID.NotFound",
        )
    given: Any = change["labels"]
    labels = {str(key): str(value) for key, value in dict(given).items()}
    old = read.tags(found[0]).get(tagging.LABELS, "").split()
    stale = [key for key in [*old, tagging.LABELS] if key not in tagging.label_tags(labels)]
    if labels:
        client.call(
            "create_tags",
            context,
            Resources=[instance_id],
            Tags=tagging.tag_list(tagging.label_tags(labels)),
        )
    if stale:
        client.call(
            "delete_tags",
            context,
            Resources=[instance_id],
            Tags=[{"Key": key} for key in stale],
        )
