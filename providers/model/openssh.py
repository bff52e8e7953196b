"""What OpenSSH's client is told wherever it is started from: one host key, nothing forwarded, no
configuration of the user's. Owns these options, and how they are written; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def options(known_hosts: Path, alias: str, *, pinned: bool, connect_s: int) -> dict[str, str]:
    """The options by name. `alias` is the name of the host key in `known_hosts`; unless it is
    `pinned`, the first key seen is taken. `connect_s`: seconds that reaching the port may take.
    """
    return {
        "StrictHostKeyChecking": "yes" if pinned else "accept-new",
        "UserKnownHostsFile": quoted(known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": alias,
        "UpdateHostKeys": "no",
        "CheckHostIP": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "PermitLocalCommand": "no",
        "ControlPath": "none",
        "ConnectTimeout": str(connect_s),
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "4",
        "LogLevel": "ERROR",
    }


def arguments(chosen: Mapping[str, str]) -> tuple[str, ...]:
    """These options on a command line, in place of every configuration file."""
    settings = (part for name, value in chosen.items() for part in ("-o", f"{name}={value}"))
    return ("-F", "none", *settings)


def quoted(path: Path) -> str:
    """A path as the client's option parser reads it: blanks separate several files."""
    return '"' + str(path).replace("%", "%%") + '"'
