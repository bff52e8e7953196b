"""A replacement that lost both: the previous machine is deleted, and no new one was acquired. Owns
the record and the words of that. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.record import ClusterRecord
from providers.errors import AllFailed, Busy, HalfMade, OutcomeUnknown
from providers.model.machine import GONE
from providers.model.placement import Price

if TYPE_CHECKING:
    from providers.engine.desired import ClusterSpec
    from providers.errors import GpusError

_UNCERTAIN = (OutcomeUnknown, HalfMade, Busy)
"""After these something of the new one may exist, or another process is at work on it."""


class Emptied(AllFailed):
    """Nothing runs any more, and nothing is billed. `record` is the record of that; the next update
    or creation tries again.
    """

    def __init__(self, record: ClusterRecord, message: str, error: GpusError) -> None:
        self.record = record
        super().__init__(message, record.attempts, getattr(error, "refusals", ()))


def emptied(
    before: ClusterRecord, spec: ClusterSpec, generation: str, error: GpusError
) -> GpusError:
    """What to raise where a purchase failed after `before` was deleted: the error itself while it
    is not certain that nothing of it exists.
    """
    if isinstance(error, _UNCERTAIN) or not before.provider:
        return error
    what = f"the previous machine ({described(before)}) is deleted; nothing runs, nothing is billed"
    message = f"{spec.cluster}: {what}; the next `up` tries again\n{error}"
    record = ClusterRecord(
        world=before.world,
        owner=spec.owner,
        cluster=spec.cluster,
        generation=generation,
        fingerprint=spec.fingerprint,
        status=GONE,
        price=Price(0),
        attempts=getattr(error, "attempts", ()),
        reasons=(message,),
        kind=spec.ask.kind,
        detail=what,
    )
    return Emptied(record, message, error)


def described(record: ClusterRecord) -> str:
    """`gcp us-central1-a H100:8 spot`, of one machine or of all of them."""
    place = record.placement
    return f"{place.provider} {place.where} {place.times}{place.gpu} {place.capacity}"
