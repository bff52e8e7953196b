"""A stack's configuration: which keys and values it may have, whoever reads it: the program by
Pulumi, or the command line from the stack's file.

Owns the rules of the stack's own keys and of the files that an entry names. A cluster's fields are
`providers.model.spec`'s; what they say to a provider is `validate`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError
from providers.model.stack import KEYS, detail_problem, max_spend_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path


def keys(config: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a stack's own keys, as they stand in its file, and with a secret that
    stands where an account is named. Pure.
    """
    secrets = {key for key, value in config.items() if is_encrypted(value)}
    found = unknown_keys(config, secrets)
    path = "gpus:max_spend"
    if (wrong := max_spend_problem(path, config.get(path), as_text=True)) is not None:
        found.append(wrong)
    if (wrong := detail_problem("gpus:detail", config.get("gpus:detail"))) is not None:
        found.append(wrong)
    return [*found, *secret_settings(secrets)]


def unknown_keys(config: Iterable[str], secrets: Collection[str] = ()) -> list[Problem]:
    """The keys of a stack's configuration that nobody reads: of the product's own, and of the
    providers' settings. Pure.

    What is a secret there is a program's own: no setting of ours is one.
    """
    import difflib

    from providers.adapters import registry

    credentials = {name: each.credentials for name, each in registry.manifests().items()}
    settings = {"gpus": KEYS, **{name: each.settings for name, each in credentials.items()}}
    found = []
    for key in sorted(map(str, config)):
        name, _, word = key.partition(":")
        if word in settings.get(name, (word,)) or (key in secrets and name != "gpus"):
            continue
        known = [f"{name}:{each}" for each in settings[name]]
        pulumis = credentials[name].pulumi_keys if name in credentials else None
        near = difflib.get_close_matches(
            word.casefold(), settings[name], n=2, cutoff=0.6 if pulumis is None else 0.7
        )
        close = [f"{name}:{each}" for each in near]
        if pulumis is not None and (not close or word in pulumis):
            continue
        wanted = f"one of {', '.join(known)}" if known else f"no setting of {name}'s"
        found.append(
            Problem(key, wanted, repr(key), f"near: {', '.join(close)}" if close else "remove it")
        )
    return found


def secret_settings(secrets: Collection[str]) -> list[Problem]:
    """The settings of accounts among a configuration's secrets. Passed over, they would leave what
    is bought to whatever account the environment has. Pure.
    """
    from providers.adapters import registry

    settings = {
        f"{name}:{key}"
        for name, manifest in registry.manifests().items()
        for key in manifest.credentials.settings
    }
    todo = "it would stand in the state as plain text, so set it without --secret"
    return [Problem(key, "plain text", "a secret", todo) for key in sorted(settings & {*secrets})]


def is_encrypted(value: object) -> bool:
    """True for what Pulumi writes into a stack's file for a secret."""
    return isinstance(value, dict) and value.keys() == {"secure"}


def clusters(value: object, todo: str = "") -> dict[str, Any]:
    """The map of clusters by name. Raises SpecError for anything else, with what to do about it.
    Pure.
    """
    from providers.model import foreign

    if foreign.too_deep(value):
        raise too_deep()
    if isinstance(value, dict) and value:
        if (wrong := _unindented(value)) is not None:
            raise SpecError([wrong])
        return value
    found = "an empty mapping" if value == {} else kind(value)
    wanted = 'a map of clusters by name, such as {train: {gpu: "H100:8"}}'
    raise SpecError([Problem("gpus:clusters", wanted, found, todo)])


def misplaced(file: Mapping[str, Any]) -> str:
    """What to do about a stack's file without clusters at `gpus:clusters`: what of it to move;
    empty where there is nothing like them. Pure.
    """
    import difflib

    config = file.get("config")
    if not isinstance(config, dict):
        ours = any(str(key).startswith("gpus:") for key in file)
        return "write config: above it, and the rest indented under that" if ours else ""
    if isinstance(config.get("gpus"), dict):
        return "write gpus:clusters as one key of config"
    if "gpus:clusters" in config:
        beside = ", ".join(key for key, each in config.items() if _is_cluster(str(key), each))
        todo = f"begin the lines of {beside} two spaces further right than gpus:clusters"
        return todo if beside else ""
    near = difflib.get_close_matches("gpus:clusters", list(map(str, config)), n=1, cutoff=0.7)
    return f"write gpus:clusters in place of {near[0]}" if near else ""


def _is_cluster(key: str, value: object) -> bool:
    return ":" not in key and isinstance(value, dict)


def _unindented(value: Mapping[str, Any]) -> Problem | None:
    """A cluster's fields that stand beside its name; None where that is not so."""
    empty = next((name for name, each in value.items() if each is None), None)
    if empty is None:
        return None
    from providers.model.spec_fields import ClusterFields

    beside = [name for name in value if name in ClusterFields.model_fields]
    if not beside:
        return None
    return Problem(
        f"gpus:clusters.{empty}",
        "its fields, indented under it",
        f"nothing there, and {', '.join(beside)} beside it",
        f"begin the lines of {', '.join(beside)} two spaces further right than {empty}",
    )


def too_deep() -> SpecError:
    """What to raise for clusters in too many levels of lists and mappings."""
    from providers.model import foreign

    return SpecError([Problem("gpus:clusters", foreign.LEVELS, "more")])


def kind(value: object) -> str:
    """What a value of the wrong kind is, for a message: `a list`, `the number 5`."""
    names = {
        list: "a list",
        str: f"the text {str(value)[:80]!r}",
        bool: "a truth value",
        int: f"the number {value}",
        float: f"the number {value}",
    }
    return names.get(type(value), "nothing" if value is None else type(value).__name__)


def entry(raw: Any, project: Path) -> Any:
    """A cluster's entry with the content of the files that it names. Raises SpecError with all that
    cannot be read.
    """
    found, problems = with_files(raw, project)
    if problems:
        raise SpecError(problems)
    return found


def with_files(raw: Any, project: Path) -> tuple[Any, list[Problem]]:
    """A cluster's entry with the content of the files that it names, relative to the project's
    folder: those of its workload, and a public key (`~` is the home); and with the digest of its
    folder. The fields whose files cannot be read are left out and are the problems. What holds
    content already stays.
    """
    from providers.model import workload

    if not isinstance(raw, dict):
        return raw, []
    problems: list[Problem] = []
    try:
        found = dict(workload.with_files(raw, project))
    except SpecError as error:
        problems.extend(error.problems)
        found = {key: value for key, value in raw.items() if key != "workload"}
    if found.get("workdir") is not None:
        from providers.remote import tree

        try:
            found["workdir"] = tree.field(found["workdir"], project)
        except SpecError as error:
            problems.extend(error.problems)
            del found["workdir"]
    text = found.get("ssh_key")
    if isinstance(text, str) and text.strip().endswith(".pub") and " " not in text.strip():
        try:
            found["ssh_key"] = _public_key(text.strip(), project)
        except SpecError as error:
            problems.extend(error.problems)
            del found["ssh_key"]
    return found, problems


def _public_key(path: str, project: Path) -> str:
    from pathlib import Path

    from providers.model import regular

    try:
        content = regular.content(project / Path(path).expanduser(), regular.KEY_MAX)
        return content.decode().strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: a home of nobody
        raise SpecError([Problem("ssh_key", "a readable public key file", str(error))]) from None
