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


class Reopening(NamedTuple):
    """The place that may be asked next: at `at`, in seconds since the epoch on the world's clock.
    `places` are all that could serve.
    """

    at: float
    first: Candidate
    places: int


def reopening(plan: Plan, blocks: Iterable[Block], now: float) -> Reopening | None:
    """The first place of a plan to be asked again; at `now` where one was not refused lately. None
    for a plan without places. `plan` is one without these blocks.
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
