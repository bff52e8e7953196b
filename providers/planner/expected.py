"""What a plan will probably cost, and how long it will probably take until its machine runs. Pure.

Owns the model, which is small: each place has room with a chance that follows from the user's own
tries there, and from a stated prior where there were none; places are tried in the plan's order
until one has room. Chances of unlike places count as independent. Must not import the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.model.ask import BLOCK, FLEX_START, ON_DEMAND, RESERVATION, SPOT
from providers.model.money import HOURS_PER_MONTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from providers.model.ask import Ask, Choice
    from providers.model.offer import Candidate, Offer

PRIOR = {ON_DEMAND: 0.7, SPOT: 0.5, FLEX_START: 0.5, RESERVATION: 0.95, BLOCK: 0.95}
"""The chance that a place has room, where nothing is known. Assumed, not measured."""
_OTHER_PRIOR = 0.5
"""The same of a kind of capacity that only its provider knows."""
PRIOR_TRIES = 2.0
"""How many tries an assumption counts as: after as many real ones, both weigh the same."""
PLACE_HALF_LIFE_S = 6 * 3_600.0
"""After so long a try counts half at its own place: stockouts last hours."""
KIND_HALF_LIFE_S = 7 * 86_400.0
"""After so long a try counts half for the same GPU and capacity elsewhere at its provider, and for
how long a try takes there.
"""
REFUSED_S = 30.0
RUNS_S = 240.0
"""How long a refusal, and a machine until it runs, take at a provider where none was measured.
Assumed.
"""
DAY_H = 24.0
"""The hours that count where nothing says how long the machine is used."""
_NEGLIGIBLE = 1e-4
"""A walk that goes on less often than this is not followed further."""

ACQUIRED, REFUSED = "acquired", "refused"


class Try(NamedTuple):
    """One try at a place: what it came to, the seconds that it took, and when it ended (seconds
    since the epoch, on the world's clock).
    """

    provider: str
    region: str
    zone: str
    machine_type: str
    gpu_type: str
    capacity: str
    outcome: str
    seconds: float
    at: float


class Chance(NamedTuple):
    """How probably a place has room. `tries` is how many count here, each by its age; 0: assumed,
    or known of the provider's other places alone.
    """

    chance: float
    tries: float


class Tried:
    """What a user's own tries say of places at a time. Made once for a market. `rehearsed`: they
    were made at rehearsal clouds, and predict nothing of real ones.
    """

    def __init__(
        self, tries: Iterable[Try] = (), now: float = 0.0, *, rehearsed: bool = False
    ) -> None:
        self.rehearsed = rehearsed
        self._places: dict[tuple[str, ...], list[float]] = {}
        self._kinds: dict[tuple[str, ...], list[float]] = {}
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for each in tries:
            room = float(each.outcome == ACQUIRED)
            age_s = max(0.0, now - each.at)  # a clock that was set back makes none younger
            here, wide = 0.5 ** (age_s / PLACE_HALF_LIFE_S), 0.5 ** (age_s / KIND_HALF_LIFE_S)
            _add(self._places, _place(each), here, room)
            _add(self._kinds, _kind(each), wide, room)
            _add(self._seconds, (each.provider, each.outcome), wide, each.seconds)

    def chance(self, place: Offer | Try) -> Chance:
        """The chance that a place has room: the prior, corrected by the tries of its kind at the
        provider, and that by the tries at the place itself.
        """
        kind, here = self._kinds.get(_kind(place), _NONE), self._places.get(_place(place), _NONE)
        known = _corrected(PRIOR.get(place.capacity, _OTHER_PRIOR), kind)
        return Chance(_corrected(known, here), here[0])

    def seconds(self, place: Offer, outcome: str, choice: Choice) -> float:
        """How long a try with this outcome takes there. Who queues is waited for as declared."""
        measured = self._seconds.get((place.provider, outcome), _NONE)
        if measured[0]:
            return measured[1] / measured[0]
        if place.capacity == FLEX_START:
            return float(choice.wait_s) / (1 if outcome == REFUSED else 2)
        return REFUSED_S if outcome == REFUSED else RUNS_S

    def measured(self, provider: str) -> bool:
        """Whether anything was ever tried at a provider, as far as is remembered."""
        return any((provider, outcome) in self._seconds for outcome in (ACQUIRED, REFUSED))


_NONE = [0.0, 0.0]


def _add(
    sums: dict[tuple[str, ...], list[float]], key: tuple[str, ...], weight: float, value: float
) -> None:
    found = sums.setdefault(key, [0.0, 0.0])
    found[0] += weight
    found[1] += weight * value


def _corrected(prior: float, seen: Sequence[float]) -> float:
    """A chance after tries: (their weight, the weight of those that were acquired)."""
    return (PRIOR_TRIES * prior + seen[1]) / (PRIOR_TRIES + seen[0])


def _place(place: Offer | Try) -> tuple[str, ...]:
    return (
        place.provider,
        place.zone or place.region,
        place.machine_type,
        place.gpu_type,
        place.capacity,
    )


def _kind(place: Offer | Try) -> tuple[str, ...]:
    return place.provider, place.gpu_type, place.capacity


class Step(NamedTuple):
    """One place of a walk: how probably it is reached, and then has room; the seconds of a refusal,
    and of a machine until it runs.
    """

    candidate: Candidate
    reached: float
    chance: Chance
    refused_s: float
    runs_s: float


class Expected(NamedTuple):
    """What a walk comes to where some place has room: the price of all nodes in micro-dollars per
    hour, and the seconds until they run. `chance` is how probably some place has room.
    """

    micro_usd: float
    seconds: float
    chance: float
    tries: float
    """How many tries say something of its places."""
    steps: tuple[Step, ...]
    """The first places of the walk."""


SHOWN = 6


def walk(
    candidates: Iterable[Candidate], ask: Ask, tried: Tried, now: float = 0.0
) -> Expected | None:
    """The expectation of a walk in this order; None for one without places. O(n)."""
    reached, waited, cost, time, tries = 1.0, 0.0, 0.0, 0.0, 0.0
    steps: list[Step] = []
    for candidate in candidates:
        offer, choice = candidate.offer, ask.entries[candidate.entry]
        step = Step(
            candidate,
            reached,
            tried.chance(offer),
            tried.seconds(offer, REFUSED, choice),
            tried.seconds(offer, ACQUIRED, choice) + begins_in(offer, now),
        )
        if len(steps) < SHOWN:
            steps.append(step)
        tries += step.chance.tries
        here = reached * step.chance.chance
        cost += here * (candidate.micro_usd or 0)
        time += here * (waited + step.runs_s)
        waited += step.refused_s
        reached -= here
        if reached < _NEGLIGIBLE:
            break
    if not steps:
        return None
    some = 1 - reached
    return Expected(cost / some, time / some, some, tries, tuple(steps))


def begins_in(offer: Offer, now: float) -> float:
    """The seconds until the window of an offer begins; 0 for what is sold now."""
    return max(0.0, offer.term.begins_at - now) if offer.term is not None and now else 0.0


def hours(choice: Choice, kind: str, job_hours: float | None = None) -> float:
    """How long the machine is used: until its `ttl`, or the job's end, or a month of a service;
    else a day.
    """
    if choice.ttl_s:
        return choice.ttl_s / 3_600
    return job_hours or (HOURS_PER_MONTH if kind == "service" else DAY_H)


def worth(
    micro_usd: float, used_h: float, chance: float, refused_s: float, runs_s: float, hour: float
) -> float:
    """The figure by which `rank: expected` orders, the less the better, in micro-dollars: the use,
    and the wait until it runs at `hour` for an hour of it.

    With each place's refusals weighed by how many there are for one success, (1 - chance) / chance,
    no other order of independent places has a lower expectation of use and wait together.
    """
    waits_s = runs_s + refused_s * (1 - chance) / chance
    return micro_usd * used_h + hour * waits_s / 3_600
