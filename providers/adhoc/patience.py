"""Waiting for capacity: a purchase that is tried again whenever a place may have room, until a
deadline. Owns when it is tried, and what is remembered of it meanwhile.

Each try is a whole purchase, which buys at most once and leaves nothing. Between two tries nothing
exists, so a killed wait goes on where it was: the same name has the same deadline, and takes over
what an earlier run had bought.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from providers.adhoc import access
from providers.adhoc.machine import described
from providers.adhoc.rentals import Booked
from providers.engine.market import reopening
from providers.engine.messages import moment
from providers.errors import (
    AllFailed,
    GpusError,
    OutcomeUnknown,
    Problem,
    RateLimited,
    SpecError,
    Transient,
)
from providers.home import private, private_folder
from providers.model import duration, foreign
from providers.remote import notice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from providers.adhoc.machine import AsyncMachine
    from providers.engine.runtime.world import World
    from providers.model.spec import Cluster
    from providers.remote.notice import Target

T = TypeVar("T")

STEP_S = 60.0
"""The longest sleep: a machine that was suspended meanwhile notices soon."""


class Patience(NamedTuple):
    """How long to look for capacity, in seconds from the first try on, and whom to tell."""

    within_s: float
    notify: tuple[Target, ...] = ()


def read(within: str, references: tuple[str, ...] = ()) -> Patience:
    """Raises SpecError."""
    try:
        seconds = duration.declared(within)
    except ValueError:
        todo = duration.remedy(within)
        wanted = 'a duration such as "12h"'
        raise SpecError([Problem("within", wanted, repr(within), todo)]) from None
    if not 0 < seconds <= duration.LONGEST_S:
        raise SpecError([Problem("within", "more than none, and at most ten years", repr(within))])
    return Patience(seconds, notice.targets(references, "notify"))


async def patiently(
    world: World,
    spec: Cluster,
    patience: Patience,
    rent: Callable[[], Awaitable[AsyncMachine]],
) -> AsyncMachine:
    """What `rent` acquires, tried again until it does or the time is over.

    Raises AllFailed where it is over, or no wait could help; Busy while another process looks for
    the same name; and what `rent` raises that no wait would change. Then nothing is left running,
    or the error names what is.
    """
    holder, use = uuid.uuid4().hex, f"{access.owner()}/get"
    world.journal.take(world.name, use, spec.name, holder, world.clock.now())
    search = _Search(world, spec, patience)
    try:
        machine = await search.run(rent)
    except GpusError as error:
        search.forget()
        if isinstance(error, SpecError):
            raise
        first = next(iter(str(error).splitlines()), "")
        await search.tell("gave up", f"{spec.name}: nothing was acquired: {first}")
        raise
    except Exception:
        search.forget()
        raise
    finally:
        world.journal.drop(world.name, use, spec.name, holder)
    search.forget()
    told = "; ".join((described(machine), machine.ssh, *machine.record.reasons))
    await search.tell("acquired", told)
    return machine


class _Search:
    def __init__(self, world: World, spec: Cluster, patience: Patience) -> None:
        self.world, self.spec, self.patience = world, spec, patience
        self.since, self.tries = self._remembered()
        self.until = self.since + patience.within_s

    @property
    def now(self) -> float:
        return self.world.clock.now()

    async def run(self, rent: Callable[[], Awaitable[AsyncMachine]]) -> AsyncMachine:
        ask, setup = self.spec.ask(), self.spec.setup()
        listed = reopening.is_listed(self.world, ask)
        failures = 0
        while True:
            found = await self.world.call("", reopening.look, self.world, ask, setup)
            due = reopening.next_try(found, failures, self.now, self.now, listed=listed)
            last = due >= self.until
            await self._sleep(min(due, self.until), found)
            if found is None and not last and listed:
                failures += 1
                continue
            try:
                return await self._rented(rent)
            except AllFailed as error:
                self._tried(len(error.attempts))
                if error.final or found is None:
                    raise
                if last:
                    raise self._over(error) from error
            except (Transient, RateLimited, OutcomeUnknown) as error:
                # Nothing more is bought while an earlier order is not settled: the next try settles
                # it first.
                self._tried(1)
                if last:
                    raise
                self.world.report("warning", f"{self.spec.name}: {error}")
            failures += 1

    async def _rented(self, rent: Callable[[], Awaitable[AsyncMachine]]) -> AsyncMachine:
        """What `rent` acquires. A block that it paid for is waited for, past the deadline too."""
        while True:
            try:
                return await rent()
            except Booked as booked:
                again = "ended before, the same command goes on"
                self.world.report("info", f"{self.spec.name}: {booked}; {again}")
                await self._until(booked.begins_at)

    async def _sleep(self, until: float, found: reopening.Reopening | None) -> None:
        if until <= self.now:
            return
        what = (
            "nothing acceptable is offered"
            if found is None
            else f"{found.places:,} {'place' if found.places == 1 else 'places'} could serve, all"
            " sold out or refused lately"
        )
        where = "" if found is None else f" ({found.first.provider} {found.first.placement.where})"
        self.world.report(
            "info",
            f"{self.spec.name}: still looking: {what}; next try {moment(until)}{where}, gives up"
            f" {moment(self.until)}",
        )
        await self._until(until)

    async def _until(self, moment_s: float) -> None:
        while (left := moment_s - self.now) > 0:
            await self.world.clock.sleep(min(left, STEP_S))

    def _over(self, error: AllFailed) -> AllFailed:
        long = duration.text(self.patience.within_s)
        head = f"{self.spec.name}: looked for {long}, {self.tries:,} tries; the last ones:"
        return AllFailed(f"{head}\n{error}", error.attempts, error.refusals)

    async def tell(self, what: str, text: str) -> None:
        """Sends a notice; what does not take it is a warning."""
        for shown in await notice.tell(self.patience.notify, f"gpus: {what}", text):
            self.world.report("warning", f"{self.spec.name}: {shown} did not take the notice")

    # What is remembered, so that a killed wait goes on.

    @property
    def _file(self) -> Path:
        place = access.folder(self.world.name, self.spec.name)
        return place.with_name(f"{place.name}.wanted")

    def _remembered(self) -> tuple[float, int]:
        """(since when, how many tries); written where this is the first."""
        now = self.now
        try:
            told = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            told = None
        told = told if isinstance(told, dict) else {}
        since = foreign.real(told.get("since"), foreign.SECONDS)
        if since is not None and since <= now < since + self.patience.within_s:
            tries = foreign.whole(told.get("tries"), foreign.Bounds(0, 1e9)) or 0
            self.world.report(
                "info",
                f"{self.spec.name}: goes on looking, since {moment(since)}: {tries:,} tries so far",
            )
            return since, tries
        self._write(now, 0)
        return now, 0

    def _tried(self, more: int) -> None:
        self.tries += more
        self._write(self.since, self.tries)

    def _write(self, since: float, tries: int) -> None:
        private_folder(self._file.parent)
        partial = private(self._file.with_suffix(".new"))
        partial.write_text(json.dumps({"since": since, "tries": tries}), encoding="utf-8")
        partial.replace(self._file)

    def forget(self) -> None:
        """It is over: the same name begins anew."""
        with suppress(OSError):
            self._file.unlink()
