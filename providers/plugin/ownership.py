"""A stack's Ownership: its id and outputs, who claims which machine, and the lines about those that
nobody claims.

Owns what counts as claimed: what a state has named since the owner's last look. Must not import
grpc.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from providers.errors import GpusError
from providers.plugin import copies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from providers.engine.budget import Ledger
    from providers.engine.journal.owners import ClaimRow
    from providers.engine.journal.placements import PlacementRow
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node


def parse_id(resource: str) -> tuple[str, str]:
    """(world, owner). Raises GpusError for anything else."""
    world, _, owner = resource.partition("/")
    if not world or not owner or "/" in owner:
        raise GpusError(f"{resource!r} is no ownership id: wanted WORLD/OWNER")
    return world, owner


async def strays(
    world: World,
    owner: str,
    urn: str,
    named: Callable[[], Mapping[str, tuple[Handle, ...]]],
    had: Sequence[Mapping[str, Mapping[str, str]]],
    turn: asyncio.Lock,
) -> tuple[tuple[Node, ...], tuple[ClaimRow, ...]]:
    """Machines of the owner that no state has claimed since the last look, as far as this machine's
    journal knows the owner at all; and the claims.

    `named` tells what this run has claimed; who claims holds `turn` as well, so that no claim falls
    between that and the next look.
    """
    if not world.has_journal:
        return (), ()
    stack, project = _stack_of(urn)
    async with turn:
        mine = named()
        claims = await asyncio.to_thread(world.journal.claims, world.name, owner)
        await asyncio.to_thread(world.journal.look, world.name, owner, tuple(mine))
    if not await asyncio.to_thread(copies.original, world, owner, urn):
        await asyncio.to_thread(world.journal.owned, world.name, owner, project, stack)
    if claims is None:
        return (), ()
    known = {handle for claim in claims for handle in claim.handles}.union(*mine.values())
    from providers.engine import operations

    return await operations.strays(world, owner, known, had), tuple(claims)


def is_orphan(
    node: Node, claims: Collection[ClaimRow], declared: Collection[str], ours: Collection[str]
) -> bool:
    """Whether a machine that no cluster claims is certainly what a run of this stack left behind.

    It is of a cluster that the state has elsewhere, or of one that a run made here (`ours`) and
    nobody declares. What is declared and not in the state is adopted by its create.
    """
    mark = node.mark
    if (
        mark is None
        or not mark.generation
        or any(mark.generation == claim.generation for claim in claims)
    ):
        return False
    if any(mark.cluster == claim.cluster for claim in claims):
        return True
    return mark.cluster in ours and mark.cluster not in declared


async def ours(world: World, owner: str) -> frozenset[str]:
    """The clusters of the owner that a run of this home, or of this backend, has ever bought for."""
    orders = await asyncio.to_thread(world.journal.orders, world.name, owner)
    shared = world.leases.clusters(world.name, owner) if world.leases is not None else ()
    return frozenset({*shared, *(entry.order.mark.cluster for entry in orders)})


async def orphans_released(
    world: World,
    owner: str,
    claimed: Mapping[str, tuple[Handle, ...]],
    declared: Collection[str],
    had: Sequence[Mapping[str, Mapping[str, str]]],
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
    made = await ours(world, owner)
    await operations.release_orphans(
        world, owner, known, lambda node: is_orphan(node, claims, declared, made), had
    )


async def minted(world: World, owner: str, urn: str) -> tuple[PlacementRow, ...]:
    """Writes down whose a new owner is. Returns what earlier owners of the same project and stack
    still have, by the journal.
    """
    stack, project = _stack_of(urn)
    try:
        found = (
            await asyncio.to_thread(world.journal.previous, world.name, owner, project, stack)
            if world.has_journal
            else ()
        )
        await asyncio.to_thread(world.journal.owned, world.name, owner, project, stack, new=True)
    except GpusError:
        # What buys will say what is wrong with it.
        return ()
    return found


def _stack_of(urn: str) -> tuple[str, str]:
    """(stack, project) of a URN."""
    stack, _, rest = urn.removeprefix("urn:pulumi:").partition("::")
    return stack, rest.partition("::")[0]


async def former_owners(world: World, urn: str) -> tuple[str, ...]:
    """Every owner that this project and stack has had before, as far as this machine's journal
    knows: what they spent is the stack's too.
    """
    if not world.has_journal:
        return ()
    stack, project = _stack_of(urn)
    try:
        every = await asyncio.to_thread(world.journal.owners, world.name)
    except GpusError:
        return ()
    return tuple(known.owner for known in every if (known.project, known.stack) == (project, stack))


def spending(ledger: Ledger | None) -> dict[str, Any]:
    """The output `spending`; none where nothing is counted."""
    from providers.engine import budget as engine

    return {} if ledger is None else {"spending": engine.write(ledger)}


def is_counted(ledger: Ledger | None, state: Mapping[str, Any]) -> bool:
    """Whether the state's ledger has everything that is known."""
    from providers.engine import budget as engine

    return ledger is None or engine.same(engine.read(state.get("spending")), ledger)


def outputs(
    world: str,
    owner: str,
    state: Mapping[str, Any],
    *inputs: Mapping[str, Any],
    ledger: Ledger | None = None,
) -> dict[str, Any]:
    """An Ownership's outputs. `accounts` are all the settings it has ever had: what was bought with
    them is looked for with them.
    """
    from providers.plugin.inputs import settings_of

    accounts = list(former(state))
    for values in inputs:
        if (settings := settings_of(values)) not in accounts:
            accounts.append(settings)
    kept = (
        {"spending": state["spending"]}
        if ledger is None and state.get("spending")
        else spending(ledger)
    )
    return {"world": world, "owner_id": owner, "accounts": accounts, **kept}


def former(state: Mapping[str, Any]) -> tuple[dict[str, dict[str, str]], ...]:
    """The settings that an Ownership has had, by its state."""
    from providers.plugin.inputs import settings_of

    return tuple(
        settings_of({"settings": each})
        for each in state.get("accounts") or ()
        if isinstance(each, dict)
    )


def unclaimed(node: Node) -> str:
    """The line about a stray."""
    return (
        f"{node.handle.provider}: {node.handle.native_id} ({node.status}) has this stack's labels,"
        " yet no cluster claims it; the next `up` adopts it if its cluster is declared, and else"
        " removes it, as destroy does; to keep it otherwise, `pulumi import` it first"
    )


def of_another(launch: PlacementRow) -> str:
    """The line about what an earlier owner of the same stack still has."""
    return (
        f"{launch.cluster}: an earlier ownership of this project and stack ({launch.owner}) has"
        f" {', '.join(launch.native_ids)} at {launch.provider}, as far as the journal knows, and"
        " this stack's state does not name it; it may still cost money: `pulumi import"
        f" gpu:index:Cluster {launch.cluster} NATIVE_ID` takes it over, or delete it there"
    )
