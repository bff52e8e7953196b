"""What a command shows on a terminal, and that as a picture (SVG)."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from typing import TYPE_CHECKING

from rich import terminal_theme
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COLUMNS = 100


def shown(words: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """What the command writes on a terminal of `COLUMNS` columns, with its colours."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        size = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": "50"}
        os.execvpe(words[0], words, {**env, **size})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    said = b""
    try:
        while part := os.read(terminal, 65_536):
            said += part
    except OSError:
        pass  # Linux says so that the other side has ended
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = said.decode().replace("\r\n", "\n")
    if code:
        sys.exit(f"`{' '.join(words)}` ended with {code}:\n{text}")
    return text


def picture(name: str, title: str, text: str) -> str:
    """The text and its colours as an SVG that fetches nothing; the same for the same text."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    lines = Text.from_ansi(text).split()
    if long := [line.plain for line in lines if line.cell_len > COLUMNS]:
        sys.exit(f"wanted lines of at most {COLUMNS} columns, found {long}")
    for line in lines:
        console.print(line)
    drawn = console.export_svg(title=title, theme=terminal_theme.MONOKAI, unique_id=name)
    own_fonts = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    family = "ui-monospace, Menlo, Consolas, monospace"
    return own_fonts.replace("Fira Code, monospace", family)
