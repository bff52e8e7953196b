"""What `gpus rehearse` can see and do here: jobs as machines, regions, names, preemption. Owns no
rows of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import machines
from providers.rehearsal.clouds.gcp.state import cut
from providers.rehearsal.clouds.vertex.accelerators import GPU_OF, LOCATIONS
from providers.rehearsal.clouds.vertex.calls import DOCUMENT
from providers.rehearsal.clouds.vertex.jobs import (
    FAILED,
    FINAL,
    PROVIDER,
    RUNNING,
    SCHEMA,
    Jobs,
    no_room,
)
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def places() -> frozenset[str]:
    """Every region."""
    return LOCATIONS


def machine_types() -> frozenset[str]:
    """Every machine type."""
    return frozenset(machines.types())


def gpus() -> frozenset[str]:
    """Every GPU, by the cloud's name and by the catalog's."""
    return frozenset(GPU_OF) | frozenset(GPU_OF.values())


def methods() -> frozenset[str]:
    """Every call that the stand-in answers."""
    return frozenset(method.name for method in DOCUMENT.methods)


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back."""
    return frozenset({"spot"})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every machine of a job that has not ended, whoever made it."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        table = Jobs(store, db)
        table.settle()
        return tuple(
            RehearsedMachine(
                *(
                    PROVIDER,
                    f"{job.body['displayName']}-{index}",
                    job.state(table.now).removeprefix("JOB_STATE_"),
                    job.region,
                    job.machine_type,
                ),
                *(
                    job.gpu,
                    float(job.gpu_count),
                    job.capacity,
                    job.body.get("labels") or {},
                    job.created,
                ),
            )
            for job in table.all()
            if job.state(table.now) not in FINAL
            for index in range(job.nodes)
        )


def preempt(store: Store, name: str) -> int:
    """Takes back the machines of the Spot jobs of this name that run, whose jobs end with it: how
    many those were.

    Vertex AI first tries to get them again by itself; here there are none.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        table = Jobs(store, db)
        table.settle()
        found = [
            job
            for job in table.all("capacity = 'spot'")
            if job.state(table.now) == RUNNING
            and name in {f"{job.body['displayName']}-{index}" for index in range(job.nodes)}
        ]
        for job in found:
            end = table.now + table.latency("preempt")
            table.write(
                job._replace(
                    timeline=cut(job.timeline, table.now, [(end, FAILED)]),
                    error=no_room(job.region),
                )
            )
        return sum(job.nodes for job in found)
