"""Idle machines, for a watch: what their GPUs do, asked by login, and the end of a cluster that has
had nothing to do for too long.

Owns that such an end is remembered in the journal before anything is deleted, so that the next read
finds it ended, as at its ttl, and buys nothing. What cannot be measured is never idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.readiness import access
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.leases import CLEAN_PATIENCE_S, leased
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.end import release_all
from providers.errors import GpusError, HalfMade
from providers.model.idle import BUSY_PERCENT, QUERY, busiest
from providers.model.machine import RUNNING
from providers.rehearsal.node import StandInProbe
from providers.remote.run import finished

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World

SAMPLES, BETWEEN_S = 3, 2.0


class Measure(NamedTuple):
    """The highest utilisation of any GPU of a cluster in some seconds, in percent; None where it
    could not be measured, and why.
    """

    percent: int | None
    why: str = ""

    @property
    def idle(self) -> bool:
        return self.percent is not None and self.percent < BUSY_PERCENT


def timed(world: World, record: ClusterRecord) -> bool:
    """Whether the machine ends itself when it is idle:
    a single one does where its cloud lets it.
    """
    manifest = world.manifests.get(record.provider)
    return manifest is not None and manifest.capabilities.ends_idle and record.placement.nodes == 1


async def measured(world: World, record: ClusterRecord) -> Measure:
    """Logs in to every machine of the cluster and asks its driver, some times.
    Raises no GpusError.
    """
    try:
        adapter = await home_of(world, record)
        nodes = await repeated(world, adapter.name, adapter.observe, record.handles, tries=2)
        if len(nodes) != record.placement.nodes or any(node.status != RUNNING for node in nodes):
            return Measure(None, "not all of its machines run")
        way = access.connection(world, record)
        if isinstance(way, str):
            return Measure(None, way)
        most = 0
        for sample in range(SAMPLES):
            if sample:
                await world.clock.sleep(BETWEEN_S)
            for node in nodes:
                if isinstance(way, StandInProbe):
                    way.play(node)
                line = way.line(node)
                if line is None:
                    return Measure(None, f"{node.name} has no address")
                code, output, errors = await finished(line.command(QUERY))
                percent = busiest(output) if code == 0 else None
                if percent is None:
                    return Measure(
                        None,
                        f"{node.name}: its driver gave no utilisation:"
                        f" {(errors or output).strip()[:120]}",
                    )
                most = max(most, percent)
            if most >= BUSY_PERCENT:
                break
    except GpusError as error:
        return Measure(None, str(error))
    return Measure(most)


async def end(world: World, record: ClusterRecord, why: str) -> None:
    """Deletes all of it, confirmed, and lets every later read find it ended because of that. Raises
    HalfMade, or Busy while another works on it.
    """
    async with leased(world, record.owner, (record.cluster,), CLEAN_PATIENCE_S):
        world.journal.ending(record, why)
        left = await release_all(world, record, record.handles)
        if not left.clean:
            raise HalfMade(
                f"{record.cluster}: {why}, and could not be deleted:"
                f" {left.said(record.price.micro_usd)}",
                provider=record.provider,
                handles=left.handles,
            )
        world.journal.release(
            world.name, record.owner, record.cluster, record.generation, world.clock.now()
        )
