"""Taking machines of one's own for an order: all that it needs, or none. Owns the order in which
they are asked, and where the values of its secrets come from.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from providers.adapters.ssh.errors import PROVIDER
from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NoCapacity,
    NotConfigured,
    Unsupported,
)
from providers.model.machine import Handle
from providers.model.secret import referred

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.adapters.ssh.inventory import Machine
    from providers.model.machine import Order

    Take = Callable[[int, "Choice"], Handle | CloudError]
    """Takes a choice as the node of a rank."""

A = TypeVar("A")
B = TypeVar("B")
AT_ONCE = 16
PAUSES_S = (0.5, 1.0, 2.0)
"""The longest pause before each turn at machines that somebody else takes at the same time."""


class Choice(NamedTuple):
    """A machine, the cards that it may lend, and whether enough of them were free lately."""

    machine: Machine
    cards: Sequence[str]
    free: bool


def all_or_none(
    take: Take,
    drop: Callable[[Handle], None],
    choices: Sequence[Choice],
    nodes: int,
    refusals: list[CloudError],
) -> Sequence[Handle]:
    """The leases of so many nodes, or none; `refusals` gets why not. Raises what is no refusal, and
    HalfMade with what was taken where it could not be dropped at once.

    First all at once. Where somebody else takes the same machines meanwhile, one by one in the
    inventory's order, given up as soon as the rest is too few: of several who do so, one gets all.
    """
    if len(choices) < nodes:
        return ()
    free = [each for each in choices if each.free][:nodes]
    if len(free) == nodes:
        found = at_once(lambda ranked: take(*ranked), list(enumerate(free)))
    else:
        found = _in_turn(take, choices, nodes)
    for pause_s in (*(PAUSES_S if len(free) == nodes > 1 else ()), None):
        taken = [each for each in found if isinstance(each, Handle)]
        if len(taken) == nodes:
            return taken
        _dropped(taken, drop, nodes)
        failed = [each for each in found if isinstance(each, CloudError)]
        for each in failed:
            if not isinstance(each, NoCapacity | Unsupported | BadCredentials):
                raise each
        refusals += failed
        if pause_s is not None:
            import random

            time.sleep(random.uniform(0, pause_s))  # noqa: S311 - no secret
            found = _in_turn(take, choices, nodes)
    return ()


def _in_turn(take: Take, choices: Sequence[Choice], nodes: int) -> list[Handle | CloudError]:
    """What taking one after another came to, until there are enough or too few are left."""
    found: list[Handle | CloudError] = []
    taken = 0
    for index, choice in enumerate(choices):
        if taken == nodes or taken + len(choices) - index < nodes:
            break
        found.append(take(taken, choice))
        taken += isinstance(found[-1], Handle)
    return found


def _dropped(taken: Sequence[Handle], drop: Callable[[Handle], None], nodes: int) -> None:
    try:
        at_once(drop, taken)
    except CloudError as failed:
        raise HalfMade(
            f"ssh: {len(taken)} of {nodes} machines were taken, and are to be released",
            handles=tuple(taken),
            provider=PROVIDER,
            code=failed.code,
        ) from failed


def at_once(ask: Callable[[A], B], several: Sequence[A]) -> list[B]:
    """What each is answered, all asked at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    if not several:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(several))) as pool:
        return list(pool.map(ask, several))


def secrets(order: Order, environment: Mapping[str, str]) -> dict[str, str]:
    """The values of what an order refers to, by `env:VARIABLE` of this environment. Raises
    NotConfigured for one that is not there; nothing is taken then.
    """
    names = {
        name: reference.removeprefix("env:") for name, reference in referred(order.setup.secrets)
    }
    if missing := [each for each in names.values() if not environment.get(each)]:
        raise NotConfigured(
            f"ssh: wanted the secrets' values in the environment, found no {', '.join(missing)};"
            " set them where pulumi runs",
            provider=PROVIDER,
            code="secrets",
        )
    return {name: environment[each] for name, each in names.items()}
