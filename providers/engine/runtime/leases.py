"""Work on a cluster that must not be cut short nor doubled: the lease around it, and the shield
against a caller that is gone.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from providers.engine.messages import trimmed
from providers.engine.runtime.tasks import StopSignal, pause
from providers.errors import Busy, GpusError, TakenOver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from providers.engine.runtime.world import World


BUY_PATIENCE_S, CLEAN_PATIENCE_S = 20.0, 180.0
"""How long to wait for another process that holds the cluster: one that was just abandoned cleans
up before it ends.
"""


@asynccontextmanager
async def owned(
    world: World,
    owner: str,
    cluster: str,
    generation: str,
    patience_s: float,
    stop_signal: StopSignal,
    *,
    buys: bool = True,
) -> AsyncIterator[None]:
    """Holds the cluster, against every home that works with the same backend: see `shared_lease`.
    Raises Busy, or TakenOver.

    A later run in another home takes it over without waiting; its stop signal then comes on.
    What only deletes goes on where this cannot be written.
    """
    async with leased(world, owner, (cluster,), patience_s):
        if world.leases is not None:
            try:
                stop_signal.lease = await asyncio.to_thread(
                    world.leases.take, world.name, owner, cluster, generation
                )
            except TakenOver:
                raise
            except GpusError as error:
                if buys:
                    raise
                world.report("warning", trimmed(error))
        yield


@asynccontextmanager
async def leased(
    world: World, owner: str, clusters: Sequence[str], patience_s: float
) -> AsyncIterator[None]:
    """Holds the clusters in this home; waits for another holder to end, up to `patience_s`, then
    raises Busy.
    """
    holder = uuid.uuid4().hex
    taken: list[str] = []
    try:
        for cluster in clusters:
            until, told = world.clock.now() + patience_s, False
            while True:
                try:
                    world.journal.take(world.name, owner, cluster, holder, world.clock.now())
                    break
                except Busy as busy:
                    if world.clock.now() >= until:
                        raise
                    if not told:
                        world.report("info", f"{busy}; waiting up to {patience_s:.0f}s")
                        told = True
                await pause(world, 0.5)
            taken.append(cluster)
        yield
    finally:
        for cluster in taken:
            # A lease that can't be dropped ends with this process; what happened before matters
            # more.
            with suppress(GpusError):
                world.journal.drop(world.name, owner, cluster, holder)
