"""The life of one cluster: create, read, update, reclaim, delete; and of a stack's ownership:
settle, strays, import.

Owns what each of them promises, and what a look means. The walk is in `acquire`, certainty in
`settle`, adoption in `reconcile`, the steps of an update in `mending`, of a deletion in `ending`,
what bears a mark beside what is held in `beside`, the meaning of an observation in `holding`.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from providers.engine import keys
from providers.engine.journal import orders as order_table
from providers.engine.launch.buy import buy, check_pinned, made_ready
from providers.engine.launch.taken_over import confirmed
from providers.engine.messages import LIMIT, trimmed, why_ended
from providers.engine.readiness import access
from providers.engine.readiness.workload import observed
from providers.engine.reconcile import drift
from providers.engine.reconcile.adopt import Place, existing, price_of
from providers.engine.reconcile.condition import REPLACE_ALL, classify, drift_does, loss
from providers.engine.reconcile.converge import (
    block_lost_place,
    converge,
    edit,
    prefers,
    upgrade_placement,
)
from providers.engine.reconcile.orphans import orphans, relabelled, replacement, told
from providers.engine.reconcile.replace_lost import joined
from providers.engine.record import (
    DEGRADED,
    UNSETTLED,
    ClusterRecord,
    began,
    finished,
    kept_stopped,
    runs_on,
    to_release,
)
from providers.engine.runtime import deadlines
from providers.engine.runtime.accounts import (
    adapter_of,
    by_adapter,
    home_of,
    of_settings,
    surveyed,
    used,
)
from providers.engine.runtime.leases import BUY_PATIENCE_S, CLEAN_PATIENCE_S, leased, owned
from providers.engine.runtime.tasks import StopSignal, repeated, shielded
from providers.engine.termination.end import end, end_all, end_elsewhere
from providers.engine.termination.settle import bill, release
from providers.engine.termination.without_journal import undeterred
from providers.errors import CloudError, Problem, SpecError
from providers.model.machine import (
    ENDED,
    FAILED,
    GONE,
    PREEMPTED,
    QUEUED,
    STOPPED,
    STOPPING,
    Handle,
    Node,
    is_foreign,
)
from providers.model.money import per_hour

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.runtime.world import World


async def create(world: World, wanted: ClusterSpec, generation: str) -> ClusterRecord:
    """Gets the cluster: takes over what an earlier run left if it serves, clears away what does
    not, then buys by the plan.

    Returns with `reasons` when something is there, or may be, that is not what was asked for.
    Raises AllFailed, Busy, NotConfigured, OutcomeUnknown (an earlier order cannot be settled) and
    other GpusErrors; then nothing of this generation exists. When the caller is cancelled, what was
    made is released before the cancellation goes on.
    """
    if wanted.setup.state == STOPPED:
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

    async def work(brake: StopSignal) -> ClusterRecord:
        async with owned(world, wanted.owner, wanted.cluster, generation, BUY_PATIENCE_S, brake):
            await check_pinned(world, wanted)
            with keys.kept(world, wanted.owner, wanted.cluster):
                able = await access.equipped(world, wanted)
                adopted = await existing(world, able, generation, brake)
                if (
                    adopted is not None
                    and (
                        ready := await made_ready(
                            world, await edit(world, adopted, able), able, brake
                        )
                    )
                    is not None
                ):
                    return await confirmed(world, ready, brake, ready.handles)
                return await confirmed(world, await buy(world, able, generation, brake), brake)

    async def undo(held: ClusterRecord) -> None:
        async def undone(world: World) -> None:
            async with leased(world, held.owner, (held.cluster,), CLEAN_PATIENCE_S):
                await end(world, held)
                keys.tidied(world, held.owner, held.cluster)

        await undeterred(world, held.cluster, undone)

    return await shielded(world, work, undo)


async def read(
    world: World, held: ClusterRecord, on_loss: str = REPLACE_ALL, *, frees: bool = False
) -> ClusterRecord | None:
    """What is there now. None: all of it is gone, and not by its own limit; the place is then
    blocked in the journal for a while.

    `on_loss` is what the declaration says of a partial loss: it decides what the reasons say, and
    whether there are any. `frees`: what remains of a machine that ended itself is to go.

    A provider that can't be reached, or gives no answer within `deadlines.LOOK_LIMIT_S`, changes
    nothing but `detail`: the same record comes back, with a warning. Raises no CloudError.
    """
    try:
        with deadlines.looking():
            after = await _read(world, held, on_loss)
    except CloudError as error:
        world.report(
            "warning",
            f"{held.cluster}: {held.provider} could not be asked, so it is kept as it was:"
            f" {trimmed(error)}",
        )
        # How a job ended is known for good.
        return held if finished(held) else held._replace(detail=f"unreachable: {trimmed(error)}")
    if (
        after is not None
        and frees
        and after.status == ENDED
        and after.machines
        and held.kind == "machine"
        and not after.reasons
    ):
        # Some clouds only stop a machine that powered itself off.
        world.report(
            "info",
            f"{held.cluster}: it stopped itself, and its disks are billed until the next `up`"
            " deletes it",
        )
        return after._replace(to_release=True)
    return after


async def update(world: World, held: ClusterRecord, wanted: ClusterSpec) -> ClusterRecord:
    """Brings what is held to the declaration, under the same id: edits in place what can be, waits
    on, settles, repairs, or places anew.

    What ended by its own limit stays ended. Returns with `reasons` while something is still to be
    done. Raises as `create` does.
    """

    async def work(brake: StopSignal) -> ClusterRecord:
        async with owned(world, held.owner, held.cluster, held.generation, BUY_PATIENCE_S, brake):
            after = (await converge(world, held, await access.equipped(world, wanted), brake))[0]
            return await confirmed(world, after, brake, (*held.handles, *held.leftovers))

    return await shielded(world, work, None)


async def reclaim(world: World, held: ClusterRecord, wanted: ClusterSpec) -> ClusterRecord:
    """Gets a placement that the declaration prefers to the held one, and only then releases that;
    keeps it if nothing better can be had.
    """

    async def work(brake: StopSignal) -> ClusterRecord:
        async with owned(world, held.owner, held.cluster, held.generation, BUY_PATIENCE_S, brake):
            able = await access.equipped(world, wanted)
            now, taken = await converge(
                world, held, able, brake, lambda present, found: prefers(able, present, found)
            )
            after = (
                now
                if taken or now.reasons or now.status in (ENDED, STOPPED)
                else await upgrade_placement(world, now, able, brake)
            )
            return await confirmed(world, after, brake, (*held.handles, *held.leftovers))

    return await shielded(world, work, None)


async def delete(world: World, held: ClusterRecord) -> None:
    """Deletes everything of this generation and confirms it; what another generation has taken over
    is not touched. Again is fine.

    Needs no journal: see `undeterred`. Raises HalfMade naming what may still cost money, Busy while
    another process is at work on the cluster.
    """

    async def deleted(world: World, brake: StopSignal) -> None:
        async with owned(
            world, held.owner, held.cluster, held.generation, CLEAN_PATIENCE_S, brake, buys=False
        ):
            await end(world, held)
            world.journal.destroyed(world.name, held.owner, held.cluster, held.generation)
            keys.tidied(world, held.owner, held.cluster)

    await shielded(
        world,
        lambda brake: undeterred(world, held.cluster, lambda opened: deleted(opened, brake)),
        None,
    )


async def settle(
    world: World, owner: str, former: Iterable[Mapping[str, Mapping[str, str]]] = ()
) -> tuple[Node, ...]:
    """Settles every order of the owner and deletes, confirmed, everything that bears its mark;
    returns the machines that were found.

    Looks in every account that the owner has used, as the journal knows and as `former` names them
    (whole settings, from the stack's own state). Needs no journal: see `undeterred`. Raises
    HalfMade naming what could not be confirmed gone.
    """

    async def settled(world: World) -> tuple[Node, ...]:
        pending = {
            entry.order.mark.cluster
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
            found = await end_all(world, owner, former)
            world.journal.destroyed(world.name, owner)
            keys.forget(world.name, owner)
            if world.leases is not None:
                await asyncio.to_thread(world.leases.forget, world.name, owner)
            return found

    return await shielded(world, lambda _brake: undeterred(world, "ownership", settled), None)


async def leave(world: World, owner: str) -> None:
    """The settings have changed: settles what runs that were cut short left in accounts that they
    no longer name.

    Raises GpusError where that can't be done, so that the settings do not move on without it.
    """

    async def work(_brake: StopSignal) -> None:
        await end_elsewhere(world, owner)

    await shielded(world, work, None)


async def strays(
    world: World,
    owner: str,
    known: Collection[Handle],
    former: Iterable[Mapping[str, Mapping[str, str]]] = (),
) -> tuple[Node, ...]:
    """Machines of the owner that are none of these, in every account it has used. Reads only; a
    cloud that can't be asked is a warning.
    """
    return tuple(node for _, node in await _strays(world, owner, known, former))


async def _strays(
    world: World,
    owner: str,
    known: Collection[Handle],
    former: Iterable[Mapping[str, Mapping[str, str]]],
) -> list[tuple[Cloud, Node]]:
    try:
        with deadlines.looking():
            found = await surveyed(
                world, owner, "", (*used(world, owner), *of_settings(world, former))
            )
    except CloudError as error:
        world.report(
            "warning", f"machines without a cluster could not be looked for: {trimmed(error)}"
        )
        return []
    return [(adapter, node) for adapter, node in found if node.handle not in known]


async def release_orphans(
    world: World,
    owner: str,
    known: Collection[Handle],
    is_orphan: Callable[[Node], bool],
    former: Iterable[Mapping[str, Mapping[str, str]]] = (),
) -> None:
    """Deletes the owner's machines that are none of these and orphans, confirmed. What can't be is
    a warning: the next look finds it again.
    """

    async def work(_brake: StopSignal) -> None:
        for adapter, node in await _strays(world, owner, known, former):
            mark = node.mark
            if mark is None or not is_orphan(node) or world.is_at_work(owner, mark.cluster):
                continue
            world.report(
                "warning",
                f"{mark.cluster}: deleting {node.handle.native_id}, which a run left behind and no"
                " state names",
            )
            left = await deadlines.answering(release(world, adapter, "", "", "", (node.handle,)))
            if left.clean:
                world.journal.release(
                    world.name, owner, mark.cluster, "", world.clock.now(), (node.handle,)
                )
            else:
                world.report(
                    "warning",
                    f"{mark.cluster}: it could not be deleted: {left.why};"
                    f" {bill(left.handles, None)}",
                )

    await shielded(world, work, None)


async def adopt_stray(world: World, provider: str, native_id: str) -> ClusterRecord | None:
    """One machine that the state does not know, as a cluster of its own; None when there is no such
    machine.

    Its mark says whose it is; without one, owner and cluster are empty and the generation is new.
    Writes nothing at the cloud.
    """
    adapter = await world.call(provider, world.adapter, provider)
    nodes = await repeated(world, provider, adapter.observe, (Handle(provider, native_id),))
    if not nodes or nodes[0].status == GONE:
        return None
    node = nodes[0]
    where = Place(provider, node.region, node.gpu_type, node.gpu_count, 1, node.capacity)
    price = await price_of(world, None, where, node, None)
    held = ClusterRecord(
        world=world.name,
        owner=node.mark.owner if node.mark else "",
        cluster=node.mark.cluster if node.mark else node.name,
        generation=node.mark.generation if node.mark else uuid.uuid4().hex[:12],
        fingerprint=node.mark.fingerprint if node.mark else "",
        status=node.status,
        provider=provider,
        region=node.region,
        zone=node.zone,
        machine_type=node.machine_type,
        gpu_type=node.gpu_type,
        gpu_count=node.gpu_count,
        nodes=1,
        capacity=node.capacity,
        micro_usd=price.micro_usd,
        price_as_of=price.as_of,
        price_source=price.source,
        handles=(node.handle,),
        machines=(node,),
        launched_at=began((node,), world.clock.now(), 0.0),
        account=await world.call(provider, world.account, provider),
        kind=node.kind,
    )
    return classify(held, nodes, world.clock.now()) or held


async def _read(world: World, held: ClusterRecord, on_loss: str) -> ClusterRecord | None:
    now = world.clock.now()
    if not held.handles and not held.leftovers:
        waiting = world.journal.orders(
            world.name, held.owner, held.cluster, held.generation, order_table.PENDING
        )
        if waiting and waiting[0].ticket is not None and held.status == QUEUED:
            adapter = await adapter_of(world, waiting[0].provider, waiting[0].account)
            ticket = await repeated(world, adapter.name, adapter.poll, waiting[0].ticket)
            world.journal.note(ticket, now)
            return held
        if held.status == GONE and not waiting:
            return None
        if waiting or held.status == UNSETTLED:
            # What an order made is settled by the next update or delete, which may change things; a
            # look does not.
            return held
    adapter = await home_of(world, held)
    nodes = await observed(world, adapter, held) if held.handles else ()
    after: ClusterRecord | None = classify(held, nodes, now, on_loss)
    if after is not None:
        after = await drift.priced(world, held, after)
    if held.leftovers and (after is None or not after.reasons):
        still = await _existing(world, held, held.leftovers)
        held = held._replace(leftovers=still, reasons=held.reasons if still else ())
        after = classify(held, nodes, now, on_loss)
        if after is not None and still:
            after = after._replace(reasons=held.reasons)
    extra, foreign = await _beside(world, held, gone=after is None)
    if after is None and not extra and (why := world.journal.ended_why(held)):
        after = held._replace(status=ENDED, machines=(), reasons=(), detail=why)
    if (
        extra
        and after is not None
        and after.status == DEGRADED
        and (whole := joined(world, held, after, extra)) is not None
    ):
        extra = tuple(node for node in extra if node.handle not in whole.handles)
        world.journal.launched(whole)
        held, nodes = whole, whole.machines
        after = classify(held, nodes, now, on_loss)
    if extra and (
        after is None
        or (
            after.status in {PREEMPTED, DEGRADED, FAILED, STOPPING}
            and not (kept_stopped(held) or finished(after))
        )
    ):
        # A step that was cut short placed it anew: the mark is the same.
        moved = await replacement(world, held, extra)
        if moved is not None:
            return await _at(
                world,
                held,
                moved,
                [node for node in (*extra, *foreign) if node.handle not in moved.handles],
                nodes,
            )
    if after is None and not held.leftovers and not extra:
        # What another run left is adopted by the next create, or cleared away by it.
        world.report(
            "warning",
            f"{held.cluster}: {'; '.join(_end(node) for node in nodes) or 'all of it is gone'}",
        )
        block_lost_place(world, held)
        world.journal.release(world.name, held.owner, held.cluster, held.generation, now)
        return None
    if after is None:
        # What it was is gone, and something is left that must go.
        after = held._replace(status=UNSETTLED, machines=())
    elif after.status == PREEMPTED:
        world.report(
            "warning",
            f"{held.cluster}: {held.provider} took it back{_because(after)}; the next `up`"
            " replaces it",
        )
        block_lost_place(world, held)
    elif after.status == ENDED and held.status != ENDED:
        said = next((f" ({node.detail})" for node in nodes if node.detail), "")
        if held.kind == "job" and all(node.status == GONE for node in nodes):
            said = f": {LIMIT}"
            world.journal.concluded(held, ENDED, LIMIT)
        elif held.kind != "job":
            world.journal.concluded(
                held, ENDED, why_ended(held, after.detail, now, world.journal.ended_why(held))
            )
        world.report(
            "info",
            f"{held.cluster}:"
            f" {f'the job is done{said}' if held.kind == 'job' else f'ended by its own limit{_because(after)}'}",
        )
        if not after.machines and not extra:
            world.journal.release(world.name, held.owner, held.cluster, held.generation, now)
        elif runs_on(after, world.manifests[held.provider].programs.ends_itself):
            world.report(
                "info", f"{held.cluster}: its machine runs on, at {per_hour(held.micro_usd)}"
            )
        else:
            world.journal.stopped(held, now)
    elif after.status == FAILED and finished(after) and not finished(held):
        why = next((node.detail for node in nodes if node.detail), "no reason given")
        world.report(
            "warning", f"{held.cluster}: the job failed: {why}; change `run` for a new one"
        )
    elif after.status in (FAILED, STOPPED) and held.kind == "machine" and not kept_stopped(held):
        world.report(
            "warning",
            f"{held.cluster}: {after.status}{_because(after)}; it stays so: change `run` for a new"
            " one, or start it at its cloud",
        )
    elif drift.acts(after):
        world.report("warning", f"{held.cluster}: {after.detail}; {drift_does(on_loss)}")
    elif after.status == DEGRADED or (after.reasons and any(node.drift for node in nodes)):
        said = (
            after.reasons[0]
            if after.reasons
            else f"{loss(held, nodes)}; `on_loss: report` leaves it so"
        )
        world.report("warning", f"{held.cluster}: {said}")
    if to_release(after):
        # Done is well: no reason, which Pulumi would show as an unhealthy state. That something is
        # left to do stands in the record.
        said = f"done ({_done(after)}); " if finished(held) else ""
        world.report(
            "info",
            f"{held.cluster}: {said}what is left of its machine is released by the next `up`",
        )
        after = after._replace(to_release=True)
    taken = [node for node in after.machines if is_foreign(node.mark, held.generation)]
    if taken and world.manifests[held.provider].capabilities.relabels:
        after = after._replace(reasons=(*after.reasons, relabelled(taken)))
    return _with(after, [node for node in (*extra, *foreign) if node.handle not in after.leftovers])


async def _beside(
    world: World, held: ClusterRecord, *, gone: bool
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Machines with the cluster's labels that the record does not name, of this generation and of
    others.

    Where something is held for sure, a search that fails is a warning only.
    """
    try:
        found = await orphans(world, held)
    except CloudError as error:
        if gone:
            raise
        world.report(
            "warning",
            f"{held.cluster}: whether anything else bears its mark could not be looked up:"
            f" {trimmed(error)}",
        )
        return (), ()
    # While another process is at work on it, what is there is that one's business.
    return ((), ()) if any(found) and world.is_at_work(held.owner, held.cluster) else found


async def _existing(
    world: World, held: ClusterRecord, handles: Collection[Handle]
) -> tuple[Handle, ...]:
    """Those of the machines that still exist."""
    found: set[Handle] = set()
    for adapter, own in await by_adapter(world, held, handles):
        found.update(
            node.handle
            for node in await repeated(world, adapter.name, adapter.observe, own)
            if node.status != GONE
        )
    return tuple(handle for handle in handles if handle in found)


async def _at(
    world: World,
    held: ClusterRecord,
    moved: ClusterRecord,
    extra: Collection[Node],
    nodes: Collection[Node],
) -> ClusterRecord:
    """The record where the cluster is now; what remains of the former placement, and of others,
    must go.
    """
    now = world.clock.now()
    remain = [node for node in nodes if node.status != GONE]
    if not remain:
        world.journal.release(
            world.name, held.owner, held.cluster, held.generation, now, held.handles
        )
    world.journal.launched(moved)
    world.report(
        "info",
        f"{held.cluster}: a run that was cut short had placed it in {moved.zone or moved.region};"
        " that is where it is now",
    )
    after = classify(moved, moved.machines, now) or moved
    return _with(after, [*remain, *extra])


def _with(held: ClusterRecord, extra: Collection[Node]) -> ClusterRecord:
    """The record with machines that must go besides."""
    if not extra:
        return held
    leftovers = tuple(dict.fromkeys((*held.leftovers, *(node.handle for node in extra))))
    return held._replace(leftovers=leftovers, reasons=(*held.reasons, told(list(extra))))


def _done(held: ClusterRecord) -> str:
    return held.detail or next((node.detail for node in held.machines if node.detail), held.status)


def _because(held: ClusterRecord) -> str:
    """` (outbid)`: what the cloud says of the status, if that is more than the status."""
    return f" ({held.detail})" if held.detail and held.detail != held.status else ""


def _end(node: Node) -> str:
    """What became of a machine that is not there any more."""
    return (
        f"{node.handle.native_id.rsplit('/', 1)[-1]} ({node.zone or node.region}) was {node.detail}"
        if node.detail
        else f"{node.handle.native_id} is gone"
    )
