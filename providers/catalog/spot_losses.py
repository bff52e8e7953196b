"""How often spot machines are taken back, where a source says so. Owns the reading of
`data/spot_losses.csv`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from providers.catalog.offers import lines
from providers.model.money import HOURS_PER_MONTH

AS_OF = "EC2's Spot Advisor, 2025-06-28"


class Losses(NamedTuple):
    """The part of such machines that was taken back within a month, from `least` to `most` (None:
    the source gives no upper end).
    """

    least: float
    most: float | None

    def within(self, hours: float) -> tuple[float, float | None]:
        """The same as a chance within so many hours, at an even rate."""
        part = hours / HOURS_PER_MONTH
        return 1 - (1 - self.least) ** part, (
            None if self.most is None else 1 - (1 - self.most) ** part
        )


@cache
def _known() -> dict[tuple[str, str, str], Losses]:
    return {
        (provider, region, machine): Losses(int(least) / 100, int(most) / 100 if most else None)
        for provider, region, machine, least, most in lines("spot_losses.csv")
    }


def losses(provider: str, region: str, machine_type: str) -> Losses | None:
    """What is known of a machine type at a region; None where no source says."""
    return _known().get((provider, region, machine_type))
