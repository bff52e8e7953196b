"""Plans for a world: the bundled offers under the live ones, what each adapter can do, who is not
configured, what was refused lately.

Owns the collecting; the planner decides. Lean: the command line's first answer comes through here,
so no asyncio, no SDK in a rehearsal, and SQLite only where a journal exists.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from providers.engine.market.collect import market
from providers.engine.market.snapshot import Market, with_warnings
from providers.errors import GpusError, NoHome
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.model.place import Block
    from providers.planner.plan import Plan

_SHOWN: deque[tuple[object, ...]] = deque(maxlen=8)
"""What could be shown last: the clusters of a stack are often alike, and to write one of their
plans takes ten times as long as to make it.
"""
LONGER_S = (20.0, 45.0)
"""The same where something is to be bought, and nothing can be without it: slow is not sold out."""


def plan(
    ask: Ask,
    *,
    world: str = REHEARSAL,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    use_journal: bool = True,
    use_closed: bool = False,
    setup: Setup | None = None,
) -> Plan:
    """The ranked plan of an ask, now. Buys nothing. `setup` is what the notes on its candidates
    depend on.

    Without `use_journal`, places that were sold out lately count too; with `use_closed`, also those
    that the account cannot use as far as is known.

    Calls made: reads of the bundled catalog and of the journal if there is one; live listings of
    the providers that have them, at once, each within `LOOK_LIMIT_S`; in the live world a local
    look for each provider's credentials. Whatever of this fails is a line in `warnings`.
    """
    from providers.engine.runtime.world import open_world

    lines: list[str] = []
    opened = open_world(world, settings, lambda _severity, text: lines.append(text))
    try:
        seen = market(opened, ask, warnings=lines, compared=True)
        if ask.block is not None and seen.silent and not seen.plan(ask, setup=setup).candidates:
            # Blocks are in no catalog: without an answer there is nothing to show instead.
            seen = market(opened, ask, warnings=lines, compared=True, limit_s=LONGER_S[0])
        if use_closed:
            seen = seen._replace(closed=())
        if not use_journal:
            return seen.plan(ask, setup=setup)
        blocks, now, trouble = standing_blocks(opened)
        return (with_warnings(seen, trouble) if trouble else seen).plan(ask, blocks, now, setup)
    finally:
        opened.close()


def insistent(world: World, ask: Ask, setup: Setup) -> Market:
    """As `market`, to buy in: where nothing can be bought and somebody did not answer, all are
    asked again, and waited for longer. Blocking.
    """
    seen = market(world, ask)
    for limit_s in LONGER_S:
        if not seen.silent or seen.plan(ask, setup=setup).candidates:
            break
        world.report(
            "info",
            f"nothing is for sale elsewhere, and no answer from {', '.join(seen.silent)}; asking"
            f" again, for up to {limit_s:.0f}s",
        )
        seen = market(world, ask, limit_s=limit_s)
    return seen


def walked(
    ask: Ask,
    *,
    world: str = REHEARSAL,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    setup: Setup | None = None,
    replaces: bool = False,
) -> Plan:
    """The plan that an `up` would walk: where everything acceptable was refused lately, those
    places are asked again, and at last those that the account cannot use as far as is known. For
    the latter nothing that runs is given up: not where it `replaces`.
    """
    made = plan(ask, world=world, settings=settings, setup=setup)
    if not made.candidates and "blocked" in made.rejected_by_rule:
        made = plan(ask, world=world, settings=settings, setup=setup, use_journal=False)
    if not made.candidates and "enabled" in made.rejected_by_rule and not replaces:
        made = plan(
            ask, world=world, settings=settings, setup=setup, use_journal=False, use_closed=True
        )
    return made


def with_paid(
    ask: Ask,
    owner: str,
    cluster: str,
    *,
    world: str,
    settings: Mapping[str, Mapping[str, str]] | None = None,
) -> Ask:
    """As `blocks.with_paid`, where no world is open."""
    if ask.block is None or not owner:
        return ask
    from providers.engine.market import blocks
    from providers.engine.runtime.world import open_world

    opened = open_world(world, settings)
    try:
        return blocks.with_paid(opened, ask, owner, cluster)
    finally:
        opened.close()


def standing_blocks(world: World) -> tuple[tuple[Block, ...], float, tuple[str, ...]]:
    """(blocks, the world's moment, warnings). Reads the journal if its file exists; a broken one is
    a warning.
    """
    from providers.home import home

    try:
        if not (home() / "journal.db").exists():
            return (), 0.0, ()
        blocks = world.journal.blocks(world.name)
        # The rehearsal's clock is another file to open; most of the time there is nothing to
        # compare it with.
        return (blocks, world.clock.now(), ()) if blocks else ((), 0.0, ())
    except NoHome as error:
        return (), 0.0, (str(error),)
    except (GpusError, OSError) as error:
        return (), 0.0, (f"what was refused lately is not known: {error}",)


def presentable(plan: Plan, cluster: str) -> Plan:
    """The plan, once it is certain that it can be shown. Raises GpusError where it cannot: then
    nothing is bought by it either.
    """
    from providers.planner import render

    shown = (plan.ask, plan.candidates, plan.refused)
    if shown in tuple(_SHOWN):
        return plan
    try:
        render.as_text(plan)
    except Exception as error:
        text = (
            f"{cluster}: wanted a plan to show before anything is bought, found one that cannot be"
            f" written ({type(error).__name__}: {error})"
        )
        raise GpusError(
            f"{text}; nothing was bought: leave out the provider whose offers are odd, and"
            " report it"
        ) from error
    _SHOWN.append(shown)
    return plan
