"""How far what runs on machines is: read from what its start-up script wrote, as the cloud keeps it
or as the machine itself tells.

Owns the meaning of those words for a job and for a service. A provider whose jobs are its own (a
function) tells by itself, and is not asked here. What cannot be read leaves a machine as its cloud
reports it: unknown is neither done nor failed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.readiness.wait import LOADING, LOOK_FIRST_S, SETUP, WRONG
from providers.engine.record import DONE, WORK, finished, works
from providers.engine.runtime.tasks import Polling, repeated
from providers.errors import GpusError, HalfMade, NotReady
from providers.model import duration
from providers.model.machine import ENDED, FAILED, GONE, RUNNING, STOPPED, STOPPING
from providers.model.workload import CONSOLE as WORD
from providers.model.workload import FAILED as DID_FAIL
from providers.model.workload import NOT_SET_UP, READY, ROOT, SETUP_WRONG, SUCCEEDED
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Node, Order
    from providers.remote.probe import Ordered

LEADER = "leader"
"""Follows the exit code where it is that of the whole job."""
STATUS = f"cat {ROOT}/status 2>/dev/null"
ITSELF = "it powered itself off, as it does once its job is done; what that ended with is not known"


class WorkloadStatus(NamedTuple):
    """The last word of a start-up script: a state of its, what it says besides, and of which
    program.
    """

    state: str = ""
    detail: str = ""
    digest: str = ""


def last(text: str) -> WorkloadStatus:
    """The last word in what a machine wrote. Pure."""
    for line in reversed(text.splitlines()):
        head, _, rest = line.strip().partition(f"{WORD} ")
        if rest and not head.strip().endswith("="):
            digest, _, said = rest.partition(" ")
            state, _, detail = said.partition(" ")
            return WorkloadStatus(state, detail, digest)
    return WorkloadStatus()


def with_workload_status(node: Node, kind: str, word: WorkloadStatus) -> Node:
    """The machine as its work makes it: a job that is over is ended or failed, whatever became of
    the machine. Pure.
    """
    if kind == "service" and node.status == RUNNING and word.state not in {"", READY}:
        return node._replace(detail=f"its service is not ready: {word.detail or word.state}")
    if kind != "job":
        return node
    if word.state == SUCCEEDED:
        return node._replace(status=ENDED, detail="exit code 0")
    if word.state == DID_FAIL:
        code, _, why = word.detail.partition(" ")
        why = why.removeprefix(LEADER).strip()
        text = f"exit code {code or 'unknown'}{f': {why}' if why else ''}"
        return node._replace(status=FAILED, detail=text)
    if word.state in NOT_SET_UP:
        code, _, why = word.detail.partition(" ")
        return node._replace(
            status=FAILED,
            detail=f"its set-up ended with {code or 'an unknown code'}: {why}".rstrip(": "),
        )
    if node.status in (STOPPED, STOPPING):
        return node._replace(status=ENDED, detail=ITSELF)
    return node


async def word(world: World, adapter: Cloud, node: Node, order: Order | None) -> WorkloadStatus:
    """The last word of this machine's script; an empty one where nothing can be read. One call."""
    try:
        if adapter.logs:
            return last(await repeated(world, adapter.name, adapter.log, node.handle))
        if world.name == REHEARSAL:
            return _played(world, node, order)
        return last(await _told(world, node, order))
    except GpusError:
        return WorkloadStatus()


async def _words(
    world: World, adapter: Cloud, nodes: Sequence[Node], order: Order | None
) -> list[WorkloadStatus]:
    """The last word of each, asked at once."""
    return await asyncio.gather(*(word(world, adapter, node, order) for node in nodes))


async def observed(world: World, adapter: Cloud, record: ClusterRecord) -> tuple[Node, ...]:
    """What is held, as its cloud reports it and as its work makes it: one look, and one more at
    each machine that has a job of ours.
    """
    nodes = await _looked(world, adapter, record)
    if (
        record.kind == "job"
        and nodes
        and not finished(record)
        and {node.status for node in nodes} <= {*DONE}
    ):
        worst = next((node for node in nodes if node.status == FAILED), nodes[0])
        world.journal.concluded(record, worst.status, worst.detail)
    return nodes


async def _looked(world: World, adapter: Cloud, record: ClusterRecord) -> tuple[Node, ...]:
    nodes = tuple(await repeated(world, adapter.name, adapter.observe, record.handles))
    asked = record.kind == "job" or (record.kind == "service" and record.placement.nodes > 1)
    if not asked or not works(record):
        return nodes
    if finished(record):
        # What was told once stays, however the machine goes on.
        why = {node.handle: node.detail for node in record.machines}
        told = record.detail
        return tuple(
            (
                node
                if node.status == GONE
                else node._replace(
                    status=record.status, detail=why.get(node.handle, told or node.detail)
                )
            )
            for node in nodes
        )
    order = next(
        (
            entry.order
            for entry in world.journal.orders(
                world.name, record.owner, record.cluster, record.generation
            )
        ),
        None,
    )
    digest = dict(record.applied).get(WORK, "")
    return await seen(world, adapter, record.kind, digest, nodes, order)


async def seen(
    world: World,
    adapter: Cloud,
    kind: str,
    digest: str,
    nodes: Sequence[Node],
    order: Order | None,
) -> tuple[Node, ...]:
    """The machines of a job or a service as their work makes them: one look at each that may have
    something to tell. Words of another program do not count. The end of a job's leader is that of
    the others too.
    """
    found: list[Node] = []
    leader: Node | None = None
    tells = [
        node.kind == "machine" and node.status in (RUNNING, STOPPED, STOPPING, ENDED, GONE)
        for node in nodes
    ]
    asked = [node for node, told in zip(nodes, tells, strict=True) if told]
    words = iter(await _words(world, adapter, asked, order))
    for node, told in zip(nodes, tells, strict=True):
        said = next(words) if told else WorkloadStatus()
        said = said if said.digest == digest else WorkloadStatus()
        found.append(with_workload_status(node, kind, said) if told else node)
        if kind == "job" and said.detail.split()[1:2] == [LEADER]:
            leader = found[-1]
    if leader is None:
        return tuple(found)
    return tuple(
        (
            node._replace(status=leader.status, detail=leader.detail)
            if node.status in (RUNNING, *DONE)
            else node
        )
        for node in found
    )


async def until_working(
    world: World,
    adapter: Cloud,
    placed: Ordered,
    nodes: Sequence[Node],
    order: Order,
    deadline: float,
    stop_signal: StopSignal,
) -> tuple[Node, ...] | None:
    """The machines once the service on all of them answers by its own health path; None when the
    stop signal came on.

    Raises NotReady when it does not by the deadline, HalfMade when its set-up failed, or when its
    cloud ended a machine. One look at each per poll.
    """
    polling, told = Polling(world, deadline, stop_signal, first_s=LOOK_FIRST_S), ""
    handles = tuple(node.handle for node in nodes)
    while True:
        nodes = tuple(await repeated(world, adapter.name, adapter.observe, handles))
        if (lost := next((node for node in nodes if node.status != RUNNING), None)) is not None:
            text = f"wanted the service to answer, found that {lost.name} is {lost.status}"
            raise HalfMade(text, provider=placed.provider, code=lost.status, handles=handles)
        said = [
            each if each.digest == order.setup.script_digest else WorkloadStatus()
            for each in await _words(world, adapter, nodes, order)
        ]
        if all(each.state == READY for each in said):
            return nodes
        broken = min(
            (each for each in said if each.state in NOT_SET_UP),
            key=lambda each: each.state != SETUP_WRONG,
            default=None,
        )
        if broken is not None:
            text = f"wanted the service to answer, found its set-up ended with {broken.detail}"
            code = WRONG if broken.state == SETUP_WRONG else SETUP
            raise HalfMade(text, provider=placed.provider, code=code, handles=handles)
        if world.clock.now() >= deadline:
            slow = next(each for each in said if each.state != READY)
            text = (
                f"wanted the service to answer within {duration.text(order.wait_s)}, found it"
                f" started, not ready: {slow.state or 'no word of it yet'}"
            )
            raise NotReady(text, provider=placed.provider, code=LOADING, handles=handles)
        if stop_signal.on:
            return None
        if (state := said[0].state) != told:
            told = state
            world.report(
                "info",
                f"{placed.provider} {placed.placement.where}: waiting until the service"
                f" answers: {state or 'starting'}",
            )
        await polling.pause()


def _played(world: World, node: Node, order: Order | None) -> WorkloadStatus:
    """What a rehearsal's machine without a console would tell by login."""
    from providers.rehearsal import script
    from providers.rehearsal.store import open_store

    store = open_store()
    given = (
        ""
        if order is None
        else str(dict(order.setup.options).get("command", "")) or order.setup.script
    )
    if node.status not in (RUNNING, ENDED):
        return WorkloadStatus()
    code, job_s = (
        store.exit_code(node.handle.provider, node.zone or node.region, node.machine_type),
        store.latency(node.handle.provider, "job"),
    )
    lines = script.told(
        store, node.handle.native_id, given, node.created_at, world.clock.now(), job_s, code
    )
    return last("\n".join(line for _, line in lines))


async def _told(world: World, node: Node, order: Order | None) -> str:
    """What the machine says of it by login, with the key that is kept here; nothing without one."""
    from providers.engine.readiness.access import key_probe
    from providers.remote.run import finished as ended

    if order is None or node.status != RUNNING:
        return ""
    looker = key_probe(world, *order.label[:2], node.handle.provider, pinned=True)
    line = None if looker is None else looker.line(node)
    if line is None:
        return ""
    code, out, _ = await ended(line.command(STATUS))
    return out if code == 0 else ""
