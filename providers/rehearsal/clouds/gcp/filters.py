"""The `filter` of list calls, as AIP-160 has it: `labels.stack=dev AND (zone:a OR NOT x=1)`. Owns
the parser; pure. Google's older syntax (`name eq gpu-.*`) is refused: the product sends none.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.gcp.wire import Json, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""\s*(?:(?P<paren>[()])|(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<op>!=|<=|>=|=|<|>|:)|(?P<word>[^\s()=!<>:"']+))"""
)


_LABEL = re.compile(r"""\(?labels\.[\w-]+="([\w-]+)"\)?""")


def compile_filter(text: str) -> Callable[[Json], bool]:
    """A test of one resource. Raises 400 for what Compute Engine would not understand."""
    if not text.strip():
        return lambda _: True
    tokens = _tokens(text)
    parser = _Parser(tokens, text)
    test = parser.either()
    if parser.position != len(tokens):
        raise _bad(text)
    return test


def label_values(text: str) -> list[str]:
    """In lower case, the label values that a machine must have for a filter that asks for all of
    several labels; none for any other filter.
    """
    parts = [_LABEL.fullmatch(part.strip()) for part in text.split(" AND ")]
    return [] if None in parts else [part[1].lower() for part in parts if part is not None]


def _bad(text: str) -> Refusal:
    return Refusal(
        400,
        "invalid",
        f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.",
    )


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text


def _tokens(text: str) -> list[tuple[str, str]]:
    out, position = [], 0
    stripped = text.rstrip()
    while position < len(stripped):
        hit = _TOKEN.match(stripped, position)
        if hit is None:
            raise _bad(text)
        kind = hit.lastgroup or ""
        out.append(("word", _bare(hit[kind])) if kind == "text" else (kind, hit[kind]))
        position = hit.end()
    return out


class _Parser:
    """AIP-160: OR binds tighter than AND; a sequence without an operator is AND."""

    def __init__(self, tokens: list[tuple[str, str]], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.position = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        if not token[0]:
            raise _bad(self.text)
        self.position += 1
        return token

    def either(self) -> Callable[[Json], bool]:
        tests = [self.alternatives()]
        while self.peek()[0] and self.peek() != ("paren", ")"):
            if self.peek() == ("word", "AND"):
                self.take()
            tests.append(self.alternatives())
        return lambda item: all(test(item) for test in tests)

    def alternatives(self) -> Callable[[Json], bool]:
        tests = [self.term()]
        while self.peek() == ("word", "OR"):
            self.take()
            tests.append(self.term())
        return lambda item: any(test(item) for test in tests)

    def term(self) -> Callable[[Json], bool]:
        kind, value = self.take()
        if (kind, value) == ("word", "NOT"):
            inner = self.term()
            return lambda item: not inner(item)
        if (kind, value) == ("paren", "("):
            inner = self.either()
            if self.take() != ("paren", ")"):
                raise _bad(self.text)
            return inner
        if kind != "word":
            raise _bad(self.text)
        negated = value.startswith("-")
        operator = self.take()
        wanted = self.take()
        if operator[0] != "op" or wanted[0] != "word":
            raise _bad(self.text)
        test = _compare(value.lstrip("-"), operator[1], wanted[1])
        return (lambda item: not test(item)) if negated else test


def _values(item: Any, path: str) -> list[Any]:
    """Every value at a path; lists are looked through. Label keys may hold dots only in quotes,
    which Compute Engine has none of.
    """
    found = [item]
    for part in path.split("."):
        inside = [
            inner for value in found for inner in (value if isinstance(value, list) else [value])
        ]
        found = [inner[part] for inner in inside if isinstance(inner, dict) and part in inner]
    return [inner for value in found for inner in (value if isinstance(value, list) else [value])]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare(path: str, operator: str, wanted: str) -> Callable[[Json], bool]:
    pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("*")), re.IGNORECASE)

    def equal(item: Json) -> bool:
        return any(pattern.fullmatch(_shown(value)) for value in _values(item, path))

    def has(item: Json) -> bool:
        found = _values(item, path)
        return (
            bool(found)
            if wanted == "*"
            else any(
                pattern.search(_shown(value)) or (isinstance(value, dict) and wanted in value)
                for value in found
            )
        )

    def ordered(item: Json) -> bool:
        for value in _values(item, path):
            pair: tuple[Any, Any] = (str(value), wanted)
            with suppress(TypeError, ValueError):
                pair = (float(value), float(wanted))
            left, right = pair
            if {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[
                operator
            ]:
                return True
        return False

    return {"=": equal, "!=": lambda item: not equal(item), ":": has}.get(operator, ordered)
