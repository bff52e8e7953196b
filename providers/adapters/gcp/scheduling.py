"""How long a machine runs, what it is bought as, and what becomes of it at the end. Owns Google's
limits of run times and the reservation's key; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.adapters.gcp import machines
from providers.model.ask import FLEX_START, RESERVATION, SPOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adapters.gcp.options import Options
    from providers.model.machine import Order
    from providers.model.offer import Candidate
FLEX_START_MIN_S, FLEX_START_MAX_S = 600, 7 * 86_400
"""Google, "create an A3 Ultra/A4 VM", 2026-04-06: a Flex-start machine must name a run duration
from 10 minutes to 7 days.
"""
RUN_MIN_S, RUN_MAX_S = 30, 120 * 86_400
"""Google, "limit the run time of a VM": from 30 seconds to 120 days."""
QUEUE_MIN_S, QUEUE_MAX_S = 90, 7_200
"""requestValidForDuration: 0 (only if there now), or 90 seconds to 2 hours (same page)."""
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
"""The key that working code uses (dstack, Google's samples); the discovery text's shorter one is
older.
"""


def run_limit_s(order: Order) -> int | None:
    """The server-side run limit, in seconds; None for none. Flex-start must have one: the ttl, else
    its 7 days.
    """
    if order.candidates[0].capacity == FLEX_START:
        return order.setup.ttl_s or FLEX_START_MAX_S
    return order.setup.ttl_s


def scheduling(order: Order, options: Options, *, bound: bool = False) -> dict[str, Any]:
    """Scheduling of a GPU machine: never live-migrated, and guarded by a run limit that Google
    itself carries out.

    Termination (preemption, the end of the run limit or of the reservation that it is bound to)
    deletes the machine, or stops it where the spec says to keep it.
    """
    capacity = order.candidates[0].capacity
    out: dict[str, Any] = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": capacity not in (SPOT, FLEX_START),
        "provisioningModel": (
            "RESERVATION_BOUND"
            if bound
            else {SPOT: "SPOT", FLEX_START: "FLEX_START"}.get(capacity, "STANDARD")
        ),
    }
    action = "STOP" if order.setup.on_ttl == "keep" else "DELETE"
    limit_s = run_limit_s(order)
    if capacity == SPOT or bound or limit_s is not None:
        out["instanceTerminationAction"] = action
    if limit_s is not None:
        out["maxRunDuration"] = {"seconds": str(limit_s)}
    if (
        action == "STOP"
        and (bound or limit_s is not None)
        and has_local_ssd(order.candidates, options)
    ):
        # Google stops no machine with local SSD unless told what becomes of it, and keeps none at
        # the end of a run limit.
        out["onInstanceStopAction"] = {"discardLocalSsd": True}
    return out


def reservation_affinity(candidate: Candidate) -> dict[str, Any]:
    """Which reservations may be used: the named one; none for Spot and Flex-start; else any open
    one, as it is paid for already.
    """
    if candidate.capacity == RESERVATION:
        return {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [candidate.reservation],
        }
    return {
        "consumeReservationType": (
            "NO_RESERVATION" if candidate.capacity in (SPOT, FLEX_START) else "ANY_RESERVATION"
        )
    }


def has_local_ssd(candidates: Sequence[Candidate], options: Options) -> bool:
    """True when a machine of these has local SSD, bundled or asked for."""
    return bool(options.local_ssd_count) or any(
        machines.bundled_ssd(candidate.machine_type) for candidate in candidates
    )
