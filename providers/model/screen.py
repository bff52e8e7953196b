"""What reaches a terminal. Owns which characters of others' words do; the one place where they are
made harmless.

A machine's messages, a provider's, a host's listing and a user's own arguments can hold what a
terminal obeys: escape sequences that clear the screen, set its title or fill the clipboard, and
signs that turn the reading direction. `screened` shows such as their escapes. A program that the
user runs keeps its colours, its line's start and its steps back, and nothing else of that; piped,
all of it stays as it was sent.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from providers.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,40})?\Z")
_PLAIN = re.compile(r"[^\n\t]+")
_OWN = re.compile(r"[^\n\t\r\b]+")


def columns() -> int:
    """How wide the terminal is that this process belongs to, whatever its output goes to; 0 where
    there is none.
    """
    import os

    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given)
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return 0
    try:
        return os.get_terminal_size(terminal).columns
    except OSError:
        return 0
    finally:
        os.close(terminal)


_MOST, _LEAST, _INDENT = 96, 76, 4
"""The widest and the narrowest line of Pulumi's log, and what its display puts before each (tried
with CLI 3.276).
"""


def log_width() -> int:
    """Columns of a line of Pulumi's log: what its display leaves of the terminal it is shown on,
    which the plugin's process shares with it.
    """
    return min(max((columns() or _MOST + _INDENT) - _INDENT, _LEAST), _MOST)


def told(text: str, stream: TextIO, label: str = "") -> str:
    """The text for a person, each line behind `gpus: ` and the label; on a terminal broken at
    spaces, and nothing is cut. A pipe gets each line whole.
    """
    from textwrap import wrap

    most = columns() if stream.isatty() else 0
    lines = [f"gpus: {label}{line}" for line in text.splitlines() or [""]]
    if not most:
        return "\n".join(lines)
    return "\n".join(
        part
        for line in lines
        for part in wrap(
            line,
            max(most, _LEAST),
            subsequent_indent=" " * len("gpus: "),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def screened(text: str) -> str:
    """The text with every character that is not printable as its escape, but for line ends and
    tabs. Pure.
    """
    if text.isprintable():
        return text
    return _PLAIN.sub(lambda found: printable(found[0]), text)


class Colours:
    """A program's output as a terminal may show it, piece by piece: a sequence that the pieces cut
    in two is put together.
    """

    def __init__(self) -> None:
        self._begun = ""

    def add(self, text: str, *, final: bool = False) -> str:
        """What of it can be shown now."""
        text = self._begun + text
        cut = None if final else _BEGUN.search(text)
        self._begun = text[cut.start() :] if cut else ""
        text = text[: cut.start()] if cut else text
        shown, at = "", 0
        for colour in _COLOUR.finditer(text):
            shown += self._own(text[at : colour.start()]) + colour[0]
            at = colour.end()
        return shown + self._own(text[at:])

    @staticmethod
    def _own(text: str) -> str:
        return text if text.isprintable() else _OWN.sub(lambda found: printable(found[0]), text)


class Screen:
    """A stream on which everything is screened. `beneath` is the stream itself, for what a user's
    own program writes.
    """

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """As a stream's own."""
        self.beneath.write(screened(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def program(stream: Any) -> tuple[TextIO, Colours | None]:
    """Where a user's own program writes, and what its output goes through: nothing where no
    terminal reads it.
    """
    beneath: TextIO = getattr(stream, "beneath", stream)
    return beneath, Colours() if beneath.isatty() else None


@contextmanager
def on_screen() -> Iterator[None]:
    """Within it, this process's stdout and stderr are screened;
    one that was closed goes nowhere.
    """
    import os
    import sys

    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The next file that is opened would get the number, and another program's output with
            # it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None or sys.stderr is None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    previous = sys.stdout, sys.stderr
    screens: tuple[Any, Any] = (Screen(sys.stdout), Screen(sys.stderr))
    sys.stdout, sys.stderr = screens
    try:
        yield
    finally:
        # What somebody else has put there meanwhile stays.
        if sys.stdout is screens[0]:
            sys.stdout = previous[0]
        if sys.stderr is screens[1]:
            sys.stderr = previous[1]
