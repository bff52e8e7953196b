"""Which edits are refused before anything is done: to stop machines that cannot be stopped, and to
move a stack to a world that cannot serve it. Reads inputs that an older version wrote.

Buys nothing. Must not import grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import GpusError, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Setup
    from providers.plugin.diff import Verdict


def setup_of(values: Mapping[str, Any]) -> Setup | None:
    """The setup of inputs from the state; None when they cannot be read (an import, an older
    version).
    """
    from providers.plugin import inputs

    try:
        return inputs.setup(inputs.spec_of(values), values)
    except (SpecError, KeyError):
        return None


def check_stop(record: ClusterRecord, verdict: Verdict) -> None:
    """Raises SpecError where `state: stopped` cannot be: with an edit that replaces, or at a
    provider that keeps no stopped machine.
    """
    from providers.adapters import registry

    if verdict.replaces:
        raise SpecError(
            [
                Problem(
                    "state",
                    "running, with an edit that replaces the machines",
                    "stopped",
                    f"this one does: {verdict.reason}",
                )
            ]
        )
    able = registry.capabilities().get(record.provider)
    if record.provider and (able is None or "state" not in able.in_place):
        raise SpecError(
            [
                Problem(
                    "state",
                    f"running: {record.provider} cannot stop a machine and keep it",
                    "stopped",
                    "or destroy it",
                )
            ]
        )
    capacity = record.placement.capacity
    if able is not None and able.stoppable and capacity not in able.stoppable:
        what = (
            f"running: a {capacity} machine of {record.provider} cannot be stopped and kept,"
            " it can only end"
        )
        raise SpecError([Problem("state", what, "stopped", "or destroy it")])


def check_move(
    old: str,
    world: str,
    settings: Mapping[str, Mapping[str, str]],
    clusters: Mapping[str, Mapping[str, Any]],
) -> None:
    """Raises GpusError where a cluster of the program has no acceptable place in the new world,
    with what would help; all of them at once.

    The engine deletes what depends on an Ownership that is replaced before it asks for any
    cluster's own difference, so the question belongs to the Ownership's. `clusters` are the
    program's, where it sent them beforehand (a program of one's own does not): without any, at
    least one provider has to be configured there. Blocking; makes the calls of a plan for each
    cluster.
    """
    found = (
        [text for name, raw in clusters.items() if (text := _unserved(name, raw, world, settings))]
        if clusters
        else _unconfigured(world, settings)
    )
    if found:
        raise GpusError(
            "\n".join(
                (
                    (
                        f"from {old} to {world}: refused; what the stack has in the {old} world"
                        " stays as it is"
                    ),
                    *found,
                )
            )
        )


def _unserved(
    name: str, raw: Mapping[str, Any], world: str, settings: Mapping[str, Mapping[str, str]]
) -> str:
    """Why no place there serves a cluster; empty where one does."""
    from providers.engine.market import planning
    from providers.plugin import inputs, preview

    try:
        spec = inputs.spec_of({**raw, "cluster": name})
    except SpecError:
        return ""  # its own check reports that
    plan = planning.walked(spec.ask(), setup=spec.setup(), world=world, settings=settings)
    return "" if plan.candidates else preview.refusal(name, plan, preview.PreviewContext())


def _unconfigured(world: str, settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Why no provider is configured in the world; empty where one is."""
    from providers.engine.market.collect import market
    from providers.engine.messages import named
    from providers.engine.runtime.world import open_world

    opened = open_world(world, settings)
    try:
        missing = market(opened).unavailable
        if not all(name in missing for name in opened.manifests):
            return []
    finally:
        opened.close()
    return [f"not configured: {named(name, why)}" for name, why in missing.items()]
