"""What stays here of a job whose machines go: the end of what each wrote. Owns the files `output/N`
in the cluster's folder, gone with the cluster.

Read where the cloud keeps it, else by login; what cannot be read is not kept, and keeps no machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.keys import folder
from providers.engine.readiness.access import key_probe
from providers.engine.runtime.tasks import repeated
from providers.errors import GpusError
from providers.home import private, private_folder
from providers.model.machine import RUNNING
from providers.model.workload import ROOT
from providers.model.worlds import REHEARSAL

if TYPE_CHECKING:
    from providers.adapters.guard import Cloud
    from providers.engine.record import ClusterRecord
    from providers.engine.runtime.world import World
    from providers.remote.line import Line

KEPT_BYTES = 256 * 1024
"""Of each machine's output, from its end."""
_PLACE = "output"


async def save_output(world: World, adapter: Cloud, record: ClusterRecord) -> None:
    """Writes the end of each machine's output here, readable only by this user. One call for each;
    never raises what a cloud says.
    """
    which = (record.owner, record.cluster, record.provider)
    for number, node in enumerate(record.machines):
        try:
            if adapter.logs:
                text = str(await repeated(world, adapter.name, adapter.log, node.handle))
            elif (
                world.name != REHEARSAL
                and node.status == RUNNING
                and (looker := key_probe(world, *which, pinned=True)) is not None
            ):
                text = await _told(looker.line(node))
            else:
                continue
            place = folder(world.name, record.owner, record.cluster) / _PLACE
            private_folder(place)
            path = private(place / str(number))
            path.write_text(text[-KEPT_BYTES:], encoding="utf-8")
        except (GpusError, OSError) as error:
            world.report(
                "warning",
                f"{record.cluster}: what {node.name} wrote could not be kept:"
                f" {str(error).splitlines()[0]}",
            )


def kept(record: ClusterRecord, number: int) -> str | None:
    """The end of what that machine wrote; None where nothing was kept. Reads one file."""
    path = folder(record.world, record.owner, record.cluster) / _PLACE / str(number)
    return path.read_text(encoding="utf-8") if path.is_file() else None


async def _told(line: Line | None) -> str:
    from providers.remote.run import finished

    if line is None:
        raise GpusError("it has no address")
    code, output, errors = await finished(line.command(f"tail -c {KEPT_BYTES} {ROOT}/log"))
    if code:
        raise GpusError(errors.strip()[:160] or f"tail ended with {code}")
    return output
