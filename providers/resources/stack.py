"""`declare()`: a stack that is all configuration. Owns that all that is wrong with it is reported
at once, before anything is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pulumi

from providers.errors import Problem
from providers.model.screen import screened
from providers.model.stack import RESERVED, world_problem
from providers.resources.cluster import GpuCluster, problems_of
from providers.resources.config import (
    account_settings,
    check_keys,
    clusters_of,
    project_folder,
    refuse,
    volumes_of,
)
from providers.resources.exports import or_planned, summary, token_output, volume_summary
from providers.resources.network import ManagedNetwork
from providers.resources.ownership import one_ownership
from providers.resources.program import end_quietly, end_with, made_once
from providers.resources.volume import GpuVolume

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.worlds import WorldName


def declare() -> dict[str, GpuCluster]:
    """Declares every volume and cluster of the stack's configuration (`gpus:world`, `gpus:volumes`,
    `gpus:clusters`) and exports what each came to; the clusters by name.

    All that is wrong with the configuration is reported at once, before anything is declared, and
    ends the program.
    """
    import gc

    from providers.engine import volume_spec

    # What is imported stays: to look through it for garbage, at last when the program ends, costs
    # every run some 0.03 s.
    gc.freeze()
    end_quietly()
    check_keys()
    config = pulumi.Config("gpus")
    world = config.get("world") or ""
    if (wrong := world_problem("gpus:world", world or None)) is not None:
        refuse([wrong])
    clusters, volumes = clusters_of(config), volumes_of(config)
    settings = account_settings(world)
    specs, problems = _entries(clusters, volumes)
    problems += problems_of(world, settings, specs)
    if problems:
        end_with(screened("\n".join(f"gpus:clusters.{problem}" for problem in problems)))
    made_once()["checked"] = True
    networks = {
        name: ManagedNetwork(name, spec=spec, world=world, settings=settings)
        for name, spec in specs.items()
        if spec.get("network") == "managed"
    }
    owner = one_ownership(world, settings, list(networks.values()))
    stored = {
        name: GpuVolume(name, world=world, settings=settings, ownership=owner, **volume)
        for name, volume in volumes.items()
    }
    if stored:
        pulumi.export("gpus_volumes", {name: volume_summary(each) for name, each in stored.items()})
    made: dict[str, GpuCluster] = {}
    for name, spec in specs.items():
        made[name] = GpuCluster(
            name,
            world=cast("WorldName", world),
            settings=settings,
            ownership=owner,
            managed_network=networks.get(name),
            volumes=[stored[each] for each in volume_spec.names(spec) if each in stored],
            **spec,
        )
        with_token = spec.get("expose") == "token"
        pulumi.export(
            name, summary(made[name], token_output=token_output(name) if with_token else "")
        )
        if with_token:
            pulumi.export(token_output(name), or_planned(made[name].token))
    gc.freeze()
    return made


def _entries(
    clusters: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The clusters as declared, with the content of the files that they name; and what is wrong
    with an entry as a whole.
    """
    from providers.engine import stack_config, volume_spec

    specs: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for name, entry in clusters.items():
        spec = {"gpu": entry} if isinstance(entry, str) else entry
        if not isinstance(spec, dict):
            wanted = 'a mapping such as {gpu: "H100:8"}'
            problems.append(str(Problem(name, wanted, stack_config.kind(entry))))
            continue
        ours = sorted(set(spec) & RESERVED)
        if ours:
            found = ", ".join(map(repr, ours))
            problems.append(f"{name}: wanted a field of a cluster, found {found}")
        declared = {
            key: value for key, value in spec.items() if key not in ours and value is not None
        }
        declared = volume_spec.mounted(declared, volumes)
        specs[name], unreadable = stack_config.with_files(declared, project_folder())
        problems.extend(f"{name}.{problem}" for problem in unreadable)
    return specs, problems
