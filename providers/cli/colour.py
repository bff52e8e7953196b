"""Colours of answers on a terminal. Owns which words have which; the text is the same without."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_LABELS = (
    ("bold", r"^>.*"),
    ("bold cyan", r"^[a-z][a-z_ ]{0,10}(?= {2,}\S)|^instead of|^if sold out"),
    ("bold yellow", r"^(?:warning|cheaper|suspect|left out|watch out)(?= )"),
)
_WORDS = (
    ("green", r"[-+]?\$\d[\d,.]*(?:/h|/month)?"),
    ("yellow", r"\bspot\b"),
    ("red", r"\b(?:preempted|degraded|failed|not taken)\b"),
)
"""(style, pattern) of what is coloured in a line; where two hold, the later one."""


def coloured(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether an answer has colours there: on a terminal that has some, unless NO_COLOR is set."""
    plain = environ.get("NO_COLOR") or environ.get("TERM", "") in {"", "dumb", "unknown"}
    return stream.isatty() and not plain


def show(text: str, *, head: int | None = None) -> None:
    """Prints an answer, in colours where they are seen. `head` is the number of the line that names
    the columns of a table; None: it is no table, and lines begin with labels.
    """
    if not coloured(sys.stdout, os.environ):
        print(text)
        return
    from providers.cli.output import cell, console

    screen = console()
    for number, line in enumerate(text.split("\n")):
        drawn = cell(line, "bold" if number == head else "")
        for style, pattern in (*(_LABELS if head is None else ()), *_WORDS):
            drawn.highlight_regex(pattern, style)
        screen.print(drawn, soft_wrap=True)
