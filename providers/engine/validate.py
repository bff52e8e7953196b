"""What a stack's files declare, read as a preview reads it, without Pulumi: the command line's plans and trials refuse what an `up` would refuse.

Owns the rules of a stack's own keys and of an entry as a whole; a cluster's fields are `providers.model.spec`'s, what providers make of them is
`fitting`'s. Reads the files that an entry names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError
from providers.model import secret
from providers.model.stack import KEYS, RESERVED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from providers.model.ask import Ask
    from providers.model.spec import Cluster


def keys(config: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a stack's own keys, as they stand in its file, and with a secret that stands where an account is named. Pure."""
    from providers.adapters import registry

    found = unknown_keys(config, {key for key, value in config.items() if _encrypted(value)})
    value = config.get("gpus:max_spend")
    try:
        good = value is None or (not isinstance(value, bool) and 0 < float(value) <= 1e9)
    except (TypeError, ValueError):
        good = False
    if not good:
        found.append(Problem("gpus:max_spend", "US dollars a calendar month, more than 0", repr(value)[:80]))
    # Passed over, it would leave what is bought to whatever account the environment has.
    listed = {"gcp:project", *(f"{name}:{key}" for name, manifest in registry.manifests().items() for key in manifest.settings)}
    todo = "it would stand in the state as plain text, so set it without --secret"
    found.extend(Problem(key, "plain text", "a secret", todo) for key in sorted(listed & config.keys()) if _encrypted(config[key]))
    return found


SHARED = frozenset({"gcp", "aws"})
"""Pulumi's own packages of these names read the same configuration: there only what comes near a key of ours is a mistake."""


def unknown_keys(config: Iterable[str], secrets: Collection[str] = ()) -> list[Problem]:
    """The keys of a stack's configuration that nobody reads: of the product's own, and of the providers' settings. Pure.

    What is a secret there is a program's own: no setting of ours is one.
    """
    import difflib

    from providers.adapters import registry

    settings = {name: manifest.settings for name, manifest in registry.manifests().items()}
    settings["gpus"], settings["gcp"] = KEYS, ("project", *settings.get("gcp", ()))
    found = []
    for key in sorted(map(str, config)):
        name, _, word = key.partition(":")
        if word in settings.get(name, (word,)) or (key in secrets and name != "gpus"):
            continue
        known = [f"{name}:{each}" for each in settings[name]]
        near = difflib.get_close_matches(word.casefold(), settings[name], n=2, cutoff=0.7 if name in SHARED else 0.6)
        close = [f"{name}:{each}" for each in near]
        if name in SHARED and (not close or word in _PULUMIS):
            continue
        wanted = f"one of {', '.join(known)}" if known else f"no setting of {name}'s"
        found.append(Problem(key, wanted, repr(key), f"near: {', '.join(close)}" if close else "remove it"))
    return found


_PULUMIS = frozenset({"region", "zone", "profiles"})
"""Keys of Pulumi's packages that come near one of ours (pulumi.com/registry, gcp and aws, 2026-11)."""


def refused(spec: Cluster) -> list[Problem]:
    """What is wrong with a cluster beyond its own fields: what its providers make of it, then what nobody sells. Reads the bundled catalog.

    One fault is told once: what follows from an option that is missing is not told again as a place that is not sold.
    """
    from providers.adapters import registry
    from providers.catalog.offers import load
    from providers.engine import fitting
    from providers.engine.market.planning import whole
    from providers.planner import check

    ask = spec.ask()
    found = [*_twice(ask), *fitting.problems(spec, registry.manifests())]
    derived = tuple(f"options.{name}" for name, manifest in registry.manifests().items() if manifest.derived is not None)
    if any(problem.path in {"workload", "network"} or problem.path.startswith(derived) for problem in found):
        return found
    return [*found, *check.problems(ask, whole(load(), ask, registry.manifests()), registry.capabilities())]


def _twice(ask: Ask) -> list[Problem]:
    """The choices that are the same once their GPUs are spelled in one way."""
    from providers.catalog.names import canonical

    first: dict[tuple[object, ...], str] = {}
    found = []
    for entry in ask.entries:
        key = (canonical(entry.gpu) or entry.gpu, *entry._replace(gpu="", path="", wait_s=0, ttl_s=None, override=None))
        if key in first:
            found.append(Problem(entry.path, "a choice that is not listed yet", f"the same as {first[key]}", "remove it"))
        first.setdefault(key, entry.path)
    return found


def _encrypted(value: object) -> bool:
    """True for what Pulumi writes into a stack's file for a secret."""
    return isinstance(value, dict) and value.keys() == {"secure"}


def _secrets(value: Any, path: str = "") -> list[str]:
    """Where Pulumi's secrets are inside an entry."""
    if _encrypted(value):
        return [path]
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in _secrets(each, f"{path}.{key}".lstrip("."))]
    return [found for index, each in enumerate(value) for found in _secrets(each, f"{path}[{index}]")] if isinstance(value, list) else []


def entry(raw: Any, project: Path) -> Any:
    """A cluster's entry with the content of the files that it names: those of its workload, and a public key. Raises SpecError."""
    from providers.model import regular
    from providers.model.workload import with_files

    raw = with_files(raw, project)
    text = raw.get("ssh_key") if isinstance(raw, dict) else None
    if not isinstance(text, str) or not text.strip().endswith(".pub") or " " in text.strip():
        return raw
    from pathlib import Path as Folder

    try:
        return {**raw, "ssh_key": regular.content(project / Folder(text.strip()).expanduser(), regular.KEY_MAX).decode().strip()}
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: a home of nobody
        raise SpecError([Problem("ssh_key", "a readable public key file", str(error))]) from None


def cluster(name: str, raw: Any) -> Cluster:
    """The cluster that an entry declares. Raises SpecError with everything that is wrong with it; never repeats a secret."""
    from providers.model.spec import read_cluster

    problems: list[Problem] = []
    found: Cluster | None = None
    plain = []
    if encrypted := _secrets(raw):
        raise SpecError([Problem(path, "no secret inside a cluster", "a secret", secret.INSTEAD) for path in encrypted])
    if isinstance(raw, dict):
        ours = sorted(set(raw) & RESERVED)
        problems.extend(Problem(key, "a field of a cluster", repr(key)) for key in ours)
        raw = {str(key): value for key, value in raw.items() if key not in ours and value is not None}
        plain = secret.plain_ones(raw)
        problems.extend(secret.problems_of(plain))
    try:
        found = read_cluster(name, raw)
    except SpecError as error:
        problems.extend(error.problems)
    else:
        problems.extend(refused(found))
    if problems or found is None:
        raise SpecError(secret.told(problems, plain))
    return found
