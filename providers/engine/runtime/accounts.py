"""Which account something is in: found again there, whatever the settings say by now. Owns the way
from a record to its adapter; buys nothing.

What was ordered or runs is looked up with the settings it was bought with, as the journal or the
record itself has them; everything else with the present ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.messages import bare, trimmed
from providers.engine.record import account_in
from providers.engine.runtime.deadlines import looking, while_answering
from providers.engine.runtime.tasks import repeated
from providers.errors import CloudError, GpusError, NotConfigured
from providers.model.machine import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from providers.adapters.guard import Cloud
    from providers.engine.record import Account, ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle, Node

Accounts = tuple[tuple[str, "Account | None"], ...]
"""(provider, account), each once; None is what the settings say now."""


async def adapter_of(world: World, provider: str, account: Account | None = None) -> Cloud:
    """The connected adapter of that account. Raises NotConfigured."""
    return await world.call(provider, world.adapter, provider, account)


async def home_of(world: World, record: ClusterRecord) -> Cloud:
    """The adapter of the account that the held machines are in."""
    return await adapter_of(world, record.provider, account_of(world, record))


def account_of(world: World, record: ClusterRecord) -> Account | None:
    """The account of a record: its own word, else the journal's."""
    if record.account is not None or not record.provider:
        return record.account
    found = places(world, record.owner, record.cluster, record.handles)
    return next((account for handle, account in found.items() if handle in record.handles), None)


def places(
    world: World, owner: str, cluster: str, handles: Iterable[Handle]
) -> dict[Handle, Account | None]:
    """For each machine the account that the journal says it was bought in; None where it does not
    say.
    """
    out: dict[Handle, Account | None] = dict.fromkeys(handles)
    if not out or not world.has_journal:
        return out
    for entry in world.journal.orders(world.name, owner, cluster or None, states=order_table.EVERY):
        out.update({handle: entry.account for handle in entry.handles if handle in out})
    return out


async def by_adapter(
    world: World, record: ClusterRecord, handles: Iterable[Handle]
) -> list[tuple[Cloud, list[Handle]]]:
    """The machines grouped by the adapter to ask for them, each adapter once."""
    groups: dict[int, tuple[Cloud, list[Handle]]] = {}
    wanted = list(dict.fromkeys(handles))
    strange = [
        handle for handle in wanted if record.account is None or handle not in record.handles
    ]
    known = {
        handle: record.account if handle.provider == record.provider else None for handle in wanted
    }
    known.update(
        {
            handle: account
            for handle, account in places(world, record.owner, record.cluster, strange).items()
            if account is not None
        }
    )
    for handle in wanted:
        adapter = await adapter_of(world, handle.provider, known[handle])
        groups.setdefault(id(adapter), (adapter, []))[1].append(handle)
    return list(groups.values())


def used(world: World, owner: str, *, open_only: bool = False) -> Accounts:
    """Every account that the owner has placed orders in, as far as the journal knows; `open_only`:
    of which something may exist.
    """
    if not world.has_journal:
        return ()
    orders = world.journal.orders(
        world.name, owner, states=order_table.OPEN if open_only else order_table.EVERY
    )
    found = [(entry.provider, entry.account) for entry in orders]
    launches = [
        launch
        for launch in world.journal.launches(world.name, owner)
        if launch.provider and not (open_only and launch.ended_at is not None)
    ]
    found.extend((launch.provider, account_in(launch.record.get("account"))) for launch in launches)
    return tuple(dict.fromkeys(found))


def of_settings(world: World, settings: Iterable[Mapping[str, Mapping[str, str]]]) -> Accounts:
    """The accounts that these settings name: those that a stack had before, as its own state has
    them.
    """
    return tuple(
        dict.fromkeys(
            (name, account_in(each.get(name, {}))) for each in settings for name in world.manifests
        )
    )


def said(provider: str, account: Account | None) -> str:
    """`gcp (project old-project)`: for messages."""
    return provider + (
        f" ({', '.join(f'{key} {value}' for key, value in account)})" if account else ""
    )


async def survey(
    world: World,
    owner: str,
    cluster: str = "",
    *,
    accounts: Accounts = (),
    missed: list[str] | None = None,
) -> tuple[Node, ...]:
    """Every machine with the owner's labels, over all clouds that can be asked, all at once: in the
    present accounts, in those that the journal has open orders in, and in `accounts`.

    A cloud that can't be asked is passed over, with a line, unless the journal knows of an order
    there that may have left something: then its error is raised, since what is there must be known.
    `missed` gets the names of those passed over.
    """
    return tuple(
        {
            node.handle: node for _, node in await surveyed(world, owner, cluster, accounts, missed)
        }.values()
    )


async def surveyed(
    world: World, owner: str, cluster: str, accounts: Accounts = (), missed: list[str] | None = None
) -> list[tuple[Cloud, Node]]:
    """The same, each with the adapter that found it."""
    if not owner:
        raise GpusError(
            "wanted the owner whose machines are looked for, found none"
        )  # an empty one is everybody to an adapter
    owed = {
        (entry.provider, entry.account)
        for entry in world.journal.orders(world.name, owner, cluster or None)
        # What another order has beaten is ended by its own token, and holds up no other machine.
        if not world.journal.has_lost(entry)
    }
    present: Accounts = tuple((name, None) for name in world.manifests)
    # Those that are owed come first: of several names of one account, theirs decides what a failure
    # means.
    places = tuple(dict.fromkeys((*owed, *present, *accounts)))

    def waits(name: str, account: Account | None) -> AbstractContextManager[None]:
        """Where nothing is known to be, a cloud that gives no answer holds nothing up."""
        return while_answering() if (name, account) in owed else looking(world.name)

    async def reached(name: str, account: Account | None) -> Cloud | CloudError:
        try:
            with waits(name, account):
                return await adapter_of(world, name, account)
        except CloudError as error:
            return error

    async def look(
        name: str, account: Account | None, adapter: Cloud | CloudError
    ) -> list[tuple[Cloud, Node]]:
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
                    "warning",
                    f"{said(name, account)}: could not be searched for machines of"
                    f" {cluster or owner}: {bare(name, trimmed(error))}",
                )
            return []
        return [(adapter, node) for node in found if node.status != GONE]

    adapters = await asyncio.gather(*(reached(*place) for place in places))
    once: dict[int, tuple[str, Account | None, Cloud | CloudError]] = {}
    for (name, account), adapter in zip(places, adapters, strict=True):
        once.setdefault(id(adapter), (name, account, adapter))
    return [
        pair
        for pairs in await asyncio.gather(*(look(*each) for each in once.values()))
        for pair in pairs
    ]
