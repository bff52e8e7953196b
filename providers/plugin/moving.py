"""Another world for a stack: whether that one can serve what is declared, asked before anything in
the old one is given up.

Owns the refusal. The engine deletes what depends on an Ownership that is replaced before it asks
for any cluster's own difference, so the question belongs to the Ownership's. Must not import grpc.
Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import GpusError, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse(
    old: str,
    world: str,
    settings: Mapping[str, Mapping[str, str]],
    clusters: Mapping[str, Mapping[str, Any]],
) -> None:
    """Raises GpusError where a cluster of the program has no acceptable place in the new world,
    with what would help; all of them at once.

    `clusters` are the program's, as far as they were told (a program of one's own tells none
    beforehand): without any, the least that is asked is one provider that is configured there.
    Blocking; makes the calls of a plan for each cluster.
    """
    found = (
        [text for name, raw in clusters.items() if (text := _unserved(name, raw, world, settings))]
        if clusters
        else _nobody(world, settings)
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
    from providers.engine.market import planning
    from providers.plugin import inputs, preview

    try:
        spec = inputs.spec_of({**raw, "cluster": name})
    except SpecError:
        return ""  # its own check tells
    plan = planning.walked(spec.ask(), setup=spec.setup(), world=world, settings=settings)
    return "" if plan.candidates else preview.refusal(name, plan, preview.PreviewContext())


def _nobody(world: str, settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    from providers.engine.market.planning import market
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
