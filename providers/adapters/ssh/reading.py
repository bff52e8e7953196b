"""Reads that several clusters make of a machine at the same time, as one. Owns for whom an answer
is: for all who ask before anything of this process's was written there.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.adapters.ssh.inventory import Machine

T = TypeVar("T")
_LOCK = threading.Lock()
_UNDER_WAY: dict[Machine, dict[str, Future[Any]]] = {}


def shared(machine: Machine, question: str, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises, also for whoever puts the same question meanwhile."""
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
