"""The search for what an owner has, over every cloud at once, in every account it may be in. Reads only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.engine.accounts import adapter_of, said
from providers.engine.deadlines import looking, while_answering
from providers.engine.messages import bare, trimmed
from providers.engine.termination.settle import repeated
from providers.errors import CloudError, GpusError, NotConfigured
from providers.model.machine import GONE

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from providers.adapters.base import Adapter
    from providers.engine.accounts import Accounts
    from providers.engine.record import Account
    from providers.engine.world import World
    from providers.model.machine import Node


async def survey(world: World, owner: str, cluster: str = "", *, accounts: Accounts = (), missed: list[str] | None = None) -> tuple[Node, ...]:
    """Every machine with the owner's labels, over all clouds that can be asked, all at once: in the present accounts, in those that the journal has
    open orders in, and in `accounts`.

    A cloud that can't be asked is passed over, with a line, unless the journal knows of an order there that may have left something: then its
    error is raised, since what is there must be known. `missed` gets the names of those passed over.
    """
    return tuple({node.handle: node for _, node in await surveyed(world, owner, cluster, accounts, missed)}.values())


async def surveyed(world: World, owner: str, cluster: str, accounts: Accounts = (), missed: list[str] | None = None) -> list[tuple[Adapter, Node]]:
    """The same, each with the adapter that found it."""
    if not owner:
        raise GpusError("wanted the owner whose machines are looked for, found none")  # an empty one is everybody to an adapter
    owed = {(entry.provider, entry.account) for entry in world.journal.orders(world.name, owner, cluster or None)}
    present: Accounts = tuple((name, None) for name in world.manifests)
    # Those that are owed come first: of several names of one account, theirs decides what a failure means.
    places = tuple(dict.fromkeys((*owed, *present, *accounts)))

    def waits(name: str, account: Account | None) -> AbstractContextManager[None]:
        """Where nothing is known to be, a cloud that gives no answer holds nothing up."""
        return while_answering() if (name, account) in owed else looking()

    async def reached(name: str, account: Account | None) -> Adapter | CloudError:
        try:
            with waits(name, account):
                return await adapter_of(world, name, account)
        except CloudError as error:
            return error

    async def look(name: str, account: Account | None, adapter: Adapter | CloudError) -> list[tuple[Adapter, Node]]:
        try:
            if isinstance(adapter, CloudError):
                raise adapter
            with waits(name, account):
                found = await repeated(world, name, adapter.find, owner, cluster)
        except CloudError as error:
            if (name, account) in owed:
                raise
            if not isinstance(error, NotConfigured):
                if missed is not None:
                    missed.append(said(name, account))
                world.report(
                    "warning", f"{said(name, account)}: could not be searched for machines of {cluster or owner}: {bare(name, trimmed(error))}"
                )
            return []
        return [(adapter, node) for node in found if node.status != GONE]

    adapters = await asyncio.gather(*(reached(*place) for place in places))
    once: dict[int, tuple[str, Account | None, Adapter | CloudError]] = {}
    for (name, account), adapter in zip(places, adapters, strict=True):
        once.setdefault(id(adapter), (name, account, adapter))
    return [pair for pairs in await asyncio.gather(*(look(*each) for each in once.values())) for pair in pairs]
