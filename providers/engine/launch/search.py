"""Waiting for capacity: what an `up` leaves where every place is sold out, and what the next one
does about it.

Owns `ClusterRecord.search` and its words. Nothing exists while a cluster waits, so a killed run
loses nothing. State and journal record since when it waits, the journal also which places were
refused recently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.launch.buy import buy
from providers.engine.market import reopening
from providers.engine.messages import NO_ROOM, moment, rerun_command
from providers.engine.record import GAVE_UP, UNSETTLED, WAITING, ClusterRecord, Search
from providers.errors import AllFailed, OutcomeUnknown, RateLimited, Transient
from providers.model import duration
from providers.model.placement import Price
from providers.model.stack import argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.desired import ClusterSpec
    from providers.engine.market.reopening import Reopening
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Attempt

LAST_S = 600.0
"""How long before a search ends every place is asked a last time."""
_PASSES = (Transient, RateLimited, OutcomeUnknown)
"""Errors after which a search continues: they leave nothing behind."""


async def buy_or_wait(
    world: World,
    spec: ClusterSpec,
    generation: str,
    stop: StopSignal,
    search: Search | None = None,
) -> ClusterRecord:
    """Buys as `buy` does. If places are sold out and the declaration waits for them, returns the
    record of that. `search` is the one to continue.
    """
    goes_on = search if _is_of(search, spec) else None
    try:
        record = await buy(world, spec, generation, stop)
    except AllFailed as error:
        waits = _no_room(error) or (goes_on is not None and _passes(error))
        after = await _waits(world, spec, generation, goes_on, error.attempts) if waits else None
        if after is None:
            raise
        return after
    return record._replace(search=goes_on) if record.status == UNSETTLED else record


def unrecorded(world: World, spec: ClusterSpec) -> Search | None:
    """The search that a run began and was killed before a state had it; None where there is none,
    or its time is over.
    """
    if spec.acquire is None:
        return None
    for row in world.journal.waiting(world.name, spec.cluster):
        if row.owner == spec.owner:
            search = ClusterRecord.from_dict(row.record).search
            return search if search is not None and world.clock.now() < search.until else None
    return None


async def look_again(
    world: World, record: ClusterRecord, spec: ClusterSpec, stop: StopSignal
) -> ClusterRecord:
    """Continues the search of a cluster that waits or has given up, if a place may have room by
    now. With another declaration the search starts over.
    """
    search = record.search
    if search is None or not _is_of(search, spec):
        return await buy_or_wait(world, spec, record.generation, stop)
    if record.status == GAVE_UP:
        return record
    if world.clock.now() >= search.until:
        return _gives_up(world, record, search)
    found = await world.call("", reopening.look, world, spec.ask, spec.setup)
    now = world.clock.now()
    planned = _planned(world, spec, search, found, now)
    if planned.next_at > now:
        return _still(world, record, planned)
    try:
        return await buy_or_wait(world, spec, record.generation, stop, search)
    except _PASSES as error:
        world.report("warning", f"{record.cluster}: {error}")
        now = world.clock.now()
        tried = search._replace(tries=search.tries + 1, rounds=search.rounds + 1, tried_at=now)
        return _still(world, record, _planned(world, spec, tried, found, now))


def note_wait(
    world: World, record: ClusterRecord, spec: ClusterSpec, before: ClusterRecord | None = None
) -> None:
    """Writes down that a cluster waits, or waits no more, for those who list what there is."""
    if record.search is not None:
        world.journal.waits(record)
    elif spec.acquire is not None or (before is not None and before.search is not None):
        world.journal.waits_no_more(world.name, record.owner, record.cluster)


def _is_of(search: Search | None, spec: ClusterSpec) -> bool:
    """Whether a search is for this declaration."""
    return search is not None and spec.acquire is not None and search.asked == spec.acquire.asked


def _no_room(error: AllFailed) -> bool:
    """Whether some place was refused for lack of room, so that a wait can help."""
    return not error.final and any(attempt.outcome in NO_ROOM for attempt in error.attempts)


def _passes(error: AllFailed) -> bool:
    names = {kind.__name__ for kind in _PASSES}
    return not error.final and any(attempt.outcome in names for attempt in error.attempts)


async def _waits(
    world: World,
    spec: ClusterSpec,
    generation: str,
    search: Search | None,
    attempts: Sequence[Attempt],
) -> ClusterRecord | None:
    """The record of a waiting cluster after these failed attempts. None if the declaration does not
    wait, or if no place could ever serve it.
    """
    if spec.acquire is None:
        return None
    found = await world.call("", reopening.look, world, spec.ask, spec.setup)
    if found is None and not reopening.is_listed(world, spec.ask):
        return None
    now = world.clock.now()
    begun = search or Search(now, now + spec.acquire.within_s, spec.acquire.asked)
    tried = begun._replace(tries=begun.tries + len(attempts), rounds=begun.rounds + 1, tried_at=now)
    planned = _planned(world, spec, tried, found, now)
    places = 0 if found is None else found.places
    of = f"all {places:,} places" if places > 1 else "the only place" if places else "every place"
    world.report(
        "warning",
        f"{spec.cluster}: still looking: {of} that could serve it sold out or refused;"
        f" {_when(planned)}. Until then nothing runs and nothing is billed, and its endpoints and"
        f" ssh are empty. `gpus watch {argument()}` goes on looking, and so does the next `up`",
    )
    return ClusterRecord(
        world=world.name,
        owner=spec.owner,
        cluster=spec.cluster,
        generation=generation,
        fingerprint=spec.fingerprint,
        status=WAITING,
        price=Price(0),
        attempts=tuple(attempts),
        kind=spec.ask.kind,
        detail=_detail(planned),
        search=planned,
    )


def _planned(
    world: World, spec: ClusterSpec, search: Search, found: Reopening | None, now: float
) -> Search:
    """The search with the time of its next look, at the latest that of the last one."""
    listed = reopening.is_listed(world, spec.ask)
    at = reopening.next_try(found, search.rounds, search.tried_at, now, listed=listed)
    last = search.until - LAST_S
    at = min(at, search.until, last if search.tried_at < last else search.until)
    where = "" if found is None else f"{found.first.provider} {found.first.placement.where}"
    return search._replace(next_at=at, where=where)


def _still(world: World, record: ClusterRecord, search: Search) -> ClusterRecord:
    world.report("info", f"{record.cluster}: still looking: {_when(search)}")
    return record._replace(detail=_detail(search), search=search)


def _gives_up(world: World, record: ClusterRecord, search: Search) -> ClusterRecord:
    why = f"looked for {duration.text(search.until - search.since)}, {search.tries:,} tries"
    world.report("warning", f"{record.cluster}: gave up: {why}; nothing was acquired")
    todo = f"an edit, or {rerun_command(record.cluster)}, looks again"
    return record._replace(
        status=GAVE_UP,
        detail=f"{why}; gave up {moment(search.until)}",
        reasons=(f"gave up: {why}; {todo}",),
    )


def _when(search: Search) -> str:
    where = f" ({search.where})" if search.where else ""
    return f"next look {moment(search.next_at)}{where}, gives up {moment(search.until)}"


def _detail(search: Search) -> str:
    looks = f"next look {moment(search.next_at)}, by `gpus watch {argument()}`"
    return f"until {moment(search.until)}; {looks}"
