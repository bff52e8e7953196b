"""The way to a machine: OpenSSH's client, another program with its arguments, or a local shell.
Owns the arguments, the one connection that all calls to a machine share, the greeting before which
nothing is done, and how a lost call reads.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
SHARED_S = 10.0
"""How long a shared connection may take to greet: it may be to a machine that was unplugged."""
KEPT_S = 60
"""How long a connection that nobody uses is kept, also after this process."""
_SOCKET_MOST = 80
"""The longest path of a connection's socket: 108 bytes (unix(7)), and ssh adds a word to it."""
REPLY_MAX = 8 << 20
NOISE_MAX = 1 << 20
"""How much a login may write before the greeting."""
_GREETED = re.compile(rb"^\s*" + GREETING.encode() + rb"\s*\n", re.MULTILINE)
_READ = f'echo {GREETING}; agent=$(cat); eval "$agent"'


def words(
    inventory: Inventory, machine: Machine, *more: str, shared: str = "no"
) -> tuple[str, ...]:
    """The program that runs its next word in the login shell of that machine.

    `shared`: whether by the connection that others use: `auto` makes it where there is none, `no`
    uses one that is there, `never` connects again.
    """
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
    socket = _socket(machine) if shared != "never" else None
    options |= {
        "ControlMaster": "no" if socket is None else shared,
        "ControlPath": "none" if socket is None else '"' + str(socket).replace("%", "%%") + '"',
        "ControlPersist": str(KEPT_S),
    }
    if machine.key:
        options["IdentitiesOnly"] = "yes"
    key = ("-i", str(Path(machine.key).expanduser())) if machine.key else ()
    user = f"{machine.user}@" if machine.user else ""
    where = ("-p", str(machine.port), *more, "--", f"{user}{machine.host}")
    return (*inventory.transport, *openssh.arguments(options), *key, *where)


def _socket(machine: Machine) -> Path | None:
    """The path of the socket of a machine's connection: another one for another login, address or
    pinned key. None where no folder of ours has a path that is short enough.
    """
    import hashlib
    import os
    import tempfile

    own = home() / "ssh"
    said = repr((str(own), *machine[1:5], machine.host_key))
    name = hashlib.sha256(said.encode()).hexdigest()[:16]
    for folder in (own, Path(tempfile.gettempdir(), f"gpus-ssh-{os.getuid()}")):
        if len(os.fsencode(folder / name)) > _SOCKET_MOST:
            continue
        with suppress(OSError):
            found = private_folder(folder).lstat()
            if found.st_uid == os.getuid() and not found.st_mode & 0o077:
                return folder / name
    return None


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
    socket = _socket(machine) if machine.host != LOCAL else None
    if socket is not None and socket.exists():
        reached = _called(inventory, machine, program, "auto", SHARED_S)
        if reached.greeted:
            return _told(reached, machine, creating=creating, token=token)
        # Nothing was done there: the connection was to a machine as it was before.
        socket.unlink(missing_ok=True)
    return _told(
        _called(inventory, machine, program, "never" if socket is None else "auto", LIMIT_S),
        machine,
        creating=creating,
        token=token,
    )


class _Reached(NamedTuple):
    """How far a call came: whether it was greeted, what was answered then, and how ssh ended with
    which last words.
    """

    greeted: bool
    reply: bytes
    code: int
    said: str


def _called(
    inventory: Inventory, machine: Machine, program: Program, shared: str, greets_s: float
) -> _Reached:
    """Runs a program there; it is given up where no greeting comes in time."""
    import subprocess
    import tempfile

    argv = (
        *words(inventory, machine, "-T", shared=shared),
        f"exec sh -c '{_READ}' gpus-{program.verb}",
    )
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
            )
        except OSError as error:
            return _Reached(False, b"", 255, str(error))
        try:
            greeted, reply = _exchanged(process, program.text, greets_s)
        finally:
            process.kill()
            process.wait()
        complaints.seek(0)
        said = complaints.read(4096).decode(errors="replace").strip().splitlines()[-1:]
    return _Reached(greeted, reply, process.returncode, "".join(said))


def _told(reached: _Reached, machine: Machine, *, creating: bool, token: str) -> list[str]:
    """The lines of an answer. Raises the error that it is."""
    said = reached.said
    if not reached.greeted:
        code = errors.NO_SHELL if reached.code not in (255, -9) else _closed(machine)
        if code == errors.REFUSED and (trouble := _key_trouble(machine)):
            code, said = errors.BAD_KEY, trouble
        raise errors.error(code, machine.name, creating=creating, words=said)
    lines = reached.reply.decode(errors="replace").splitlines()
    whole = bool(lines) and reached.reply.endswith(b"\n")
    head, _, code = lines[-1].partition(" ") if whole else ("", "", "")
    if head != "end" or not code:
        raise errors.error(errors.NO_ANSWER, machine.name, creating=creating, token=token)
    if code != "ok":
        raise errors.error(code, machine.name, creating=creating, token=token)
    return lines[:-1]


def _exchanged(
    process: subprocess.Popen[bytes], program: str, greets_s: float
) -> tuple[bool, bytes]:
    """Whether it greeted, and what it wrote then. Whatever a login writes before is left aside.

    Never waits for the pipes' ends: of a shared connection that hangs, the process that keeps it
    has them too.
    """
    import threading
    import time

    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        source, text = process.stdout.fileno(), b""
        limit = time.monotonic() + greets_s
        while not (found := _GREETED.search(text)):
            chunk = _chunk(source, limit) if len(text) < NOISE_MAX else b""
            if not chunk:
                _ended(process, limit)
                return False, b""
            text += chunk
        threading.Thread(target=_fed, args=(process, program.encode()), daemon=True).start()
        reply, limit = text[found.end() :], time.monotonic() + LIMIT_S
        while len(reply) < REPLY_MAX and (chunk := _chunk(source, limit)):
            reply += chunk
        _ended(process, limit)
        return True, reply


def _chunk(source: int, limit: float) -> bytes:
    """What comes next; nothing at the end, or where nothing comes before the limit."""
    import os
    import select
    import time

    # Not select(): it takes no descriptor above 1,023, and a process may have more open.
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    ready = waiting.poll(max(0.0, limit - time.monotonic()) * 1_000)
    return os.read(source, 65_536) if ready else b""


def _fed(process: subprocess.Popen[bytes], program: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(program)
        process.stdin.close()


def _ended(process: subprocess.Popen[bytes], limit: float) -> None:
    """Waits for its own exit code as long as it may take."""
    import subprocess
    import time

    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, limit - time.monotonic()))


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
