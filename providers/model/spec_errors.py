"""Pydantic's errors as problems in a user's words, one for each path. Read when there are any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError
from providers.model import mistaken, retired, wording
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
        for name in _meant(
            str(item["loc"][-1]), _model_at(item["loc"], model, parts), data, cluster
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
        wanted, found, todo = _told(item, path, data, model, parts, cluster)
        if path in todos:
            continue
        seen.setdefault(path, [])
        if wanted not in seen[path]:
            seen[path].append(wanted)
        founds.setdefault(path, found)
        if todo:
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


def _told(
    item: Any,
    path: str,
    data: Mapping[str, Any],
    model: type[BaseModel],
    parts: Mapping[str, type[BaseModel]],
    cluster: type[BaseModel],
) -> tuple[str, str, str]:
    """What one of pydantic's errors wanted, what it found, and what to do (empty: not known)."""
    if item["type"] == "missing":
        return wording.missing(path), "nothing", ""
    if item["type"] == "extra_forbidden":
        return _unknown(item, data, _model_at(item["loc"], model, parts), cluster)
    wanted, found = wording.meant(path, item), item["input"]
    todo = retired.rank(found) if path == "rank" else mistaken.value(path, found)
    if "env" in path.split(".") and isinstance(found, (str, list, tuple, dict)):
        # What variables hold is not for messages.
        kind = {str: "a text", dict: "a mapping"}.get(type(found), "a list")
        return wanted, kind, todo
    return wanted, wording.shown(found), todo


def _meant(
    word: str, model: type[BaseModel], data: Mapping[str, Any], cluster: type[BaseModel]
) -> list[str]:
    """The properties that an unknown one may stand for."""
    inside = "" if issubclass(model, cluster) else model.__name__
    renamed = mistaken.field(word, "", data, inside)
    return [*wording.close(word, model.model_fields), *([renamed.here] if renamed else [])]


def _unknown(
    item: Any, data: Mapping[str, Any], model: type[BaseModel], cluster: type[BaseModel]
) -> tuple[str, str, str]:
    """The same of a property that there is not: near ones, or where it would be known."""
    word, value = str(item["loc"][-1]), item["input"]
    whole = issubclass(model, cluster)
    found = repr(word)
    is_program = isinstance(value, str) and " " in value.strip()
    if whole and not (word == "run" and is_program):
        gone = retired.field(word, word, data.get("name"))
        if gone is not None:
            return gone.wanted, gone.found, gone.todo
    renamed = mistaken.field(word, value, data, "" if whole else model.__name__)
    if renamed is not None:
        here = f" (here it is {renamed.here})" if renamed.here else ""
        return f"a known property{here}", found, renamed.todo
    if whole and word in Workload.model_fields:
        todo = mistaken.moved(word, value, data)
        return f"a known property (workload.{word} is one)", found, todo
    if not whole and word in cluster.model_fields:
        own = "a known property" if model is Workload else f"one of {', '.join(model.model_fields)}"
        return f"{own} ({word} is the cluster's)", found, mistaken.outside(word, value)
    return f"a known property{wording.near(word, list(model.model_fields))}", found, ""


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
