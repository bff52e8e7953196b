"""What `gpus rehearse` can see and do here: leases, boxes, a box that is restarted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.ssh import box as boxes
from providers.rehearsal.clouds.ssh.box import BOXES, ON_DEMAND, PROVIDER, REGION
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store


def places() -> frozenset[str]:
    """Every box, and all of them."""
    return frozenset({REGION, *(box.name for box in BOXES)})


def machine_types() -> frozenset[str]:
    """Every box."""
    return frozenset(box.name for box in BOXES)


def gpus() -> frozenset[str]:
    """Every card, as the driver writes it with blanks as dashes."""
    return frozenset(box.product.replace(" ", "-") for box in BOXES)


def methods() -> frozenset[str]:
    """Every verb that a box is asked."""
    from providers.rehearsal.clouds.ssh.server import METHODS

    return frozenset(METHODS)


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back: a box can be restarted."""
    return frozenset({ON_DEMAND})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every lease that stands now, whoever took it."""
    # Whole seconds, as a box counts.
    now = int(store.now())
    found = []
    for each in boxes.lent(store):
        box, fields = each.box, each.fields
        found.append(
            RehearsedMachine(
                PROVIDER,
                fields["name"],
                "LOST" if each.is_lost else "RUNNING" if each.begun <= now else "STARTING",
                box.name,
                box.name,
                box.product,
                len(fields["cards"].split()),
                ON_DEMAND,
                json.loads(fields["labels"]),
                float(fields["created"]),
            )
        )
    return tuple(found)


def preempt(store: Store, name: str) -> int:
    """Starts the box of the lease of this name again, which ends whatever ran there; how many
    leases of this name that were.
    """
    hit = [
        each.box for each in boxes.lent(store) if each.fields["name"] == name and not each.is_lost
    ]
    for box in hit:
        boxes.reboot(store, box)
    return len(hit)
