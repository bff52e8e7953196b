"""Edits a running cluster in place: labels, ssh key, time limit, workload, service, power.

Owns which of a declaration's changes are written on the machines, and says which of them only a
replacement applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.desired import ttl
from providers.engine.messages import rerun_command, trimmed
from providers.engine.readiness.access import key_probe
from providers.engine.readiness.handover import rerun
from providers.engine.readiness.wait import until_ready
from providers.engine.reconcile.on_workload import WorkloadCase
from providers.engine.reconcile.power import switch
from providers.engine.reconcile.pricing import price_of
from providers.engine.record import (
    DEGRADED,
    DISK,
    HEALTHY,
    ON_DONE,
    UNTOLD,
    WORK,
    ClusterRecord,
    applied,
)
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.tasks import repeated
from providers.engine.setup import start, started
from providers.errors import GpusError
from providers.model.machine import RUNNING, STOPPED
from providers.model.secret import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from providers.engine.desired import ClusterSpec
    from providers.engine.reconcile.on_workload import WorkloadEdit
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.engine.setup import StartPlan
    from providers.model.machine import Setup
    from providers.remote.probe import Probe


async def edit(
    world: World,
    record: ClusterRecord,
    spec: ClusterSpec,
    another: Callable[[WorkloadCase], WorkloadEdit],
    stop: StopSignal,
) -> ClusterRecord:
    """Writes what changed of the declaration on the machines where the adapter can; warns of what
    is only applied later. `another` says what becomes of another workload: returns with `reasons`
    where that could not be started yet.

    Raises GpusError, with nothing written, where it is to be stopped and cannot be, or its workload
    cannot be restarted.
    """
    setup, program = _declared(world, record, spec)
    before, after = dict(record.applied), dict(applied(setup, record.kind))
    before.pop(UNTOLD, None)
    # The disk is the one that was bought, whatever is declared since.
    after.pop(DISK, None)
    after |= {name: size for name, size in before.items() if name == DISK}
    if program is None:
        # Nothing on the machines ends what runs there.
        after |= {name: was for name, was in before.items() if name in (WORK, ON_DONE)}
    changed = [name for name, digest in after.items() if digest != before.get(name, "")]
    if WORK in changed and (later := _later(record, another, setup)):
        world.report("info", f"{record.cluster}: {later}")
        after |= {name: before.get(name, "") for name in (WORK, ON_DONE)}
        changed = [name for name in changed if name not in (WORK, ON_DONE)]
    if not changed:
        return record._replace(applied=tuple(sorted({**before, **after}.items())))
    able = world.manifests[record.provider].capabilities
    can = able.in_place | {WORK, ON_DONE}
    if "state" in changed:
        _check_power(world, record, setup, can)
    if WORK in changed:
        _check_whole(record, replicated=spec.ask.replicated)
    starts = WORK in changed and "state" in changed and setup.state != STOPPED
    if starts:
        # Nobody logs in to a stopped machine.
        _looker(world, record)
        record = await switch(world, record, spec, after["state"])
        before["state"] = after["state"]
        changed.remove("state")
    for name in changed:
        if name not in can:
            world.report(
                "warning",
                f"{record.cluster}: {record.provider} cannot edit {name} on a running machine; it"
                " is applied when the cluster is replaced",
            )
            after[name] = before.get(name, "")
    change = _change(spec, setup, [name for name in changed if name in can])
    if WORK in changed and program is not None:
        record = await _begun(world, record, spec, setup, program, stop, started=starts)
        if record.reasons:
            return record
        world.report("info", f"{record.cluster}: what runs there was restarted")
        if "script" in able.in_place:
            change["script"] = setup
    if change:
        record = await _write(world, record, spec, change, setup.ttl_s)
    noted = tuple(sorted({**after, "state": before.get("state", "")}.items()))
    record = record._replace(applied=noted)
    if "state" in changed:
        return await switch(world, record, spec, after["state"])
    return record


def assumed(world: World, record: ClusterRecord, spec: ClusterSpec) -> ClusterRecord:
    """The record of what was adopted, with the workload that is declared where nothing says with
    which it was ordered: it was made under the same declaration.
    """
    if record.applied:
        return record
    made = dict(applied(_declared(world, record, spec)[0], record.kind))
    known = {name: digest for name, digest in made.items() if name in (WORK, ON_DONE)}
    return record._replace(applied=tuple(sorted(known.items())))


def _declared(
    world: World, record: ClusterRecord, spec: ClusterSpec
) -> tuple[Setup, StartPlan | None]:
    """What the machines would be ordered with by now, and what is started on them."""
    limit_s = ttl(spec, record.entry)
    section = dict(spec.setup.options).get(record.provider)
    own = tuple(sorted(section.items())) if isinstance(section, dict) else ()
    setup = spec.setup._replace(
        ttl_s=limit_s, options=own, secrets=narrowed(spec.setup.secrets, record.provider)
    )
    entries = spec.ask.entries
    program = start(
        spec.ask,
        entries[record.entry] if record.entry < len(entries) else entries[0],
        record.placement.gpu_type,
        record.placement.gpu_count,
        setup.expose,
        world.manifests.get(record.provider),
        dict(own),
    )
    return started(setup, program), program


def _later(
    record: ClusterRecord, another: Callable[[WorkloadCase], WorkloadEdit], setup: Setup
) -> str:
    """When the machines get another workload, if not now. Raises GpusError where they never do."""
    found = another(WorkloadCase(record, wanted=True, stops=setup.state == STOPPED))
    if found.replaces:
        raise GpusError(
            f"{record.cluster}: wanted its workload started, found {found.replaces}; it has to be"
            f" replaced: {rerun_command(record.cluster)}"
        )
    return found.later


async def _begun(
    world: World,
    record: ClusterRecord,
    spec: ClusterSpec,
    setup: Setup,
    program: StartPlan,
    stop: StopSignal,
    *,
    started: bool,
) -> ClusterRecord:
    """The record once another workload was started on its machines, which are waited for where they
    are on their way; with `reasons` where that has to be done yet. `started`: they were started for
    it just now, so that it raises nothing any more.
    """
    try:
        if started or record.status not in (RUNNING, DEGRADED):
            record = await _reachable(world, record, spec, stop)
        if spec.ask.replicated:
            from providers.engine.reconcile.replicas import rolled

            return await rolled(world, record, setup, program, spec, stop)
        await rerun(world, record, record.machines, program)
    except GpusError as error:
        if not started:
            raise
        reason = (
            f"half-made: it runs, with its previous workload: {trimmed(error)}; the next `up`"
            " starts the new one"
        )
        applied = {**dict(record.applied), UNTOLD: "yes"}
        return record._replace(reasons=(reason,), applied=tuple(sorted(applied.items())))
    return record


async def _reachable(
    world: World, record: ClusterRecord, spec: ClusterSpec, stop: StopSignal
) -> ClusterRecord:
    """The record once all machines take a login. Raises GpusError where they do not in time."""
    looker, adapter = _looker(world, record), await home_of(world, record)
    deadline = world.clock.now() + spec.ask.entries[record.entry].wait_s
    nodes = await until_ready(world, adapter, record, record.handles, looker, deadline, stop)
    if nodes is None:
        raise GpusError("this run was stopped")
    return record._replace(status=RUNNING, machines=nodes)


def _looker(world: World, record: ClusterRecord) -> Probe:
    looker = key_probe(world, record.owner, record.cluster, record.provider, pinned=True)
    if looker is None:
        raise GpusError(
            f"{record.cluster}: wanted to log in and start its new workload, found no key of this"
            f" cluster on this machine; run it where it was launched, or"
            f" {rerun_command(record.cluster)} gets a new machine"
        )
    return looker


def _check_power(world: World, record: ClusterRecord, setup: Setup, can: Collection[str]) -> None:
    stoppable = world.manifests[record.provider].capabilities.stoppable
    if "state" not in can:
        what = "a machine"
    elif setup.state == STOPPED and stoppable and record.placement.capacity not in stoppable:
        what = f"a {record.placement.capacity} machine"
    else:
        return
    raise GpusError(
        f"{record.cluster}: {record.provider} cannot stop {what} and keep it; set state: running,"
        " or destroy it"
    )


def _check_whole(record: ClusterRecord, *, replicated: bool) -> None:
    if record.status != DEGRADED or replicated:
        return
    raise GpusError(
        f"{record.cluster}: its workload runs over {record.placement.nodes} machines together, and"
        f" {record.detail}: it is not restarted, and no edit was applied. Set on_loss:"
        f" replace-all, or run {rerun_command(record.cluster)}, for new machines"
    )


def _change(spec: ClusterSpec, setup: Setup, names: Collection[str]) -> dict[str, object]:
    """What an adapter is to write, by these names of `record.applied`. Power is switched last; a
    workload is restarted.
    """
    parts: dict[str, dict[str, object]] = {
        "state": {},
        WORK: {},
        ON_DONE: {},
        "service": {"service": setup, "fingerprint": spec.fingerprint},
        "labels": {"labels": dict(setup.labels)},
        "ssh_key": {"ssh_key": setup.ssh_public_key, "ssh_user": setup.ssh_user},
    }
    limit: dict[str, object] = {"ttl": setup.ttl_s, "on_ttl": setup.on_ttl}
    change: dict[str, object] = {}
    for name in names:
        change.update(parts.get(name, limit))
    return change


async def _write(
    world: World,
    record: ClusterRecord,
    spec: ClusterSpec,
    change: dict[str, object],
    limit_s: int | None,
) -> ClusterRecord:
    adapter = await home_of(world, record)
    # What is lost of a degraded cluster cannot be written on.
    left = tuple(node.handle for node in record.machines if node.status in HEALTHY)
    for handle in left if record.status == DEGRADED else record.handles:
        await repeated(world, adapter.name, adapter.update, handle, change)
    if "service" in change:
        nodes = await repeated(world, adapter.name, adapter.observe, record.handles)
        # How many containers it may have, and so its price, is among what was declared again.
        where = record.placement._replace(nodes=1)
        price = await price_of(world, spec.ask, where, nodes[0], None)
        record = record._replace(machines=tuple(nodes), price=price)
    if "ttl" in change:
        record = record._replace(ends_at=record.launched_at + limit_s if limit_s else 0.0)
    return record
