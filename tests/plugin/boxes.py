"""Machines of one's own for tests: real ssh servers on addresses of loopback, each with a folder,
tools, played cards and a boot id of its own. What is sent there runs for real.

torch is not there: `torchrun` is a stand-in whose nodes meet on the leader's port, then count steps
and save them, so that only the training itself is played.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:/sbin:{os.environ.get('PATH', '')}")
SMI = """#!/bin/sh
cards="0 1"
[ "$1" != -i ] || cards=$(echo "$2" | sed "s/GPU-{name}-//g; s/,/ /g")
case "$*" in
  *--query-compute-apps*) cat {folder}/used ;;
  *--query-gpu=name,memory.total*)
    for n in $cards; do echo "NVIDIA GeForce RTX 4090, 24564 MiB"; done ;;
  *) for n in $cards; do echo "$n, GPU-{name}-$n, 24564, 570.00, NVIDIA GeForce RTX 4090"; done ;;
esac
"""
AWS = """#!/bin/bash
[ "$AWS_SECRET_ACCESS_KEY" = kept-secret ] || exit 3
from="${{@: -2:1}}"; to="${{@: -1}}"
from="${{from/s3:\\/\\/my-bucket\\/train/{bucket}}}"
to="${{to/s3:\\/\\/my-bucket\\/train/{bucket}}}"
mkdir -p "$from" "$to"; cp -a "$from/." "$to/"
"""
TORCHRUN = """
import os, pathlib, re, socket, sys, time
line = " ".join(sys.argv)
def of(name): return re.search(rf"--{name}[= ](\\S+)", line)[1]
rank, address, port = int(of("node-rank")), of("master-addr"), int(of("master-port"))
out = pathlib.Path(of("out"))
if rank == 0:
    with socket.create_server((address, port)) as listening:
        met = listening.accept()[0]
else:
    for _ in range(200):
        try: met = socket.create_connection((address, port)); break
        except OSError: time.sleep(0.1)
kept = out / "checkpoint"
first = int(kept.read_text()) if "--resume" in line and kept.exists() else 0
print(f"train: node {rank} sees {os.environ['CUDA_VISIBLE_DEVICES']}, begins at step {first}", flush=True)
for step in range(first + 1, 60 + 1):
    time.sleep(0.05 if first else 0.6)
    if rank == 0:
        kept.write_text(str(step)); met.sendall(b"x")
    elif not met.recv(1): sys.exit("train: the leader is gone")
    print(f"train: step {step}", flush=True)
print("train: done", flush=True)
"""


class Box:
    """One machine. `root` is where its leases are, `shell` what runs a login's command."""

    def __init__(
        self,
        folder: Path,
        name: str,
        address: str,
        port: int,
        bucket: Path,
        shell: str = 'sh -c "$SSH_ORIGINAL_COMMAND"',
    ) -> None:
        self.shell = shell
        self.folder, self.name, self.address, self.port = folder / name, name, address, port
        self.root, self.tools, self.boots = self.folder / "agent", self.folder / "bin", 0
        self.tools.mkdir(parents=True)
        self.used()
        self._tool("nvidia-smi", SMI.format(folder=self.folder, name=name))
        self._tool("aws", AWS.format(bucket=bucket))
        self._tool("torchrun", f"#!{sys.executable}\n{TORCHRUN}")
        for key in ("host", "user"):
            self._made("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key)
        self.start()

    def _made(self, *words) -> None:
        subprocess.run([str(word) for word in words], check=True, capture_output=True)

    def _tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def used(self, *cards: int) -> None:
        """Somebody runs something on these cards, without a lease."""
        (self.folder / "used").write_text("".join(f"GPU-{self.name}-{card}\n" for card in cards))

    def start(self) -> None:
        """Boots it, each time with another boot id."""
        self.boots += 1
        # After what the login's own shell makes of PATH.
        command = (
            f"env GPUS_AGENT_ROOT={self.root} GPUS_BOOT_ID={self.name}-{self.boots}"
            f" PATH={self.tools}:{os.environ['PATH']} {self.shell}"
        )
        words = {
            "ListenAddress": self.address,
            "Port": self.port,
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.folder / "user.pub",
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PermitRootLogin": "yes",
            "ForceCommand": command,
            # As on a machine of its own: nothing that this user's shell reads at each login.
            "SetEnv": f"HOME={self.folder}",
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{key} {value}\n" for key, value in words.items()))
        Path("/run/sshd").mkdir(exist_ok=True)
        self.server = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(config)], stderr=(self.folder / "log").open("a")
        )

    @property
    def leases(self) -> list[str]:
        return sorted(path.name for path in self.root.glob("leases/*"))

    @property
    def log(self) -> str:
        """What was written there, by leases that stand and by ended ones."""
        files = [*self.root.glob("leases/*/own/var/lib/gpus/work/log"), *self.root.glob("logs/*")]
        return "".join(file.read_text() for file in files)

    @property
    def files(self) -> list[str]:
        """Every file of leases, but for logs."""
        return [
            str(path)
            for path in self.root.rglob("*")
            if path.is_file() and path.parent.name != "logs"
        ]

    def processes(self) -> list[int]:
        """Everything that runs in a lease here, its keeper too."""
        found, marks = [], (f"GPUS_LEASE_FOLDER={self.root}", f"GPUS_AGENT_ROOT={self.root}")
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "environ").read_text(errors="replace")
                if any(mark in words for mark in marks):
                    found.append(int(place.name))
        return found

    def logins(self) -> list[int]:
        """The processes of the server's that hold a connection."""
        found = []
        for place in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                words = place.read_text().rpartition(")")[2].split()
                if int(words[1]) == self.server.pid:
                    found.append(int(place.parent.name))
        return found

    def connections(self) -> int:
        """How often somebody connected and logged in."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def power_off(self) -> None:
        """Unplugs it: the server and all that runs there end at once."""
        for pid in self.logins():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.terminate()
        self.server.wait()
        while found := self.processes():
            # None of them has time to say how another one ended.
            for each in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with suppress(ProcessLookupError):
                        os.kill(pid, each)
            time.sleep(0.05)

    def entry(self) -> dict[str, object]:
        return {
            "name": self.name,
            "host": self.address,
            "port": self.port,
            "key": str(self.folder / "user"),
            "usd_per_gpu_hour": 0,
        }


@pytest.fixture
def boxes(tmp_path):
    """Two of them, on which a bucket is a folder here."""
    import socket

    if SSHD is None:
        pytest.skip("needs OpenSSH's server: openssh-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    bucket = tmp_path / "bucket"
    made = [
        Box(tmp_path, f"box-{number}", f"127.0.0.{number + 1}", port, bucket) for number in (1, 2)
    ]
    yield made
    for box in made:
        box.power_off()
