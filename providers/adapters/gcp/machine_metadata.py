"""A machine's metadata: the keys of its users and its start-up script. Owns their size; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import keep_status
from providers.adapters.gcp import between_nodes
from providers.adapters.gcp import secrets as secret
from providers.errors import too_large
from providers.model import idle, shell
from providers.model.machine import OWN_KEY
from providers.model.secret import referred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.errors import Problem
    from providers.model.machine import Setup
METADATA_MAX, METADATA_ALL_MAX = 262_144, 524_288
"""Bytes of one value, and of all keys and values (Compute Engine v1, Metadata.items, read
2026-11-28).
"""


def ssh_keys(user: str, *public_keys: str) -> str:
    """The value of the metadata item `ssh-keys`: a line for each key (Google, "Add SSH keys to
    VMs": one entry a line). Empty without any.
    """
    return "\n".join(f"{user}:{key.strip()}" for key in dict.fromkeys(public_keys) if key.strip())


def own_keys(value: str) -> list[str]:
    """The keys of an `ssh-keys` value that an engine made for itself."""
    keys = [line.partition(":")[2].strip() for line in value.splitlines()]
    return [key for key in keys if key.split()[-1:] and key.split()[-1].startswith(OWN_KEY)]


def fetching(secrets: Sequence[tuple[str, str]]) -> str:
    """A script that fetches the secrets. Google runs it at every boot; it is safe to run again."""
    program = shell.program(
        __file__, "start_up", "proxies", secrets=secret.wanted(secrets), secrets_file=secret.FILE
    )
    return keep_status() + program


def start_up(setup: Setup, *, rdma: bool = False) -> str:
    """All that a machine runs at each boot: one program after the other, whatever became of those
    before it. `rdma`: among several with such a network between them. Empty for nothing.
    """
    secrets = referred(setup.secrets)
    programs = (
        idle.script(setup.idle_s) if setup.idle_s else "",
        between_nodes.installing() if rdma else "",
        fetching(secrets) if secrets else "",
        setup.script,
    )
    return "".join(programs)


def fits(setup: Setup) -> list[Problem]:
    """What a machine is told at its start that is more than Google takes. Pure."""
    told = metadata_of(setup)
    found = [
        too_large(
            "",
            f"metadata ({key})",
            len(value.encode()),
            METADATA_MAX,
            "fetch the rest from a bucket",
        )
        for key, value in told.items()
    ]
    total = sum(len(key.encode()) + len(value.encode()) for key, value in told.items())
    found.append(
        too_large("", "metadata in all", total, METADATA_ALL_MAX, "fetch the rest from a bucket")
    )
    return [problem for problem in found if problem is not None]


def metadata_of(setup: Setup, *, alone: bool = True, rdma: bool = False) -> dict[str, str]:
    """What the machine is told at its start, by key. One of several (not `alone`) has no idle
    timer: it cannot see whether the others work.
    """
    found: dict[str, str] = {}
    if keys := ssh_keys(setup.ssh_user, setup.ssh_public_key, setup.own_public_key):
        found["ssh-keys"] = keys
    if script := start_up(setup if alone else setup._replace(idle_s=0), rdma=rdma):
        found["startup-script"] = script
    return found
