"""A discovery document of Google's, as far as it is served: which calls exist and what they take
and give.

Owns matching a request to a method and checking queries, bodies and answers against the schemas.
Reads a committed extract (see `generate`) once. Imports nothing of the package but the wire's
shapes.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from providers.rehearsal.clouds.gcp.wire import Json, Refusal

_WHOLE = re.compile(r"-?\d+")


class Method(NamedTuple):
    """One call: `instances.insert`."""

    name: str
    verb: str
    pattern: re.Pattern[str]
    parameters: Json
    request: str
    response: str
    prefix: str = ""
    """What stands before its path, where it is another than its document's."""


class Document:
    """One committed extract. `prefix` is what stands before every path: `/compute/v1/`."""

    def __init__(self, file: Path, prefix: str) -> None:
        self.file = file
        self.prefix = prefix

    @cached_property
    def content(self) -> Json:
        """The extract itself; read once."""
        import json

        content: Json = json.loads(self.file.read_text(encoding="utf-8"))
        return content

    @cached_property
    def methods(self) -> tuple[Method, ...]:
        """Every call that is served."""
        found = []
        for name, row in self.content["methods"].items():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", row["path"])
            found.append(
                Method(
                    name,
                    row["verb"],
                    re.compile(pattern),
                    row["parameters"],
                    row["request"],
                    row["response"],
                    row.get("prefix", self.prefix),
                )
            )
        return tuple(found)

    def match(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """The method that serves this path (without query), and the path's parameters. Raises 404
        for an unknown route, 400 for a bad name.
        """
        from urllib.parse import unquote

        for method in self.methods:
            if method.verb != verb or not path.startswith(method.prefix):
                continue
            if hit := method.pattern.fullmatch(path[len(method.prefix) :]):
                values = {key: unquote(value) for key, value in hit.groupdict().items()}
                for key, value in values.items():
                    pattern = method.parameters.get(key, {}).get("pattern")
                    if pattern and not re.fullmatch(pattern, value):
                        why = (
                            f"Invalid value for field '{key}': '{value}'. Must be a match of"
                            f" regex '{pattern}'"
                        )
                        raise Refusal(400, "invalidParameter", why)
                return method, values
        raise Refusal(
            404, "notFound", f"The requested URL {path} was not found on this server for {verb}."
        )

    def query(self, method: Method, given: dict[str, list[str]]) -> Json:
        """The query, typed. Raises 400 for unknown parameters and wrong values."""
        out: Json = {}
        for key, values in given.items():
            schema = method.parameters.get(key) or self.content["parameters"].get(key)
            if schema is None or schema.get("location") != "query":
                raise Refusal(
                    400,
                    "badRequest",
                    f'Invalid JSON payload received. Unknown name "{key}": Cannot bind query'
                    " parameter. Field not found.",
                )
            typed = [_query_value(key, schema, value) for value in values]
            out[key] = typed if schema.get("repeated") else typed[-1]
        return out

    def body(self, schema: str, value: object) -> None:
        """Checks a request's body. Raises 400 naming the first field that is unknown, of the wrong
        type, or of no listed value.
        """
        self._check(self.content["schemas"][schema], value, "")

    def answer(self, schema: str, value: object) -> None:
        """Checks an answer before it leaves. Raises ValueError: a fault of the stand-in, never of
        the caller.
        """
        try:
            self._check(self.content["schemas"][schema], value, "")
        except Refusal as wrong:
            raise ValueError(f"the answer is no {schema}: {wrong}") from wrong

    def _check(self, schema: Json, value: Any, path: str) -> None:
        if "$ref" in schema:
            schema = self.content["schemas"][schema["$ref"]]
        kind = schema.get("type")
        if kind == "object":
            self._check_object(schema, value, path)
        elif kind == "array":
            if not isinstance(value, list):
                raise _wrong(path, "a list", value)
            for index, item in enumerate(value):
                self._check(schema["items"], item, f"{path}[{index}]")
        elif kind in _SCALARS:
            _SCALARS[kind](schema, value, path)

    def _check_object(self, schema: Json, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for key, item in value.items():
            inner = fields.get(key, rest)
            if inner is None:
                where = f" at '{path}'" if path else ""
                raise Refusal(
                    400,
                    "invalid",
                    f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find'
                    " field.",
                )
            if item is not None:
                self._check(inner, item, f"{path}.{key}" if path else key)


def _check_string(schema: Json, value: object, path: str) -> None:
    whole = schema.get("format") in {"int64", "uint64"}
    if not isinstance(value, str) and not (whole and _is_whole(value)):
        raise _wrong(path, "a string", value)
    if whole and not _WHOLE.fullmatch(str(value)):
        raise _wrong(path, schema["format"], value)
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(path, f"one of {', '.join(schema['enum'])}", value)


def _check_integer(schema: Json, value: object, path: str) -> None:
    if not _is_whole(value):
        raise _wrong(path, schema.get("format", "integer"), value)


def _check_number(_schema: Json, value: object, path: str) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong(path, "a number", value)


def _check_boolean(_schema: Json, value: object, path: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(path, "a boolean", value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_SCALARS = {
    "string": _check_string,
    "integer": _check_integer,
    "number": _check_number,
    "boolean": _check_boolean,
}
"""What checks a value, by its schema's type."""

COMPUTE = Document(Path(__file__).parent / "discovery.json", "/compute/v1/")


def _query_value(key: str, schema: Json, text: str) -> object:
    kind = schema["type"]
    if kind == "boolean":
        if text not in {"true", "false"}:
            raise Refusal(
                400, "invalidParameter", f"Invalid value at '{key}' (TYPE_BOOL), \"{text}\""
            )
        return text == "true"
    if kind == "integer":
        if not _WHOLE.fullmatch(text) or not _fits(schema, int(text)):
            raise Refusal(
                400,
                "invalidParameter",
                f"Invalid value at '{key}' ({schema.get('format', 'int32')}), \"{text}\"",
            )
        return int(text)
    if "enum" in schema and text not in schema["enum"]:
        raise Refusal(400, "invalidParameter", f"Invalid value at '{key}' (enum), \"{text}\"")
    if key == "requestId":
        import uuid

        try:
            given = uuid.UUID(text)
        except ValueError:
            given = uuid.UUID(int=0)
        if given.int == 0 or str(given) != text.lower():
            raise Refusal(
                400,
                "invalid",
                f"Invalid value for field 'requestId': '{text}'. Must be a valid UUID, not all"
                " zero.",
            )
    return text


def _fits(schema: Json, number: int) -> bool:
    low = (
        int(schema["minimum"])
        if "minimum" in schema
        else 0
        if str(schema.get("format", "")).startswith("uint")
        else -(2**63)
    )
    high = (
        int(schema["maximum"])
        if "maximum" in schema
        else 2**32 - 1
        if schema.get("format") == "uint32"
        else 2**63 - 1
    )
    return low <= number <= high


def _wrong(path: str, wanted: str, value: object) -> Refusal:
    import json

    return Refusal(
        400, "invalid", f"Invalid value at '{path}' (wanted {wanted}), {json.dumps(value)[:80]}"
    )
