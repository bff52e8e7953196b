"""Property values on Pulumi's wire: `google.protobuf.Struct` to plain Python and back.

Owns the sentinels for secrets and unknowns (the protocol's constants, Pulumi SDK 3.272, 2026-11).
Must not import the engine or the planner. Secrets and unknowns are tracked by top-level property:
this provider's inputs are flat, and a property that holds a secret anywhere is treated as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from google.protobuf.struct_pb2 import Struct, Value

UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What the engine sends for a value that is only known once something else is made."""
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


class Unknown:
    """The one value that stands for what is not known yet."""

    def __repr__(self) -> str:
        return "not known yet"


UNKNOWN = Unknown()


class Properties(NamedTuple):
    """A resource's properties. `secret` and `unknown` name the top-level properties that hold such
    a value anywhere inside.
    """

    values: dict[str, Any]
    secret: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    def known(self) -> dict[str, Any]:
        """The properties without those that hold something unknown."""
        return {key: value for key, value in self.values.items() if key not in self.unknown}


def decode(struct: Struct) -> Properties:
    """The properties of a message: whole numbers as ints (the wire has floats only), nulls left
    out, secrets unwrapped and named.
    """
    values: dict[str, Any] = {}
    secret: set[str] = set()
    unknown: set[str] = set()
    for key, value in struct.fields.items():
        seen: set[str] = set()
        plain = _plain(value, seen)
        if plain is None:
            continue
        values[key] = plain
        if "secret" in seen:
            secret.add(key)
        if "unknown" in seen:
            unknown.add(key)
    return Properties(values, frozenset(secret), frozenset(unknown))


def encode(values: Mapping[str, Any], secret: Collection[str] = ()) -> Struct:
    """A message of plain values; `UNKNOWN` anywhere inside becomes the sentinel, the named
    properties become secrets.
    """
    from google.protobuf.struct_pb2 import Struct

    struct = Struct()
    struct.update(
        {
            key: _secret(_sent(value)) if key in secret else _sent(value)
            for key, value in values.items()
        }
    )
    return struct


def _secret(value: Any) -> dict[str, Any]:
    return {_SIGNATURE: _SECRET, "value": value}


def _sent(value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN_TEXT
    if isinstance(value, dict):
        return {str(key): _sent(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sent(item) for item in value]
    return value


def _plain(value: Value, seen: set[str]) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text: str = value.string_value
        if text == UNKNOWN_TEXT:
            seen.add("unknown")
            return UNKNOWN
        return text
    if kind == "number_value":
        number: float = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return bool(value.bool_value)
    if kind == "list_value":
        return [_plain(item, seen) for item in value.list_value.values]
    if kind == "struct_value":
        fields = value.struct_value.fields
        mark = fields[_SIGNATURE].string_value if _SIGNATURE in fields else ""
        if mark in (_SECRET, _OUTPUT):
            if mark == _SECRET or ("secret" in fields and fields["secret"].bool_value):
                seen.add("secret")
            if "value" not in fields:
                seen.add("unknown")
                return UNKNOWN
            return _plain(fields["value"], seen)
        return {key: _plain(item, seen) for key, item in fields.items()}
    return None
