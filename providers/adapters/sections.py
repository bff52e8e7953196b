"""What the providers' sections of a spec (`options.NAME`) share: how unknown keys are refused, how
values are read, and what a machine does under an identity of its own. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import Problem
from providers.model.wording import near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FOUND_MAX = 80


def unknown(key: object, known: Iterable[str]) -> Problem:
    """The refusal of a key that no option has, with near ones."""
    known = tuple(known)
    return Problem(
        str(key),
        f"a known option{near(str(key), known)}",
        repr(str(key)),
        f"known: {', '.join(known)}",
    )


def values(
    section: Mapping[str, object], readers: Mapping[str, Callable[[object], object]]
) -> tuple[dict[str, object], list[Problem]]:
    """The section's values by its keys, and everything wrong with them. A reader raises ValueError
    with what it wants.
    """
    read: dict[str, object] = {}
    found: list[Problem] = []
    for key, value in section.items():
        reader = readers.get(key)
        if reader is None:
            found.append(unknown(key, readers))
            continue
        try:
            read[key] = reader(value)
        except ValueError as error:
            found.append(Problem(key, str(error), repr(value)[:FOUND_MAX]))
    return read, found


def nameless(option: str, who: str, needs: Iterable[tuple[str, str]]) -> list[Problem]:
    """One problem for each (what is done, the right that it takes) where the option does not name
    as whom.
    """
    return [Problem(option, f"the {who} {does} as", "none", right) for does, right in needs]
