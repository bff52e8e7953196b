"""The Pulumi resource provider: its remote calls, turned into calls of the engine, and errors into
clean lines.

Owns the protocol (CLI 3.276, SDK 3.272): which answer means gone, half-made or refused. No
exception leaves as a traceback: what a user can cause is a line; what nobody foresaw is a line, and
a traceback in `plugin.log` in the state folder. The engine, the planner and pydantic are imported
by the calls that need them.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)

from providers.errors import GpusError, Problem, SpecError, TakenOver
from providers.model.machine import ENDED, PREEMPTED
from providers.model.screen import screened
from providers.plugin import (
    answers,
    budget,
    copies,
    diff,
    grpc_errors,
    outputs,
    ownership,
    preconditions,
    siblings,
)
from providers.plugin import properties as wire
from providers.plugin.preview import CREATE, KEEP, RECLAIM, REPLACE, UPDATE, PreviewContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from providers.engine.budget import Ledger
    from providers.engine.journal.owners import ClaimRow
    from providers.engine.journal.placements import PlacementRow
    from providers.engine.journal.shared_lease import SharedLeases
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Handle, Node, Setup

OWNERSHIP, CLUSTER, PLAN, CHECK = (
    "gpu:index:Ownership",
    "gpu:index:Cluster",
    "gpu:index:plan",
    "gpu:index:check",
)
_SEVERITIES = {"info": engine_pb2.INFO, "warning": engine_pb2.WARNING, "error": engine_pb2.ERROR}
_LOG_LIMIT_S = 5.0
LOOK_LIMIT_S = 18.0
"""How long a refresh waits for one resource, whatever the look hangs on: its clouds have
`engine.patience`. All are read side by side.
"""
_KINDS = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}
_urn: ContextVar[str] = ContextVar("urn", default="")
"""The resource that the present task works for."""

T = TypeVar("T")
Context = Any
"""A grpc.aio.ServicerContext: the library has no types."""


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One plugin process. `engine` is the address of the Pulumi engine, for log lines; empty for
    none. `share` finds the leases of its backend.
    """

    def __init__(
        self, engine: str = "", share: Callable[[], SharedLeases | None] = lambda: None
    ) -> None:
        self._share = share
        self._engine = engine
        self._stub: Any = None
        self._seen: dict[str, PreviewContext] = {}
        self._declared: set[str] = set()
        self._asked: dict[str, Any] = {}
        """The whole program's clusters by name, where it told them beforehand."""
        self._worlds: dict[tuple[str, str], World] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._budgets = budget.Budgets()
        self._siblings, self._shown = siblings.Siblings(), siblings.Siblings()
        """The clusters whose last step is under way, and those whose plan was shown."""
        self._claimed: dict[tuple[str, str, str], tuple[Handle, ...]] = {}
        self._deleted: dict[str, ClusterRecord] = {}
        """What this process deleted, by resource: where it is replaced, a purchase that fails has
        to name it.
        """
        self._turn = asyncio.Lock()
        """(world, owner, generation) -> the machines that a state was seen to hold in this process.
        """

    # The protocol's own calls.

    async def Handshake(self, request: Any, _context: Context) -> Any:
        self._engine = self._engine or request.engine_address
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, accept_resources=False, accept_outputs=False
        )

    async def GetPluginInfo(self, _request: Any, _context: Context) -> Any:
        from providers.plugin.schema import VERSION

        return plugin_pb2.PluginInfo(version=VERSION)

    async def Attach(self, request: Any, _context: Context) -> Any:
        self._engine = request.address
        return empty_pb2.Empty()

    async def GetSchema(self, _request: Any, _context: Context) -> Any:
        from providers.plugin.schema import document

        return provider_pb2.GetSchemaResponse(schema=document())

    async def GetMapping(self, _request: Any, _context: Context) -> Any:
        return provider_pb2.GetMappingResponse()

    async def GetMappings(self, _request: Any, _context: Context) -> Any:
        return provider_pb2.GetMappingsResponse()

    async def CheckConfig(self, request: Any, _context: Context) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, _request: Any, _context: Context) -> Any:
        # The provider has no configuration that a resource depends on: the world and the accounts
        # stand in each resource.
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, _request: Any, _context: Context) -> Any:
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    async def Cancel(self, _request: Any, _context: Context) -> Any:
        # Comes at each normal end too; then nothing is under way and this changes nothing.
        for world in self._worlds.values():
            world.stop.set()
        return empty_pb2.Empty()

    async def settled(self) -> None:
        """Returns once nothing is under way any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for world in self._worlds.values():
            world.close()

    # Resources.

    async def Check(self, request: Any, context: Context) -> Any:
        properties = wire.decode(request.news)
        problems: tuple[Problem, ...]
        try:
            if _type(request.urn) == OWNERSHIP:
                from providers.plugin import inputs

                inputs.warm_up()
                values, problems = (
                    properties.values,
                    tuple(inputs.own_problems(properties.known(), properties.unknown, ("world",))),
                )
            elif _type(request.urn) == CLUSTER:
                from providers.plugin import inputs

                checked = inputs.check(properties)
                values, problems = checked.values, checked.problems
                before = self._seen.get(request.urn, PreviewContext())
                # Before it replaces, the engine checks once more: that must not forget what is
                # replaced.
                kept = before if before.action == REPLACE else PreviewContext()
                owner = values.get("owner")
                ask, setup = (
                    (None, None)
                    if checked.spec is None
                    else (checked.spec.ask(), checked.spec.setup())
                )
                self._seen[request.urn] = kept._replace(
                    ask=ask,
                    setup=setup,
                    plan=None,
                    owner=owner if isinstance(owner, str) else "",
                    inputs=values,
                )
                self._declared.add(str(values.get("cluster")))
            else:
                await _refuse(context, f"unknown resource type {_type(request.urn)!r}")
        except Exception as error:
            await self._abort(context, error)
        return provider_pb2.CheckResponse(
            inputs=wire.encode(values, properties.secret), failures=answers.failures(problems)
        )

    async def Diff(self, request: Any, context: Context) -> Any:
        try:
            old, new = wire.decode(request.old_inputs), wire.decode(request.news)
            state = wire.decode(request.olds).values
            if _type(request.urn) == OWNERSHIP:
                owner = ownership.parse_id(request.id)[1]
                ledger = await self._in_world(
                    request.urn,
                    new.values["world"],
                    new.values,
                    lambda world: self._budgets.ledger(world, owner, (), new.values, state),
                )
                verdict = diff.ownership(
                    old.values, new.values, counted=ownership.is_counted(ledger, state)
                )
                if verdict.replaces:
                    from providers.plugin import inputs, moving

                    worlds = (str(old.values.get("world")), str(new.values.get("world")))
                    await asyncio.to_thread(
                        moving.refuse, *worlds, inputs.settings_of(new.values), self._asked
                    )
            else:
                await self._claim(outputs.read(request.id, state), new.values)
                verdict = self._cluster_verdict(request, old.values, new.values, state)
                if verdict.replaces:
                    await self._still_there(request.urn, new.values)
                if any(change.replaces and change.path != "status" for change in verdict.changes):
                    # What runs is not given up for a declaration that nothing can serve. (What was
                    # taken back may go: no edit is the cause.)
                    verdict = await self._kept_if_refused(request.urn, new.values, verdict)
                if not verdict.changes:
                    self._siblings.begin(str(new.values.get("cluster")))
        except Exception as error:
            await self._abort(context, error)
        response = provider_pb2.DiffResponse(
            changes=(
                provider_pb2.DiffResponse.DIFF_SOME
                if verdict.changes
                else provider_pb2.DiffResponse.DIFF_NONE
            ),
            deleteBeforeReplace=verdict.replaces,
            hasDetailedDiff=True,
        )
        for change in verdict.changes:
            response.detailedDiff[change.path].CopyFrom(
                provider_pb2.PropertyDiff(
                    kind=_KINDS[change.kind, change.replaces], inputDiff=change.is_input
                )
            )
            key = change.path.partition(".")[0].partition("[")[0]
            if key not in response.diffs:
                response.diffs.append(key)
            if change.replaces and key not in response.replaces:
                response.replaces.append(key)
        return response

    def _cluster_verdict(
        self, request: Any, old: dict[str, Any], new: dict[str, Any], state: dict[str, Any]
    ) -> diff.Verdict:
        held = outputs.read(request.id, state)
        seen = self._seen.get(request.urn, PreviewContext())

        def ask() -> Ask:
            from providers.plugin import inputs

            known = {key: value for key, value in new.items() if not diff.has_unknown(value)}
            return inputs.spec_of(known).ask() if seen.ask is None else seen.ask

        def satisfied() -> bool:
            from providers.planner.check import satisfied as still

            return still(ask(), held) is not None

        def outgrown() -> str:
            from providers.adapters import registry
            from providers.engine.market import host_fit
            from providers.planner.check import satisfied as still

            wanted = ask()
            index = still(wanted, held)
            return (
                ""
                if index is None
                else host_fit.outgrown(wanted, wanted.entries[index], held, registry.manifests())
            )

        in_place: frozenset[str] = frozenset()
        if held.provider and any(
            old.get(key) != new.get(key) for key in (*diff.IN_PLACE, "options")
        ):
            from providers.adapters import registry

            able = registry.capabilities().get(held.provider)
            # Where no timer on the machine was given the limit, whoever looks reads it anew.
            in_place = (
                able.in_place | (frozenset() if able.ends_idle else {"idle_after"})
                if able is not None
                else frozenset()
            )
        verdict = diff.cluster(old, new, state, satisfied, in_place, outgrown)
        if new.get("state") == "stopped":
            preconditions.stop(held, verdict)
        reclaims = old.get("reclaim") != new.get("reclaim")
        action = (
            REPLACE
            if verdict.replaces
            else RECLAIM
            if reclaims
            else UPDATE
            if verdict.changes
            else KEEP
        )
        self._seen[request.urn] = seen._replace(
            held=held, action=action, reason=verdict.reason, later=verdict.later
        )
        return verdict

    async def _kept_if_refused(
        self, urn: str, values: Mapping[str, Any], verdict: diff.Verdict
    ) -> diff.Verdict:
        """The verdict, without a replacement where no place can serve it: the update says so. An
        error here would end the other clusters' run.
        """
        try:
            await self._planned(urn, values)
        except GpusError as error:
            self._seen[urn] = self._seen[urn]._replace(action=UPDATE, refused=error)
            return verdict._replace(
                changes=tuple(change._replace(replaces=False) for change in verdict.changes)
            )
        return verdict

    async def _refused(
        self, context: Context, request: Any, values: Mapping[str, Any], error: Exception
    ) -> None:
        """Ends the call with the error, after the other clusters have been begun. The preview of an
        `up` only shows it: they are to be bought.
        """
        name = str(values.get("cluster"))
        fails = siblings.only_previews() if request.preview else True
        if fails is False:
            self._log("error", request.urn, grpc_errors.line(error))
            return
        if fails is None:
            self._log(
                "info",
                request.urn,
                "a preview that finds no place fails; `pulumi up --skip-preview` acquires the other"
                " clusters",
            )
        told = self._shown if request.preview else self._siblings
        told.begin(name)
        await told.others(name, self._declared)
        await self._abort(context, error)

    async def _still_there(self, urn: str, values: Mapping[str, Any]) -> None:
        """Notes where what is to be replaced is deleted already: a run was cut short between the
        deletion and the purchase.
        """
        from providers.plugin import inputs
        from providers.plugin import preview as plans

        seen = self._seen[urn]
        if seen.held is not None and await asyncio.to_thread(
            plans.deleted, str(values["world"]), inputs.settings_of(values), seen.held
        ):
            self._seen[urn] = seen._replace(held=None)

    async def _planned(self, urn: str, values: Mapping[str, Any]) -> None:
        """Makes and keeps the plan of a checked cluster. Raises GpusError where nothing is
        acceptable; then the table is shown too.
        """
        from providers.engine.market import planning
        from providers.planner import render
        from providers.plugin import inputs
        from providers.plugin import preview as plans

        seen, name = self._seen.get(urn, PreviewContext()), str(values.get("cluster"))
        if seen.ask is None or seen.plan is not None:
            return
        settings = inputs.settings_of(values)
        replaces = (
            seen.action == REPLACE
            and seen.held is not None
            and seen.held.status not in (ENDED, PREEMPTED)
        )
        plan = await asyncio.to_thread(
            planning.walked,
            seen.ask,
            setup=seen.setup,
            world=str(values["world"]),
            settings=settings,
            replaces=replaces,
        )
        planning.presentable(plan, name)
        if not plan.candidates:
            self._log("info", urn, render.as_text(plan, plans.WIDTH, title=name))
            raise GpusError(plans.refusal(name, plan, seen))
        setup = seen.setup
        assert setup is not None
        limit = await self._in_world(
            urn,
            str(values["world"]),
            values,
            lambda world: self._budgets.previewed(world, values, plan.ask, setup, plan),
        )
        self._seen[urn] = seen._replace(plan=plan, limit=limit)

    async def _preview_create(self, urn: str, values: dict[str, Any]) -> None:
        """What a preview has to know of a cluster that is made: what it replaces, where the engine
        did not ask for the difference, and the plan.
        """
        from providers.plugin import inputs
        from providers.plugin import preview as plans

        seen = self._seen.get(urn, PreviewContext())
        if seen.action != REPLACE:
            settings = inputs.settings_of(values)
            found = await asyncio.to_thread(
                plans.standing, str(values["world"]), settings, seen.owner, str(values["cluster"])
            )
            held, action = found or (None, CREATE)
            self._seen[urn] = seen._replace(
                action=action,
                held=held,
                reason="asked for (--replace, or tainted)" if action == REPLACE else "",
            )
        await self._planned(urn, values)

    async def Create(self, request: Any, context: Context) -> Any:
        properties = wire.decode(request.properties)
        values = properties.values
        try:
            if _type(request.urn) == OWNERSHIP:
                return await self._create_ownership(request.urn, values, preview=request.preview)
            if values.get("state") == "stopped":
                raise SpecError(
                    [
                        Problem(
                            "state",
                            "running, for machines that are not there yet",
                            "stopped",
                            "none is bought to be stopped",
                        )
                    ]
                )
            if request.preview:
                try:
                    await self._preview_create(request.urn, values)
                except GpusError as error:
                    await self._refused(context, request, values, error)
                return provider_pb2.CreateResponse(properties=wire.encode(answers.unplaced(values)))
            from providers.plugin import inputs

            wanted = inputs.wanted(values)
        except Exception as error:
            await self._abort(context, error)
        self._siblings.begin(wanted.cluster)
        generation = _token()

        async def work(world: World) -> ClusterRecord:
            from providers.engine import operations
            from providers.engine.reconcile.lost_both import emptied

            try:
                return await operations.create(
                    world, wanted._replace(budget=await self._budgets.of(world, values)), generation
                )
            except TakenOver:
                raise
            except GpusError as error:
                before = self._deleted.get(request.urn)
                if before is None:
                    raise
                raise emptied(before, wanted, generation, error) from error

        held = await self._under_way(
            context, request.urn, values, lambda world: answers.or_emptied(work(world))
        )
        return await self._answer(
            context,
            held,
            wanted.setup,
            values,
            lambda struct: provider_pb2.CreateResponse(
                id=outputs.resource_id(held), properties=struct
            ),
        )

    async def _create_ownership(self, urn: str, values: dict[str, Any], *, preview: bool) -> Any:
        world = values["world"]
        owner = "" if preview else _token()

        async def counted(opened: World) -> Ledger | None:
            return await self._budgets.ledger(
                opened, owner, await ownership.former_owners(opened, urn), values, {}
            )

        ledger = await self._in_world(urn, world, values, counted)
        if preview:
            return provider_pb2.CreateResponse(
                properties=wire.encode({"world": world, "owner_id": wire.UNKNOWN})
            )
        former: tuple[PlacementRow, ...] = await self._in_world(
            urn, world, values, lambda opened: ownership.minted(opened, owner, urn)
        )
        for launch in former:
            self._log("warning", urn, ownership.of_another(launch))
        written = ownership.outputs(world, owner, {}, values, ledger=ledger)
        return provider_pb2.CreateResponse(id=f"{world}/{owner}", properties=wire.encode(written))

    async def Read(self, request: Any, context: Context) -> Any:
        state, old = wire.decode(request.properties).values, wire.decode(request.inputs)
        if _type(request.urn) == OWNERSHIP:
            return await self._read_ownership(request, context, old.values, state)
        if not state:
            return await self._adopt(request, context, old.values)
        setup = preconditions.setup_of(old.values)
        policy = () if setup is None else (setup.on_loss,)
        frees = (
            {"frees": True}
            if setup is not None and setup.idle_s and setup.on_ttl == "release"
            else {}
        )
        try:
            held = outputs.read(request.id, state)
            await self._claim(held, old.values)
            look = self._in_world(
                request.urn,
                held.world,
                old.values,
                lambda world: _engine().read(world, held, *policy, **frees),
            )
            seen: ClusterRecord | None = await _in_time(look)
        except Exception as error:
            # An error here would stop every command, destroy too (tried): what is not known stays
            # as it was.
            self._log(
                "warning",
                request.urn,
                f"could not be looked at and is kept as it was: {grpc_errors.line(error)}",
            )
            return provider_pb2.ReadResponse(
                id=request.id, properties=request.properties, inputs=request.inputs
            )
        if seen is None:
            return provider_pb2.ReadResponse()
        return await self._answer(
            context,
            seen,
            setup,
            old.values,
            lambda struct: provider_pb2.ReadResponse(
                id=outputs.resource_id(seen), properties=struct, inputs=request.inputs
            ),
            before=state,
        )

    async def _read_ownership(
        self, request: Any, context: Context, values: dict[str, Any], state: dict[str, Any]
    ) -> Any:
        try:
            world_name, owner = ownership.parse_id(request.id)
        except GpusError as error:
            await self._abort(context, error)

        async def counted(world: World) -> Ledger | None:
            ledger = await self._budgets.ledger(world, owner, (), values, state)
            return (
                None
                if ledger is None
                else await budget.settled(world, owner, ledger, ownership.former(state))
            )

        async def looked(world: World) -> tuple[tuple[Node, ...], tuple[ClaimRow, ...]]:
            return await ownership.strays(
                world,
                owner,
                request.urn,
                lambda: self._claims_of(world_name, owner),
                ownership.former(state),
                self._turn,
            )

        left: list[str] = []
        # Meanwhile: a cloud that does not answer holds both up for the same time.
        counting = asyncio.create_task(self._in_world(request.urn, world_name, values, counted))
        try:
            found, claims = await _in_time(self._in_world(request.urn, world_name, values, looked))
            for node in found:
                self._log("warning", request.urn, ownership.unclaimed(node))
            made = (
                await self._in_world(
                    request.urn, world_name, values, lambda world: ownership.ours(world, owner)
                )
                if found
                else frozenset()
            )
            left = [
                node.handle.native_id
                for node in found
                if ownership.is_orphan(node, claims, (), made)
            ]
        except Exception as error:
            self._log(
                "warning", request.urn, f"strays could not be looked for: {grpc_errors.line(error)}"
            )

        ledger = await counting
        struct = wire.encode(
            {**state, "world": world_name, "owner_id": owner, **ownership.spending(ledger)}
        )
        kept = request.inputs if values else wire.encode({"world": world_name})
        if left and values:
            # The engine then asks for an update, which releases them.
            reason = (
                f"orphaned: {', '.join(left)} has this stack's labels, yet no cluster claims it"
            )
            metadata = (
                (
                    "grpc-status-details-bin",
                    answers.init_failed(request.id, struct, (reason,), values),
                ),
            )
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, screened(reason), trailing_metadata=metadata
            )
        return provider_pb2.ReadResponse(id=request.id, properties=struct, inputs=kept)

    def _claims_of(self, world: str, owner: str) -> dict[str, tuple[Handle, ...]]:
        """Generation -> the machines that a state was seen to hold in this process."""
        return {
            generation: handles
            for (name, whose, generation), handles in self._claimed.items()
            if (name, whose) == (world, owner)
        }

    async def _adopt(self, request: Any, context: Context, values: dict[str, Any]) -> Any:
        """`pulumi import`: of one of our ids, or of a bare native one, which is a machine that
        somebody else made or lost.
        """
        from providers.plugin import import_machine

        try:
            found = await self._in_world(
                request.urn,
                import_machine.world_of(request.id),
                values,
                lambda world: import_machine.find(world, import_machine.native_id(request.id)),
            )
        except Exception as error:
            await self._abort(context, error)
        # Under no name yet: an import reads twice, and what it shows first must not stand in its
        # own way.
        await self._claim(found._replace(cluster=""), {})
        return provider_pb2.ReadResponse(
            id=outputs.resource_id(found),
            properties=wire.encode(outputs.write(found)),
            inputs=wire.encode(import_machine.inputs_of(found)),
        )

    async def Update(self, request: Any, context: Context) -> Any:
        old_inputs, news = wire.decode(request.old_inputs), wire.decode(request.news)
        state, values = wire.decode(request.olds).values, news.values
        if _type(request.urn) == OWNERSHIP:
            return await self._update_ownership(request, context, old_inputs.values, values, state)
        if request.preview:
            seen = self._seen.get(request.urn, PreviewContext())
            if seen.action == KEEP:
                self._seen[request.urn] = seen._replace(action=UPDATE)
            if seen.refused is not None:
                await self._refused(context, request, values, seen.refused)
            return provider_pb2.UpdateResponse(properties=request.olds)
        if (refused := self._seen.get(request.urn, PreviewContext()).refused) is not None:
            await self._refused(context, request, values, refused)
        try:
            from providers.plugin import inputs

            wanted = inputs.wanted(values)
            held = outputs.read(request.id, state)
        except Exception as error:
            await self._abort(context, error)
        self._siblings.begin(wanted.cluster)
        reclaims = old_inputs.values.get("reclaim") != values.get("reclaim")

        async def work(world: World) -> ClusterRecord:
            engine = _engine()
            paid = wanted._replace(budget=await self._budgets.of(world, values))
            result: ClusterRecord = await (engine.reclaim if reclaims else engine.update)(
                world, held, paid
            )
            return result

        after = await self._under_way(
            context,
            request.urn,
            values,
            lambda world: answers.or_emptied(work(world)),
            world=held.world,
        )
        return await self._answer(
            context,
            after,
            wanted.setup,
            values,
            lambda struct: provider_pb2.UpdateResponse(properties=struct),
            before=state,
        )

    async def _update_ownership(
        self,
        request: Any,
        context: Context,
        old: dict[str, Any],
        values: dict[str, Any],
        state: dict[str, Any],
    ) -> Any:
        """Other settings: what a run that was cut short left in the former accounts is settled
        first; the accounts themselves are kept in mind.
        """
        if request.preview:
            return provider_pb2.UpdateResponse(properties=request.olds)
        try:
            world, owner = ownership.parse_id(request.id)
        except GpusError as error:
            await self._abort(context, error)
        if old.get("settings") != values.get("settings"):
            await self._under_way(
                context,
                request.urn,
                values,
                lambda opened: _engine().leave(opened, owner),
                world=world,
            )
        try:
            known = (self._claims_of(world, owner), tuple(self._asked), ownership.former(state))
            await self._in_world(
                request.urn,
                world,
                values,
                lambda opened: ownership.orphans_released(opened, owner, *known),
            )
        except GpusError as error:
            self._log(
                "warning",
                request.urn,
                f"what runs left behind could not be released: {grpc_errors.line(error)}",
            )
        ledger = await self._in_world(
            request.urn,
            world,
            values,
            lambda opened: self._budgets.ledger(opened, owner, (), values, state),
        )
        written = ownership.outputs(world, owner, state, old, values, ledger=ledger)
        return provider_pb2.UpdateResponse(properties=wire.encode(written))

    async def Delete(self, request: Any, context: Context) -> Any:
        values, state = (
            wire.decode(request.old_inputs).values,
            wire.decode(request.properties).values,
        )

        async def work(world: World) -> None:
            await asyncio.to_thread(copies.refuse, world, request.id.split("/")[1], request.urn)
            if _type(request.urn) == OWNERSHIP:
                await _engine().settle(
                    world, ownership.parse_id(request.id)[1], ownership.former(state)
                )
            else:
                held = outputs.read(request.id, state)
                await _engine().delete(world, held)
                if held.handles:
                    self._deleted[request.urn] = held

        try:
            world = request.id.partition("/")[0]
            (
                ownership.parse_id(request.id)
                if _type(request.urn) == OWNERSHIP
                else outputs.parse_id(request.id)
            )
        except Exception as error:
            await self._abort(context, error)
        await self._under_way(context, request.urn, values, work, world=world)
        return empty_pb2.Empty()

    async def Invoke(self, request: Any, context: Context) -> Any:
        if request.tok not in (PLAN, CHECK):
            await _refuse(context, f"unknown function {request.tok!r}")
        arguments = wire.decode(request.args).known()
        if request.tok == CHECK:
            return await self._check_all(context, arguments)
        urn = str(arguments.get("urn", ""))
        try:
            from providers.plugin import preview as plans

            seen = self._seen.get(urn)
            if seen is not None and seen.ask is None and "gpu" not in arguments:
                text = "the GPU is not known yet, so neither are places and prices"
                result: dict[str, Any] = {
                    "text": text,
                    "candidates": 0,
                    "change": "unknown",
                    "warnings": [],
                }
            else:
                if seen is not None and not seen.limit and seen.inputs:
                    values = seen.inputs
                    limit = await self._in_world(
                        urn,
                        str(values["world"]),
                        values,
                        lambda world: self._budgets.standing(world, values),
                    )
                    seen = seen._replace(limit=limit)
                result = await asyncio.to_thread(
                    plans.answer, arguments, seen, tuple(self._declared)
                )
        except SpecError as error:
            return provider_pb2.InvokeResponse(failures=answers.failures(error.problems))
        except Exception as error:
            await self._abort(context, error)
        if request.preview and urn:
            self._log("info", urn, result["text"])
        self._shown.begin(str(arguments.get("cluster")))
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(wire.encode(result))
        return response

    async def _check_all(self, context: Context, arguments: dict[str, Any]) -> Any:
        """The problems of all the clusters of a stack at once, before any of them is registered."""
        try:
            from providers.plugin import inputs

            self._asked = dict(arguments.get("clusters") or {})
            self._declared.update(self._asked)
            problems = await asyncio.to_thread(inputs.check_all, arguments)
        except Exception as error:
            await self._abort(context, error)
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(wire.encode({"problems": problems}))
        return response

    # What the calls share.

    async def _in_world(
        self, urn: str, name: str, values: Mapping[str, Any], work: Callable[[World], Awaitable[T]]
    ) -> T:
        """The work's result, in a world whose lines go to the resource.

        A world stays open for the process's life and serves all its resources: connecting to a
        cloud costs half a second.
        """
        from providers.engine.runtime.world import open_world
        from providers.plugin.inputs import settings_of

        settings = settings_of(values)
        key = (name, repr(sorted(settings.items())))
        if key not in self._worlds:
            self._worlds[key] = open_world(
                name,
                settings,
                lambda severity, text: self._log(severity, _urn.get(), text),
                share=self._share,
            )
        token = _urn.set(urn)
        try:
            return await work(self._worlds[key])
        finally:
            _urn.reset(token)

    async def _under_way(
        self,
        context: Context,
        urn: str,
        values: Mapping[str, Any],
        work: Callable[[World], Awaitable[T]],
        *,
        world: str = "",
    ) -> T:
        """The result of work that changes a cloud: in its own task, which goes on until it is
        settled when the call is cancelled.
        """
        task = self._keep(self._in_world(urn, world or str(values["world"]), values, work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The engine of this product then starts no further attempt, and releases what was made
            # meanwhile: no state will ever name it.
            task.cancel()
            raise
        except Exception as error:
            await self._siblings.others(str(values.get("cluster")), self._declared)
            await self._abort(context, error)

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # After a cancelled call nobody waits for the result: an error there is in the journal, not
        # on the screen.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _answer(
        self,
        context: Context,
        held: ClusterRecord,
        setup: Setup | None,
        values: Mapping[str, Any],
        response: Callable[[Any], Any],
        *,
        before: Mapping[str, Any] | None = None,
    ) -> Any:
        """The response, or the protocol's way to say that it exists, and what is still to be done."""
        await self._claim(held, values)
        struct = await asyncio.to_thread(answers.written, held, setup, values, before)
        if not held.reasons:
            return response(struct)
        await self._siblings.others(held.cluster, self._declared)
        metadata = (("grpc-status-details-bin", answers.half_made(held, struct, values)),)
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            screened(held.reasons[0]),
            trailing_metadata=metadata,
        )
        raise AssertionError

    async def _claim(self, held: ClusterRecord, values: Mapping[str, Any]) -> None:
        """Writes down, once a process, that a state names this generation and these machines:
        whatever else bears the mark is a stray. Where money is counted, what it costs too: another
        machine may have bought it.
        """
        handles = (*held.handles, *held.leftovers)
        key = (held.world, held.owner, held.generation)
        if held.cluster and self._claimed.get(key) == handles:
            return

        async def work(world: World) -> None:
            if world.has_journal:
                async with self._turn:
                    await asyncio.to_thread(
                        world.journal.claim,
                        held.world,
                        held.owner,
                        held.cluster,
                        held.generation,
                        handles,
                    )
                    if held.cluster:
                        self._claimed[key] = handles
            if held.cluster and budget.limit(values) is not None:
                await budget.remembered(world, held)

        import contextlib

        # A journal that can't be written stops what buys; a look goes on without it.
        with contextlib.suppress(GpusError):
            same = next(
                (world for (name, _), world in self._worlds.items() if name == held.world), None
            )
            await (
                work(same) if same is not None else self._in_world(_urn.get(), held.world, {}, work)
            )
            if held.cluster:
                self._claimed[key] = handles

    async def _abort(self, context: Context, error: Exception) -> NoReturn:
        """Ends the call with one clean line (or the few that list attempts)."""
        if isinstance(error, grpc.aio.AbortError):
            raise error
        await context.abort(grpc_errors.code(error), grpc_errors.line(error))
        raise AssertionError

    def _log(self, severity: str, urn: str, text: str) -> None:
        """A line under the resource. Lost when the engine is gone; never in the way."""
        if not self._engine:
            return
        if self._stub is None:
            self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(self._engine))
        import contextlib

        from providers.plugin.preview import fitted

        with contextlib.suppress(grpc.RpcError):
            level = _SEVERITIES.get(severity, engine_pb2.INFO)
            # What is only under way shows beside the resource while it lasts, and is not kept among
            # the diagnostics.
            self._stub.Log(
                engine_pb2.LogRequest(
                    severity=level,
                    message=fitted(screened(text)),
                    urn=urn,
                    ephemeral=severity == "progress",
                ),
                timeout=_LOG_LIMIT_S,
            )


async def _in_time(look: Awaitable[T]) -> T:
    """The look's result. Raises GpusError where no answer came in time: what is not known stays as
    it was.
    """
    try:
        return await asyncio.wait_for(look, LOOK_LIMIT_S)
    except TimeoutError as error:
        raise GpusError(f"no answer within {LOOK_LIMIT_S:.0f}s") from error


def _engine() -> Any:
    from providers.engine import operations

    return operations


def _type(urn: str) -> str:
    """The resource's own type: `urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`."""
    parts = urn.split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 3 else ""


def _token() -> str:
    """Twelve random hex digits: short enough for a label, too many to meet twice."""
    import secrets

    return secrets.token_hex(6)


async def _refuse(context: Context, text: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    raise AssertionError
