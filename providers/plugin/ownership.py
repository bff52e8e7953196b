"""The Ownership's half of the protocol: check, diff, create, read, update, delete of a stack's
Ownership; its id and outputs, and the lines about its orphans.

An error is raised; `servicer` ends the call with it. Who claims which machine is `orphans`'.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pulumi.runtime.proto import provider_pb2

from providers.errors import GpusError
from providers.plugin import budget, copies, diff, grpc_errors, orphans
from providers.plugin.properties import UNKNOWN, decode, encode
from providers.plugin.session import in_time, new_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.budget import Ledger
    from providers.engine.journal.owners import ClaimRow
    from providers.engine.journal.placements import PlacementRow
    from providers.engine.runtime.world import World
    from providers.errors import Problem
    from providers.model.machine import Node
    from providers.plugin.diff import Verdict
    from providers.plugin.properties import Properties
    from providers.plugin.session import Session


class Ownerships:
    """The Ownership of a stack in one process. A `request` is the protocol's message."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(
        self, _urn: str, properties: Properties
    ) -> tuple[dict[str, Any], tuple[Problem, ...]]:
        """The inputs as they are, and all that is wrong with them."""
        from providers.plugin import inputs

        problems = inputs.own_problems(properties.known(), properties.unknown, ("world",))
        return properties.values, tuple(problems)

    async def diff(self, request: Any) -> Verdict:
        """What an edit changes. Raises GpusError where it moves the stack to a world that cannot
        serve it.
        """
        old, new = decode(request.old_inputs).values, decode(request.news).values
        state = decode(request.olds).values
        owner = parse_id(request.id)[1]
        ledger = await self._session.in_world(
            request.urn,
            new["world"],
            new,
            lambda world: self._session.budgets.ledger(world, owner, (), new, state),
        )
        verdict = diff.ownership(old, new, counted=is_counted(ledger, state))
        if verdict.replaces:
            from providers.plugin import inputs, preconditions

            worlds = (str(old.get("world")), str(new.get("world")))
            await asyncio.to_thread(
                preconditions.check_move,
                *worlds,
                inputs.settings_of(new),
                self._session.program,
            )
        return verdict

    async def create(self, request: Any) -> tuple[str, Any]:
        """(id, outputs); at preview no id.
        Warns of what previous owners of the stack still have.
        """
        urn, values = request.urn, decode(request.properties).values
        world = values["world"]
        owner = "" if request.preview else new_token()

        async def counted(opened: World) -> Ledger | None:
            return await self._session.budgets.ledger(
                opened, owner, await former_owners(opened, urn), values, {}
            )

        ledger = await self._session.in_world(urn, world, values, counted)
        if request.preview:
            return "", encode({"world": world, "owner_id": UNKNOWN})
        previous: tuple[PlacementRow, ...] = await self._session.in_world(
            urn, world, values, lambda opened: minted(opened, owner, urn)
        )
        for launch in previous:
            self._session.log("warning", urn, of_another(launch))
        return f"{world}/{owner}", encode(outputs(world, owner, {}, values, ledger=ledger))

    async def read(self, request: Any) -> Any:
        """The response to a refresh. Raises InitFailed where orphans are to be released: the engine
        then asks for an update, which does it.
        """
        values, state = decode(request.inputs).values, decode(request.properties).values
        world_name, owner = parse_id(request.id)

        async def counted(world: World) -> Ledger | None:
            from providers.engine import volume_costs

            owners = {owner, *await former_owners(world, request.urn)}
            await volume_costs.settle(world, owners)
            ledger = await self._session.budgets.ledger(world, owner, (), values, state)
            if ledger is None:
                return None
            return await budget.settled(world, owner, ledger, previous_settings(state))

        # Meanwhile: a cloud that does not answer holds both up for the same time.
        counting = asyncio.create_task(
            self._session.in_world(request.urn, world_name, values, counted)
        )
        left: list[str] = []
        try:
            left = await self._orphans(request.urn, world_name, owner, values, state)
        except Exception as error:
            self._session.log(
                "warning",
                request.urn,
                f"orphans could not be looked for: {grpc_errors.line(error)}",
            )
        ledger = await counting
        struct = encode({**state, "world": world_name, "owner_id": owner, **spending(ledger)})
        if left and values:
            reason = (
                f"orphaned: {', '.join(left)} has this stack's labels, yet no cluster claims it"
            )
            raise grpc_errors.InitFailed(request.id, struct, (reason,), values)
        kept = request.inputs if values else encode({"world": world_name})
        return provider_pb2.ReadResponse(id=request.id, properties=struct, inputs=kept)

    async def _orphans(
        self, urn: str, world_name: str, owner: str, values: dict[str, Any], state: dict[str, Any]
    ) -> list[str]:
        """The ids of the machines that are certainly what a run of this stack left behind. Warns of
        every machine that no cluster claims.
        """
        session = self._session

        async def unclaimed_ones(world: World) -> tuple[tuple[Node, ...], tuple[ClaimRow, ...]]:
            return await orphans.unclaimed(
                world,
                owner,
                urn,
                lambda: session.claims_of(world_name, owner),
                previous_settings(state),
                session.claims_lock,
            )

        found, claims = await in_time(
            session.in_world(urn, world_name, values, unclaimed_ones), world_name
        )
        for node in found:
            session.log("warning", urn, unclaimed(node))
        if not found:
            return []
        launched = await session.in_world(
            urn, world_name, values, lambda world: orphans.launched_here(world, owner)
        )
        return [
            node.handle.native_id for node in found if orphans.is_orphan(node, claims, (), launched)
        ]

    async def update(self, request: Any) -> Any:
        """The outputs after an edit. With other settings, what a cut-short run left in the previous
        accounts is settled first; the accounts themselves stay on record.
        """
        if request.preview:
            return request.olds
        urn, session = request.urn, self._session
        old, values = decode(request.old_inputs).values, decode(request.news).values
        state = decode(request.olds).values
        world, owner = parse_id(request.id)
        from providers.engine import operations

        await session.in_world(
            urn, world, values, lambda opened: copies.refuse_copy(opened, owner, urn)
        )
        if old.get("settings") != values.get("settings"):
            await session.under_way(
                urn, values, lambda opened: operations.leave(opened, owner), world=world
            )
        try:
            known = (
                session.claims_of(world, owner),
                tuple(session.program),
                previous_settings(state),
            )
            await session.in_world(
                urn, world, values, lambda opened: orphans.release(opened, owner, *known)
            )
        except GpusError as error:
            session.log(
                "warning",
                urn,
                f"what runs left behind could not be released: {grpc_errors.line(error)}",
            )
        ledger = await session.in_world(
            urn,
            world,
            values,
            lambda opened: session.budgets.ledger(opened, owner, (), values, state),
        )
        return encode(outputs(world, owner, state, old, values, ledger=ledger))

    async def delete(self, request: Any) -> None:
        """Settles and releases everything of the owner. Raises GpusError for a copied state."""
        values, state = decode(request.old_inputs).values, decode(request.properties).values
        world_name, owner = parse_id(request.id)

        async def work(world: World) -> None:
            from providers.engine import operations

            await asyncio.to_thread(copies.refuse, world, owner, request.urn)
            await operations.settle(world, owner, previous_settings(state))

        await self._session.under_way(request.urn, values, work, world=world_name)


def parse_id(resource: str) -> tuple[str, str]:
    """(world, owner). Raises GpusError for anything else."""
    world, _, owner = resource.partition("/")
    if not world or not owner or "/" in owner:
        raise GpusError(f"{resource!r} is no ownership id: wanted WORLD/OWNER")
    return world, owner


async def minted(world: World, owner: str, urn: str) -> tuple[PlacementRow, ...]:
    """Writes down whose a new owner is. Returns what earlier owners of the same project and stack
    still have, by the journal.
    """
    stack, project = orphans.stack_of(urn)
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


async def former_owners(world: World, urn: str) -> tuple[str, ...]:
    """Every owner that this project and stack has had before, as far as this machine's journal
    knows: what they spent is the stack's too.
    """
    if not world.has_journal:
        return ()
    stack, project = orphans.stack_of(urn)
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

    accounts = list(previous_settings(state))
    for values in inputs:
        if (settings := settings_of(values)) not in accounts:
            accounts.append(settings)
    kept = (
        {"spending": state["spending"]}
        if ledger is None and state.get("spending")
        else spending(ledger)
    )
    return {"world": world, "owner_id": owner, "accounts": accounts, **kept}


def previous_settings(state: Mapping[str, Any]) -> tuple[dict[str, dict[str, str]], ...]:
    """The settings that an Ownership has had, by its state."""
    from providers.plugin.inputs import settings_of

    return tuple(
        settings_of({"settings": each})
        for each in state.get("accounts") or ()
        if isinstance(each, dict)
    )


def unclaimed(node: Node) -> str:
    """The line about an orphan."""
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
