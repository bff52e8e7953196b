"""What `gpus rehearse` can see and do here: machines, places, names, preemption. Owns no rows of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import calls, instances, launch, machines
from providers.rehearsal.clouds.aws import places as cloud
from providers.rehearsal.clouds.aws.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def places() -> frozenset[str]:
    """Every region and zone."""
    return frozenset(cloud.regions()) | frozenset(
        zone for region in cloud.regions() for zone in cloud.zones(region)
    )


def machine_types() -> frozenset[str]:
    """Every machine type."""
    return cloud.known_types()


def gpus() -> frozenset[str]:
    """Every GPU, by the catalog's name."""
    return frozenset(kind.gpu for kind in machines.types().values())


def methods() -> frozenset[str]:
    """Every call that the stand-in answers."""
    return frozenset(
        f"{service}.{operation}" for service, found in calls.HANDLERS.items() for operation in found
    )


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back."""
    return frozenset({"spot"})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every machine that exists now, whoever made it."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        return tuple(
            RehearsedMachine(
                PROVIDER,
                item.tags.get("Name") or item.name,
                item.state(rows.now).upper(),
                item.zone,
                item.machine_type,
                *machines.gpus_of(item.machine_type),
                item.capacity,
                item.tags,
                item.created,
            )
            for item in instances.shown(rows)
        )


def preempt(store: Store, name: str) -> int:
    """Takes back the Spot machines of this name that run; how many that were."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        named = [
            item
            for item in instances.shown(rows)
            if item.capacity == "spot" and name in (item.tags.get("Name"), item.name)
        ]
        return sum(instances.preempt(rows, item) for item in named)


def edit(store: Store, name: str, machine_type: str, gpu: str, count: int) -> int:
    """Makes the machines of this name another instance type, as a stop, a change and a start do;
    how many that were. GPUs come with the type.
    """
    del gpu, count
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        named = (
            [item for item in instances.shown(rows) if name in (item.tags.get("Name"), item.name)]
            if machine_type
            else []
        )
        for item in named:
            rows.write(item._replace(machine_type=machine_type))
        return len(named)


def idle(store: Store, name: str) -> float | None:
    """From now on the GPUs of the machine of this name have nothing to do: when its own timer ends
    it, 0 for never. None where none runs.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        named = [
            item
            for item in instances.shown(rows)
            if name in (item.tags.get("Name"), item.name) and item.state(rows.now) == "running"
        ]
        return launch.goes_idle(rows, named[0]) if named else None
