"""The account's limits in vCPUs, as Service Quotas tells them. Owns reading them, and refusing an
order that is beyond one before it is sent.

A limit that is not told is unknown, and stops nothing.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from providers.adapters.aws import machines
from providers.adapters.aws.errors import Context, beyond_quota
from providers.errors import CloudError
from providers.model import foreign
from providers.model.ask import ON_DEMAND, SPOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.adapters.aws.client import Client
    from providers.model.machine import Order
    from providers.model.offer import Candidate

QUOTA_S = 600.0
"""How long a limit is believed: somebody may have asked for more."""


def read(client: Client, region: str, code: str) -> float | None:
    """A limit; None where it is not told. One call."""
    context = Context(f"aws {region}: reading quota {code}", region)
    try:
        answer = client.call(
            "get_service_quota",
            context,
            service="service-quotas",
            ServiceCode="ec2",
            QuotaCode=code,
        )
    except CloudError:
        return None
    return foreign.real((answer.get("Quota") or {}).get("Value"))


class Quotas:
    """One account's, over all regions, each read once in a while. Safe from several threads."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, float | None]] = {}

    def limit(self, region: str, code: str) -> float | None:
        """A limit; None where it is not told."""
        with self._lock:
            moment, known = self._known.get((region, code), (0.0, None))
            if moment and self._now() - moment < QUOTA_S:
                return known
        found = read(self._client, region, code)
        with self._lock:
            self._known[region, code] = (self._now(), found)
        return found

    def check(self, order: Order, context: Context) -> None:
        """Raises QuotaExceeded where each of the order's candidates alone is beyond its limit. What
        of it is in use is not counted: only EC2 knows that.
        """
        limits = [self._beyond(order, candidate) for candidate in order.candidates]
        if all(limit is not None for limit in limits):
            raise beyond_quota(max(limit for limit in limits if limit is not None), context)

    def _beyond(self, order: Order, candidate: Candidate) -> float | None:
        """The limit that a candidate is beyond; None where it is not, or that is not known."""
        kind = machines.TYPES.get(candidate.machine_type)
        if kind is None or candidate.capacity not in (ON_DEMAND, SPOT):
            return None
        limit = self.limit(
            candidate.region, machines.quota_code(candidate.machine_type, candidate.capacity)
        )
        beyond = limit is not None and kind.vcpus * len(order.node_names) > limit
        return limit if beyond else None
