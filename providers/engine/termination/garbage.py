"""What bears the product's mark and nobody claims: found over every cloud and account, told apart,
and deleted when that was asked for.

Owns the verdicts. Ownership is proved by the owner id alone: one that neither the states nor this
machine's journal know is somebody else's, and is never touched. What could not be asked is said,
never taken for nothing. Buys nothing; must not read a Pulumi state itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.journal import database
from providers.engine.journal import orders as order_table
from providers.engine.journal import owners as owner_table
from providers.engine.keys import tidied
from providers.engine.messages import bare, trimmed
from providers.engine.runtime.accounts import adapter_of, of_settings, said, used
from providers.engine.runtime.deadlines import answering, at_most, looking
from providers.engine.runtime.leases import leased
from providers.engine.runtime.tasks import repeated
from providers.engine.termination.settle import abandon, bill, release
from providers.engine.termination.without_journal import undeterred
from providers.errors import Busy, CloudError, GpusError, NoHome, NotConfigured, Transient
from providers.model.machine import ENDED, FAILED, GONE, PREEMPTED, STOPPED, Handle, Mark, Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from providers.adapters.guard import Cloud
    from providers.engine.record import Account
    from providers.engine.runtime.accounts import Accounts
    from providers.engine.runtime.world import World
    from providers.model.offer import Offer

CLAIMED, UNCLAIMED, IN_USE, PENDING, ELSEWHERE, UNKNOWN, NOT_OURS = (
    "claimed",
    "unclaimed",
    "in use",
    "pending",
    "elsewhere",
    "unknown",
    "not ours",
)
"""claimed: a state names it. unclaimed: ours, and no state names it. in use: a live process works
on it or with it. pending: a stack's run that was cut short was making it. elsewhere: of a stack
that was last seen in another backend. unknown: ours, but some state could not be read. not ours: of
an owner that neither the states nor this machine know.
"""
VERDICTS = (UNCLAIMED, UNKNOWN, IN_USE, PENDING, ELSEWHERE, NOT_OURS, CLAIMED)

_AT_REST = frozenset({STOPPED, PREEMPTED, ENDED, FAILED})
"""Billed for its disks at most, and nobody knows what."""


class Claims(NamedTuple):
    """What the states of one backend say of one world; each value is the stack that says so.

    `generations` by (owner, cluster, generation); `pending` by (owner, cluster): creates that were
    cut short. `settings` are all that the stacks have ever had. `unread` names the states that
    could not be read.
    """

    backend: str = ""
    owners: Mapping[str, str] = {}
    generations: Mapping[tuple[str, str, str], str] = {}
    handles: Mapping[Handle, str] = {}
    pending: Mapping[tuple[str, str], str] = {}
    settings: tuple[Mapping[str, Mapping[str, str]], ...] = ()
    unread: tuple[str, ...] = ()


class SweptMachine(NamedTuple):
    """One machine, or one order whose outcome is not known (`status` is `unsettled`, `native_id`
    its token).

    `micro_usd` is for this one, per hour; None where no source knows. `stack` is `project/stack`,
    or empty. `why` says how the verdict came about.
    """

    handle: Handle
    verdict: str
    why: str
    status: str
    mark: Mark
    stack: str = ""
    gpu: str = ""
    where: str = ""
    created_at: float = 0.0
    micro_usd: int | None = None
    price_source: str = ""
    account: Account | None = None


class Survey(NamedTuple):
    """Everything found, the unclaimed first. `asked` are the clouds that answered, `silent` those
    without credentials of which nothing is known to be left, each with what is missing, `trouble`
    one line for each that had to be asked and could not be.
    """

    found: tuple[SweptMachine, ...]
    asked: tuple[str, ...]
    silent: Mapping[str, str]
    trouble: tuple[str, ...]


class Swept(NamedTuple):
    """What became of one: `why` is empty once it is confirmed gone."""

    found: SweptMachine
    why: str = ""


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
                marks = {handle: entry.order.mark for entry in entries for handle in entry.handles}
                nodes.update(
                    {
                        node.handle: (
                            node
                            if node.mark is not None
                            else node._replace(mark=marks[node.handle])
                        )
                        for node in looked
                    }
                )
                gone = [node.handle for node in looked if node.status == GONE]
                for mark in {marks[handle] for handle in gone}:
                    owed_to = [handle for handle in gone if marks[handle] == mark]
                    await asyncio.to_thread(
                        world.journal.release, world.name, *mark[:3], world.clock.now(), owed_to
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

    with at_most(deadline_s) if deadline_s else looking():
        await asyncio.gather(*(look(*place) for place in places))
    lines = [
        f"{place}: {why.removeprefix(f'{name}: ')};"
        f" {bill(owed, None) if owed else 'what is there is not known'}"
        for (name, why), (place, owed) in trouble.items()
    ]
    return seen, tuple(sorted(asked.values())), silent, tuple(lines)


async def _everything(world: World, adapter: Cloud, owners: Sequence[str]) -> list[Node]:
    """All that bears a mark. Where only a mark shows and not whose, each known owner is asked for,
    too.
    """
    nodes = {node.handle: node for node in await repeated(world, adapter.name, adapter.find, "")}
    if any(node.mark is not None and not node.mark.owner for node in nodes.values()):
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
    mark = node.mark or Mark("", "", "", "")
    verdict, why = _verdict(world, node.handle, mark, claims, known, adhoc, ours)
    where = node.zone or node.region
    gpu = f"{node.gpu_type}:{node.gpu_count}" if node.gpu_type else ""
    return SweptMachine(
        node.handle,
        verdict,
        why,
        node.status,
        mark,
        _stack(mark.owner, claims, known),
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
    mark, first = entry.order.mark, entry.order.candidates[0]
    verdict, why = _verdict(
        world, Handle(entry.provider, ""), mark, claims, known, adhoc, {mark.owner}
    )
    return SweptMachine(
        Handle(entry.provider, f"order {entry.order.token}"),
        verdict,
        f"{why}; it is not known whether this order made anything",
        "unsettled",
        mark,
        _stack(mark.owner, claims, known),
        f"{first.gpu_type}:{first.gpu_count:g} {first.capacity}",
        first.zone or first.region,
        entry.created_at,
        entry.micro_usd,
        "journal",
        account=entry.account,
    )


def _stack(owner: str, claims: Claims, known: Mapping[str, owner_table.OwnerRow]) -> str:
    if owner in claims.owners:
        return claims.owners[owner]
    met = known.get(owner)
    return f"{met.project}/{met.stack}" if met is not None and met.stack else ""


def _verdict(
    world: World,
    handle: Handle,
    mark: Mark,
    claims: Claims,
    known: Mapping[str, owner_table.OwnerRow],
    adhoc: str,
    ours: Collection[str],
) -> tuple[str, str]:
    if handle in claims.handles or mark[:3] in claims.generations:
        return CLAIMED, f"claimed by {claims.handles.get(handle) or claims.generations[mark[:3]]}"
    if not mark.owner or mark.owner not in ours:
        return (
            NOT_OURS,
            (
                f"owner {mark.owner or 'not told'}: neither a state of this backend nor this"
                " machine's journal knows it"
            ),
        )
    if world.has_journal:
        for owner in (mark.owner, f"{mark.owner}/use"):
            process = world.journal.holder(world.name, owner, mark.cluster)
            if process is not None:
                return (
                    IN_USE,
                    f"process {process} is at work {'on' if owner == mark.owner else 'with'} it",
                )
    if mark.owner == adhoc and world.has_journal and not world.journal.whole:
        return (
            UNKNOWN,
            (
                "whether a process uses it is not known, since the journal cannot be read: `gpus"
                f" release {mark.cluster}` ends it"
            ),
        )
    if mark.owner == adhoc:
        return UNCLAIMED, f"ad hoc {mark.cluster or 'cluster'}, used by no process"
    if mark[:2] in claims.pending:
        stack = claims.pending[mark[:2]]
        return (
            PENDING,
            (
                f"a run of {stack} was cut short while it made this: `pulumi cancel`, then up takes"
                " it over and destroy removes it"
            ),
        )
    if claims.unread:
        return (
            UNKNOWN,
            f"whether a state claims it is not known: {', '.join(claims.unread)} could not be read",
        )
    if mark.owner in claims.owners:
        return UNCLAIMED, f"of {claims.owners[mark.owner]}, of which no cluster claims it"
    met = known.get(mark.owner)
    if met is not None and met.backend and met.backend != claims.backend:
        return ELSEWHERE, f"of {met.project}/{met.stack} in {met.backend}: sweep with that backend"
    return UNCLAIMED, "no stack has its owner any more" + (
        f" (it was {met.project}/{met.stack})" if met is not None and met.stack else ""
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


async def sweep(
    world: World, unclaimed: Sequence[SweptMachine], claims: Claims
) -> tuple[Swept, ...]:
    """Deletes what was found unclaimed and confirms it, cluster by cluster, side by side. What
    changed hands meanwhile is left alone, and said.

    Never raises a GpusError: what is not confirmed gone says why, and that it still costs money.
    """
    groups: dict[tuple[str, str], list[SweptMachine]] = {}
    for found in unclaimed:
        if found.verdict == UNCLAIMED and found.mark.owner:
            groups.setdefault(found.mark[:2], []).append(found)

    async def each(usable: World) -> list[list[Swept]]:
        return await asyncio.gather(*(_swept(usable, group, claims) for group in groups.values()))

    done = await undeterred(world, "sweep", each)
    return tuple(each for group in done for each in group)


async def _swept(world: World, group: Sequence[SweptMachine], claims: Claims) -> list[Swept]:
    owner, cluster = group[0].mark[:2]
    try:
        async with leased(world, owner, (cluster,), 0.0):
            done = [await answering(_one(world, found, claims)) for found in group]
            if world.has_journal and not any(each.why for each in done):
                await asyncio.to_thread(tidied, world, owner, cluster)
            return done
    except (database.JournalBroken, NoHome):
        raise
    except Busy as error:
        return [Swept(found, f"left alone: {trimmed(error)}") for found in group]
    except GpusError as error:
        return [_failed(found, trimmed(error)) for found in group]


def _failed(found: SweptMachine, why: str) -> Swept:
    return Swept(
        found, f"could not be confirmed gone: {why}; {bill([found.handle], found.micro_usd)}"
    )


async def _one(world: World, found: SweptMachine, claims: Claims) -> Swept:
    mark, handle = found.mark, found.handle
    try:
        adapter = await adapter_of(world, handle.provider, found.account)
        if found.status == "unsettled":
            return await _settled(world, found, adapter)
        (node,) = await repeated(world, adapter.name, adapter.observe, (handle,))
        if node.status != GONE and node.mark is not None and node.mark[:3] != mark[:3]:
            return Swept(
                found,
                f"left alone: it was taken over meanwhile (generation {node.mark.generation})",
            )
        # Without a generation nothing but the machine itself may be meant.
        whose = mark[:3] if mark.generation else ("", "", "")
        left = await release(world, adapter, *whose, handles=(handle,), keep=tuple(claims.handles))
    except CloudError as error:
        return _failed(found, trimmed(error))
    if not left.clean:
        return _failed(found, left.why)
    if world.has_journal:
        world.journal.release(
            world.name, mark.owner, mark.cluster, mark.generation, world.clock.now(), (handle,)
        )
    return Swept(found)


async def _settled(world: World, found: SweptMachine, adapter: Cloud) -> Swept:
    """Ends an order whose outcome is not known."""
    token = found.handle.native_id.removeprefix("order ")
    for entry in world.journal.orders(
        world.name, found.mark.owner, found.mark.cluster, states=order_table.PENDING
    ):
        if entry.order.token == token:
            left = await abandon(world, adapter, entry.order, entry.ticket)
            if not left.clean:
                raise Transient(left.why, provider=adapter.name)
            world.journal.settled(token, order_table.RELEASED, world.clock.now(), "swept")
    return Swept(found)
