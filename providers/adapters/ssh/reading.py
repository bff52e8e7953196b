"""Reads that several clusters make of a machine at the same time, as one, and what it told just
now. Owns for whom an answer is: for all who ask before anything of this process's was written
there.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from providers.adapters.ssh.agent import Facts
    from providers.adapters.ssh.inventory import Machine

T = TypeVar("T")
_LOCK = threading.Lock()
_UNDER_WAY: dict[Machine, dict[str, Future[Any]]] = {}

JUST_NOW_S = 0.5
"""How long what a machine told of its leases serves whoever asks for them."""


class Told:
    """What machines told of their leases just now, to an adapter. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[Machine, int] = {}
        self._facts: dict[Machine, tuple[float, Facts]] = {}
        self._asked: dict[Machine, set[str]] = {}

    def began(self, machine: Machine, *, writes: bool) -> int:
        """A call that begins, for `ended`. One that writes ends what was told before."""
        with self._lock:
            if writes:
                self._writes[machine] = self._writes.get(machine, 0) + 1
                self._facts.pop(machine, None)
            return self._writes.get(machine, 0)

    def ended(self, machine: Machine, call: int, facts: Facts) -> None:
        """What a call was answered; nothing is kept of it where a later one has written."""
        with self._lock:
            if self._writes.get(machine, 0) == call:
                self._facts[machine] = (time.monotonic(), facts)
                self._asked[machine] = set()

    def now(self, machine: Machine, token: str = "") -> Facts | None:
        """What it told, None where that was not just now. Who asks for the same lease (`token`) a
        second time wants to know how it is by now.
        """
        with self._lock:
            at, facts = self._facts.get(machine, (0.0, None))
            asked = self._asked.setdefault(machine, set())
            if token in asked or time.monotonic() - at >= JUST_NOW_S:
                return None
            asked |= {token} - {""}
            return facts


def shared(machine: Machine, question: str, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises, also for whoever puts the same question meanwhile."""
    from concurrent.futures import Future

    with _LOCK:
        asked = _UNDER_WAY.setdefault(machine, {})
        answer: Future[T] | None = asked.get(question)
        if answer is None:
            mine: Future[T] = Future()
            asked[question] = mine
    if answer is not None:
        return answer.result()
    try:
        mine.set_result(ask())
    except BaseException as error:
        mine.set_exception(error)
        raise
    finally:
        with _LOCK:
            if asked.get(question) is mine:
                del asked[question]
    return mine.result()


def written(machine: Machine) -> None:
    """Something was written there: whoever asks from now on is not answered by an earlier look."""
    with _LOCK:
        _UNDER_WAY.pop(machine, None)
