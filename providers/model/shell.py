"""Shell programs: each is a file NAME.sh beside the module that sends it, filled by variables at
its top.

A program says what it reads by lines `: "${NAME?}"`, with `:?` where it may not be empty, and
`declare -a NAME` for arrays. Owns how a value becomes a line `NAME=value`, and what is left out
when a program is sent, since user data is small: those lines and comments. Reads files of this
package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class _File(NamedTuple):
    """A program as it is sent: its first line and the rest. `reads` are the variables that it says
    it reads.
    """

    first: str
    rest: str
    reads: frozenset[str]


def program(module: str, name: str, /, *parts: str, **variables: str | int | Sequence[str]) -> str:
    """The program NAME.sh beside this module (its `__file__`), with these variables set at its top.

    `parts` are further files there, or beside this module: the functions of theirs that it calls.
    Raises TypeError where a
    variable that one of them reads is not given.
    """
    files = [text_of(module, each) for each in (*parts, name)]
    if missing := frozenset[str]().union(*(each.reads for each in files)) - variables.keys():
        raise TypeError(f"{name}.sh reads {', '.join(sorted(missing))}, which nobody sets")
    return "".join((files[-1].first, assignments(**variables), *(each.rest for each in files)))


def assignments(**variables: str | int | Sequence[str]) -> str:
    """A line `NAME=value` for each, quoted so that no shell expands it. A list becomes an array,
    which needs bash.
    """
    return "".join(f"{name}={_value(value)}\n" for name, value in variables.items())


def service(
    name: str, unit: str, path: str, content: str, *, mode: int = 0o755, at_once: bool = True
) -> str:
    """Lines for a machine's boot: put `content` at `path` and have systemd run it now and at every
    boot.

    `unit` is the unit's text; without `at_once` nobody waits for its start.
    """
    return program(
        __file__,
        "service",
        service=name,
        unit=unit.removesuffix("\n"),
        path=path,
        mode=f"{mode:o}",
        content=content.removesuffix("\n"),
        at_once="yes" if at_once else "",
    )


@cache
def text_of(module: str, name: str) -> _File:
    """The program `name` beside a module, else beside this one; read once a process."""
    import re
    from pathlib import Path

    path = Path(module).with_name(f"{name}.sh")
    if not path.exists():
        path = Path(__file__).with_name(path.name)
    first, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    reads = [re.findall(r"\$\{([a-z_]+):?\?}", line) for line in lines if line.startswith(': "${')]
    reads += [line.split()[2:] for line in lines if line.startswith("declare -a ")]
    sent = (
        line
        for line in lines
        if line.strip() and not line.lstrip().startswith(("# ", ': "${', "declare -a "))
    )
    return _File(first, "".join(sent), frozenset(name for names in reads for name in names))


def _value(value: str | int | Sequence[str]) -> str:
    from shlex import quote

    if isinstance(value, (str, int)):
        return quote(str(value)) if value != "" else ""
    return f"({' '.join(map(quote, value))})"
