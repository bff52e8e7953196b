"""Pydantic's errors in plain words: where, what was wanted, what was found. Owns the phrases; knows
no model. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

FOUND_MAX = 80
"""Characters of a bad value that a message repeats."""
_UNION_TAGS = {"str", "int", "float", "bool", "Gpu", "Fallback"}


def path_of(location: tuple[Any, ...]) -> str:
    """Pydantic's location as the property path of a stack file; the names that pydantic gives to
    the arms of a choice are no part of it.
    """
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif str(part) not in _UNION_TAGS and re.fullmatch(
            r"[A-Za-z_/][A-Za-z0-9_.~/-]*", str(part)
        ):
            text += f".{part}" if text else str(part)
    return text


_SAMPLES = {
    "providers": "[gcp]",
    "regions": "[us-central1]",
    "ports": "[8000]",
    "capacity": "[spot, on-demand]",
    "overrides": "[{provider: gcp, ...}]",
}
_FIELDS = {
    "gpu": 'a GPU such as "H100:8"',
    "fallback": 'a list such as ["H200:8"]',
    "wait": 'a duration such as "20h", "15m" or "1h30m"',
    "ttl": 'a duration such as "20h", "15m" or "1h30m"',
    "idle_after": 'a duration such as "20h", "15m" or "1h30m"',
    "every": 'a duration such as "5m"',
    "checkpoint": "a mapping such as {path: /ckpt, to: gs://BUCKET/PATH}",
    "mounts": "buckets by the path they are mounted at, as in {/data: gs://BUCKET/PATH}",
    "volumes": "paths by the volume's name, as in {checkpoints: /mnt/checkpoints}",
    "mode": "ro or rw",
    "context": "a number of tokens from 1, such as 32768 or 32k",
    "sequence": "a number of tokens from 1, such as 2048 or 2k",
}
"""Where several types will do, what is meant in one phrase; by the field's name."""
_TYPES = {
    **dict.fromkeys(
        ("int_parsing", "int_type", "int_from_float", "int_parsing_size"), "a whole number"
    ),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "a number"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a mapping"
    ),
    "string_type": "a text",
    "bool_type": "true or false",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
"""Pydantic's error types in plain words."""


def meant(path: str, item: Any) -> str:
    """What an error of pydantic's wanted, as people say it."""
    name = path.rpartition(".")[2]
    field = name.partition("[")[0]
    if field == "ports" and name != field:
        return "a port from 1 to 65535"
    if name.startswith("fallback["):
        return 'a GPU such as "H200:8", or a mapping such as {gpu: "H200:8", spot: only}'
    if field in _FIELDS:
        return _FIELDS[field]
    if item["type"] == "tuple_type":
        return f"a list such as {_SAMPLES[field]}" if field in _SAMPLES else "a list"
    if item["type"] in _TYPES:
        return _number(field, item["type"]).format(
            **{
                key: f"{bound:g}"
                for key, bound in item.get("ctx", {}).items()
                if isinstance(bound, (int, float))
            }
        )
    return str(item["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")


def _number(field: str, kind: str) -> str:
    """A type in plain words; of a number also what it counts."""
    counted = field in _OF and "number" in _TYPES[kind]
    return f"{_TYPES[kind]} of {_OF[field]}" if counted else _TYPES[kind]


_OF = {
    "max_price_per_hour": "US dollars an hour",
    "price_usd_per_hour": "US dollars an hour",
    "disk_gib": "GiB",
    "min_memory_gib": "GiB",
}


def missing(path: str) -> str:
    """What is wanted where nothing stands."""
    return _FIELDS.get(path.rpartition(".")[2], "a value")


def counted(item: Any, data: Any) -> tuple[str, str] | None:
    """A mapping in `data` that says only types and counts, as in `{H100: 8}`, `{H100:8}` or `{8:
    H100}`; and how to write it.

    None for any other unknown property. Pure.
    """
    whole = data
    for part in item["loc"][:-1]:
        # Between the steps stand pydantic's names for the arms of a choice.
        if (isinstance(whole, Mapping) and part in whole) or (
            isinstance(whole, (list, tuple)) and isinstance(part, int)
        ):
            whole = whole[part]
    asks = any(part in {"gpu", "fallback"} for part in item["loc"][:-1])
    if not (asks and isinstance(whole, Mapping)):
        return None
    written = [_count(str(name), value) for name, value in whole.items()]
    if not all(written):
        return None
    return shown(dict(whole)), (
        written[0] if len(written) == 1 else f"a list: [{', '.join(written)}]"
    )


def _count(name: str, value: Any) -> str:
    """`"H100:8"` for a type and a count, in either order; empty for what is neither."""
    if value is None:
        return f'"{name}"' if re.fullmatch(r"[^:]*\d[^:]*:\d+", name) else ""
    gpu, count = (str(value), name) if name.isdigit() else (name, str(value))
    model = re.fullmatch(r"[^:]*[A-Za-z][^:]*\d[^:]*|[^:]*\d[^:]*[A-Za-z][^:]*", gpu)
    return f'"{gpu}:{count}"' if model and re.fullmatch(r"[1-9]\d{0,4}", count) else ""


def shown(value: Any) -> str:
    """A value as it stands in a stack file, as far as one line shows it."""

    def listed(inner: Any) -> Any:
        return [listed(part) for part in inner] if isinstance(inner, (list, tuple)) else inner

    if value is None:
        return "nothing"
    return (str(value).lower() if isinstance(value, bool) else repr(listed(value)))[:FOUND_MAX]


def likeliest(errors: list[Any]) -> list[Any]:
    """The errors, less those of the models that a choice was hardly meant as: a mapping in a list
    may be a Gpu or a Fallback.
    """
    tags = ("Gpu", "Fallback")
    strange: dict[tuple[Any, ...], dict[str, int]] = {}
    for item in errors:
        at = next((index for index, part in enumerate(item["loc"]) if part in tags), None)
        if at is not None:
            counts = strange.setdefault(item["loc"][:at], {})
            counts[item["loc"][at]] = counts.get(item["loc"][at], 0) + (
                item["type"] == "extra_forbidden"
            )
    meant = {place: min(counts, key=lambda tag: counts[tag]) for place, counts in strange.items()}
    return [
        item
        for item in errors
        if all(
            item["loc"][:index] not in meant or meant[item["loc"][:index]] == part
            for index, part in enumerate(item["loc"])
            if part in tags
        )
    ]


def close(word: str, known: Iterable[str]) -> list[str]:
    """Up to two known words that an unknown one may have meant."""
    import difflib

    return difflib.get_close_matches(word, list(known), n=2, cutoff=0.6)


def near(word: str, known: Iterable[str]) -> str:
    """The same, ready to be appended; empty for none."""
    found = close(word, known)
    return f" (near: {', '.join(found)})" if found else ""
