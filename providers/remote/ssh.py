"""ssh to a machine, by OpenSSH's own client. Owns the client's options, keys and pinned host keys.

The client is the system's: it is on every Linux and macOS, is patched with the system, and is what
people debug with. (asyncssh and paramiko would put a second implementation of the protocol, and
cryptography, under every installation; asyncssh serves the tests.) The user's own ssh configuration
is not read: it may forward an agent, send environment variables or offer further keys to a
stranger's machine.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import GpusError
from providers.model import openssh, regular
from providers.remote import driver
from providers.remote.line import SSH_PORT, LocalCommand, endpoint, user
from providers.remote.probe import CLOSED, NO_ADDRESS, NO_LOGIN, ProbeResult
from providers.remote.provider_exec import Own
from providers.remote.run import finished

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from providers.adapters.base import Manifest
    from providers.model.machine import Node
    from providers.model.placement import Placement
    from providers.remote.line import Endpoint
    from providers.remote.probe import Ordered

CONNECT_S = 10
"""Seconds that reaching the port may take."""
FAILED = 255
"""The client's own exit code when the connection, and not the command, failed (ssh(1), EXIT
STATUS).
"""
_BANNER_S = 5.0
_FAST = "Ciphers=^aes128-gcm@openssh.com"
"""Before the client's own choice: with the processor's help it costs a third of what that does."""


class Key(NamedTuple):
    """A key pair on disk. `own`: made for one cluster, and removed with it."""

    private: Path
    public: str
    own: bool


class Ssh(NamedTuple):
    """The line to one machine. `alias` is the name under which its host key is pinned; until
    `pinned`, the first key seen is taken.
    """

    host: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    alias: str
    pinned: bool = True
    agent: bool = False
    connection: Path | None = None
    """The socket of a connection that `master` keeps, for every further command to go by."""

    @property
    def shown(self) -> str:
        pinned = (
            "-o",
            f"UserKnownHostsFile={openssh.quoted(self.known_hosts)}",
            "-o",
            f"HostKeyAlias={self.alias}",
        )
        return shlex.join(
            [
                "ssh",
                "-a",
                "-p",
                str(self.port),
                "-i",
                str(self.key),
                "-o",
                "IdentitiesOnly=yes",
                *pinned,
                f"{self.user}@{self.host}",
            ]
        )

    @property
    def stand_in(self) -> bool:
        return False

    def path(self, path: str) -> str:
        return path

    def command(self, text: str) -> LocalCommand:
        return LocalCommand((*self._client("-T", "-o", "BatchMode=yes"), text))

    def login(self) -> LocalCommand:
        return LocalCommand(self._client("-t"))

    def master(self) -> LocalCommand:
        """Connects, and keeps the connection at `connection` until it is ended."""
        return LocalCommand(self._client("-M", "-N", "-T", "-o", "BatchMode=yes", "-o", _FAST))

    def tunnel(self, local: int, remote: int) -> LocalCommand | None:
        options = (
            "-N",
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            "ExitOnForwardFailure=yes",
            "-L",
            f"127.0.0.1:{local}:localhost:{remote}",
        )
        return LocalCommand(self._client(*options))

    def entry(self, name: str) -> str:
        """The `Host` block of OpenSSH's configuration by which `ssh NAME` is this line."""
        lines = {
            "HostName": self.host,
            "Port": str(self.port),
            "User": self.user,
            "IdentityFile": openssh.quoted(self.key),
            **self._options(),
        }
        return "\n".join([f"Host {name}", *(f"  {key} {value}" for key, value in lines.items())])

    def _options(self) -> dict[str, str]:
        """What every client is told, wherever it is started from."""
        options = {
            **openssh.options(
                self.known_hosts, self.alias, pinned=self.pinned, connect_s=CONNECT_S
            ),
            "IdentitiesOnly": "yes",
            "PreferredAuthentications": "publickey",
            **({"ControlPath": openssh.quoted(self.connection)} if self.connection else {}),
        }
        return options if self.agent else {**options, "IdentityAgent": "none"}

    def _client(self, *more: str) -> tuple[str, ...]:
        identity = ("-i", str(self.key), "-p", str(self.port))
        return (
            program("ssh"),
            *openssh.arguments(self._options()),
            *identity,
            *more,
            "--",
            f"{self.user}@{self.host}",
        )


class SshProbe(NamedTuple):
    """Ready: an address and a port answer, a login works, the driver answers with the GPUs that
    were ordered. Pins the host key at first sight.
    """

    key: Key | None
    """None where no machine is reached by ssh."""
    known_hosts: Path
    default_user: str
    maps_ports: frozenset[str] = frozenset()
    """The providers whose ports are mapped."""
    pinned: bool = False
    """Its machines were ready once: no host key is taken any more that was not seen then."""
    own: Mapping[str, tuple[Manifest, Mapping[str, str]]] = {}
    """The providers whose machines take commands in their own way, not by ssh, with the settings of
    the machines' account.
    """

    def line(self, node: Node) -> Ssh | Own | None:
        """The line to a machine, None while it has no address or its ssh port no outside."""
        manifest, settings = self.own.get(node.handle.provider, (None, {}))
        if manifest is not None and manifest.console.program is not None:
            shell, port = (
                tuple(made(node, settings)) if made is not None else ()
                for made in (manifest.console.shell, manifest.console.port)
            )
            return Own(
                tuple(manifest.console.program(node, settings)),
                node.handle.provider,
                node.login,
                shell,
                port,
                manifest.console.folder,
            )
        where = endpoint(node, SSH_PORT, maps_ports=node.handle.provider in self.maps_ports)
        if where is None or self.key is None:
            return None
        name = user(node, self.default_user)
        pinned = self.pinned or known(self.known_hosts, node)
        return Ssh(
            where.host,
            where.port,
            name,
            self.key.private,
            self.known_hosts,
            alias(node),
            pinned,
            agent=not self.key.own,
        )

    async def __call__(self, node: Node, placed: Ordered) -> ProbeResult:
        try:
            line = self.line(node)
        except GpusError as error:
            return ProbeResult(NO_ADDRESS, str(error), final=True)
        if line is None:
            has_host = node.external_ip or node.internal_ip
            return ProbeResult(
                NO_ADDRESS,
                "its ssh port is not mapped yet" if has_host else "the cloud has told none yet",
            )
        if isinstance(line, Own):
            return await self._own(line, placed.placement)
        closed = await _closed(line)
        if closed:
            return ProbeResult(CLOSED, closed)
        code, output, errors = await finished(
            line.command(f"exec sh -c {shlex.quote(driver.QUERY)}")
        )
        if code == FAILED:
            return ProbeResult(
                NO_LOGIN,
                f"{line.user}@{line.host}:{line.port}: {_last(errors) or 'ssh could not log in'}",
            )
        return driver.look(code, output, errors, placed.placement)

    async def _own(self, line: Own, placed: Placement) -> ProbeResult:
        code, output, errors = await finished(
            line.command(f"exec sh -c {shlex.quote(driver.QUERY)}")
        )
        if code == FAILED:
            return ProbeResult(NO_LOGIN, _last(errors) or f"{line.provider} took no command")
        upgrade = self.own[line.provider][0].limits.upgrade
        return driver.look(
            code, output, errors, placed, upgrade(placed.gpu_type) if upgrade is not None else ""
        )


def alias(node: Node) -> str:
    """The name that a machine's host key is pinned under: addresses are used again, names of
    machines are not.
    """
    return (
        "gpus-"
        + "".join(
            letter if letter.isalnum() or letter in "-." else "-"
            for letter in node.handle.native_id.lower()
        )[-200:]
    )


def known(known_hosts: Path, node: Node) -> bool:
    """True when the machine's host key is pinned. Reads one file."""
    try:
        lines = known_hosts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split(" ", 1)[0] == alias(node) for line in lines)


def _last(errors: str) -> str:
    return next((text.strip()[:160] for text in reversed(errors.splitlines()) if text.strip()), "")


async def _closed(where: Endpoint | Ssh) -> str:
    """Why ssh's port does not answer as ssh does; empty when it does. One connection, ended at
    once.
    """
    name = f"{where.host}:{where.port}"
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(where.host, where.port), CONNECT_S
        )
    except TimeoutError:
        return f"{name} does not answer"
    except OSError as error:
        return f"{name}: {error.strerror or error}"
    try:
        banner = await asyncio.wait_for(reader.read(4), _BANNER_S)
    except (TimeoutError, OSError):
        banner = b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return "" if banner.startswith(b"SSH") else f"{name} is open, but not with ssh"


class NoOpenSsh(GpusError):
    """OpenSSH's client is not installed."""


def program(name: str) -> str:
    """The path of one of OpenSSH's programs. Raises NoOpenSsh when it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise NoOpenSsh(
            f"wanted OpenSSH's `{name}` on PATH, found none; install the package openssh-client"
            " (Debian, Ubuntu) or openssh"
        )
    return found


def made_key(folder: Path, comment: str) -> Key:
    """The key pair of this folder; made, without a passphrase and only for this user, if it is not
    there. Runs ssh-keygen.
    """
    private = folder / "id_ed25519"
    if not private.exists():
        argv = [
            program("ssh-keygen"),
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            comment,
            "-f",
            str(private),
        ]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise GpusError(
                f"wanted a new ssh key at {private}, found that ssh-keygen failed:"
                f" {done.stderr.strip() or done.returncode}"
            )
        for half in (private, private.with_name(f"{private.name}.pub")):
            half.chmod(0o600)
    return Key(private, _public(private), own=True)


def given_key(path: str | os.PathLike[str]) -> Key:
    """The user's own key pair, by the path of its private half. Raises GpusError when a half is
    missing.
    """
    private = Path(path).expanduser()
    if private.suffix == ".pub":
        private = private.with_suffix("")
    if not private.is_file():
        raise GpusError(
            f"ssh_key: wanted the file of a private key, found none at {private}; leave ssh_key out"
            " to have one made"
        )
    return Key(private.resolve(), _public(private), own=False)


def _public(private: Path) -> str:
    file = private.with_name(private.name + ".pub")
    if file.is_file():
        return regular.content(file, regular.KEY_MAX).decode(errors="replace").strip()
    argv = [program("ssh-keygen"), "-y", "-P", "", "-f", str(private)]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise GpusError(
            f"ssh_key: wanted {file} beside the private key, found none, and the private key cannot"
            f" be read: {done.stderr.strip()}"
        )
    return done.stdout.strip()
