"""A project's YAML files, read as Pulumi reads them. Owns which word is a number or a truth value,
and the limits of a file.

Pulumi reads with Go's yaml.v3, PyYAML by YAML 1.1: to it `no` is false, `20:00` is 1200 and `1e3` a
text. So PyYAML only parses here; what a plain word means follows yaml.v3's resolve.go (v3.0.1, read
2026-11-28; tests compare with Pulumi's own command line). What Pulumi would change beyond
recognition is refused: a date, an infinity, a tag. Imports PyYAML on first use.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.errors import Problem, SpecError
from providers.model import regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE_MAX = 1 << 20
DEPTH_MAX = 50
NODES_MAX = 100_000
"""Bytes of a file, levels of it, and its values once every alias stands for what it names."""

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = (
    (16, re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)")),
    (8, re.compile(r"([-+]?)0[oO]?([0-7]+)")),
    (2, re.compile(r"([-+]?)0[bB]([01]+)")),
)
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
_ENDLESS = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DIGITS_MAX = 400
_QUOTES = "put it in quotes"
_TEXT_TAG = "tag:yaml.org,2002:str"


class _Node(NamedTuple):
    """A value, and how many values it is once aliases are written out. `is_merge`: it is `<<`,
    which as a key adds other mappings.
    """

    value: Any
    size: int
    is_merge: bool = False


class _Open:
    """A list or a mapping whose end is not read yet. `key` waits for its value."""

    def __init__(self, event: Any, items: list[_Node] | dict[str, _Node]) -> None:
        self.event = event
        self.items = items
        self.key: str | None = None
        self.is_merging = False
        self.merges: list[_Node] = []


def mapping(path: Path) -> dict[str, Any]:
    """The mapping that a file holds. Reads one file; raises SpecError, with the line, for
    everything else.
    """
    try:
        text = regular.content(path, SIZE_MAX).decode()
    except OSError as error:
        raise SpecError([Problem(str(path), "a YAML file", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise SpecError(
            [Problem(str(path), "YAML in UTF-8", f"other bytes at {error.start}")]
        ) from None
    try:
        found = loads(text)
    except YamlError as wrong:
        raise SpecError(
            [Problem(str(path), wrong.wanted, f"{wrong.found} at line {wrong.line}", wrong.todo)]
        ) from None
    if not isinstance(found, dict):
        raise SpecError(
            [Problem(str(path), "a mapping", "nothing" if found is None else type(found).__name__)]
        )
    return found


class YamlError(ValueError):
    """What a file holds that it may not: what was wanted, what was found, what to do, its line."""

    def __init__(self, event: Any, wanted: str, found: str, todo: str = "") -> None:
        super().__init__(wanted, found, todo)
        mark = getattr(event, "start_mark", None)
        self.wanted, self.found, self.todo, self.line = (
            wanted,
            found,
            todo,
            mark.line + 1 if mark is not None else 1,
        )


def loads(text: str) -> Any:
    """What the first document of a text holds, in plain types. Raises ValueError. Its time and
    memory are bounded, whatever the text is.
    """
    import yaml  # PyYAML comes with pulumi and brings no types

    # libyaml is what yaml.v3's parser was translated from. Only events are taken: a composer calls
    # itself at each level.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), yaml)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = str(error.problem or error.context or "something else")
        wanted, found, todo = _parsed(said, text, mark)
        raise YamlError(mark and _At(mark), wanted, found, todo) from None
    except yaml.YAMLError as error:
        raise YamlError(
            None, "YAML", str(getattr(error, "reason", "") or "something else")
        ) from None


_FAULTS = (
    (
        "mapping values are not allowed",
        "fields of one cluster that begin in one column, and texts with `: ` in quotes",
        "a field further right, or a second `: `",
        "move the line under the field above it, or quote its text",
    ),
    (
        "did not find expected key",
        "fields of one cluster that begin in one column",
        "a line that begins in another one",
        "move it under the field above it",
    ),
    (
        "did not find expected '-' indicator",
        "the items of a list in one column",
        "a line that begins in another one",
        "move it under the item above it",
    ),
    (
        "cannot start any token",
        "a text that begins with @, `, % or the like in quotes",
        "one without",
        "put it in quotes",
    ),
    ("end of stream", "a quote at the end of the text too", "the end of the file", "close it"),
    (
        "could not find expected ':'",
        "NAME: VALUE on each line",
        "a line without a `: `",
        "write a space after the colon",
    ),
)
"""What libyaml says -> what was wanted, what was found, what to do."""


def _parsed(said: str, text: str, mark: Any) -> tuple[str, str, str]:
    """(wanted, found, what to do) of a text that is not YAML."""
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] and "cannot start any token" in said:
        return "spaces before a line", "a tab", "indent with spaces"
    for words, *rest in _FAULTS:
        if words in said:
            return (rest[0], rest[1], rest[2])
    return "YAML", said.removeprefix("found "), ""


class _At(NamedTuple):
    start_mark: Any


def _built(events: Iterator[Any], yaml: Any) -> Any:
    """The tree of the first document, without recursion."""
    anchors: dict[str, _Node | None] = {}
    stack: list[_Open] = []
    root: _Node | None = None
    total = 0
    for event in events:
        begun = event
        if isinstance(event, yaml.DocumentEndEvent):
            break
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(stack) >= DEPTH_MAX:
                raise YamlError(event, f"at most {DEPTH_MAX} levels", "more")
            _plain_tag(event)
            if event.anchor:
                anchors[event.anchor] = None
            stack.append(_Open(event, [] if isinstance(event, yaml.SequenceStartEvent) else {}))
            continue
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(_scalar(event), 1, is_merge=event.value == "<<")
            total += 1
        elif isinstance(event, yaml.AliasEvent):
            node = _aliased(event, anchors)
            total += node.size
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            node, begun = _ended(stack[-1]), stack.pop().event
            total += 1
        else:
            continue
        if total > NODES_MAX:
            raise YamlError(begun, f"at most {NODES_MAX:,} values, aliases written out", "more")
        if begun.anchor and not isinstance(event, yaml.AliasEvent):
            anchors[begun.anchor] = node
        if not stack:
            root = node
        else:
            _put(stack[-1], node, begun)
    return None if root is None else root.value


def _aliased(event: Any, anchors: dict[str, _Node | None]) -> _Node:
    if event.anchor not in anchors:
        raise YamlError(event, f"an anchor &{event.anchor} before its alias", "none")
    node = anchors[event.anchor]
    if node is None:
        raise YamlError(event, "a value", f"an alias *{event.anchor} inside what it names")
    return node


def _put(holder: _Open, node: _Node, event: Any) -> None:
    """Adds a value to the list or mapping around it; in a mapping every other one is a key."""
    if isinstance(holder.items, list):
        holder.items.append(node)
    elif holder.key is None and node.is_merge and not holder.is_merging:
        holder.is_merging = True
    elif holder.key is None and not holder.is_merging:
        holder.key = _key(node, event)
        if holder.key in holder.items:
            raise YamlError(
                event, f"each key once, {holder.key!r} too", "it again", "keep one of them"
            )
    elif holder.key is None:
        holder.is_merging = False
        parts = node.value if isinstance(node.value, list) else [node.value]
        if not all(isinstance(part, dict) for part in parts):
            raise YamlError(
                event, "a mapping, or a list of them, after <<", type(node.value).__name__
            )
        holder.merges.append(node)
    else:
        holder.items[holder.key] = node
        holder.key = None


def _ended(ended: _Open) -> _Node:
    if isinstance(ended.items, list):
        return _Node(
            [node.value for node in ended.items], 1 + sum(node.size for node in ended.items)
        )
    value = {key: node.value for key, node in ended.items.items()}
    for node in ended.merges:
        for part in node.value if isinstance(node.value, list) else [node.value]:
            for key, inner in part.items():
                value.setdefault(key, inner)
    return _Node(value, 1 + sum(node.size for node in (*ended.items.values(), *ended.merges)))


def _key(node: _Node, event: Any) -> str:
    """A mapping's key as Pulumi writes it: `8: x` and `"8": x` are the same."""
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, (bool, int)):
        return written(node.value)
    raise YamlError(
        event, "a text as a key", getattr(event, "value", "") or "another value", _QUOTES
    )


def _plain_tag(event: Any) -> None:
    if event.tag and event.tag != "!":
        raise YamlError(
            event, "values without tags", event.tag, "leave the tag out, and put texts in quotes"
        )


def _scalar(event: Any) -> Any:
    if event.tag == _TEXT_TAG or event.style:
        if event.tag not in (None, "!", _TEXT_TAG):
            _plain_tag(event)
        return event.value
    _plain_tag(event)
    return event.value if event.tag == "!" else resolved(event.value, event)


def resolved(word: str, event: Any = None) -> Any:
    """What a plain word is: nothing, true or false, a whole number, a number, or itself. Raises
    ValueError for what Pulumi would not keep. Pure.
    """
    if word in _WORDS:
        return _WORDS[word]
    if not word[0].isascii() or word[0] not in "0123456789+-.":
        return word
    if _ENDLESS.fullmatch(word):
        raise YamlError(event, "a number that Pulumi can keep", word, _QUOTES)
    if _DATE.fullmatch(word):
        raise YamlError(event, "a text, which a date is not to Pulumi", word, _QUOTES)
    plain = word if word[0] == "." else word.replace("_", "")
    if len(plain) > _DIGITS_MAX:
        return word
    for base, pattern in _BASES:
        if found := pattern.fullmatch(plain):
            return _bounded(int(found[1] + found[2], base), word, event)
    if _WHOLE.fullmatch(plain):
        return _bounded(int(plain), word, event)
    if not _FLOAT.fullmatch(plain):
        return word
    number = float(plain)
    if number in (float("inf"), float("-inf")):
        return word
    # Pulumi hands numbers on as JSON, where 1e3 is 1000.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _bounded(number: int, word: str, event: Any) -> int:
    if not -(2**63) <= number < 2**63:
        raise YamlError(event, "a whole number of at most 63 bits", word, _QUOTES)
    return number


def written(value: object) -> str:
    """A plain value as the text that Pulumi hands to a program: `true`, `1000`, `1.5`; nothing is
    an empty one. Pure.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, float) and not 1e-6 <= abs(value) < 1e21:
        mantissa, _, exponent = repr(value).partition("e")
        return f"{mantissa}e{'-' if exponent.startswith('-') else '+'}{exponent.lstrip('+-0')}"
    return str(value)
