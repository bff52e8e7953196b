"""The Cluster's half of the protocol: check, diff, create, read, update, delete.

Owns which engine call serves which request, and what the engine is asked to keep of the answer. An
error is raised; `servicer` ends the call with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pulumi.runtime.proto import provider_pb2

from providers.errors import GpusError, Problem, SpecError, TakenOver
from providers.plugin import (
    copies,
    diff,
    grpc_errors,
    outputs,
    preconditions,
)
from providers.plugin.cluster_plan import Plans
from providers.plugin.preview import KEEP, RECLAIM, REPLACE, UPDATE
from providers.plugin.properties import decode, encode
from providers.plugin.session import in_time, new_token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.plugin.diff import Verdict
    from providers.plugin.properties import Properties
    from providers.plugin.session import Session


def _renewed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs from a state, in the present spelling."""
    from providers.adapters import registry
    from providers.model.retired import renewed

    manifests = registry.manifests().items()
    return renewed(inputs, {name: each.programs.options for name, each in manifests})


class Clusters:
    """The clusters of one process. A `request` is the protocol's message."""

    def __init__(self, session: Session) -> None:
        self.plans = Plans(session)
        self._session = session
        self._deleted: dict[str, ClusterRecord] = {}
        """What this process deleted, by URN: where it is replaced, a purchase that fails has to
        name it.
        """

    def check(self, urn: str, properties: Properties) -> tuple[dict[str, Any], tuple[Problem, ...]]:
        """The canonical inputs, and all that is wrong with them."""
        from providers.plugin import inputs

        checked = inputs.check(properties)
        self.plans.start(urn, checked)
        self._session.declared.add(str(checked.values.get("cluster")))
        return checked.values, checked.problems

    async def diff(self, request: Any) -> Verdict:
        """What an edit changes, and whether it replaces."""
        old, new = _renewed(decode(request.old_inputs).values), decode(request.news).values
        state = decode(request.olds).values
        await self._session.claim(outputs.read(request.id, state), new)
        verdict = self._verdict(request, old, new, state)
        if verdict.replaces:
            await self.plans.note_deleted(request.urn, new)
        if any(change.replaces and change.path != "status" for change in verdict.changes):
            # What runs is not given up for a declaration that nothing can serve. (What was
            # preempted may go: no edit is the cause.)
            verdict = await self.plans.kept_if_unserved(request.urn, new, verdict)
        if not verdict.changes:
            self._session.begun.begin(str(new.get("cluster")))
        return verdict

    def _verdict(
        self, request: Any, old: dict[str, Any], new: dict[str, Any], state: dict[str, Any]
    ) -> Verdict:
        record = outputs.read(request.id, state)
        known = self.plans.of(request.urn)

        def ask() -> Ask:
            from providers.plugin import inputs

            values = {key: value for key, value in new.items() if not diff.has_unknown(value)}
            return inputs.spec_of(values).ask() if known.ask is None else known.ask

        def satisfied() -> bool:
            from providers.planner.check import satisfied as still

            return still(ask(), record.placement) is not None

        def outgrown() -> str:
            from providers.adapters import registry
            from providers.engine.market import host_fit
            from providers.planner.check import satisfied as still

            asked = ask()
            index = still(asked, record.placement)
            if index is None:
                return ""
            return host_fit.outgrown(asked, asked.entries[index], record, registry.manifests())

        verdict = diff.cluster(
            old, new, record, satisfied, _changed_in_place(record, old, new), outgrown
        )
        if new.get("state") == "stopped":
            preconditions.check_stop(record, verdict)
        reclaims = diff.asked(old, "reclaim") != diff.asked(new, "reclaim")
        action = (
            REPLACE
            if verdict.replaces
            else RECLAIM
            if reclaims
            else UPDATE
            if verdict.changes
            else KEEP
        )
        self.plans.note(
            request.urn,
            record=record,
            action=action,
            reason=verdict.reason,
            later=verdict.later,
            edited=any(change.is_input for change in verdict.changes),
        )
        return verdict

    async def create(self, request: Any) -> tuple[str, Any]:
        """(id, outputs); at preview no id, and outputs as far as they are known."""
        values = decode(request.properties).values
        if values.get("state") == "stopped":
            asked = "running, for machines that are not there yet"
            raise SpecError([Problem("state", asked, "stopped", "none is bought to be stopped")])
        if request.preview:
            try:
                await self.plans.before_create(request.urn, values)
            except GpusError as error:
                await self.plans.refuse(request.urn, values, error, preview=True)
            return "", encode(outputs.unplaced(values))
        from providers.plugin import inputs

        spec = inputs.cluster_spec_of(values)
        self._session.begun.begin(spec.cluster)
        generation = new_token()

        async def work(world: World) -> ClusterRecord:
            from providers.engine import operations
            from providers.engine.reconcile.lost_both import emptied

            await copies.refuse_copy(world, spec.owner, request.urn)
            try:
                paid = spec._replace(budget=await self._session.budgets.of(world, values))
                return await operations.create(world, paid, generation)
            except TakenOver:
                raise
            except GpusError as error:
                previous = self._deleted.get(request.urn)
                if previous is None:
                    raise
                raise emptied(previous, spec, generation, error) from error

        record = await self._session.under_way(
            request.urn, values, lambda world: _or_emptied(work(world))
        )
        return outputs.resource_id(record), await self._answer(record, spec.setup, values, None)

    async def read(self, request: Any) -> Any:
        """The response to a refresh; an empty one where the cluster is gone."""
        state, values = decode(request.properties).values, _renewed(decode(request.inputs).values)
        if not state:
            return await self._import(request, values)
        setup = preconditions.setup_of(values)
        policy = () if setup is None else (setup.on_loss,)
        frees: dict[str, Any] = (
            {"frees": True}
            if setup is not None and setup.idle_s and setup.on_ttl == "release"
            else {}
        )
        try:
            from providers.engine import operations

            record = outputs.read(request.id, state)
            await self._session.claim(record, values)

            async def observed(world: World) -> ClusterRecord | None:
                first = await asyncio.to_thread(copies.original, world, record.owner, request.urn)
                # What idles is then another stack's to release.
                freeing = frees if first is None else {}
                return await operations.read(world, record, *policy, **freeing)

            found: ClusterRecord | None = await in_time(
                self._session.in_world(request.urn, record.world, values, observed), record.world
            )
        except Exception as error:
            # An error here would stop every command, destroy too (tried): what is not known stays
            # as it was.
            return grpc_errors.kept(self._session.log, request, error)
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=outputs.resource_id(found),
            properties=await self._answer(found, setup, values, state),
            inputs=request.inputs,
        )

    async def _import(self, request: Any, values: dict[str, Any]) -> Any:
        """`pulumi import`: of one of our ids, or of a bare native one, which is a machine that
        somebody else created or lost.
        """
        from providers.plugin import import_machine

        found = await self._session.in_world(
            request.urn,
            import_machine.world_of(request.id),
            values,
            lambda world: import_machine.find(world, import_machine.native_id(request.id)),
        )
        # Under no name yet: an import reads twice, and what it shows first must not stand in its
        # own way.
        await self._session.claim(found._replace(cluster=""), {})
        return provider_pb2.ReadResponse(
            id=outputs.resource_id(found),
            properties=encode(outputs.write(found)),
            inputs=encode(import_machine.inputs_of(found)),
        )

    async def update(self, request: Any) -> Any:
        """The outputs after an edit; at preview those of the state."""
        previous, values = _renewed(decode(request.old_inputs).values), decode(request.news).values
        state = decode(request.olds).values
        known = self.plans.of(request.urn)
        if request.preview and known.action == KEEP:
            self.plans.note(request.urn, action=UPDATE)
        if known.refused is not None:
            await self.plans.refuse(request.urn, values, known.refused, preview=request.preview)
        if request.preview:
            return request.olds
        from providers.plugin import inputs

        spec = inputs.cluster_spec_of(values)
        record = outputs.read(request.id, state)
        self._session.begun.begin(spec.cluster)
        reclaims = diff.asked(previous, "reclaim") != diff.asked(values, "reclaim")

        async def work(world: World) -> ClusterRecord:
            from providers.engine import operations

            await copies.refuse_copy(world, spec.owner, request.urn)
            paid = spec._replace(budget=await self._session.budgets.of(world, values))
            if reclaims:
                return await operations.reclaim(world, record, paid)
            return await operations.update(world, record, paid)

        after = await self._session.under_way(
            request.urn, values, lambda world: _or_emptied(work(world)), world=record.world
        )
        return await self._answer(after, spec.setup, values, state)

    async def delete(self, request: Any) -> None:
        """Releases a cluster. Raises GpusError for a copied state."""
        values = _renewed(decode(request.old_inputs).values)
        state = decode(request.properties).values
        world_name, owner, *_ = outputs.parse_id(request.id)

        async def work(world: World) -> None:
            from providers.engine import operations

            await asyncio.to_thread(copies.refuse, world, owner, request.urn)
            record = outputs.read(request.id, state)
            await operations.delete(world, record)
            if record.handles:
                self._deleted[request.urn] = record

        await self._session.under_way(request.urn, values, work, world=world_name)

    async def plan(self, arguments: Mapping[str, Any], *, preview: bool) -> dict[str, Any]:
        """The result of the invoke `plan`, which a preview also shows under the cluster."""
        result = await self.plans.answer(arguments)
        if preview and (urn := str(arguments.get("urn", ""))):
            self._session.log("info", urn, result["text"])
        self._session.shown.begin(str(arguments.get("cluster")))
        return result

    async def check_all(self, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
        """The problems of these clusters at once, before any of them is registered. They are all of
        the stack's, unless `complete` is false.
        """
        from providers.plugin import inputs

        if arguments.get("complete", True):
            self._session.program = dict(arguments.get("clusters") or {})
            self._session.declared.update(self._session.program)
        return await asyncio.to_thread(inputs.check_all, arguments)

    async def _answer(
        self,
        record: ClusterRecord,
        setup: Setup | None,
        values: Mapping[str, Any],
        previous: Mapping[str, Any] | None,
    ) -> Any:
        """The outputs as a struct. Raises InitFailed, the protocol's way to say that it exists and
        that something is still to be done.
        """
        await self._session.claim(record, values)
        struct = await asyncio.to_thread(outputs.struct, record, setup, values, previous)
        if record.reasons:
            await self._session.begun.others(record.cluster, self._session.declared)
            raise grpc_errors.InitFailed(
                outputs.resource_id(record), struct, record.reasons, values
            )
        return struct


def _changed_in_place(
    record: ClusterRecord, old: Mapping[str, Any], new: Mapping[str, Any]
) -> frozenset[str]:
    """The inputs that the cluster's provider changes in place;
    none where no such input is edited.
    """
    edited = any(old.get(key) != new.get(key) for key in (*diff.IN_PLACE, "options"))
    if not record.provider or not edited:
        return frozenset()
    from providers.adapters import registry

    able = registry.capabilities().get(record.provider)
    if able is None:
        return frozenset()
    # Where no timer on the machine was given the limit, whoever looks reads it again.
    return able.in_place | (frozenset() if able.ends_idle else {"idle_after"})


async def _or_emptied(work: Awaitable[ClusterRecord]) -> ClusterRecord:
    """The work's result; of a replacement that lost both machines the record of that, which a state
    keeps.
    """
    from providers.engine.reconcile.lost_both import Emptied

    try:
        return await work
    except Emptied as error:
        return error.record
