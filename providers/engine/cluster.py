"""The life of one cluster: create, read, update, reclaim, delete; and of a stack's ownership: settle, strays, import.

Owns the order of things: lease, then what exists, then buying; and what happens when the caller is gone. The walk is in `acquire`, certainty in
`settle`, adoption in `reconcile`, stopping and starting in `switching`, the meaning of an observation in `holding`.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from providers.engine import journal as journals
from providers.engine.acquire import ACQUIRED, WAITING_ON, Outcome, acquire, resumed
from providers.engine.holding import applied, finished, had, kept_stopped, seen, ttl
from providers.engine.lines import trimmed
from providers.engine.planning import market
from providers.engine.ready import until_ready
from providers.engine.reconcile import Place, existing, price_of, survey
from providers.engine.records import DEGRADED, UNSETTLED, Held, Wanted
from providers.engine.settle import Brake, Left, abandon, bill, pause, release, repeated
from providers.engine.switching import switch
from providers.errors import AllFailed, Busy, CloudError, GpusError, HalfMade, NotConfigured, Problem, SpecError
from providers.model.machine import ENDED, FAILED, GONE, PREEMPTED, QUEUED, STOPPED, STOPPING, Handle, Node
from providers.model.place import Scope
from providers.planner.check import satisfied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence

    from providers.adapters.base import Adapter
    from providers.engine.world import World
    from providers.model.machine import Attempt
    from providers.model.offer import Candidate

__all__ = ["Held", "Wanted", "adopt_stray", "create", "delete", "read", "reclaim", "settle", "strays", "update"]

T = TypeVar("T")

BUY_PATIENCE_S, CLEAN_PATIENCE_S = 20.0, 180.0
"""How long to wait for another process that holds the cluster: one that was just abandoned cleans up before it ends."""
_OVER = (FAILED, STOPPED, STOPPING)
LOST_BLOCK_S = 600.0
"""How long a place is left alone where a machine was taken back: there is none to be had right now."""


async def create(world: World, wanted: Wanted, generation: str) -> Held:
    """Gets the cluster: takes over what an earlier run left if it serves, clears away what does not, then buys by the plan.

    Returns with `reasons` when something is there, or may be, that is not what was asked for. Raises AllFailed, Busy, NotConfigured,
    OutcomeUnknown (an earlier order cannot be settled) and other GpusErrors; then nothing of this generation exists. When the caller is
    cancelled, what was made is released before the cancellation goes on.
    """
    if wanted.setup.state == STOPPED:
        raise SpecError([Problem("state", "running, for machines that are not there yet", "stopped", "none is bought to be stopped")])

    async def work(brake: Brake) -> Held:
        async with _leased(world, wanted.owner, (wanted.cluster,), BUY_PATIENCE_S):
            await _check_pinned(world, wanted)
            adopted = await existing(world, wanted, generation, brake)
            if adopted is not None and (ready := await _made_ready(world, await _edit(world, adopted, wanted), wanted, brake)) is not None:
                return ready
            return await _buy(world, wanted, generation, brake)

    async def undo(held: Held) -> None:
        async with _leased(world, held.owner, (held.cluster,), CLEAN_PATIENCE_S):
            await _delete(world, held)

    return await _shielded(world, work, undo)


async def read(world: World, held: Held) -> Held | None:
    """What is there now. None: all of it is gone, and not by its own limit; the place is then blocked in the journal for a while.

    A provider that can't be reached changes nothing: the same record comes back, with a warning. Raises no CloudError.
    """
    try:
        return await _read(world, held)
    except CloudError as error:
        world.report("warning", f"{held.cluster}: {held.provider} could not be asked, so it is kept as it was: {trimmed(error)}")
        return held


async def update(world: World, held: Held, wanted: Wanted) -> Held:
    """Brings what is held to the declaration, under the same id: edits in place what can be, waits on, settles, repairs, or places anew.

    What ended by its own limit stays ended. Returns with `reasons` while something is still to be done. Raises as `create` does.
    """

    async def work(brake: Brake) -> Held:
        async with _leased(world, held.owner, (held.cluster,), BUY_PATIENCE_S):
            return await _mend(world, held, wanted, brake)

    return await _shielded(world, work, None)


async def reclaim(world: World, held: Held, wanted: Wanted) -> Held:
    """Gets a placement that the declaration prefers to the held one, and only then releases that; keeps it if nothing better can be had."""

    async def work(brake: Brake) -> Held:
        async with _leased(world, held.owner, (held.cluster,), BUY_PATIENCE_S):
            now = await _mend(world, held, wanted, brake)
            return now if now.reasons or now.status in (ENDED, STOPPED) else await _better(world, now, wanted, brake)

    return await _shielded(world, work, None)


async def delete(world: World, held: Held) -> None:
    """Deletes everything of this generation and confirms it; what another generation has taken over is not touched. Again is fine.

    Raises HalfMade naming what may still cost money, Busy while another process is at work on the cluster.
    """

    async def work(_brake: Brake) -> None:
        async with _leased(world, held.owner, (held.cluster,), CLEAN_PATIENCE_S):
            await _delete(world, held)

    await _shielded(world, work, None)


async def settle(world: World, owner: str) -> tuple[Node, ...]:
    """Settles every order of the owner and deletes, confirmed, everything that bears its mark; returns the machines that were found.

    Raises HalfMade naming what could not be confirmed gone.
    """

    async def work(_brake: Brake) -> tuple[Node, ...]:
        pending = {entry.order.mark.cluster for entry in world.journal.orders(world.name, owner, states=journals.PENDING)}
        async with _leased(world, owner, sorted(pending | set(world.journal.leased(world.name, owner))), CLEAN_PATIENCE_S):
            return await _settle(world, owner)

    return await _shielded(world, work, None)


async def strays(world: World, owner: str, generations: Collection[str]) -> tuple[Node, ...]:
    """Machines of the owner that belong to none of these generations. Reads only; a cloud that can't be asked is a warning."""
    try:
        found = await survey(world, owner)
    except CloudError as error:
        world.report("warning", f"machines without a cluster could not be looked for: {trimmed(error)}")
        return ()
    return tuple(node for node in found if node.mark is None or node.mark.generation not in generations)


async def adopt_stray(world: World, provider: str, native_id: str) -> Held | None:
    """One machine that the state does not know, as a cluster of its own; None when there is no such machine.

    Its mark says whose it is; without one, owner and cluster are empty and the generation is new. Writes nothing at the cloud.
    """
    adapter = await world.call(provider, world.adapter, provider)
    nodes = await repeated(world, provider, adapter.observe, (Handle(provider, native_id),))
    if not nodes or nodes[0].status == GONE:
        return None
    node = nodes[0]
    where = Place(provider, node.region, node.gpu_type, node.gpu_count, 1, node.capacity)
    price = await price_of(world, None, where, node, None)
    held = Held(
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
        launched_at=node.created_at,
        kind=node.kind,
    )
    return seen(held, nodes, world.clock.now()) or held


# The parts


async def _buy(
    world: World,
    wanted: Wanted,
    generation: str,
    brake: Brake,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> Held:
    """Plans and walks. Nothing of this generation but `keep` exists when it is called."""
    outcome = await _walk(world, wanted, generation, brake, keep=keep, accept=accept, before=before)
    held = had(world.name, wanted, generation, outcome, world.clock.now())
    if outcome.state != ACQUIRED and outcome.handles:
        # Known machines that nobody could look at yet: what they cost runs.
        held = held._replace(launched_at=world.clock.now())
    world.journal.launched(held)
    return held


async def _made_ready(world: World, held: Held, wanted: Wanted, brake: Brake) -> Held | None:
    """What was adopted, once it is ready. None when it never became so: it is then deleted, confirmed. Raises HalfMade when that failed."""
    if wanted.probe is None:
        return held
    deadline = world.clock.now() + wanted.ask.entries[held.entry].wait_s
    try:
        nodes = await until_ready(world, await _adapter(world, held.provider), held, held.handles, wanted.probe, deadline, brake)
    except HalfMade as error:
        world.report("warning", f"{held.cluster}: what an earlier run left is not ready: {trimmed(error)}; deleting it")
        await _delete(world, held)
        return None
    if nodes is None:
        await _delete(world, held)
        raise GpusError(f"{held.cluster}: {brake.why}; nothing is left running")
    return held._replace(machines=nodes)


async def _walk(
    world: World,
    wanted: Wanted,
    generation: str,
    brake: Brake,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> Outcome:
    on_sale = await world.call("", market, world, wanted.ask)
    blocks = world.journal.blocks(world.name)
    plan = on_sale.plan(wanted.ask, blocks, world.clock.now())
    if not plan.candidates and blocks:
        again = on_sale.plan(wanted.ask)
        if again.candidates:
            world.report("info", f"{wanted.cluster}: every acceptable place was refused lately; asking them again")
            plan = again
    if not plan.candidates and on_sale.unavailable:
        allowed = [name for name in world.manifests if not wanted.ask.providers or name in wanted.ask.providers]
        if allowed and all(name in on_sale.unavailable for name in allowed):
            lines = "\n".join(f"{name}: {why}" for name, why in on_sale.unavailable.items())
            raise NotConfigured(f"{wanted.cluster}: no allowed provider is configured in the {world.name} world\n{lines}", provider=allowed[0])
    return await acquire(world, plan, wanted, generation, brake=brake, market=on_sale, keep=keep, accept=accept, before=before)


async def _read(world: World, held: Held) -> Held | None:
    now = world.clock.now()
    if not held.handles and not held.leftovers:
        waiting = world.journal.orders(world.name, held.owner, held.cluster, held.generation, journals.PENDING)
        if waiting and waiting[0].ticket is not None and held.status == QUEUED:
            adapter = await _adapter(world, waiting[0].provider)
            ticket = await repeated(world, adapter.name, adapter.poll, waiting[0].ticket)
            world.journal.note(ticket, now)
            return held
        if waiting or held.status == UNSETTLED:
            # What an order made is settled by the next update or delete, which may change things; a look does not.
            return held
    adapter = await _adapter(world, held.provider)
    nodes = await repeated(world, adapter.name, adapter.observe, held.handles) if held.handles else ()
    after: Held | None = seen(held, nodes, now)
    if held.leftovers and (after is None or not after.reasons):
        still = tuple(node.handle for node in await repeated(world, adapter.name, adapter.observe, held.leftovers) if node.status != GONE)
        if still:
            return (after or held)._replace(leftovers=still, reasons=held.reasons)
        held = held._replace(leftovers=(), reasons=())
        after = seen(held, nodes, now)
    if after is None:
        marked = [
            node for node in await repeated(world, adapter.name, adapter.find, held.owner, held.cluster, held.generation) if node.status != GONE
        ]
        if marked:
            # A step that was cut short placed it anew: the mark is the same.
            moved = _moved(held, marked)
            return seen(moved, marked, now)
        world.report("warning", f"{held.cluster}: {'; '.join(_end(node) for node in nodes) or 'all of it is gone'}")
        _lost(world, held)
        world.journal.release(world.name, held.owner, held.cluster, held.generation, now)
    elif after.status == PREEMPTED:
        world.report("warning", f"{held.cluster}: {held.provider} took it back; the next `up` replaces it")
        _lost(world, held)
    elif after.status == ENDED and held.status != ENDED:
        said = next((f" ({node.detail})" for node in nodes if node.detail), "")
        world.report("info", f"{held.cluster}: {f'the job is done{said}' if held.kind == 'job' else 'ended by its own limit'}")
        if not after.machines:
            world.journal.release(world.name, held.owner, held.cluster, held.generation, now)
    elif after.status == FAILED and finished(after) and not finished(held):
        why = next((node.detail for node in nodes if node.detail), "no reason given")
        world.report("warning", f"{held.cluster}: the job failed: {why}; change `run` for a new one")
    elif after.status == DEGRADED or (after.reasons and any(node.drift for node in nodes)):
        world.report("warning", f"{held.cluster}: {after.reasons[0]}")
    return after


async def _mend(world: World, held: Held, wanted: Wanted, brake: Brake) -> Held:
    """What is held, settled, whole, and as declared in what can be edited; placed anew if nothing usable is left."""
    for entry in world.journal.orders(world.name, held.owner, held.cluster, held.generation, journals.PENDING):
        keep = tuple(handle for handle in held.handles if handle not in entry.handles)
        outcome = await resumed(world, wanted, entry, brake=brake, keep=keep)
        if not isinstance(outcome, Outcome):
            continue
        if outcome.state != ACQUIRED:
            open_one = had(world.name, wanted, held.generation, outcome, world.clock.now())
            return held._replace(status=open_one.status, reasons=open_one.reasons, leftovers=open_one.leftovers) if keep else open_one
        if keep:
            # The held one stays: what the order made is one too many.
            left = await _release_all(world, held, outcome.handles, keep=keep)
            if not left.clean:
                return _stuck(held, left)
            world.journal.settled(entry.order.token, journals.RELEASED, world.clock.now(), "one too many")
            continue
        held = had(world.name, wanted, held.generation, outcome, world.clock.now())
        world.journal.launched(held)
    now = world.clock.now()
    nodes: Sequence[Node] = ()
    if held.handles:
        adapter = await _adapter(world, held.provider)
        nodes = await repeated(world, adapter.name, adapter.observe, held.handles)
    after: Held | None = seen(held._replace(leftovers=()), nodes, now)
    if after is not None and (after.status == ENDED or finished(after)):
        return after
    if after is not None and any(node.drift for node in nodes):
        world.report("warning", f"{held.cluster}: {after.reasons[0]}")
        # What was last written is not there any more: it is written again.
        after = after._replace(reasons=(), applied=tuple(pair for pair in after.applied if pair[0] != "service"))
    stops = wanted.setup.state == STOPPED
    if stops and (after is None or after.reasons):
        what = "gone" if after is None else f"{after.status}: {after.reasons[0]}"
        raise GpusError(f"{held.cluster}: wanted it stopped, found it {what}; set state: running to have it placed anew, or destroy it")
    if after is not None and after.status in (STOPPED, STOPPING) and (stops or kept_stopped(held)) and not held.leftovers:
        return await _edit(world, after, wanted)
    if after is None or after.reasons or after.status in {PREEMPTED, *_OVER}:
        return await _place_anew(world, held, wanted, after, brake)
    if held.leftovers:
        left = await _release_all(world, held, held.leftovers, keep=held.handles)
        if not left.clean:
            return _stuck(after, left)
    entry_index = satisfied(wanted.ask, after)
    if entry_index is None:
        raise GpusError(
            f"{held.cluster}: {held.gpu_type}:{held.gpu_count} x {held.nodes} {held.capacity} in {held.region} no longer satisfies the declaration; "
            "it has to be replaced"
        )
    return await _edit(world, after._replace(entry=entry_index, fingerprint=wanted.fingerprint), wanted)


async def _place_anew(world: World, held: Held, wanted: Wanted, after: Held | None, brake: Brake) -> Held:
    """Deletes what is left of it, confirmed, and buys again under the same generation: the id is the cluster's, not the machine's."""
    if after is not None and after.status == QUEUED:
        return after
    if after is None or after.status in {PREEMPTED, DEGRADED}:
        _lost(world, held)
    what = "all of it is gone" if after is None else after.reasons[0] if after.reasons else f"it is {after.status}"
    world.report("info", f"{held.cluster}: {what}; releasing what is left, then placing it anew")
    left = await _release_all(world, held, (*held.handles, *held.leftovers))
    if not left.clean:
        return _stuck(held, left)
    world.journal.release(world.name, held.owner, held.cluster, held.generation, world.clock.now())
    placed = await _buy(world, wanted, held.generation, brake)
    if brake.abandoned and (await _release_all(world, placed, placed.handles)).clean:
        world.journal.release(world.name, held.owner, held.cluster, held.generation, world.clock.now())
    return placed


async def _better(world: World, held: Held, wanted: Wanted, brake: Brake) -> Held:
    """See `reclaim`. Better is an earlier entry where preference ranks; a lower price, or a place ranked before, where that ranks."""

    def preferred(candidate: Candidate) -> bool:
        if wanted.ask.rank == "preference":
            return candidate.entry < held.entry
        return held.micro_usd is not None and candidate.micro_usd is not None and candidate.micro_usd < held.micro_usd

    try:
        outcome = await _walk(world, wanted, held.generation, brake, keep=held.handles, accept=preferred)
    except AllFailed as failed:
        world.report("warning", f"{held.cluster}: nothing that is preferred could be had, so the present one stays\n{failed}")
        return held._replace(attempts=failed.attempts)
    if outcome.state == WAITING_ON:
        adapter = await _adapter(world, outcome.placed.provider)
        left = await abandon(world, adapter, outcome.order, None, held.handles)
        if left.clean:
            world.journal.settled(outcome.order.token, journals.RELEASED, world.clock.now(), "taken out of the queue")
            world.report("warning", f"{held.cluster}: the preferred one would have to be waited for in a queue, so the present one stays")
            return held
        return _stuck(held, left)
    if outcome.state != ACQUIRED:
        return held._replace(status=UNSETTLED, attempts=outcome.attempts, reasons=outcome.reasons, leftovers=(*outcome.handles, *outcome.leftovers))
    if brake.abandoned:
        left = await _release_all(world, held, outcome.handles, keep=held.handles)
        return held if left.clean else _stuck(held, left)
    new = had(world.name, wanted, held.generation, outcome, world.clock.now())
    left = await _release_all(world, held, held.handles, keep=outcome.handles)
    if left.clean:
        world.journal.release(world.name, held.owner, held.cluster, held.generation, world.clock.now(), held.handles)
    else:
        reason = f"half-made: the former placement could not be deleted: {left.why}; {bill(left.handles, held.micro_usd)}"
        new = new._replace(leftovers=(*new.leftovers, *left.handles), reasons=(*new.reasons, reason))
    world.journal.launched(new)
    return new


async def _edit(world: World, held: Held, wanted: Wanted) -> Held:
    """Writes what changed of labels, ssh key and time limit on the machines where the adapter can; says what only a replacement applies."""
    limit_s = ttl(wanted, held.entry)
    section = dict(wanted.setup.options).get(held.provider)
    own = tuple(sorted(section.items())) if isinstance(section, dict) else ()
    setup = wanted.setup._replace(ttl_s=limit_s, options=own)
    before, after = dict(held.applied), dict(applied(setup, held.kind))
    changed = [name for name, digest in after.items() if digest != before.get(name, "")]
    if not changed:
        return held
    can = world.manifests[held.provider].capabilities.in_place
    if "state" in changed and "state" not in can:
        raise GpusError(f"{held.cluster}: {held.provider} cannot stop a machine and keep it; set state: running, or destroy it")
    change: dict[str, object] = {}
    for name in changed:
        if name not in can:
            world.report(
                "warning", f"{held.cluster}: {held.provider} cannot edit {name} on a running machine; it is applied when the cluster is replaced"
            )
            after[name] = before.get(name, "")
        elif name == "state":
            continue
        elif name == "service":
            change.update(service=setup, fingerprint=wanted.fingerprint)
        elif name == "labels":
            change["labels"] = dict(setup.labels)
        elif name == "ssh_key":
            change.update(ssh_key=setup.ssh_public_key, ssh_user=setup.ssh_user)
        else:
            change.update(ttl=limit_s, on_ttl=setup.on_ttl)
    if change:
        adapter = await _adapter(world, held.provider)
        for handle in held.handles:
            await repeated(world, adapter.name, adapter.update, handle, change)
        if "service" in change:
            nodes = await repeated(world, adapter.name, adapter.observe, held.handles)
            # How many containers it may have, and so what it may cost, is among what was declared anew.
            price = await price_of(
                world, wanted.ask, Place(held.provider, held.region, held.gpu_type, held.gpu_count, 1, held.capacity), nodes[0], None
            )
            held = held._replace(machines=tuple(nodes), micro_usd=price.micro_usd, price_as_of=price.as_of, price_source=price.source)
        if "ttl" in change:
            held = held._replace(ends_at=held.launched_at + limit_s if limit_s else 0.0)
    held = held._replace(applied=tuple(sorted({**after, "state": before.get("state", "")}.items())))
    return await switch(world, held, wanted, after["state"]) if "state" in changed and "state" in can else held


async def _delete(world: World, held: Held) -> None:
    which = (world.name, held.owner, held.cluster, held.generation)
    handles: set[Handle] = {*held.handles, *held.leftovers}
    entries = world.journal.orders(*which)
    handles.update(handle for entry in entries for handle in entry.handles)
    named = [held.provider] if held.provider else []
    lefts: list[Left] = []
    for provider in dict.fromkeys([*named, *(entry.provider for entry in entries), *sorted(handle.provider for handle in handles)]):
        there = [handle for handle in handles if handle.provider == provider]
        try:
            adapter = await _adapter(world, provider)
        except CloudError as error:
            lefts.append(Left(tuple(there), trimmed(error)))
            continue
        pending = [entry for entry in entries if entry.provider == provider and entry.state in journals.PENDING]
        lefts.extend([await abandon(world, adapter, entry.order, entry.ticket) for entry in pending])
        own = await _own(world, adapter, held, there)
        lefts.append(await release(world, adapter, held.owner, held.cluster, held.generation, own))
    _raise_left(held.cluster, lefts, held.micro_usd)
    world.journal.release(*which, world.clock.now())


async def _own(world: World, adapter: Adapter, held: Held, handles: Sequence[Handle]) -> list[Handle]:
    """Those of the machines that no other generation has taken over."""
    if not handles:
        return []
    try:
        nodes = await repeated(world, adapter.name, adapter.observe, tuple(handles))
    except CloudError as error:
        raise HalfMade(
            f"{held.cluster}: could not be deleted: {trimmed(error)}; {bill(handles, held.micro_usd)}", provider=adapter.name, handles=handles
        ) from error
    return [node.handle for node in nodes if node.mark is None or not held.generation or node.mark.generation == held.generation]


async def _settle(world: World, owner: str) -> tuple[Node, ...]:
    lefts: list[Left] = []
    found: dict[Handle, Node] = {}
    remembered: dict[str, set[Handle]] = {}
    for entry in world.journal.orders(world.name, owner):
        remembered.setdefault(entry.provider, set()).update(entry.handles)
        if entry.state in journals.PENDING:
            try:
                adapter = await _adapter(world, entry.provider)
            except CloudError as error:
                lefts.append(Left(entry.handles, f"{entry.provider}: {trimmed(error)}"))
                continue
            world.report("info", f"{entry.order.mark.cluster}: an order at {entry.provider} was never settled; finding out what became of it")
            lefts.append(await abandon(world, adapter, entry.order, entry.ticket))
    for provider in dict.fromkeys([*world.manifests, *remembered]):
        owed = remembered.get(provider, set())
        try:
            adapter = await _adapter(world, provider)
            nodes = await repeated(world, provider, adapter.find, owner)
        except NotConfigured as error:
            if owed:
                lefts.append(Left(tuple(owed), f"{provider}: {trimmed(error)}"))
            continue
        except CloudError as error:
            lefts.append(Left(tuple(owed), f"{provider}: {trimmed(error)}"))
            continue
        there = {node.handle: node for node in nodes if node.status != GONE}
        for node in there.values():
            world.report("info", f"{node.mark.cluster if node.mark else owner}: deleting {node.handle.native_id}, which bears this stack's mark")
        found.update(there)
        if there or owed:
            lefts.append(await release(world, adapter, owner, "", "", {*there, *owed}))
    _raise_left("ownership", lefts, None)
    world.journal.release(world.name, owner, "", "", world.clock.now())
    return tuple(found.values())


def _raise_left(cluster: str, lefts: Iterable[Left], micro_usd: int | None) -> None:
    open_ones = [left for left in lefts if not left.clean]
    if open_ones:
        handles = tuple(dict.fromkeys(handle for left in open_ones for handle in left.handles))
        why = "; ".join(dict.fromkeys(left.why for left in open_ones))
        provider = handles[0].provider if handles else ""
        raise HalfMade(
            f"{cluster}: could not be confirmed deleted: {why}; {bill(handles, micro_usd)}; run it again", provider=provider, handles=handles
        )


def _end(node: Node) -> str:
    """What became of a machine that is not there any more."""
    return (
        f"{node.handle.native_id.rsplit('/', 1)[-1]} ({node.zone or node.region}) was {node.detail}"
        if node.detail
        else f"{node.handle.native_id} is gone"
    )


async def _release_all(world: World, held: Held, handles: Iterable[Handle], keep: Collection[Handle] = ()) -> Left:
    """Releases these, and all else of this generation but `keep`, at every provider concerned."""
    by_provider: dict[str, list[Handle]] = {held.provider: []} if held.provider else {}
    for handle in handles:
        by_provider.setdefault(handle.provider, []).append(handle)
    lefts = []
    for provider, own in by_provider.items():
        lefts.append(await release(world, await _adapter(world, provider), held.owner, held.cluster, held.generation, own, keep))
    return Left(tuple(handle for left in lefts for handle in left.handles), "; ".join(left.why for left in lefts if left.why))


def _stuck(held: Held, left: Left) -> Held:
    reason = f"half-made: could not be deleted: {left.why}; {bill(left.handles, held.micro_usd)}; nothing else is bought until it is gone"
    return held._replace(status=UNSETTLED, leftovers=tuple(handle for handle in left.handles if handle not in held.handles), reasons=(reason,))


def _moved(held: Held, nodes: Sequence[Node]) -> Held:
    """The same cluster on other machines."""
    first = nodes[0]
    return held._replace(
        handles=tuple(node.handle for node in nodes),
        provider=first.handle.provider,
        region=first.region,
        zone=first.zone,
        machine_type=first.machine_type,
        gpu_type=first.gpu_type,
        gpu_count=first.gpu_count,
        capacity=first.capacity,
        launched_at=first.created_at or held.launched_at,
    )


def _lost(world: World, held: Held) -> None:
    """Leaves the place alone for a while."""
    if held.provider and held.region and not held.reservation:
        scope = Scope(held.provider, held.region, held.zone, held.machine_type, held.gpu_type, held.capacity)
        world.journal.block(world.name, scope, LOST_BLOCK_S, "taken back there lately", world.clock.now())


async def _adapter(world: World, provider: str) -> Adapter:
    return await world.call(provider, world.adapter, provider)


async def _check_pinned(world: World, wanted: Wanted) -> None:
    """A declaration that allows one provider alone fails at once, and clearly, when that one is not configured."""
    if len(wanted.ask.providers) == 1 and wanted.ask.providers[0] in world.manifests:
        await _adapter(world, wanted.ask.providers[0])


@asynccontextmanager
async def _leased(world: World, owner: str, clusters: Sequence[str], patience_s: float) -> AsyncIterator[None]:
    """Holds the clusters; waits for another holder to end, up to `patience_s`, then raises Busy."""
    holder = uuid.uuid4().hex
    taken: list[str] = []
    try:
        for cluster in clusters:
            until, told = world.clock.now() + patience_s, False
            while True:
                try:
                    world.journal.take(world.name, owner, cluster, holder, world.clock.now())
                    break
                except Busy as busy:
                    if world.clock.now() >= until:
                        raise
                    if not told:
                        world.report("info", f"{busy}; waiting up to {patience_s:.0f}s")
                        told = True
                await pause(world, 0.5)
            taken.append(cluster)
        yield
    finally:
        for cluster in taken:
            # A lease that can't be dropped ends with this process; what happened before matters more.
            with suppress(GpusError):
                world.journal.drop(world.name, owner, cluster, holder)


async def _shielded(world: World, work: Callable[[Brake], Awaitable[T]], undo: Callable[[T], Awaitable[None]] | None) -> T:
    """The result of work that a cancelled caller must not cut short.

    When the caller is cancelled it is gone: the work is braked, ends by itself, and what it came to is undone; only then the cancellation
    goes on.
    """
    brake = Brake(world)
    task = asyncio.ensure_future(work(brake))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        brake.abandoned = True
        landing = asyncio.ensure_future(_land(world, task, undo))
        while not landing.done():
            try:
                await asyncio.shield(landing)
            except asyncio.CancelledError:
                continue
        raise


async def _land(world: World, task: asyncio.Future[T], undo: Callable[[T], Awaitable[None]] | None) -> None:
    try:
        result = await task
        if undo is not None:
            await undo(result)
    except Exception as error:
        # Nobody waits for it any more; what is not settled is in the journal.
        world.report("error", trimmed(error))
