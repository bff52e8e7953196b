"""The order of a plan's candidates, and what a declaration prefers to what runs. Pure.

One order for both: a reclaim moves only to what would also have come first for the reason that the
declaration ranks by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from providers.model import advice
from providers.model.ask import EXPECTED, PERFORMANCE, PREFERENCE, PRICE
from providers.planner import expected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from providers.model.ask import Ask, Choice
    from providers.model.offer import Offer
    from providers.model.placement import Placement, Price
    from providers.planner.rules import Accepted, Fitting, Terms

FREE = 1
"""Micro-dollars that a free machine counts as where a figure is divided by its price."""


class Ranked(Protocol):
    """A candidate, or what runs: the entry that it serves, where, and for how much."""

    @property
    def entry(self) -> int: ...
    @property
    def placement(self) -> Placement: ...
    @property
    def price(self) -> Price: ...


def order(
    terms: Terms, rows: Sequence[tuple[Accepted, Offer]]
) -> Callable[[tuple[Accepted, Offer]], tuple[Any, ...]]:
    """The sort key of (kept row, its offer): what is paid already, then as the declaration ranks.
    The same input gives the same order: the offer's own name comes last, and before it, where all
    else is equal, what its cloud says of room there.
    """
    ask = terms.ask
    listed = (
        {provider: place for place, provider in enumerate(ask.providers)}
        if ask.rank == PREFERENCE
        else {}
    )
    by_run, told = _by_run(ask), terms.advice
    each_speed = speeds({offer.gpu_type for _, offer in rows}) if ask.rank == PERFORMANCE else {}
    worth = _expected(terms, rows) if ask.rank == EXPECTED else None

    def paid_first(pair: tuple[Accepted, Offer]) -> tuple[Any, ...]:
        term = pair[1].term
        return (term is None or not term.paid, key(pair))

    def key(pair: tuple[Accepted, Offer]) -> tuple[Any, ...]:
        item, offer = pair
        # Provider, region, zone, machine type, GPU type are an offer's first five fields.
        by_choice = (
            item.entry,
            item.capacity,
            listed.get(offer[0], 0),
            item.micro_usd,
            -advice.chance(told, offer) if told else 0.0,
            offer[:5],
            item.reservation,
        )
        if ask.rank == PRICE:
            return (item.micro_usd, by_choice)
        if worth is not None:
            return (worth(item, offer), by_choice)
        if by_run and terms.fits is not None:
            # Where the hours are not known the cost is not either: last, never cheapest.
            hours = terms.fits(
                ask.entries[item.entry], offer.gpu_type, int(offer.gpu_count)
            ).job_hours
            return (hours is None, (hours or 1.0) * item.micro_usd, by_choice)
        if ask.rank == PERFORMANCE:
            return (
                -each_speed[offer.gpu_type] * offer.gpu_count / (item.node_micro_usd or FREE),
                item.micro_usd,
                by_choice,
            )
        return by_choice

    return paid_first if ask.block is not None and ask.block.paid else key


def _expected(
    terms: Terms, rows: Sequence[tuple[Accepted, Offer]]
) -> Callable[[Accepted, Offer], float]:
    """The figure of `expected.worth`: an hour of waiting counts as one of the cheapest place."""
    ask, tried = terms.ask, terms.tried or expected.Tried()
    hour = min((item.micro_usd for item, _ in rows if item.micro_usd), default=0)
    used = {
        (number, offer.gpu_type, offer.gpu_count): expected.hours(
            ask.entries[number],
            ask.kind,
            None
            if terms.fits is None
            else terms.fits(ask.entries[number], offer.gpu_type, int(offer.gpu_count)).job_hours,
        )
        for number, offer in {
            (item.entry, offer.gpu_type, offer.gpu_count): (item.entry, offer)
            for item, offer in rows
        }.values()
    }

    def worth(item: Accepted, offer: Offer) -> float:
        choice = ask.entries[item.entry]
        hours = used[item.entry, offer.gpu_type, offer.gpu_count]
        if offer.term is not None and item.micro_usd:
            hours = offer.term.upfront_micro_usd / item.micro_usd  # all of it is paid
        return expected.worth(
            item.micro_usd,
            hours,
            tried.chance(offer).chance,
            tried.seconds(offer, expected.REFUSED, choice),
            tried.seconds(offer, expected.ACQUIRED, choice) + expected.begins_in(offer, terms.now),
            hour,
        )

    return worth


def prefers(
    ask: Ask,
    current: Ranked,
    other: Ranked,
    fits: Callable[[Choice, str, int], Fitting] | None = None,
) -> bool:
    """Whether the declaration prefers the other to what runs: an earlier choice where choices rank,
    else a better figure.

    Within one choice nothing is preferred: another place that is merely cheaper is no reason to
    move. What is unknown is never better. `fits` as in a plan's terms, for the hours of a job.
    """
    if ask.rank not in (PRICE, PERFORMANCE, EXPECTED):
        return other.entry < current.entry
    now, then = _worth(ask, current, fits), _worth(ask, other, fits)
    return now is not None and then is not None and then > now


def _worth(
    ask: Ask, ranked: Ranked, fits: Callable[[Choice, str, int], Fitting] | None
) -> float | None:
    """The figure that the rank goes by, the more the better; None where it is not known."""
    place, micro_usd = ranked.placement, ranked.price.micro_usd
    if micro_usd is None:
        return None
    if _by_run(ask) and fits is not None:
        if ranked.entry >= len(ask.entries):
            return None
        hours = fits(ask.entries[ranked.entry], place.gpu_type, place.gpu_count).job_hours
        return None if hours is None else -hours * micro_usd
    if ask.rank == PERFORMANCE:
        speed = speeds({place.gpu_type})[place.gpu_type]
        return speed * place.gpu_count * place.nodes / (micro_usd or FREE)
    return -float(micro_usd)


def _by_run(ask: Ask) -> bool:
    """True where the work for a dollar is counted in runs: the workload says how much one is."""
    return (
        ask.rank == PERFORMANCE and ask.workload is not None and ask.workload.training is not None
    )


def speeds(types: Iterable[str]) -> dict[str, float]:
    """TFLOPS that one GPU of each type achieves in bf16, else in what it has instead; 0 where no
    source says, so that it ranks last.
    """
    from providers.catalog.hardware import achieved_tflops

    return {
        gpu: next(
            filter(None, (achieved_tflops(gpu, dtype) for dtype in ("bf16", "fp16", "fp32"))), 0.0
        )
        for gpu in types
    }
