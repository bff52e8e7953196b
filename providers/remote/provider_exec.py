"""The line to a machine that takes no ssh: a program of its provider's, started here, carries each
command. Owns how it is started. Pure.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError
from providers.remote.line import LocalCommand

if TYPE_CHECKING:
    from collections.abc import Mapping


class Own(NamedTuple):
    """The line by `program`, whose last word is the command. `login_line` is what a person would
    type for a shell of their own.

    `shell` gives this terminal one, `port` carries a port, whose two numbers are its last words;
    either is empty where that is not carried.
    """

    program: tuple[str, ...]
    provider: str
    login_line: str
    shell: tuple[str, ...] = ()
    port: tuple[str, ...] = ()
    folder: str = ""
    """What precedes the absolute paths of ours on that machine."""

    @property
    def shown(self) -> str:
        return self.login_line

    @property
    def stand_in(self) -> bool:
        return False

    def path(self, path: str) -> str:
        return f"{self.folder}{path}"

    def command(self, text: str) -> LocalCommand:
        return LocalCommand((*self.program, text), _environment())

    def login(self) -> LocalCommand:
        if self.shell:
            return LocalCommand(self.shell, _environment())
        raise GpusError(
            f"wanted a shell on a machine of {self.provider}, found that only commands are carried"
            f" there; use: {self.login_line}"
        )

    def tunnel(self, local: int, remote: int) -> LocalCommand | None:
        if self.port:
            return LocalCommand((*self.port, str(local), str(remote)), _environment())
        raise GpusError(
            f"wanted port {remote} of a machine of {self.provider} at 127.0.0.1:{local}, found that"
            f" it takes no ssh; run what uses the port there, or log in: {self.login_line}"
        )


def _environment() -> Mapping[str, str]:
    """This process's environment, in which the program finds this package wherever it was imported
    from.
    """
    root = str(Path(__file__).parents[2])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH", ""), root))),
    }
