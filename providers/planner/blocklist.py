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
    return at_place(of_machine(blocks, machine_type, gpu_type, capacity), region, zone)


def of_machine(
    blocks: Iterable[Block], machine_type: str, gpu_type: str, capacity: str
) -> list[Block]:
    """Those of one provider's blocks that hold for this machine somewhere, in their order."""
    return [
        block
        for block in blocks
        if (not block.scope.machine_type or block.scope.machine_type == machine_type)
        and (not block.scope.gpu_type or block.scope.gpu_type == gpu_type)
        and (not block.scope.capacity or block.scope.capacity == capacity)
    ]


def at_place(blocks: Iterable[Block], region: str, zone: str) -> Block | None:
    """The first of these blocks that holds at this place."""
    return next(
        (
            block
            for block in blocks
            if (not block.scope.region or block.scope.region == region)
            and (not block.scope.zone or block.scope.zone == zone)
        ),
        None,
    )
