"""Our label on an order. Owns the two port numbers that say whose an order is; pure, imports
nothing of the package.

Clore has no labels of its own and no request ids. What an order does get back, in `my_orders`, is
its port map: so two container ports that nobody listens on are asked for, and their numbers are the
label. The first is made from the owner. The second repeats a check of the first, so that ports
somebody happens to use are not taken for a label, and adds the cluster. That the service takes and
returns such ports is unverified live. The local memory (`memory.py`) is the full record, and the
label what another machine has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST, _SECOND, _SIZE = 16_384, 32_768, 16_384
"""Two ranges of 14 bits, so that which port is which shows by itself."""


def ports(owner: str, cluster: str) -> tuple[int, int]:
    """The two container ports of an owner's cluster."""
    first = _FIRST + _digest(f"owner {owner}") % _SIZE
    return first, _second(first, owner, cluster)


def is_label(found: Iterable[int]) -> bool:
    """True when the ports hold a label of this product, whoever its owner is. By chance: about one
    pair in 64.
    """
    return _pair(found) is not None


def belongs(found: Iterable[int], owner: str, cluster: str = "") -> bool:
    """True when the ports carry this owner's label, and this cluster's where one is named."""
    pair = _pair(found)
    if pair is None or pair[0] != ports(owner, "")[0]:
        return False
    return not cluster or pair == ports(owner, cluster)


def _second(first: int, owner: str, cluster: str) -> int:
    return (
        _SECOND
        + (_digest(f"check {first}") % 64) * 256
        + _digest(f"cluster {owner} {cluster}") % 256
    )


def _pair(found: Iterable[int]) -> tuple[int, int] | None:
    """The label among an order's ports; ports that the user asked for may stand beside it."""
    listed = set(found)
    for first in sorted(port for port in listed if _FIRST <= port < _FIRST + _SIZE):
        base = _SECOND + (_digest(f"check {first}") % 64) * 256
        for second in sorted(port for port in listed if base <= port < base + 256):
            return first, second
    return None


def _digest(text: str) -> int:
    import hashlib

    return int.from_bytes(hashlib.sha256(f"gpus {text}".encode()).digest()[:8], "big")
