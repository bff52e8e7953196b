"""Bringing what is held to the declaration, under the same id: settled, whole, edited in place,
placed anew, or exchanged for what is preferred.

Owns the order of these steps. Everything runs under the cluster's lease, which the caller holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.desired import ClusterSpec, ttl
from providers.engine.journal import orders as order_table
from providers.engine.launch.buy import buy, walk
from providers.engine.launch.result import ACQUIRED, WAITING_ON, LaunchResult, launched
from providers.engine.launch.walk import resumed
from providers.engine.market.planning import fitting
from providers.engine.messages import why_ended
from providers.engine.readiness import output
from providers.engine.readiness.handover import rerun
from providers.engine.readiness.workload import observed
from providers.engine.reconcile import drift
from providers.engine.reconcile.adopt import Place, price_of
from providers.engine.reconcile.condition import REPLACE_NODE, REPORT, classify
from providers.engine.reconcile.lost_both import emptied
from providers.engine.reconcile.orphans import orphans as beside
from providers.engine.reconcile.orphans import replacement, unclaimed
from providers.engine.reconcile.power import switch
from providers.engine.reconcile.replace_lost import joined, rejoin
from providers.engine.record import (
    DEGRADED,
    DISK,
    ON_DONE,
    UNSETTLED,
    WORK,
    ClusterRecord,
    applied,
    finished,
    kept_stopped,
    to_release,
    works,
)
from providers.engine.runtime.accounts import adapter_of, home_of
from providers.engine.runtime.tasks import StopSignal, repeated
from providers.engine.setup import start, started
from providers.engine.termination.end import release_all, stuck
from providers.engine.termination.settle import abandon, bill
from providers.errors import AllFailed, GpusError, TakenOver
from providers.model.machine import (
    DRIFTED,
    ENDED,
    FAILED,
    GONE,
    PREEMPTED,
    QUEUED,
    RUNNING,
    STOPPED,
    STOPPING,
    Node,
    is_foreign,
)
from providers.model.place import Scope
from providers.model.secret import narrowed
from providers.planner import rank
from providers.planner.check import satisfied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate

_OVER = (FAILED, STOPPED, STOPPING)
LOST_BLOCK_S = 600.0
"""How long a place is left alone where a machine was taken back: there is none to be had right now.
"""


async def converge(
    world: World,
    held: ClusterRecord,
    wanted: ClusterSpec,
    brake: StopSignal,
    preferred: Callable[[ClusterRecord, ClusterRecord], bool] | None = None,
) -> tuple[ClusterRecord, bool]:
    """What is held, settled, whole, and as declared in what can be edited; placed anew if nothing
    usable is left.

    `preferred(held, found)` says whether a placement that a run left beside the held one is rather
    to be kept. The second value is True when it is what is held now. Raises as `acquire` does.
    """
    for entry in world.journal.orders(
        world.name, held.owner, held.cluster, held.generation, order_table.PENDING
    ):
        keep = tuple(handle for handle in held.handles if handle not in entry.handles)
        outcome = await resumed(world, wanted, entry, brake=brake, keep=keep)
        if not isinstance(outcome, LaunchResult):
            continue
        if outcome.state != ACQUIRED:
            open_one = launched(world.name, wanted, held.generation, outcome, world.clock.now())
            kept = held._replace(
                status=open_one.status, reasons=open_one.reasons, leftovers=open_one.leftovers
            )
            return (kept if keep else open_one), False
        if not keep:
            held = launched(world.name, wanted, held.generation, outcome, world.clock.now())
            world.journal.launched(held)
        # Otherwise it is one of those beside the held one, below.
    now = world.clock.now()
    nodes: Sequence[Node] = ()
    if held.handles:
        adapter = await home_of(world, held)
        nodes = await observed(world, adapter, held)
    policy = wanted.setup.on_loss
    after: ClusterRecord | None = classify(held._replace(leftovers=()), nodes, now, policy)
    taken = False
    extra, others = await beside(world, held)
    orphans = {node.handle for node in unclaimed(world, held, others)}
    claimed = {node.handle for node in others} - orphans
    held = held._replace(
        leftovers=tuple(
            handle for handle in dict.fromkeys((*held.leftovers, *orphans)) if handle not in claimed
        )
    )
    if nodes:
        await _labelled(world, held, nodes)
    if (
        extra
        and after is not None
        and after.status == DEGRADED
        and (whole := joined(world, held, after, extra)) is not None
    ):
        held, extra = whole, tuple(node for node in extra if node.handle not in whole.handles)
        after = classify(held, held.machines, now, policy)
        world.journal.launched(held)
    if after is None and not extra and (why := world.journal.ended_why(held)):
        after = held._replace(status=ENDED, machines=(), reasons=(), leftovers=(), detail=why)
    if extra:
        found = await _exchanged(world, held, wanted, after, extra, preferred)
        if found is None:
            held = held._replace(
                leftovers=tuple(dict.fromkeys((*held.leftovers, *(node.handle for node in extra))))
            )
        else:
            held, taken = found, True
            after = classify(held._replace(leftovers=()), held.machines, now, policy)
            if held.reasons:
                return held, taken
    return await _brought(world, held, wanted, after, brake), taken


async def _labelled(world: World, held: ClusterRecord, nodes: Sequence[Node]) -> None:
    """Writes the generation on machines of the state that another run has taken over meanwhile:
    else no delete would take them for its own.
    """
    if world.manifests[held.provider].capabilities.relabels:
        adapter = await home_of(world, held)
        for node in nodes:
            if node.status != GONE and is_foreign(node.mark, held.generation):
                await repeated(world, adapter.name, adapter.relabel, node.handle, held.generation)
                world.journal.adopt(
                    world.name,
                    held.owner,
                    held.cluster,
                    held.generation,
                    [node.handle],
                    world.clock.now(),
                )


async def _exchanged(
    world: World,
    held: ClusterRecord,
    wanted: ClusterSpec,
    after: ClusterRecord | None,
    extra: Sequence[Node],
    preferred: Callable[[ClusterRecord, ClusterRecord], bool] | None,
) -> ClusterRecord | None:
    """Takes over a placement that a run left beside the held one, if that one is of no use or the
    other is preferred; else None.

    Everything else of the generation is then released; what could not be is in the record's
    `leftovers` and `reasons`.
    """
    found = await replacement(world, held, extra)
    if found is None or (entry := satisfied(wanted.ask, found)) is None:
        return None
    found = found._replace(entry=entry, fingerprint=wanted.fingerprint)
    useless = after is None or (
        after.status in {PREEMPTED, DEGRADED, FAILED, STOPPING}
        and not (kept_stopped(held) or finished(after))
    )
    if not useless and not (
        preferred is not None and after is not None and not after.reasons and preferred(held, found)
    ):
        return None
    world.report(
        "info",
        f"{held.cluster}: a run that was cut short had placed it in {found.zone or found.region};"
        " that is kept, the rest released",
    )
    left = await release_all(world, held, (*held.handles, *held.leftovers), keep=found.handles)
    if left.clean:
        world.journal.release(
            world.name, held.owner, held.cluster, held.generation, world.clock.now(), held.handles
        )
    else:
        reason = (
            f"half-made: the former placement could not be deleted: {left.why};"
            f" {bill(left.handles, held.micro_usd)}"
        )
        found = found._replace(leftovers=left.handles, reasons=(reason,))
    world.journal.launched(found)
    return found


async def _brought(
    world: World,
    held: ClusterRecord,
    wanted: ClusterSpec,
    after: ClusterRecord | None,
    brake: StopSignal,
) -> ClusterRecord:
    """What `mend` does once it is known what is there. `after` is the held placement as it was
    seen, without its leftovers.
    """
    if after is not None and (
        drifted := next((node.drift for node in after.machines if node.drift), "")
    ):
        world.report("warning", f"{held.cluster}: {drifted}; deploying it anew")
        # What was last written is not there any more: it is written again.
        after = after._replace(
            reasons=(), applied=tuple(pair for pair in after.applied if pair[0] != "service")
        )
    brake.check(held.cluster)
    if after is not None and drift.acts(after):
        after = await _accepted(world, held, wanted, after)
    ended = after is not None and (after.status == ENDED or finished(after))
    stops = wanted.setup.state == STOPPED
    rests = (
        after is not None and after.status in (STOPPED, STOPPING) and (stops or kept_stopped(held))
    )
    useful = (
        after is not None
        and not after.reasons
        and (rests or after.status not in {PREEMPTED, *_OVER})
    )
    if held.leftovers and after is not None and (ended or useful):
        left = await release_all(world, held, held.leftovers, keep=held.handles)
        if not left.clean:
            return stuck(after, left)
        world.journal.release(
            world.name, held.owner, held.cluster, "", world.clock.now(), held.leftovers
        )
    if after is not None and ended:
        if after.status == ENDED and held.status != ENDED and held.kind != "job":
            world.journal.concluded(
                held,
                ENDED,
                why_ended(held, after.detail, world.clock.now(), world.journal.ended_why(held)),
            )
        idle = (
            bool(after.machines)
            and bool(wanted.setup.idle_s)
            and wanted.setup.on_ttl == "release"
            and held.kind == "machine"
        )
        if not (idle or to_release(after)):
            return after._replace(reasons=())
        if not idle and after.machines:
            await output.save_output(world, await home_of(world, held), after)
        # It powered itself off, and its cloud may only have stopped it: what remains costs its
        # disks.
        left = await release_all(world, held, held.handles)
        if not left.clean:
            return stuck(after, left)
        world.journal.release(
            world.name, held.owner, held.cluster, held.generation, world.clock.now()
        )
        if not idle:
            world.report("info", f"{held.cluster}: the job is done; its machine is released")
        return after._replace(machines=(), reasons=())
    if stops and (after is None or after.reasons):
        what = "gone" if after is None else f"{after.status}: {after.reasons[0]}"
        raise GpusError(
            f"{held.cluster}: wanted it stopped, found it {what}; set state: running to have it"
            " placed anew, or destroy it"
        )
    if after is not None and rests:
        return await edit(world, after, wanted)
    if after is not None and after.status == DEGRADED and wanted.setup.on_loss == REPLACE_NODE:
        made_good = await rejoin(world, held, wanted, after, brake)
        if made_good is not None:
            return made_good
        world.report(
            "warning",
            f"{held.cluster}: {held.provider} sells nothing more beside the rest of it, so all of"
            " it is placed anew",
        )
    if after is None or not useful:
        return await _place_anew(world, held, wanted, after, brake)
    entry_index = satisfied(wanted.ask, drift.as_bought(after))
    if entry_index is None:
        raise GpusError(
            f"{held.cluster}: {held.gpu_type}:{held.gpu_count} x {held.nodes} {held.capacity} in"
            f" {held.region} no longer satisfies the declaration; it has to be replaced"
        )
    return await edit(
        world, after._replace(entry=entry_index, fingerprint=wanted.fingerprint), wanted
    )


async def _accepted(
    world: World, held: ClusterRecord, wanted: ClusterSpec, after: ClusterRecord
) -> ClusterRecord:
    """A machine that is not what was bought: kept as it is now where it serves the declaration or
    is only reported; else with why it goes.
    """
    if satisfied(wanted.ask, after) is not None:
        world.report(
            "info",
            f"{held.cluster}: {drift.text(after)}; it serves the declaration, and is kept as it"
            " is now",
        )
        now = (await drift.priced(world, held, after))._replace(bought=(), detail="")
        world.journal.launched(now)
        return now
    if wanted.setup.on_loss == REPORT or wanted.setup.state == STOPPED:
        return await drift.priced(world, held, after)
    return after._replace(reasons=(drift.text(after),))


def prefers(wanted: ClusterSpec, held: ClusterRecord, other: ClusterRecord | Candidate) -> bool:
    """Whether the declaration prefers the other to what is held, by what it ranks by."""
    return rank.prefers(wanted.ask, held, other, fitting(wanted.ask))


async def _place_anew(
    world: World,
    held: ClusterRecord,
    wanted: ClusterSpec,
    after: ClusterRecord | None,
    brake: StopSignal,
) -> ClusterRecord:
    """Deletes what is left of it, confirmed, and buys again under the same generation: the id is
    the cluster's, not the machine's.
    """
    if after is not None and after.status == QUEUED:
        return after
    if after is None or (
        after.status in {PREEMPTED, DEGRADED}
        and not any(node.status == DRIFTED for node in after.machines)
    ):
        block_lost_place(world, held)
    what = (
        "all of it is gone"
        if after is None
        else after.reasons[0]
        if after.reasons
        else f"it is {after.status}"
    )
    world.report("info", f"{held.cluster}: {what}; releasing what is left, then placing it anew")
    left = await release_all(world, held, (*held.handles, *held.leftovers))
    if not left.clean:
        return stuck(held, left)
    world.journal.release(world.name, held.owner, held.cluster, held.generation, world.clock.now())
    try:
        placed = await buy(world, wanted, held.generation, brake)
    except TakenOver:
        # What the cluster has by now is the other run's, and for its state to tell.
        raise
    except GpusError as error:
        raise emptied(held, wanted, held.generation, error) from error
    if brake.abandoned and (await release_all(world, placed, placed.handles)).clean:
        world.journal.release(
            world.name, held.owner, held.cluster, held.generation, world.clock.now()
        )
    return placed


async def upgrade_placement(
    world: World, held: ClusterRecord, wanted: ClusterSpec, brake: StopSignal
) -> ClusterRecord:
    """Walks the places that the declaration prefers to the held one; once one is had, the held one
    is released.
    """

    def preferred(candidate: Candidate) -> bool:
        return prefers(wanted, held, candidate)

    try:
        outcome = await walk(
            world, wanted, held.generation, brake, keep=held.handles, accept=preferred
        )
    except AllFailed as failed:
        world.report(
            "warning",
            f"{held.cluster}: nothing that is preferred could be had, so the present one"
            f" stays\n{failed}",
        )
        return held._replace(attempts=failed.attempts)
    if outcome.state == WAITING_ON:
        adapter = await adapter_of(world, outcome.placed.provider)
        left = await abandon(world, adapter, outcome.order, None, held.handles)
        if left.clean:
            world.journal.settled(
                outcome.order.token,
                order_table.RELEASED,
                world.clock.now(),
                "taken out of the queue",
            )
            world.report(
                "warning",
                f"{held.cluster}: the preferred one would have to be waited for in a queue, so the"
                " present one stays",
            )
            return held
        return stuck(held, left)
    if outcome.state != ACQUIRED:
        return held._replace(
            status=UNSETTLED,
            attempts=outcome.attempts,
            reasons=outcome.reasons,
            leftovers=(*outcome.handles, *outcome.leftovers),
        )
    if brake.abandoned:
        left = await release_all(world, held, outcome.handles, keep=held.handles)
        return held if left.clean else stuck(held, left)
    new = launched(world.name, wanted, held.generation, outcome, world.clock.now())
    left = await release_all(world, held, held.handles, keep=outcome.handles)
    if left.clean:
        world.journal.release(
            world.name, held.owner, held.cluster, held.generation, world.clock.now(), held.handles
        )
    else:
        reason = (
            f"half-made: the former placement could not be deleted: {left.why};"
            f" {bill(left.handles, held.micro_usd)}"
        )
        new = new._replace(
            leftovers=(*new.leftovers, *left.handles), reasons=(*new.reasons, reason)
        )
    world.journal.launched(new)
    return new


async def edit(world: World, held: ClusterRecord, wanted: ClusterSpec) -> ClusterRecord:
    """Writes what changed of labels, ssh key and time limit on the machines where the adapter can;
    says what only a replacement applies.
    """
    limit_s = ttl(wanted, held.entry)
    section = dict(wanted.setup.options).get(held.provider)
    own = tuple(sorted(section.items())) if isinstance(section, dict) else ()
    setup = wanted.setup._replace(
        ttl_s=limit_s, options=own, secrets=narrowed(wanted.setup.secrets, held.provider)
    )
    entry = (
        wanted.ask.entries[held.entry]
        if held.entry < len(wanted.ask.entries)
        else wanted.ask.entries[0]
    )
    begun = start(
        wanted.ask,
        entry,
        held.gpu_type,
        held.gpu_count,
        setup.expose,
        world.manifests.get(held.provider),
        dict(own),
    )
    setup = started(setup, begun)
    before, after = dict(held.applied), dict(applied(setup, held.kind))
    # The disk is the one that was bought, whatever is declared since.
    after.pop(DISK, None)
    after |= {name: size for name, size in before.items() if name == DISK}
    changed = [name for name, digest in after.items() if digest != before.get(name, "")]
    if not changed:
        return held
    can = world.manifests[held.provider].capabilities.in_place | {WORK, ON_DONE}
    if "state" in changed and "state" not in can:
        raise GpusError(
            f"{held.cluster}: {held.provider} cannot stop a machine and keep it; set state:"
            " running, or destroy it"
        )
    stoppable = world.manifests[held.provider].capabilities.stoppable
    if (
        "state" in changed
        and setup.state == STOPPED
        and stoppable
        and held.capacity not in stoppable
    ):
        raise GpusError(
            f"{held.cluster}: {held.provider} cannot stop a {held.capacity} machine and keep it;"
            " set state: running, or destroy it"
        )
    change: dict[str, object] = {}
    for name in changed:
        if name not in can:
            world.report(
                "warning",
                f"{held.cluster}: {held.provider} cannot edit {name} on a running machine; it is"
                " applied when the cluster is replaced",
            )
            after[name] = before.get(name, "")
        elif name == "state":
            continue
        elif name == WORK:
            # Above all else: what runs there is what the machines are for.
            continue
        elif name == "service":
            change.update(service=setup, fingerprint=wanted.fingerprint)
        elif name == "labels":
            change["labels"] = dict(setup.labels)
        elif name == "ssh_key":
            change.update(ssh_key=setup.ssh_public_key, ssh_user=setup.ssh_user)
        elif name != ON_DONE:
            change.update(ttl=limit_s, on_ttl=setup.on_ttl)
    if (
        WORK in changed
        and begun is not None
        and begun.watched
        and works(held)
        and held.status == RUNNING
    ):
        await rerun(world, held, held.machines, begun)
        world.report("info", f"{held.cluster}: what runs there was started anew")
        if "script" in world.manifests[held.provider].capabilities.in_place:
            change["script"] = setup
    if change:
        adapter = await home_of(world, held)
        # What is lost of a degraded cluster cannot be written on.
        for handle in (
            (node.handle for node in held.machines) if held.status == DEGRADED else held.handles
        ):
            await repeated(world, adapter.name, adapter.update, handle, change)
        if "service" in change:
            nodes = await repeated(world, adapter.name, adapter.observe, held.handles)
            # How many containers it may have, and so what it may cost, is among what was declared
            # anew.
            where = Place(
                held.provider, held.region, held.gpu_type, held.gpu_count, 1, held.capacity
            )
            price = await price_of(world, wanted.ask, where, nodes[0], None)
            held = held._replace(
                machines=tuple(nodes),
                micro_usd=price.micro_usd,
                price_as_of=price.as_of,
                price_source=price.source,
            )
        if "ttl" in change:
            held = held._replace(ends_at=held.launched_at + limit_s if limit_s else 0.0)
    held = held._replace(applied=tuple(sorted({**after, "state": before.get("state", "")}.items())))
    return (
        await switch(world, held, wanted, after["state"])
        if "state" in changed and "state" in can
        else held
    )


def block_lost_place(world: World, held: ClusterRecord) -> None:
    """Leaves the place alone for a while."""
    if held.provider and held.region and not held.reservation:
        scope = Scope(
            held.provider, held.region, held.zone, held.machine_type, held.gpu_type, held.capacity
        )
        world.journal.block(
            world.name, scope, LOST_BLOCK_S, "taken back there lately", world.clock.now()
        )
