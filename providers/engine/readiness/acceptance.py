"""Acceptance: from "it can be worked on" to "its GPUs are what was sold". Owns what leads to a
machine's measurements, and what a verdict means for the order.

A verdict needs an answer: a machine that could not be measured is kept, and a line says so. Without
that, an image that has no Python would cost a machine at every place.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from providers.engine.messages import trimmed
from providers.engine.readiness.access import CheckedProbe
from providers.errors import Degraded, GpusError, NotWhatWasSold
from providers.model.place import Scope
from providers.rehearsal import played_answer
from providers.rehearsal.node import StandInProbe
from providers.remote.ssh import SshProbe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.acceptance.verdict import Verdict
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node
    from providers.model.offer import Candidate
    from providers.remote.probe import Probe

OFF = "off"
FAILED = "acceptance"
"""The code of a machine that did not pass."""
LOOK_S = 0.5
HOST_BLOCK_S, PLACE_BLOCK_S = 86_400.0, 600.0
"""How long a place is left alone: at a marketplace it is this one host, elsewhere the next machine
there may be a sound one.
"""


async def measured(probe: Probe | None, node: Node, mode: str) -> Mapping[str, Any]:
    """The machine's answer, for `acceptance.judge`. Raises GpusError where none comes."""
    if isinstance(probe, StandInProbe):
        return await played_answer.answer(probe, node, mode)
    line = probe.line(node) if isinstance(probe, SshProbe) else None
    if line is None:
        raise GpusError(f"{node.name}: wanted a way to log in and measure it, found none")
    from providers.acceptance.run import measured as over

    return await over(line, mode)


async def accepted(
    world: World,
    placed: Candidate,
    handles: Sequence[Handle],
    nodes: Sequence[Node],
    probe: Probe,
    mode: str,
    stop: StopSignal,
) -> bool:
    """Measures machines that are ready, all at once. False when the brake came on meanwhile.

    Raises NotWhatWasSold or Degraded, with the reasons, when one of them does not pass.
    """
    place = f"{placed.provider} {placed.placement.where}"
    world.report("info", f"{place}: measuring whether its GPUs are what was sold (accept: {mode})")
    work = asyncio.gather(*(_verdict(world, probe, node, placed, mode) for node in nodes))
    while not (await asyncio.wait([work], timeout=LOOK_S))[0]:
        if stop.on:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return False
    verdicts = [verdict for verdict in work.result() if verdict is not None]
    for node, verdict in zip(nodes, work.result(), strict=True):
        if verdict is not None and verdict.reasons:
            raise _failure(world, placed, handles, node, verdict)
    if len(verdicts) == len(nodes):
        speeds = ", ".join(dict.fromkeys(verdict.speed for verdict in verdicts))
        world.report("info", f"{place}: accepted{f': {speeds}' if speeds else ''}")
    return True


async def _verdict(
    world: World, probe: Probe, node: Node, placed: Candidate, mode: str
) -> Verdict | None:
    from providers.acceptance.judge import judge

    try:
        way = probe.way(node, placed) if isinstance(probe, CheckedProbe) else probe
        answer = await measured(way, node, mode)
    except GpusError as error:
        world.report(
            "warning",
            f"{placed.provider} {placed.placement.where}: {node.name} is kept and was not"
            f" measured: {trimmed(error)}",
        )
        return None
    return judge(answer, placed.placement.gpu_type, placed.placement.gpu_count)


def _failure(
    world: World, placed: Candidate, handles: Sequence[Handle], node: Node, verdict: Verdict
) -> NotWhatWasSold | Degraded:
    manifest = world.manifests.get(placed.provider)
    host = manifest is not None and manifest.capabilities.marketplace
    at = placed.placement
    kind = NotWhatWasSold if verdict.is_other else Degraded
    return kind(
        f"wanted {at.gpu} as sold, found {node.name or node.handle.native_id} {verdict}",
        provider=placed.provider,
        code=FAILED,
        scopes=[Scope(placed.provider, at.region, at.zone, at.machine_type)],
        handles=handles,
        block_s=HOST_BLOCK_S if host else PLACE_BLOCK_S,
    )
