"""What a stack has spent this month, and whether a purchase still fits into what it may spend. In
whole micro-dollars, by calendar months in UTC.

Owns the ledger that the stack's ownership keeps in its state: single placements ("spells") with
price and time, and the sum of those that ended long ago. What is not known is never zero: a spell
whose end nobody saw counts as running, until its own limit at most; one without a price refuses
purchases. Pure, but for what reads the journal; must not import an adapter.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.model import duration
from providers.model.ask import BLOCK
from providers.model.money import dollars, per_hour

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.offer import Candidate

SPELLS_MAX = 16
"""How many ended spells are kept one by one; older ones are in the months' sums. A spell takes some
80 bytes of the state.
"""
VOLUME = "volume "
"""What the name of a volume begins with among those of clusters."""
HEDGE = "hedge-"
"""What stands before an order's token, in place of a generation, where the order was one of two at
once and is not kept.
"""
_HOUR_S = 3_600


class Charge(NamedTuple):
    """One placement that costs money from `launched_at` until `ended_at` (0: it runs, as far as is
    known), at most until `ends_at` (0: it has no limit). `micro_usd` is all nodes per hour, None
    when no source had a price.
    """

    cluster: str
    generation: str
    provider: str
    micro_usd: int | None
    launched_at: float
    ended_at: float = 0.0
    ends_at: float = 0.0
    upfront: int | None = 0
    """What was paid at once at `launched_at`, for all of it until `ends_at`: a block. Its machines
    then cost nothing by the hour. None: it is not known how much.
    """

    @property
    def is_volume(self) -> bool:
        return self.cluster.startswith(VOLUME)

    @property
    def is_block(self) -> bool:
        """Whether it is a payment of one moment, also one that failed."""
        at_once = self.micro_usd == 0 and 0 < self.ended_at <= self.launched_at
        return at_once or self.upfront != 0

    @property
    def is_beside(self) -> bool:
        """Whether it is paid beside what runs, and ends nothing."""
        return self.is_block or self.generation.startswith(HEDGE)

    @property
    def is_untold(self) -> bool:
        return self.micro_usd is None or self.upfront is None

    @property
    def key(self) -> str:
        return f"{self.cluster}/{self.generation}/{int(self.launched_at)}"

    def cost(self, since: float, until: float) -> int:
        """What it costs between two moments, whatever becomes of it: up to its end, else its limit.
        An unknown price is left out.
        """
        ends = [moment for moment in (self.ended_at, self.ends_at) if moment]
        seconds = min([until, *ends]) - max(since, self.launched_at)
        at_once = self.upfront or 0 if since <= self.launched_at < until else 0
        return at_once + int((self.micro_usd or 0) * max(0.0, seconds) / _HOUR_S)


class Ledger(NamedTuple):
    """`months`: this month's sum of the spells that are no longer kept one by one, by its name, as
    in `2026-11`; `spells` by their keys. What began before `folded_before` and is not among them is
    in the sum.
    """

    months: Mapping[str, int] = {}
    spells: Mapping[str, Charge] = {}
    folded_before: float = 0.0


def read(raw: Mapping[str, Any] | None) -> Ledger:
    """The ledger of `write`'s form (Pulumi's wire knows only floats)."""
    raw = raw or {}
    spells = {}
    for key, item in (raw.get("runs") or {}).items():
        cluster, generation, launched = key.rsplit("/", 2)
        provider, price, ended, ends, *upfront = item
        spells[key] = Charge(
            cluster,
            generation,
            str(provider),
            None if price is None else int(price),
            float(launched),
            float(ended),
            float(ends),
            None if upfront == [None] else int(upfront[0] if upfront else 0),
        )
    return Ledger(
        {name: int(value) for name, value in (raw.get("months_micro_usd") or {}).items()},
        spells,
        float(raw.get("folded_before") or 0.0),
    )


def write(ledger: Ledger) -> dict[str, Any]:
    """Plain JSON types, small."""
    runs = {
        key: [
            spell.provider,
            spell.micro_usd,
            int(spell.ended_at),
            int(spell.ends_at),
            *([] if spell.upfront == 0 else [spell.upfront]),
        ]
        for key, spell in sorted(ledger.spells.items())
    }
    return {
        "months_micro_usd": dict(ledger.months),
        "runs": runs,
        "folded_before": int(ledger.folded_before),
    }


def month(now: float) -> str:
    """`2026-11`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m")


def bounds(name: str) -> tuple[float, float]:
    """The first moment of a month, and that of the next one."""
    from datetime import UTC, datetime

    year, number = map(int, name.split("-"))
    after = (year + 1, 1) if number == 12 else (year, number + 1)
    return (
        datetime(year, number, 1, tzinfo=UTC).timestamp(),
        datetime(*after, 1, tzinfo=UTC).timestamp(),
    )


def spell_of(record: ClusterRecord) -> Charge:
    """The spell of what is held and runs."""
    return Charge(
        record.cluster,
        record.generation,
        record.provider,
        0 if record.placement.capacity == BLOCK else record.price.micro_usd,
        record.launched_at,
        0.0,
        record.ends_at,
    )


def of_journal(world: World, owners: Iterable[str]) -> tuple[Charge, ...]:
    """Every placement of these owners that this machine's journal knows. Raises GpusError where the
    journal can't be read.
    """
    if not world.has_journal:
        return ()
    found: list[Charge] = []
    for owner in owners:
        found += [
            Charge(each.cluster, each.block, each.provider, 0, *times, each.ends_at, each.micro_usd)
            for each in world.journal.prepaid(world.name, owner)
            for times in ((each.paid_at, each.paid_at),)
        ]
        found += [
            Charge(each.cluster, f"{HEDGE}{each.token}", *each[2:])
            for each in world.journal.beaten(world.name, owner)
        ]
        for launch in world.journal.launches(world.name, owner):
            if launch.launched_at:
                ends = float(launch.record.get("ends_at") or 0.0)
                ended = launch.ended_at or 0.0
                found.append(
                    Charge(
                        launch.cluster,
                        launch.generation,
                        launch.provider,
                        0 if launch.record.get("capacity") == BLOCK else launch.micro_usd,
                        launch.launched_at,
                        ended,
                        ends,
                    )
                )
    return tuple(found)


def merged(ledger: Ledger, known: Iterable[Charge], now: float) -> Ledger:
    """The ledger with what is known besides. The same in any order, and however often.

    The earliest end that anybody knows counts. A cluster is at one place at a time: where it was
    launched again, the previous spell has ended.
    """
    spells = dict(ledger.spells)
    for spell in known:
        size, at, _ = spell.generation.partition("@")
        if spell.is_volume and at:
            # As older versions wrote it, without its place.
            spells.pop(spell._replace(generation=size).key, None)
        old = spells.get(spell.key)
        # A volume that costs on is in no sum, however long ago it was made.
        costs_on = spell.is_volume and not spell.ended_at
        free = spell.generation.startswith(HEDGE) and spell.ended_at == spell.launched_at
        if old is None and (free or (spell.launched_at < ledger.folded_before and not costs_on)):
            continue
        if old is not None:
            ends = [moment for moment in (old.ended_at, spell.ended_at) if moment]
            paid = [fee for fee in (old.upfront, spell.upfront) if fee is not None]
            spell = spell._replace(  # noqa: PLW2901 - the same spell, told by two
                ended_at=min(ends, default=0.0),
                micro_usd=old.micro_usd if spell.micro_usd is None else spell.micro_usd,
                upfront=min(paid, default=None),  # a payment that failed is nothing for all
            )
        spells[spell.key] = spell
    ended = with_ends(spells.values(), now)
    return _folded(Ledger(ledger.months, ended, ledger.folded_before), now)


def with_ends(spells: Iterable[Charge], now: float) -> dict[str, Charge]:
    """One owner's spells by their keys; what was launched again, or is past its limit, has
    ended.
    """
    found = {spell.key: spell for spell in spells}
    # A cluster runs once at a time; a volume once at its place, which follows its size.
    runs: dict[tuple[str, str], list[Charge]] = {}
    hourly = [spell for spell in found.values() if not spell.is_beside]
    # A volume that was made larger at once began twice within one second.
    for spell in sorted(hourly, key=lambda item: (item.launched_at, not item.ended_at)):
        runs.setdefault((spell.cluster, spell.generation.partition("@")[2]), []).append(spell)
    for run in runs.values():
        for previous, later in pairwise(run):
            if not previous.ended_at:
                found[previous.key] = previous._replace(ended_at=later.launched_at)
    for key, spell in found.items():
        if not spell.ended_at and spell.ends_at and spell.ends_at <= now:
            found[key] = spell._replace(ended_at=spell.ends_at)
    return found


def _folded(ledger: Ledger, now: float) -> Ledger:
    """The ledger kept small: what ended before this month goes, and the oldest of many ended spells
    go into the month's sum.
    """
    present, spells, before = month(now), dict(ledger.spells), ledger.folded_before
    begin, end = bounds(present)
    spent = ledger.months.get(present, 0)
    ended = sorted(
        (spell for spell in spells.values() if spell.ended_at), key=lambda item: item.launched_at
    )
    late = [spell for spell in ended if spell.ended_at > begin]
    # What nobody has a price of is remembered one by one: it refuses purchases.
    many = [spell for spell in late if not spell.is_untold][: max(0, len(late) - SPELLS_MAX)]
    for spell in (*(spell for spell in ended if spell.ended_at <= begin), *many):
        spent += spell.cost(begin, end)
        del spells[spell.key]
        before = max(before, spell.launched_at + 1)
    return Ledger({present: spent} if spent else {}, spells, before)


def same(one: Ledger, other: Ledger) -> bool:
    """Whether two ledgers would be written alike."""
    return write(one) == write(other)


class MonthTotals(NamedTuple):
    """A month's money up to now, and what runs will cost until its own limit or the month's end.
    `unknown` names clusters without a price, `uncounted` volumes without a known cost.
    """

    spent: int
    running: int
    unknown: tuple[str, ...]
    uncounted: tuple[str, ...] = ()

    @property
    def least(self) -> str:
        return "at least " if self.unknown or self.uncounted else ""


class Budget:
    """What one stack may spend in this month, what it has spent and will. One for a process:
    purchases take turns, so that each sees the previous.

    `limit` is micro-dollars a calendar month (UTC).
    """

    def __init__(self, limit: int, ledger: Ledger) -> None:
        self.limit = limit
        self._ledger = ledger
        self._reserved: dict[str, int] = {}
        self._turn: asyncio.Lock | None = None

    @property
    def turn(self) -> asyncio.Lock:
        """Held while something is bought."""
        if self._turn is None:
            import asyncio

            self._turn = asyncio.Lock()
        return self._turn

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def learn(self, spells: Iterable[Charge], now: float) -> None:
        """Adds what a state or the journal knows."""
        self._ledger = merged(self._ledger, spells, now)

    def bought(self, spell: Charge, now: float) -> None:
        """Counts a purchase that was made just now, in place of what was set aside for it."""
        self._reserved.pop(spell.cluster, None)
        self.learn([spell], now)

    def reserve(self, cluster: str, cost: int) -> None:
        """Sets money aside for a purchase that a preview shows, so that its sibling does not count
        on the same.
        """
        self._reserved[cluster] = cost

    def sums(self, now: float, cluster: str = "") -> MonthTotals:
        """This month's money. Of `cluster` only what it has cost so far: what it will is decided
        anew.
        """
        begin, end = bounds(month(now))
        spells = list(self._ledger.spells.values())
        spent = self._ledger.months.get(month(now), 0) + sum(
            spell.cost(begin, now) for spell in spells
        )
        others = [spell for spell in spells if spell.cluster != cluster]
        running = sum(spell.cost(now, end) for spell in others) + sum(
            cost for name, cost in self._reserved.items() if name != cluster
        )
        untold = dict.fromkeys(
            (spell.cluster, spell.is_volume)
            for spell in spells
            if spell.is_untold and (not spell.ended_at or spell.ended_at > begin)
        )
        return MonthTotals(
            spent,
            running,
            tuple(name for name, is_volume in untold if not is_volume),
            tuple(name for name, is_volume in untold if is_volume),
        )

    def fits(
        self,
        candidate: Candidate,
        limit_s: int | None,
        now: float,
        cluster: str,
        *,
        besides: int = 0,
    ) -> bool:
        """Whether its whole life in this month can still be paid for, with so much `besides`."""
        sums = self.sums(now, cluster)
        cost = self.whole(candidate, limit_s, now, cluster)
        if cost is None or sums.unknown:
            return False
        return sums.spent + sums.running + besides + cost <= self.limit

    def block(self, candidate: Candidate, now: float, cluster: str) -> int | None:
        """What a block still costs: nothing where the cluster's own is not over yet. None for what
        is bought by the hour.
        """
        term = candidate.offer.term
        if term is None:
            return None
        held = (spell for spell in self._ledger.spells.values() if spell.upfront != 0)
        paid = any(spell.cluster == cluster and spell.ends_at > now for spell in held)
        return 0 if paid else term.upfront_micro_usd

    def whole(
        self, candidate: Candidate, limit_s: int | None, now: float, cluster: str
    ) -> int | None:
        """What a candidate comes to in this month; None where its price is not known."""
        block = self.block(candidate, now, cluster)
        return cost_of(candidate.micro_usd, limit_s, now) if block is None else block

    def standing(self, now: float) -> str:
        """What was spent and what is to come, in one line."""
        sums = self.sums(now)
        return (
            f"{dollars(self.limit)} in {month(now)}: {sums.least}{dollars(sums.spent)} spent,"
            f" {dollars(sums.running)} to come of what runs, {self.rest(sums.spent + sums.running)}"
            f"{_besides(sums)}"
        )

    def head(self, now: float, cluster: str) -> str:
        """What was spent, and what else than this cluster runs."""
        sums = self.sums(now, cluster)
        return (
            f"{dollars(self.limit)} in {month(now)}: {sums.least}{dollars(sums.spent)} spent,"
            f" {dollars(sums.running)} to come of what else runs{_besides(sums)}"
        )

    def rest(self, total: int) -> str:
        """`$10.00 left`, or `$5.00 too much`, where the month comes to this."""
        left = self.limit - total
        return f"{dollars(left)} left" if left >= 0 else f"{dollars(-left)} too much"

    def line(
        self,
        micro_usd: int | None,
        limit_s: int | None,
        now: float,
        cluster: str,
        block: int | None = None,
    ) -> str:
        """The arithmetic in one line: what was spent, what runs, what this would cost, and what is
        left of the limit. `block` is what a block still costs, in place of a price by the hour.
        """
        sums = self.sums(now, cluster)
        cost = cost_of(micro_usd, limit_s, now) if block is None else block
        head = self.head(now, cluster)
        if cost is None:
            return f"{head}, and this at a price that is not known"
        time = duration.text(_seconds(limit_s, now))
        until = (
            "its limit"
            if limit_s is not None and now + limit_s <= bounds(month(now))[1]
            else "the month's end"
        )
        total = sums.spent + sums.running + cost
        if block is not None:
            what = f"{dollars(cost)} for this block = {sums.least}{dollars(total)}"
            return f"{head}, {what}, {self.rest(total)}"
        return (
            f"{head}, {dollars(cost)} for this ({time} to {until} at {per_hour(micro_usd)}) ="
            f" {sums.least}{dollars(total)}, {self.rest(total)}"
        )


def cost_of(micro_usd: int | None, limit_s: int | None, now: float) -> int | None:
    """What that price comes to from now to the limit or the month's end; None where the price is
    not known.
    """
    return None if micro_usd is None else int(micro_usd * _seconds(limit_s, now) / _HOUR_S)


def _seconds(limit_s: int | None, now: float) -> int:
    left = int(bounds(month(now))[1] - now)
    return left if limit_s is None else min(limit_s, left)


def _besides(sums: MonthTotals) -> str:
    """The volumes that no sum has."""
    return f" (without {', '.join(sums.uncounted)}: cost not known)" if sums.uncounted else ""
