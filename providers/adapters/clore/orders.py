"""Rows of `my_orders` read: which order it is, whether it is up, where it answers. Owns both
recorded shapes; pure, no I/O.

The API has no state word: it is derived from `mon_container` (2 is up), the port map, `expired` and
whether the row is there at all (recorded by three independent public clients, read 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from providers.adapters.clore import label
from providers.model import foreign
from providers.model.ask import ON_DEMAND, SPOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.adapters.clore.memory import Intent

SKEW_S = 120.0
"""How far the service's clock may lie behind ours."""

CONTAINER_UP = 2
SSH_PORT = 22


def whole(row: Mapping[str, object], key: str) -> int:
    """A whole number of a row, 0 where there is none."""
    return foreign.whole(row.get(key)) or 0


def order_id(row: Mapping[str, object]) -> int:
    """The order's id."""
    return whole(row, "id")


def made(row: Mapping[str, object]) -> float | None:
    """When it was ordered, in seconds since 1970."""
    return foreign.real(row.get("ct"), foreign.SECONDS)


def host(row: Mapping[str, object]) -> str:
    """The first public host; empty while there is none. A list, or one name."""
    found = row.get("pub_cluster")
    if isinstance(found, (list, tuple)):
        found = next((name for name in found if isinstance(name, str) and name), "")
    return found if isinstance(found, str) else ""


def ports(row: Mapping[str, object]) -> dict[int, int]:
    """Container port to public port. A list of `"22:1277"`, or a mapping; what cannot be read is
    left out.
    """
    found = row.get("tcp_ports")
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(found, Mapping):
        pairs = found.items()
    elif isinstance(found, (list, tuple)):
        pairs = (
            (inside, outside)
            for inside, _, outside in (str(entry).partition(":") for entry in found)
        )
    read = (
        (foreign.whole(inside, foreign.PORT), foreign.whole(outside, foreign.PORT))
        for inside, outside in pairs
    )
    return {
        inside: outside for inside, outside in read if inside is not None and outside is not None
    }


def is_up(row: Mapping[str, object]) -> bool:
    """True when the container runs and its ssh port is mapped: an order without a port is not
    ready, whatever else it says.
    """
    return (
        whole(row, "mon_container") == CONTAINER_UP
        and SSH_PORT in ports(row)
        and bool(host(row))
        and not has_ended(row)
    )


def has_ended(row: Mapping[str, object]) -> bool:
    """True when the row itself says so."""
    return row.get("expired") is True


def from_completed(row: Mapping[str, object]) -> Mapping[str, object]:
    """A row that only the list of completed orders had: it ended, unless it says that it did not
    (an order made since the first list).
    """
    return row if row.get("expired") is False else {**row, "expired": True}


def web_address(row: Mapping[str, object]) -> str:
    """Where its one HTTP port answers; empty without one."""
    name = row.get("http_pub")
    return f"https://{name}" if isinstance(name, str) and name else ""


def capacity(row: Mapping[str, object]) -> str:
    """How it was bought. Empty when the row does not say."""
    spot = row.get("spot")
    return "" if spot is None else SPOT if spot else ON_DEMAND


def is_order_of(row: Mapping[str, object], intent: Intent) -> bool:
    """True when the row is what the intent ordered: this server, made since, not there before, and
    with our label once it shows ports.

    After a refusal it has to show the label: another of the key's users may have been the faster
    one.
    """
    made_at = made(row)
    return (
        whole(row, "si") == intent.server
        and order_id(row) not in intent.before
        and (made_at is None or made_at >= intent.started_at - SKEW_S)
        and (
            not intent.refused
            or label.belongs(ports(row), intent.label.owner, intent.label.cluster)
        )
        and (
            not ports(row)
            or not label.is_label(ports(row))
            or label.belongs(ports(row), intent.label.owner, intent.label.cluster)
        )
    )
