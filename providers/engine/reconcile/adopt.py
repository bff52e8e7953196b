"""Adopts what interrupted runs left of a cluster: their orders, and machines of its label.

Every existing machine of the same owner and cluster is either taken over or
confirmed gone; only then may something be bought.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from providers.engine.desired import ttl
from providers.engine.journal import orders as order_table
from providers.engine.launch.pending import by_race, ended
from providers.engine.launch.result import UNCONFIRMED, WAITING_ON, LaunchResult
from providers.engine.messages import trimmed
from providers.engine.reconcile.pricing import price_of
from providers.engine.reconcile.status import with_status
from providers.engine.record import (
    DONE,
    ClusterRecord,
    applied,
    began,
    healthy,
    limit_at,
    status_of,
)
from providers.engine.runtime.accounts import adapter_of, surveyed
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.lost import Lost
from providers.engine.termination.settle import leave_queue, release
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    Unsupported,
)
from providers.model.ask import RESERVATION
from providers.model.machine import GONE, QUEUED, Handle, Label, Node
from providers.model.money import per_hour
from providers.planner.check import satisfied

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.journal.orders import OrderRow
    from providers.engine.reconcile.placements import Replacement
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.engine.termination.settle import Remainder
    from providers.model.placement import Placement


async def existing(
    world: World, spec: ClusterSpec, generation: str, stop: StopSignal
) -> tuple[ClusterRecord | None, tuple[Lost, ...]]:
    """Takes over what already serves the declaration, and makes sure that nothing else of this
    cluster exists, but what of two orders at once has lost to it and could not be ended yet.

    Returns what was adopted, and those; or None when nothing is there and buying is safe. Raises
    OutcomeUnknown while an earlier order is not settled, and HalfMade when something that must go
    could not be deleted.
    """
    lost = await _settle_orders(world, spec, stop)
    names = {name for each in lost for name in each.row.order.node_names}
    found = {
        node.handle: (adapter, node)
        for adapter, node in await surveyed(world, spec.owner, spec.cluster)
    }
    found.update(
        {node.handle: (adapter, node) for adapter, node in await _remembered(world, spec, found)}
    )
    # What is in an account that is no longer declared is not taken over: somebody else would go on
    # paying for it. Nor is what is being ended.
    chosen, entry = _choose(
        world,
        spec,
        [
            node
            for adapter, node in found.values()
            if node.name not in names and await _present(world, adapter)
        ],
    )
    if chosen and not (_starts(world, spec, chosen) and await _has_volumes(world, spec, chosen)):
        chosen = ()
    chosen = await _opened(world, spec, chosen, generation)
    keep = [node.handle for node in chosen]
    stop.check(spec.cluster)
    if not chosen:
        check_none(spec, lost)
    await _clear_away(
        world,
        spec,
        [
            (adapter, node)
            for adapter, node in found.values()
            if node.handle not in keep and node.name not in names
        ],
        keep,
    )
    return await _adopt(world, spec, generation, chosen, entry) if chosen else None, lost


async def _opened(
    world: World, spec: ClusterSpec, nodes: tuple[Node, ...], generation: str
) -> tuple[Node, ...]:
    """These machines, once nothing keeps their user from logging in; none of them where that is
    refused for good.
    """
    closed = next((node.closed for node in nodes if node.closed), "")
    if not closed:
        return nodes
    try:
        await _label(world, nodes, generation)
    except (BadCredentials, QuotaExceeded, Unsupported) as error:
        why = f"an earlier run's machine is {closed}: {trimmed(error)}"
        world.report("warning", f"{spec.cluster}: {why}")
        return ()
    return tuple(node._replace(closed="") for node in nodes)


def check_none(spec: ClusterSpec, lost: Sequence[Lost]) -> None:
    """Raises HalfMade where an order that has lost is not known to be gone: nothing is bought then
    in place of the one that had won.
    """
    if lost:
        raise HalfMade(
            f"{spec.cluster}: nothing is bought: {'; '.join(each.reason for each in lost)}",
            provider=lost[0].row.provider,
            handles=tuple(handle for each in lost for handle in each.handles),
        )


async def _settle_orders(world: World, spec: ClusterSpec, stop: StopSignal) -> tuple[Lost, ...]:
    """Settles every order of this cluster that never was, and returns those that have lost and are
    not known to be gone. Whatever else was made is found by the survey that follows.
    """
    pending = world.journal.orders(world.name, spec.owner, spec.cluster, states=order_table.PENDING)
    lost: list[Lost] = []
    for group in by_race(pending):
        for entry in group:
            if not world.journal.has_lost(entry):
                world.report(
                    "info",
                    f"{spec.cluster}: an earlier run was cut short while it ordered at"
                    f" {entry.provider}; finding out what became of it",
                )
        for entry, result in await ended(world, spec, group, stop):
            if isinstance(result, Lost):
                lost.append(result)
            elif isinstance(result, LaunchResult):
                await _check_settled(world, spec, entry, result)
    return tuple(lost)


async def _check_settled(
    world: World, spec: ClusterSpec, entry: OrderRow, result: LaunchResult
) -> None:
    """Takes what waits out of its queue. Raises OutcomeUnknown where it is not known what the order
    made, and HalfMade where it could not be ended.
    """
    if result.state == UNCONFIRMED and not result.handles:
        raise OutcomeUnknown(
            f"{spec.cluster}: nothing is bought: {'; '.join(result.reasons)}",
            provider=entry.provider,
            token=entry.order.token,
        )
    if result.state == WAITING_ON:
        adapter = await adapter_of(world, entry.provider, entry.account)
        _check_gone(spec, entry, await leave_queue(world, adapter, entry.order, entry.ticket))


def _check_gone(spec: ClusterSpec, entry: OrderRow, left: Remainder) -> None:
    if not left.clean:
        raise HalfMade(
            f"{spec.cluster}: an earlier run's order still waits at {entry.provider} and"
            f" could not be ended: {left.why}",
            provider=entry.provider,
            handles=left.handles,
        )


async def _present(world: World, adapter: Cloud) -> bool:
    try:
        return await adapter_of(world, adapter.name) is adapter
    except CloudError:
        return False


def _starts(world: World, spec: ClusterSpec, nodes: Sequence[Node]) -> bool:
    """Whether the workload can be started on these machines: not where the journal knows that they
    were ordered without one.
    """
    ask = spec.ask
    if ask.kind != "machine" or ask.workload is None or ask.by_login:
        return True
    made = _order_of(world, spec, [node.handle for node in nodes])
    return made is None or bool(made.order.setup.script_digest)


def _order_of(world: World, spec: ClusterSpec, handles: Collection[Handle]) -> OrderRow | None:
    """The order that made these machines, as the journal knows it."""
    orders = world.journal.orders(world.name, spec.owner, spec.cluster)
    return next((entry for entry in orders if set(handles) & set(entry.handles)), None)


async def _has_volumes(world: World, spec: ClusterSpec, nodes: Sequence[Node]) -> bool:
    """Whether the volumes that the declaration mounts are attached to these machines. A run that
    was cut short may have launched a machine and attached none; its start-up script would wait for
    ever. Raises where its cloud cannot be asked.
    """
    provider = nodes[0].handle.provider
    sold = world.manifests[provider].storage
    if not spec.setup.volumes or sold is None or not sold.types:
        return True
    store = (await adapter_of(world, provider)).volumes
    there = await repeated(world, provider, lambda: store.find(owner=spec.owner))
    users = {each.spec.name: each.users for each in there}
    return all(
        {node.name, node.handle.native_id.rpartition("/")[2]} & set(users.get(mount.name, ()))
        for mount in spec.setup.volumes
        for node in nodes
    )


async def _remembered(
    world: World, spec: ClusterSpec, known: Collection[Handle]
) -> list[tuple[Cloud, Node]]:
    """Machines that only the journal knows of, or the backend's own lease: some clouds have no
    labels.
    """
    found = await _named_elsewhere(world, spec, known)
    known = {*known, *(node.handle for _, node in found)}
    for entry in world.journal.orders(
        world.name, spec.owner, spec.cluster, states=(order_table.MADE,)
    ):
        missing = [handle for handle in entry.handles if handle not in known]
        if not missing:
            continue
        adapter = await adapter_of(world, entry.provider, entry.account)
        nodes = [
            node
            for node in await repeated(world, entry.provider, adapter.observe, missing)
            if node.status != GONE
        ]
        found.extend(
            (adapter, node if node.label is not None else node._replace(label=entry.order.label))
            for node in nodes
        )
        if not nodes and len(missing) == len(entry.handles):
            world.journal.settled(
                entry.order.token, order_table.RELEASED, world.clock.now(), "gone"
            )
    return found


async def _named_elsewhere(
    world: World, spec: ClusterSpec, known: Collection[Handle]
) -> list[tuple[Cloud, Node]]:
    """What the last run of any home that had the cluster says it has. An account that is not here
    is passed over.
    """
    last = (
        world.leases.last(world.name, spec.owner, spec.cluster)
        if world.leases is not None
        else None
    )
    found: list[tuple[Cloud, Node]] = []
    for handle in last.handles if last is not None else ():
        if handle in known or last is None:
            continue
        try:
            adapter = await adapter_of(world, handle.provider)
        except NotConfigured:
            continue
        (node,) = await repeated(world, handle.provider, adapter.observe, (handle,))
        if node.status != GONE and (node.label is None or node.label.owner == spec.owner):
            label = Label(spec.owner, spec.cluster, last.generation, last.fingerprint)
            found.append((adapter, node._replace(label=label) if node.label is None else node))
    return found


def _choose(world: World, spec: ClusterSpec, nodes: Sequence[Node]) -> tuple[tuple[Node, ...], int]:
    """The machines to take over, and the entry that they serve: whole, alike, in one place (of
    replicas: in one region), of the same fingerprint; the most wanted first.
    """
    sets: dict[tuple[object, ...], list[Node]] = {}
    good = healthy(spec.ask.kind)
    for node in nodes:
        if (
            node.status in good
            and node.status != QUEUED
            and node.label is not None
            and node.label.fingerprint == spec.fingerprint
        ):
            at = node.placement
            sets.setdefault(at._replace(zone="") if spec.ask.replicated else at, []).append(node)
    options: list[tuple[int, float, tuple[Node, ...]]] = []
    for group in sets.values():
        group.sort(key=lambda node: (node.created_at, node.name))
        for size in {entry.nodes for entry in spec.ask.entries if entry.nodes <= len(group)}:
            entry = satisfied(spec.ask, place(world, spec, group[:size]))
            if entry is not None and spec.ask.entries[entry].nodes == size:
                options.append((entry, group[0].created_at, tuple(group[:size])))
    if not options:
        return (), 0
    entry, _, chosen = min(options, key=lambda option: option[:2])
    return chosen, entry


def place(world: World, spec: ClusterSpec, nodes: Sequence[Node]) -> Placement:
    """Where and what these machines are. Clouds do not tell which reservation a machine uses: the
    journal does, or the only one declared.
    """
    first, reservation = nodes[0], ""
    if first.capacity == RESERVATION:
        handles = {node.handle for node in nodes}
        orders = world.journal.orders(world.name, spec.owner, spec.cluster)
        known = {
            entry.ticket.placed.reservation
            for entry in orders
            if entry.ticket and entry.ticket.placed and handles & set(entry.handles)
        }
        declared = {
            way.reservation
            for entry in spec.ask.entries
            for way in entry.capacity
            if way.kind == RESERVATION
        }
        names = known or declared
        reservation = names.pop() if len(names) == 1 else ""
    return first.placement._replace(nodes=len(nodes), reservation=reservation)


async def _clear_away(
    world: World, spec: ClusterSpec, rest: Sequence[tuple[Cloud, Node]], keep: Sequence[Handle]
) -> None:
    groups: dict[int, tuple[Cloud, list[Handle]]] = {}
    for adapter, node in rest:
        world.report(
            "warning",
            f"{spec.cluster}: {node.handle.native_id} is of an earlier run and not what is"
            " declared now, or one too many; deleting it",
        )
        groups.setdefault(id(adapter), (adapter, []))[1].append(node.handle)
    for adapter, handles in groups.values():
        left = await release(world, adapter, spec.owner, spec.cluster, "", handles, keep)
        if not left.clean:
            raise HalfMade(
                f"{spec.cluster}: nothing is bought while an earlier run's machine exists, and it"
                f" could not be deleted: {left.said(None)}",
                provider=adapter.name,
                handles=left.handles,
            )
        world.journal.release(world.name, spec.owner, spec.cluster, "", world.clock.now(), handles)


async def _adopt(
    world: World, spec: ClusterSpec, generation: str, chosen: Sequence[Node], entry: int
) -> ClusterRecord:
    """Writes the new generation on the machines; what they cost is taken from when they were
    bought, as far as the journal knows.
    """
    first, handles = chosen[0], tuple(node.handle for node in chosen)
    await _label(world, chosen, generation)
    made = _order_of(world, spec, handles)
    where = place(world, spec, chosen)
    price = await price_of(world, spec.ask, where, first, made)
    now = world.clock.now()
    world.journal.adopt(world.name, spec.owner, spec.cluster, generation, handles, now)
    launched = began(chosen, now, made.created_at if made is not None else now)
    ttl_s = (made.order.setup.ttl_s if made is not None else ttl(spec, entry)) or 0
    placed = made.ticket.placed if made is not None and made.ticket is not None else None
    record = ClusterRecord(
        world=world.name,
        owner=spec.owner,
        cluster=spec.cluster,
        generation=generation,
        fingerprint=spec.fingerprint,
        status=next((node.status for node in chosen if node.status in DONE), status_of(chosen)),
        placement=where,
        price=price,
        handles=handles,
        machines=tuple(
            (
                node._replace(label=node.label._replace(generation=generation))
                if node.label is not None
                else node
            )
            for node in chosen
        ),
        launched_at=launched,
        ends_at=limit_at(launched, ttl_s, placed.offer.term if placed is not None else None),
        entry=entry,
        applied=applied(made.order.setup, spec.ask.kind) if made is not None else (),
        kind=spec.ask.kind,
        account=await world.call(where.provider, world.account, where.provider),
    )
    world.journal.launched(record)
    names = ", ".join(node.name for node in chosen)
    world.report(
        "info",
        f"{spec.cluster}: adopted {names} ({where.where},"
        f" {per_hour(price.micro_usd)}), made by an earlier run",
    )
    return record


async def _label(world: World, nodes: Sequence[Node], generation: str) -> None:
    """Writes the generation on machines of one provider that do not carry it, or are closed."""
    provider = nodes[0].handle.provider
    due = [
        node.handle
        for node in nodes
        if node.closed or node.label is None or node.label.generation != generation
    ]
    if not due or not world.manifests[provider].capabilities.relabels:
        return
    adapter = await world.call(provider, world.adapter, provider)
    for handle in due:
        await repeated(world, provider, adapter.relabel, handle, generation)


async def imported(world: World, provider: str, native_id: str) -> ClusterRecord | None:
    """One machine that the state does not know, as a cluster of its own; None when there is no such
    machine.

    Its label says whose it is; without one, owner and cluster are empty and the generation is new.
    Writes nothing at the cloud.
    """
    adapter = await world.call(provider, world.adapter, provider)
    nodes = await repeated(world, provider, adapter.observe, (Handle(provider, native_id),))
    if not nodes or nodes[0].status == GONE:
        return None
    node = nodes[0]
    where = node.placement
    price = await price_of(world, None, where, node, None)
    record = ClusterRecord(
        world=world.name,
        owner=node.label.owner if node.label else "",
        cluster=node.label.cluster if node.label else node.name,
        generation=node.label.generation if node.label else uuid.uuid4().hex[:12],
        fingerprint=node.label.fingerprint if node.label else "",
        status=node.status,
        placement=where,
        price=price,
        handles=(node.handle,),
        machines=(node,),
        launched_at=began((node,), world.clock.now(), 0.0),
        account=await world.call(provider, world.account, provider),
        kind=node.kind,
    )
    return with_status(record, nodes, world.clock.now()) or record


async def priced_replacement(world: World, found: Replacement) -> ClusterRecord:
    """The record of that placement at the price of the order that made it; else at today's."""
    record = found.record
    if found.order is not None:
        return record
    price = await price_of(world, None, record.placement, record.machines[0], None)
    return record._replace(price=price)


async def exchange(world: World, record: ClusterRecord, found: ClusterRecord) -> ClusterRecord:
    """Takes over a placement that a run left beside the present one, and releases everything else
    of the generation; what could not be is in the record's `leftovers` and `reasons`.
    """
    from providers.engine.reconcile.relocate import release_previous

    world.report(
        "info",
        f"{record.cluster}: a run that was cut short had placed it in {found.placement.where};"
        " that is kept, the rest released",
    )
    await _label(world, found.machines, found.generation)
    rest = (*record.handles, *record.leftovers)
    return await release_previous(world, record, found, rest)
