"""The pace of calls. Owns one gate per key that all processes of this user share; writes one small file under the home.

One call a second over all endpoints, one order in five seconds (docs.clore.ai for-hosts/api, read 2026-11-27). A turn is taken under a file lock
and waited for outside it, so a waiting process never holds up the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Pace(NamedTuple):
    """Seconds between two calls, and between two orders."""

    call_s: float = 1.0
    order_s: float = 5.0


LIVE_PACE = Pace()


class Gate:
    """Turns for one key. `clock` and `sleep` are in real seconds; `path` is the file that the processes share."""

    def __init__(self, path: Path, pace: Pace, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self.path = path
        self.pace = pace
        self.clock = clock
        self.sleep = sleep

    def turn(self, *, order: bool = False) -> None:
        """Waits until the next call may be made."""
        import fcntl
        import os

        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            now = self.clock()
            call_at, order_at = _turns(os.read(handle, 100))
            # A turn far ahead is a clock that was set back since, not a queue.
            horizon = now + 100 * self.pace.order_s
            at = max(now, call_at if call_at < horizon else now, order_at if order and order_at < horizon else now)
            os.lseek(handle, 0, os.SEEK_SET)
            os.truncate(handle, 0)
            os.write(handle, f"{at + self.pace.call_s!r} {at + self.pace.order_s if order else order_at!r}".encode())
        finally:
            os.close(handle)
        if at > now:
            self.sleep(at - now)


def _turns(content: bytes) -> tuple[float, float]:
    """When the next call and the next order may be made; now for what cannot be read."""
    try:
        call_at, order_at = (float(word) for word in content.split())
    except ValueError:
        return 0.0, 0.0
    return call_at, order_at
