"""Every machine with our label, in every cloud and account, each with its verdict and its price.
Deletes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import orders as order_table
from providers.engine.journal import owners as owner_table
from providers.engine.messages import bare, trimmed
from providers.engine.runtime.accounts import adapter_of, of_settings, said, used
from providers.engine.runtime.deadlines import at_most, looking
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import may_cost
from providers.engine.termination.verdicts import (
    VERDICTS,
    Claims,
    SweptMachine,
    stack_of,
    verdict_of,
)
from providers.engine.termination.without_journal import undeterred
from providers.errors import GpusError, NotConfigured
from providers.model.machine import ENDED, FAILED, GONE, PREEMPTED, STOPPED, Handle, Label, Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import Account
    from providers.engine.runtime.accounts import Accounts
    from providers.engine.runtime.world import World
    from providers.model.offer import Offer


class Survey(NamedTuple):
    """Everything found, the unclaimed first. `asked` are the clouds that answered, `silent` those
    without credentials of which nothing is known to be left, each with what is missing, `trouble`
    one line for each that had to be asked and could not be.
    """

    found: tuple[SweptMachine, ...]
    asked: tuple[str, ...]
    silent: Mapping[str, str]
    trouble: tuple[str, ...]


class _Observed(NamedTuple):
    node: Node
    account: Account | None


async def survey(world: World, claims: Claims, adhoc: str = "", deadline_s: float = 0.0) -> Survey:
    """Looks everywhere, and writes down in the journal what is gone. `adhoc` is the owner id of
    this user's ad hoc clusters.

    All accounts have `deadline_s` real seconds together to say everything they have (else those of
    any look): EC2's regions and Google's zones take a few. Needs no journal: where it cannot be
    read, what only it knows is nobody's, and who uses an ad hoc cluster is unknown.
    """
    return await undeterred(
        world, "sweep", lambda usable: _survey(usable, claims, adhoc, deadline_s)
    )


async def _survey(world: World, claims: Claims, adhoc: str, deadline_s: float) -> Survey:
    known = (
        {each.owner: each for each in world.journal.owners(world.name)} if world.has_journal else {}
    )
    entries = [entry for owner in known for entry in world.journal.orders(world.name, owner)]
    seen, asked, silent, trouble = await _asked(world, claims, known, entries, deadline_s)
    ours = {*known, *claims.owners, *({adhoc} if adhoc else ())}
    prices = _Prices(world, entries)
    found = [
        prices.of(_found(world, each, claims, known, adhoc, ours), each.node)
        for each in seen.values()
    ]
    found += [
        _unsettled(world, entry, claims, known, adhoc)
        for entry in entries
        if entry.state in order_table.PENDING and not set(entry.handles) & set(seen)
    ]
    found.sort(key=lambda each: (VERDICTS.index(each.verdict), each.handle))
    return Survey(tuple(found), asked, silent, trouble)


async def _asked(
    world: World,
    claims: Claims,
    known: Mapping[str, owner_table.OwnerRow],
    entries: Sequence[order_table.OrderRow],
    deadline_s: float,
) -> tuple[dict[Handle, _Observed], tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Every account of every cloud, at once: (machines, who answered, who is not configured, who
    did not answer).
    """
    owed: dict[tuple[str, Account | None], list[Handle]] = {}
    for entry in entries:
        owed.setdefault((entry.provider, entry.account), []).extend(entry.handles)
    claimed = {handle.provider for handle in claims.handles}
    present: Accounts = tuple((name, None) for name in world.manifests)
    journaled = [place for owner in known for place in used(world, owner)]
    places = dict.fromkeys((*owed, *present, *journaled, *of_settings(world, claims.settings)))
    seen: dict[Handle, _Observed] = {}
    asked: dict[int, str] = {}
    silent: dict[str, str] = {}
    trouble: dict[tuple[str, str], tuple[str, list[Handle]]] = {}
    once: dict[int, asyncio.Task[list[Node]]] = {}

    def failed(name: str, account: Account | None, why: str, handles: list[Handle]) -> None:
        # Two names may lead to one account: it is told of once, by the name under which something
        # is known to be there.
        place, before = trouble.get((name, why), (said(name, account), []))
        trouble[name, why] = (
            said(name, account) if handles and not before else place,
            [*before, *handles],
        )

    async def look(name: str, account: Account | None) -> None:
        handles = list(dict.fromkeys(owed.get((name, account), ())))
        try:
            adapter = await adapter_of(world, name, account)
            if missing := adapter.not_configured:
                raise NotConfigured(f"{name}: {missing}", provider=name)
            # Two names of one account are one adapter: it is asked once.
            if id(adapter) not in once:
                once[id(adapter)] = asyncio.ensure_future(
                    _everything(world, adapter, sorted({*claims.owners, *known}))
                )
            nodes = {node.handle: node for node in await once[id(adapter)]}
            missing_ones = [handle for handle in handles if handle not in nodes]
            if missing_ones:
                looked = await repeated(world, name, adapter.observe, missing_ones)
                labels = {
                    handle: entry.order.label for entry in entries for handle in entry.handles
                }
                nodes.update(
                    {
                        node.handle: (
                            node
                            if node.label is not None
                            else node._replace(label=labels[node.handle])
                        )
                        for node in looked
                    }
                )
                gone = [node.handle for node in looked if node.status == GONE]
                for label in {labels[handle] for handle in gone}:
                    owed_to = [handle for handle in gone if labels[handle] == label]
                    await asyncio.to_thread(
                        world.journal.release, world.name, *label[:3], world.clock.now(), owed_to
                    )
        except NotConfigured as error:
            if handles or name in claimed or any(entry.provider == name for entry in entries):
                failed(name, account, trimmed(error), handles)
            elif account is None:
                silent[name] = bare(name, " ".join(str(error).split()))
            return
        except GpusError as error:
            failed(name, account, trimmed(error), handles)
            return
        asked[id(adapter)] = max(asked.get(id(adapter), ""), said(name, account))
        seen.update(
            {
                handle: _Observed(node, account)
                for handle, node in nodes.items()
                if node.status != GONE and handle not in seen
            }
        )

    with at_most(deadline_s) if deadline_s else looking(world.name):
        await asyncio.gather(*(look(*place) for place in places))
    lines = [
        f"{place}: {why.removeprefix(f'{name}: ')};"
        f" {may_cost(owed, None) if owed else 'what is there is not known'}"
        for (name, why), (place, owed) in trouble.items()
    ]
    return seen, tuple(sorted(asked.values())), silent, tuple(lines)


async def _everything(world: World, adapter: Cloud, owners: Sequence[str]) -> list[Node]:
    """All that carries a label. Where only a label shows and not whose, each known owner is asked
    for, too.
    """
    nodes = {node.handle: node for node in await repeated(world, adapter.name, adapter.find, "")}
    if any(node.label is not None and not node.label.owner for node in nodes.values()):
        for owner in owners:
            nodes.update(
                {
                    node.handle: node
                    for node in await repeated(world, adapter.name, adapter.find, owner)
                }
            )
    return list(nodes.values())


def _found(
    world: World,
    seen: _Observed,
    claims: Claims,
    known: Mapping[str, owner_table.OwnerRow],
    adhoc: str,
    ours: Collection[str],
) -> SweptMachine:
    node = seen.node
    label = node.label or Label("", "", "", "")
    verdict, why = verdict_of(world, node.handle, label, claims, known, adhoc, ours)
    where = node.zone or node.region
    gpu = f"{node.gpu_type}:{node.gpu_count}" if node.gpu_type else ""
    return SweptMachine(
        node.handle,
        verdict,
        why,
        node.status,
        label,
        stack_of(label.owner, claims, known),
        f"{gpu} {node.capacity}".strip(),
        where,
        node.created_at,
        account=seen.account,
    )


def _unsettled(
    world: World,
    entry: order_table.OrderRow,
    claims: Claims,
    known: Mapping[str, owner_table.OwnerRow],
    adhoc: str,
) -> SweptMachine:
    label, first = entry.order.label, entry.order.candidates[0]
    verdict, why = verdict_of(
        world, Handle(entry.provider, ""), label, claims, known, adhoc, {label.owner}
    )
    return SweptMachine(
        Handle(entry.provider, f"order {entry.order.token}"),
        verdict,
        f"{why}; it is not known whether this order made anything",
        "unsettled",
        label,
        stack_of(label.owner, claims, known),
        f"{first.gpu_type}:{first.gpu_count:g} {first.capacity}",
        first.zone or first.region,
        entry.created_at,
        entry.micro_usd,
        "journal",
        account=entry.account,
    )


class _Prices:
    """What a machine costs per hour: as the journal has it from its purchase, else by the dated
    catalog, else unknown.
    """

    def __init__(self, world: World, entries: Iterable[order_table.OrderRow]) -> None:
        self._world = world
        self._bought = {
            handle: entry.micro_usd // len(entry.handles)
            for entry in entries
            if entry.micro_usd is not None
            for handle in entry.handles
        }

    def of(self, found: SweptMachine, node: Node) -> SweptMachine:
        """The same with its price."""
        if found.status in _AT_REST:
            return found._replace(
                price_source=(
                    found.status
                    if node.kind == "job"
                    else f"{found.status}: at most its disks are billed"
                )
            )
        if found.handle in self._bought:
            return found._replace(
                micro_usd=self._bought[found.handle], price_source="when it was bought"
            )
        offer = self._listed(node) if node.kind == "machine" else None
        if offer is None or offer.node_micro_usd is None:
            return found
        return found._replace(
            micro_usd=int(offer.node_micro_usd), price_source=f"listed, as of {offer.price_as_of}"
        )

    def _listed(self, node: Node) -> Offer | None:
        from providers.catalog.offers import load

        table = self._world.offers or load()
        wanted = (
            node.handle.provider,
            node.region,
            node.machine_type,
            node.gpu_count,
            node.capacity,
        )
        for row in table.by_gpu.get(node.gpu_type, ()):
            offer = table.offer(row)
            same = (
                offer.provider,
                offer.region,
                offer.machine_type,
                offer.gpu_count,
                offer.capacity,
            ) == wanted
            if same and offer.zone in {"", node.zone}:
                return offer
        return None


_AT_REST = frozenset({STOPPED, PREEMPTED, ENDED, FAILED})
"""Billed for its disks at most, and that is unknown."""
