"""Machines of a stack that no state names: who claims which machine, and the release of what the
stack's runs left behind.

Owns what counts as claimed: what a state has named since the owner's last look. Must not import
grpc.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.plugin import copies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from providers.engine.journal.owners import ClaimRow
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node


async def unclaimed(
    world: World,
    owner: str,
    urn: str,
    named: Callable[[], Mapping[str, tuple[Handle, ...]]],
    settings: Sequence[Mapping[str, Mapping[str, str]]],
    lock: asyncio.Lock,
) -> tuple[tuple[Node, ...], tuple[ClaimRow, ...]]:
    """Machines of the owner that no state has claimed since the last look, as far as this machine's
    journal knows the owner at all; and the claims. A copied state knows nothing of them.

    `named` has what this run has claimed; who claims holds `lock` as well, so that no claim falls
    between that and the next look.
    """
    if not world.has_journal:
        return (), ()
    first = await asyncio.to_thread(copies.original, world, owner, urn)
    if first is not None:
        return (), ()
    stack, project = stack_of(urn)
    async with lock:
        mine = named()
        claims = await asyncio.to_thread(world.journal.claims, world.name, owner)
        await asyncio.to_thread(world.journal.look, world.name, owner, tuple(mine))
    await asyncio.to_thread(world.journal.owned, world.name, owner, project, stack)
    if claims is None:
        return (), ()
    known = {handle for claim in claims for handle in claim.handles}.union(*mine.values())
    from providers.engine import operations

    return await operations.orphans(world, owner, known, settings), tuple(claims)


def is_orphan(
    node: Node, claims: Collection[ClaimRow], declared: Collection[str], launched: Collection[str]
) -> bool:
    """Whether a machine that no cluster claims is certainly what a run of this stack left behind.

    It is of a cluster that the state has elsewhere, or of one that a run made here (`launched`) and
    nobody declares. What is declared and not in the state is adopted by its create.
    """
    label = node.label
    if (
        label is None
        or not label.generation
        or any(label.generation == claim.generation for claim in claims)
    ):
        return False
    if any(label.cluster == claim.cluster for claim in claims):
        return True
    return label.cluster in launched and label.cluster not in declared


async def launched_here(world: World, owner: str) -> frozenset[str]:
    """The clusters of the owner that a run of this home, or of this backend,
    has ever bought for.
    """
    orders = await asyncio.to_thread(world.journal.orders, world.name, owner)
    shared = world.leases.clusters(world.name, owner) if world.leases is not None else ()
    return frozenset({*shared, *(entry.order.label.cluster for entry in orders)})


async def release(
    world: World,
    owner: str,
    claimed: Mapping[str, tuple[Handle, ...]],
    declared: Collection[str],
    settings: Sequence[Mapping[str, Mapping[str, str]]],
) -> None:
    """Releases what runs of this stack left behind, by what the states have claimed since the last
    look. Nothing where the program is not known.
    """
    claims = (
        await asyncio.to_thread(world.journal.claims, world.name, owner)
        if world.has_journal and declared
        else None
    )
    if claims is None:
        return
    from providers.engine import operations

    known = {handle for claim in claims for handle in claim.handles}.union(*claimed.values())
    launched = await launched_here(world, owner)
    await operations.release_orphans(
        world, owner, known, lambda node: is_orphan(node, claims, declared, launched), settings
    )


def stack_of(urn: str) -> tuple[str, str]:
    """(stack, project) of a URN."""
    stack, _, rest = urn.removeprefix("urn:pulumi:").partition("::")
    return stack, rest.partition("::")[0]
