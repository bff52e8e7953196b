"""Readiness: from "the cloud says it runs" to "it can be worked on". Owns the wait and what ends
it; how one machine is looked at is a Probe's.

One time-out governs the whole wait: the entry's `wait`, which began with the order. It ends early,
within one poll, when the cloud says that a machine failed or was taken back. Imports no transport:
probes are in `providers.remote`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.engine.journal.blocks import LOST_BLOCK_S
from providers.engine.messages import bare, trimmed
from providers.engine.record import HEALTHY, ended_itself
from providers.engine.runtime.tasks import Polling
from providers.errors import HalfMade, NotReady, RateLimited, Transient
from providers.model.machine import (
    GONE,
    PREEMPTED,
    RUNNING,
    Handle,
    Node,
)
from providers.remote.probe import CLOSED, NO_ADDRESS, NOT_RUNNING, Ordered, Probe, ProbeResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World


LOADING = "loading"
"""The code of a service that started and did not answer within the wait. It loads what it serves:
that takes as long at any place.
"""

SETUP, WRONG = "set-up", "set-up-wrong"
"""The codes of a service whose set-up ended: by what may be the machine's fault, or by the
declaration's own lines or image, as it would anywhere.
"""


LOOK_FIRST_S = 1.0
LOOK_LIMIT_S = 30.0
"""Real seconds that one look at one machine may take."""


async def until_ready(
    world: World,
    adapter: Cloud,
    placed: Ordered,
    handles: Sequence[Handle],
    probe: Probe,
    deadline: float,
    stop_signal: StopSignal,
    *,
    observed: tuple[Node, ...] = (),
) -> tuple[Node, ...] | None:
    """The machines once all of them are ready, None when the stop signal came on. `observed` is
    what their cloud has just said of them: it is not asked again for the first look.

    Raises NotReady when they are not by the deadline, HalfMade when one can never be, or when the
    cloud ended one; its code is the stage reached or the cloud's status. One cloud call and one
    look at each machine per poll.
    """
    started, told, last = world.clock.now(), "", ProbeResult(NO_ADDRESS)
    polling = Polling(world, deadline, stop_signal, first_s=LOOK_FIRST_S)
    while True:
        given, observed = observed, ()
        try:
            nodes: tuple[Node, ...] = given or tuple(
                await world.call(adapter.name, adapter.observe, tuple(handles))
            )
        except (RateLimited, Transient) as error:
            world.report(
                "warning",
                f"{adapter.name}: could not be asked how its machines are:"
                f" {bare(adapter.name, trimmed(error))}",
            )
            polling.put_off(error)
        else:
            for node in nodes:
                if node.status not in HEALTHY and not ended_itself(node, placed.kind):
                    raise _over(world, placed, handles, node, last, started)
            looks = await asyncio.gather(*(_look(probe, node, placed) for node in nodes))
            worst = next((look for look in looks if look.final), None) or next(
                (look for look in looks if look.stage), None
            )
            if worst is None:
                for note in dict.fromkeys(look.note for look in looks if look.note):
                    world.report("warning", f"{placed.provider} {placed.placement.where}: {note}")
                return nodes
            last = worst
            if given and not worst.final and world.manifests[adapter.name].capabilities.owned:
                # It was there at once, and a short job is over by now: nothing is waited for.
                continue
            if worst.final or world.clock.now() >= deadline:
                raise _unready(placed, handles, worst, None if worst.final else deadline - started)
            if worst.stage != told:
                told = worst.stage
                world.report(
                    "info",
                    f"{placed.provider} {placed.placement.where}: waiting until it is ready:"
                    f" {worst}",
                )
        if stop_signal.on:
            return None
        if world.clock.now() >= deadline:
            raise _unready(placed, handles, last, deadline - started)
        await polling.pause()


async def _look(probe: Probe, node: Node, placed: Ordered) -> ProbeResult:
    if node.ended:
        return ProbeResult()
    if node.status != RUNNING:
        return ProbeResult(NOT_RUNNING, node.detail or node.status)
    try:
        return await asyncio.wait_for(probe(node, placed), LOOK_LIMIT_S)
    except TimeoutError:
        return ProbeResult(CLOSED, f"no answer within {LOOK_LIMIT_S:.0f}s")


def _over(
    world: World,
    placed: Ordered,
    handles: Sequence[Handle],
    node: Node,
    last: ProbeResult,
    started: float,
) -> HalfMade:
    seconds = world.clock.now() - started
    what = (
        "was taken back"
        if node.status == PREEMPTED
        else "is gone"
        if node.status == GONE
        else f"is {node.status}"
    )
    detail = f" ({node.detail})" if node.detail else ""
    text = (
        f"wanted {placed.placement.gpu} ready, found that"
        f" {node.name or node.handle.native_id} {what}{detail} after {seconds:.0f}s"
    )
    block_s = LOST_BLOCK_S if node.status in {PREEMPTED, GONE} else None
    return HalfMade(
        f"{text}; until then {last}",
        provider=placed.provider,
        code=node.status,
        handles=handles,
        block_s=block_s,
    )


def _unready(
    placed: Ordered, handles: Sequence[Handle], look: ProbeResult, waited_s: float | None
) -> HalfMade:
    within = "" if waited_s is None else f" within {waited_s:.0f}s"
    note = f"; {look.note}" if look.note else ""
    text = f"wanted {placed.placement.gpu} ready{within}, found {look}{note}"
    kind = HalfMade if waited_s is None else NotReady
    return kind(text, provider=placed.provider, code=look.stage, handles=handles)
