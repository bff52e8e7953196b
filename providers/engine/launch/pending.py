"""Orders that a run which was cut short left pending: goes on with each, to its end. Buys nothing.

Owns that two orders which were asked at once go on at once: neither waits until the other is known,
the first that has machines is kept, and the other one is looked for and ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.launch.lane import Lane
from providers.engine.launch.result import UNCONFIRMED, LaunchResult
from providers.engine.launch.walk import resumed
from providers.engine.runtime.deadlines import together
from providers.engine.runtime.tasks import StopSignal
from providers.engine.termination.lost import Lost, released

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from providers.engine.desired import ClusterSpec
    from providers.engine.journal.orders import OrderRow
    from providers.engine.runtime.world import World
    from providers.errors import CloudError
    from providers.model.machine import Handle, Order

    Ended = LaunchResult | CloudError | Lost | None
    """How an order ended: as `walk.resumed` says, or lost and not known to be gone."""


def by_race(rows: Iterable[OrderRow]) -> list[list[OrderRow]]:
    """The orders in groups: those of one race together, every other by itself; first those that
    are known to have made machines.
    """
    groups: dict[str, list[OrderRow]] = {}
    for row in sorted(rows, key=lambda each: not each.handles):
        groups.setdefault(row.race or row.order.token, []).append(row)
    return list(groups.values())


async def ended(
    world: World,
    spec: ClusterSpec,
    rows: Sequence[OrderRow],
    stop: StopSignal,
    keep: Callable[[OrderRow], Collection[Handle]] = lambda _row: (),
) -> list[tuple[OrderRow, Ended]]:
    """How each order of a group ended, what is kept first. Raises as `walk.resumed` does, once all
    of them have ended.
    """
    stops = {row.order.token: StopSignal(world, stop) for row in rows}
    names = {row.order.token: row.provider for row in rows}

    async def one(row: OrderRow) -> tuple[OrderRow, Ended]:
        if world.journal.has_lost(row):
            return row, await released(world, row, keep(row))
        own = stops[row.order.token]
        lane = Lane(row.order.candidates[0], own, [row.order], row.race, wins if row.race else None)
        return row, await resumed(world, spec, row, lane, keep=keep(row))

    def wins(order: Order) -> bool:
        winner = world.journal.win(rows[0].race, order.token)
        for token, each in stops.items():
            if token != winner:
                each.beaten = f"{names.get(winner, 'another provider')} had room before"
        return winner == order.token

    results = await together(*(one(row) for row in rows))
    stop.rival = next((each.rival for each in stops.values() if each.rival), stop.rival)
    pairs = [(row, _lost(world, row, result)) for row, result in results]
    return sorted(pairs, key=lambda pair: isinstance(pair[1], Lost) or _is_open(pair[1]))


def _lost(world: World, row: OrderRow, result: Ended) -> Ended:
    """The result; of one that is not certain, and that another has beaten meanwhile, that."""
    if not _is_open(result) or not world.journal.has_lost(row):
        return result
    assert isinstance(result, LaunchResult)
    return Lost(row, result.leftovers)


def _is_open(result: Ended) -> bool:
    return isinstance(result, LaunchResult) and result.state == UNCONFIRMED
