"""What of a plan fits into the stack's `max_spend`.

Owns which candidates a walk may buy and what is said of the others; the money itself is
`providers.engine.budget`'s. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.desired import limit_of
from providers.engine.messages import folded
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.engine.budget import Budget
    from providers.engine.desired import ClusterSpec
    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan


def both_affordable(world: World, spec: ClusterSpec, one: Candidate, other: Candidate) -> bool:
    """Whether the stack could pay for both, each as long as it may live: until it is gone for
    certain, the one that is cancelled costs money.
    """
    budget, now = spec.budget, world.clock.now()
    if budget is None:
        return True
    first = budget.whole(one, limit_of(spec, one), now, spec.cluster)
    return first is not None and budget.fits(
        other, limit_of(spec, other), now, spec.cluster, besides=first
    )


def affordable(
    world: World, spec: ClusterSpec, plan: Plan, accept: Callable[[Candidate], bool] | None = None
) -> Callable[[Candidate], bool]:
    """What of a plan the budget allows, as a test of candidates. Raises GpusError with the
    arithmetic where it allows none.
    """
    budget, now = spec.budget, world.clock.now()
    assert budget is not None

    def allowed(candidate: Candidate) -> bool:
        return (accept is None or accept(candidate)) and budget.fits(
            candidate, limit_of(spec, candidate), now, spec.cluster
        )

    if plan.candidates and not any(map(allowed, plan.candidates)):
        raise refusal(budget, spec, plan.candidates, now)
    return allowed


def reserved(world: World, spec: ClusterSpec, plan: Plan) -> tuple[Plan, str]:
    """What of a plan fits, and the arithmetic of its first place, which is set aside so that a
    sibling does not count on the same. The whole plan and nothing without a limit, or without a
    place. Raises GpusError where nothing fits.
    """
    budget, name = spec.budget, spec.cluster
    if budget is None or not plan.candidates:
        return plan, ""
    now, fit = world.clock.now(), plan.within(affordable(world, spec, plan))
    best = fit.candidates[0]
    text = _line(budget, spec, best, now)
    budget.reserve(name, budget.whole(best, limit_of(spec, best), now, name) or 0)
    if len(fit.candidates) < len(plan.candidates):
        text += f"; {len(fit.candidates):,} of {len(plan.candidates):,} places fit"
    return fit, text


def unaffordable(world: World, spec: ClusterSpec, plan: Plan | None) -> str:
    """How many places of a plan the stack's `max_spend` leaves out, with the arithmetic of the
    cheapest of them; empty where it leaves out none.
    """
    budget, now = spec.budget, world.clock.now()
    if budget is None or plan is None:
        return ""
    dear = [
        each
        for each in plan.candidates
        if not budget.fits(each, limit_of(spec, each), now, spec.cluster)
    ]
    if not dear:
        return ""
    what = "1 place does" if len(dear) == 1 else f"{len(dear):,} places do"
    least = _cheapest(budget, spec, dear, now)
    of = "" if len(dear) == 1 else ", the cheapest of them"
    return f"{what} not fit{of}: max_spend {least}"


def refusal(
    budget: Budget, spec: ClusterSpec, candidates: Sequence[Candidate], now: float
) -> GpusError:
    """Why none of these may be bought, by the one that would cost least."""
    unknown = budget.sums(now, spec.cluster).unknown
    todo = (
        f"the price of {', '.join(unknown)} is not known: replace or destroy it, or take the"
        " limit out"
        if unknown
        else "shorten ttl, allow cheaper ones, destroy what runs, or raise gpus:max_spend"
    )
    least = _cheapest(budget, spec, candidates, now)
    text = f"{spec.cluster}: nothing is bought: max_spend {least}; {todo}"
    return GpusError(folded(text, ""))


def _cheapest(
    budget: Budget, spec: ClusterSpec, candidates: Sequence[Candidate], now: float
) -> str:
    """The arithmetic of the one that would cost least."""
    name = spec.cluster
    best = min(
        candidates, key=lambda each: budget.whole(each, limit_of(spec, each), now, name) or 0
    )
    return _line(budget, spec, best, now)


def _line(budget: Budget, spec: ClusterSpec, candidate: Candidate, now: float) -> str:
    name, limit_s = spec.cluster, limit_of(spec, candidate)
    return budget.line(candidate.micro_usd, limit_s, now, name, budget.block(candidate, now, name))
