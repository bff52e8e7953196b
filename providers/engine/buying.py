"""Buying: the market is looked at, planned, and walked; what came of it is made ready and written down.

Nothing of the generation but what is kept exists when it is called; that is the caller's to see to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.accounts import adapter_of, home_of
from providers.engine.acquire import ACQUIRED, Outcome, acquire
from providers.engine.ending import end
from providers.engine.holding import had
from providers.engine.lines import named, trimmed
from providers.engine.planning import market
from providers.engine.ready import until_ready
from providers.errors import GpusError, HalfMade, NotConfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.engine.records import Held, Wanted
    from providers.engine.settle import Brake
    from providers.engine.world import World
    from providers.model.machine import Attempt, Handle
    from providers.model.offer import Candidate


async def buy(
    world: World,
    wanted: Wanted,
    generation: str,
    brake: Brake,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> Held:
    """Plans and walks. Nothing of this generation but `keep` exists when it is called."""
    outcome = await walk(world, wanted, generation, brake, keep=keep, accept=accept, before=before)
    held = had(world.name, wanted, generation, outcome, world.clock.now())
    if outcome.state != ACQUIRED and outcome.handles:
        # Known machines that nobody could look at yet: what they cost runs.
        held = held._replace(launched_at=world.clock.now())
    world.journal.launched(held)
    return held


async def made_ready(world: World, held: Held, wanted: Wanted, brake: Brake) -> Held | None:
    """What was adopted, once it is ready. None when it never became so: it is then deleted, confirmed. Raises HalfMade when that failed."""
    if wanted.probe is None:
        return held
    deadline = world.clock.now() + wanted.ask.entries[held.entry].wait_s
    try:
        nodes = await until_ready(world, await home_of(world, held), held, held.handles, wanted.probe, deadline, brake)
    except HalfMade as error:
        world.report("warning", f"{held.cluster}: what an earlier run left is not ready: {trimmed(error)}; deleting it")
        await end(world, held)
        return None
    if nodes is None:
        await end(world, held)
        raise GpusError(f"{held.cluster}: {brake.why}; nothing is left running")
    return held._replace(machines=nodes)


async def walk(
    world: World,
    wanted: Wanted,
    generation: str,
    brake: Brake,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> Outcome:
    """Plans and walks; `keep` stays, `accept` narrows the candidates. Raises as `acquire` does, and NotConfigured when nobody is."""
    on_sale = await world.call("", market, world, wanted.ask)
    blocks = world.journal.blocks(world.name)
    plan = on_sale.plan(wanted.ask, blocks, world.clock.now())
    if not plan.candidates and blocks:
        again = on_sale.plan(wanted.ask)
        if again.candidates:
            world.report("info", f"{wanted.cluster}: every acceptable place was refused lately; asking them again")
            plan = again
    if not plan.candidates and on_sale.unavailable:
        allowed = [name for name in world.manifests if not wanted.ask.providers or name in wanted.ask.providers]
        if allowed and all(name in on_sale.unavailable for name in allowed):
            lines = "\n".join(named(name, why) for name, why in on_sale.unavailable.items())
            raise NotConfigured(f"{wanted.cluster}: no allowed provider is configured in the {world.name} world\n{lines}", provider=allowed[0])
    return await acquire(world, plan, wanted, generation, brake=brake, market=on_sale, keep=keep, accept=accept, before=before)


async def check_pinned(world: World, wanted: Wanted) -> None:
    """A declaration that allows one provider alone fails at once, and clearly, when that one is not configured."""
    if len(wanted.ask.providers) == 1 and wanted.ask.providers[0] in world.manifests:
        await adapter_of(world, wanted.ask.providers[0])
