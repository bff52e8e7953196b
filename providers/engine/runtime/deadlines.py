"""How long a look or a deletion may take over everything that it asks. Owns the limits that its
calls inherit; pure but for the clock.

A look is side by side and bounded: what has not answered by then is not known, and stays as it was.
A deletion goes on while its cloud answers. Buying has bounds of its own.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from providers.model.stack import argument
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from contextlib import AbstractContextManager

    from providers.errors import CloudError

T = TypeVar("T")
"""What a call, or work that makes calls, answers with."""

LOOK_LIMIT_S = 15.0
"""Real seconds that a look has for all the clouds it asks."""
REHEARSED = 4.0
"""So many times as long in a rehearsal, whose clouds are slow only where this machine is busy."""
ANSWER_LIMIT_S = 30.0
"""Real seconds that one call has where an answer is needed: see `while_answering`."""
UNRESPONSIVE_LIMIT_S = 70.0
"""Real seconds that an account without any answer is waited for there, over all calls since its
last answer.
"""
ACCOUNT_LIMIT_S = 900.0
"""Real seconds that an account has there for everything: more than a deletion takes that its cloud
accepted, see `settle.GONE_LIMIT_S`.
"""
NO_ANSWER = "no-answer"
"""The engine's own code for a call that was given up."""


class _Deadline(NamedTuple):
    until: float = inf
    limit_s: float = inf


class _Unresponsive:
    """How long one account has been waited for since it last answered. What asks it shares this."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.waited_s = 0.0
        self._noted = -inf

    def note(self, seconds: float, *, answered: bool) -> None:
        """A call of so many seconds ended now. Of several at once the time counts once."""
        now = time.monotonic()
        self.waited_s = 0.0 if answered else self.waited_s + min(seconds, now - self._noted)
        self._noted = now

    @property
    def left_s(self) -> float:
        return max(0.0, self.limit_s - self.waited_s)


_NONE = _Deadline()
_DEADLINE: ContextVar[_Deadline] = ContextVar("deadline", default=_NONE)
_UNRESPONSIVE: ContextVar[_Unresponsive | None] = ContextVar("unresponsive", default=None)


@contextmanager
def at_most(limit_s: float) -> Iterator[None]:
    """Within it, tasks included, no cloud call and no pause between two lasts longer than what is
    left of `limit_s`. The earliest deadline holds.
    """
    token = _DEADLINE.set(min(_DEADLINE.get(), _Deadline(time.monotonic() + limit_s, limit_s)))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def looking(world: str) -> AbstractContextManager[None]:
    """`at_most` for a look in a world."""
    return at_most(LOOK_LIMIT_S * patience(world))


def patience(world: str) -> float:
    """How many times as long as in a live world is waited for what clouds of this world say."""
    return REHEARSED if world == REHEARSAL else 1.0


@contextmanager
def while_answering() -> Iterator[None]:
    """Within it, what must be known or confirmed of one account: it is waited for as long as it
    answers, within `ACCOUNT_LIMIT_S`. One call has `ANSWER_LIMIT_S`; an account that answers
    nothing is given up after `UNRESPONSIVE_LIMIT_S`.
    """
    token = _UNRESPONSIVE.set(_Unresponsive(UNRESPONSIVE_LIMIT_S))
    try:
        with at_most(ACCOUNT_LIMIT_S):
            yield
    finally:
        _UNRESPONSIVE.reset(token)


async def answering(work: Awaitable[T], *, where: object = True) -> T:
    """The result of work that is done within `while_answering`, `where` that is to hold."""
    with while_answering() if where else nullcontext():
        return await work


def waited(seconds: float, *, answered: bool) -> None:
    """Takes note of a call that ended, or was given up, after so many real seconds."""
    unresponsive = _UNRESPONSIVE.get()
    if unresponsive is not None:
        unresponsive.note(seconds, answered=answered)


def bounded() -> bool:
    """Whether a deadline holds here."""
    return _DEADLINE.get().until < inf


def left_s() -> float:
    """How long may still be waited here: until the deadline, or for an account that does not
    answer. Infinity without a limit.
    """
    unresponsive = _UNRESPONSIVE.get()
    left = max(0.0, _DEADLINE.get().until - time.monotonic())
    return left if unresponsive is None else min(left, unresponsive.left_s)


def limit_s(call_limit_s: float) -> tuple[float, float]:
    """(what one call may take now, the limit to name where it does not answer)."""
    left, unresponsive = left_s(), _UNRESPONSIVE.get()
    if unresponsive is not None:
        call_limit_s = min(call_limit_s, ANSWER_LIMIT_S)
        named_s = unresponsive.limit_s if left == unresponsive.left_s else _DEADLINE.get().limit_s
    else:
        named_s = _DEADLINE.get().limit_s
    return (left, named_s) if left < call_limit_s else (call_limit_s, call_limit_s)


def todo(error: CloudError) -> str:
    """What to do about a call that was given up; empty for another error."""
    if error.code != NO_ANSWER:
        return ""
    return f"; run it again: `gpus check {error.provider} {argument()}` says whether it answers"


async def together(*work: Awaitable[Any]) -> list[Any]:
    """The results, side by side, once all have ended; only then raises what the first that failed
    raised.
    """
    import asyncio

    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
