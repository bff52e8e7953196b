"""Several looks at once, none of which holds the others up for longer than a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def all_at_once(
    look: Callable[[str], T], names: Iterable[str], limit_s: float, what: str
) -> dict[str, T | Exception]:
    """What `look` came to for each name: its result, the exception that it raised, or TimeoutError
    where it had not ended after `limit_s`. Blocking. `what` names the threads.

    A thread that hangs is left behind: it ends no process and holds none up.
    """
    import threading
    import time

    found: dict[str, T | Exception] = {}

    def one(name: str) -> None:
        try:
            found[name] = look(name)
        except Exception as error:
            found[name] = error

    threads = {
        name: threading.Thread(target=one, args=(name,), name=f"gpus-{what}-{name}", daemon=True)
        for name in names
    }
    until = time.monotonic() + limit_s
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    late = TimeoutError(f"no answer within {limit_s:.0f}s")
    return {name: found.get(name, late) for name in threads}
