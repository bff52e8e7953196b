"""What happens to the replies: the faults of one point, placed on single calls of the stand-ins as
they arrive. Owns Wire and the patched clock.

The stand-ins ask the rehearsal's store for a fault once for each request they get; here the store's
answer is the point's. So the fault happens in the server, behind the real client and a real socket.
Time-outs are made short and the rehearsal's clock jumps instead of waiting, in this process alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.rehearsal.scenario import NODE_LOOK, Fault
from providers.rehearsal.store import Store
from tests.present import present

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPLIES: dict[str, tuple[str, dict[str, Any]]] = {
    "dropped": ("reply-lost", {}),
    "5xx-after": ("error-after", {}),
    "5xx-before": ("unavailable", {}),
    "late": ("delay", {}),
    "twice": ("twice", {}),
    "garbled": ("malformed", {}),
    "overtaken": ("overtaken", {}),
}
"""What can become of a reply -> the stand-ins' fault."""
LASTING = {"outage": "unavailable", "blackout": "reply-lost"}
"""What can become of this reply and of every later one until the command ends -> the stand-ins'
fault.
"""
GONE, STOP = "engine-gone", "stopped"
"""What can happen to the engine while the call is answered: killed, or told to stop (one Ctrl-C).
"""
KINDS = (*REPLIES, *LASTING, GONE, STOP)
TIMEOUT_S = 1.0
"""Real seconds that a client waits for a reply here."""
LATE_S = {"modal": 3.0}
"""Real seconds after which a late reply comes: past the time-out. Modal's client deploys an app
within one, in many calls, so it gets more.
"""


MODAL_S, IN_VAIN_S = 2.0, 0.3
"""The same for a call of Modal's client with its own tries: as a rule, and while nothing is
answered.
"""


class Hit(NamedTuple):
    """A fault on the `nth` call (from 0) of one name."""

    kind: str
    method: str
    nth: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.method}#{self.nth}"


def hit(text: str) -> Hit:
    """As `str` writes it. Raises ValueError."""
    kind, _, rest = text.partition("@")
    method, _, nth = rest.rpartition("#")
    if kind not in KINDS or not method:
        raise ValueError(f"wanted KIND@CALL#N with a kind of {', '.join(KINDS)}, found {text!r}")
    return Hit(kind, method, int(nth))


class Wire:
    """The calls of one cloud, and what is to become of some of them. `calls` are those seen since
    it was armed; `reached` the faults that happened.
    """

    def __init__(self, cloud: str) -> None:
        self.cloud = cloud
        self.calls: list[str] = []
        self.reached: list[Hit] = []
        self._lock = threading.Lock()
        self._hits: list[Hit] = []
        self._armed, self._lasting = False, ""
        self._counts: Counter[str] = Counter()
        self._engine: Callable[[str], None] = lambda kind: None

    def arm(self, hits: tuple[Hit, ...], engine: Callable[[str], None]) -> None:
        """From now on; `engine(kind)` is called, from any thread, when something is to happen to
        the engine.
        """
        with self._lock:
            self._hits, self._engine, self._armed, self._lasting = list(hits), engine, True, ""
            self.calls, self.reached, self._counts = [], [], Counter()

    def disarm(self) -> None:
        with self._lock:
            self._armed = False
        if self._lasting:
            _patience(MODAL_S)

    def take(self, provider: str, method: str) -> Fault | None:
        if provider != self.cloud or method == NODE_LOOK:
            return None
        with self._lock:
            if not self._armed:
                return None
            nth = self._counts[method]
            self._counts[method] += 1
            self.calls.append(method)
            mine = [found for found in self._hits if (found.method, found.nth) == (method, nth)]
            self.reached += mine
            lasted, self._lasting = (
                self._lasting,
                next(
                    (LASTING[found.kind] for found in mine if found.kind in LASTING), self._lasting
                ),
            )
            if self._lasting != lasted:
                _patience(IN_VAIN_S)
            fault = (
                Fault(0, provider, method, self._lasting, 1, "", "", {}) if self._lasting else None
            )
        for found in mine:
            if found.kind in REPLIES:
                kind, settings = REPLIES[found.kind]
                fault = Fault(
                    0,
                    provider,
                    method,
                    kind,
                    1,
                    "",
                    "",
                    {
                        **settings,
                        **(
                            {"seconds": LATE_S.get(provider, 1.4)}
                            if found.kind in ("late", "overtaken")
                            else {}
                        ),
                    },
                )
            elif found.kind in (GONE, STOP):
                self._engine(found.kind)
        return fault


def attach(wire: Wire) -> None:
    """Puts the wire, short time-outs and a jumping clock into this process: for a process that does
    nothing else.
    """
    import providers.adapters.aws.client as aws
    import providers.adapters.clore.client as clore
    import providers.adapters.gcp.client as gcp
    from providers.engine.runtime.clock import RehearsalClock

    def take(_store: Store, provider: str, method: str, *_places: Sequence[str]) -> Fault | None:
        return wire.take(provider, method)

    Store.take_fault = take  # type: ignore[method-assign,assignment]

    async def jump(self: Any, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(0)
        if seconds > 0:
            self._store.advance(seconds)

    RehearsalClock.sleep = jump  # type: ignore[method-assign]
    gcp.Client.__init__.__defaults__ = (None, TIMEOUT_S)
    aws.Client.__init__.__defaults__ = (None, TIMEOUT_S)
    present(clore.Client.call.__kwdefaults__)["timeout_s"] = TIMEOUT_S
    clore.MARKET_TIMEOUT_S = 10.0
    _patience(MODAL_S)


def _patience(seconds: float) -> None:
    """How long a call of Modal's client may take, its own tries included."""
    import providers.adapters.modal.client as modal
    from providers.adapters.modal import apps

    present(modal.Client.call.__kwdefaults__)["limit_s"] = seconds
    modal.CALL_S = modal.CREATE_S = seconds
    apps.CREATE_S = seconds  # type: ignore[attr-defined]  # its own name for the client's
