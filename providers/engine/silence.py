"""Clouds that do not answer, wherever they are asked. Owns when a walk gives a provider up for its run; pure.

One region can be down by itself, so one region that does not answer is no reason to leave the others alone. Only what is settled counts: an order of
which it is not known what it made never comes here, it ends the walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import OutcomeUnknown, Transient, Unclassified

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.errors import CloudError

REGIONS_SILENT = 3
"""Attempts in a row, each in another region, that no answer came to, after which the provider is given up for the run. Where fewer regions could
serve, so many attempts in those."""
_NAMED = 4


class Silence:
    """What one walk has heard from each provider since it last answered."""

    def __init__(self) -> None:
        self._attempts: dict[str, list[tuple[str, ...]]] = {}

    def heard(self, provider: str, error: CloudError, regions: Collection[str], others: Collection[str]) -> str:
        """Takes note of how an attempt in these regions ended, nothing of it being left. Returns why to give the provider up now, else nothing.

        `others` are the provider's regions that are still to be tried. An answer of any kind begins the count anew, one in a code that no table knows
        too.
        """
        if not isinstance(error, (Transient, OutcomeUnknown)) or isinstance(error, Unclassified):
            self._attempts.pop(provider, None)
            return ""
        attempts = self._attempts.setdefault(provider, [])
        attempts.append(tuple(sorted(set(regions))))
        silent = {region for attempt in attempts for region in attempt}
        wanted = min(REGIONS_SILENT, len(silent | set(others)))
        if len(attempts) < REGIONS_SILENT or len(silent) < wanted:
            return ""
        named = sorted(silent)
        where = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
        return f"no answer to {len(attempts)} attempts ({where})"
