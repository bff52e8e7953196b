"""What Google knows of operations and machines: by name, by label, by zone. Owns these reads;
changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.adapters.gcp import compile as native
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.errors import PROVIDER, Context
from providers.errors import CloudError, Transient
from providers.model.machine import ENDED, GONE, PREEMPTED, Handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.adapters.gcp.client import Client
    from providers.model.machine import Node, Order

LISTED_FROM = 8
"""From so many machines in one zone on, they are listed instead of asked for one by one."""


def operation_named(
    client: Client, scope: str, name: str, context: Context, *, held: bool = False
) -> dict[str, Any] | None:
    """The operation, or None where Google no longer knows it (it forgets old ones).

    `held`: Google answers when it is done, or at its own choice within two minutes; where no such
    answer comes within the client's own time-out, it is asked plainly.
    """
    if not name:
        return None
    kind, _, place = scope.partition("/")
    where = {"project": client.project, "operation": name}
    where["zone" if kind == "zones" else "region"] = place

    def operations(service: Any) -> Any:
        return service.zoneOperations() if kind == "zones" else service.regionOperations()

    if held:
        with suppress(CloudError):
            return client.get(lambda service: operations(service).wait(**where), context)
    return client.get(lambda service: operations(service).get(**where), context)


def operation_of(client: Client, token: str, scope: str, context: Context) -> dict[str, Any] | None:
    """The operation that an order's token started; None where Google lists none."""
    kind, _, place = scope.partition("/")
    project, wanted = client.project, f'clientOperationId="{token}"'

    def listing(service: Any, page: str | None) -> Any:
        if kind == "zones":
            return service.zoneOperations().list(
                project=project, zone=place, filter=wanted, pageToken=page
            )
        return service.regionOperations().list(
            project=project, region=place, filter=wanted, pageToken=page
        )

    for page in client.pages(listing, context):
        for operation in page.get("items", ()):
            if operation.get("clientOperationId") == token:
                found: dict[str, Any] = operation
                return found
    return None


def made_for(
    client: Client, order: Order, context: Context, *, thorough: bool = False
) -> list[dict[str, Any]]:
    """The order's machines that exist. Names are the order's own; the generation tells them
    from others' machines.

    `thorough`: an empty list is not believed before each zone was asked for the first name too
    (a cluster is made whole or not at all).
    """
    names = set(order.node_names)
    wanted = f'labels.{native.GENERATION}="{order.label.generation}"'
    zones = list(dict.fromkeys(candidate.zone for candidate in order.candidates if candidate.zone))
    lists = (
        listed_in(client, zones[0], wanted, context)
        if len(zones) == 1
        else listed_everywhere(client, wanted, context)
    )
    found = [instance for instance in lists if instance.get("name") in names]
    if found or not thorough:
        return found
    project, first = client.project, order.node_names[0]
    for zone in zones:
        instance = client.get(
            lambda s, z=zone: s.instances().get(project=project, zone=z, instance=first),  # type: ignore[misc]
            context,
        )
        if (
            instance is not None
            and (instance.get("labels") or {}).get(native.GENERATION) == order.label.generation
        ):
            found.append(instance)
    return found


def seen_in(
    client: Client, project: str, zone: str, ids: Sequence[str]
) -> dict[str, dict[str, Any] | None]:
    """The machines of one zone by their ids; None for one that Google does not know."""
    context = Context(f"gcp {zone}: looking at a machine", client.project)
    out: dict[str, dict[str, Any] | None] = {}
    if len(ids) >= LISTED_FROM:
        out = {
            read.handle(instance).native_id: instance
            for instance in listed_in(client, zone, "", context, project)
        }
        out = {native_id: out[native_id] for native_id in ids if native_id in out}
    for native_id in ids:
        if native_id not in out:
            name = native_id.rsplit("/", 1)[-1]
            out[native_id] = client.get(
                lambda s, n=name: s.instances().get(project=project, zone=zone, instance=n),  # type: ignore[misc]
                context,
            )
    return out


def node_of(
    client: Client,
    handle: Handle,
    instance: dict[str, Any] | None,
    reasons: dict[tuple[str, str], list[dict[str, Any]]],
) -> Node:
    """A machine as the engine sees it; for one that has ended, with the reason."""
    if instance is not None and instance.get("status") not in read.LEAVING:
        return read.node(handle, instance)
    project, zone, name = read.parse(handle)
    if (project, zone) not in reasons:
        reasons[project, zone] = endings(client, project, zone)
    why = read.why(reasons[project, zone], name, instance)
    if instance is None:
        detail = {
            PREEMPTED: "preempted and deleted",
            ENDED: "ended by its run limit and deleted",
        }.get(why, "deleted")
        return read.gone(handle, GONE, detail, ended=why == ENDED)
    return read.node(handle, instance, why)


def endings(client: Client, project: str, zone: str) -> list[dict[str, Any]]:
    """The zone's operations that end machines, newest first. Best effort: without them the
    machine's own fields must do.
    """
    wanted = " OR ".join(f'(operationType="{kind}")' for kind in read.ENDINGS)
    context = Context(f"gcp {zone}: looking at operations", project)
    found: list[dict[str, Any]] = []
    try:
        for page in client.pages(
            lambda s, token: s.zoneOperations().list(
                project=project, zone=zone, filter=wanted, pageToken=token
            ),
            context,
        ):
            found.extend(page.get("items", ()))
    except CloudError:
        return []
    return sorted(
        found,
        key=lambda operation: read.moment(str(operation.get("insertTime", ""))),
        reverse=True,
    )


def listed_in(
    client: Client, zone: str, wanted: str, context: Context, project: str = ""
) -> Iterable[dict[str, Any]]:
    """The machines of one zone, page by page."""

    def listing(service: Any, page: str | None) -> Any:
        return service.instances().list(
            project=project or client.project,
            zone=zone,
            filter=wanted or None,
            maxResults=500,
            pageToken=page,
        )

    for page in client.pages(listing, context):
        yield from page.get("items", ())


def listed_everywhere(client: Client, wanted: str, context: Context) -> Iterable[dict[str, Any]]:
    """The machines of every zone, page by page. Raises Transient where a zone was not reached."""

    def listing(service: Any, page: str | None) -> Any:
        return service.instances().aggregatedList(
            project=client.project, filter=wanted, maxResults=500, pageToken=page
        )

    for page in client.pages(listing, context):
        unreached = [str(place) for place in page.get("unreachables", ())]
        for place, items in page.get("items", {}).items():
            if (items.get("warning") or {}).get("code") == "UNREACHABLE":
                unreached.append(str(place))
            yield from items.get("instances", ())
        if unreached:
            raise Transient(
                f"{context.what}: Google could not reach {', '.join(unreached)}; it is asked again",
                provider=PROVIDER,
                code="UNREACHABLE",
            )
