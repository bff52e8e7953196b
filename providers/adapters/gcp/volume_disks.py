"""The disks of an order's machines that stay when those go. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Order


def device(name: str) -> str:
    """What the machine finds the disk as: `/dev/disk/by-id/google-DEVICE`."""
    return f"gpus-{name}"


def attached(order: Order, sources: Mapping[str, str], prefix: str) -> list[dict[str, Any]]:
    """As a request has them. `prefix` stands before a disk's name."""
    return [
        {
            "type": "PERSISTENT",
            "source": f"{prefix}{sources[mount.name]}",
            "deviceName": device(mount.name),
            "mode": "READ_WRITE" if mount.writable else "READ_ONLY",
            "autoDelete": False,
        }
        for mount in order.setup.volumes
    ]
