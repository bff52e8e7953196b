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
    from providers.model.fabric import Fabric
    from providers.model.machine import Handle, Node, Setup
    from providers.model.offer import Candidate
    from providers.model.placement import Placement
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


async def measured_between(
    probes: Sequence[Probe | None], nodes: Sequence[Node], mode: str, fabric: Fabric | None
) -> Sequence[Mapping[str, Any]]:
    """The answers of machines that measure together what is between them, for
    `acceptance.between.judge`. `fabric` is what the rehearsal plays. Raises GpusError where none
    comes.
    """
    if isinstance(probes[0], StandInProbe):
        return played_answer.between(probes[0], nodes, mode, fabric)
    lines = [
        line
        for probe, node in zip(probes, nodes, strict=True)
        if isinstance(probe, SshProbe) and (line := probe.line(node)) is not None
    ]
    if len(lines) != len(nodes):
        raise GpusError("wanted a way to log in to each machine, found one without")
    from providers.acceptance.run import measured_between as over

    return await over(lines, [node.internal_ip or node.external_ip for node in nodes], mode)


def fabric_of(world: World, placed: Placement, setup: Setup) -> Fabric | None:
    """What the plan promised between the nodes of a placement. `setup.options` is the provider's
    own section.
    """
    manifest = world.manifests.get(placed.provider)
    known = manifest.limits.fabric if manifest is not None else None
    return known(placed, setup) if known is not None else None


async def accepted(
    world: World,
    placed: Candidate,
    handles: Sequence[Handle],
    nodes: Sequence[Node],
    probe: Probe,
    mode: str,
    setup: Setup,
    stop: StopSignal,
) -> bool:
    """Measures machines that are ready, all at once, and then what is between them. False when the
    stop signal came on meanwhile. `setup` is the order's.

    Raises NotWhatWasSold or Degraded, with the reasons, when something of it does not pass.
    """
    place = f"{placed.provider} {placed.placement.where}"
    world.report("info", f"{place}: measuring whether its GPUs are what was sold (accept: {mode})")
    work = asyncio.gather(*(_verdict(world, probe, node, placed, mode) for node in nodes))
    if not await _ends(work, stop):
        return False
    verdicts = [verdict for verdict in work.result() if verdict is not None]
    for node, verdict in zip(nodes, work.result(), strict=True):
        if verdict is not None and verdict.reasons:
            raise _failure(world, placed, handles, node.name or node.handle.native_id, verdict)
    if len(verdicts) < len(nodes):
        return True
    found = list(dict.fromkeys(verdict.speed for verdict in verdicts if verdict.speed))
    if len(nodes) > 1:
        fabric = fabric_of(world, placed.placement, setup)
        together = asyncio.ensure_future(_between(world, probe, nodes, placed, mode, fabric))
        if not await _ends(together, stop):
            return False
        joined = together.result()
        if joined is not None and joined.reasons:
            raise _failure(world, placed, handles, f"{len(nodes)} machines", joined)
        found += [f"{check.name} {check.found}" for check in joined.checks[:1]] if joined else []
    world.report("info", ": ".join(filter(None, (f"{place}: accepted", ", ".join(found)))))
    return True


async def _ends(work: asyncio.Future[Any], stop: StopSignal) -> bool:
    """Waits for this work; False where the brake came on first, which ends it."""
    while not (await asyncio.wait([work], timeout=LOOK_S))[0]:
        if stop.on:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return False
    return True


async def _verdict(
    world: World, probe: Probe, node: Node, placed: Candidate, mode: str
) -> Verdict | None:
    from providers.acceptance.judge import judge

    try:
        answer = await measured(_way(probe, node, placed), node, mode)
    except GpusError as error:
        _kept(world, placed, f"{node.name} is kept and was", error)
        return None
    return judge(answer, placed.placement.gpu_type, placed.placement.gpu_count)


async def _between(
    world: World,
    probe: Probe,
    nodes: Sequence[Node],
    placed: Candidate,
    mode: str,
    fabric: Fabric | None,
) -> Verdict | None:
    from providers.acceptance.between import judge

    try:
        ways = [_way(probe, node, placed) for node in nodes]
        answers = await measured_between(ways, nodes, mode, fabric)
    except GpusError as error:
        _kept(world, placed, "they are kept, and what is between them was", error)
        return None
    return judge(answers, fabric)


def _way(probe: Probe, node: Node, placed: Candidate) -> Probe:
    return probe.way(node, placed) if isinstance(probe, CheckedProbe) else probe


def _kept(world: World, placed: Candidate, what: str, error: GpusError) -> None:
    where = f"{placed.provider} {placed.placement.where}"
    world.report("warning", f"{where}: {what} not measured: {trimmed(error)}")


def _failure(
    world: World, placed: Candidate, handles: Sequence[Handle], what: str, verdict: Verdict
) -> NotWhatWasSold | Degraded:
    manifest = world.manifests.get(placed.provider)
    host = manifest is not None and manifest.capabilities.marketplace
    at = placed.placement
    kind = NotWhatWasSold if verdict.is_other else Degraded
    return kind(
        f"wanted {at.gpu} as sold, found {what} {verdict}",
        provider=placed.provider,
        code=FAILED,
        scopes=[Scope(placed.provider, at.region, at.zone, at.machine_type)],
        handles=handles,
        block_s=HOST_BLOCK_S if host else PLACE_BLOCK_S,
    )
