"""EBS volumes that outlive machines. Owns their tags and calls, and how one comes to a machine: EC2
attaches it once the machine runs, and keeps it when that ends.

Sizes: Amazon, "Amazon EBS volume types"; a volume attached to a running machine is not deleted with
it: "Preserve data when an instance is terminated" (both 2026-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.aws import nodes as read
from providers.adapters.aws import tagging
from providers.adapters.aws.errors import PROVIDER, Context
from providers.adapters.base import not_mountable
from providers.errors import CloudError, Unsupported
from providers.model import foreign
from providers.model.machine import Handle
from providers.model.volume import CREATING, DELETING, READY, Volume, VolumeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.aws.client import Client
    from providers.adapters.aws.surroundings import Surroundings
    from providers.model.machine import Order
    from providers.model.volume import VolumeOrder
    from providers.model.volume_mount import VolumeMount

STACK, NAME = "gpus-stack", "gpus-volume"
_STATUSES = {"creating": CREATING, "deleting": DELETING}
_ATTACHED = ("attaching", "attached", "busy")
_DEVICES = "fghijklmnop"
"""The letters of `/dev/sdX` that Amazon leaves to volumes ("Device names", 2026-11)."""


class Ebs:
    """The volumes of one account. Safe from several threads. `everywhere` runs a look in every
    region of interest; `untouched` as in the adapter.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        around: Callable[[], Surroundings],
        everywhere: Callable[[Callable[[str], list[Volume]]], list[list[Volume]]],
        untouched: Callable[[], bool],
    ) -> None:
        self._open_client, self._around = client, around
        self._everywhere, self._untouched = everywhere, untouched

    @property
    def _client(self) -> Client:
        return self._open_client()

    def create(self, order: VolumeOrder) -> Volume:
        """One CreateVolume, whose ClientToken is the order's token."""
        spec = order.spec
        context = Context(
            f"aws {spec.place}: making the volume {spec.name}",
            spec.region,
            creating=True,
            token=order.token,
        )
        names = {zone: name for name, zone in self._around().zone_ids(spec.region).items()}
        if spec.place not in names:
            raise Unsupported(
                f"{context.what}: wanted a zone that the account has enabled, found"
                f" {', '.join(sorted(names)) or 'none'}",
                provider=PROVIDER,
                code="ZONE_NOT_ENABLED",
                block_s=0.0,
            )
        tags = {
            tagging.NAME: order.title or spec.name,
            tagging.OWNER: order.owner,
            STACK: order.stack,
            NAME: spec.name,
        }
        made = self._client.call(
            "create_volume",
            context,
            AvailabilityZone=names[spec.place],
            Size=spec.size_gib,
            VolumeType=spec.type,
            ClientToken=order.token,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tagging.tag_list(tags)}],
        )
        return self._volume(spec.region, made)

    def find(self, *, owner: str = "", stack: str = "", name: str = "") -> Sequence[Volume]:
        """Every region of interest, page by page. Raises when one can't be asked."""
        if self._untouched():
            return []
        wanted = [(tagging.OWNER, owner), (STACK, stack), (NAME, name)]
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted if value]
        filters.append({"Name": "tag-key", "Values": [NAME]})
        found = self._everywhere(lambda region: self._listed(region, filters))
        return [each for volumes in found for each in volumes]

    def look(self, handle: Handle) -> Volume | None:
        region, volume, context = _called(handle, "looking at")
        try:
            answer = self._client.call("describe_volumes", context, VolumeIds=[volume])
        except CloudError as error:
            if error.code != "InvalidVolume.NotFound":
                raise
            return None
        found = [each for each in answer["Volumes"] if each["State"] != "deleted"]
        return self._volume(region, found[0]) if found else None

    def grow(self, handle: Handle, size_gib: int) -> None:
        _, volume, context = _called(handle, "growing")
        self._client.call("modify_volume", context, VolumeId=volume, Size=size_gib)

    def claim(self, handle: Handle, owner: str) -> None:
        _, volume, context = _called(handle, "labelling")
        tags = tagging.tag_list({tagging.OWNER: owner})
        self._client.call("create_tags", context, Resources=[volume], Tags=tags)

    def delete(self, handle: Handle) -> None:
        _, volume, context = _called(handle, "deleting")
        try:
            self._client.call("delete_volume", context, VolumeId=volume)
        except CloudError as error:
            if error.code != "InvalidVolume.NotFound":
                raise

    # What an order mounts

    def named(self, order: Order) -> Order:
        """The order with the id of each volume that its machine mounts. Raises Unsupported for one
        that is not there, and for one that another machine has.
        """
        if not order.setup.volumes:
            return order
        there = self._of(order)
        mounts: list[VolumeMount] = []
        for mount in order.setup.volumes:
            found = there.get(mount.name)
            if found is None or found.users:
                raise not_mountable(PROVIDER, mount, found, () if found is None else found.users)
            mounts.append(mount._replace(id=found.handle.native_id.rpartition("/")[2]))
        return order._replace(setup=order.setup._replace(volumes=tuple(mounts)))

    def attach(self, order: Order, machine: Handle) -> None:
        """Attaches to a running machine the volumes that it mounts and does not have yet."""
        region, instance = read.parse(machine)
        there = self._of(order) if order.setup.volumes else {}
        for letter, mount in zip(_DEVICES, order.setup.volumes, strict=False):
            found = there.get(mount.name)
            if found is None or instance in found.users:
                continue
            context = Context(f"aws {mount.place}: attaching the volume {mount.name}", region)
            self._client.call(
                "attach_volume",
                context,
                VolumeId=found.handle.native_id.rpartition("/")[2],
                InstanceId=instance,
                Device=f"/dev/sd{letter}",
            )

    def _of(self, order: Order) -> dict[str, Volume]:
        """The volumes of an order's owner in its region, by name."""
        filters = [
            {"Name": f"tag:{tagging.OWNER}", "Values": [order.label.owner]},
            {"Name": "tag-key", "Values": [NAME]},
        ]
        listed = self._listed(order.candidates[0].region, filters)
        return {each.spec.name: each for each in listed}

    def _listed(self, region: str, filters: list[dict[str, Any]]) -> list[Volume]:
        context = Context(f"aws {region}: looking for volumes", region)
        return [
            self._volume(region, each)
            for page in self._client.pages("describe_volumes", context, Filters=filters)
            for each in page["Volumes"]
            if each["State"] != "deleted"
        ]

    def _volume(self, region: str, found: Mapping[str, Any]) -> Volume:
        tags, zone = read.tags(found), str(found.get("AvailabilityZone", ""))
        made: Any = found.get("CreateTime")
        return Volume(
            Handle(PROVIDER, f"{region}/{found['VolumeId']}"),
            VolumeSpec(
                tags.get(NAME) or str(found["VolumeId"]),
                PROVIDER,
                str(
                    found.get("AvailabilityZoneId")
                    or self._around().zone_ids(region).get(zone, zone)
                ),
                foreign.whole(found.get("Size"), foreign.COUNT) or 0,
                str(found.get("VolumeType", "")),
                region,
            ),
            _STATUSES.get(str(found.get("State")), READY),
            tags.get(tagging.OWNER, ""),
            tags.get(STACK, ""),
            tuple(
                str(each.get("InstanceId"))
                for each in found.get("Attachments") or ()
                if each.get("State") in _ATTACHED
            ),
            made.timestamp() if hasattr(made, "timestamp") else 0.0,
        )


def _called(handle: Handle, doing: str) -> tuple[str, str, Context]:
    """(region, id, context) of a call on one volume. Raises Unsupported for another id."""
    region, slash, volume = handle.native_id.partition("/")
    if not slash or not volume.startswith("vol-"):
        raise Unsupported(
            f"aws: wanted REGION/VOLUME as in us-east-1/vol-0123456789abcdef0, found"
            f" {handle.native_id!r}",
            provider=PROVIDER,
            code="INVALID_HANDLE",
            block_s=0.0,
        )
    return region, volume, Context(f"aws {region}: {doing} the volume {volume}", region)
