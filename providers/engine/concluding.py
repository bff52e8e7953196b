"""How the end of a placement reads, for whoever asks after its machines are gone: when, and by what. Pure.

Owns those words alone; they are written into the journal by whoever sees the end first. Imports no adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.messages import moment
from providers.engine.reconcile.condition import ENDS_SLACK_S

if TYPE_CHECKING:
    from providers.engine.record import Held

LIMIT = "its machines were ended by their own limit before it said how it ended"
"""Of a job, in place of an exit code."""


def why_ended(held: Held, detail: str, now: float, idle: str = "") -> str:
    """`at 2026-11-29 08:29 UTC by its ttl`, or what the cloud said, with the moment it was seen. `idle`: it was ended on purpose, for that."""
    if held.ends_at and now >= held.ends_at - ENDS_SLACK_S and not idle:
        return f"at {moment(min(held.ends_at, now))} by its ttl"
    return f"({idle or detail or 'by its own limit'}), seen at {moment(now)}"
