"""What was spent in a month, as this machine's journal knows it: price at launch times time, by
cluster, volume and day. Asks no cloud.

Owns the sums over all stacks and what is held ad hoc; `budget` owns one stack's own ledger. What
has no known price, or no known size, is named, and never counted as free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.engine import budget, volume_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.engine.budget import Charge
    from providers.engine.journal.volumes import VolumeSpell
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


class VolumeSpend(NamedTuple):
    """One volume's month, as a cluster's. `last` is what it is by now, or was at its end, at its
    price a month. `users` are the clusters that run and mount it; None where that is not known.
    """

    project: str
    stack: str
    last: VolumeSpell
    hours: float
    spent: int
    to_come: int
    users: tuple[str, ...] | None

    @property
    def volume(self) -> str:
        return self.last.spec.name

    @property
    def unknown(self) -> bool:
        return self.last.micro_usd is None

    @property
    def why_unused(self) -> str:
        """Why it costs money for nobody; empty where something uses it, or may."""
        if self.last.ended_at is not None:
            return ""
        if not self.last.native_id:
            return "a run was cut short, and whether it was made is not known"
        if self.last.is_kept:
            return "no stack declares it any more"
        return "no cluster that runs mounts it" if self.users == () else ""


class MonthSpend(NamedTuple):
    """One world's month. `days` has each day (`2026-11-03`) on which something was spent."""

    world: str
    month: str
    clusters: tuple[ClusterSpend, ...]
    days: tuple[tuple[str, int], ...]
    volumes: tuple[VolumeSpend, ...] = ()

    @property
    def spent(self) -> int:
        return sum(each.spent for each in self.clusters) + sum(each.spent for each in self.volumes)

    @property
    def forecast(self) -> int:
        """What the month comes to, if what runs stays as it is."""
        clusters = sum(each.to_come for each in self.clusters)
        return self.spent + clusters + sum(each.to_come for each in self.volumes)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The clusters whose price is not known at some time, and the volumes whose cost is not."""
        return (
            *(each.cluster for each in self.clusters if each.unknown),
            *(f"{budget.VOLUME}{each.volume}" for each in self.volumes if each.unknown),
        )


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
    launched = [row.owner for row in world.journal.launches(world.name)]
    paid = (*world.journal.payers(world.name), *world.journal.racers(world.name))
    for owner in dict.fromkeys((*launched, *paid)):
        project, name = stacks.get(owner, ("", ""))
        if stack.rpartition("/")[2] not in {"", name}:
            continue
        spells = budget.with_ends(budget.of_journal(world, [owner]), now).values()
        for cluster in dict.fromkeys(spell.cluster for spell in spells):
            own = [spell for spell in spells if spell.cluster == cluster]
            hours = _hours(own, begin, min(now, end))
            spent = sum(spell.cost(begin, min(now, end)) for spell in own)
            untold = any(
                (spell.upfront is None and begin <= spell.launched_at < end)
                or (spell.micro_usd is None and _hours([spell], begin, min(now, end)) > 0)
                for spell in own
            )
            if any(_runs(each, begin, min(now, end)) for each in own) or spent or untold:
                all_spells += own
                clusters.append(
                    ClusterSpend(
                        project,
                        name,
                        cluster,
                        hours,
                        spent,
                        sum(spell.cost(max(now, begin), end) for spell in own),
                        untold,
                    )
                )
    volumes, charges = _volumes(world, stacks, stack, (begin, end))
    days = _days([*all_spells, *charges], begin, min(now, end))
    return MonthSpend(world.name, month, tuple(clusters), days, volumes)


def _volumes(
    world: World,
    stacks: Mapping[str, tuple[str, str]],
    stack: str,
    month: tuple[float, float],
) -> tuple[tuple[VolumeSpend, ...], list[Charge]]:
    """What the volumes of these stacks cost in a month, each with its charges."""
    now, (begin, end) = world.clock.now(), month
    by_volume: dict[tuple[str, str], list[VolumeSpell]] = {}
    for each in world.journal.volume_spells(world.name):
        name = stacks.get(each.owner, ("", ""))[1]
        if stack.rpartition("/")[2] in {"", name}:
            # What a stack took over from its own earlier life is one volume.
            life = each.native_id or f"{each.owner}/{each.spec.name}"
            by_volume.setdefault((each.spec.provider, life), []).append(each)
    found: list[VolumeSpend] = []
    known: list[Charge] = []
    for spells in by_volume.values():
        last = max(spells, key=lambda each: (each.ended_at is None, each.began_at))
        own = volume_costs.charges(spells)
        if any(_runs(each, begin, min(now, end)) for each in own):
            hours = _hours(own, begin, min(now, end))
            spent = sum(each.cost(begin, min(now, end)) for each in own)
            to_come = sum(each.cost(max(now, begin), end) for each in own)
            whose = stacks.get(last.owner, ("", ""))
            users = _users(world, last) if last.ended_at is None else None
            found.append(VolumeSpend(*whose, last, hours, spent, to_come, users))
            known += own
    return tuple(found), known


def _users(world: World, volume: VolumeSpell) -> tuple[str, ...] | None:
    """The owner's clusters that run and mount it, by their orders; None where one was ordered from
    another machine.
    """
    from providers.engine.journal.orders import EVERY

    running = [
        each
        for each in world.journal.launches(world.name, volume.owner)
        if each.ended_at is None and each.native_ids
    ]
    ordered = {
        handle.native_id: [mount.name for mount in row.order.setup.volumes]
        for row in world.journal.orders(world.name, volume.owner, states=EVERY)
        for handle in row.handles
    }
    mounts = {each.cluster: [ordered.get(native) for native in each.native_ids] for each in running}
    if any(None in names for names in mounts.values()):
        return None
    return tuple(
        cluster
        for cluster, names in mounts.items()
        if any(volume.spec.name in (each or ()) for each in names)
    )


def _runs(spell: Charge, since: float, until: float) -> bool:
    """Whether it runs at some time between two moments, were it only since the last of them: what
    began a millisecond ago has cost nothing that could be counted, and is there.
    """
    ends = (moment for moment in (spell.ended_at, spell.ends_at) if moment)
    return spell.launched_at <= until and all(
        moment > max(since, spell.launched_at) for moment in ends
    )


def _hours(spells: Sequence[Charge], since: float, until: float) -> float:
    """How long they ran between two times, together."""
    priced = (spell._replace(micro_usd=1_000_000, upfront=0) for spell in spells)
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
