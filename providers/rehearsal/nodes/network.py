"""The network of a store's machines. Owns its range, and which address in it a machine has.

Each store has one of its own: two rehearsals give their machines the same addresses.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from providers.rehearsal.nodes import docker, mode, owned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.rehearsal.store import Store

WHOLE = IPv4Network("198.18.0.0/15")
"""The range for benchmarks (RFC 2544), in which the rehearsal clouds give their external addresses:
the first half is Google's, the other one EC2's.
"""
_BLOCK_BITS, _SHARE = 20, 7
"""A store has a /20: seven times 256 addresses for each cloud, and the last 256 for machines to
which a cloud gives none.
"""
_RANGE = "nodes range"


def name(store: Store) -> str:
    """Its name at Docker."""
    return owned.named(store, "network")


def address(store: Store, given: str) -> str:
    """The address at which a machine really is, to which its cloud gives this one."""
    block = store.value(_RANGE) if given and mode.of(store) == mode.DOCKER else ""
    if not block or (external := IPv4Address(given)) not in WHOLE:
        return given
    at = int(external) - int(WHOLE.network_address)
    cloud, third, fourth = at >> 16, at >> 8 & 255, at & 255
    return str(IPv4Network(block)[(cloud * _SHARE + third % _SHARE) * 256 + fourth])


def make(store: Store) -> None:
    """Makes it unless it is there, in a range that nobody else here uses. Raises DockerError."""
    words = ("network", "ls", "--filter", f"label={owned.label(store)}", "--format", "{{.Name}}")
    kept = store.value(_RANGE)
    if name(store) in docker.call(*words).split():
        if not kept:  # Who made it was interrupted.
            form = "{{(index .IPAM.Config 0).Subnet}}"
            store.set_value(
                _RANGE, docker.call("network", "inspect", "--format", form, name(store))
            )
        return
    refused = docker.DockerError(f"no part of {WHOLE} is free for the machines' network")
    for block in [IPv4Network(kept)] if kept else _free(store):
        try:
            _create(store, block)
        except docker.DockerError as error:
            refused = error
            if "overlaps" in str(error):
                continue
            raise
        store.set_value(_RANGE, str(block))
        return
    raise refused


def _free(store: Store) -> Iterator[IPv4Network]:
    """The blocks that no network of this host has, those first that others hardly choose."""
    blocks = list(WHOLE.subnets(new_prefix=_BLOCK_BITS))
    first = int(owned.digest(store), 16) % len(blocks)
    for block in blocks[first:] + blocks[:first]:
        if not is_here(block):
            yield block


def _create(store: Store, block: IPv4Network) -> None:
    words = ("network", "create", "--label", owned.label(store), "--subnet", str(block))
    rest = str(list(block.subnets(new_prefix=24))[-1])
    docker.call(*words, "--gateway", str(block[1]), "--ip-range", rest, name(store))


def check(store: Store) -> None:
    """Raises DockerError, and removes it, where it does not lead to this host."""
    if not is_here(IPv4Network(store.value(_RANGE))):
        remove(store)
        raise docker.DockerError(
            "wanted a Docker daemon of this machine, found one whose networks do not lead here"
            " (Docker Desktop, a rootless daemon, or DOCKER_HOST of another machine); use a daemon"
            " that runs here as root, or: gpus rehearse nodes played"
        )


def is_here(block: IPv4Network) -> bool:
    """Whether this host is the gateway of a range: then Docker's network begins here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as knocking:
        try:
            knocking.bind((str(block[1]), 0))
        except OSError:
            return False
    return True


def remove(store: Store) -> None:
    """Removes it, where it is; its range is anybody's then."""
    with suppress(docker.DockerError):
        docker.call("network", "rm", name(store))
    store.set_value(_RANGE, "")
