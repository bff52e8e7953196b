"""What was spent in a month, as this machine's journal knows it: price at launch times time, by
cluster and by day. Asks no cloud.

Owns the sums over all stacks and what is held ad hoc; `budget` owns one stack's own ledger. A
placement without a known price is named, and never counted as free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine import budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.budget import Charge
    from providers.engine.runtime.world import World

_DAY_S = 86_400


class ClusterSpend(NamedTuple):
    """One cluster's month, in micro-dollars: `spent` up to now, and `to_come` of what runs until
    its limit or the month's end. `stack` is empty for what is ad hoc. `unknown` where some of it
    had no price.
    """

    project: str
    stack: str
    cluster: str
    hours: float
    spent: int
    to_come: int
    unknown: bool


class MonthSpend(NamedTuple):
    """One world's month. `days` has each day (`2026-11-03`) on which something was spent."""

    world: str
    month: str
    clusters: tuple[ClusterSpend, ...]
    days: tuple[tuple[str, int], ...]

    @property
    def spent(self) -> int:
        return sum(each.spent for each in self.clusters)

    @property
    def forecast(self) -> int:
        """What the month comes to, if what runs stays as it is."""
        return self.spent + sum(each.to_come for each in self.clusters)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The clusters whose price is not known at some time."""
        return tuple(each.cluster for each in self.clusters if each.unknown)


def of_month(world: World, month: str = "", stack: str = "") -> MonthSpend:
    """What an open world's journal knows of a month (this one, if none is named); of one stack, if
    one is named. Raises GpusError where the journal cannot be read.
    """
    now = world.clock.now()
    month = month or budget.month(now)
    begin, end = budget.bounds(month)
    if not world.has_journal:
        return MonthSpend(world.name, month, (), ())
    stacks = {row.owner: (row.project, row.stack) for row in world.journal.owners(world.name)}
    clusters: list[ClusterSpend] = []
    all_spells: list[Charge] = []
    for owner in dict.fromkeys(row.owner for row in world.journal.launches(world.name)):
        project, name = stacks.get(owner, ("", ""))
        if stack.rpartition("/")[2] not in {"", name}:
            continue
        spells = budget.with_ends(budget.of_journal(world, [owner]), now).values()
        for cluster in dict.fromkeys(spell.cluster for spell in spells):
            own = [spell for spell in spells if spell.cluster == cluster]
            hours = _hours(own, begin, min(now, end))
            if hours:
                all_spells += own
                clusters.append(
                    ClusterSpend(
                        project,
                        name,
                        cluster,
                        hours,
                        sum(spell.cost(begin, min(now, end)) for spell in own),
                        sum(spell.cost(max(now, begin), end) for spell in own),
                        any(
                            spell.micro_usd is None and _hours([spell], begin, min(now, end))
                            for spell in own
                        ),
                    )
                )
    return MonthSpend(world.name, month, tuple(clusters), _days(all_spells, begin, min(now, end)))


def _hours(spells: Sequence[Charge], since: float, until: float) -> float:
    """How long they ran between two times, together."""
    priced = (spell._replace(micro_usd=1_000_000) for spell in spells)
    return sum(spell.cost(since, until) for spell in priced) / 1_000_000


def _days(spells: Sequence[Charge], begin: float, until: float) -> tuple[tuple[str, int], ...]:
    """Each day's money, UTC; days without any are left out."""
    from datetime import UTC, datetime

    found = []
    day = begin
    while day < until:
        spent = sum(spell.cost(day, min(day + _DAY_S, until)) for spell in spells)
        if spent:
            found.append((datetime.fromtimestamp(day, UTC).strftime("%Y-%m-%d"), spent))
        day += _DAY_S
    return tuple(found)
