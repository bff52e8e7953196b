"""Handles a run whose cluster another run, in another home, has taken over: finds what is still its
own, and releases that.

Owns the last look before an answer. Labels tell where no lease is shared; what another run made or
adopted is never touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.engine.messages import trimmed
from providers.engine.runtime.accounts import by_adapter, survey
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import Remainder, release
from providers.errors import CloudError
from providers.model.machine import GONE, is_foreign

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node, Order


async def confirmed(
    world: World, record: ClusterRecord, stop_signal: StopSignal, kept: Collection[Handle] = ()
) -> ClusterRecord:
    """What was bought or kept, if this run still has the cluster. Else all of it but `kept` is
    released, confirmed, and TakenOver raised.

    What is not settled yet is returned as it is: a state has to name it.
    """
    bought = [handle for handle in (*record.handles, *record.leftovers) if handle not in kept]
    if bought and not record.reasons and not stop_signal.taken_over and world.leases is None:
        stop_signal.rival = await _rival(world, record)
    if record.reasons or not stop_signal.taken_over:
        if stop_signal.lease is not None:
            stop_signal.lease.note(record.handles, record.fingerprint)
        return record
    left = await _released(world, record, bought, stop_signal)
    if left.clean:
        world.journal.release(
            world.name, record.owner, record.cluster, record.generation, world.clock.now(), bought
        )
        raise stop_signal.stopped(record.cluster, "nothing of this run is left")
    raise stop_signal.stopped(
        record.cluster,
        f"what this run bought could not be deleted: {left.said(record.price.micro_usd)}",
    )


async def theirs(
    world: World, adapter: Cloud, order: Order, handles: Collection[Handle], stop_signal: StopSignal
) -> set[Handle]:
    """Of these machines, and of all that carry the order's label, those that another run made or
    has adopted. Raises CloudErrors.
    """
    nodes = (
        [
            node
            for node in await repeated(world, adapter.name, adapter.observe, tuple(handles))
            if node.status != GONE
        ]
        if handles
        else []
    )
    labelled = await repeated(world, adapter.name, adapter.find, *order.label[:3])
    found = _adopted(nodes, order.label.generation, stop_signal)
    return found | {
        node.handle for node in labelled if node.handle not in handles and of_another(node, order)
    }


def of_another(node: Node, order: Order) -> bool:
    """Whether a machine has the name of another order of the same cluster."""
    return not node.name.startswith(_stem(order)) and bool(
        re.match(rf"{re.escape(order.label.cluster)}-[0-9a-f]{{8}}-\d", node.name)
    )


def _stem(order: Order) -> str:
    return order.node_names[0].rpartition("-")[0]


def _adopted(nodes: Collection[Node], generation: str, stop_signal: StopSignal) -> set[Handle]:
    """Those that carry another generation by now, or that the run which holds the cluster names as
    its own.
    """
    last = stop_signal.lease.last() if stop_signal.lease is not None else None
    named = set(last.handles) if last is not None and stop_signal.taken_over else set()
    return named | {node.handle for node in nodes if is_foreign(node.label, generation)}


async def _released(
    world: World, record: ClusterRecord, bought: Collection[Handle], stop_signal: StopSignal
) -> Remainder:
    remainders: list[Remainder] = []
    try:
        for adapter, own in await by_adapter(world, record, bought):
            there = await repeated(world, adapter.name, adapter.observe, tuple(own))
            others = _adopted(there, record.generation, stop_signal)
            # By name alone: another run of the same state may have bought under the same
            # generation.
            remainders.append(
                await release(
                    world, adapter, "", "", "", [handle for handle in own if handle not in others]
                )
            )
    except CloudError as error:
        return Remainder(tuple(bought), trimmed(error))
    return Remainder(
        tuple(handle for left in remainders for handle in left.handles),
        "; ".join(left.why for left in remainders if left.why),
    )


async def _rival(world: World, record: ClusterRecord) -> str:
    """Who else bought for the cluster since the look before this purchase; empty if no one did. Of
    two placements, the older one stays.
    """
    if taken := [
        node.name for node in record.machines if is_foreign(node.label, record.generation)
    ]:
        return f"another run has adopted {', '.join(taken)}"
    try:
        found = await survey(world, record.owner, record.cluster)
    except CloudError as error:
        world.report(
            "warning",
            f"{record.cluster}: whether another run bought for it meanwhile could not be looked up:"
            f" {trimmed(error)}",
        )
        return ""
    mine = min(
        ((node.created_at, record.generation) for node in record.machines),
        default=(record.launched_at, record.generation),
    )
    others = [
        node
        for node in found
        if is_foreign(node.label, record.generation) and node.handle not in record.handles
    ]
    first = [
        node
        for node in others
        if node.label is not None and (node.created_at, node.label.generation) < mine
    ]
    return (
        f"another run has bought {', '.join(node.name or node.handle.native_id for node in first)}"
        " for it"
        if first
        else ""
    )
