"""Two providers at once: which places take part, and what the one that is cancelled may cost. Pure.

The order of an engine's walk is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model import duration
from providers.model.ask import FLEX_START
from providers.model.money import per_hour, usd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.capability import Capabilities
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan

HEAD_START_S = 5
"""So long the first place has alone: most that have room answer within it, and then nothing is
bought twice. Once any place was refused, the other provider is asked at once.
"""
CANCELLED_S = 660
"""The longest that a cancelled order costs money where its cloud deletes at all: ten minutes for
the deletion to take effect, and a minute to ask for it. EC2 and Google bill one minute at least.
"""


def takes_part(candidate: Candidate, able: Mapping[str, Capabilities]) -> bool:
    """Whether a place may be asked beside another one: not where it is paid in full, waited for in
    a queue, at a price that is not known, or a machine of the user's own.
    """
    provider = able.get(candidate.provider)
    return (
        candidate.offer.term is None
        and candidate.capacity != FLEX_START
        and candidate.micro_usd is not None
        and not (provider is not None and provider.owned)
    )


def line(plan: Plan) -> str:
    """Who is asked at once, and what that costs more at worst; or why nobody is."""
    able = plan.terms.capabilities
    parts = [each for each in plan.candidates if takes_part(each, able)]
    providers = list(dict.fromkeys(each.provider for each in parts))
    if len(providers) < 2:
        found = f"only {providers[0]} can" if providers else "no place can"
        return f"one place at a time: {found} be asked beside another provider"
    first, *others = providers
    dearest = max(each.micro_usd or 0 for each in parts)
    return (
        f"also tries {' or '.join(others)} if {first} does not answer within {HEAD_START_S} s;"
        f" {at_worst(dearest)}"
    )


def at_worst(micro_usd: int) -> str:
    """What an order costs at most that is cancelled, at its price for all nodes."""
    cost = usd(micro_usd) * CANCELLED_S / 3_600
    return f"at worst ${cost:,.2f} more ({duration.text(CANCELLED_S)} at {per_hour(micro_usd)})"
