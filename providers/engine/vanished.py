"""Charges of a ledger whose machines nobody here ended, and which are gone. Asks the clouds."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from providers.engine.budget import HEDGE, VOLUME
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.deadlines import looking
from providers.engine.runtime.tasks import repeated
from providers.errors import CloudError
from providers.model.machine import GONE

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.engine.budget import Charge, Ledger
    from providers.engine.runtime.accounts import Accounts
    from providers.engine.runtime.world import World


async def settled(
    world: World, owner: str, ledger: Ledger, known: Collection[Charge], accounts: Accounts
) -> Ledger:
    """The ledger; what runs by it, and not by this machine's journal, and has no machine any more,
    ended now at the latest.

    Another machine ended it, or its cloud did. Asks the clouds only where there are such spells;
    one that can't be asked leaves them running.
    """
    own = {spell.key for spell in known if not spell.ended_at}

    async def ended(spell: Charge) -> bool:
        places = [
            (spell.provider, None),
            *(place for place in accounts if place[0] == spell.provider),
        ]
        try:
            adapters = [(at, await adapter_of(world, at, of)) for at, of in dict.fromkeys(places)]
            if spell.is_volume:
                name = spell.cluster.removeprefix(VOLUME)
                # Of whichever owner: what an earlier one left costs on.
                return not any(
                    [
                        await repeated(world, provider, partial(each.volumes.find, name=name))
                        for provider, each in adapters
                    ]
                )
            nodes = [
                node
                for provider, each in adapters
                for node in await repeated(
                    world, provider, each.find, owner, spell.cluster, tries=2
                )
            ]
        except CloudError:
            return False
        # Of two orders at once: the token that it is kept under is on no machine.
        hedged = spell.generation.startswith(HEDGE)
        return not any(
            node.status != GONE
            and (hedged or node.label is None or node.label.generation in ("", spell.generation))
            for node in nodes
        )

    running = [
        spell for spell in ledger.spells.values() if not spell.ended_at and spell.key not in own
    ]
    with looking(world.name):
        over = await asyncio.gather(*(ended(spell) for spell in running))
    now = world.clock.now()
    found = {
        spell.key: spell._replace(ended_at=now)
        for spell, is_over in zip(running, over, strict=True)
        if is_over
    }
    return ledger._replace(spells={**ledger.spells, **found})
