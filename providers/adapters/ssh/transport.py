"""The way to a machine: OpenSSH's client, another program with its arguments, or a local shell.
Owns the arguments, the greeting before which nothing is done, and how a lost call reads.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from providers.adapters.ssh import errors
from providers.adapters.ssh.inventory import LOCAL
from providers.home import home, private, private_folder
from providers.model import openssh

if TYPE_CHECKING:
    import subprocess

    from providers.adapters.ssh.agent import Program
    from providers.adapters.ssh.inventory import Inventory, Machine

GREETING = "gpus-agent-1"
CONNECT_S = 8
LIMIT_S = 60.0
REPLY_MAX = 8 << 20
_READ = f'echo {GREETING}; agent=$(cat); eval "$agent"'


def words(inventory: Inventory, machine: Machine, *more: str) -> tuple[str, ...]:
    """The program that runs its next word in the login shell of that machine."""
    if machine.host == LOCAL:
        return ("sh", "-c")
    known_hosts = private_folder(home() / "ssh") / f"known_hosts-{machine.name}"
    if machine.host_key:
        private(known_hosts).write_text(f"gpus-{machine.name} {machine.host_key}\n", "utf-8")
    options = openssh.options(
        known_hosts,
        f"gpus-{machine.name}",
        pinned=bool(machine.host_key),
        connect_s=CONNECT_S,
    )
    options["BatchMode"] = "yes"
    if machine.key:
        options["IdentitiesOnly"] = "yes"
    key = ("-i", str(Path(machine.key).expanduser())) if machine.key else ()
    user = f"{machine.user}@" if machine.user else ""
    where = ("-p", str(machine.port), *more, "--", f"{user}{machine.host}")
    return (*inventory.transport, *openssh.arguments(options), *key, *where)


def call(
    inventory: Inventory,
    machine: Machine,
    program: Program,
    *,
    creating: bool = False,
    token: str = "",
) -> list[str]:
    """What a program of ours, run there, answers: its lines without the last, which says `ok`.

    Raises the error of what the last line says, or of how far the call came.
    """
    import subprocess
    import tempfile
    import threading

    argv = (*words(inventory, machine, "-T"), f"exec sh -c '{_READ}' gpus-{program.verb}")
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
            )
        except OSError as error:
            raise errors.error(
                errors.UNREACHABLE, machine.name, creating=creating, words=str(error)
            ) from None
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        try:
            greeted, reply = _exchanged(process, program.text)
        finally:
            timer.cancel()
            process.kill()
            process.wait()
        complaints.seek(0)
        said = complaints.read(4096).decode(errors="replace").strip().splitlines()[-1:]
    if not greeted:
        code = errors.NO_SHELL if process.returncode not in (255, -9) else _closed(machine)
        if code == errors.REFUSED and (trouble := _key_trouble(machine)):
            code, said = errors.BAD_KEY, [trouble]
        raise errors.error(code, machine.name, creating=creating, words="".join(said))
    lines = reply.decode(errors="replace").splitlines()
    head, _, code = lines[-1].partition(" ") if lines and reply.endswith(b"\n") else ("", "", "")
    if head != "end" or not code:
        raise errors.error(errors.NO_ANSWER, machine.name, creating=creating, token=token)
    if code != "ok":
        raise errors.error(code, machine.name, creating=creating, token=token)
    return lines[:-1]


def _exchanged(process: subprocess.Popen[bytes], program: str) -> tuple[bool, bytes]:
    """Whether it greeted, and what it wrote then. Whatever a login writes before is left aside."""
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        for _ in range(1000):
            line = process.stdout.readline(65_536)
            if not line or line.strip() == GREETING.encode():
                break
        if line.strip() != GREETING.encode():
            process.wait()
            return False, b""
        with suppress(OSError):
            process.stdin.write(program.encode())
            process.stdin.close()
        reply = process.stdout.read(REPLY_MAX)
        process.wait()
        return True, reply


def _key_trouble(machine: Machine) -> str:
    """Why ssh left the key aside, where the file says so."""
    if not machine.key:
        return ""
    file = Path(machine.key).expanduser()
    try:
        mode = file.stat().st_mode & 0o777
    except OSError as error:
        return f"{file}: {error.strerror}"
    return f"{file}: its mode is {mode:o}" if mode & 0o077 else ""


def _closed(machine: Machine) -> str:
    """Why a login came to nothing: the port answers as an ssh server's, or it does not."""
    if machine.host == LOCAL:
        return errors.NO_SHELL
    import socket

    try:
        with socket.create_connection((machine.host, machine.port), CONNECT_S) as link:
            return errors.REFUSED if link.recv(4).startswith(b"SSH-") else errors.UNREACHABLE
    except OSError:
        return errors.UNREACHABLE
