"""EC2's rehearsed machines as containers: which are up, and what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import instances, launch, machines, volumes
from providers.rehearsal.clouds.aws.state import PROVIDER, SCHEMA, Rows
from providers.rehearsal.nodes import machine
from providers.rehearsal.nodes.disks import Attached
from providers.rehearsal.nodes.machine import Booted

if TYPE_CHECKING:
    from providers.rehearsal.clouds.aws.state import Instance
    from providers.rehearsal.store import Store


def existing(store: Store) -> frozenset[str]:
    """The keys of all machines, also of those that are stopped."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        return frozenset(machine.key(PROVIDER, item.name) for item in instances.shown(rows))


def booted(store: Store) -> tuple[Booted, ...]:
    """The machines that run now."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        return tuple(
            _booted(store, rows, item)
            for item in instances.shown(rows)
            if item.state(rows.now) == "running"
        )


def powered_off(store: Store, name: str) -> None:
    """The machine shut itself down: EC2 stops or terminates it, as its launch said."""
    with store.transaction() as db:
        rows = Rows(store, db, store.now())
        for item in instances.shown(rows):
            if machine.key(PROVIDER, item.name) == name:
                launch.powers_off(rows, item, rows.now)


def disks(store: Store) -> frozenset[str]:
    """The keys of all volumes that were made on their own."""
    store.tables(SCHEMA)
    with store.transaction() as db:
        return frozenset(
            machine.key(PROVIDER, body["id"])
            for body in volumes.everywhere(Rows(store, db, store.now()))
        )


def _booted(store: Store, rows: Rows, item: Instance) -> Booted:
    shown, given = instances.body(rows, item), str(item.body.get("user_data", ""))
    gpu, count = machines.gpus_of(item.machine_type)
    return Booted(
        machine.key(PROVIDER, item.name),
        f"ip-{shown['PrivateIpAddress'].replace('.', '-')}",
        shown.get("PublicIpAddress", ""),
        shown["PrivateIpAddress"],
        gpu,
        int(count),
        max(at for at, state, _ in item.timeline if state == "running" and at <= rows.now),
        (),
        given,
        always=False,
        metadata=(("/latest/api/token", "rehearsal"), ("/latest/user-data", given)),
        busy=not any(store.is_idle(name) for name in (item.tags.get("Name", ""), item.name)),
        disks=tuple(
            Attached(machine.key(PROVIDER, body["id"]), f"{_LINK}{serial}", serial)
            for body in volumes.everywhere(rows)
            if body["instance"] == item.name
            for serial in (body["id"].replace("-", ""),)
        ),
    )


_LINK = "nvme-Amazon_Elastic_Block_Store_"
"""What udev's link to a volume begins with."""
