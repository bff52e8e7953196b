"""A provider that is asked too often: all clusters of a process keep one pace there."""

import asyncio

from providers.engine.runtime.pace import FIRST_S, MOST_S, Pace
from providers.engine.runtime.tasks import repeated
from providers.errors import RateLimited
from tests import virtual_time

MOST_A_SECOND, CALLERS = 5, 60


def test_all_that_ask_at_once_get_their_answer_where_a_cloud_takes_few_a_second(lab) -> None:
    """Sixty at once, of which five a second are taken: repeated each by itself, most would come
    back at the same moments and give up. Another provider is not slowed down.
    """
    lab.clock = lab.alpha.clock = lab.beta.clock = virtual_time.VirtualClock()
    world = lab.world()
    taken: list[float] = []
    refused: list[float] = []

    def find(*_):
        now = lab.clock.now()
        if len([at for at in taken if now - at < 1.0]) >= MOST_A_SECOND:
            refused.append(now)
            raise RateLimited("too many requests", provider="alpha")
        taken.append(now)
        return []

    async def everyone():
        began = lab.clock.now()
        await asyncio.gather(*(repeated(world, "alpha", find) for _ in range(CALLERS)))
        took = lab.clock.now() - began
        await world.call("beta", lab.beta.find, "own")
        assert lab.clock.now() - began == took
        return took

    took = virtual_time.run(lab.clock, world, everyone())
    assert len(taken) == CALLERS
    assert took < 4 * CALLERS / MOST_A_SECOND
    assert len(refused) < 3 * CALLERS


def test_pace_grows_with_refusals_and_ends_with_answers() -> None:
    """Refusals of calls that were under way at once are one; the time between two is bounded."""
    pace = Pace()
    assert [pace.turn(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    for _ in range(16):
        pace.refused(0.5)
    assert pace.gap_s == FIRST_S
    assert [round(pace.turn(1.0), 6) for _ in range(3)] == [0.0, FIRST_S, 2 * FIRST_S]
    for seconds in range(2, 200, 6):
        pace.refused(float(seconds))
    assert pace.gap_s == MOST_S
    for _ in range(30):
        pace.answered()
    assert (pace.gap_s, pace.turn(300.0), pace.turn(300.0)) == (0.0, 0.0, 0.0)
