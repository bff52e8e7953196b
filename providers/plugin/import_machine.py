"""`pulumi import`: finds a machine that the state does not know and makes it a cluster of it.

Owns the reading of the id that a user types: `[WORLD/][PROVIDER:]NATIVE_ID`, as in
`projects/P/zones/Z/instances/N`, or a cluster's own id. The machine is adopted by the engine; the
inputs say what it is, so that the program that declares it shows no change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import GpusError
from providers.model.worlds import REHEARSAL, WORLDS
from providers.plugin.diff import STRAY

if TYPE_CHECKING:
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World


def world_of(text: str) -> str:
    """The world that an id names; rehearsal when it names none, since a live machine is never meant
    by accident.
    """
    first = text.partition("/")[0]
    return first if first in WORLDS else REHEARSAL


def native_id(text: str) -> str:
    """The rest of the id."""
    first, _, rest = text.partition("/")
    return rest if first in WORLDS else text


async def find(world: World, text: str) -> ClusterRecord:
    """What is held under that id. Asks each provider that the id may be of; raises GpusError when
    none has it, or when a stack holds it already.
    """
    from providers.engine import messages, operations

    if text.count("/") == 2:
        record = from_journal(world, *text.split("/"))
        if record is not None:
            return _free(world, record)
    head, colon, tail = text.partition(":")
    named = colon and head in world.manifests
    refusals: list[str] = []
    for provider in (head,) if named else tuple(world.manifests):
        try:
            found = await operations.adopt_stray(world, provider, tail if named else text)
        except GpusError as error:
            refusals.append(messages.named(provider, error))
            continue
        if found is not None:
            return _free(world, found if found.owner else found._replace(owner=STRAY))
    said = "; ".join(refusals) or f"no machine of that id in the {world.name} world"
    other = "" if world.name != REHEARSAL else '; put "live/" before the id for a live machine'
    raise GpusError(
        f'wanted a machine such as "projects/P/zones/Z/instances/N", found {said}{other}'
    )


def _free(world: World, record: ClusterRecord) -> ClusterRecord:
    """The same record, if no state has named its machines since its owner's last look; two
    resources for one machine would delete each other's.
    """
    if not world.has_journal:
        return record
    ids = {handle.native_id for handle in record.handles}
    for launch in world.journal.launches(world.name):
        if (
            launch.ended_at is not None
            or launch.provider != record.provider
            or not ids & {*launch.native_ids}
        ):
            continue
        claims = world.journal.claims(world.name, launch.owner) or ()
        if any(claim.generation == launch.generation and claim.cluster for claim in claims):
            raise GpusError(
                f"{', '.join(sorted(ids))}: wanted a machine that no stack holds, found that it is"
                f" cluster {launch.cluster} of one (owner {launch.owner}); nothing is imported. If"
                " that state is lost, run `pulumi refresh --yes` in the stack, then import it"
            )
    return record


def from_journal(world: World, owner: str, name: str, generation: str) -> ClusterRecord | None:
    """A cluster by its own id, as the journal of this machine has it."""
    for launch in world.journal.launches(world.name, owner, name):
        if launch.generation == generation and launch.ended_at is None:
            from providers.engine.record import ClusterRecord

            return ClusterRecord.from_dict(launch.record)
    return None


def inputs_of(record: ClusterRecord) -> dict[str, Any]:
    """Inputs that declare exactly this."""
    place = record.placement
    values: dict[str, Any] = {
        "world": record.world,
        "owner": record.owner,
        "cluster": record.cluster,
        "gpu": place.gpu,
        "providers": [place.provider],
        "regions": [place.region],
    }
    if place.nodes > 1:
        values["nodes"] = place.nodes
    if record.kind != "machine":
        values["kind"] = record.kind
    if place.capacity != "on-demand":
        values["capacity"] = [
            f"reservation({place.reservation})" if place.reservation else place.capacity
        ]
    return values
