"""What a stack's files declare, read as a preview reads it, without Pulumi: the command line's
plans and trials refuse what an `up` would refuse.

Owns the rules of a stack's own keys, of an entry as a whole, and of what a spec says to its
providers: options, secrets, what a launcher runs. A cluster's fields are `providers.model.spec`'s.
Reads the files that an entry names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from providers.engine.market.mounting import shared
from providers.engine.stack_config import is_encrypted
from providers.errors import Problem, SpecError, in_words
from providers.model import secret
from providers.model.stack import KEYS, RESERVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.base import Manifest
    from providers.model.ask import Ask
    from providers.model.spec import Cluster


def refused(spec: Cluster) -> list[Problem]:
    """What is wrong with a cluster beyond its own fields: what its providers make of it, then what
    nobody sells. Reads the bundled catalog.

    One fault is told once: what follows from an option that is missing is not told again as a place
    that is not sold.
    """
    from providers.adapters import registry
    from providers.catalog.offers import load
    from providers.engine.market.offers import whole
    from providers.planner import check

    ask = spec.ask()
    found = [*_twice(ask), *problems(spec, registry.manifests())]
    derived = tuple(
        f"options.{name}"
        for name, manifest in registry.manifests().items()
        if manifest.pricing.derived is not None
    )
    if any(
        problem.path in {"workload", "network"} or problem.path.startswith(derived)
        for problem in found
    ):
        return found
    return [
        *found,
        *check.problems(ask, whole(load(), ask, registry.manifests()), registry.capabilities()),
    ]


def _twice(ask: Ask) -> list[Problem]:
    """The choices that are the same once their GPUs are spelled in one way."""
    from providers.catalog.names import canonical

    first: dict[tuple[object, ...], str] = {}
    found = []
    for entry in ask.entries:
        key = (
            canonical(entry.gpu) or entry.gpu,
            *entry._replace(gpu="", path="", wait_s=0, ttl_s=None, override=None),
        )
        if key in first:
            found.append(
                Problem(
                    entry.path,
                    "a choice that is not listed yet",
                    f"the same as {in_words(first[key])}",
                    "remove it",
                )
            )
        first.setdefault(key, entry.path)
    return found


def _secrets(value: Any, path: str = "") -> list[str]:
    """Where Pulumi's secrets are inside an entry."""
    if is_encrypted(value):
        return [path]
    if isinstance(value, dict):
        return [
            found
            for key, each in value.items()
            for found in _secrets(each, f"{path}.{key}".lstrip("."))
        ]
    return (
        [found for index, each in enumerate(value) for found in _secrets(each, f"{path}[{index}]")]
        if isinstance(value, list)
        else []
    )


def cluster(name: str, raw: Any) -> Cluster:
    """The cluster that an entry declares. Raises SpecError with everything that is wrong with it;
    never repeats a secret.
    """
    from providers.model.spec import read_cluster

    problems: list[Problem] = []
    found: Cluster | None = None
    plain = []
    if encrypted := _secrets(raw):
        raise SpecError(
            [
                Problem(path, "no secret inside a cluster", "a secret", secret.INSTEAD)
                for path in encrypted
            ]
        )
    if isinstance(raw, dict):
        ours = sorted(set(raw) & RESERVED)
        problems.extend(
            Problem(
                key,
                "a field of a cluster",
                repr(key),
                f"it is the whole stack's: write gpus:{key} beside gpus:clusters"
                if key in KEYS
                else "",
            )
            for key in ours
        )
        raw = {
            str(key): value for key, value in raw.items() if key not in ours and value is not None
        }
        plain = secret.plain_ones(raw)
        problems.extend(secret.problems_of(plain))
    try:
        found = read_cluster(name, raw)
    except SpecError as error:
        problems.extend(error.problems)
        problems.extend(besides(name, raw, error.problems))
    else:
        problems.extend(refused(found))
    if problems or found is None:
        raise SpecError(secret.told(problems, plain))
    return found


_RIGHT: Mapping[str, Any] = {"port": 8000, "health": "/health", "model": "me/model"}
"""What stands in for a field of a program that is wrong."""
_APART = frozenset(
    {"ttl", "on_ttl", "expose", "ports", "state", "accept", "ready", "ssh_key", "tls"}
)
"""Fields of a cluster that the others can be judged without."""
_BASES = ("workload", "options", "secrets", "tls")
"""What decides on what a provider's options have to say for the kind."""
_OF_PROGRAM = re.compile(r"workload\.(?:services\[(\d+)\]\.)?(\w+)")


def besides(name: str, raw: Any, known: Sequence[Problem]) -> list[Problem]:
    """What `refused` would say of an entry whose fields are wrong, if they were right: one message
    has all. Nothing where the rest cannot be judged without them.
    """
    from providers.model.spec import read_cluster

    right = _righted(raw, known)
    if right is None:
        return []
    try:
        found = refused(read_cluster(name, right))
    except SpecError:
        return []
    told = {problem.path for problem in known}
    return [problem for problem in found if problem.path not in told]


def _righted(raw: Any, known: Sequence[Problem]) -> dict[str, Any] | None:
    """The entry with these problems mended; None where one of them can't be."""
    if not isinstance(raw, Mapping):
        return None
    out = dict(raw)
    for problem in known:
        head = re.split(r"[.\[]", problem.path, maxsplit=1)[0]
        match = _OF_PROGRAM.fullmatch(problem.path)
        if head in _APART:
            out.pop(head, None)
        elif match is not None and match[2] in _RIGHT and isinstance(out["workload"], Mapping):
            work = out["workload"] = dict(out["workload"])
            if match[1] is not None:
                number = int(match[1])
                programs = work["services"] = list(work["services"])
                programs[number] = work = dict(programs[number])
            work[match[2]] = _RIGHT[match[2]]
        else:
            return None
    return out


def problems(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """Everything of it that is wrong with every path; what is missing for the kind is asked for
    once what runs, its options and its secrets are right.
    """
    elsewhere = _said_elsewhere(spec, manifests)
    if not elsewhere and (nothing := _nothing_runs(spec)):
        return [nothing]
    found: list[Problem] = [*elsewhere, *_runs(spec, manifests), *_network(spec, manifests)]
    refused_keys = {problem.path for problem in elsewhere}
    for provider, section in spec.options.items():
        manifest = manifests.get(provider)
        if manifest is None:
            found.append(
                Problem(
                    f"options.{provider}",
                    f"a provider that has options: {', '.join(manifests) or 'none yet'}",
                    repr(provider),
                )
            )
            continue
        found.extend(
            problem._replace(path=f"options.{provider}.{problem.path}".removesuffix("."))
            for problem in manifest.check_options(
                {
                    key: value
                    for key, value in section.items()
                    if f"options.{provider}.{key}" not in refused_keys
                }
            )
        )
    found.extend(shared(spec.ask(), manifests))
    found.extend(_references(spec, manifests))
    if not any(problem.path.startswith(_BASES) for problem in found):
        found.extend(_fitting(spec, manifests))
    return found


def _said_elsewhere(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """What runs, said in a provider's options in place of the workload."""
    found = []
    for provider, section in spec.options.items():
        if provider not in manifests:
            continue
        programs = manifests[provider].programs
        for key, field in programs.options.items():
            if key not in section:
                continue
            said = None if spec.workload is None else getattr(spec.workload, field)
            own = key in programs.bare and spec.kind == "machine"
            if own and (not said or said == section[key]):
                continue
            found.append(
                Problem(
                    f"options.{provider}.{key}",
                    f"workload.{field}, which says what runs on every provider",
                    repr(section[key])[:80],
                    f"move it there: workload: {{{field}: ...}}",
                )
            )
    return found


def _allowed(spec: Cluster, manifests: Mapping[str, Manifest]) -> dict[str, Manifest]:
    """The providers that it may be at, of those that can be of its kind.

    One whose offers are made for an ask says there why it does not serve it: a mistake that is
    where it was named, and no other place.
    """
    can = {
        name: each
        for name, each in manifests.items()
        if each.capabilities.can_be(spec.kind, workload=spec.workload is not None)
    }
    if spec.providers is not None:
        return {name: each for name, each in can.items() if name in spec.providers}
    return {
        name: each
        for name, each in can.items()
        if each.pricing.derived is None and (spec.marketplaces or not each.capabilities.marketplace)
    }


def _nothing_runs(spec: Cluster) -> Problem | None:
    """A job or service that does not say what it runs."""
    if spec.kind == "machine" or spec.workload is not None:
        return None
    sample = (
        "{command: python train.py}"
        if spec.kind == "job"
        else "{command: python serve.py, port: 8000}"
    )
    return Problem(
        "workload",
        f"what the {spec.kind} runs",
        "nothing",
        f"declare it, as in workload: {sample}",
    )


def _network(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """What a managed network needs: a provider that makes one, with a subnet in each region that is
    listed.
    """
    if spec.network != "managed":
        return []
    found = []
    if not spec.regions:
        found.append(
            Problem(
                "regions",
                "the regions that network: managed makes subnets in",
                "none",
                "list them, as in [us-central1]",
            )
        )
    able = [name for name, manifest in manifests.items() if manifest.declare_network is not None]
    if spec.providers is not None and not set(able) & set(spec.providers):
        found.append(
            Problem(
                "network",
                f"{' or '.join(able)} among the providers: only there network: managed can be made",
                ", ".join(spec.providers),
            )
        )
    return found


def _runs(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """What a launcher can't do of what is declared, and what a service can't be reached by."""
    if spec.workload is None:
        return []
    from providers.workloads.launch.compile import check, overriding, untimed

    ask = spec.ask()
    if ask.workload is None:
        return []
    allowed = _allowed(spec, manifests)
    machines = {
        name: each
        for name, each in allowed.items()
        if each.programs.runs is None
        or spec.kind not in each.capabilities.kinds
        or spec.kind == "machine"
    }
    # A provider with a door of its own asks for its own token there.
    expose = spec.expose if machines or not allowed else "private"
    found = [
        problem for entry in ask.entries for problem in check(ask.workload, entry.span, expose)
    ]
    found.extend(_proxied(ask, allowed))
    found.extend(
        problem
        for entry in ask.entries
        for problem in overriding(ask.workload, entry.override, entry.path)
    )
    found.extend(untimed(ask.workload))
    if spec.kind == "service" and spec.expose == "public":
        for name, each in machines.items():
            section = tuple(sorted(spec.options.get(name, {}).items()))
            if each.limits.shut is not None and (
                wanted := each.limits.shut(spec.setup()._replace(options=section))
            ):
                todo = f"say so, or leave {name} out of providers"
                found.append(
                    Problem(
                        "expose",
                        f"for a public service at {name}: {wanted}",
                        f"network: {spec.network}",
                        todo,
                    )
                )
    return list(dict.fromkeys(found))


def _proxied(ask: Ask, allowed: Mapping[str, Manifest]) -> list[Problem]:
    """Why no proxy can spread requests over the replicas that are declared."""
    if not ask.replicated or ask.workload is None:
        return []
    from providers.adapters import registry
    from providers.engine.setup import takes_proxy
    from providers.workloads.launch import proxy

    found = proxy.problems(ask.workload)
    if allowed and not any(map(takes_proxy, allowed.values())):
        able = ", ".join(name for name, each in registry.manifests().items() if takes_proxy(each))
        own = [name for name, each in allowed.items() if ask.kind in each.capabilities.kinds]
        todo = f"; {own[0]} adds containers by itself: options.{own[0]}" if own else ""
        found.append(
            Problem(
                "replicas",
                f"a provider whose machines take a proxy: {able}",
                ", ".join(allowed),
                f"leave replicas out{todo}",
            )
        )
    return found


def _references(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """What of the secrets no provider could fetch."""
    fetch = sorted(
        name for name, manifest in manifests.items() if manifest.credentials.reference is not None
    )
    out: list[Problem] = []
    for name, references in spec.fetched.items():
        for provider, text in references.items():
            manifest = manifests.get(provider)
            if manifest is None or manifest.credentials.reference is None:
                out.append(
                    Problem(
                        f"{secret.path_of(name)}.{provider}",
                        f"a provider whose machines fetch secrets: {', '.join(fetch)}",
                        repr(provider),
                    )
                )
            elif wanted := manifest.credentials.reference(text):
                # Whoever writes the value itself here must not find it in a log.
                out.append(
                    Problem(
                        f"{secret.path_of(name)}.{provider}",
                        wanted,
                        f"something else, of {len(text)} characters",
                    )
                )
    return out


def _fitting(spec: Cluster, manifests: Mapping[str, Manifest]) -> list[Problem]:
    """What of the options is missing or out of place for this kind, at the providers that can be of
    that kind.
    """
    from providers.engine.setup import nominal

    out: list[Problem] = []
    for provider, manifest in _allowed(spec, manifests).items():
        if manifest.limits.fits is not None:
            try:
                known = nominal(spec.ask(), spec.setup(), manifest)
            except SpecError:
                continue  # told by the workload's own check
            found = manifest.limits.fits(spec.kind, dict(known.options), known)
            out.extend(
                problem._replace(path=f"options.{provider}.{problem.path}".removesuffix("."))
                for problem in found
            )
    return out
