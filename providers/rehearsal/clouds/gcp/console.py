"""What `gpus rehearse` can see and do here: machines, places, names, preemption. Owns no rows of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import call, calls, machines, place, vms
from providers.rehearsal.clouds.gcp.discovery import COMPUTE
from providers.rehearsal.clouds.gcp.state import SCHEMA, Rows
from providers.rehearsal.clouds.gcp.wire import ROOT
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def places() -> frozenset[str]:
    """Every region and zone."""
    return frozenset(machines.regions()) | frozenset(machines.zones())


def unplaced() -> dict[str, frozenset[tuple[str, str]]]:
    """Region -> the (machine type, GPU) that sources sell there without naming a zone: asked for in
    good order, they are never had here.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    for name, machine in machines.types().items():
        for region in machine.regions - {machines.region_of(zone) for zone in machine.zones}:
            found.setdefault(region, set()).add((name, machine.gpu))
    return {region: frozenset(kinds) for region, kinds in found.items()}


def machine_types() -> frozenset[str]:
    """Every machine type."""
    return frozenset(machines.types())


def gpus() -> frozenset[str]:
    """Every GPU, by the cloud's name and by the catalog's."""
    attached = machines.attachable()
    names = {machine.gpu for machine in machines.types().values()} | {
        gpu for gpu, _ in attached.values()
    }
    return frozenset(names | set(machines.accelerators())) - {""}


def methods() -> frozenset[str]:
    """Every call that the stand-in answers."""
    return frozenset(method.name for method in COMPUTE.methods)


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back."""
    return frozenset({"spot"})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every machine that exists now, whoever made it."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        return tuple(
            RehearsedMachine(
                "gcp",
                vm.name,
                vm.status(rows.now),
                vm.zone,
                vm.machine_type,
                vm.gpu,
                vm.gpu_count,
                vm.capacity,
                vm.body["labels"],
                vm.created,
            )
            for vm in rows.vms()
        )


def preempt(store: Store, name: str) -> int:
    """Takes back the Spot machines of this name that run; how many that were."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        return sum(
            vms.preempt(rows, vm) for vm in rows.vms("name = ? AND capacity = 'spot'", (name,))
        )


def edit(store: Store, name: str, machine_type: str, gpu: str, count: int) -> int:
    """Makes the machines of this name another machine type, or another number of GPUs, as a stop, a
    change and a start do; how many that were.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        found = rows.vms("name = ?", (name,))
        for vm in found:
            kind = machines.types()[machine_type or vm.machine_type]
            accelerator, card, number = kind.accelerator, kind.gpu, kind.gpu_count
            if not machine_type:
                accelerator, card, number = (
                    next(
                        (name for name, (card, _) in machines.attachable().items() if card == gpu),
                        accelerator,
                    ),
                    gpu,
                    count,
                )
            link = f"{ROOT}/projects/{vm.project}/zones/{vm.zone}"
            cards = (
                [
                    {
                        "acceleratorType": f"{link}/acceleratorTypes/{accelerator}",
                        "acceleratorCount": int(number),
                    }
                ]
                if number >= 1
                else []
            )
            body = {
                **vm.body,
                "machineType": f"{link}/machineTypes/{kind.name}",
                "guestAccelerators": cards,
            }
            rows.reshape(vm._replace(machine_type=kind.name, gpu=card, gpu_count=number, body=body))
        return len(found)


def idle(store: Store, name: str) -> float | None:
    """From now on the GPUs of the machine of this name have nothing to do: when its own timer stops
    it, 0 for never. None where none runs.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        named = [vm for vm in rows.vms("name = ?", (name,)) if vm.status(rows.now) == "RUNNING"]
        return vms.goes_idle(rows, named[0]) if named else None


PROJECT = "rehearsal"
"""The project of a rehearsal unless its settings name another."""


def reserve(store: Store, name: str, zone: str, machine_type: str, count: int = 1) -> None:
    """Keeps capacity for machines of a type in a zone, as the user's own
    reservation of that name.
    """
    store.tables(SCHEMA)
    body = {
        "name": name,
        "specificReservation": {
            "count": str(count),
            "instanceProperties": {"machineType": machine_type},
        },
        "specificReservationRequired": True,
    }
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        calls.HANDLERS["reservations.insert"](
            call.Call(
                "reservations.insert", rows, PROJECT, {"project": PROJECT, "zone": zone}, {}, body
            )
        )


def disks(store: Store) -> tuple[str, ...]:
    """Every disk that exists now, `zones/Z/NAME`: machines' own,
    and those that stay without one.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        machines_now = {vm.id for vm in rows.vms("project = ?", (PROJECT,))}
        found = db.execute(
            "SELECT zone, name, vm, auto_delete FROM gcp_disk WHERE project = ? ORDER BY id",
            (PROJECT,),
        )
        own = [
            f"zones/{zone}/{name}"
            for zone, name, vm, auto_delete in found
            if vm in machines_now or not auto_delete
        ]
        return (
            *own,
            *(f"{scope}/{name}" for _, scope, name, _ in rows.resources(PROJECT, "disks")),
        )
