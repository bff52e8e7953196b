"""Filters, ids and pages of the describing calls. Owns which of many items a call asks for; a
filter that EC2 has not is refused.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.aws.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST = 1_000


def chosen(
    items: list[Json],
    given: Json,
    fields: Mapping[str, Callable[[Json], list[str]]],
    *,
    ids: tuple[str, Callable[[Json], str], str] | None = None,
) -> list[Json]:
    """The items that pass every filter. `fields` says what a filter compares; tags are known
    everywhere.

    `ids` is (parameter, an item's id, code of the error for one that does not exist).
    """
    if ids and given.get(ids[0]):
        parameter, key, code = ids
        known = {key(item) for item in items}
        missing = [name for name in given[parameter] if name not in known]
        if missing:
            raise Refusal(400, code, f"The ID '{', '.join(missing)}' does not exist")
        items = [item for item in items if key(item) in given[parameter]]
    for entry in given.get("Filters", ()):
        name, values = entry.get("Name", ""), entry.get("Values", [])
        if name.startswith("tag:"):
            items = [
                item
                for item in items
                if any(
                    _any([tag["Value"]], values)
                    for tag in item.get("Tags", ())
                    if tag["Key"] == name[4:]
                )
            ]
        elif name == "tag-key":
            items = [
                item for item in items if _any([tag["Key"] for tag in item.get("Tags", ())], values)
            ]
        elif name in fields:
            items = [item for item in items if _any(fields[name](item), values)]
        else:
            raise Refusal(400, "InvalidParameterValue", f"The filter '{name}' is invalid")
    return items


def _any(found: list[str], patterns: list[str]) -> bool:
    return any(fnmatchcase(text, pattern) for text in found for pattern in patterns)


def paged(answer: Json, given: Json, least: int = 5) -> Json:
    """One page of an answer with a single list: from `NextToken`, at most `MaxResults`."""
    ((key, items),) = answer.items()
    size: Any = given.get("MaxResults")
    if size is not None and not least <= size <= MOST:
        raise Refusal(
            400,
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value from {least}"
            f" to {MOST}.",
        )
    token = str(given.get("NextToken") or "0")
    if not token.isdigit() or int(token) > len(items):
        raise Refusal(400, "InvalidNextToken", "The token is not valid")
    start = int(token)
    page = items[start : start + (size or MOST)]
    end = start + len(page)
    return {key: page, **({"NextToken": str(end)} if end < len(items) else {})}
