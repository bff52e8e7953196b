"""Partial answers: the `fields` parameter, as in `items/*/instances(name,status),nextPageToken`.
Owns its parser; pure.
"""

from __future__ import annotations

import re
from typing import Any

from providers.rehearsal.clouds.gcp.wire import Json, Refusal

_TOKEN = re.compile(r"[\w*.\-]+|[/(),]")

Tree = dict[str, "Tree"]
"""What to keep: an empty tree keeps all below."""


def parse(text: str) -> Tree:
    """The selection. Raises 400."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text.replace(" ", ""):
        raise _bad(text)
    tree, rest = _list(tokens, text)
    if rest:
        raise _bad(text)
    return tree


def _bad(text: str) -> Refusal:
    return Refusal(400, "invalidParameter", f"Invalid field selection {text}")


def _list(tokens: list[str], text: str) -> tuple[Tree, list[str]]:
    out: Tree = {}
    while True:
        if not tokens or tokens[0] in "/(),":
            raise _bad(text)
        name, *tokens = tokens
        branch = out.setdefault(name, {})
        while tokens[:1] == ["/"]:
            if not tokens[1:] or tokens[1] in "/(),":
                raise _bad(text)
            branch, tokens = branch.setdefault(tokens[1], {}), tokens[2:]
        if tokens[:1] == ["("]:
            inner, tokens = _list(tokens[1:], text)
            if tokens[:1] != [")"]:
                raise _bad(text)
            branch.update(inner)
            tokens = tokens[1:]
        if tokens[:1] != [","]:
            return out, tokens
        tokens = tokens[1:]


def select(schemas: Json, schema: str, value: Json, tree: Tree) -> Json:
    """The part of an answer that the selection keeps. Raises 400 for a field that the schema has
    not.
    """
    out: Json = _select(schemas, {"$ref": schema}, value, tree)
    return out


def _select(schemas: Json, schema: Json, value: Any, tree: Tree) -> Any:
    if "$ref" in schema:
        schema = schemas[schema["$ref"]]
    if not tree:
        return value
    if schema.get("type") == "array":
        return [_select(schemas, schema["items"], item, tree) for item in value or []]
    known, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name in tree:
        if name != "*" and name not in known and rest is None:
            raise _bad(name)
    out: Json = {}
    for key, item in (value or {}).items():
        branch = tree.get(key, tree.get("*"))
        if branch is not None:
            out[key] = _select(schemas, known.get(key) or rest or {}, item, branch)
    return out
