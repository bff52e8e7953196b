"""A stack's budget in the plugin: made of what the Ownership's state and this machine's journal
know, asked when a preview or an update would buy.

Owns what of a ledger is written when, and the lines about it. The counting itself is
`providers.engine.budget`. Must not import grpc.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from providers.errors import GpusError
from providers.model.money import micro_usd
from providers.model.stack import max_spend_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.budget import Budget, Ledger
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.errors import Problem
    from providers.model.ask import Ask
    from providers.model.machine import Setup
    from providers.planner.plan import Plan


def problems(values: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with `max_spend`, if it is there."""
    found = max_spend_problem("max_spend", values.get("max_spend"), as_text=False)
    return [] if found is None else [found]


def limit(values: Mapping[str, Any]) -> int | None:
    """`max_spend` in micro-dollars; None where there is no limit, or it is not known yet."""
    value = values.get("max_spend")
    return micro_usd(value) if isinstance(value, (int, float)) else None


class Budgets:
    """The budgets of this process by owner; the empty owner is one that is not made yet."""

    def __init__(self) -> None:
        self._found: dict[str, Budget] = {}

    async def ledger(
        self,
        world: World,
        owner: str,
        previous: tuple[str, ...],
        values: Mapping[str, Any],
        state: Mapping[str, Any],
    ) -> Ledger | None:
        """The owner's ledger as it should be by now, of its state and the journal, `previous`
        owners of the same stack among it; None without a limit.

        The budget is from then on the process's own. A journal that can't be read adds nothing:
        what buys will say what is wrong with it.
        """
        from providers.engine import budget as spending
        from providers.engine import volume_costs

        most = limit(values)
        if most is None:
            self._found.pop(owner, None)
            return None
        now = world.clock.now()
        try:
            known = await asyncio.to_thread(
                volume_costs.of_journal, world, (owner, *previous) if owner else previous
            )
        except GpusError:
            known = ()
        found = spending.merged(spending.read(state.get("spending")), known, now)
        self._found[owner] = spending.Budget(most, found)
        return found

    async def of(self, world: World, values: Mapping[str, Any]) -> Budget | None:
        """The budget that a cluster of these inputs buys under. Where its Ownership was not seen in
        this process, what the journal knows must do.
        """
        owner = values.get("owner")
        key = owner if isinstance(owner, str) else ""
        if (
            key not in self._found
            and limit(values) is not None
            and await self.ledger(world, key, (), values, {}) is not None
            and key
        ):
            world.report(
                "warning",
                "max_spend: the stack's ownership takes no part in this run; only what this machine"
                " bought is counted",
            )
        return self._found.get(key) if limit(values) is not None else None

    async def previewed(
        self, world: World, values: Mapping[str, Any], ask: Ask, setup: Setup, plan: Plan
    ) -> tuple[Plan, str]:
        """What of the plan fits, and the arithmetic of what a preview would buy, which is set
        aside; the whole plan and nothing without a limit. Raises GpusError where nothing fits.
        """
        from providers.engine.desired import ClusterSpec
        from providers.engine.launch.afford import reserved

        budget = await self.of(world, values)
        spec = ClusterSpec("", str(values.get("cluster")), ask, setup, "", budget=budget)
        return reserved(world, spec, plan)

    async def hedged(
        self, world: World, values: Mapping[str, Any], ask: Ask, setup: Setup, plan: Plan
    ) -> str:
        """Who is asked at once, by a declaration that has two asked and by what the stack may
        spend; empty for any other.
        """
        from functools import partial

        from providers.engine.desired import ClusterSpec
        from providers.engine.launch.afford import both_affordable
        from providers.planner import hedge

        if values.get("hedge") != 2 or not plan.candidates:
            return ""
        if setup.volumes:
            return f"{hedge.ALONE}: what mounts a volume can be at one provider only"
        budget = await self.of(world, values)
        spec = ClusterSpec("", str(values.get("cluster")), ask, setup, "", budget=budget)
        return hedge.line(plan, partial(both_affordable, world, spec))

    async def standing(self, world: World, values: Mapping[str, Any]) -> str:
        """What was spent and what is to come, where nothing is bought; empty without a limit."""
        budget = await self.of(world, values)
        return budget.standing(world.clock.now()) if budget is not None else ""


async def settled(
    world: World, owner: str, found: Ledger, previous: tuple[Mapping[str, Mapping[str, str]], ...]
) -> Ledger:
    """The ledger, with what other machines ended, as far as the clouds tell."""
    from providers.engine import vanished, volume_costs
    from providers.engine.runtime.accounts import of_settings

    try:
        known = await asyncio.to_thread(volume_costs.of_journal, world, (owner,))
        return await vanished.settled(world, owner, found, known, of_settings(world, previous))
    except GpusError:
        return found


async def remembered(world: World, record: ClusterRecord) -> None:
    """Keeps what a state names and another machine bought, so that its cost is known here even
    after it has gone.
    """
    from providers.engine.record import BILLED

    if record.launched_at and record.handles and record.status in BILLED:
        await asyncio.to_thread(world.journal.remember, record)
