"""The two worlds: rehearsal clouds on this machine, and the live ones.

Owns what the adapter of a cloud is given in a rehearsal: neither side imports the other, so that a
wrong table cannot be wrong on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

REHEARSAL: Final = "rehearsal"
LIVE: Final = "live"
WORLDS = (REHEARSAL, LIVE)
WorldName = Literal["rehearsal", "live"]


class RehearsedCloud(NamedTuple):
    """The rehearsal server of one provider, as its adapter is given it.

    `endpoint()` is its address, as the provider's client takes it; the server is started in this
    process at the first call. `now()` is the world's time, in seconds since the epoch.
    `untouched()` is True while nothing was ever ordered there: a search then needs no server.
    `market()` is what the cloud lists for sale while nothing happened in it; None: ask the server.
    """

    endpoint: Callable[[], str]
    now: Callable[[], float]
    untouched: Callable[[], bool]
    market: Callable[[], list[object] | None]
