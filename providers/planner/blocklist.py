"""The blocklist: which places are to be left alone now, and why. Owns expiry and lookup; pure (the
moment is an argument).

Blocks are made by the engine from refusals and kept in the journal; a plan only reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.model.place import Block


def standing(blocks: Iterable[Block], now: float) -> tuple[Block, ...]:
    """The blocks that have not expired at `now` (seconds since the epoch, on the world's clock)."""
    return tuple(block for block in blocks if block.until > now)


def by_provider(blocks: Iterable[Block], now: float) -> dict[str, list[Block]]:
    """The standing blocks of each provider; what is closed to the account first, then the one that
    lasts longest.
    """
    index: dict[str, list[Block]] = {}
    for block in sorted(
        standing(blocks, now),
        key=lambda block: (not block.closed, -block.until, block.scope, block.reason),
    ):
        index.setdefault(block.scope.provider, []).append(block)
    return index


def covering(
    blocks: Iterable[Block], region: str, zone: str, machine_type: str, gpu_type: str, capacity: str
) -> Block | None:
    """The first of one provider's blocks that holds for this place. Takes columns, since a plan
    makes no record of a row that it refuses.
    """
    for block in blocks:
        scope = block.scope
        if (
            (not scope.region or scope.region == region)
            and (not scope.zone or scope.zone == zone)
            and (not scope.machine_type or scope.machine_type == machine_type)
            and (not scope.gpu_type or scope.gpu_type == gpu_type)
            and (not scope.capacity or scope.capacity == capacity)
        ):
            return block
    return None
