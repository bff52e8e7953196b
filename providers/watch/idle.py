"""What a watch does about `idle_after`: measures the clusters that no timer of their own ends,
remembers since when each is idle, and ends them.

Owns that memory, `watch.json` in the state folder: a restart goes on where the last round was. A
gap between rounds restarts the count, since it is unknown what the GPUs did meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.own_machine import of_machine
from providers.engine.reconcile import idle
from providers.engine.runtime.world import open_world
from providers.errors import GpusError
from providers.home import home, private
from providers.model import duration

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.watch.stack import DeployedCluster, State

FILE = "watch.json"
GAP_S = 1_800.0


class IdleCluster(NamedTuple):
    """What a round found out: the clusters that it ended, and lines for the log."""

    ended: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def ended(state: State, gap_s: float = GAP_S) -> IdleCluster:
    """Measures and ends what has been idle for its `idle_after`. Every failure is a line; a cluster
    whose machine has its own timer is left to it.
    """
    asked = [
        cluster
        for cluster in state.clusters
        if cluster.inputs.get("idle_after") and cluster.status == "running"
    ]
    if not asked or not state.owner:
        return IdleCluster()
    settings = {
        str(name): {str(key): str(value) for key, value in section.items()}
        for name, section in state.settings.items()
    }
    world = open_world(state.world, settings)
    gone: list[str] = []
    lines: list[str] = []
    try:
        memory = _read()
        kept: dict[str, list[float]] = {}
        for cluster in asked:
            line = _one(world, cluster, memory, kept, gap_s, gone)
            lines += [f"{cluster.name}: {line}"] if line else []
        others = {
            key: value
            for key, value in memory.items()
            if key not in {cluster.id for cluster in asked}
        }
        private(home() / FILE).write_text(json.dumps({**others, **kept}), encoding="utf-8")
    except (GpusError, OSError) as error:
        said = of_machine(error) if isinstance(error, OSError) else error
        lines.append(f"idle_after: {said}")
    finally:
        world.close()
    return IdleCluster(tuple(gone), tuple(lines))


def _one(
    world: World,
    cluster: DeployedCluster,
    memory: dict[str, Any],
    kept: dict[str, list[float]],
    gap_s: float,
    gone: list[str],
) -> str:
    try:
        record, limit_s = _record(world, cluster), duration.seconds(cluster.inputs["idle_after"])
    except ValueError:
        return f"idle_after: wanted a duration such as 2h, found {cluster.inputs['idle_after']!r}"
    if record is None:
        return (
            "idle_after: it was not placed from this machine, so nobody can look at its GPUs from"
            " here"
        )
    if idle.timed(world, record):
        return ""
    found = asyncio.run(idle.measured(world, record))
    now = world.clock.now()
    if found.percent is None:
        return f"idle_after: not measured: {found.why}"
    if not found.idle:
        return ""
    since, last = memory.get(cluster.id, (now, now))
    since = since if now - last <= max(gap_s, GAP_S) else now
    kept[cluster.id] = [since, now]
    if now - since < limit_s:
        return f"idle for {duration.text(int(now - since))}, ends after {duration.text(limit_s)}"
    if cluster.inputs.get("on_ttl") == "keep":
        return (
            f"idle for {duration.text(int(now - since))}; `on_ttl: keep`: a watch stops nothing, so"
            " it runs on"
        )
    why = f"idle for {duration.text(int(now - since))}, as idle_after says"
    asyncio.run(idle.end(world, record, why))
    del kept[cluster.id]
    gone.append(cluster.name)
    return f"released: {why}"


def _record(world: World, cluster: DeployedCluster) -> ClusterRecord | None:
    """The placement as this machine's journal has it; None where it was placed from another one."""
    from providers.engine.record import ClusterRecord

    if not world.has_journal:
        return None
    _, owner, name, generation = cluster.id.split("/")
    launches = [
        launch
        for launch in world.journal.launches(world.name, owner, name)
        if launch.generation == generation and launch.ended_at is None
    ]
    return (
        ClusterRecord.from_dict(launches[-1].record)
        if launches and not launches[-1].record.get("remembered")
        else None
    )


def _read() -> dict[str, Any]:
    try:
        found = json.loads((home() / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
