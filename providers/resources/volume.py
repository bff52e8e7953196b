"""`GpuVolume`: storage that outlives the machines that mount it, as a Pulumi resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.resources.ownership import Ownership


class GpuVolume(pulumi.CustomResource):
    """A Google disk, an EBS volume or a Modal volume. A cluster mounts it by
    `workload={"volumes": {NAME: PATH}}` and `volumes=[it]`.

    `place` is a zone, `type` the provider's own name; Modal's have neither, nor a size. Removing it
    leaves the volume and its data; only after an `up` with `delete_data=True` does removing it
    delete both.
    """

    native_id: pulumi.Output[str]
    status: pulumi.Output[str]
    users: pulumi.Output[Sequence[str]]
    price_usd_per_month: pulumi.Output[float | None]
    price_as_of: pulumi.Output[str | None]
    price_source: pulumi.Output[str | None]

    def __init__(
        self,
        name: str,
        *,
        provider: str,
        place: str | None = None,
        size_gib: int | None = None,
        type: str | None = None,
        delete_data: bool = False,
        world: str = REHEARSAL,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        ownership: Ownership | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        from providers.resources.config import account_settings
        from providers.resources.ownership import one_ownership

        found = settings if settings is not None else account_settings(world)
        owner = ownership or one_ownership(world, found)
        self.volume_name = name
        self.declared = {
            key: value
            for key, value in {
                "provider": provider,
                "place": place,
                "size_gib": size_gib,
                "type": type,
            }.items()
            if value is not None
        }
        """What says which volume it is, for the clusters that mount it."""
        props: dict[str, Any] = {
            "world": world,
            "owner": owner.owner_id,
            "volume": name,
            "settings": dict(found),
            **self.declared,
            **({"delete_data": True} if delete_data else {}),
            **({} if owner.limit_usd is None else {"max_spend": owner.limit_usd}),
            **dict.fromkeys(GpuVolume.__annotations__),
        }
        super().__init__("gpu:index:Volume", name, props, opts)
