"""The verbs of one cluster: create, read, update, reclaim, delete; and of a stack's ownership:
settle, leave, orphans, import.

Owns what each of them promises. How they keep it: `launch` buys, `reconcile` decides what an
observation means and what follows (`reconcile.steps` is the table), `termination` releases.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.engine import keys
from providers.engine.journal import orders as order_table
from providers.engine.launch.buy import check_pinned, made_ready
from providers.engine.launch.search import buy_or_wait, note_wait, unrecorded
from providers.engine.launch.taken_over import confirmed
from providers.engine.messages import trimmed
from providers.engine.readiness import access
from providers.engine.reconcile.adopt import check_none, existing, imported
from providers.engine.reconcile.condition import AT_REST, condition_of
from providers.engine.reconcile.converge import converge
from providers.engine.reconcile.edit import assumed, edit
from providers.engine.reconcile.read import read_cluster
from providers.engine.reconcile.relocate import prefers, upgrade_placement
from providers.engine.reconcile.status import REPLACE_ALL
from providers.engine.reconcile.steps import another_workload
from providers.engine.record import ClusterRecord, finished
from providers.engine.runtime import deadlines
from providers.engine.runtime.accounts import of_settings, surveyed, used
from providers.engine.runtime.leases import BUY_PATIENCE_S, CLEAN_PATIENCE_S, leased, owned
from providers.engine.runtime.tasks import StopSignal, shielded
from providers.engine.termination.end import end, end_all, end_elsewhere
from providers.engine.termination.lost import with_lost
from providers.engine.termination.settle import release
from providers.engine.termination.without_journal import undeterred
from providers.errors import CloudError, Problem, SpecError
from providers.model.machine import ENDED, STOPPED, Handle, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.runtime.world import World


async def create(world: World, spec: ClusterSpec, generation: str) -> ClusterRecord:
    """Gets the cluster: takes over what an earlier run left if it serves, clears away what does
    not, then buys by the plan.

    Returns with `reasons` when something is there, or may be, that is not what was asked for.
    Raises AllFailed, Busy, NotConfigured, OutcomeUnknown (an earlier order cannot be settled) and
    other GpusErrors; then nothing of this generation exists. When the caller is cancelled, what was
    made is released before the cancellation goes on.
    """
    if spec.setup.state == STOPPED:
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

    async def work(stop: StopSignal) -> ClusterRecord:
        async with owned(world, spec.owner, spec.cluster, generation, BUY_PATIENCE_S, stop):
            await check_pinned(world, spec)
            with keys.kept(world, spec.owner, spec.cluster):
                able = await access.equipped(world, spec)
                adopted, lost = await existing(world, able, generation, stop)
                if adopted is not None:
                    known = assumed(world, adopted, able)
                    edited = await edit(world, known, able, another_workload, stop)
                    if (ready := await made_ready(world, edited, able, stop)) is not None:
                        note_wait(world, ready, spec)
                        ready = with_lost(ready, lost)
                        return await confirmed(world, ready, stop, ready.handles)
                    check_none(spec, lost)
                bought = await buy_or_wait(world, able, generation, stop, unrecorded(world, able))
                note_wait(world, bought, spec)
                return await confirmed(world, bought, stop)

    async def undo(record: ClusterRecord) -> None:
        async def undone(world: World) -> None:
            async with leased(world, record.owner, (record.cluster,), CLEAN_PATIENCE_S):
                await end(world, record)
                keys.tidied(world, record.owner, record.cluster)

        await undeterred(world, record.cluster, undone)

    return await shielded(world, work, undo)


async def read(
    world: World, record: ClusterRecord, on_loss: str = REPLACE_ALL, *, frees: bool = False
) -> ClusterRecord | None:
    """What is there now. None: all of it is gone, and not by its own limit; the place is then
    blocked in the journal for a while.

    `on_loss` is what the declaration says of a partial loss: it decides what the reasons say, and
    whether there are any. `frees`: what remains of a machine that ended itself is to go.

    A provider that can't be reached, or gives no answer within `deadlines.LOOK_LIMIT_S`, changes
    nothing but `detail`: the same record comes back, with a warning. Raises no CloudError.
    """
    try:
        with deadlines.looking(world.name):
            after = await read_cluster(world, record, on_loss)
    except CloudError as error:
        world.report(
            "warning",
            f"{record.cluster}: {record.provider} could not be asked, so it is kept as it was:"
            f" {trimmed(error)}{deadlines.todo(error)}",
        )
        # How a job ended is known for good.
        return (
            record if finished(record) else record._replace(detail=f"unreachable: {trimmed(error)}")
        )
    if (
        after is not None
        and frees
        and after.status == ENDED
        and after.machines
        and record.kind == "machine"
        and not after.reasons
    ):
        # Some clouds only stop a machine that powered itself off.
        world.report(
            "info",
            f"{record.cluster}: it stopped itself, and its disks are billed until the next `up`"
            " deletes it",
        )
        return after._replace(to_release=True)
    return after


async def update(world: World, record: ClusterRecord, spec: ClusterSpec) -> ClusterRecord:
    """Converges a cluster to its declaration under the same id: edits in place what can be, waits
    on, settles, repairs, or places anew.

    What ended by its own limit stays ended. Returns with `reasons` while something is still to be
    done. Raises as `create` does.
    """

    async def work(stop: StopSignal) -> ClusterRecord:
        async with owned(
            world, record.owner, record.cluster, record.generation, BUY_PATIENCE_S, stop
        ):
            after = (await converge(world, record, await access.equipped(world, spec), stop))[0]
            note_wait(world, after, spec, record)
            return await confirmed(world, after, stop, (*record.handles, *record.leftovers))

    return await shielded(world, work, None)


async def reclaim(world: World, record: ClusterRecord, spec: ClusterSpec) -> ClusterRecord:
    """Acquires a placement that the declaration prefers to the present one, and only then releases
    that; keeps it if nothing better is available.
    """

    async def work(stop: StopSignal) -> ClusterRecord:
        async with owned(
            world, record.owner, record.cluster, record.generation, BUY_PATIENCE_S, stop
        ):
            able = await access.equipped(world, spec)
            now, taken = await converge(
                world, record, able, stop, lambda present, found: prefers(able, present, found)
            )
            after = (
                now
                if taken or now.reasons or condition_of(now) in AT_REST
                else await upgrade_placement(world, now, able, stop)
            )
            note_wait(world, after, spec, record)
            return await confirmed(world, after, stop, (*record.handles, *record.leftovers))

    return await shielded(world, work, None)


async def delete(world: World, record: ClusterRecord) -> None:
    """Deletes everything of this generation and confirms it; what another generation has taken over
    is not touched. Again is fine.

    Needs no journal: see `undeterred`. Raises HalfMade naming what may still cost money, Busy while
    another process is at work on the cluster.
    """

    async def deleted(world: World, stop: StopSignal) -> None:
        async with owned(
            world,
            record.owner,
            record.cluster,
            record.generation,
            CLEAN_PATIENCE_S,
            stop,
            buys=False,
        ):
            await end(world, record)
            world.journal.destroyed(world.name, record.owner, record.cluster, record.generation)
            if record.search is not None:
                world.journal.waits_no_more(world.name, record.owner, record.cluster)
            keys.tidied(world, record.owner, record.cluster)

    await shielded(
        world,
        lambda stop: undeterred(world, record.cluster, lambda opened: deleted(opened, stop)),
        None,
    )


async def settle(
    world: World, owner: str, previous: Iterable[Mapping[str, Mapping[str, str]]] = ()
) -> tuple[Node, ...]:
    """Settles every order of the owner and deletes, confirmed, everything that carries its label;
    returns the machines that were found.

    Looks in every account that the owner has used, as the journal knows and as `previous` names
    them (whole settings, from the stack's own state). Needs no journal: see `undeterred`. Raises
    HalfMade naming what could not be confirmed gone.
    """

    async def settled(world: World) -> tuple[Node, ...]:
        pending = {
            entry.order.label.cluster
            for entry in world.journal.orders(world.name, owner, states=order_table.PENDING)
        }
        async with leased(
            world,
            owner,
            sorted(pending | set(world.journal.leased(world.name, owner))),
            CLEAN_PATIENCE_S,
        ):
            if world.leases is not None:
                await asyncio.to_thread(world.leases.check, world.name, owner)
            found = await end_all(world, owner, previous)
            world.journal.destroyed(world.name, owner)
            world.journal.waits_no_more(world.name, owner)
            keys.forget(world.name, owner)
            if world.leases is not None:
                await asyncio.to_thread(world.leases.forget, world.name, owner)
            return found

    return await shielded(world, lambda _stop: undeterred(world, "ownership", settled), None)


async def leave(world: World, owner: str) -> None:
    """The settings have changed: settles what runs that were cut short left in accounts that they
    no longer name.

    Raises GpusError where that can't be done, so that the settings do not move on without it.
    """

    async def work(_stop: StopSignal) -> None:
        await end_elsewhere(world, owner)

    await shielded(world, work, None)


async def orphans(
    world: World,
    owner: str,
    known: Collection[Handle],
    previous: Iterable[Mapping[str, Mapping[str, str]]] = (),
) -> tuple[Node, ...]:
    """Machines of the owner that are none of these, in every account it has used. Reads only; a
    cloud that can't be asked is a warning.
    """
    return tuple(node for _, node in await _orphans(world, owner, known, previous))


async def _orphans(
    world: World,
    owner: str,
    known: Collection[Handle],
    previous: Iterable[Mapping[str, Mapping[str, str]]],
) -> list[tuple[Cloud, Node]]:
    try:
        with deadlines.looking(world.name):
            found = await surveyed(
                world, owner, "", (*used(world, owner), *of_settings(world, previous))
            )
    except CloudError as error:
        world.report(
            "warning",
            f"machines without a cluster could not be looked for: {trimmed(error)}"
            f"{deadlines.todo(error)}",
        )
        return []
    return [(adapter, node) for adapter, node in found if node.handle not in known]


async def release_orphans(
    world: World,
    owner: str,
    known: Collection[Handle],
    is_orphan: Callable[[Node], bool],
    previous: Iterable[Mapping[str, Mapping[str, str]]] = (),
) -> None:
    """Deletes the owner's machines that are none of these and orphans, confirmed. What can't be is
    a warning: the next read finds it again.
    """

    async def work(_stop: StopSignal) -> None:
        for adapter, node in await _orphans(world, owner, known, previous):
            label = node.label
            if label is None or not is_orphan(node) or world.is_at_work(owner, label.cluster):
                continue
            world.report(
                "warning",
                f"{label.cluster}: deleting {node.handle.native_id}, which a run left behind and no"
                " state names",
            )
            left = await deadlines.answering(release(world, adapter, "", "", "", (node.handle,)))
            if left.clean:
                world.journal.release(
                    world.name, owner, label.cluster, "", world.clock.now(), (node.handle,)
                )
            else:
                world.report(
                    "warning",
                    f"{label.cluster}: it could not be deleted: {left.said(None)}",
                )

    await shielded(world, work, None)


async def adopt_stray(world: World, provider: str, native_id: str) -> ClusterRecord | None:
    """One machine that the state does not know, as a cluster of its own; None when there is no such
    machine. Writes nothing at the cloud.
    """
    return await imported(world, provider, native_id)
