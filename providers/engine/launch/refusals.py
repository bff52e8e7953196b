"""What a refusal says about the other places of a plan: which scopes it closes, and which places
the cloud itself would try first. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import (
    BadCredentials,
    InsufficientFunds,
    NotConfigured,
    OutcomeUnknown,
    PriceRose,
    RateLimited,
    Transient,
    Unclassified,
)
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from providers.errors import CloudError
    from providers.model.offer import Candidate

PROVIDER_WIDE = (NotConfigured, BadCredentials, InsufficientFunds)
"""Refusals that concern the account, not a place; a declaration that allows only one provider ends
at them.
"""

REGIONS_SILENT = 3
"""Unanswered attempts in a row, each in another region, after which the provider is given up for
the run. If fewer regions could serve, that many attempts in those.
"""
_NAMED = 4


def of_account(error: CloudError) -> bool:
    """Whether a refusal concerns the account as a whole. One that names narrower scopes (a host
    that takes another coin) leaves the other places.
    """
    return isinstance(error, PROVIDER_WIDE) and (
        not error.scopes or Scope(error.provider) in error.scopes
    )


def refused(
    candidates: Sequence[Candidate], error: CloudError, *, wide: bool = False
) -> tuple[Scope, ...]:
    """The scopes that a refusal of these candidates closes: those it names, else as wide as its
    class says. `wide`: the whole provider.
    """
    provider = candidates[0].provider
    if error.scopes:
        return tuple(error.scopes)
    if wide or isinstance(error, (*PROVIDER_WIDE, RateLimited)):
        return (Scope(provider),)
    if isinstance(error, Transient):
        return tuple(dict.fromkeys(Scope(provider, candidate.region) for candidate in candidates))
    if isinstance(error, PriceRose):
        return ()
    # A reservation is one pool among several at its place: the place itself is not refused.
    return tuple(
        dict.fromkeys(
            Scope(provider, c.region, c.zone, c.machine_type, c.gpu_type, c.capacity)
            for c in candidates
            if not c.reservation
        )
    )


def ahead(
    pending: Sequence[Candidate], regions: Collection[str], zones: Collection[str]
) -> list[Candidate]:
    """The candidates in their order, in which the zones that the cloud named as having some go
    first among equals of these regions.
    """
    out = list(pending)
    places: dict[tuple[object, ...], list[int]] = {}
    for index, candidate in enumerate(out if zones else ()):
        if candidate.region in regions:
            key = (
                candidate.provider,
                candidate.region,
                candidate.entry,
                candidate.capacity,
                candidate.reservation,
                candidate.micro_usd,
            )
            places.setdefault(key, []).append(index)
    for indexes in places.values():
        ordered = sorted(
            (out[index] for index in indexes), key=lambda candidate: candidate.zone not in zones
        )
        for index, candidate in zip(indexes, ordered, strict=True):
            out[index] = candidate
    return out


class Unresponsive:
    """What one walk has heard from each provider since it last answered."""

    def __init__(self) -> None:
        self._attempts: dict[str, list[tuple[str, ...]]] = {}

    def heard(
        self, provider: str, error: CloudError, regions: Collection[str], others: Iterable[str]
    ) -> str:
        """Takes note of how an attempt in these regions ended, nothing of it being left. Returns
        why to give the provider up now, else nothing.

        `others` are the provider's regions that are still to be tried. Any answer restarts the
        count, even one with an unknown code.
        """
        if not isinstance(error, (Transient, OutcomeUnknown)) or isinstance(error, Unclassified):
            self._attempts.pop(provider, None)
            return ""
        attempts = self._attempts.setdefault(provider, [])
        attempts.append(tuple(sorted(set(regions))))
        silent = {region for attempt in attempts for region in attempt}
        if len(attempts) < REGIONS_SILENT:
            return ""
        if len(silent) < REGIONS_SILENT and any(region not in silent for region in others):
            return ""
        named = sorted(silent)
        where = ", ".join(named[:_NAMED]) + (
            f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        )
        return f"no answer to {len(attempts)} attempts ({where})"
