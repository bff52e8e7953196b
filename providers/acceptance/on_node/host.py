"""What the machine around the GPUs is: processor, memory, disk, network, and what its kernel log
says of the cards. Linux's own files; what is not there stays out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from typing import Any

XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")


def host() -> dict[str, Any]:
    """The machine as plain fields. Reads /proc and /sys."""
    disk = shutil.disk_usage(os.path.expanduser("~"))
    found = {
        "cpu": _match("/proc/cpuinfo", r"^(?:model name|Model)\s*:\s*(.+)$") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": _memory_gib(),
        "shm_gib": _gib(shutil.disk_usage("/dev/shm").total) if os.path.isdir("/dev/shm") else None,
        "disk_gib": _gib(disk.total),
        "disk_free_gib": _gib(disk.free),
        "kernel": platform.release(),
        "numa_nodes": len(_names("/sys/devices/system/node", r"node\d+$")) or None,
        "network": [_interface(name) for name in _names("/sys/class/net", r"(?!lo$|ifb|docker)")],
        "rdma": _names("/sys/class/infiniband", ""),
    }
    return {name: value for name, value in found.items() if value is not None}


def xids(log: str) -> list[dict[str, Any]]:
    """The driver's reports in a kernel log, as card and number. Pure."""
    return [
        {"pci": card.replace("PCI:", ""), "xid": int(number)} for card, number in XID.findall(log)
    ]


def kernel_log() -> str | None:
    """The kernel's log; None where this user may not read it."""
    try:
        done = subprocess.run(
            ["dmesg"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _memory_gib() -> float | None:
    """What this process may use: the machine's memory, or its container's share."""
    total = _match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    most = [int(total) * 1024] if total else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _match(path, r"^(\d+)$")
        if limit:
            most.append(int(limit))
    return _gib(min(most)) if most else None


def _interface(name: str) -> dict[str, Any]:
    speed = _match(f"/sys/class/net/{name}/speed", r"^(\d+)$")
    return {"name": name, "gbit_s": int(speed) / 1000 if speed else None}


def _names(folder: str, pattern: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if re.match(pattern, name))
    except OSError:
        return []


def _match(path: str, pattern: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return found.group(1).strip() if found is not None else None


def _gib(size: float) -> float:
    return round(size / 2**30, 1)
