"""What a declaration says of a block: its terms, and what is wrong with them. Pure.

Lengths and dates are EC2's, the only cloud that sells blocks here: whole days up to 14, whole weeks
up to 182 days (API reference, DescribeCapacityBlockOfferings, 2026), up to 8 weeks ahead (EC2 user
guide, Capacity Blocks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import Problem
from providers.model import duration
from providers.model.ask import BLOCK, BlockTerms, Choice
from providers.model.duration import seconds_of
from providers.model.money import micro_usd

if TYPE_CHECKING:
    from providers.model.spec_fields import ClusterFields

_DAY_S = 86_400
_DAYS, _WEEKS = 14, 26
_AHEAD_S = 8 * 7 * _DAY_S
_EXAMPLE = "{lasts: 1d, max_price: 900}"


def block_terms(cluster: ClusterFields) -> BlockTerms | None:
    """The terms of a declaration that was checked; None where it has none."""
    block = cluster.block
    if block is None:
        return None
    return BlockTerms(
        duration.seconds(block.lasts),
        duration.seconds(block.start_within),
        micro_usd(block.max_price),
    )


def block_problems(cluster: ClusterFields, choices: list[Choice]) -> list[Problem]:
    """A block is bought only where it is asked for, with a cap of its own."""
    asking = [entry for entry in choices if any(way.kind == BLOCK for way in entry.capacity)]
    if cluster.block is None:
        wanted = "the block's own terms, its price cap among them"
        return [Problem("block", wanted, "none", f"add block: {_EXAMPLE}")] if asking else []
    if not asking:
        todo = "add block to capacity, or leave the terms out"
        return [Problem("capacity", "block in it, whose terms are declared", "none", todo)]
    found: list[Problem] = []
    lasts = seconds_of(cluster.block.lasts, "block.lasts", found, _DAY_S)
    ahead = seconds_of(cluster.block.start_within, "block.start_within", found)
    if lasts is not None and lasts >= _DAY_S and not _sold(lasts):
        wanted = f"whole days up to {_DAYS}, or whole weeks up to {_WEEKS}"
        found.append(Problem("block.lasts", wanted, duration.text(lasts), "round it to one"))
    if ahead is not None and ahead > _AHEAD_S:
        wanted = "at most 56d, as far ahead as blocks are sold"
        found.append(Problem("block.start_within", wanted, duration.text(ahead)))
    if len({entry.nodes for entry in asking}) > 1:
        wanted = "as many nodes in each choice that may be a block"
        found.append(Problem("block", wanted, "several numbers", "declare two clusters"))
    return found


def _sold(lasts_s: int) -> bool:
    days, rest = divmod(lasts_s, _DAY_S)
    return not rest and (days <= _DAYS or (days % 7 == 0 and days <= _WEEKS * 7))
