"""Google's rehearsed machines as containers: which are up, and what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.gcp import attachments, place, vms
from providers.rehearsal.clouds.gcp.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.nodes import machine
from providers.rehearsal.nodes.disks import Attached
from providers.rehearsal.nodes.machine import Booted

if TYPE_CHECKING:
    from providers.rehearsal.clouds.gcp.state import Vm
    from providers.rehearsal.clouds.gcp.wire import Json
    from providers.rehearsal.store import Store


def existing(store: Store) -> frozenset[str]:
    """The keys of all machines, also of those that are stopped."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        return frozenset(machine.key(PROVIDER, vm.id) for vm in Rows(store, db, store.now()).vms())


def booted(store: Store) -> tuple[Booted, ...]:
    """The machines that run now."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        place.settle(rows)
        return tuple(
            _booted(store, rows, vm) for vm in rows.vms() if vm.status(rows.now) == "RUNNING"
        )


def powered_off(store: Store, name: str) -> None:
    """The machine stopped itself: Google keeps it, terminated."""
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        for vm in rows.vms():
            if machine.key(PROVIDER, vm.id) == name:
                vms.powers_off(rows, vm, rows.now)


def disks(store: Store) -> frozenset[str]:
    """The keys of all disks that were made on their own."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        return frozenset(map(_disk_key, attachments.disks(Rows(store, db, store.now()))))


def _disk_key(body: Json) -> str:
    return machine.key(PROVIDER, f"disk-{body['id']}")


def _booted(store: Store, rows: Rows, vm: Vm) -> Booted:
    told = {
        str(item.get("key")): str(item.get("value", "")) for item in vm.body["metadata"]["items"]
    }
    nic = vm.body["networkInterfaces"][0]
    there = {body["selfLink"]: body for body in attachments.disks(rows)}
    external = next((access.get("natIP", "") for access in nic.get("accessConfigs", ())), "")
    return Booted(
        machine.key(PROVIDER, vm.id),
        vm.name,
        external,
        nic["networkIP"],
        place.wish_of(vm).gpu,
        int(vm.gpu_count),
        max(at for at, status in vm.timeline if status == "RUNNING" and at <= rows.now),
        tuple(line for line in told.get("ssh-keys", "").splitlines() if line.strip()),
        told.get("startup-script", ""),
        always=True,
        metadata=tuple(
            (f"/computeMetadata/v1/instance/attributes/{name}", text) for name, text in told.items()
        ),
        busy=not store.is_idle(vm.name),
        disks=tuple(
            Attached(_disk_key(there[disk["source"]]), f"google-{disk['deviceName']}", "-")
            for disk in vm.body["disks"]
            if disk.get("source") in there
        ),
    )
