"""Blocks the place where a machine was lost, for a while: it is out of capacity there right now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal.blocks import LOST_BLOCK_S
from providers.model.place import Scope

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World


def block_lost_place(world: World, record: ClusterRecord) -> None:
    """Leaves the record's place alone for `LOST_BLOCK_S`; a reservation stays usable. So does a
    machine of the user's own: it was not sold to someone else, and is free once it answers.
    """
    place = record.placement
    manifest = world.manifests.get(place.provider)
    if manifest is not None and manifest.capabilities.owned:
        return
    if place.provider and place.region and not place.reservation:
        scope = Scope(*place[:5], place.capacity)
        world.journal.block(
            world.name, scope, LOST_BLOCK_S, "taken back there lately", world.clock.now()
        )
