"""How answers look on a terminal, and the exit codes of commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from providers.model.screen import told

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from rich.console import Console
    from rich.text import Text

OK, NOTHING, WRONG, INTERRUPTED, CUT = 0, 1, 2, 130, 141


_LEAST = (17, 11, 10)
"""Columns that a cell keeps on a narrow terminal, and on ones that are narrower still."""


def table(
    rows: Sequence[Sequence[str]], right: Container[int] = (), gives: Sequence[int] = ()
) -> Iterable[str]:
    """Rows as columns; those numbered in `right` flush right. Where they are too wide the gaps
    narrow, then the columns in `gives` give way: what is longer goes on in the next line. A name
    that no line of its column holds is cut, and stands whole below its row.
    """
    from itertools import zip_longest

    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    most = width()
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= most else " "
    for least, column in ((least, column) for least in _LEAST for column in gives):
        over = sum(widths) + len(gap) * (len(widths) - 1) - most
        widths[column] = max(min(least, widths[column]), widths[column] - max(over, 0))
    starts = [sum(widths[:column]) + len(gap) * column for column in range(len(widths))]
    for row in rows:
        cells = [_lines(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            texts = (
                f"{_cut(part, width):>{width}}"
                if column in right
                else f"{_cut(part, width):<{width}}"
                for column, (part, width) in enumerate(zip(parts, widths, strict=True))
            )
            yield gap.join(texts).rstrip()
        yield from (
            f"{'':{max(min(start, most - len(line)), 0)}}{line}"
            for start, lines, width in zip(starts, cells, widths, strict=True)
            for line in lines
            if len(line) > width
        )


def _lines(cell: str, width: int) -> list[str]:
    """The cell in lines, broken at spaces and between the names of a list."""
    import re
    from textwrap import wrap

    if len(cell) <= width:
        return [cell]
    listed = re.sub(r",(?=\S{3})", ", ", cell)
    return wrap(listed, width, break_on_hyphens=False, break_long_words=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def width() -> int:
    """Columns for an answer: what the terminal has, from 80 to 160; 96 where there is none."""
    import shutil

    return min(max(80, shutil.get_terminal_size((96, 24)).columns), 160)


def console() -> Console:
    """What rich draws on: the terminal itself, where colours are not shown as escapes. So whatever
    is drawn goes through `cell`.
    """
    from rich.console import Console

    from providers.model.screen import program

    return Console(file=program(sys.stdout)[0], width=width(), highlight=False)


def cell(text: str, style: str = "") -> Text:
    """A text for rich, harmless and no markup."""
    from rich.text import Text

    from providers.model.screen import screened

    return Text(screened(text), style=style)


def wrapped(head: str, text: str, further: str | None = None) -> list[str]:
    """The text behind its head, broken at spaces; further lines are indented as far as the head
    reaches, or as said.
    """
    import textwrap

    indent = " " * len(head) if further is None else further
    return textwrap.wrap(
        text,
        width(),
        initial_indent=head,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head.rstrip()]


def print_json(value: object) -> None:
    """Prints one line of JSON."""
    import json

    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def complain(text: str, code: int) -> int:
    """Prints a message to stderr, each line with the program's name; returns the exit code."""
    from contextlib import suppress

    with suppress(BrokenPipeError):
        print(told(text, sys.stderr), file=sys.stderr)
    return code
