"""A replacement that lost both: the previous machine is deleted, and no new one was acquired. Owns
the record and the words of that. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.record import ClusterRecord
from providers.errors import AllFailed, Busy, HalfMade, OutcomeUnknown
from providers.model.machine import GONE

if TYPE_CHECKING:
    from providers.engine.desired import ClusterSpec
    from providers.errors import GpusError

_UNCERTAIN = (OutcomeUnknown, HalfMade, Busy)
"""After these something of the new one may exist, or another process is at work on it."""


class Emptied(AllFailed):
    """Nothing runs any more, and nothing is billed. `held` is the record of that; the next update
    or creation tries again.
    """

    def __init__(self, held: ClusterRecord, message: str, error: GpusError) -> None:
        self.held = held
        super().__init__(message, held.attempts, getattr(error, "refusals", ()))


def emptied(
    before: ClusterRecord, wanted: ClusterSpec, generation: str, error: GpusError
) -> GpusError:
    """What to raise where a purchase failed after `before` was deleted: the error itself while it
    is not certain that nothing of it exists.
    """
    if isinstance(error, _UNCERTAIN) or not before.provider:
        return error
    what = f"the previous machine ({described(before)}) is deleted; nothing runs, nothing is billed"
    message = f"{wanted.cluster}: {what}; the next `up` tries again\n{error}"
    held = ClusterRecord(
        world=before.world,
        owner=wanted.owner,
        cluster=wanted.cluster,
        generation=generation,
        fingerprint=wanted.fingerprint,
        status=GONE,
        micro_usd=0,
        attempts=getattr(error, "attempts", ()),
        reasons=(message,),
        kind=wanted.ask.kind,
        detail=what,
    )
    return Emptied(held, message, error)


def described(held: ClusterRecord) -> str:
    """`gcp us-central1-a H100:8 spot`, of one machine or of all of them."""
    nodes = f"{held.nodes} x " if held.nodes > 1 else ""
    return (
        f"{held.provider} {held.zone or held.region} {nodes}{held.gpu_type}:{held.gpu_count}"
        f" {held.capacity}"
    )
