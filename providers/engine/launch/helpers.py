"""What a cloud keeps beside its machines for the orders of one launch: removed when that ended.

The journal says where orders were tried, so that what a killed run left goes too. Buys nothing, and
stops nothing: what could not be removed costs nothing, and is found by the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.runtime.accounts import adapter_of
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from providers.engine.desired import ClusterSpec
    from providers.engine.launch.result import LaunchResult
    from providers.engine.record import Account
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World

RECENT_S = 86_400.0
"""What orders before that left was removed by a later launch, or goes with the stack."""


async def removed_after(
    work: Awaitable[LaunchResult], world: World, spec: ClusterSpec, stop: StopSignal
) -> LaunchResult:
    """How a walk ended; what it left is removed then, where no other run has the cluster."""
    try:
        return await work
    finally:
        if not stop.taken_over:
            await removed(world, spec.owner, spec.cluster)


async def removed(world: World, owner: str, cluster: str) -> None:
    """Lets each cloud that keeps something remove what the cluster's launch left there."""
    try:
        entries = world.journal.orders(world.name, owner, cluster, states=order_table.EVERY)
    except GpusError:
        return
    since = world.clock.now() - RECENT_S
    tried: dict[tuple[str, Account | None], set[str]] = {}
    for entry in entries:
        if entry.created_at >= since:
            regions = {each.region for each in entry.order.candidates}
            tried.setdefault((entry.provider, entry.account), set()).update(regions)
    for entry in entries:
        if entry.state in order_table.OPEN:
            regions = {each.region for each in entry.order.candidates}
            tried.get((entry.provider, entry.account), set()).difference_update(regions)
    for (provider, account), regions in tried.items():
        try:
            adapter = await adapter_of(world, provider, account)
            if adapter.keeps_helpers:
                await world.call(provider, adapter.launch_ended, owner, cluster, sorted(regions))
        except GpusError:
            continue
