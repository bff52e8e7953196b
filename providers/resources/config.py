"""The stack's configuration as the program reads it, by Pulumi. What it may say is
`engine.stack_config`'s; every refusal ends the program with its lines.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pulumi

from providers.errors import SpecError
from providers.model.stack import DETAILS, detail_problem, max_spend_problem
from providers.model.worlds import LIVE
from providers.resources.program import end_with

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from providers.errors import Problem


def refuse(problems: Iterable[Problem]) -> NoReturn:
    """Ends the program with these problems, one line each."""
    end_with("\n".join(map(str, problems)))


def account_settings(world: str) -> dict[str, dict[str, str]]:
    """What the accounts need, from the stack's configuration: for each adapter the settings that
    its manifest lists, live also from the environment where it says so.
    """
    from pulumi.runtime.config import get_config_secret_keys_env

    from providers.adapters.registry import manifests
    from providers.engine import stack_config

    if secret := stack_config.secret_settings(get_config_secret_keys_env()):
        refuse(secret)
    found = {}
    for name, manifest in manifests().items():
        credentials = manifest.credentials
        if not credentials.settings:
            continue
        config = pulumi.Config(name)
        section = {
            key: value for key in credentials.settings if (value := config.get(key)) is not None
        }
        if world == LIVE:
            for key, variable in credentials.from_environment:
                if not section.get(key) and (text := os.environ.get(variable)):
                    section[key] = text
        if section:
            found[name] = section
    return found


def max_spend_of() -> float | None:
    """`gpus:max_spend` of the stack's configuration: US dollars a calendar month for all its
    clusters and volumes together.
    """
    text = pulumi.Config("gpus").get("max_spend")
    if (wrong := max_spend_problem("gpus:max_spend", text, as_text=True)) is not None:
        refuse([wrong])
    return None if text is None else float(text)


def detail_of() -> str:
    """`gpus:detail` of the stack's configuration: how much a preview says of each plan."""
    text = pulumi.Config("gpus").get("detail")
    if (wrong := detail_problem("gpus:detail", text)) is not None:
        refuse([wrong])
    return text or DETAILS[0]


def check_keys() -> None:
    """Ends the program where the configuration has a key that nobody reads, or a secret inside its
    clusters.
    """
    from pulumi.runtime.config import CONFIG, get_config_secret_keys_env

    from providers.engine import stack_config

    if unknown := stack_config.unknown_keys(CONFIG.get(), get_config_secret_keys_env()):
        refuse(unknown)
    if "gpus:clusters" in get_config_secret_keys_env():
        end_with(
            "gpus:clusters: wanted no secret inside, found one; it would stand in the state as"
            " plain text, so give it a key of its own"
        )


def clusters_of(config: pulumi.Config) -> dict[str, Any]:
    """`gpus:clusters` of the stack's configuration, by name."""
    from providers.engine import stack_config
    from providers.model import foreign

    text = config.get("clusters")
    try:
        try:
            return stack_config.clusters(None if text is None else foreign.loads(text))
        except foreign.TooDeepError:
            raise stack_config.too_deep() from None
        except ValueError:
            return stack_config.clusters(text)
    except SpecError as error:
        refuse(error.problems)


def volumes_of(config: pulumi.Config) -> dict[str, dict[str, Any]]:
    """`gpus:volumes` of the stack's configuration, by name; ends the program with all that is wrong
    with them.
    """
    text = config.get("volumes")
    if text is None:
        return {}
    from providers.engine import volume_spec
    from providers.model import foreign

    try:
        value = foreign.loads(text)
    except ValueError:
        value = text
    found, problems = volume_spec.declared(value)
    if problems:
        refuse(problems)
    return found


def project_folder() -> Path:
    """The project's folder: as the engine says, else the nearest one above that holds a Pulumi.yaml
    (older language hosts do not say it, and run the program in the folder that `main` names).
    """
    from pathlib import Path

    if folder := pulumi.runtime.settings.get_root_directory():
        return Path(folder)
    here = Path.cwd()
    return next(
        (
            each
            for each in (here, *here.parents)
            if (each / "Pulumi.yaml").is_file() or (each / "Pulumi.yml").is_file()
        ),
        here,
    )


def with_files(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The entry with the content of the files that it names. Ends the program where one cannot be
    read.
    """
    from providers.engine import stack_config

    found, problems = stack_config.with_files(spec, project_folder())
    if problems:
        refuse(problem._replace(path=f"{name}.{problem.path}") for problem in problems)
    return cast("dict[str, Any]", found)
