"""What a stack's `max_spend` leaves to the plans of its clusters, by this machine's journal.

Owns which money counts before the first plan. A preview also knows the stack's state, so what
others bought counts there only. Buys nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.runtime.world import open_world
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.engine.budget import Budget
    from providers.engine.runtime.world import World
    from providers.model.spec import Cluster
    from providers.model.volume import VolumeSpec
    from providers.planner.plan import Plan


class Limit:
    """One stack's limit over its plans, one after the other: each sets aside what it would buy."""

    def __init__(
        self, max_spend: int, world: str, project: str, stack: str, volumes: Sequence[VolumeSpec]
    ) -> None:
        """`max_spend` in micro-dollars a month. Reads the journal."""
        from providers.engine import volume_costs

        self._world = world
        self.refused: list[str] = []
        """Why volumes do not fit that are not made yet."""
        opened = open_world(world)
        try:
            self._budget = _budget(opened, max_spend, project, stack)
            for spec in volumes:
                costs = volume_costs.spell(opened, "", spec)
                try:
                    volume_costs.afford(self._budget, spec, costs.micro_usd, costs.began_at)
                except GpusError as error:
                    self.refused.append(str(error))
        finally:
            opened.close()

    def within(self, name: str, cluster: Cluster, plan: Plan) -> tuple[Plan, str, str]:
        """What of the plan fits, the arithmetic of its first place, and why nothing fits."""
        from providers.engine.desired import ClusterSpec
        from providers.engine.launch.afford import reserved

        world = open_world(self._world)
        try:
            spec = ClusterSpec("", name, plan.ask, cluster.setup(), "", budget=self._budget)
            return *reserved(world, spec, plan), ""
        except GpusError as error:
            return plan.within(lambda _place: False), "", str(error)
        finally:
            world.close()


def _budget(world: World, max_spend: int, project: str, stack: str) -> Budget:
    from providers.engine import budget, volume_costs

    known: Sequence[budget.Charge] = ()
    if world.has_journal:
        try:
            met = world.journal.owners(world.name)
            owners = [each.owner for each in met if (each.project, each.stack) == (project, stack)]
            known = volume_costs.of_journal(world, owners)
        except GpusError:
            known = ()  # what buys says what is wrong with the journal
    return budget.Budget(max_spend, budget.merged(budget.Ledger(), known, world.clock.now()))
