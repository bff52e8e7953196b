"""A Docker daemon of the tests' own, images made from a static busybox, and a machine folder whose
start-up script runs against them.

Nothing is pulled. `--gpus all` needs NVIDIA's runtime, which is not here: the machine's `docker` is
a wrapper that leaves out those two words, answers for the list of runtimes, and writes down every
call.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

from tests.launchers.machines import Machine
from tests.present import present

APPLETS = (
    "sh cat chmod echo env expr grep head id kill ls mkdir mktemp nc printf rm seq sleep sort sync"
    " tail test touch true tr wc".split()
)
BOOT_S = 60


class Daemon:
    """One dockerd in a folder of its own. Containers have the host's network."""

    def __init__(self, folder) -> None:
        self.folder, self.host = folder, f"unix://{folder}/sock"
        self._words = [
            "dockerd",
            "--iptables=false",
            "--ip6tables=false",
            "--bridge=none",
            "--shutdown-timeout",
            "3",
        ]
        self._words += [
            "--data-root",
            f"{folder}/data",
            "--exec-root",
            f"{folder}/exec",
            "-H",
            self.host,
            "--pidfile",
            f"{folder}/pid",
        ]
        self.process = self._begun()

    def _begun(self):
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(self._words, stdout=log, stderr=log, start_new_session=True)

    def restart(self) -> None:
        """Ends it in order, as a package's upgrade does, and starts it again."""
        self.process.terminate()
        self.process.wait(60)
        self.process = self._begun()
        assert (why := self.wait()) is None, why

    def call(self, *words, given=None):
        """The output of `docker WORDS`, which must succeed."""
        done = subprocess.run(
            ["docker", "-H", self.host, *words], input=given, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def wait(self):
        """None once it answers; else the last line that it wrote."""
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end and self.process.poll() is None:
            if (
                subprocess.run(
                    ["docker", "-H", self.host, "version"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                return None
            time.sleep(0.2)
        return ((self.folder / "log").read_text().splitlines() or ["no word"])[-1]

    def image(self, name, entrypoint=(), cmd=(), files=(), applets=APPLETS, user=""):
        """Makes an image: busybox under these names, and scripts by path."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path in ("tmp", "root"):
                folder = tarfile.TarInfo(path)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(folder)
            tar.add(present(shutil.which("busybox")), "bin/busybox")
            for applet in applets:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
                tar.addfile(link)
            for path, text in dict(files).items():
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.size, entry.mode = len(text.encode()), 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
        changes = ["ENV PATH=/bin"]
        changes += [f"ENTRYPOINT {json.dumps(entrypoint)}"] if entrypoint else []
        changes += [f"CMD {json.dumps(cmd)}"] if cmd else []
        changes += [f"USER {user}"] if user else []
        self.call(
            "import",
            *(word for change in changes for word in ("--change", change)),
            "-",
            name,
            given=packed.getvalue(),
        )
        return name

    def running(self):
        """The names of all containers, also of those that have ended."""
        return self.call("ps", "-a", "--format", "{{.Names}}").split()

    def end(self) -> None:
        """Ends it, by its own process, with everything that it runs."""
        if self.process.poll() is None:
            for name in self.running():
                subprocess.run(
                    ["docker", "-H", self.host, "rm", "-f", name], capture_output=True, check=False
                )
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # It leaves the network namespace of its containers mounted.
        for mount in (self.folder / "exec" / "netns").glob("*"):
            subprocess.run(["umount", str(mount)], capture_output=True, check=False)


@pytest.fixture(scope="module")
def daemon():
    """A daemon for the tests of a module; they are skipped, with the reason, where there can be
    none.
    """
    missing = [tool for tool in ("dockerd", "docker", "busybox") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}: apt-get install docker.io busybox-static")
    if os.geteuid() != 0:
        pytest.skip("needs root, to start a Docker daemon of its own")
    # A socket's path may not be long.
    folder = Path(tempfile.mkdtemp(prefix="gpus-docker-", dir="/tmp"))
    made = Daemon(folder)
    try:
        if (why := made.wait()) is not None:
            pytest.skip(f"dockerd does not start here: {why}")
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


class Host(Machine):
    """A machine with Docker. Its scripts find `nvidia-smi`, and a `docker` that does without
    NVIDIA's runtime.
    """

    def __init__(self, folder, daemon) -> None:
        super().__init__(folder)
        self.tool("nvidia-smi", "exit 0")
        self.tool(
            "docker",
            f"printf '%s ' \"$@\" >>{folder}/docker.calls; echo >>{folder}/docker.calls\n"
            '[ "$1" != info ] || { echo \'{"nvidia":{},"runc":{}}\'; exit 0; }\n'
            'words=()\nwhile [ $# -gt 0 ]; do if [ "$1 ${2:-}" = "--gpus all" ]; then shift 2; else'
            ' words+=("$1"); shift; fi; done\n'
            f'exec {shutil.which("docker")} -H {daemon.host} "${{words[@]}}"',
        )

    @property
    def calls(self):
        return (self.folder / "docker.calls").read_text()
