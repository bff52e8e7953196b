"""Money. Owns the conversion between dollars and whole micro-dollars; pure.

Prices are kept and compared as whole micro-dollars per hour, so that sums, caps and ties are exact.
Dollars appear where a person or a JSON reader looks.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from providers.model import foreign

HOURS_PER_MONTH = 730
"""The clouds' own convention for a month (365 x 24 / 12)."""

_AMOUNT = foreign.Bounds(-1e12, 1e12)


def micro_usd(dollars: str | float | Decimal) -> int:
    """Whole micro-dollars. Raises ValueError for what is no number,
    and for more than anybody pays.
    """
    value = foreign.number(dollars, _AMOUNT)
    if value is None:
        raise ValueError(f"{str(dollars)[:40]!r} is no amount of dollars")
    return int((value * 1_000_000).to_integral_value(rounding=ROUND_HALF_UP))


def usd(micro: int) -> float:
    """Dollars, for people and JSON."""
    return micro / 1_000_000


def dollars(micro: int) -> str:
    """`$1,234.50`, an amount that is paid; `per_hour` is a rate."""
    return f"${micro / 1_000_000:,.2f}"


def per_hour(micro: int | None) -> str:
    """`$88.49/h`, four decimals under a dollar; `no price` when unknown."""
    if micro is None:
        return "no price"
    return (
        f"${micro / 1_000_000:,.4f}/h" if abs(micro) < 1_000_000 else f"${micro / 1_000_000:,.2f}/h"
    )
