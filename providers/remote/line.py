"""The line to one machine: which program on this machine carries a command there. Owns the Line
protocol, addresses and port maps. Pure.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple, Protocol

from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Node

SSH_PORT = 22
_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._:-]{0,253}[A-Za-z0-9])?$")
_USER = re.compile(r"^[a-z_][a-z0-9_.-]{0,31}$")


class LocalCommand(NamedTuple):
    """A program to start here, never through a shell of ours. `env` and `cwd` None: as this process
    has them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    cwd: str | None = None


class Line(Protocol):
    """How one machine is reached. `shown` is what a person would type; `stand_in` says that it is a
    rehearsal's.
    """

    @property
    def shown(self) -> str: ...

    @property
    def stand_in(self) -> bool: ...

    def path(self, path: str) -> str:
        """Where an absolute path of the machine is, for a command there: the path itself, but that
        a stand-in's lie in its folder.
        """

    def command(self, text: str) -> LocalCommand:
        """Runs `text` in the login shell there, in the home folder, without a terminal."""

    def login(self) -> LocalCommand:
        """An interactive shell."""

    def tunnel(self, local: int, remote: int) -> LocalCommand | None:
        """Carries a port of this machine's loopback to one there until it is ended; None where that
        machine's ports are this machine's.

        Raises GpusError where its provider carries no ports, as `login` does where it carries
        commands alone.
        """


class Endpoint(NamedTuple):
    """Where a port of a machine answers."""

    host: str
    port: int


def as_root(text: str) -> str:
    """Shell words that run this text as root where the login may do so without a password, and in
    a lease of a machine as whoever has it.
    """
    return (
        's=; [ -n "${GPUS_LEASE:-}" ] || s=$(command -v sudo || true);'
        f" ${{s:+$s -n}} sh -c {shlex.quote(text)}"
    )


def endpoint(node: Node, port: int, *, maps_ports: bool) -> Endpoint | None:
    """Where this port of the machine answers from here, None while that is not known.

    Where ports are mapped, a port without an entry has no outside: it is never taken for itself.
    Raises GpusError for an address that is none.
    """
    host = node.external_ip or node.internal_ip
    outside = dict(node.ports).get(port) if node.ports or maps_ports else port
    if not host or outside is None:
        return None
    if not _HOST.match(host) or not 1 <= outside <= 65_535:
        raise GpusError(
            f"{node.name}: wanted an address and a port from its cloud, found {host!r} and"
            f" {outside}"
        )
    return Endpoint(host, outside)


def user(node: Node, default: str) -> str:
    """Whom to log in as. Raises GpusError for what is no user name."""
    name = node.ssh_user or default
    if not _USER.match(name):
        raise GpusError(f"{node.name}: wanted a user name, found {name!r}")
    return name
