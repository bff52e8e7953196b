"""What volumes cost: written into the journal, looked after where nobody declares one any more, and
counted with the machines of a stack.

A volume costs by its size and month. Where its price or its size is not known, its cost is not
known: it is named, and no sum has it. It refuses no purchase, since nothing a user does would make
it known.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from providers.engine import budget
from providers.engine.journal.volumes import VolumeSpell
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.deadlines import looking
from providers.engine.runtime.tasks import repeated
from providers.errors import GpusError
from providers.model.money import HOURS_PER_MONTH, dollars

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from providers.engine.budget import Budget, Charge
    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.model.volume import Volume, VolumeSpec

UNSEEN_S = 3_600.0
"""A volume whose order was cut short, and that no list shows this long after it was last sent, was
never made.
"""


def spell(
    world: World, owner: str, spec: VolumeSpec, native_id: str = "", account: Account | None = None
) -> VolumeSpell:
    """What such a volume costs from now on, at today's bundled price."""
    from providers.catalog import volumes

    price = volumes.price(spec)
    monthly = None if price is None else price.per_month(spec.size_gib)
    as_of = "" if price is None else price.as_of
    return VolumeSpell(owner, spec, native_id, account, monthly, as_of, world.clock.now())


async def count(world: World, owner: str, found: Volume, account: Account | None) -> None:
    """Writes down what an observed volume of this owner costs."""
    costs = spell(world, owner, found.spec, found.handle.native_id, account)
    await asyncio.to_thread(world.journal.count_volume, world.name, costs, found.created_at)


async def keep(
    world: World, owner: str, spec: VolumeSpec, native_id: str, account: Account | None
) -> None:
    """Writes down that nobody declares a volume any more, and that it goes on to cost money."""
    costs = spell(world, owner, spec, native_id, account)._replace(is_kept=True)
    await asyncio.to_thread(world.journal.count_volume, world.name, costs)


async def settle(world: World, owners: Collection[str] | None = None) -> None:
    """Looks at every volume that costs money by the journal, of these owners or of all: one that
    its cloud does not know any more has ended. What can't be asked stays as it is.
    """
    if not world.has_journal:
        return
    with suppress(GpusError):
        every = await asyncio.to_thread(world.journal.volume_spells, world.name)
        asked = [
            each
            for each in every
            if each.ended_at is None and (owners is None or each.owner in owners)
        ]
        with looking(world.name):
            await asyncio.gather(*(_settled(world, each) for each in asked))


async def _settled(world: World, known: VolumeSpell) -> None:
    provider, journal = known.spec.provider, world.journal
    with suppress(GpusError):
        store = (await adapter_of(world, provider, known.account)).volumes
        if known.native_id:
            if await repeated(world, provider, store.look, known.handle, tries=2) is None:
                now = world.clock.now()
                await asyncio.to_thread(journal.gone_volume, world.name, known.handle, now)
            return
        owner, spec, before = known.owner, known.spec, world.clock.now() - UNSEEN_S
        found = await repeated(world, provider, lambda: store.find(owner=owner, name=spec.name))
        there = [each for each in found if each.spec.place == spec.place]
        if there:
            await count(world, owner, there[0], known.account)
        else:
            await asyncio.to_thread(journal.unmade_volume, world.name, owner, spec, before)


def charges(spells: Iterable[VolumeSpell]) -> tuple[Charge, ...]:
    """The same as the charges of a ledger, by the hour. Pure."""
    return tuple(
        budget.Charge(
            f"{budget.VOLUME}{each.spec.name}",
            f"{each.spec.size_gib}@{each.spec.provider} {each.spec.place}".rstrip(),
            each.spec.provider,
            None if each.micro_usd is None else round(each.micro_usd / HOURS_PER_MONTH),
            each.began_at,
            each.ended_at or 0.0,
        )
        for each in spells
    )


def of_journal(world: World, owners: Iterable[str]) -> tuple[Charge, ...]:
    """Every placement and every volume of these owners that this machine's journal knows. Raises
    GpusError where it can't be read.
    """
    owners = tuple(owners)
    if not world.has_journal:
        return ()
    stored = [
        charge
        for owner in owners
        for charge in charges(world.journal.volume_spells(world.name, owner))
    ]
    return (*budget.of_journal(world, owners), *stored)


def learn(limit: Budget, known: Iterable[Charge], spec: VolumeSpec, now: float) -> None:
    """Counts what the journal knows, in place of what was set aside for this volume."""
    limit.learn(known, now)
    limit.reserve(f"{budget.VOLUME}{spec.name}", 0)


def afford(limit: Budget, spec: VolumeSpec, monthly: int | None, now: float) -> str:
    """The arithmetic of a volume that is to be made, or to grow, which is set aside; empty where
    that much is paid already. Raises GpusError where it does not fit into what the stack may spend.
    """
    name = f"{budget.VOLUME}{spec.name}"
    head, sums = limit.head(now, name), limit.sums(now, name)
    if monthly is None:
        return f"{head}, and this at a cost that is not known"
    cost = budget.cost_of(round(monthly / HOURS_PER_MONTH), None, now) or 0
    total = sums.spent + sums.running + cost
    line = f"{head}, {dollars(cost)} for this to the month's end = {dollars(total)}"
    paid = limit.sums(now).running - sums.running
    if cost <= paid:
        return ""
    if total > limit.limit:
        raise GpusError(
            f"{spec.name}: nothing is bought: max_spend {line}, {limit.rest(total)}; declare a"
            " smaller one, destroy what runs, or raise gpus:max_spend"
        )
    limit.reserve(name, cost)
    return f"{line}, {limit.rest(total)}"
