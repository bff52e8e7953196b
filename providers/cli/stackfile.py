"""What a stack file says, read without Pulumi: for the command line. Owns where the project is;
what a declaration means is `engine.stack_config`'s and
`model.spec`'s.

Must not import pydantic, asyncio or a cloud's SDK.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from providers.errors import Problem, SpecError
from providers.model.money import micro_usd
from providers.model.stack import named, world_problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from providers.model.spec import Cluster
    from providers.model.volume import VolumeSpec
    from providers.model.worlds import WorldName


class Stack(NamedTuple):
    """What a stack file says: `clusters` by name as declared, `settings` by provider; `max_spend`
    in micro-dollars a month, None for no limit.
    """

    name: str
    world: WorldName
    clusters: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, str]]
    volumes: tuple[VolumeSpec, ...] = ()
    max_spend: int | None = None


def nearest_project() -> Path | None:
    """The folder of the Pulumi project: here, above, or where $GPUS_PROJECT says; None where there
    is none.
    """
    from pathlib import Path

    here = Path.cwd()
    places = [here, *here.parents] + (
        [Path(os.environ["GPUS_PROJECT"])] if os.environ.get("GPUS_PROJECT") else []
    )
    return next((place for place in places if (place / "Pulumi.yaml").is_file()), None)


def project_folder() -> Path:
    """The same; raises SpecError where there is none."""
    from pathlib import Path

    project = nearest_project()
    if project is None:
        raise SpecError(
            [
                Problem(
                    "--stack",
                    "a folder with Pulumi.yaml, here or above",
                    f"none at {Path.cwd()}",
                    "go to the project's folder",
                )
            ]
        )
    return project


def names(project: Path) -> tuple[str, ...]:
    """The stacks of a project that have a file."""
    found = (
        path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for path in _folder(project).glob("Pulumi.*.yaml")
    )
    return tuple(sorted(found))


def _folder(project: Path) -> Path:
    """Where the project's stack files are."""
    from providers.model import yaml_file

    return project / str(yaml_file.mapping(project / "Pulumi.yaml").get("stackConfigDir") or ".")


def _in(file: Path, problem: Problem) -> Problem:
    """The same, with the file's name before its path."""
    return problem._replace(path=f"{file.name} {problem.path}")


def read(name: str, project: Path | None = None) -> Stack:
    """What `Pulumi.NAME.yaml` declares. Looks for the project here, above, and where $GPUS_PROJECT
    says, unless its folder is given. Reads two files; raises SpecError.
    """
    from providers.engine import stack_config, volume_spec
    from providers.model import yaml_file
    from providers.model.wording import near

    project = project or project_folder()
    file = _folder(project) / f"Pulumi.{name}.yaml"
    if not file.is_file():
        raise SpecError(
            [
                Problem(
                    "--stack",
                    "a stack with a file",
                    repr(name) + near(name, names(project)),
                    f"there are: {', '.join(names(project)) or 'none'}",
                )
            ]
        )
    content = yaml_file.mapping(file)
    config = content.get("config")
    config = config if isinstance(config, dict) else {}
    world = config.get("gpus:world")
    try:
        declared = config.get("gpus:clusters")
        clusters = stack_config.clusters(
            declared, "" if declared else stack_config.misplaced(content)
        )
        if (wrong := world_problem("gpus:world", world)) is not None:
            raise SpecError([wrong])
    except SpecError as error:
        raise SpecError([_in(file, problem) for problem in error.problems]) from None
    settings: dict[str, dict[str, str]] = {}
    for key, value in config.items():
        provider, _, setting = str(key).partition(":")
        # What a secret is, only Pulumi can read: it stands as a mapping.
        if provider not in {"gpus", "gpu"} and setting and isinstance(value, (str, int, float)):
            settings.setdefault(provider, {})[setting] = yaml_file.written(value)
    found: dict[str, Any] = {}
    volumes, unsold = volume_spec.declared(config.get("gpus:volumes"))
    problems = [_in(file, problem) for problem in (*stack_config.keys(config), *unsold)]
    for each, raw in clusters.items():
        try:
            found[each] = stack_config.entry(volume_spec.mounted(raw, volumes), project)
        except SpecError as error:
            problems.extend(
                problem._replace(path=f"{each}.{problem.path}") for problem in error.problems
            )
    if problems:
        raise SpecError(problems)
    limit = config.get("gpus:max_spend")
    stored = [volume_spec.read(each, raw)[0] for each, raw in volumes.items()]
    return Stack(
        name,
        cast("WorldName", world),
        found,
        settings,
        tuple(spec for spec in stored if spec is not None),
        None if limit is None else micro_usd(limit),
    )


def volume_lines(stack: Stack) -> list[str]:
    """What each volume of a stack costs, used or not."""
    from providers.catalog import volumes

    return [f"volume {spec.name}: {spec}, {volumes.words(spec)}" for spec in stack.volumes]


def specs(stack: Stack, only: str | None = None) -> dict[str, Cluster]:
    """The clusters of a stack by name, each as its spec; only the one of that name, if one is
    given. Raises SpecError with every problem.
    """
    from providers.engine import validate

    found: dict[str, Cluster] = {}
    problems: list[Problem] = []
    for name, raw in stack.clusters.items():
        if only in (None, name):
            try:
                with named(stack.name):
                    found[name] = validate.cluster(name, raw)
            except SpecError as error:
                problems.extend(
                    problem._replace(path=f"{name}.{problem.path}" if problem.path else name)
                    for problem in error.problems
                )
    if problems:
        raise SpecError(problems)
    return found
