"""Pydantic's errors as problems in a user's words, one for each path. Read when there are any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError
from providers.model import retired, wording
from providers.model.workload_spec import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel, ValidationError


def problems_of(
    error: ValidationError,
    data: Mapping[str, Any],
    model: type[BaseModel],
    cluster: type[BaseModel],
    parts: Mapping[str, type[BaseModel]],
) -> list[Problem]:
    """Pydantic's errors as problems, one per path; then the semantic ones of whatever validated.

    `cluster` is the model of the whole; `parts` says which model a step of an error's location
    leads to.
    """
    seen: dict[str, list[str]] = {}
    founds: dict[str, str] = {}
    todos: dict[str, str] = {}
    errors = wording.likeliest(error.errors())
    # A name that is only misspelt is not missing as well.
    misspelt = {
        (*item["loc"][:-1], name)
        for item in errors
        if item["type"] == "extra_forbidden"
        for name in wording.close(
            str(item["loc"][-1]), _model_at(item["loc"], model, parts).model_fields
        )
    }
    for item in errors:
        if item["type"] == "missing" and item["loc"] in misspelt:
            continue
        path = wording.path_of(item["loc"])
        kind = item["type"]
        if kind == "extra_forbidden" and (written := wording.counted(item, data)):
            # `{H100: 8}`: nothing else that is said of this place helps.
            path = wording.path_of(item["loc"][:-1])
            seen[path], founds[path], todos[path] = (
                ['a GPU such as "H100:8"'],
                written[0],
                f"write {written[1]}",
            )
            continue
        if kind == "extra_forbidden" and len(item["loc"]) == 1 and issubclass(model, cluster):
            gone = retired.field(path, path, data.get("name"))
            if gone is not None:
                seen[path], founds[path], todos[path] = [gone.wanted], gone.found, gone.todo
                continue
        if kind == "missing":
            wanted, found = wording.missing(path), "nothing"
        elif kind == "extra_forbidden":
            wanted, found = (
                _property(str(item["loc"][-1]), _model_at(item["loc"], model, parts), cluster),
                repr(str(item["loc"][-1])),
            )
        else:
            wanted, found = wording.meant(path, item), wording.shown(item["input"])
        if path in todos:
            continue
        seen.setdefault(path, [])
        if wanted not in seen[path]:
            seen[path].append(wanted)
        founds.setdefault(path, found)
        if todo := wording.todo(path, item):
            todos[path] = todo
    inner = [
        path
        for path in seen
        if not any(other != path and other.startswith((f"{path}.", f"{path}[")) for other in seen)
    ]
    problems = [
        Problem(path, " or ".join(seen[path]), founds[path], todos.get(path, "")) for path in inner
    ]
    bad = {str(item["loc"][0]) for item in error.errors() if item["loc"]}
    rest = {key: value for key, value in data.items() if key not in bad}
    if issubclass(model, cluster) and bad and "kind" not in bad:
        # What hangs together with a faulty field is judged as if that field were right: one fault
        # is one problem.
        rest |= {
            key: value
            for key, value in _STAND_INS.items()
            if key in bad or (key in _NEEDED and key not in data)
        }
        try:
            model(**rest)
        except SpecError as more:
            problems.extend(
                problem
                for problem in more.problems
                if problem not in problems and _head(problem.path) not in bad
            )
    return problems


_STAND_INS: dict[str, Any] = {
    "name": "x",
    "gpu": "H100:1",
    "workload": {"command": "true", "port": 9, "train": {}},
    "ttl": "1h",
    "idle_after": "1h",
    "ports": (9,),
}
_NEEDED = ("name", "gpu")


def _head(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


_ELSEWHERE = {
    **dict.fromkeys(("accelerators", "accelerator"), "gpu"),
    **dict.fromkeys(("cloud", "clouds", "backends"), "providers"),
    **dict.fromkeys(("use_spot", "spot_policy"), "spot"),
    **dict.fromkeys(("timeout", "max_duration"), "ttl"),
    **dict.fromkeys(("any_of", "ordered"), "fallback"),
    **dict.fromkeys(("commands", "entrypoint"), "workload.command"),
    "num_nodes": "nodes",
    "disk_size": "disk_gib",
    "envs": "workload.env",
    "file_mounts": "workload.mounts",
}
"""What other tools call a field (SkyPilot's and dstack's task files, 2026-11)."""


def _property(word: str, model: type[BaseModel], cluster: type[BaseModel]) -> str:
    """What stands for an unknown property: near ones, or where it would be known."""
    whole = issubclass(model, cluster)
    if whole and word in _ELSEWHERE:
        return f"a known property (here it is {_ELSEWHERE[word]})"
    close = wording.near(word, list(model.model_fields))
    if not close and not whole and word in cluster.model_fields:
        return f"one of {', '.join(model.model_fields)} here ({word} is the whole cluster's)"
    if not close and whole and word in Workload.model_fields:
        return f"a known property (workload.{word} is one)"
    return f"a known property{close}"


def _model_at(
    location: tuple[Any, ...], model: type[BaseModel], parts: Mapping[str, type[BaseModel]]
) -> type[BaseModel]:
    return next(
        (
            parts[part]
            for part in reversed(location[:-1])
            if isinstance(part, str) and part in parts
        ),
        model,
    )
