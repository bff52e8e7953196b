"""The end of what an owner has: one generation, or all of it; confirmed, in every account it may be
in. Buys nothing.

Owns what a message must say about what could not be confirmed gone.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from providers.engine.journal import orders as order_table
from providers.engine.messages import bare, kept_paid, trimmed
from providers.engine.record import UNSETTLED, ClusterRecord
from providers.engine.runtime.accounts import (
    account_of,
    adapter_of,
    by_adapter,
    home_of,
    of_settings,
    said,
    used,
)
from providers.engine.runtime.deadlines import answering, looking, together, while_answering
from providers.engine.runtime.leases import CLEAN_PATIENCE_S, leased
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import Remainder, abandon, may_cost, release
from providers.errors import CloudError, GpusError, HalfMade, NotConfigured
from providers.model.ask import BLOCK
from providers.model.machine import GONE, Handle, Node, is_foreign

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import Account
    from providers.engine.runtime.accounts import Accounts
    from providers.engine.runtime.world import World


async def end(world: World, record: ClusterRecord) -> None:
    """Deletes everything of the generation. Raises HalfMade naming what may still cost money."""
    which = (world.name, record.owner, record.cluster, record.generation)
    entries = world.journal.orders_of(*which)
    handles = list(
        dict.fromkeys(
            [
                *record.handles,
                *record.leftovers,
                *(handle for entry in entries for handle in entry.handles),
            ]
        )
    )
    remainders: list[Remainder] = []
    groups: dict[int, tuple[Cloud, list[Handle], list[order_table.OrderRow]]] = {}

    async def group(
        provider: str, account: Account | None, owed: Sequence[Handle]
    ) -> tuple[Cloud, list[Handle], list[order_table.OrderRow]] | None:
        try:
            with while_answering():
                adapter = await adapter_of(world, provider, account)
        except CloudError as error:
            remainders.append(Remainder.by(error, owed))
            return None
        return groups.setdefault(id(adapter), (adapter, [], []))

    if record.provider:
        await group(
            record.provider,
            account_of(world, record),
            [handle for handle in handles if handle.provider == record.provider],
        )
    for entry in entries:
        found = await group(entry.provider, entry.account, entry.handles)
        if found is not None and entry.state in order_table.PENDING:
            found[2].append(entry)
    for handle in handles:
        try:
            with while_answering():
                ((adapter, _),) = await by_adapter(world, record, [handle])
        except CloudError as error:
            remainders.append(Remainder.by(error, (handle,)))
            continue
        groups.setdefault(id(adapter), (adapter, [], []))[1].append(handle)

    async def ended(
        adapter: Cloud, there: Sequence[Handle], pending: Sequence[order_table.OrderRow]
    ) -> None:
        remainders.extend([await _abandoned(world, adapter, entry) for entry in pending])
        try:
            own, taken = await _own(world, adapter, record, there)
        except CloudError as error:
            remainders.append(Remainder.by(error, there))
            return
        remainders.append(
            await release(
                world, adapter, record.owner, record.cluster, record.generation, own, taken
            )
        )

    # Side by side: a cloud that does not answer keeps no machine of another one running.
    await together(*(answering(ended(*group)) for group in groups.values()))
    asked = [entry.micro_usd for entry in entries if entry.state in order_table.PENDING]
    prices = [price for price in (record.price.micro_usd, *asked) if price is not None]
    raise_left(record.cluster, remainders, max(prices, default=None))
    world.journal.release(*which, world.clock.now())
    if record.placement.capacity == BLOCK and world.clock.now() < record.ends_at:
        world.report("warning", f"{record.cluster}: {kept_paid('the block that it ran in')}")


async def _abandoned(world: World, adapter: Cloud, entry: order_table.OrderRow) -> Remainder:
    """Ends an order that was never settled. Of two at once it is written down what it had made:
    that was paid for.
    """
    left = await abandon(world, adapter, entry.order, entry.ticket)
    if entry.race and left.clean:
        token, made, now = entry.order.token, left.deleted or entry.handles, world.clock.now()
        world.journal.settled(token, order_table.RELEASED, now, "deleted", made)
    return left


async def _own(
    world: World, adapter: Cloud, record: ClusterRecord, handles: Sequence[Handle]
) -> tuple[list[Handle], list[Handle]]:
    """Those of the machines that no other generation has taken over, and those that one has. Raises
    CloudErrors.
    """
    if not handles:
        return [], []
    nodes = await repeated(world, adapter.name, adapter.observe, tuple(handles))
    if world.manifests[adapter.name].capabilities.relabels:
        others = {
            node.handle
            for node in nodes
            if record.generation and is_foreign(node.label, record.generation)
        }
    else:
        launches = await asyncio.to_thread(
            world.journal.launches, world.name, record.owner, record.cluster
        )
        ids = {
            native
            for launch in launches
            if launch.ended_at is None and launch.generation != record.generation
            for native in launch.native_ids
        }
        others = {node.handle for node in nodes if node.handle.native_id in ids}
    return [node.handle for node in nodes if node.handle not in others], list(others)


async def end_all(
    world: World, owner: str, previous: Iterable[Mapping[str, Mapping[str, str]]] = ()
) -> tuple[Node, ...]:
    """Settles and deletes all that the owner has, in every account it has used; returns the
    machines found. Raises HalfMade.
    """
    if not owner:
        raise GpusError(
            "wanted the owner whose machines are ended, found none"
        )  # an empty one is everybody to an adapter
    remainders: list[Remainder] = []
    found: dict[Handle, Node] = {}
    orders = world.journal.orders(world.name, owner)
    present: Accounts = tuple((provider, None) for provider in world.manifests)
    closed = set(used(world, owner)) - set(used(world, owner, open_only=True))
    places = dict.fromkeys(
        (
            *present,
            *used(world, owner),
            *of_settings(world, previous),
            *((entry.provider, entry.account) for entry in orders),
        )
    )
    owed: dict[tuple[str, Account | None], list[order_table.OrderRow]] = {
        place: [entry for entry in orders if (entry.provider, entry.account) == place]
        for place in places
    }

    async def ended(
        names: Sequence[tuple[str, Account | None]], adapter: Cloud | CloudError
    ) -> None:
        """Ends all in one account, whatever names lead to it."""
        entries = [entry for name in names for entry in owed[name]]
        handles = {handle for entry in entries for handle in entry.handles}
        place, account = said(*names[0]), names[0][1]
        pending = [entry for entry in entries if entry.state in order_table.PENDING]
        try:
            if isinstance(adapter, CloudError):
                raise adapter
            for entry in pending:
                world.report(
                    "info",
                    f"{entry.order.label.cluster}: an order at {entry.provider} was never settled;"
                    " finding out what became of it",
                )
                remainders.append(await _abandoned(world, adapter, entry))
            with nullcontext() if entries else looking(world.name):
                nodes = await repeated(world, adapter.name, adapter.find, owner)
        except CloudError as error:
            if isinstance(error, NotConfigured) and not entries:
                return
            if account is not None and closed.issuperset(names):
                # All that was ever bought there is confirmed gone: an account that was given up
                # must not stand in the way for ever.
                world.report(
                    "warning",
                    f"{place} could not be searched; nothing is known to be left there:"
                    f" {bare(names[0][0], trimmed(error))}",
                )
                return
            left = Remainder.by(error, handles)
            remainders.append(left._replace(why=f"{place}: {bare(names[0][0], left.why)}"))
            return
        there = {node.handle: node for node in nodes if node.status != GONE}
        for node in there.values():
            world.report(
                "info",
                f"{node.label.cluster if node.label else owner}: deleting {node.handle.native_id},"
                " which carries this stack's label",
            )
        found.update(there)
        if there or handles:
            remainders.append(await release(world, adapter, owner, "", "", {*there, *handles}))

    async def reached(name: str, account: Account | None) -> Cloud | CloudError:
        try:
            with while_answering() if owed[name, account] else looking(world.name):
                return await adapter_of(world, name, account)
        except CloudError as error:
            return error

    adapters = await asyncio.gather(*(reached(*place) for place in places))
    accounts: dict[int, tuple[list[tuple[str, Account | None]], Cloud | CloudError]] = {}
    for place, adapter in zip(places, adapters, strict=True):
        accounts.setdefault(id(adapter), ([], adapter))[0].append(place)
    # Side by side: a cloud that does not answer keeps no machine of another one running.
    await together(*(answering(ended(*account)) for account in accounts.values()))
    raise_left("ownership", remainders, None)
    world.journal.release(world.name, owner, "", "", world.clock.now())
    return tuple(found.values())


async def end_elsewhere(world: World, owner: str) -> None:
    """Settles the orders of runs that were cut short in an account that the settings no longer
    name, deleting what they made.

    An order that a cluster in some state still waits for is that cluster's to go on with, in its
    own account. Raises GpusError where one cannot be settled: then the settings must not move on.
    """
    launched = {
        launch.generation
        for launch in world.journal.launches(world.name, owner)
        if launch.ended_at is None
    }
    for entry in world.journal.orders(world.name, owner, states=order_table.PENDING):
        label = entry.order.label
        if label.generation in launched or entry.account is None:
            continue
        where = said(entry.provider, entry.account)
        try:
            present = await adapter_of(world, entry.provider)
        except CloudError:
            present = None
        try:
            adapter = await adapter_of(world, entry.provider, entry.account)
            if adapter is present:
                continue
            async with leased(world, owner, (label.cluster,), CLEAN_PATIENCE_S):
                world.report(
                    "info",
                    f"{label.cluster}: an order at {where} was never settled; finding out what"
                    " became of it, and ending it",
                )
                left = await answering(abandon(world, adapter, entry.order, entry.ticket))
        except CloudError as error:
            left = Remainder.by(error, entry.handles)
        if not left.clean:
            raise GpusError(
                f"{label.cluster}: an order at {where} is not settled: {left.why};"
                f" {may_cost(left.handles or entry.handles, entry.micro_usd)}; set the account back"
                " and run it again, or destroy"
            )
        world.journal.settled(
            entry.order.token, order_table.RELEASED, world.clock.now(), "the account was changed"
        )


def raise_left(cluster: str, remainders: Iterable[Remainder], micro_usd: int | None) -> None:
    """Raises HalfMade naming all that is not confirmed gone; nothing when everything is."""
    open_ones = [left for left in remainders if not left.clean]
    if open_ones:
        handles = tuple(dict.fromkeys(handle for left in open_ones for handle in left.handles))
        why = "; ".join(dict.fromkeys(left.why for left in open_ones))
        provider = handles[0].provider if handles else ""
        silent = list(dict.fromkeys(left.silent for left in open_ones if left.silent))
        again = "run it again" + (
            f" once {' and '.join(f'`gpus check {name}`' for name in silent)} gets an answer"
            if silent
            else ""
        )
        raise HalfMade(
            f"{cluster}: could not be confirmed deleted: {why}; {may_cost(handles, micro_usd)};"
            f" {again}",
            provider=provider,
            handles=handles,
        )


async def release_all(
    world: World, record: ClusterRecord, handles: Iterable[Handle], keep: Collection[Handle] = ()
) -> Remainder:
    """Releases these, and all else of this generation but `keep`, in every account concerned."""
    groups: dict[int, tuple[Cloud, list[Handle]]] = {}
    if record.provider:
        home = await home_of(world, record)
        groups[id(home)] = (home, [])
    for adapter, own in await by_adapter(world, record, handles):
        groups.setdefault(id(adapter), (adapter, []))[1].extend(own)
    # Side by side: a cloud that does not answer keeps no machine of another one running.
    remainders: list[Remainder] = await together(
        *(
            answering(
                release(world, adapter, record.owner, record.cluster, record.generation, own, keep)
            )
            for adapter, own in groups.values()
        )
    )
    return Remainder(
        tuple(handle for left in remainders for handle in left.handles),
        "; ".join(left.why for left in remainders if left.why),
    )


def stuck(record: ClusterRecord, left: Remainder) -> ClusterRecord:
    """The record of something that must go and could not be deleted yet."""
    reason = (
        f"half-made: could not be deleted: {left.said(record.price.micro_usd)};"
        " nothing else is bought until it is gone"
    )
    return record._replace(
        status=UNSETTLED,
        leftovers=tuple(handle for handle in left.handles if handle not in record.handles),
        reasons=(reason,),
    )
