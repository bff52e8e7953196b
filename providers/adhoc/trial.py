"""A stack's workload on other GPUs than it declares: tried cheaply, on one machine, ad hoc, and
released: `gpus run -s STACK [CLUSTER] --on L4:1`.

Owns what of the declaration stays and what does not; `trial_run.py` starts and follows it. The
engine buys and deletes; nothing of the stack's own machines, state or checkpoints is touched. Must
not import pulumi.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from providers.errors import Problem, SpecError
from providers.model import duration
from providers.model.workload import (
    KEEP,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import Manifest
    from providers.model.spec import Cluster
    from providers.model.workload import Program, Workload
    from providers.model.workload_spec import Workload as TypedWorkload

DEFAULT_TTL_S = 4 * 3_600
DEBUG = "-debug"
"""What a checkpoint's place ends with here: a try must not write over what the declared run has
saved.
"""

_LEFT_OUT = (
    "spot",
    "capacity",
    *("block", "acquire"),
    "nodes",
    "replicas",
    "fallback",
    "rank",
    "ttl",
    "on_ttl",
    "idle_after",
    "ports",
    "expose",
    "ssh_key",
    "network",
    *("triggers", "state", "on_loss", "ready"),
)
"""What the declaration says of its own machines, or of how they are launched; here the command line
does, or nobody.
"""


class Stack(Protocol):
    """What a stack's files declare."""

    @property
    def name(self) -> str: ...

    @property
    def world(self) -> str: ...

    @property
    def clusters(self) -> Mapping[str, Any]: ...

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]: ...


class Overlay(NamedTuple):
    """`spec` is what is bought, a machine with the workload in it; `kind` what the workload is run
    as; `lines` what the user should know of it.
    """

    spec: Cluster
    kind: str
    world: str
    settings: Mapping[str, Mapping[str, str]]
    lines: tuple[str, ...] = ()


def read(
    options: argparse.Namespace, command: Sequence[str], settings: Mapping[str, Mapping[str, str]]
) -> Overlay:
    """What the arguments of `gpus run -s` mean; `options.declared` is the stack as its files have
    it.

    Raises SpecError with every problem, at the argument or field it is in. Pure.
    """
    from providers.engine import validate

    stack: Stack = options.declared
    name = options.gpu or (next(iter(stack.clusters)) if len(stack.clusters) == 1 else "")
    if name not in stack.clusters:
        there = ", ".join(stack.clusters)
        raise SpecError(
            [
                Problem(
                    "CLUSTER",
                    f"a cluster of {stack.name}",
                    repr(name) if name else f"none of {len(stack.clusters)}",
                    f"there are: {there}",
                )
            ]
        )
    found = _misused(options)
    try:
        declared = validate.cluster(name, _with_folder(stack.clusters[name], options.workdir))
    except SpecError as error:
        raise SpecError(
            [
                *found,
                *(problem._replace(path=f"{name}.{problem.path}") for problem in error.problems),
            ]
        ) from None
    if declared.workload is None:
        todo = (
            "gpus run GPU -- COMMAND runs a command; pulumi up launches what a stack"
            " declares without one"
        )
        found.append(Problem(f"{name}.workload", "a workload to run", "none", todo))
    elif declared.kind == "job" and command:
        found.append(
            Problem(
                "--",
                f"nothing: {name} is a job, and its workload is what runs",
                shlex.join(command)[:80],
                "leave it out",
            )
        )
    if found:
        raise SpecError(found)
    world = options.world or stack.world
    merged = {
        provider: {**stack.settings.get(provider, {}), **settings.get(provider, {})}
        for provider in {*stack.settings, *settings}
    }
    return overlaid(declared, options, world, merged)


def _with_folder(raw: Any, path: str | None) -> Any:
    """The entry with the folder of `--workdir` in place of its own. Raises SpecError."""
    if path is None or not isinstance(raw, dict):
        return raw
    from providers.remote import tree

    return {**raw, "workdir": tree.field(path, Path.cwd())}


def _misused(options: argparse.Namespace) -> list[Problem]:
    """Arguments that mean nothing beside -s, and unknown GPUs."""
    from providers.catalog.names import canonical
    from providers.model.ask import gpu_text
    from providers.planner.check import unknown_gpu

    found = []
    if not options.on:
        todo = "the declared GPUs are launched by: pulumi up -s " + options.stack
        found.append(Problem("--on", "GPUs to try it on, as in --on L4:1", "none", todo))
    for text in options.on:
        try:
            asked = gpu_text(text, "--on").type
        except SpecError as error:
            found.extend(error.problems)
            continue
        if canonical(asked) is None:
            found.append(unknown_gpu("--on", asked))
    if options.fallback:
        found.append(Problem("--fallback", "further choices as --on", "--fallback", "repeat --on"))
    if options.nodes not in {None, 1}:
        found.append(
            Problem(
                "--nodes",
                "1: a workload is tried on one machine",
                str(options.nodes),
                "leave it out",
            )
        )
    return found


def named(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a cluster that the arguments of a purchase name; None for the others."""
    return {
        "spot": options.spot,
        "capacity": None if options.capacity is None else tuple(options.capacity),
        "providers": tuple(options.provider) or None,
        "regions": tuple(options.region) or None,
        "marketplaces": options.marketplaces or None,
        "rank": options.rank,
        "max_price_per_hour": options.max_price,
        "accept_suspect_prices": options.accept_suspect_prices or None,
        "wait": options.wait,
        "disk_gib": options.disk_gib,
        "ttl": options.ttl,
    }


def overlaid(
    declared: Cluster,
    options: argparse.Namespace,
    world: str,
    settings: Mapping[str, Mapping[str, str]],
) -> Overlay:
    """The declaration with other GPUs under it. Raises SpecError where that is none."""
    from providers.adapters import registry
    from providers.model.spec import Cluster

    assert declared.workload is not None
    lines: list[str] = []
    dropped = {"name", "gpu", "kind", "workload", "options", *_LEFT_OUT}
    fields: dict[str, Any] = {
        name: getattr(declared, name)
        for name in Cluster.model_fields
        if name not in dropped and name in declared.model_fields_set
    }
    given = {**named(options), "ttl": options.ttl or _ttl(declared)}
    fields |= {name: value for name, value in given.items() if value is not None}
    if declared.nodes > 1:
        lines.append(f"on one machine; {declared.name} declares {declared.nodes}")
    work = declared.workload
    if work.checkpoint is not None and work.checkpoint.to.startswith("volume:"):
        work = work.model_copy(update={"checkpoint": None, "resume": ""})
        lines.append(
            "its checkpoints are kept nowhere: volumes are for jobs and services, and this is a"
            " machine"
        )
    elif work.checkpoint is not None:
        place = _aside(work.checkpoint.to, "checkpoint.to")
        work = work.model_copy(
            update={"checkpoint": work.checkpoint.model_copy(update={"to": place})}
        )
        lines.append(
            f"its checkpoints are kept at {place}; those of the declared run are left alone"
        )
    work = _mounted_aside(work, lines)
    if work.train is not None:
        # How long the whole run would take here is not what is asked.
        work = work.model_copy(update={"train": None})
    sections = {name: dict(section) for name, section in declared.options.items()}
    machines = (
        (name, each)
        for name, each in registry.manifests().items()
        if each.capabilities.can_be("machine", workload=True)
    )
    for provider, manifest in machines:
        _fit(sections, provider, manifest, declared, work.image or _image(work.record()), lines)
    name = options.name or trial_name(options.stack, declared.name)
    gpus = tuple(options.on) if len(options.on) > 1 else options.on[0]
    spec = Cluster(name=name, gpu=gpus, workload=work, options=sections, **fields)
    return Overlay(spec, declared.kind, world, settings, tuple(lines))


def trial_name(stack: str, cluster: str) -> str:
    """The trial's name, which another stack's trial of a like-named cluster does not have: at most
    40 characters, as a cluster's. Pure.
    """
    text = re.sub(r"[^a-z0-9]+", "-", f"{stack.rpartition('/')[2]}-{cluster}".lower()).lstrip(
        "0123456789-"
    )
    return f"{text[: 40 - len(DEBUG)].rstrip('-')}{DEBUG}"


def _ttl(declared: Cluster) -> str:
    """Four hours, or as long as the declared ones live if that is less."""
    own = None if declared.ttl is None else duration.seconds(declared.ttl)
    return duration.text(DEFAULT_TTL_S if own is None else min(own, DEFAULT_TTL_S))


def _mounted_aside(work: TypedWorkload, lines: list[str]) -> TypedWorkload:
    """The workload whose buckets, where it writes to them, are other folders beside the declared
    ones, and without its volumes; says so in `lines`.
    """
    aside = {
        path: mount.model_copy(update={"source": _aside(mount.source, f"mounts.{path}")})
        for path, mount in work.mounts.items()
        if mount.mode == "rw"
    }
    lines.extend(
        f"{path} is {mount.source}; what the declared run wrote is left alone"
        for path, mount in aside.items()
    )
    lines.extend(
        f"{use.path} is a plain folder: a try does not mount the volume {name}"
        for name, use in work.volumes.items()
    )
    return work.model_copy(update={"mounts": {**work.mounts, **aside}, "volumes": {}})


def _aside(place: str, field: str) -> str:
    """Another place beside the one of this field of the workload. Raises SpecError for a whole
    bucket, which has nothing beside it.
    """
    scheme, _, rest = place.partition("://")
    if not rest.partition("/")[2].strip("/"):
        raise SpecError(
            [
                Problem(
                    f"workload.{field}",
                    "a folder of the bucket, so that a try can have another one",
                    place,
                    f"{scheme}://{rest.strip('/')}/NAME",
                )
            ]
        )
    return place.rstrip("/") + DEBUG


def _image(work: Workload) -> str:
    from providers.workloads.launch.recipes import recipe

    made = recipe(work.tasks[0])
    return made.image if made is not None else ""


def _fit(
    sections: dict[str, dict[str, object]],
    provider: str,
    manifest: Manifest,
    declared: Cluster,
    image: str,
    lines: list[str],
) -> None:
    """A section as a machine takes it: with the workload's image where machines are containers,
    without what only a job or a service has.
    """
    section = sections.get(provider, {})
    if manifest.limits.fits is not None and provider in sections and declared.kind != "machine":
        setup = declared.setup()._replace(options=tuple(sorted(section.items())))
        own = {problem.path for problem in manifest.limits.fits(declared.kind, section, setup)}
        for problem in manifest.limits.fits("machine", section, setup):
            if problem.path in section and problem.path not in own:
                sections[provider] = section = {
                    key: value for key, value in section.items() if key != problem.path
                }
                lines.append(
                    f"options.{provider}.{problem.path} is left out:"
                    f" {problem.todo or problem.wanted}"
                )
    if manifest.programs.runs is not None and image and not {"image", "python"} & section.keys():
        sections[provider] = {**section, "image": image}


def program(overlay: Overlay, gpu_type: str, gpu_count: int) -> Program:
    """What is started on so many of this GPU: the flags follow it. It listens on the machine alone,
    and its end ends no machine.
    """
    from providers.workloads.launch.compile import program as compiled

    assert overlay.spec.workload is not None
    work = overlay.spec.ask().workload
    assert work is not None
    work = work._replace(on_done=KEEP)
    return compiled(work, overlay.kind, gpu_type, gpu_count)
