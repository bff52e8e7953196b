"""One rehearsal machine as a container: its files, its start, its console. Owns the names of
containers and what lies in their folder `/etc/rehearsal`.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, NamedTuple

from providers.rehearsal.node import BUSY, IDLE, nvidia_smi, shown
from providers.rehearsal.nodes import docker, image

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.rehearsal.store import Store

FOLDER = "/etc/rehearsal"
NETWORK, RANGE = "gpus-rehearsal", "198.18.0.0/15"
"""All machines are in one network: the range for benchmarks (RFC 2544), in which the rehearsal
clouds give their external addresses.
"""
STORE_LABEL, KEY_LABEL = "gpus.rehearsal.store", "gpus.rehearsal.machine"
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
    by path. `busy`: whether its GPUs have something to do.
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

    def files(self) -> dict[str, str]:
        """What lies in its folder."""
        return {
            "addresses": f"{self.internal_ip}\n",
            "keys": "".join(f"{line}\n" for line in self.keys),
            "start-up": self.start_up,
            "always": "yes\n" if self.always else "",
            "busy": f"{BUSY if self.busy else IDLE}\n",
            "nvidia-smi": nvidia_smi(*shown(self.gpu), self.gpu_count, _BUSY_FILE),
            **{f"metadata{path}": text for path, text in self.metadata},
        }

    @property
    def digest(self) -> str:
        """Of its files: another one has to be told to the machine."""
        return hashlib.sha256(json.dumps(self.files()).encode()).hexdigest()[:12]


def key(provider: str, number: object) -> str:
    """A machine's name among all of a store's. `number` is its cloud's, which is not used again."""
    return f"{provider}-{number}"


def label(store: Store) -> str:
    """The label of all containers of a store: of which file it is, by its place."""
    return f"{STORE_LABEL}={hashlib.sha256(str(store.path.resolve()).encode()).hexdigest()[:12]}"


def container(store: Store, key: str) -> str:
    """The name of a machine's container."""
    return f"gpus-{label(store)[-12:]}-{key}"


def create(store: Store, machine: Booted) -> None:
    """Makes and starts its container. Raises DockerError, and leaves none then."""
    name = container(store, machine.key)
    docker.call(
        *("create", "--pull", "never", "--tty", "--name", name, "--hostname", machine.name),
        *("--label", label(store), "--label", f"{KEY_LABEL}={machine.key}"),
        *("--network", NETWORK, "--ip", machine.external_ip, *RIGHTS, image.TAG),
    )
    try:
        tell(store, machine)
        docker.call("start", name)
    except docker.DockerError:
        remove(store, machine.key)
        raise


def tell(store: Store, machine: Booted, *, now: bool = False) -> None:
    """Writes its files. `now`: it runs, and takes its keys from them at once."""
    name = container(store, machine.key)
    docker.call("cp", "-", f"{name}:{FOLDER}", given=_packed(machine.files().items()))
    if now:
        docker.call("exec", name, "/usr/lib/rehearsal/boot.sh", "keys")


def restart(store: Store, machine: Booted) -> None:
    """Boots it again, with the disk and the files that it has, at its address of now."""
    name = container(store, machine.key)
    network = f'index .NetworkSettings.Networks "{NETWORK}"'
    address = (
        f"{{{{with {network}}}}}{{{{with .IPAMConfig}}}}{{{{.IPv4Address}}}}{{{{end}}}}{{{{end}}}}"
    )
    running, _, found = docker.call(
        "inspect", "--format", f"{{{{.State.Running}}}} {address}", name
    ).partition(" ")
    if running == "true":
        docker.call("kill", name)
    if found != machine.external_ip:
        if found:
            docker.call("network", "disconnect", "--force", NETWORK, name)
        docker.call("network", "connect", "--ip", machine.external_ip, NETWORK, name)
    docker.call("start", name)


def stop(store: Store, key: str) -> None:
    """Powers it off; its disk stays."""
    docker.call("stop", "--time", "10", container(store, key))


def remove(store: Store, key: str) -> None:
    """Ends it, with everything that it has."""
    docker.call("rm", "--force", "--volumes", container(store, key))


def console(store: Store, key: str) -> str:
    """What it wrote on its console, since it was made. Of one that powered itself off, what was
    kept; empty where it has neither.
    """
    try:
        return docker.call("logs", container(store, key))
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
