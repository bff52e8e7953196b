"""What carries the product's label and nobody claims: found over every cloud and account, told
apart, and deleted when that was asked for.

Owns the verdicts. Ownership is proved by the owner id alone: one that neither the states nor this
machine's journal know is somebody else's, and is never touched. What could not be asked is said,
never taken for nothing. Buys nothing; must not read a Pulumi state itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import database
from providers.engine.journal import orders as order_table
from providers.engine.keys import tidied
from providers.engine.messages import trimmed
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.deadlines import answering
from providers.engine.runtime.leases import leased
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import abandon, may_cost, release
from providers.engine.termination.verdicts import UNCLAIMED, Claims, SweptMachine
from providers.engine.termination.without_journal import undeterred
from providers.errors import Busy, CloudError, GpusError, NoHome, Transient
from providers.model.machine import GONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.runtime.world import World


class Swept(NamedTuple):
    """What became of one: `why` is empty once it is confirmed gone."""

    found: SweptMachine
    why: str = ""


async def sweep(
    world: World, unclaimed: Sequence[SweptMachine], claims: Claims
) -> tuple[Swept, ...]:
    """Deletes what was found unclaimed and confirms it, cluster by cluster, side by side. What
    another run has taken over meanwhile is left alone, and reported.

    Never raises a GpusError: what is not confirmed gone says why, and that it still costs money.
    """
    groups: dict[tuple[str, str], list[SweptMachine]] = {}
    for found in unclaimed:
        if found.verdict == UNCLAIMED and found.label.owner:
            groups.setdefault(found.label[:2], []).append(found)

    async def each(usable: World) -> list[list[Swept]]:
        return await asyncio.gather(*(_swept(usable, group, claims) for group in groups.values()))

    done = await undeterred(world, "sweep", each)
    return tuple(each for group in done for each in group)


async def _swept(world: World, group: Sequence[SweptMachine], claims: Claims) -> list[Swept]:
    owner, cluster = group[0].label[:2]
    try:
        async with leased(world, owner, (cluster,), 0.0):
            done = [await answering(_one(world, found, claims)) for found in group]
            if world.has_journal and not any(each.why for each in done):
                await asyncio.to_thread(tidied, world, owner, cluster)
            return done
    except (database.JournalBroken, NoHome):
        raise
    except Busy as error:
        return [Swept(found, f"left alone: {trimmed(error)}") for found in group]
    except GpusError as error:
        return [_failed(found, trimmed(error)) for found in group]


def _failed(found: SweptMachine, why: str) -> Swept:
    return Swept(
        found, f"could not be confirmed gone: {why}; {may_cost([found.handle], found.micro_usd)}"
    )


async def _one(world: World, found: SweptMachine, claims: Claims) -> Swept:
    label, handle = found.label, found.handle
    try:
        adapter = await adapter_of(world, handle.provider, found.account)
        if found.status == "unsettled":
            return await _settled(world, found, adapter)
        (node,) = await repeated(world, adapter.name, adapter.observe, (handle,))
        if node.status != GONE and node.label is not None and node.label[:3] != label[:3]:
            return Swept(
                found,
                f"left alone: it was taken over meanwhile (generation {node.label.generation})",
            )
        # Without a generation nothing but the machine itself may be meant.
        whose = label[:3] if label.generation else ("", "", "")
        left = await release(world, adapter, *whose, handles=(handle,), keep=tuple(claims.handles))
    except CloudError as error:
        return _failed(found, trimmed(error))
    if not left.clean:
        return _failed(found, left.why)
    if world.has_journal:
        world.journal.release(
            world.name, label.owner, label.cluster, label.generation, world.clock.now(), (handle,)
        )
    return Swept(found)


async def _settled(world: World, found: SweptMachine, adapter: Cloud) -> Swept:
    """Ends an order whose outcome is not known."""
    token = found.handle.native_id.removeprefix("order ")
    for entry in world.journal.orders(
        world.name, found.label.owner, found.label.cluster, states=order_table.PENDING
    ):
        if entry.order.token == token:
            left = await abandon(world, adapter, entry.order, entry.ticket)
            if not left.clean:
                raise Transient(left.why, provider=adapter.name)
            world.journal.settled(token, order_table.RELEASED, world.clock.now(), "swept")
    return Swept(found)
