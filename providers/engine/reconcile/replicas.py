"""Brings a service to as many replicas as are declared: what is missing is bought beside those that
serve, what is beyond is released, and each learns of all others. Another workload is started on one
after the other. Runs under the cluster's lease.

Owns that no replica which serves is ever given up for another one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.engine.messages import rerun_command
from providers.engine.readiness.access import key_probe
from providers.engine.readiness.handover import peers_of, rerun, written
from providers.engine.readiness.workload import until_working
from providers.engine.reconcile.rejoin import rejoin
from providers.engine.record import (
    DEGRADED,
    HEALTHY,
    UNTOLD,
    WORK,
    ClusterRecord,
    status_of,
    works,
)
from providers.engine.runtime.accounts import home_of
from providers.engine.termination.end import release_all, stuck
from providers.errors import CloudError, GpusError
from providers.model.machine import RUNNING
from providers.model.workload import ROOT
from providers.planner.check import satisfied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.desired import ClusterSpec
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.engine.setup import StartPlan
    from providers.model.machine import Node, Setup
    from providers.remote.line import Line


async def resized(
    world: World, record: ClusterRecord, spec: ClusterSpec, after: ClusterRecord, stop: StopSignal
) -> ClusterRecord:
    """The record with the replicas that are declared; with `reasons` while one is missing, and the
    others serve. With `on_loss: report` only another number than before is acted on.
    """
    index = satisfied(spec.ask, record.placement)
    if index is None:
        return after
    wanted, well = spec.ask.entries[index].nodes, _well(after)
    asked = wanted != record.placement.nodes
    if not asked and (len(well) == len(record.handles) == wanted or not after.reasons):
        return after
    if len(well) < wanted:
        now = _short(_of(after, wanted), len(well))
        grown = await rejoin(world, _of(record, wanted), spec, now, stop)
        return _nothing_there(now, len(well)) if grown is None else grown
    return await _reduced(world, record, _of(after, wanted), well[:wanted])


async def shared(world: World, record: ClusterRecord) -> ClusterRecord:
    """The record once each replica that runs knows the addresses of all; with `reasons` where one
    could not be told.
    """
    if not works(record):
        return record
    applied = tuple(pair for pair in record.applied if pair[0] != UNTOLD)
    if not (why := await _told(world, record, record.machines)):
        return record._replace(applied=applied)
    reason = f"half-made: the replicas do not all know each other: {why}; the next `up` tells them"
    return record._replace(reasons=(reason,), applied=tuple(sorted((*applied, (UNTOLD, "yes")))))


async def rolled(
    world: World,
    record: ClusterRecord,
    setup: Setup,
    program: StartPlan,
    spec: ClusterSpec,
    stop: StopSignal,
) -> ClusterRecord:
    """The record once each replica that runs has started another workload, one after the other: the
    next one does so only when this one answers. With `reasons` where one does not; those after it
    go on with the previous workload.
    """
    orders = world.journal.orders(world.name, record.owner, record.cluster, record.generation)
    if not orders:
        raise GpusError(f"{record.cluster}: its order is not known on this machine")
    wait_s = spec.ask.entries[record.entry].wait_s
    order = orders[0].order._replace(setup=setup, wait_s=wait_s)
    adapter, serving = await home_of(world, record), _well(record)
    total = len(serving)
    for number, node in enumerate(serving):
        await rerun(world, record, (node,), program)
        deadline = world.clock.now() + wait_s
        try:
            well = await until_working(world, adapter, record, (node,), order, deadline, stop)
            why = "" if well else "this run was stopped"
        except CloudError as error:
            why = str(error)
        if why:
            reason = (
                f"half-made: {number + 1} of {total} replicas run the new workload, the others the"
                f" previous one: {node.name}: {why}; mend it, and the next `up` goes on"
            )
            applied = {**dict(record.applied), WORK: UNTOLD, UNTOLD: "yes"}
            return record._replace(reasons=(reason,), applied=tuple(sorted(applied.items())))
        world.report("info", f"{record.cluster}: {number + 1} of {total} replicas are restarted")
    return record


async def _told(world: World, record: ClusterRecord, nodes: Sequence[Node]) -> str:
    """Writes the addresses of these replicas onto each of them; why not, where one takes no file.
    Their proxies follow within seconds.
    """
    running = [node for node in nodes if node.status == RUNNING]
    looker = key_probe(world, record.owner, record.cluster, record.provider, pinned=True)
    if looker is None:
        return "no key of this cluster is on this machine"
    text = peers_of(running)
    found = await asyncio.gather(*(_write(looker.line(node), text) for node in running))
    return next(
        (f"{node.name}: {why}" for node, why in zip(running, found, strict=True) if why), ""
    )


async def _write(line: Line | None, text: str) -> str:
    if line is None:
        return "no address"
    try:
        code, errors = await written(line, {f"{ROOT}/peers": text})
    except GpusError as error:
        return str(error)
    return (errors.strip()[:160] or f"exit code {code}") if code else ""


async def _reduced(
    world: World, record: ClusterRecord, after: ClusterRecord, kept: Sequence[Node]
) -> ClusterRecord:
    """The first ones stay. Their proxies forget the others before those are deleted."""
    rest = tuple(node.handle for node in kept)
    gone = [handle for handle in (*record.handles, *record.leftovers) if handle not in rest]
    if works(record) and (why := await _told(world, record, kept)):
        world.report("warning", f"{record.cluster}: not told which replicas go: {why}")
    world.report("info", f"{record.cluster}: {len(kept)} replicas stay, {len(gone)} are released")
    left = await release_all(world, record, gone, keep=rest)
    if not left.clean:
        return stuck(after, left)
    world.journal.release(
        world.name, record.owner, record.cluster, record.generation, world.clock.now(), gone
    )
    less = after._replace(
        status=status_of(kept), handles=rest, machines=tuple(kept), leftovers=(), reasons=()
    )
    world.journal.launched(less)
    return less


def _well(record: ClusterRecord) -> list[Node]:
    return [node for node in record.machines if node.status in HEALTHY]


def _of(record: ClusterRecord, wanted: int) -> ClusterRecord:
    """The record of so many machines, each at its present price."""
    nodes, price = record.placement.nodes, record.price
    total = None if price.micro_usd is None else price.micro_usd * wanted // nodes
    return record._replace(
        placement=record.placement._replace(nodes=wanted), price=price._replace(micro_usd=total)
    )


def _short(record: ClusterRecord, well: int) -> ClusterRecord:
    wanted = record.placement.nodes
    reason = (
        f"degraded: {well} of {wanted} replicas serve; the next `up` gets what is missing in the"
        " same region, beside them"
    )
    return record._replace(status=DEGRADED, reasons=(reason,))


def _nothing_there(after: ClusterRecord, well: int) -> ClusterRecord:
    place = after.placement
    reason = (
        f"degraded: {well} of {place.nodes} replicas serve, and {after.provider} sells nothing more"
        f" in {place.region}; the next `up` asks again,"
        f" {rerun_command(after.cluster)} places all of them again"
    )
    return after._replace(reasons=(reason,))
