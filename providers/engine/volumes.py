"""The verbs of one volume: create, read, update, delete; and which volumes an owner's stack may
take over.

Owns that no second volume is made of one declaration, that none is shrunk, that data goes only
where `delete` was asked for, and that the journal counts what each costs: more from before the call
that makes it cost more, less only once that was observed. A volume is the stack's by its labels:
the owner, and the stack's id, which stays when the owner goes.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from providers.engine import volume_costs
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.tasks import pause, repeated, shielded
from providers.errors import (
    CloudError,
    GpusError,
    HalfMade,
    OutcomeUnknown,
    Problem,
    RateLimited,
    SpecError,
    Transient,
)
from providers.model.volume import CREATING, DELETING, VolumeOrder

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.adapters.guard import Volumes
    from providers.engine.record import Account
    from providers.engine.runtime.tasks import StopSignal
    from providers.engine.runtime.world import World
    from providers.model.machine import Handle
    from providers.model.volume import Volume, VolumeSpec

WAIT_S, POLL_S = 120.0, 1.0
"""How long a volume may take to be ready, and its last machine to let go of it."""


async def create(
    world: World,
    spec: VolumeSpec,
    owner: str,
    stack: str,
    former: Collection[str] = (),
    title: str = "",
) -> Volume:
    """The stack's volume of this name: what is there already, else a new one.

    `former` are the stack's earlier owners: what they left is taken over. Raises GpusError for one
    that is somebody else's or that is not as declared, OutcomeUnknown where an answer was lost and
    the cloud cannot tell yet; the next run goes on with the same token.
    """

    async def work(_stop: StopSignal) -> Volume:
        store = (await adapter_of(world, spec.provider)).volumes
        account = await asyncio.to_thread(world.account, spec.provider)
        found = await _there(world, store, spec, owner, stack, former)
        if found is None:
            order, is_sent = await _intended(world, spec, owner, stack, title)
            found = await _made(world, store, order, is_sent)
        # Counted before its order is forgotten: it is in the journal all the time.
        await volume_costs.count(world, owner, found, account)
        await _settled(world, owner, spec)
        # An interrupted run may have asked for another size.
        return await _converged(world, store, found, spec, owner, account)

    return await shielded(world, work, None)


async def read(
    world: World, handle: Handle, account: Account | None = None, owner: str = ""
) -> Volume | None:
    """The volume now; None only where its cloud says that it does not exist. What it costs is
    written down as that owner's, if one is named.
    """
    store = (await adapter_of(world, handle.provider, account)).volumes
    found = await repeated(world, handle.provider, store.look, handle, tries=2)
    # What buys will say what is wrong with a journal that can't be written.
    with suppress(GpusError):
        if found is None:
            await _gone(world, handle)
        elif owner:
            await volume_costs.count(world, owner, found, account)
    return found


async def update(
    world: World, handle: Handle, spec: VolumeSpec, owner: str, account: Account | None = None
) -> Volume:
    """Makes the volume as large as declared, and the owner's. Raises GpusError where it is gone."""

    async def work(_stop: StopSignal) -> Volume:
        store = (await adapter_of(world, handle.provider, account)).volumes
        there = await repeated(world, handle.provider, store.look, handle)
        if there is None:
            await _gone(world, handle)
            raise GpusError(
                f"{spec.name}: wanted the volume {handle.native_id}, found that {handle.provider}"
                " does not know it any more; `pulumi refresh` takes it out of the state"
            )
        await volume_costs.count(world, owner, there, account)
        return await _converged(world, store, there, spec, owner, account)

    return await shielded(world, work, None)


async def delete(world: World, name: str, handle: Handle, account: Account | None = None) -> None:
    """Deletes the volume with all its data, and confirms it. Again is fine. Raises HalfMade while
    it may still cost money.
    """

    async def work(_stop: StopSignal) -> None:
        provider = handle.provider
        store = (await adapter_of(world, provider, account)).volumes
        until = world.clock.now() + WAIT_S
        asked = False
        while (there := await repeated(world, provider, store.look, handle)) is not None:
            if not there.users and not asked:
                await repeated(world, provider, store.delete, handle)
                asked = True
                continue
            if world.clock.now() >= until:
                why = (
                    f"it is attached to {', '.join(there.users)}"
                    if there.users
                    else f"it is {there.status}"
                )
                raise HalfMade(
                    f"{name}: {handle.native_id} could not be deleted: {why}; it is still billed",
                    handles=(handle,),
                    provider=provider,
                )
            await pause(world, POLL_S)
        await _gone(world, handle)

    await shielded(world, work, None)


async def _there(
    world: World,
    store: Volumes,
    spec: VolumeSpec,
    owner: str,
    stack: str,
    former: Collection[str],
) -> Volume | None:
    """The volume that is the stack's already. Raises GpusError for several, and for one of an owner
    that this machine's journal does not know as the stack's.
    """
    found = await repeated(world, spec.provider, lambda: store.find(stack=stack, name=spec.name))
    if not found:
        return None
    ours = [each for each in found if each.owner in {owner, *former}]
    if any(each.status == DELETING for each in ours):
        raise GpusError(f"{spec.name}: its volume is being deleted; run `pulumi up` again")
    if len(ours) == 1:
        return ours[0]
    ids = ", ".join(each.handle.native_id for each in ours or found)
    todo = (
        f"`pulumi import gpu:index:Volume {spec.name}"
        f" {world.name}/{spec.provider}/{(ours or found)[0].handle.native_id}` takes it over; for"
        " a new one, use another name"
    )
    what = "several" if ours else "one of another owner, which may be another stack's of this name"
    raise GpusError(f"{spec.name}: wanted this stack's volume, found {what}: {ids}; {todo}")


async def _intended(
    world: World, spec: VolumeSpec, owner: str, stack: str, title: str
) -> tuple[VolumeOrder, bool]:
    """The order that is to be sent, and whether an earlier call may have made its volume: the one
    whose outcome is unknown, else a new one. It is on the disk when this returns.
    """
    journal = world.journal
    known = await asyncio.to_thread(journal.intended_volume, world.name, owner, spec.name)
    if known is not None and (known.spec.provider, known.spec.place) == (spec.provider, spec.place):
        return known, await _repeated(world, known)
    if known is not None:
        raise GpusError(
            f"{spec.name}: wanted to know what became of an earlier order of it at {known.spec},"
            f" found it declared at {spec.provider} {spec.place} by now; declare it there as"
            " before, once, or use another name"
        )
    order = VolumeOrder(spec, owner, stack, str(uuid.uuid4()), title)
    costs = volume_costs.spell(world, owner, spec)
    await asyncio.to_thread(journal.intend_volume, world.name, order, costs)
    return order, False


async def _made(world: World, store: Volumes, order: VolumeOrder, is_sent: bool) -> Volume:
    """Sends the order: once more after a lost answer, since the cloud does one token's work once.
    Raises the refusal of the only call, which makes nothing, or what leaves it unknown: of a later
    call, a refusal does not tell what an earlier one made.
    """
    spec = order.spec
    for last in (False, True):
        call = world.begin(store.create, order)
        try:
            return await world.wait_for(spec.provider, call, creates=True)
        except CloudError as error:
            refused = not isinstance(error, (OutcomeUnknown, RateLimited, Transient))
            if refused and not is_sent:
                await _settled(world, order.owner, spec)
                raise
            # It may have been made, and not be in every list yet.
            found = await repeated(
                world, spec.provider, lambda: store.find(owner=order.owner, name=spec.name)
            )
            if found:
                return found[0]
            if last or refused:
                raise OutcomeUnknown(
                    f"{spec.name}: it is not known whether the volume was made: {error}; the next"
                    " `up` asks again with the same token, which makes no second one",
                    token=order.token,
                    provider=spec.provider,
                    code=error.code,
                ) from error
            is_sent = True
            await pause(world, POLL_S)
            await _repeated(world, order)
    raise AssertionError("the last try either returns or raises")


async def _repeated(world: World, order: VolumeOrder) -> bool:
    """Writes down that an order which no list shows is sent again. Returns whether an earlier call
    of it may have made the volume.
    """
    costs = volume_costs.spell(world, order.owner, order.spec)
    sent_at = await asyncio.to_thread(world.journal.repeat_volume, world.name, order, costs)
    return costs.began_at - sent_at <= volume_costs.UNSEEN_S


async def _settled(world: World, owner: str, spec: VolumeSpec) -> None:
    await asyncio.to_thread(world.journal.settled_volume, world.name, owner, spec)


async def _gone(world: World, handle: Handle) -> None:
    if world.has_journal:
        now = world.clock.now()
        await asyncio.to_thread(world.journal.gone_volume, world.name, handle, now)


async def _converged(
    world: World,
    store: Volumes,
    there: Volume,
    spec: VolumeSpec,
    owner: str,
    account: Account | None,
) -> Volume:
    """The volume, ready, the owner's, and as large as declared. Raises SpecError for what can't be
    made of it.
    """
    refuse(there.spec, spec)
    provider, handle = spec.provider, there.handle
    until = world.clock.now() + WAIT_S
    now: Volume | None = there
    while now is not None and now.status == CREATING and world.clock.now() < until:
        await pause(world, POLL_S)
        now = await repeated(world, provider, store.look, handle)
    if there.owner != owner:
        world.report("info", f"{spec.name}: taking over {handle.native_id}, with its data")
        await repeated(world, provider, store.claim, handle, owner)
    if there.spec.size_gib < spec.size_gib:
        larger = there._replace(spec=there.spec._replace(size_gib=spec.size_gib))
        await volume_costs.count(world, owner, larger, account)
        await repeated(world, provider, store.grow, handle, spec.size_gib)
    while True:
        now = await repeated(world, provider, store.look, handle)
        if now is None:
            await _gone(world, handle)
            raise GpusError(f"{spec.name}: {handle.native_id} went away while it was made ready")
        if now.spec.size_gib >= spec.size_gib or world.clock.now() >= until:
            await volume_costs.count(world, owner, now, account)
            return now
        await pause(world, POLL_S)


def refuse(there: VolumeSpec, wanted: VolumeSpec) -> None:
    """Raises SpecError where a volume can't become what is declared and keep its data. Pure."""
    found: list[Problem] = []
    for field in ("provider", "place", "type"):
        before, after = getattr(there, field), getattr(wanted, field)
        if before != after:
            todo = "declare another one under another name, copy the data, then remove this one"
            found.append(Problem(field, f"{before}, where its data is", repr(after), todo))
    if wanted.size_gib < there.size_gib:
        found.append(
            Problem(
                "size_gib",
                f"at least {there.size_gib}, which it has",
                str(wanted.size_gib),
                "a volume grows and is never shrunk",
            )
        )
    if found:
        raise SpecError([each._replace(path=f"{wanted.name}.{each.path}") for each in found])
