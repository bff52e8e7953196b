"""Buying: the market is looked at, planned, and walked; what came of it is made ready and written
down.

Nothing of the generation but what is kept exists when it is called; that is the caller's to see to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.engine.budget import of_journal, spell_of
from providers.engine.launch import race
from providers.engine.launch.afford import affordable, both_affordable
from providers.engine.launch.helpers import removed_after
from providers.engine.launch.result import ACQUIRED, LaunchResult, launched
from providers.engine.launch.walk import begun
from providers.engine.market.blocks import with_paid
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


async def buy(
    world: World,
    spec: ClusterSpec,
    generation: str,
    stop_signal: StopSignal,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> ClusterRecord:
    """Plans and walks. Nothing of this generation but `keep` exists when it is called."""
    outcome = await walk(
        world, spec, generation, stop_signal, keep=keep, accept=accept, before=before
    )
    record = launched(world.name, spec, generation, outcome, world.clock.now())
    if outcome.state != ACQUIRED and outcome.handles:
        # Known machines that nobody could look at yet: what they cost runs.
        record = record._replace(launched_at=world.clock.now())
    world.journal.launched(record)
    if record.detail:
        world.report("info", f"{record.cluster}: {record.detail}")
    return record


async def made_ready(
    world: World, record: ClusterRecord, spec: ClusterSpec, stop_signal: StopSignal
) -> ClusterRecord | None:
    """What was adopted, once it is ready. None when it never became so: it is then deleted,
    confirmed. Raises HalfMade when that failed.
    """
    if spec.probe is None:
        return record
    deadline = world.clock.now() + spec.ask.entries[record.entry].wait_s
    try:
        nodes = await until_ready(
            world,
            await home_of(world, record),
            record,
            record.handles,
            spec.probe,
            deadline,
            stop_signal,
        )
    except HalfMade as error:
        world.report(
            "warning",
            f"{record.cluster}: what an earlier run left is not ready: {trimmed(error)};"
            " deleting it",
        )
        await end(world, record)
        return None
    if nodes is None:
        await end(world, record)
        raise GpusError(f"{record.cluster}: {stop_signal.why}; nothing is left running")
    return record._replace(machines=nodes)


async def walk(
    world: World,
    spec: ClusterSpec,
    generation: str,
    stop_signal: StopSignal,
    *,
    keep: Collection[Handle] = (),
    accept: Callable[[Candidate], bool] | None = None,
    before: Sequence[Attempt] = (),
) -> LaunchResult:
    """Plans and walks; `keep` stays, `accept` narrows the candidates, and so does the stack's
    budget.

    Raises as `Walk.run` does, NotConfigured when nobody is, and GpusError with the arithmetic where
    the budget refuses every candidate.
    """
    if spec.budget is None:
        return await _walk(
            world, spec, generation, stop_signal, keep=keep, accept=accept, before=before
        )
    async with spec.budget.turn:
        outcome = await _walk(
            world, spec, generation, stop_signal, keep=keep, accept=accept, before=before
        )
        if outcome.handles or outcome.state != ACQUIRED:
            record = launched(world.name, spec, generation, outcome, world.clock.now())
            spec.budget.bought(
                spell_of(record._replace(launched_at=record.launched_at or world.clock.now())),
                world.clock.now(),
            )
            if outcome.placed.offer.term is not None or race.is_hedged(spec):
                spec.budget.learn(of_journal(world, (spec.owner,)), world.clock.now())
    return outcome


async def _walk(
    world: World,
    spec: ClusterSpec,
    generation: str,
    stop_signal: StopSignal,
    *,
    keep: Collection[Handle],
    accept: Callable[[Candidate], bool] | None,
    before: Sequence[Attempt],
) -> LaunchResult:
    spec = spec._replace(ask=with_paid(world, spec.ask, spec.owner, spec.cluster))
    on_sale = await world.call("", insistent, world, spec.ask, spec.setup)
    blocks = world.journal.blocks(world.name)
    plan = on_sale.plan(spec.ask, blocks, world.clock.now(), spec.setup)
    if not plan.candidates and blocks:
        again = on_sale.plan(spec.ask, setup=spec.setup)
        if again.candidates:
            world.report(
                "info",
                f"{spec.cluster}: every acceptable place was refused lately; asking them again",
            )
            plan = again
    if not plan.candidates and on_sale.closed:
        # A refused call costs nothing, and somebody may have changed the account meanwhile.
        again = on_sale._replace(closed=()).plan(spec.ask, setup=spec.setup)
        if again.candidates:
            world.report(
                "info",
                f"{spec.cluster}: the account cannot use any acceptable place, as far as is"
                " known; asking them all the same",
            )
            plan = again
    if not plan.candidates and on_sale.unavailable:
        able = {name: manifest.capabilities for name, manifest in world.manifests.items()}
        allowed = [
            name for name in able if spec.ask.allows(name, marketplace=able[name].marketplace)
        ]
        if allowed and all(name in on_sale.unavailable for name in allowed):
            lines = "\n".join(
                named(name, why) for name, why in on_sale.unavailable.items() if name in allowed
            )
            raise NotConfigured(
                f"{spec.cluster}: no allowed provider is configured in the {world.name}"
                f" world\n{lines}",
                provider=allowed[0],
            )
    if not plan.candidates and on_sale.silent:
        lines = "; ".join(named(name, why) for name, why in on_sale.silent.items())
        todo = "nothing was asked for, since what is for sale there is not known; run it again"
        raise Transient(
            f"{spec.cluster}: wanted the market, found {lines}; {todo}",
            provider=next(iter(on_sale.silent)),
        )
    presentable(plan, spec.cluster)
    if spec.budget is not None:
        accept = affordable(world, spec, plan, accept)
    started = begun(
        world,
        plan,
        spec,
        generation,
        stop_signal,
        market=on_sale,
        keep=keep,
        accept=accept,
        before=before,
    )
    work = (
        race.run(started, partial(both_affordable, world, spec))
        if race.is_hedged(spec) and not keep
        else started.run()
    )
    return await removed_after(work, world, spec, stop_signal)


async def check_pinned(world: World, spec: ClusterSpec) -> None:
    """A declaration that allows one provider alone fails at once, and clearly, when that one is not
    configured.
    """
    if len(spec.ask.providers) == 1 and spec.ask.providers[0] in world.manifests:
        await adapter_of(world, spec.ask.providers[0])
