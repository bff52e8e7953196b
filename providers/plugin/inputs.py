"""A cluster's inputs, as the engine hands them over: checked, brought into canonical form, and read
for the engine.

Owns the canonical form (what a default says is left out, GPU names in their one spelling), so that
an edit that means the same is no edit. pydantic is imported here on first use. Must not import grpc
or the engine's loop.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.desired import Acquire
from providers.errors import Problem, SpecError
from providers.model import duration, secret
from providers.model.stack import world_problem
from providers.plugin.budget import problems as budget_problems
from providers.plugin.properties import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.desired import ClusterSpec
    from providers.model.machine import Setup
    from providers.model.spec import Cluster
    from providers.plugin.properties import Properties

OWN = ("world", "owner", "cluster", "settings", "network_links", "max_spend")
"""The inputs that are the plugin's, besides the spec's fields."""
_STAND_IN_GPU = "H100:1"


class Checked(NamedTuple):
    """`values` are the canonical inputs; `spec` is None while the GPU is not known yet, or when
    there are problems.
    """

    values: dict[str, Any]
    problems: tuple[Problem, ...]
    spec: Cluster | None = None


def check(properties: Properties) -> Checked:
    """All that is wrong with a cluster's inputs at once, and their canonical form. What is not
    known yet is let through unread.
    """
    from providers.adapters import registry
    from providers.engine import validate
    from providers.model.spec import asked_names, read_cluster

    known = properties.known()
    plain = secret.plain_ones({key: value for key, value in known.items() if key not in OWN})
    problems = [
        *own_problems(known, properties.unknown, ("world", "owner", "cluster")),
        *secret.problems_of(plain),
        *_nested(properties),
    ]
    name = known.get("cluster")
    raw = {key: value for key, value in known.items() if key not in OWN}
    waiting = {key: value for key, value in properties.values.items() if key in properties.unknown}
    gpu_known = "gpu" not in waiting
    if not gpu_known:
        raw["gpu"] = _STAND_IN_GPU
    spec: Cluster | None = None
    try:
        spec = read_cluster(str(name) if isinstance(name, str) and name else "x", raw)
    except SpecError as error:
        found = [
            problem._replace(path="cluster") if problem.path == "name" else problem
            for problem in error.problems
        ]
        problems.extend(
            problem for problem in found if not (problem.path == "expose" and "network" in waiting)
        )
        if gpu_known:
            problems.extend(validate.besides("x", raw, error.problems))
        problems.extend(_names(asked_names(raw), problems))
        problems.extend(problem for problem in _places(raw) if problem not in problems)
    values = {key: known[key] for key in OWN if key in known}
    if spec is not None:
        dumped = {
            key: value
            for key, value in spec.model_dump(
                mode="json", exclude_defaults=True, exclude_unset=True
            ).items()
            if key != "name"
        }
        values.update({key: _spelled(key, value) for key, value in dumped.items()})
        try:
            # In their one spelling two choices may turn out to be the same.
            spec = read_cluster(
                spec.name, {key: value for key, value in values.items() if key not in OWN}
            )
        except SpecError as error:
            problems.extend(error.problems)
        if gpu_known:
            problems.extend(
                problem for problem in validate.refused(spec) if problem not in problems
            )
        else:
            problems.extend(validate.problems(spec, registry.manifests()))
            values.pop("gpu", None)
    else:
        values.update({key: value for key, value in raw.items() if key != "gpu" or gpu_known})
    values.update(waiting)
    hidden = [
        (
            problem._replace(found="a secret value")
            if problem.path.partition(".")[0].partition("[")[0] in properties.secret
            else problem
        )
        for problem in problems
    ]
    return Checked(
        values, tuple(secret.told(hidden, plain)), spec if gpu_known and not problems else None
    )


def _nested(properties: Properties) -> list[Problem]:
    """Pulumi's secrets inside a cluster: what is made of them (orders, start-up scripts, the
    machine's own record) would hold them in plain text.
    """
    return [
        Problem(key, "no secret inside a cluster", "a secret", secret.INSTEAD)
        for key in sorted(properties.secret)
        if key not in OWN and key != "ssh_key"
    ]


def check_all(arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """The problems of a stack's clusters by name, `train.fallback[0]: wanted ...` each. A managed
    network needs its provider's credentials before all.
    """
    from providers.adapters import registry
    from providers.engine.runtime.world import open_world
    from providers.errors import NotConfigured
    from providers.model.worlds import LIVE
    from providers.plugin.properties import Properties

    world, settings, clusters = (
        str(arguments.get("world", "")),
        settings_of(arguments),
        arguments.get("clusters") or {},
    )
    found: dict[str, list[str]] = {}
    for name, raw in clusters.items():
        lines = found[name] = []
        own = {"world": world, "owner": "x", "cluster": name, "settings": settings}
        for problem in check(Properties({**raw, **own})).problems:
            path = repr(name) if problem.path == "cluster" else f"{name}.{problem.path}"
            lines.append(str(problem._replace(path=path)))
        if world == LIVE and raw.get("network") == "managed":
            opened = open_world(world, settings)
            try:
                for provider in registry.networked():
                    opened.adapter(provider)
            except NotConfigured as error:
                lines.insert(0, f"{name}: {error}")
            finally:
                opened.close()
    return found


def own_problems(
    known: Mapping[str, Any], unknown: frozenset[str], required: tuple[str, ...]
) -> list[Problem]:
    """What is wrong with the inputs that are not of the spec."""
    problems = []
    for key in required:
        value = known.get(key)
        if key in unknown:
            continue
        if key == "world":
            if (wrong := world_problem(key, value)) is not None:
                problems.append(wrong)
        elif not (isinstance(value, str) and value):
            problems.append(Problem(key, "a text", repr(value) if value is not None else "nothing"))
    problems.extend(budget_problems(known))
    settings = known.get("settings", {})
    if not isinstance(settings, dict) or not all(
        isinstance(section, dict) for section in settings.values()
    ):
        problems.append(
            Problem("settings", "a mapping such as {gcp: {project: my-project}}", repr(settings))
        )
    else:
        for provider, section in settings.items():
            problems.extend(
                Problem(f"settings.{provider}.{key}", "a text", repr(value))
                for key, value in section.items()
                if not isinstance(value, str)
            )
    return problems


def spec_of(values: Mapping[str, Any]) -> Cluster:
    """The spec of canonical inputs. Raises SpecError."""
    from providers.model.spec import read_cluster

    return read_cluster(
        str(values.get("cluster") or "cluster"),
        {key: value for key, value in values.items() if key not in OWN},
    )


def cluster_spec_of(values: Mapping[str, Any]) -> ClusterSpec:
    """What the engine is to get, of canonical inputs that are all known."""
    from providers.engine.desired import ClusterSpec

    spec = spec_of(values)
    ready = spec.ready if spec.kind == "machine" or spec.workload is not None else ""
    return ClusterSpec(
        str(values["owner"]),
        str(values["cluster"]),
        spec.ask(),
        setup(spec, values),
        spec.fingerprint(),
        ready=ready,
        accept=spec.accept,
        acquire=_acquire(spec, values),
        hedge=spec.hedge,
    )


def _acquire(spec: Cluster, values: Mapping[str, Any]) -> Acquire | None:
    """How long to wait for capacity; any edit of the cluster makes it another search."""
    if spec.acquire is None:
        return None
    asked = {key: value for key, value in values.items() if key not in OWN}
    text = json.dumps(asked, sort_keys=True, default=str)
    within_s = duration.seconds(spec.acquire.within)
    return Acquire(within_s, hashlib.sha256(text.encode()).hexdigest()[:12])


def setup(spec: Cluster, values: Mapping[str, Any]) -> Setup:
    """Everything about the machines that is no choice of place."""
    links = values.get("network_links") or {}
    made = spec.setup()
    if links:
        wiring = tuple(sorted((str(key), str(value)) for key, value in links.items()))
        made = made._replace(network=wiring)
    return made._replace(
        ports=(*made.ports, *(port for port in served(spec) if port not in made.ports))
    )


def served(spec: Cluster) -> tuple[int, ...]:
    """The ports at which its workload is reached."""
    if spec.workload is None:
        return ()
    from providers.workloads.launch import proxy

    if spec.replicas is None:
        return proxy.ports(spec.workload.record())
    return (proxy.port(tls=spec.tls is not None),)


def settings_of(values: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The settings among a resource's inputs; empty where they are missing or not known yet."""
    found = values.get("settings")
    if not isinstance(found, dict):
        return {}
    return {
        str(name): {str(key): str(value) for key, value in section.items() if value is not UNKNOWN}
        for name, section in found.items()
        if isinstance(section, dict)
    }


def _spelled(key: str, value: Any) -> Any:
    """The value with every GPU name in its one spelling. Unknown names stay: the planner names
    them.
    """
    if key == "gpu" and isinstance(value, str):
        return _gpu_text(value)
    if key in ("gpu", "fallback") and isinstance(value, list):
        return [_spelled("gpu", item) for item in value]
    if key in ("gpu", "fallback") and isinstance(value, dict):
        renamed = {
            inner: _gpu_text(item) if inner in ("gpu", "type") and isinstance(item, str) else item
            for inner, item in value.items()
        }
        return {
            inner: _spelled("fallback", item) if inner == "fallback" else item
            for inner, item in renamed.items()
        }
    return value


def _gpu_text(text: str) -> str:
    from providers.catalog.names import canonical
    from providers.model.ask import gpu_text

    try:
        name, exact, count = gpu_text(text)
    except SpecError:
        return text
    spelled = canonical(name) or name
    return f"{spelled}{'!' if exact else ''}" + (f":{count}" if count is not None else "")


def _names(asked: list[tuple[str, str]], problems: list[Problem]) -> list[Problem]:
    """Unknown GPU names of a spec that is broken elsewhere, so that both are told at once."""
    from providers.catalog.names import canonical
    from providers.planner.check import unknown_gpu

    told = {problem.path for problem in problems}
    out = []
    for path, name in asked:
        if canonical(name) is None and path not in told:
            out.append(unknown_gpu(path, name))
    return out


def _places(raw: Mapping[str, Any]) -> list[Problem]:
    """Unknown providers and regions of a spec that is broken elsewhere, likewise."""
    from providers.adapters import registry
    from providers.catalog.offers import load
    from providers.model.ask import Ask
    from providers.planner import check as planner_check

    providers, regions = (
        (
            tuple(item for item in raw[key] if isinstance(item, str))
            if isinstance(raw.get(key), (list, tuple))
            else ()
        )
        for key in ("providers", "regions")
    )
    return planner_check.places(
        Ask((), providers=providers, regions=regions), load(), registry.capabilities()
    )
