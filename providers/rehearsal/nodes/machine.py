"""One rehearsal machine as a container: its files, its start, its console. Owns the names of
containers and what lies in their folder `/etc/rehearsal`.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.node import BUSY, IDLE, nvidia_smi, shown
from providers.rehearsal.nodes import disks, docker, image, network, owned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.rehearsal.store import Store

FOLDER = "/etc/rehearsal"
_BUSY_FILE = f"{FOLDER}/busy"
_OPEN = {"nvidia-smi": 0o755, "busy": 0o644}
"""The modes of the files that every user of the machine reads. The others are its administrator's:
start-up script and metadata may hold secrets.
"""
RIGHTS = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--cap-add", "SYS_PTRACE"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup"),
    *("--shm-size", "1g", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--volume", "/var/lib/docker"),
)
"""What systemd and a Docker daemon need in a container."""


class Booted(NamedTuple):
    """A machine that runs at its cloud. `key` is its name among all of the store; `since` is its
    last boot, in the world's time; `keys` are lines `USER:PUBLIC KEY`. `start_up` runs at each boot
    with `always`, else at the first one. `metadata` is what the cloud's metadata service answers,
    by path. `busy`: whether its GPUs have something to do. `disks`: those that outlive it.
    """

    key: str
    name: str
    external_ip: str
    internal_ip: str
    gpu: str
    gpu_count: int
    since: float
    keys: tuple[str, ...]
    start_up: str
    always: bool
    metadata: tuple[tuple[str, str], ...] = ()
    busy: bool = True
    disks: tuple[disks.Attached, ...] = ()

    def files(self) -> dict[str, str]:
        """What lies in its folder."""
        return {
            "addresses": f"{self.internal_ip}\n",
            "keys": "".join(f"{line}\n" for line in self.keys),
            "start-up": self.start_up,
            "always": "yes\n" if self.always else "",
            "busy": f"{BUSY if self.busy else IDLE}\n",
            "disks": "".join(f"{' '.join(disk)}\n" for disk in self.disks),
            "ended": "",
            "nvidia-smi": nvidia_smi(*shown(self.gpu), self.gpu_count, _BUSY_FILE),
            **{f"metadata{path}": text for path, text in self.metadata},
        }

    @property
    def digest(self) -> str:
        """Of its files: another one has to be told to the machine."""
        return hashlib.sha256(json.dumps(self.files()).encode()).hexdigest()[:12]


def key(provider: str, number: object) -> str:
    """A name among all of a store's machines. `number` is its cloud's, which is not used again."""
    return f"{provider}-{number}"


def create(store: Store, machine: Booted) -> None:
    """Makes its container, with its files; it does not run yet. Raises DockerError, and leaves none
    then.
    """
    name = owned.named(store, machine.key)
    docker.call(
        *("create", "--pull", "never", "--tty", "--name", name, "--hostname", machine.name),
        *("--label", owned.label(store), "--label", f"{owned.KEY_LABEL}={machine.key}"),
        *("--network", network.name(store), "--ip", machine.external_ip, *RIGHTS),
        *("--volume", f"{disks.volume(store)}:{disks.FOLDER}", image.TAG),
    )
    try:
        tell(store, machine)
    except docker.DockerError:
        remove(store, machine.key)
        raise


def tell(store: Store, machine: Booted, *, now: bool = False) -> None:
    """Writes its files. `now`: it runs, and takes keys and disks from them at once."""
    name = owned.named(store, machine.key)
    disks.attached(store, (disk.key for disk in machine.disks))
    docker.call("cp", "-", f"{name}:{FOLDER}", given=_packed(machine.files().items()))
    if now:
        docker.call("exec", name, "/usr/lib/rehearsal/boot.sh", "told")


def start(store: Store, key: str) -> None:
    """Boots one that was just made. Raises DockerError, and leaves none then."""
    try:
        docker.call("start", owned.named(store, key))
    except docker.DockerError:
        remove(store, key)
        raise


def restart(store: Store, machine: Booted, *, running: bool) -> None:
    """Boots it again, with the disk and the files that it has, at its address of now."""
    name, where = owned.named(store, machine.key), network.name(store)
    if running:
        docker.call("kill", name)
    with suppress(docker.DockerError):  # Its network may be another one of the same name.
        docker.call("network", "disconnect", "--force", where, name)
    docker.call("network", "connect", "--ip", machine.external_ip, where, name)
    docker.call("start", name)


def powered_off(store: Store, key: str) -> bool:
    """Whether it ended by its own wish: not by a reboot, nor by Docker or its host going down."""
    packed = docker.call("cp", f"{owned.named(store, key)}:{FOLDER}/ended", "-")
    return "poweroff" in packed


def stop(store: Store, key: str) -> None:
    """Powers it off; its disk stays."""
    docker.call("stop", "--time", "10", owned.named(store, key))


def remove(store: Store, key: str) -> None:
    """Ends it, with everything that it has."""
    docker.call("rm", "--force", "--volumes", owned.named(store, key))


def console(store: Store, key: str) -> str:
    """What it wrote on its console, since it was made. Of one that powered itself off, what was
    kept; empty where it has neither.
    """
    try:
        return docker.call("logs", owned.named(store, key))
    except docker.DockerError:
        return store.value(f"console {key}")


def keep_console(store: Store, key: str) -> None:
    """So that a cloud still has it when the container is gone: how a job ended stands there."""
    store.set_value(f"console {key}", console(store, key))


def _packed(files: Iterable[tuple[str, str]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, text in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), _OPEN.get(path, 0o600)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()
