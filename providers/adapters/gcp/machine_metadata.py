"""A machine's metadata: the keys of its users and its start-up script. Owns their size; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import keep_status, too_large
from providers.adapters.gcp import between_nodes
from providers.adapters.gcp import secrets as secret
from providers.adapters.gcp.options import Options
from providers.adapters.gcp.options import read as read_options
from providers.model import idle, shell
from providers.model.machine import OWN_KEY
from providers.model.secret import referred

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.errors import Problem
    from providers.model.machine import Setup
METADATA_MAX, METADATA_ALL_MAX = 262_144, 524_288
"""Bytes of one value, and of all keys and values (Compute Engine v1, Metadata.items, read
2026-11-28).
"""
_FINISHED = "/var/lib/gpus/finished"
"""There once the container has ended well: then no boot runs it again."""


def ssh_keys(user: str, *public_keys: str) -> str:
    """The value of the metadata item `ssh-keys`: a line for each key (Google, "Add SSH keys to
    VMs": one entry a line). Empty without any.
    """
    return "\n".join(f"{user}:{key.strip()}" for key in dict.fromkeys(public_keys) if key.strip())


def own_keys(value: str) -> list[str]:
    """The keys of an `ssh-keys` value that an engine made for itself."""
    keys = [line.partition(":")[2].strip() for line in value.splitlines()]
    return [key for key in keys if key.split()[-1:] and key.split()[-1].startswith(OWN_KEY)]


def start_up_script(container: str = "", secrets: Sequence[tuple[str, str]] = ()) -> str:
    """A script that fetches the secrets and runs the container with all GPUs. Google runs it at
    every boot; it is safe to run again.

    A container that ended with 0 while the machine was up is finished, and is not run again; one
    that failed, or went down with the machine, is. The Deep Learning images of 2026 come without
    docker (user reports), so docker and NVIDIA's container toolkit are installed when missing.
    """
    program = shell.program(
        __file__,
        "start_up",
        "proxies",
        "packages",
        secrets=secret.wanted(secrets),
        secrets_file=secret.FILE,
        secret_names=[name for name, _ in secrets],
        image=container,
        finished=_FINISHED,
    )
    return keep_status() + program


def start_up(setup: Setup, options: Options | None = None, *, rdma: bool = False) -> str:
    """All that a machine runs at each boot: one program after the other, whatever became of those
    before it. `rdma`: among several with such a network between them. Empty for nothing.
    """
    container = (options or read_options(dict(setup.options))).container
    secrets = referred(setup.secrets)
    programs = (
        idle.script(setup.idle_s) if setup.idle_s else "",
        between_nodes.installing() if rdma else "",
        start_up_script(container, secrets) if container or secrets else "",
        "" if container else setup.script,
    )
    return "".join(programs)


def fits(section: Mapping[str, object], setup: Setup) -> list[Problem]:
    """What a machine is told at its start that is more than Google takes. Pure."""
    told = metadata_of(setup, read_options(section))
    paths = {"startup-script": "container"}
    found = [
        too_large(
            paths.get(key, ""),
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


def metadata_of(
    setup: Setup, options: Options, *, alone: bool = True, rdma: bool = False
) -> dict[str, str]:
    """What the machine is told at its start, by key. One of several (not `alone`) has no idle
    timer: it cannot see whether the others work.
    """
    found: dict[str, str] = {}
    if keys := ssh_keys(setup.ssh_user, setup.ssh_public_key, setup.own_public_key):
        found["ssh-keys"] = keys
    if script := start_up(setup if alone else setup._replace(idle_s=0), options, rdma=rdma):
        found["startup-script"] = script
    return found
