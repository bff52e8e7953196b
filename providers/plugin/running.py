"""What an owner runs now, as the journal of this machine knows it. Reads one file and asks no
cloud; imports neither an SDK nor asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from providers.engine.runtime.world import World


class Running(NamedTuple):
    """One placement that has not ended, as far as is known here. `micro_usd` is all nodes per hour
    at launch, None when nobody knew.
    """

    cluster: str
    generation: str
    provider: str
    where: str
    gpu: str
    nodes: int
    capacity: str
    micro_usd: int | None
    launched_at: float
    native_ids: tuple[str, ...]


def running_of(world: World, owner: str) -> tuple[Running, ...]:
    """The owner's open placements, oldest first; none where there is no journal yet. Raises
    GpusError when there is one that can't be read.
    """
    if not world.has_journal:
        return ()
    found = []
    for launch in world.journal.launches(world.name, owner):
        if launch.ended_at is not None or not launch.native_ids:
            continue
        record = launch.record
        found.append(
            Running(
                launch.cluster,
                launch.generation,
                launch.provider,
                str(record.get("zone") or record.get("region") or ""),
                f"{record.get('gpu_type', '')}:{int(record.get('gpu_count') or 0)}",
                int(record.get("nodes") or 0),
                str(record.get("capacity") or ""),
                launch.micro_usd,
                launch.launched_at,
                launch.native_ids,
            )
        )
    return tuple(found)
