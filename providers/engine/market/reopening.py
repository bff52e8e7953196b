"""When it is worth asking again, where nothing could be acquired. Pure but for the look at the
market.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine.market.planning import insistent
from providers.planner import blocklist

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.model.offer import Candidate
    from providers.model.place import Block
    from providers.planner.plan import Plan


RETRY_S, RETRY_MAX_S = 60.0, 600.0
"""After a failure that leaves the place open, such as an answer that was lost: twice as long each
time.
"""
LISTED_S = 300.0
"""How often a marketplace is listed while nothing acceptable is offered there."""


class Reopening(NamedTuple):
    """The place that may be asked next: at `at`, in seconds since the epoch on the world's clock.
    `places` are all that could serve.
    """

    at: float
    first: Candidate
    places: int


def reopening(plan: Plan, blocks: Iterable[Block], now: float) -> Reopening | None:
    """The first place of a plan to be asked again; at `now` where one was not refused recently.
    None for a plan without places. `plan` is one without these blocks.
    """
    standing = blocklist.by_provider(blocks, now)

    def opens(candidate: Candidate) -> float:
        found = blocklist.covering(
            standing.get(candidate.provider, ()),
            candidate.region,
            candidate.zone,
            candidate.machine_type,
            candidate.gpu_type,
            candidate.capacity,
        )
        return now if found is None else found.until

    if not plan.candidates:
        return None
    first = min(plan.candidates, key=opens)
    return Reopening(opens(first), first, len(plan.candidates))


def look(world: World, ask: Ask, setup: Setup) -> Reopening | None:
    """The same of the market as it is now, with what the journal remembers. None where no place
    could serve, whatever time it is. Blocking.
    """
    seen = insistent(world, ask, setup)
    plan = seen.plan(ask, setup=setup)
    return reopening(plan, world.journal.blocks(world.name), world.clock.now())


def next_try(
    found: Reopening | None, rounds: int, tried_at: float, now: float, *, listed: bool
) -> float:
    """When to ask again after this many failed rounds, the last of which ended at `tried_at`. The
    first time at once, unless everything is known to be sold out. `listed`: see `is_listed`.
    """
    if found is None:
        return tried_at + LISTED_S if rounds and listed else now
    if found.at > now or not rounds:
        return max(found.at, now)
    return tried_at + min(RETRY_S * 2.0 ** min(rounds - 1, 10), RETRY_MAX_S)


def is_listed(world: World, ask: Ask) -> bool:
    """Whether a marketplace is among the allowed: what is offered there changes by itself."""
    able = {name: each.capabilities for name, each in world.manifests.items()}
    return any(
        each.marketplace and ask.allows(name, marketplace=True) for name, each in able.items()
    )
