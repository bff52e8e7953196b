"""What this user holds ad hoc, over one world: launched, found again from any process, released
with certainty.

The engine buys and deletes; here is whose it is, who uses it, and how it is reached. Must not
print, nor open a world.
"""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from providers.adhoc import access
from providers.adhoc.machine import AsyncMachine
from providers.engine import operations, validate
from providers.engine.desired import ClusterSpec
from providers.engine.journal import orders as order_table
from providers.engine.messages import block_begins
from providers.engine.readiness.access import probe as probed
from providers.engine.readiness.access import takes_key
from providers.engine.reconcile.condition import Condition, condition_of
from providers.engine.record import UNSETTLED, Account, ClusterRecord
from providers.engine.runtime.accounts import account_of, survey
from providers.engine.runtime.deadlines import looking, together
from providers.engine.termination.settle import may_cost
from providers.engine.termination.without_journal import undeterred
from providers.errors import CloudError, GpusError, HalfMade, Problem, SpecError
from providers.model.machine import ENDED, QUEUED, Handle, Node
from providers.model.placement import Placement

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from providers.engine.keys import ClusterKeys
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.spec import Cluster
    from providers.rehearsal.node import StandInProbe
    from providers.remote.ssh import SshProbe


class Booked(GpusError):
    """A block was paid for, under this name, and has not begun: to be asked for again then."""

    def __init__(self, text: str, begins_at: float) -> None:
        self.begins_at = begins_at
        super().__init__(text)


class _Part(NamedTuple):
    """What is known of one generation of a cluster."""

    record: ClusterRecord | None
    handles: tuple[Handle, ...]
    nodes: tuple[Node, ...]


async def rent(
    world: World,
    spec: Cluster,
    ssh_key: str | os.PathLike[str] | None = None,
    *,
    by_login: bool = False,
    searches: bool = False,
) -> AsyncMachine:
    """Gets what the spec declares, ready to be worked on, and marks its name as used by this
    process. Of two providers at once, it is handed over with `reasons` where what was beaten is not
    known to be gone.

    `by_login`: its workload is not started at boot. `searches`: the caller tries it again where it
    is sold out.

    Raises SpecError, AllFailed, Busy (another process uses the name) and other GpusErrors; then
    nothing is left running, or the error names what is. Raises Booked where it paid for a block
    that has not begun. When the caller is cancelled, what was made is released first.
    """
    ask = reachable(world, spec, own_key=ssh_key is not None)._replace(by_login=by_login)
    owner, holder = access.owner(), uuid.uuid4().hex
    world.journal.take(world.name, _use(owner), spec.name, holder, world.clock.now())
    try:
        make = partial(access.make, keyless=not takes_key(world, ask))
        way = await world.call("", make, world.name, spec.name, world.settings, ssh_key)
        setup = spec.setup()._replace(ssh_public_key=way.public)
        cluster_spec = ClusterSpec(
            owner,
            spec.name,
            ask,
            setup,
            spec.fingerprint(),
            probe(world, way),
            accept=spec.accept,
            hedge=spec.hedge,
            patient=searches,
        )
        record = await operations.create(world, cluster_spec, uuid.uuid4().hex[:12])
        begins_at = _begins_at(world, record)
        if record.reasons and not begins_at and not _has_won(world, record):
            await _undone(world, record)
            raise GpusError(f"{spec.name}: {'; '.join(record.reasons)}; it was released")
    except BaseException:
        await _left_nothing(world, owner, spec.name)
        world.journal.drop(world.name, _use(owner), spec.name, holder)
        raise
    if begins_at:
        world.journal.drop(world.name, _use(owner), spec.name, holder)
        raise Booked(block_begins(begins_at), begins_at)
    return AsyncMachine(
        world,
        record,
        probe(world, way, pinned=True, account=account_of(world, record)),
        lambda: let_go(world, spec.name),
        holder=(_use(owner), holder),
    )


async def look(world: World, name: str = "") -> tuple[AsyncMachine, ...]:
    """What this user holds in the world, of one name or of any, as its clouds say now. A folder of
    what is gone is removed.
    """
    owner = access.owner()
    found: list[AsyncMachine] = []
    # What is known here is asked for while everything is searched: a cloud that does not answer
    # takes no time from the others.
    records = [
        ClusterRecord.from_dict(launch.record)
        for launch in world.journal.launches(world.name, owner, name)
        if launch.ended_at is None
    ]
    clusters, *seen = await together(
        _parts(world, owner, name, lenient=True),
        *(operations.read(world, record) for record in records),
    )
    now = {
        (record.cluster, record.generation): after
        for record, after in zip(records, seen, strict=True)
    }
    for cluster_name, generations in clusters.items():
        shown: list[ClusterRecord] = []
        for generation, part in sorted(generations.items(), key=lambda each: not each[1].record):
            loose = part.record is None
            record = (
                _loose(world, owner, cluster_name, generation, part)
                if loose
                else now.get((cluster_name, generation))
            )
            if record is None or (record.status == ENDED and not record.machines):
                continue
            if loose and shown:
                continue  # what else bears the name is a reason of the one that is held
            shown.append(record)
            process = world.journal.holder(world.name, _use(owner), cluster_name)
            way = access.opened(world.name, cluster_name)
            look_at = (
                None
                if way is None
                else probe(world, way, pinned=True, account=account_of(world, record))
            )
            found.append(
                AsyncMachine(
                    world,
                    record,
                    look_at,
                    lambda name=cluster_name: let_go(world, name),  # type: ignore[misc]
                    process=process,
                )
            )
    here = {machine.name for machine in found}
    for known in access.names(world.name):
        if (
            known not in here
            and name in {"", known}
            and access.settings(world.name, known) == _plain(world.settings)
        ):
            in_use = world.journal.holder(world.name, _use(owner), known) or world.journal.holder(
                world.name, owner, known
            )
            if in_use is None and not world.journal.orders(world.name, owner, known):
                access.forget(world.name, known)
    return tuple(found)


async def let_go(world: World, name: str) -> bool:
    """Deletes everything that bears this name, confirmed, and then forgets its key; False when
    there was nothing.

    Needs no journal: see `undeterred`. Raises HalfMade naming what may still cost money and how to
    try again; Busy while another process is buying under the name.
    """
    owner = access.owner()
    return await undeterred(world, name, lambda usable: _let_go(usable, owner, name))


async def _let_go(world: World, owner: str, name: str) -> bool:
    again = _again(world, name)
    known: dict[str, tuple[Handle, ...]] = {}
    missed: list[str] = []
    price: int | None = None
    try:
        for launch in world.journal.launches(world.name, owner, name):
            if launch.ended_at is None:
                price = launch.micro_usd
                known[launch.generation] = ClusterRecord.from_dict(launch.record).handles
        generations = (await _parts(world, owner, name, missed=missed)).get(name, {})
        for generation, part in generations.items():
            known[generation] = part.handles
            record = part.record or _loose(world, owner, name, generation, part)
            handles = (
                *record.handles,
                *(handle for handle in part.handles if handle not in record.handles),
            )
            await operations.delete(world, record._replace(handles=handles))
    except HalfMade as error:
        raise HalfMade(
            f"{error}; {again}", provider=error.provider, handles=error.handles
        ) from error
    except CloudError as error:
        handles = tuple(handle for some in known.values() for handle in some)
        raise HalfMade(
            f"{name}: could not be released: {error}; {may_cost(handles, price)}; {again}",
            provider=error.provider,
            handles=handles,
        ) from error
    if missed and not generations:
        raise GpusError(
            f"{name}: found nothing of that name, but {', '.join(missed)} could not be searched:"
            f" what is there is not known; {again}"
        )
    access.forget(world.name, name)
    return bool(generations)


def _begins_at(world: World, record: ClusterRecord) -> float:
    """When the block begins that the cluster paid for and waits for; 0 for none."""
    if record.status != QUEUED:
        return 0.0
    orders = world.journal.orders(world.name, record.owner, record.cluster)
    return max((row.ticket.begins_at for row in orders if row.ticket is not None), default=0.0)


def _has_won(world: World, record: ClusterRecord) -> bool:
    """Whether it runs as asked for, and only what it has beaten could not be confirmed gone."""
    which = (record.owner, record.cluster, record.generation)
    rows = world.journal.orders_of(world.name, *which)
    pending = [row for row in rows if row.state in order_table.PENDING]
    return (
        condition_of(record) is Condition.HEALTHY
        and bool(pending)
        and all(world.journal.has_lost(row) for row in pending)
    )


async def _undone(world: World, record: ClusterRecord) -> None:
    """Releases what was acquired but is not what was asked for."""
    try:
        await operations.delete(world, record)
    except HalfMade as error:
        raise HalfMade(
            f"{error}; {_again(world, record.cluster)}",
            provider=error.provider,
            handles=error.handles,
        ) from error


async def _left_nothing(world: World, owner: str, name: str) -> None:
    """After a purchase that failed: removes the folder if nothing bears the name, else says so.
    What an earlier run had stays as it was.
    """
    try:
        left = await _parts(world, owner, name)
    except GpusError as error:
        world.report(
            "warning",
            f"{name}: it could not be looked whether anything bears the name: {error};"
            f" {_again(world, name)}",
        )
        return
    if not left:
        access.forget(world.name, name)
        return
    known = (
        ", ".join(handle.native_id for part in left[name].values() for handle in part.handles)
        or "an order that is not settled"
    )
    world.report(
        "warning", f"{name}: {known} bears the name and may cost money; {_again(world, name)}"
    )


def _again(world: World, name: str) -> str:
    return f"to release it: gpus release {name} --world {world.name}"


def probe(
    world: World, way: ClusterKeys, *, pinned: bool = False, account: Account | None = None
) -> SshProbe | StandInProbe:
    """How the machines of a cluster are looked at: over ssh, or through their stand-ins in a
    rehearsal.
    """
    return probed(world, way.key, way.known_hosts, way.nodes, pinned=pinned, account=account)


def reachable(world: World, spec: Cluster, *, own_key: bool = False) -> Ask:
    """The spec's ask, of machines that take commands from here; with a key of the user's own, by
    ssh alone.

    Raises SpecError with every problem of the spec.
    """
    from providers.catalog.offers import load
    from providers.planner import check

    ask = spec.ask()._replace(login=True, ssh=own_key)
    problems = list(
        check.problems(
            ask,
            world.offers or load(),
            {name: manifest.capabilities for name, manifest in world.manifests.items()},
        )
    )
    if spec.ssh_key is not None:
        problems.append(
            Problem(
                "ssh_key",
                "the file of a private key, as provision(ssh_key=...)",
                "a public key",
                "or leave it out to have one made",
            )
        )
    if spec.kind == "machine":
        problems += validate.problems(spec, world.manifests)
    if spec.ready != "checked":
        problems.append(
            Problem("ready", "checked: ad hoc logs into what it has", spec.ready, "leave it out")
        )
    if spec.network != "default":
        problems.append(
            Problem(
                "network",
                "default: Pulumi makes a managed one",
                spec.network,
                "declare it in a stack",
            )
        )
    if spec.kind != "machine":
        problems.append(
            Problem(
                "kind", "machine: ad hoc logs into what it has", spec.kind, "declare it in a stack"
            )
        )
    if problems:
        raise SpecError(problems)
    return ask


async def _parts(
    world: World, owner: str, name: str, *, lenient: bool = False, missed: list[str] | None = None
) -> dict[str, dict[str, _Part]]:
    """By cluster and generation: what the journal and the clouds know. Reads only. `lenient`: what
    a cloud does not tell is a warning.
    """
    out: dict[str, dict[str, _Part]] = {}

    def add(
        cluster_name: str,
        generation: str,
        record: ClusterRecord | None,
        handles: tuple[Handle, ...],
        node: Node | None,
    ) -> None:
        part = out.setdefault(cluster_name, {}).get(generation, _Part(None, (), ()))
        seen = tuple(dict.fromkeys((*part.handles, *handles)))
        out[cluster_name][generation] = _Part(
            record or part.record, seen, part.nodes if node is None else (*part.nodes, node)
        )

    for launch in world.journal.launches(world.name, owner, name):
        if launch.ended_at is None:
            known = ClusterRecord.from_dict(launch.record)
            add(launch.cluster, launch.generation, known, known.handles, None)
    for entry in world.journal.orders(world.name, owner, name or None, states=order_table.PENDING):
        add(entry.order.label.cluster, entry.order.label.generation, None, entry.handles, None)
    try:
        with looking(world.name) if lenient else nullcontext():
            nodes = await survey(world, owner, name, missed=missed)
    except CloudError as error:
        if not lenient:
            raise
        world.report("warning", f"shown as the journal has it: {error}")
        nodes = ()
    for node in nodes:
        if node.label is not None:
            add(node.label.cluster, node.label.generation, None, (node.handle,), node)
    return out


def _loose(world: World, owner: str, name: str, generation: str, part: _Part) -> ClusterRecord:
    """The record of what a run left that was cut short before it had one."""
    record = ClusterRecord(
        world.name,
        owner,
        name,
        generation,
        "",
        UNSETTLED,
        Placement(nodes=1),
        handles=part.handles,
        machines=part.nodes,
        reasons=("left by a run that was cut short, or still being bought",),
    )
    if not part.nodes:
        return record
    first = part.nodes[0]
    return record._replace(
        status=first.status,
        placement=first.placement._replace(nodes=len(part.nodes)),
        launched_at=first.created_at,
    )


def _use(owner: str) -> str:
    """The lease of a name for as long as a process works with it; the engine's own is for as long
    as it buys or deletes.
    """
    return f"{owner}/use"


def _plain(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {provider: dict(section) for provider, section in settings.items()}
