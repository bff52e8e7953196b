"""What clouds say of room, in words: what it changed in a plan's order, and all of it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.model.advice import kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.model.advice import Advice
    from providers.model.offer import Candidate
    from providers.planner.plan import Plan


def changed(plan: Plan) -> str:
    """`gcp us-east4 before gcp us-central1 at the same price: obtainability 0.9 against 0.2`; empty
    where the first place is what it would be without advice.
    """
    best, before = plan.best, plan.unadvised.best
    if best is None or before is None or best.placement == before.placement:
        return ""
    return (
        f"{_place(best)} before {_place(before)} at the same price: {_words(plan, best)} against"
        f" {_words(plan, before)}"
    )


def lines(plan: Plan) -> Iterator[str]:
    """What was told of the candidates, in their order, each once."""
    for place, advice in _told(plan):
        yield f"{_place(place)} {place.machine_type} {place.capacity}: {advice.words}"


def as_json(plan: Plan) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "rank": place.rank,
            "provider": place.provider,
            "region": place.region,
            "machine_type": place.machine_type,
            "capacity": place.capacity,
            "chance": advice.chance,
            "words": advice.words,
        }
        for place, advice in _told(plan)
    ]


def _told(plan: Plan) -> Iterator[tuple[Candidate, Advice]]:
    left = dict(plan.terms.advice)
    for candidate in plan.candidates if left else ():
        advice = left.pop(kind(candidate.offer), None)
        if advice is not None:
            yield candidate, advice


def _words(plan: Plan, candidate: Candidate) -> str:
    found = plan.terms.advice.get(kind(candidate.offer))
    return "no advice" if found is None else found.words


def _place(candidate: Candidate) -> str:
    return f"{candidate.provider} {candidate.region}"
