"""Which account something is in: found again there, whatever the settings say by now. Owns the way from a record to its adapter; buys nothing.

What was ordered or runs is looked up with the settings it was bought with, as the journal or the record itself has them; everything else with
the present ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.journal import database as journals
from providers.engine.record import account_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from providers.adapters.base import Adapter
    from providers.engine.record import Account, Held
    from providers.engine.world import World
    from providers.model.machine import Handle

Accounts = tuple[tuple[str, "Account | None"], ...]
"""(provider, account), each once; None is what the settings say now."""


async def adapter_of(world: World, provider: str, account: Account | None = None) -> Adapter:
    """The connected adapter of that account. Raises NotConfigured."""
    return await world.call(provider, world.adapter, provider, account)


async def home_of(world: World, held: Held) -> Adapter:
    """The adapter of the account that the held machines are in."""
    return await adapter_of(world, held.provider, account_of(world, held))


def account_of(world: World, held: Held) -> Account | None:
    """The account of a record: its own word, else the journal's."""
    if held.account is not None or not held.provider:
        return held.account
    found = places(world, held.owner, held.cluster, held.handles)
    return next((account for handle, account in found.items() if handle in held.handles), None)


def places(world: World, owner: str, cluster: str, handles: Iterable[Handle]) -> dict[Handle, Account | None]:
    """For each machine the account that the journal says it was bought in; None where it does not say."""
    out: dict[Handle, Account | None] = dict.fromkeys(handles)
    if not out or not world.has_journal:
        return out
    for entry in world.journal.orders(world.name, owner, cluster or None, states=journals.EVERY):
        out.update({handle: entry.account for handle in entry.handles if handle in out})
    return out


async def by_adapter(world: World, held: Held, handles: Iterable[Handle]) -> list[tuple[Adapter, list[Handle]]]:
    """The machines grouped by the adapter to ask for them, each adapter once."""
    groups: dict[int, tuple[Adapter, list[Handle]]] = {}
    wanted = list(dict.fromkeys(handles))
    strange = [handle for handle in wanted if held.account is None or handle not in held.handles]
    known = {handle: held.account if handle.provider == held.provider else None for handle in wanted}
    known.update({handle: account for handle, account in places(world, held.owner, held.cluster, strange).items() if account is not None})
    for handle in wanted:
        adapter = await adapter_of(world, handle.provider, known[handle])
        groups.setdefault(id(adapter), (adapter, []))[1].append(handle)
    return list(groups.values())


def used(world: World, owner: str, *, open_only: bool = False) -> Accounts:
    """Every account that the owner has placed orders in, as far as the journal knows; `open_only`: of which something may exist."""
    if not world.has_journal:
        return ()
    orders = world.journal.orders(world.name, owner, states=journals.OPEN if open_only else journals.EVERY)
    found = [(entry.provider, entry.account) for entry in orders]
    launches = [launch for launch in world.journal.launches(world.name, owner) if launch.provider and not (open_only and launch.ended_at is not None)]
    found.extend((launch.provider, account_in(launch.record.get("account"))) for launch in launches)
    return tuple(dict.fromkeys(found))


def of_settings(world: World, settings: Iterable[Mapping[str, Mapping[str, str]]]) -> Accounts:
    """The accounts that these settings name: those that a stack had before, as its own state has them."""
    return tuple(dict.fromkeys((name, account_in(each.get(name, {}))) for each in settings for name in world.manifests))


def said(provider: str, account: Account | None) -> str:
    """`gcp (project old-project)`: for messages."""
    return provider + (f" ({', '.join(f'{key} {value}' for key, value in account)})" if account else "")
