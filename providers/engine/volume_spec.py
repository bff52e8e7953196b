"""A volume's declaration: its fields, and what is wrong with them. Owns the filling in of where a
mounted volume stands. Reads the bundled catalog.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from providers.engine.market.mounting import zones
from providers.errors import Problem
from providers.model.volume import VolumeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.volume import VolumeSales

FIELDS = ("provider", "place", "size_gib", "type", "delete_data")
SAMPLE = "{provider: NAME, place: ZONE, size_gib: 500}"
_NAME = re.compile(r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")


def read(name: str, raw: Mapping[str, Any]) -> tuple[VolumeSpec | None, list[Problem]]:
    """The volume of these fields, None where something is wrong with it, and all that is. Fields
    that are no volume's are passed over.
    """
    from providers.adapters import registry

    problems: list[Problem] = []
    if not _NAME.match(name):
        wanted = "lowercase letters, digits and -, at most 40, starting with a letter"
        problems.append(Problem("", f"a name of {wanted}", repr(name)))
    able = {key: each.storage for key, each in registry.manifests().items() if each.storage}
    provider = raw.get("provider")
    if not isinstance(raw.get("delete_data", False), bool):
        problems.append(Problem("delete_data", "true or false", repr(raw["delete_data"])))
    if not isinstance(provider, str) or provider not in able:
        found = repr(provider) if provider is not None else "nothing"
        problems.append(Problem("provider", f"one of {', '.join(sorted(able))}", found))
        return None, problems
    sales = able[provider]
    assert sales is not None
    spec, wrong = _sold(name, provider, raw, sales)
    problems += wrong
    return (None if problems else spec), problems


def _sold(
    name: str, provider: str, raw: Mapping[str, Any], sales: VolumeSales
) -> tuple[VolumeSpec, list[Problem]]:
    """The volume as that provider sells it, and what is wrong with it there."""
    long = (
        [Problem("", f"a name of at most {sales.name_most} characters at {provider}", repr(name))]
        if len(name) > sales.name_most
        else []
    )
    place, size, kind = raw.get("place"), raw.get("size_gib"), raw.get("type")
    if not sales.types:
        todo = "leave it out"
        found = f"a volume of {provider} has none"
        return VolumeSpec(name, provider), long + [
            Problem(field, f"nothing: {found}", repr(raw[field]), todo)
            for field in ("place", "size_gib", "type")
            if raw.get(field) is not None
        ]
    problems = long + _place(provider, place)
    limits = {each: (least, most) for each, least, most in sales.types}
    kind = next(iter(limits)) if kind is None else kind
    if not isinstance(kind, str) or kind not in limits:
        problems.append(Problem("type", f"one of {', '.join(limits)}", repr(kind)))
        kind = next(iter(limits))
    least, most = limits[kind]
    if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
        found = "nothing" if size is None else repr(size)
        problems.append(Problem("size_gib", f"{least} to {most:,} for {kind}", found))
        size = least
    region = zones(provider).get(str(place), "")
    return VolumeSpec(name, provider, str(place), size, kind, region), problems


def _place(provider: str, place: object) -> list[Problem]:
    known = zones(provider)
    if isinstance(place, str) and place in known:
        return []
    near = difflib.get_close_matches(str(place), known, n=3, cutoff=0.6)
    found = "nothing" if place is None else repr(place)
    wanted = f"a zone where {provider} has GPUs, as in {sorted(known)[0] if known else '-'}"
    return [Problem("place", wanted, found, f"near: {', '.join(near)}" if near else "")]


def declared(value: object) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """The volumes of `gpus:volumes` by name, and what is wrong with them. Paths begin there."""
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        return {}, [Problem("gpus:volumes", f"volumes by name, as in {{data: {SAMPLE}}}", "else")]
    problems: list[Problem] = []
    found: dict[str, dict[str, Any]] = {}
    for name, raw in value.items():
        at = f"gpus:volumes.{name}"
        if not isinstance(raw, dict):
            problems.append(Problem(at, f"a mapping such as {SAMPLE}", repr(raw)[:80]))
            continue
        problems += [
            Problem(f"{at}.{key}", f"one of {', '.join(FIELDS)}", repr(key), "remove it")
            for key in sorted(set(map(str, raw)) - set(FIELDS))
        ]
        given = {key: each for key, each in raw.items() if each is not None}
        spec, wrong = read(str(name), given)
        problems += [each._replace(path=f"{at}.{each.path}".removesuffix(".")) for each in wrong]
        found[str(name)] = {**given, **({} if spec is None else {"type": spec.type or None})}
    return found, problems


def names(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The volumes that a cluster's workload mounts. Pure."""
    workload = entry.get("workload")
    uses = workload.get("volumes") if isinstance(workload, dict) else None
    return tuple(map(str, uses)) if isinstance(uses, dict) else ()


def mounted(entry: Any, volumes: Mapping[str, Mapping[str, Any]]) -> Any:
    """A cluster's entry in which each volume that its workload mounts says where it stands. What is
    no volume of the stack is left as it is. Pure.
    """
    workload = entry.get("workload") if isinstance(entry, dict) else None
    uses = workload.get("volumes") if isinstance(workload, dict) else None
    if not isinstance(uses, dict):
        return entry
    filled = {
        name: _use(use, volumes[name]) if name in volumes else use for name, use in uses.items()
    }
    return {**entry, "workload": {**entry["workload"], "volumes": filled}}


def _use(use: object, volume: Mapping[str, Any]) -> object:
    given = {"path": use} if isinstance(use, str) else use
    if not isinstance(given, dict):
        return use
    where = {key: volume[key] for key in ("provider", "place", "type") if volume.get(key)}
    return {**_default_type(where), **given, **where}


def _default_type(where: Mapping[str, Any]) -> dict[str, str]:
    """The type of a volume that names none; nothing where there is none, or a name is wrong."""
    from providers.adapters import registry

    manifest = registry.manifests().get(where.get("provider", ""))
    sales = manifest.storage if manifest is not None else None
    return {"type": sales.types[0][0]} if sales is not None and sales.types else {}
