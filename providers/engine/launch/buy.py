"""Buying: the market is looked at, planned, and walked; what came of it is made ready and written
down.

Nothing of the generation but what is kept exists when it is called; that is the caller's to see to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.engine.budget import spell_of
from providers.engine.desired import limit_of
from providers.engine.launch.result import ACQUIRED, LaunchResult, launched
from providers.engine.launch.walk import acquire
from providers.engine.market.planning import insistent, presentable
from providers.engine.messages import named, trimmed
from providers.engine.readiness.wait import until_ready
from providers.engine.runtime.accounts import adapter_of, home_of
from providers.engine.termination.end import end
from providers.errors import GpusError, HalfMade, NotConfigured, Transient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from providers.engine.desired import ClusterSpec
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Attempt, Handle
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan


async def buy(
    world: World,
    wanted: ClusterSpec,
    generation: str,
    brake: StopSignal,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> ClusterRecord:
    """Plans and walks. Nothing of this generation but `keep` exists when it is called."""
    outcome = await walk(world, wanted, generation, brake, keep=keep, accept=accept, before=before)
    held = launched(world.name, wanted, generation, outcome, world.clock.now())
    if outcome.state != ACQUIRED and outcome.handles:
        # Known machines that nobody could look at yet: what they cost runs.
        held = held._replace(launched_at=world.clock.now())
    world.journal.launched(held)
    if held.detail:
        world.report("info", f"{held.cluster}: {held.detail}")
    return held


async def made_ready(
    world: World, held: ClusterRecord, wanted: ClusterSpec, brake: StopSignal
) -> ClusterRecord | None:
    """What was adopted, once it is ready. None when it never became so: it is then deleted,
    confirmed. Raises HalfMade when that failed.
    """
    if wanted.probe is None:
        return held
    deadline = world.clock.now() + wanted.ask.entries[held.entry].wait_s
    try:
        nodes = await until_ready(
            world, await home_of(world, held), held, held.handles, wanted.probe, deadline, brake
        )
    except HalfMade as error:
        world.report(
            "warning",
            f"{held.cluster}: what an earlier run left is not ready: {trimmed(error)}; deleting it",
        )
        await end(world, held)
        return None
    if nodes is None:
        await end(world, held)
        raise GpusError(f"{held.cluster}: {brake.why}; nothing is left running")
    return held._replace(machines=nodes)


async def walk(
    world: World,
    wanted: ClusterSpec,
    generation: str,
    brake: StopSignal,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> LaunchResult:
    """Plans and walks; `keep` stays, `accept` narrows the candidates, and so does the stack's
    budget.

    Raises as `acquire` does, NotConfigured when nobody is, and GpusError with the arithmetic where
    the budget refuses every candidate.
    """
    if wanted.budget is None:
        return await _walk(
            world, wanted, generation, brake, keep=keep, accept=accept, before=before
        )
    async with wanted.budget.turn:
        outcome = await _walk(
            world, wanted, generation, brake, keep=keep, accept=accept, before=before
        )
        if outcome.handles or outcome.state != ACQUIRED:
            held = launched(world.name, wanted, generation, outcome, world.clock.now())
            wanted.budget.bought(
                spell_of(held._replace(launched_at=held.launched_at or world.clock.now())),
                world.clock.now(),
            )
    return outcome


async def _walk(
    world: World,
    wanted: ClusterSpec,
    generation: str,
    brake: StopSignal,
    *,
    keep: Collection[Handle],
    accept: Callable[[Candidate], bool] | None,
    before: Sequence[Attempt],
) -> LaunchResult:
    on_sale = await world.call("", insistent, world, wanted.ask, wanted.setup)
    blocks = world.journal.blocks(world.name)
    plan = on_sale.plan(wanted.ask, blocks, world.clock.now(), wanted.setup)
    if not plan.candidates and blocks:
        again = on_sale.plan(wanted.ask, setup=wanted.setup)
        if again.candidates:
            world.report(
                "info",
                f"{wanted.cluster}: every acceptable place was refused lately; asking them again",
            )
            plan = again
    if not plan.candidates and on_sale.closed:
        # A refused call costs nothing, and somebody may have changed the account meanwhile.
        again = on_sale._replace(closed=()).plan(wanted.ask, setup=wanted.setup)
        if again.candidates:
            world.report(
                "info",
                f"{wanted.cluster}: the account cannot use any acceptable place, as far as is"
                " known; asking them all the same",
            )
            plan = again
    if not plan.candidates and on_sale.unavailable:
        able = {name: manifest.capabilities for name, manifest in world.manifests.items()}
        allowed = [
            name for name in able if wanted.ask.allows(name, marketplace=able[name].marketplace)
        ]
        if allowed and all(name in on_sale.unavailable for name in allowed):
            lines = "\n".join(
                named(name, why) for name, why in on_sale.unavailable.items() if name in allowed
            )
            raise NotConfigured(
                f"{wanted.cluster}: no allowed provider is configured in the {world.name}"
                f" world\n{lines}",
                provider=allowed[0],
            )
    if not plan.candidates and on_sale.silent:
        lines = "; ".join(named(name, why) for name, why in on_sale.silent.items())
        todo = "nothing was asked for, since what is for sale there is not known; run it again"
        raise Transient(
            f"{wanted.cluster}: wanted the market, found {lines}; {todo}",
            provider=next(iter(on_sale.silent)),
        )
    presentable(plan, wanted.cluster)
    if wanted.budget is not None:
        accept = affordable(world, wanted, plan, accept)
    return await acquire(
        world,
        plan,
        wanted,
        generation,
        stop=brake,
        market=on_sale,
        keep=keep,
        accept=accept,
        before=before,
    )


def affordable(
    world: World, wanted: ClusterSpec, plan: Plan, accept: Callable[[Candidate], bool] | None = None
) -> Callable[[Candidate], bool]:
    """What of a plan the budget allows, as a test of candidates. Raises GpusError with the
    arithmetic where it allows none.
    """
    budget, now = wanted.budget, world.clock.now()
    assert budget is not None

    def allowed(candidate: Candidate) -> bool:
        return (accept is None or accept(candidate)) and budget.fits(
            candidate, limit_of(wanted, candidate), now, wanted.cluster
        )

    if plan.candidates and not any(map(allowed, plan.candidates)):
        raise budget.refusal(wanted.cluster, plan, partial(limit_of, wanted), now)
    return allowed


async def check_pinned(world: World, wanted: ClusterSpec) -> None:
    """A declaration that allows one provider alone fails at once, and clearly, when that one is not
    configured.
    """
    if len(wanted.ask.providers) == 1 and wanted.ask.providers[0] in world.manifests:
        await adapter_of(world, wanted.ask.providers[0])
