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
    from collections.abc import Mapping
    from pathlib import Path

    from providers.model.spec import Cluster


def keys(config: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a stack's own keys, as they stand in its file, and with a secret that stands where an account is named. Pure."""
    import difflib

    from providers.engine import registry

    known = [f"gpus:{name}" for name in KEYS]
    found = []
    for key in config:
        if str(key).startswith("gpus:") and key not in known:
            close = difflib.get_close_matches(str(key), known, n=2, cutoff=0.6)
            found.append(Problem(str(key), f"one of {', '.join(known)}", repr(str(key)), f"near: {', '.join(close)}" if close else ""))
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
    """The cluster that an entry declares. Raises SpecError with everything that is wrong with it but its GPUs and places; never repeats a secret."""
    from providers.engine import fitting, registry
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
        problems.extend(fitting.problems(found, registry.manifests()))
    if problems or found is None:
        raise SpecError(secret.told(problems, plain))
    return found
