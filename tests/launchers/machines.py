"""Folders that stand for machines, on which start-up scripts run for real: shared by the tests that
do that.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from providers.model.workload import Process, Program


class Machine:
    """A folder that stands for a machine: its home, its scripts, its console."""

    def __init__(self, folder, address="", tools=None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.inside: tuple[str, ...] = ()
        self.begun: list[subprocess.Popen[bytes]] = []
        self.bin = folder / "bin"
        self.bin.mkdir()
        if address:
            self.tool("hostname", f"echo {address}")
        self.environment = {
            **{key: value for key, value in os.environ.items() if key in {"PATH", "LANG"}},
            "PATH": f"{self.bin}:{tools or Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "GPUS_ROOT": str(folder / "root"),
            "GPUS_CONSOLE": str(folder / "console"),
        }

    def tool(self, name, body) -> None:
        """Puts a program of that name first on this machine's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def hand(self, name, content) -> None:
        """Writes what the engine would write there by login."""
        (self.folder / "root").mkdir(exist_ok=True)
        (self.folder / "root" / name).write_text(content)

    def begin(self, text, **more):
        path = self.folder / "start.sh"
        path.write_text(text)
        (self.folder / "console").touch()
        process = subprocess.Popen(
            [*self.inside, "bash", str(path)],
            env={**self.environment, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.begun.append(process)
        return process

    def run(self, text, seconds=60, **more):
        process = self.begin(text, **more)
        return process.wait(seconds)

    @property
    def words(self):
        path = self.folder / "console"
        return (
            [entry.split(" ", 2)[2] for entry in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    @property
    def log(self):
        path = self.folder / "root" / "log"
        return path.read_text() if path.exists() else ""

    def until(self, word, seconds=120) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(each.startswith(word) for each in self.words):
                return True
            time.sleep(0.05)
        raise AssertionError(f"{word!r} was never said: {self.words}\n{self.log}")

    def power_off(self) -> None:
        """Kills at once whatever runs there, as when the machine is taken away."""
        mark = f"GPUS_ROOT={self.folder / 'root'}".encode()
        found = True
        while found:
            found = False
            for place in Path("/proc").glob("[0-9]*"):
                try:
                    if mark in (place / "environ").read_bytes().split(b"\0"):
                        os.kill(int(place.name), signal.SIGKILL)
                        found = True
                except (OSError, ValueError):
                    continue
            time.sleep(0.05)
        for process in self.begun:
            process.wait(120)

    def bucket(self, folder) -> None:
        """Puts an `aws` on its PATH for which s3://b/run is that folder."""
        folder.mkdir(exist_ok=True)
        self.tool(
            "aws",
            f'from="${{@: -2:1}}"; to="${{@: -1}}"\nfrom="${{from/s3:\\/\\/b\\/run/{folder}}}";'
            f' to="${{to/s3:\\/\\/b\\/run/{folder}}}"\nmkdir -p "$to"; cp -a "$from/." "$to/"',
        )

    def end(self) -> None:
        """Ends what runs there, as an edit of the workload would."""
        for process in self.begun:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.begun:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def machines(folder, addresses, tools=None):
    """One machine for each address; whatever still runs there ends with the block."""
    made = [
        Machine(folder / f"node{index}", address, tools) for index, address in enumerate(addresses)
    ]
    try:
        yield made
    finally:
        for each in made:
            each.end()


def job(command, **more):
    return Program("job", (Process("main", command, more.pop("env", ())),), **more)
