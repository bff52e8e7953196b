"""Puts machines into their owner's security group that were ordered before it was there.

An order that asks whether there is room needs no group: a refused one would have made it for
nothing. EC2 starts such a machine in the VPC's own group, and a tag says where it belongs. That
group lets in nobody from outside unless its owner changed it, and what he let in there, everything
that is started without a group gets. A machine is moved long before its system is up. One that a
killed run left there is found by its tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import nodes as read
from providers.adapters.aws import tagging
from providers.adapters.aws.error_codes import OWN
from providers.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.errors import Context
    from providers.adapters.aws.kept import Kept


def admit(
    client: Client, kept: Kept, instances: Iterable[Mapping[str, Any]], context: Context
) -> bool:
    """Puts every network interface that is outside into the group, which is made where there is
    none. False while EC2 does not list a machine's interfaces. Calls: none for machines that are
    in it, else up to four for the group and one an interface.
    """
    listed = True
    for instance in instances:
        tags = read.tags(instance)
        if not tags.get(tagging.GROUP):
            continue
        listed = listed and bool(instance.get("NetworkInterfaces"))
        if interfaces := read.outside(instance):
            _admit(client, kept, instance, interfaces, context)
    return listed


def _admit(
    client: Client,
    kept: Kept,
    instance: Mapping[str, Any],
    interfaces: Iterable[str],
    context: Context,
) -> None:
    found = read.tags(instance)
    owner, cluster = found.get(tagging.OWNER, ""), found.get(tagging.CLUSTER, "")
    linked = any(
        str(each.get("InterfaceType", "")).startswith("efa")
        for each in instance["NetworkInterfaces"]
    )
    try:
        group = kept.group(owner, cluster, str(instance["VpcId"]), context, linked=linked)
        for interface in interfaces:
            client.call(
                "modify_network_interface_attribute",
                context,
                NetworkInterfaceId=interface,
                Groups=[group],
            )
    except CloudError as error:
        if error.code in OWN:
            kept.forget(context.region, owner)
        raise
