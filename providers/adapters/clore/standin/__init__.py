"""A rehearsal of Clore's marketplace: its REST API on loopback over the shared rehearsal store. Nothing here is a real host or price."""

from __future__ import annotations

from providers.adapters.clore.gate import Pace

KEY = "rehearsal"
"""The only key that the stand-in takes."""

PACE = Pace(0.05, 0.25)
"""A twentieth of the real limits, so that a rehearsal does not drag."""

LIMIT = Pace(0.005, 0.1)
"""What the stand-in refuses: looser than the pace, since on a busy machine two calls sent in their turns can arrive together."""

MADE_UP_ON = "2026-11-27"
SOURCE = f"rehearsal market, made up {MADE_UP_ON}"
