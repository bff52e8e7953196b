"""Clusters of stacks that wait for capacity, for the commands that take a name: what is said of
one, and the wait until it is acquired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adhoc.stack_clusters import LOOK_EVERY_S, known, waiting
from providers.engine.messages import moment
from providers.engine.record import WAITING
from providers.engine.runtime.world import open_world
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.adhoc.stack_clusters import Declared


def refuse(name: str, world: str | None = None, stack: str = "") -> None:
    """Raises GpusError for a cluster of that name that waits for capacity, or has given up."""
    one = _of(name, world, stack)
    if one is not None:
        raise GpusError(_text(one))


async def acquired(
    name: str,
    world: str | None = None,
    stack: str = "",
    timeout_s: float | None = None,
    *,
    say: Callable[[str], None],
) -> float | None:
    """Returns once a cluster of that name waits no more, at once where none does: what is left of
    the time. Looks every `LOOK_EVERY_S`. Raises GpusError for one that has given up, or waits
    longer.
    """
    one = _of(name, world, stack)
    if one is None:
        return timeout_s
    there = open_world(one.record.world)
    try:
        began = there.clock.now()
        say(_text(one))
        while one is not None:
            passed = there.clock.now() - began
            if one.record.status != WAITING:
                raise GpusError(_text(one))
            if timeout_s is not None and passed >= timeout_s:
                raise GpusError(f"wanted the end of {name} within {timeout_s:.0f}s; {_text(one)}")
            await there.clock.sleep(LOOK_EVERY_S)
            one = _of(name, world, stack)
        left = None if timeout_s is None else timeout_s - (there.clock.now() - began)
    finally:
        there.close()
    return left


def _of(name: str, world: str | None, stack: str) -> Declared | None:
    found = (each for each in waiting(world, stack) if each.record.cluster == name)
    one = next(found, None)
    return None if one is None or known(world, stack, name) else one


def _text(one: Declared) -> str:
    name, search = one.record.cluster, one.record.search
    assert search is not None
    since = f"since {moment(search.since)}"
    if one.record.status != WAITING:
        return f"{name}: looked for {since}, gave up {moment(search.until)}; {one.again()}"
    return (
        f"{name}: still looking {since}, until {moment(search.until)}; nothing of it runs yet."
        f" `gpus watch -s {one.stack}` goes on looking"
    )
