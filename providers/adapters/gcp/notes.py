"""What a reader of the plan should know about a candidate at Google, given the spec. Owns the
wording; pure, imports no client.

Local SSD at a stop: Google, "Limit the run time of a VM" and "Local SSD data persistence", 2026:
data is kept neither at preemption nor at the end of a run limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.gcp import fabric, machines
from providers.adapters.gcp.options import read as read_options
from providers.model.ask import SPOT
from providers.model.note import Stops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.machine import Setup
    from providers.model.offer import Candidate


def notes(candidate: Candidate, setup: Setup) -> Sequence[str]:
    """One sentence each: which interfaces the machine gets, and when what is on its local SSD goes.
    No text names a place.
    """
    section = dict(setup.options).get("gcp")
    options = read_options(section if isinstance(section, dict) else {})
    out: list[str] = []
    wanted = machines.family(candidate.machine_type).nics
    if wanted is not None:
        if fabric.chosen(options.fabric, candidate.zone, candidate.machine_type):
            out.append(f"{wanted} on the networks named in options.gcp.fabric")
        else:
            out.append(
                f"one network interface, not its {wanted}: options.gcp.fabric names no networks for"
                " this zone"
            )
    if options.local_ssd_count or machines.bundled_ssd(candidate.machine_type):
        if setup.on_ttl == "keep":
            moment = "the ttl or at preemption" if candidate.capacity == SPOT else "the ttl"
            out.append(
                Stops(
                    f"Google stops it at {moment}, and what is on local SSD is discarded then; the"
                    " boot disk stays"
                )
            )
        elif candidate.capacity == SPOT:
            out.append("what is on local SSD goes with the machine at preemption")
    return out
