"""The two worlds: rehearsal clouds on this machine, and the live ones."""

from __future__ import annotations

REHEARSAL, LIVE = "rehearsal", "live"
WORLDS = (REHEARSAL, LIVE)
