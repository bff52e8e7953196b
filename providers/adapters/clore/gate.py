"""The pace of calls. Owns one gate per key that all processes of this user share; writes one small
file under the home. Where that cannot be written, each process keeps the pace by itself: what ends
an order must not wait for a disk.

One call a second over all endpoints, one order in five seconds (docs.clore.ai for-hosts/api, read
2026-11-27). A turn is taken under a file lock and waited for outside it, so a waiting process never
holds up the others.
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
REHEARSAL_PACE = Pace(0.05, 0.25)
"""A twentieth of the real limits, so that a rehearsal does not drag."""


class Gate:
    """Turns for one key. `clock` and `sleep` are in real seconds; `path` is the file that the
    processes share.
    """

    def __init__(
        self, path: Path, pace: Pace, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self.path = path
        self.pace = pace
        self.clock = clock
        self.sleep = sleep
        self._alone = b""
        """The turns of this process, where the file cannot be used."""

    def turn(self, *, order: bool = False) -> None:
        """Waits until the next call may be made."""
        try:
            wait = self._shared(order=order)
        except OSError:
            wait, self._alone = self._taken(self._alone, order=order)
        if wait > 0:
            self.sleep(wait)

    def _shared(self, *, order: bool) -> float:
        """Takes a turn under the file's lock; how long to wait for it, in seconds. Raises OSError
        where the file cannot be used.
        """
        import fcntl
        import os

        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            wait, content = self._taken(os.read(handle, 100), order=order)
            os.lseek(handle, 0, os.SEEK_SET)
            os.truncate(handle, 0)
            os.write(handle, content)
        finally:
            os.close(handle)
        return wait

    def _taken(self, content: bytes, *, order: bool) -> tuple[float, bytes]:
        """Seconds until the next turn, and what says so to the one after."""
        now = self.clock()
        call_at, order_at = _turns(content)
        # A turn far ahead is a clock that was set back since, not a queue.
        horizon = now + 100 * self.pace.order_s
        at = max(
            now,
            call_at if call_at < horizon else now,
            order_at if order and order_at < horizon else now,
        )
        return (
            at - now,
            f"{at + self.pace.call_s!r} {at + self.pace.order_s if order else order_at!r}".encode(),
        )


def _turns(content: bytes) -> tuple[float, float]:
    """When the next call and the next order may be made; now for what cannot be read."""
    try:
        call_at, order_at = (float(word) for word in content.split())
    except ValueError:
        return 0.0, 0.0
    return call_at, order_at
