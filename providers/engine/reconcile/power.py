"""Stops a cluster and keeps it, and starts it again where it is. Owns that all machines change or
none, and what a failure says.

A start that finds no room is no reason to buy: the machines stay stopped and in the state, and
moving them is a replacement that a preview shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.desired import ttl
from providers.engine.messages import rerun_command, trimmed
from providers.engine.reconcile.status import with_status
from providers.engine.runtime.accounts import home_of
from providers.engine.runtime.tasks import repeated
from providers.errors import CloudError, GpusError
from providers.model.machine import RUNNING, STOPPED

if TYPE_CHECKING:
    from providers.adapters.guard import Cloud
    from providers.engine.desired import ClusterSpec
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle


async def switch(
    world: World, record: ClusterRecord, spec: ClusterSpec, digest: str
) -> ClusterRecord:
    """Brings the machines to the declared state, and returns the record as observed afterwards.
    `digest` is noted as applied.

    Raises GpusError when the cloud refuses: then those that had changed already are brought back,
    and nothing was bought or lost.
    """
    adapter = await home_of(world, record)
    state = spec.setup.state
    done: list[Handle] = []
    for handle in record.handles:
        try:
            await repeated(world, adapter.name, adapter.update, handle, {"state": state})
        except CloudError as error:
            back = [
                await _switched(world, adapter, other, STOPPED if state == RUNNING else RUNNING)
                for other in done
            ]
            raise GpusError(_refused(record, state, error, undone=all(back))) from error
        done.append(handle)
    now, limit_s = world.clock.now(), ttl(spec, record.entry)
    record = record._replace(
        applied=tuple(sorted({**dict(record.applied), "state": digest}.items())),
        # A machine's limit counts from each start.
        ends_at=now + limit_s if limit_s and state == RUNNING else 0.0,
    )
    after = with_status(
        record, await repeated(world, adapter.name, adapter.observe, record.handles), now
    )
    if after is None:
        raise GpusError(f"{record.cluster}: it is gone; run it again")
    world.report("info", f"{record.cluster}: {after.status}")
    if state == STOPPED:
        world.journal.stopped(after, now)
    else:
        world.journal.launched(after._replace(launched_at=now))
    return after


async def _switched(world: World, adapter: Cloud, handle: Handle, state: str) -> bool:
    try:
        await repeated(world, adapter.name, adapter.update, handle, {"state": state})
    except CloudError:
        return False
    return True


def _refused(record: ClusterRecord, state: str, error: CloudError, *, undone: bool) -> str:
    rest = "" if undone else "; its other machines could not be brought back: look at them"
    if state == STOPPED:
        return f"{record.cluster}: could not be stopped, so it runs on: {trimmed(error)}{rest}"
    where = record.placement.where
    todo = (
        f"try again later, or {rerun_command(record.cluster)} gets a new machine elsewhere, which"
        " loses this one's disk"
    )
    return (
        f"{record.cluster}: could not be started again in {where}, so it stays stopped, and in the"
        f" state: {trimmed(error)}{rest}; {todo}"
    )
