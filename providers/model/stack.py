"""The words of a stack's configuration that are not a cluster's. Owns them; pure, and imports next
to nothing: every preview reads it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from providers.errors import Problem
from providers.model.worlds import REHEARSAL, WORLDS

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = ("world", "clusters", "volumes", "max_spend", "detail")
"""What a stack's configuration may say under `gpus:`."""
RESERVED = frozenset(
    {
        "max_spend",
        "world",
        "owner",
        "cluster",
        "settings",
        "ownership",
        "managed_network",
        "network_links",
        "volumes",
        "opts",
        "name",
    }
)
"""What no cluster says of itself."""
DETAILS = ("short", "full")
"""How much a preview says of each cluster's plan."""
_MAX_SPEND_MOST = 1e9
_NAME: ContextVar[str] = ContextVar("stack", default="")


@contextmanager
def named(name: str) -> Iterator[None]:
    """Within it, commands in messages name this stack."""
    token = _NAME.set(name)
    try:
        yield
    finally:
        _NAME.reset(token)


def argument() -> str:
    """`-s dev`: how a command in a message names its stack; `-s STACK` where none is known."""
    return f"-s {_NAME.get() or 'STACK'}"


def max_spend_problem(path: str, value: object, *, as_text: bool) -> Problem | None:
    """What is wrong with `max_spend`; None for nothing, and where it is not set. A configuration
    also has numbers as texts (`as_text`).
    """
    if value is None:
        return None
    is_text = as_text and isinstance(value, str)
    if (is_text or isinstance(value, (int, float))) and not isinstance(value, bool):
        try:
            if 0 < float(str(value)) <= _MAX_SPEND_MOST:
                return None
        except (ValueError, OverflowError):
            pass
    from providers.model.mistaken import money

    amount = money(value, "m")
    return Problem(
        path,
        "US dollars a calendar month, more than 0",
        repr(value)[:80],
        f"write {path}: {amount}" if amount else "",
    )


def detail_problem(path: str, value: object) -> Problem | None:
    """What is wrong with `detail`; None for nothing, and where it is not set."""
    return (
        None if value in (None, *DETAILS) else Problem(path, " or ".join(DETAILS), repr(value)[:80])
    )


def world_problem(path: str, value: object) -> Problem | None:
    """What is wrong with a stack's world; None for nothing."""
    if value in WORLDS:
        return None
    todo = "a world is set, never inferred from credentials"
    if path == "gpus:world":
        todo = f"{todo}: pulumi config set gpus:world {REHEARSAL}"
    found = "nothing" if value is None else repr(value)
    return Problem(path, " or ".join(WORLDS), found, todo)
