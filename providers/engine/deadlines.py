"""How long a look may take over everything that it asks. Owns the deadline that the calls of a look inherit; pure but for the clock.

A look is side by side and bounded: what has not answered by then is not known, and stays as it was. Buying and deleting have bounds of their own.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from contextlib import AbstractContextManager

LOOK_LIMIT_S = 15.0
"""Real seconds that a look has for all the clouds it asks."""


class _Deadline(NamedTuple):
    until: float = inf
    limit_s: float = inf


_NONE = _Deadline()
_DEADLINE: ContextVar[_Deadline] = ContextVar("deadline", default=_NONE)


@contextmanager
def at_most(limit_s: float) -> Iterator[None]:
    """Within it, tasks included, no cloud call and no pause between two lasts longer than what is left of `limit_s`. The earliest deadline holds."""
    token = _DEADLINE.set(min(_DEADLINE.get(), _Deadline(time.monotonic() + limit_s, limit_s)))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def looking() -> AbstractContextManager[None]:
    """`at_most` for a look."""
    return at_most(LOOK_LIMIT_S)


def bounded() -> bool:
    """Whether a deadline holds here."""
    return _DEADLINE.get().until < inf


def left_s() -> float:
    """What is left until the deadline; infinity without one."""
    return max(0.0, _DEADLINE.get().until - time.monotonic())


def limit_s(call_limit_s: float) -> tuple[float, float]:
    """(what one call may take now, the limit to name where it does not answer)."""
    left = left_s()
    return (left, _DEADLINE.get().limit_s) if left < call_limit_s else (call_limit_s, call_limit_s)


async def together(*work: Awaitable[Any]) -> list[Any]:
    """The results, side by side, once all have ended; only then raises what the first that failed raised."""
    import asyncio

    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
