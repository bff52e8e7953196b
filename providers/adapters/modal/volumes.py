"""Modal's volumes that outlive what mounts them. Owns their names: Modal has no labels on a volume,
so its name says whose it is, and another owner is another name.

Source: the client's `volume.py` and its protocol, 1.6.4. A volume has no size and no place, and any
number of containers may mount it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.modal.gpu import PROVIDER
from providers.errors import Transient, Unsupported
from providers.model.machine import Handle
from providers.model.place import Scope
from providers.model.volume import READY, Volume, VolumeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.adapters.modal.client import Client
    from providers.model.machine import Order, Setup
    from providers.model.volume import VolumeOrder
    from providers.model.volume_mount import VolumeMount

PREFIX = "gpus"
CREATE_S = 60.0
_STACK = 6
"""How many digits of a stack's id a name has room for: Modal takes 64 characters."""


def object_name(owner: str, stack: str, name: str) -> str:
    """`gpus-OWNER-STACK-NAME`."""
    return f"{PREFIX}-{owner}-{stack[:_STACK]}-{name}"


class ModalVolumes:
    """The volumes of one environment. Safe from several threads. `untouched` as in the adapter."""

    def __init__(self, client: Client, untouched: Callable[[], bool]) -> None:
        self._client = client
        self._untouched = untouched

    def create(self, order: VolumeOrder) -> Volume:
        """One call; the name makes it the only one."""
        api = self._client.proto()
        wanted = object_name(order.owner, order.stack, order.spec.name)
        try:
            reply = self._client.once(
                "VolumeGetOrCreate",
                api.VolumeGetOrCreateRequest(
                    deployment_name=wanted,
                    environment_name=self._client.environment,
                    object_creation_type=api.OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS,
                ),
                CREATE_S,
                order.token,
            )
        except Transient as error:
            there = self.find(owner=order.owner, stack=order.stack, name=order.spec.name)
            if error.code != "ALREADY_EXISTS" or not there:
                raise
            return there[0]
        return _volume(str(reply.volume_id), wanted)

    def find(self, *, owner: str = "", stack: str = "", name: str = "") -> Sequence[Volume]:
        """The volumes of the environment whose name is one of ours."""
        if self._untouched():
            return []
        api = self._client.proto()
        reply = self._client.call(
            "VolumeList", api.VolumeListRequest(environment_name=self._client.environment)
        )
        found = [
            _volume(str(item.volume_id), str(item.label), float(item.created_at))
            for item in reply.items
            if _parts(str(item.label)) is not None
        ]
        return [
            each._replace(stack=stack) if stack and stack.startswith(each.stack) else each
            for each in found
            if owner in ("", each.owner)
            and name in ("", each.spec.name)
            and (not stack or stack.startswith(each.stack))
        ]

    def look(self, handle: Handle) -> Volume | None:
        api = self._client.proto()
        reply = self._client.look(
            "VolumeGetById", api.VolumeGetByIdRequest(volume_id=handle.native_id)
        )
        return None if reply is None else _volume(handle.native_id, str(reply.metadata.name))

    def grow(self, handle: Handle, size_gib: int) -> None:
        """Nothing: it grows by itself."""
        del handle, size_gib

    def claim(self, handle: Handle, owner: str) -> None:
        api = self._client.proto()
        there = self.look(handle)
        if there is None:
            raise Unsupported(
                f"Modal: wanted the volume {handle.native_id}, found none",
                provider=PROVIDER,
                code="missing",
                block_s=0.0,
            )
        name = object_name(owner, there.stack, there.spec.name)
        self._client.call(
            "VolumeRename", api.VolumeRenameRequest(volume_id=handle.native_id, name=name)
        )

    def delete(self, handle: Handle) -> None:
        api = self._client.proto()
        request = api.VolumeDeleteRequest(
            volume_id=handle.native_id, environment_name=self._client.environment
        )
        self._client.look("VolumeDelete", request)

    def named(self, owner: str, setup: Setup) -> Setup:
        """The setup with each mounted volume's own name at Modal. Raises Unsupported for one that
        is not there.
        """
        if not setup.volumes:
            return setup
        api = self._client.proto()
        reply = self._client.call(
            "VolumeList", api.VolumeListRequest(environment_name=self._client.environment)
        )
        there = {
            parts[2]: str(item.label)
            for item in reply.items
            if (parts := _parts(str(item.label))) is not None and parts[0] == owner
        }
        mounts: list[VolumeMount] = []
        for mount in setup.volumes:
            if mount.name not in there:
                raise Unsupported(
                    f"Modal: wanted the volume {mount.name}, found none",
                    provider=PROVIDER,
                    code="VOLUME",
                    scopes=[Scope(PROVIDER)],
                    block_s=0.0,
                )
            mounts.append(mount._replace(id=there[mount.name]))
        return setup._replace(volumes=tuple(mounts))

    def ordered(self, order: Order) -> Order:
        """The order, likewise."""
        return order._replace(setup=self.named(order.label.owner, order.setup))

    def mounts(self, volumes: Sequence[VolumeMount]) -> list[Any]:
        """A sandbox's mounts, as Modal's messages. Raises Unsupported for a volume that is gone."""
        api = self._client.proto()
        out = []
        for mount in volumes:
            reply = self._client.look(
                "VolumeGetOrCreate",
                api.VolumeGetOrCreateRequest(
                    deployment_name=mount.id, environment_name=self._client.environment
                ),
            )
            if reply is None:
                raise Unsupported(
                    f"Modal: wanted the volume {mount.name}, found none",
                    provider=PROVIDER,
                    code="VOLUME",
                    block_s=0.0,
                )
            out.append(
                api.VolumeMount(
                    volume_id=reply.volume_id,
                    mount_path=mount.path,
                    allow_background_commits=True,
                    read_only=not mount.writable,
                )
            )
        return out


def _parts(label: str) -> tuple[str, str, str] | None:
    """(owner, stack, name) of a volume's name; None for one that is not ours."""
    prefix, *rest = label.split("-", 3)
    if prefix != PREFIX or len(rest) != 3 or len(rest[0]) != 12 or len(rest[1]) != _STACK:
        return None
    return rest[0], rest[1], rest[2]


def _volume(volume_id: str, label: str, created_at: float = 0.0) -> Volume:
    owner, stack, name = _parts(label) or ("", "", label)
    spec = VolumeSpec(name, PROVIDER)
    return Volume(Handle(PROVIDER, volume_id), spec, READY, owner, stack, (), created_at)
