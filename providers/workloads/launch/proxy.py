"""The proxy of a service of several replicas: HAProxy on each of its machines (`proxy.sh`).

Owns the port that callers see, and which workloads a proxy can stand before. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import Problem
from providers.workloads.launch.recipes import listens

if TYPE_CHECKING:
    from providers.model.workload import Workload

HTTP, HTTPS = 80, 443
"""Where callers find it: what a browser and curl take for HTTP, and with a certificate."""


def ports(workload: Workload) -> tuple[int, ...]:
    """The ports that the programs of a workload listen at."""
    found = (listens(task.launcher, task.port) for task in workload.tasks)
    return tuple(port for port in found if port)


def port(*, tls: bool) -> int:
    """Where a proxy listens, with or without a certificate."""
    return HTTPS if tls else HTTP


def problems(workload: Workload) -> list[Problem]:
    """Why no proxy can stand before this workload."""
    found = ports(workload)
    if len(found) != 1:
        texts = ", ".join(map(str, found)) or "none"
        wanted = "one port of the workload, to which a proxy passes the requests"
        return [Problem("replicas", wanted, texts, "declare a cluster for each service")]
    if found[0] in (HTTP, HTTPS):
        wanted = f"another port than {HTTP} and {HTTPS}, which are the proxy's of the replicas"
        return [Problem("workload.port", wanted, str(found[0]), "name another, such as 8000")]
    return []
