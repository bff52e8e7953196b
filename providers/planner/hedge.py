"""Two providers at once: which places take part, and what the one that is cancelled may cost. Pure.

The order of an engine's walk is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model import duration
from providers.model.ask import FLEX_START
from providers.model.money import per_hour, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from providers.model.capability import Capabilities
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan

HEAD_START_S = 5
"""So long the first place has alone: most that have room answer within it, and then nothing is
bought twice. Once any place was refused, the other provider is asked at once.
"""
DEARER = 1.5
"""A place that costs more than so many times what is asked already is not asked beside it: it comes
in its turn. What is cancelled costs a minute at least, which is 1.7 % of its first hour: so that is
2.5 % of the kept one's at most. In 185 markets of `python -m tests.benchmarks acquire` it was 0.2 %
on average; what was kept cost 0.6 % more an hour than with one place after another. Without a limit
that was 0.8 % (up to 9 %) and 7 %, for a 95th percentile of 36 s in place of 42.
"""
CANCELLED_S = 660
"""The longest that a cancelled order costs money where its cloud deletes at all: ten minutes for
the deletion to take effect, and a minute to ask for it. EC2 and Google bill one minute at least.
"""
ALONE = "one place at a time"


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


def beside(asked: Candidate, other: Candidate) -> bool:
    """Whether another provider's place may be asked beside one that is asked already, by its
    price.
    """
    return (
        other.provider != asked.provider
        and (other.micro_usd or 0) <= (asked.micro_usd or 0) * DEARER
    )


def line(plan: Plan, together: Callable[[Candidate, Candidate], bool] | None = None) -> str:
    """Who is asked at once, and what that costs more at worst; or why nobody is. `together` says
    whether the stack could pay for both.
    """
    able = plan.terms.capabilities
    same: dict[tuple[str, int | None], Candidate] = {}
    for each in plan.candidates:
        if takes_part(each, able):
            same.setdefault((each.provider, each.micro_usd), each)
    parts = list(same.values())
    providers = list(dict.fromkeys(each.provider for each in parts))
    if len(providers) < 2:
        found = f"only {providers[0]} can" if providers else "no place can"
        return f"{ALONE}: {found} be asked beside another provider"
    pairs = [
        (asked, other)
        for number, other in enumerate(parts)
        for asked in parts[:number]
        if beside(asked, other)
    ]
    if not pairs:
        return f"{ALONE}: other providers cost more than {DEARER} times what {providers[0]} does"
    if together is not None:
        pairs = [pair for pair in pairs if together(*pair)]
    if not pairs:
        return f"{ALONE}: gpus:max_spend has no room for two, each as long as it may live"
    others = dict.fromkeys(other.provider for _, other in pairs)
    dearest = max(each.micro_usd or 0 for pair in pairs for each in pair)
    return (
        f"also tries {' or '.join(others)} if {pairs[0][0].provider} does not answer within"
        f" {HEAD_START_S} s; {at_worst(dearest)}"
    )


def at_worst(micro_usd: int) -> str:
    """What an order costs at most that is cancelled, at its price for all nodes."""
    cost = usd(micro_usd) * CANCELLED_S / 3_600
    return f"at worst ${cost:,.2f} more ({duration.text(CANCELLED_S)} at {per_hour(micro_usd)})"
