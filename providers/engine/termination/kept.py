"""The volumes with our labels, each with the stack that claims it, if one does. Deletes nothing:
data goes only where a stack declared that it may.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from providers.engine.messages import trimmed
from providers.engine.runtime.accounts import adapter_of
from providers.engine.runtime.deadlines import looking
from providers.engine.runtime.tasks import repeated
from providers.errors import GpusError, NotConfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.engine.runtime.world import World
    from providers.engine.termination.verdicts import Claims
    from providers.model.machine import Handle
    from providers.model.volume import Volume


class KeptVolume(NamedTuple):
    """A volume, and the stack whose state names it; empty for none."""

    volume: Volume
    stack: str
    why: str


async def survey(world: World, claims: Claims) -> tuple[tuple[KeptVolume, ...], tuple[str, ...]]:
    """The volumes of every provider that has some and is configured, the unclaimed first; and one
    line for each that could not be asked.
    """
    providers = [name for name, each in world.manifests.items() if each.storage is not None]
    with looking(world.name):
        answers = await asyncio.gather(*(_asked(world, name) for name in providers))
    found = [
        _verdict(each, claims.volumes, claims.unread) for volumes, _ in answers for each in volumes
    ]
    found.sort(key=lambda each: (bool(each.stack), each.volume.handle))
    return tuple(found), tuple(line for _, line in answers if line)


async def _asked(world: World, provider: str) -> tuple[Sequence[Volume], str]:
    try:
        store = (await adapter_of(world, provider)).volumes
        return await repeated(world, provider, store.find, tries=2), ""
    except NotConfigured:
        return (), ""
    except GpusError as error:
        return (), f"{provider}: its volumes could not be listed: {trimmed(error)}"


def _verdict(volume: Volume, claimed: Mapping[Handle, str], unread: Sequence[str]) -> KeptVolume:
    stack = claimed.get(volume.handle, "")
    if stack:
        return KeptVolume(volume, stack, f"claimed by {stack}")
    why = (
        f"whether a state claims it is not known: {', '.join(unread)} could not be read"
        if unread
        else "no state names it; a sweep deletes no volume: `up` of its stack takes it over, with"
        " delete_data: true a later destroy deletes it"
    )
    return KeptVolume(volume, "", why)
