"""The expectation of a plan in words: one row for the screen, and its arithmetic. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.catalog import spot_losses
from providers.model import duration
from providers.model.ask import BLOCK, BY_CHOICE, EXPECTED, PRICE, SPOT
from providers.model.money import per_hour, usd
from providers.planner import expected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.model.offer import Candidate
    from providers.planner.expected import Expected, Step
    from providers.planner.plan import Plan

_FEW = 0.05
"""Fewer tries than this are told as none."""
_SURE = 0.99
"""From here on a chance is not told in the row."""


def likely(plan: Plan) -> str:
    """What it will probably cost, and how long until it runs: `$10.05/h, ready in 5m (a guess)`, or
    `ready in 2s if there is room (91%, in rehearsal)`; empty where there is one place and nothing
    was measured there.
    """
    found = plan.expected
    if found is None or (len(plan.candidates) == 1 and not measured(plan, found)):
        return ""
    if _by_calendar(found):
        return ""
    tried = plan.terms.tried
    by = (
        "a guess"
        if tried is None or not measured(plan, found)
        else "in rehearsal"
        if tried.rehearsed
        else "by your tries"
    )
    room = f" if there is room ({found.chance:.0%}, {by})" if found.chance < _SURE else f" ({by})"
    return f"{per_hour(round(found.micro_usd))}, ready in {_time(found.seconds)}{room}"


def _by_calendar(found: Expected) -> bool:
    """Whether one of the first places begins at a time of its own, so that the wait is unknown."""
    return any(step.candidate.capacity == BLOCK for step in found.steps)


def measured(plan: Plan, found: Expected) -> bool:
    """Whether something was ever tried at a provider of the first places."""
    tried = plan.terms.tried
    return tried is not None and any(
        tried.measured(step.candidate.provider) for step in found.steps
    )


def lines(plan: Plan) -> Iterator[str]:
    """The arithmetic: each of the first places with its chance, what other orders would come to,
    and how often a spot machine is taken back.
    """
    found = plan.expected
    if found is None:
        return
    if _by_calendar(found):
        yield "unknown: a capacity block begins at its own time"
        return
    places = len(plan.candidates)
    of = f"one of {places:,} places has" if places > 1 else "the place has"
    yield f"about {_figures(found)}, if {of} room ({found.chance:.1%})"
    yield "of each: chance that it is asked x chance of room x price = its share of that"
    tried = plan.terms.tried or expected.Tried()
    if tried.rehearsed and measured(plan, found):
        yield "the tries were made in rehearsal: they say nothing of live clouds"
    for step in found.steps:
        yield _step(step, known=tried.measured(step.candidate.provider))
    for name, other in _orders(plan):
        first = _place(other.steps[0].candidate)
        yield f"with rank: {name}: about {_figures(other)}, first {first}"
    if (best := plan.best) is not None and best.capacity == SPOT:
        yield loss_text(plan, best)


def as_json(plan: Plan) -> dict[str, Any] | None:
    """The same as plain data; None where nothing is acceptable, or where it is unknown."""
    found = plan.expected
    best = plan.best
    if found is None or best is None:
        return None
    if _by_calendar(found):
        return None
    known = _losses(best)
    return {
        "price_usd_per_hour": round(usd(round(found.micro_usd)), 6),
        "seconds_until_it_runs": round(found.seconds, 1),
        "chance_of_room": round(found.chance, 6),
        "measured": measured(plan, found),
        "first_places": [
            {
                "rank": step.candidate.rank,
                "chance_reached": round(step.reached, 6),
                "chance_of_room": round(step.chance.chance, 6),
                "tries": round(step.chance.tries, 3),
                "refused_after_s": round(step.refused_s, 1),
                "runs_in_s": round(step.runs_s, 1),
            }
            for step in found.steps
        ],
        "by_rank": {
            name: {
                "price_usd_per_hour": round(usd(round(other.micro_usd)), 6),
                "seconds_until_it_runs": round(other.seconds, 1),
                "first": other.steps[0].candidate.offer.id,
            }
            for name, other in _orders(plan)
        },
        "taken_back_within_a_month": None if known is None else [known.least, known.most],
    }


def loss_text(plan: Plan, spot: Candidate) -> str:
    """`5 to 10 % of such machines were taken back within a month (...)`, and within its own use."""
    known = _losses(spot)
    if known is None:
        return "how often such a spot machine is taken back is unknown"
    choice = plan.ask.entries[spot.entry]
    hours = expected.hours(choice, plan.ask.kind)
    least, most = known.within(hours)
    month = _range(known.least, known.most)
    return (
        f"{month} of such spot machines were taken back within a month ({spot_losses.AS_OF}):"
        f" {_range(least, most)} within {hours:g} h"
    )


def taken_back(spot: Candidate) -> str:
    """`may be taken back at any time; 5 to 10 % were within a month`."""
    known = _losses(spot)
    how_often = "" if known is None else f"; {_range(known.least, known.most)} were within a month"
    return f"may be taken back at any time{how_often}"


def _losses(candidate: Candidate) -> spot_losses.Losses | None:
    if candidate.capacity != SPOT:
        return None
    return spot_losses.losses(candidate.provider, candidate.region, candidate.machine_type)


def _range(least: float, most: float | None) -> str:
    if most is None:
        return f"more than {least * 100:.2g} %"
    return (
        f"less than {most * 100:.2g} %" if not least else f"{least * 100:.2g} to {most * 100:.2g} %"
    )


def _orders(plan: Plan) -> Iterator[tuple[str, Expected]]:
    for name in (BY_CHOICE, PRICE, EXPECTED):
        if name != plan.ask.rank and (other := plan.ranked(name).expected) is not None:
            yield name, other


def _step(step: Step, *, known: bool) -> str:
    chance, each = step.chance, step.candidate
    tries = max(1, round(chance.tries))  # each counts less as it ages
    basis = (
        "a guess"
        if not known
        else "by tries near it"
        if chance.tries < _FEW
        else f"by {tries} {'try' if tries == 1 else 'tries'}"
    )
    share = per_hour(round(step.reached * chance.chance * (each.micro_usd or 0)))
    return (
        f"#{each.rank} {step.reached:.0%} x {chance.chance:.0%} x {per_hour(each.micro_usd)} ="
        f" {share}; refused in {_time(step.refused_s)}, runs in {_time(step.runs_s)} ({basis}):"
        f" {_place(each)}"
    )


def _place(candidate: Candidate) -> str:
    return f"{candidate.provider} {candidate.placement.where} {candidate.capacity}"


def _figures(found: Expected) -> str:
    """`$10.05/h in 5m`."""
    return f"{per_hour(round(found.micro_usd))} in {_time(found.seconds)}"


def _time(seconds: float) -> str:
    """Whole minutes from two on, else whole seconds."""
    step = 60 if seconds >= 120 else 1
    return duration.text(max(1, round(seconds / step) * step))
