"""Persistent disks and Hyperdisks that outlive machines. Owns their names, labels and calls.

A disk's name is made of its owner and its own name, so that Google itself lets no second one be
made.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from providers.adapters.base import not_mountable
from providers.adapters.gcp import machines
from providers.adapters.gcp import nodes as read
from providers.adapters.gcp.edits import finish
from providers.adapters.gcp.errors import PROVIDER, Context
from providers.errors import CloudError, Transient, Unsupported
from providers.model import foreign
from providers.model.machine import Handle
from providers.model.volume import CREATING, DELETING, READY, Volume, VolumeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from providers.adapters.gcp.client import Client
    from providers.model.machine import Order
    from providers.model.volume import VolumeOrder

OWNER, STACK, NAME = "gpus-owner", "gpus-stack", "gpus-volume"
_STATUSES = {"CREATING": CREATING, "RESTORING": CREATING, "DELETING": DELETING}


def attaches(machine_type: str, kind: str) -> str:
    """The types of disk that a machine takes instead of this one; empty where it takes it, and for
    a type that is not sold here. Pure.
    """
    try:
        taken = machines.family(machine_type).disks
    except KeyError:
        return ""
    return "" if kind in taken else ", ".join(each for each in taken if each != "pd-standard")


def disk_name(owner: str, name: str) -> str:
    """The disk of a volume."""
    return f"gpus-{owner}-{name}"


class Disks:
    """The volumes of one project. Safe from several threads."""

    def __init__(self, client: Client, sleep: Callable[[float], None]) -> None:
        self._client = client
        self._sleep = sleep

    def create(self, order: VolumeOrder) -> Volume:
        """One POST, whose `requestId` is the order's token; then its operation is waited for."""
        spec, project = order.spec, self._client.project
        context = Context(
            f"gcp {spec.place}: making the volume {spec.name}",
            project,
            creating=True,
            token=order.token,
        )
        name = disk_name(order.owner, spec.name)
        body = {
            "name": name,
            "description": order.title,
            "sizeGb": str(spec.size_gib),
            "type": f"zones/{spec.place}/diskTypes/{spec.type}",
            "labels": {OWNER: order.owner, STACK: order.stack, NAME: spec.name},
        }
        handle = Handle(PROVIDER, f"projects/{project}/zones/{spec.place}/disks/{name}")
        try:
            operation = self._client.call(
                lambda service: service.disks().insert(
                    project=project, zone=spec.place, requestId=order.token, body=body
                ),
                context,
            )
        except CloudError as error:
            # The name is the owner's and the volume's: an earlier call of the same has made it.
            there = self.look(handle) if error.code == "alreadyExists" else None
            if there is None or (there.owner, there.spec.name) != (order.owner, spec.name):
                raise
            return there
        finish(self._client, self._sleep, operation, f"zones/{spec.place}", context)
        made = self.look(handle)
        if made is None:
            raise Transient(
                f"{context.what}: it is not to be seen yet; it is asked again",
                provider=PROVIDER,
                code="NOT_SEEN",
            )
        return made

    def find(self, *, owner: str = "", stack: str = "", name: str = "") -> Sequence[Volume]:
        """Every zone, page by page. Raises Transient when Google could not reach one."""
        tests = [
            f'(labels.{key}="{value}")'
            for key, value in ((OWNER, owner), (STACK, stack), (NAME, name))
            if value
        ] or [f"(labels.{NAME}:*)"]
        context = Context("gcp: looking for volumes", self._client.project)

        def listing(service: Any, page: str | None) -> Any:
            return service.disks().aggregatedList(
                project=self._client.project,
                filter=" AND ".join(tests),
                maxResults=500,
                pageToken=page,
            )

        found: list[Volume] = []
        for page in self._client.pages(listing, context):
            for place, items in page.get("items", {}).items():
                if (items.get("warning") or {}).get("code") == "UNREACHABLE":
                    raise Transient(
                        f"{context.what}: Google could not reach {place}; it is asked again",
                        provider=PROVIDER,
                        code="UNREACHABLE",
                    )
                found += [
                    _volume(disk)
                    for disk in items.get("disks", ())
                    if (disk.get("labels") or {}).get(NAME)
                ]
        return found

    def look(self, handle: Handle) -> Volume | None:
        where, context = self._called(handle, "looking at")
        disk = self._client.get(lambda service: service.disks().get(**where), context)
        return None if disk is None else _volume(disk)

    def grow(self, handle: Handle, size_gib: int) -> None:
        where, context = self._called(handle, "growing")
        operation = self._client.call(
            lambda service: service.disks().resize(
                **where, requestId=str(uuid.uuid4()), body={"sizeGb": str(size_gib)}
            ),
            context,
        )
        finish(self._client, self._sleep, operation, f"zones/{where['zone']}", context)

    def claim(self, handle: Handle, owner: str) -> None:
        where, context = self._called(handle, "labelling")
        disk = self._client.call(lambda service: service.disks().get(**where), context)
        body = {
            "labels": {**(disk.get("labels") or {}), OWNER: owner},
            "labelFingerprint": disk.get("labelFingerprint", ""),
        }
        operation = self._client.call(
            lambda service: service.disks().setLabels(
                project=where["project"],
                zone=where["zone"],
                resource=where["disk"],
                requestId=str(uuid.uuid4()),
                body=body,
            ),
            context,
        )
        finish(self._client, self._sleep, operation, f"zones/{where['zone']}", context)

    def delete(self, handle: Handle) -> None:
        where, context = self._called(handle, "deleting")
        operation = self._client.get(
            lambda service: service.disks().delete(**where, requestId=str(uuid.uuid4())), context
        )
        if operation is not None:
            finish(self._client, self._sleep, operation, f"zones/{where['zone']}", context)

    def sources(self, order: Order) -> dict[str, str]:
        """Volume's name -> disk, of those that an order's machines mount. Raises Unsupported for
        one that is not there, and for one that another machine has.
        """
        if not order.setup.volumes:
            return {}
        there = {each.spec.name: each for each in self.find(owner=order.label.owner)}
        out: dict[str, str] = {}
        for mount in order.setup.volumes:
            found = there.get(mount.name)
            # An earlier sending of this order may have made its machine.
            users = set(found.users if found is not None else ()) - set(order.node_names)
            if found is None or (mount.writable and users):
                raise not_mountable(PROVIDER, mount, found, sorted(users))
            out[mount.name] = found.handle.native_id.rpartition("/")[2]
        return out

    def _called(self, handle: Handle, doing: str) -> tuple[dict[str, str], Context]:
        """(the path's parts, the context) of a call on one disk. Raises Unsupported for an id that
        is no disk's.
        """
        parts = handle.native_id.split("/")
        if len(parts) != 6 or parts[::2] != ["projects", "zones", "disks"]:
            raise Unsupported(
                f"gcp: wanted projects/P/zones/Z/disks/N, found {handle.native_id!r}",
                provider=PROVIDER,
                code="INVALID_HANDLE",
                block_s=0.0,
            )
        project, zone, disk = parts[1::2]
        context = Context(f"gcp {zone}: {doing} the volume {disk}", project)
        return {"project": project, "zone": zone, "disk": disk}, context


def _volume(disk: Mapping[str, Any]) -> Volume:
    link = str(disk["selfLink"])
    zone, labels = read.tail(str(disk["zone"])), disk.get("labels") or {}
    users: Iterable[str] = disk.get("users") or ()
    return Volume(
        Handle(PROVIDER, link[link.index("projects/") :]),
        VolumeSpec(
            str(labels.get(NAME) or disk["name"]),
            PROVIDER,
            zone,
            foreign.whole(disk.get("sizeGb"), foreign.COUNT) or 0,
            read.tail(str(disk.get("type", ""))),
            zone.rpartition("-")[0],
        ),
        _STATUSES.get(str(disk.get("status")), READY),
        str(labels.get(OWNER, "")),
        str(labels.get(STACK, "")),
        tuple(read.tail(user) for user in users),
        read.moment(str(disk.get("creationTimestamp", ""))),
    )
