"""A lease as the engine's node. Owns a machine's words for how one is, and how it ended. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.ssh.errors import PROVIDER
from providers.model.machine import (
    GONE,
    PREEMPTED,
    RUNNING,
    STARTING,
    STOPPING,
    Handle,
    Node,
)

if TYPE_CHECKING:
    from providers.adapters.ssh.agent import Lease
    from providers.adapters.ssh.inventory import Machine

STATES = {"running": RUNNING, "starting": STARTING, "stopping": STOPPING, "lost": PREEMPTED}
OVER = {"ended": "its time was over", "done": "what ran there is done"}
"""How a lease ends that nobody released."""


def handle_of(machine: Machine, token: str) -> Handle:
    """The handle of a lease."""
    return Handle(PROVIDER, f"{machine.name}/{token}")


def seen(machine: Machine, lease: Lease) -> Node:
    """The node of a lease that stands."""
    fields = lease.fields
    detail = "the machine was restarted" if lease.state == "lost" else ""
    return Node(
        handle_of(machine, lease.token),
        fields.get("name", lease.token),
        STATES.get(lease.state, STARTING),
        lease.label,
        region=fields.get("region", ""),
        zone=fields.get("zone", ""),
        machine_type=fields.get("type", ""),
        gpu_type=fields.get("gpu", ""),
        gpu_count=int(lease.number("count")),
        capacity=fields.get("capacity", ""),
        internal_ip=machine.address or ("127.0.0.1" if machine.host == "local" else machine.host),
        created_at=lease.number("created"),
        detail=detail,
        login=f"gpus ssh {lease.label.cluster}",
    )


def gone(machine: Machine, token: str, why: str) -> Node:
    """The node of a lease that is no more; `why` is the machine's word, empty without one."""
    detail = OVER.get(why, f"{machine.name} has no such lease")
    return Node(
        handle_of(machine, token), token, GONE, detail=detail, zone=machine.name, ended=why in OVER
    )
