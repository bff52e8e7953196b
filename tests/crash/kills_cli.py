"""The real command line in a scratch project: a clone of the repository's project file with a
backend and a rehearsal of its own. Owns Clone and Run.

Commands run in sessions of their own, so that an interrupt reaches them as a terminal's Ctrl-C
would: the whole foreground group. The plugin has its own group and does not get it. Nothing here
ends a process that this clone did not start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash.point import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
STACK, PROJECT = "crash", "gpus"
LIMIT_S = 170.0
"""Real seconds within which every command of a recovery must have ended."""
POLL_S = 0.01


class Run:
    """A command under way. What it says goes to a file, so that a killed one blocks nobody."""

    def __init__(self, words: list[str], env: Mapping[str, str], log: Path) -> None:
        self.log, self.began = log, time.monotonic()
        with log.open("w") as out:
            self.process = subprocess.Popen(
                words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int, *, group: bool = False) -> None:
        if self.over:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number) if group else os.kill(self.process.pid, number)

    def ended(self, seconds: float = LIMIT_S) -> int | None:
        """The exit status; None where it did not end in time (it is then killed)."""
        try:
            return self.process.wait(max(0.1, self.began + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL, group=True)
            self.process.wait()
            return None


class Clone:
    """A folder with the project file, the stacks' program and one stack. `home` is where the
    rehearsal and the journal are; another clone's, if named. `state` is the backend's folder; of
    its own, unless another clone's is named.
    """

    def __init__(self, folder: Path, home: Path, state: Path | None = None) -> None:
        self.folder, self.home, self.state = folder, home, state or folder / "state"
        self.state.mkdir(parents=True, exist_ok=True)
        (folder / "stacks").mkdir(parents=True)
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "stacks" / "__main__.py", folder / "stacks")
        text = (REPOSITORY / "Pulumi.yaml").read_text()
        (folder / "Pulumi.yaml").write_text(
            text.replace("path: .venv/bin", f"path: {BIN}").replace(
                "path: providers/", f"path: {REPOSITORY}/providers/"
            )
        )
        foreign = ("PULUMI_", "GPUS_", "GOOGLE_", "AWS_", "MODAL_", "CLORE_")
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(foreign)},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(
                [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PULUMI_BACKEND_URL": f"file://{self.state}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "GPUS_HOME": str(home),
        }
        self.runs = 0

    def declare(
        self, clusters: Mapping[str, Mapping[str, Any]], settings: Mapping[str, str]
    ) -> None:
        """Writes the stack's file."""
        config = {"gpus:world": "rehearsal", "gpus:clusters": clusters, **settings}
        (self.folder / "stacks" / f"Pulumi.{STACK}.yaml").write_text(
            json.dumps({"config": config}, indent=2)
        )

    def start(self, *words: str) -> Run:
        """A command of the CLI, under way."""
        self.runs += 1
        command = [
            "pulumi",
            "--non-interactive",
            "--color",
            "never",
            "-C",
            str(self.folder),
            *words,
            "-s",
            STACK,
        ]
        return Run(command, self.env, self.folder / f"{self.runs:02}-{words[0]}.log")

    def run(self, *words: str) -> tuple[int | None, str]:
        """A command to its end: (exit status, or None where it hung; what it said)."""
        run = self.start(*words)
        return run.ended(), run.said

    def spent(self) -> float:
        """Dollars that `gpus spend` knows of, this month and the one before: the world's clock is
        ahead.
        """
        total = 0.0
        now = moment(self.home)
        months = {time.strftime("%Y-%m", time.gmtime(now - days * 86_400)) for days in (0, 27)}
        for month in sorted(months):
            words = [str(BIN / "gpus"), "spend", "--json", "--world", "rehearsal", "--month", month]
            done = subprocess.run(
                words,
                env=self.env,
                cwd=self.folder,
                check=True,
                capture_output=True,
                timeout=LIMIT_S,
            )
            total += sum(float(each["spent_usd"]) for each in json.loads(done.stdout))
        return total

    def init(self) -> None:
        self.runs += 1
        run = Run(
            [
                "pulumi",
                "--non-interactive",
                "-C",
                str(self.folder),
                "stack",
                "init",
                STACK,
                "--no-select",
            ],
            self.env,
            self.folder / f"{self.runs:02}-init.log",
        )
        assert run.ended() == 0, run.said

    # What it left

    @property
    def locked(self) -> bool:
        return any((self.state / ".pulumi" / "locks").rglob("*.json"))

    def mend(self) -> None:
        """What docs/how-to/when-something-dies.md says of `failed to load checkpoint: EOF`: a CLI
        that is killed while it writes a file's attributes leaves them empty.
        """
        for file in (self.state / ".pulumi" / "stacks").rglob("*.json.attrs"):
            if not file.stat().st_size:
                file.unlink()

    def resources(self) -> dict[str, dict[str, Any]]:
        """The state's resources by type, as the backend's own file has them. Read only: nothing
        here ever edits a state.
        """
        file = self.state / ".pulumi" / "stacks" / PROJECT / f"{STACK}.json"
        try:
            latest = json.loads(file.read_text())["checkpoint"].get("latest") or {}
        except (OSError, ValueError, KeyError):
            return {}
        return {
            item["type"]: item for item in latest.get("resources") or () if not item.get("delete")
        }

    def named(self) -> list[str]:
        """The machines that the state names."""
        found = self.resources().get("gpu:index:Cluster", {}).get("outputs", {})
        return [str(handle) for handle in found.get("handles") or ()]

    def plugins(self) -> list[int]:
        """The plugin processes of this home that live."""
        mine, found = f"GPUS_HOME={self.home}\0".encode(), []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                ours = (
                    b"pulumi-resource-gpu" in (folder / "cmdline").read_bytes()
                    and mine in (folder / "environ").read_bytes() + b"\0"
                )
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except (OSError, IndexError):
                continue
            if ours and state not in "ZX":
                found.append(int(folder.name))
        return found

    def quiet(self, seconds: float) -> bool:
        """True once no plugin process of this home lives any more; False where that took longer."""
        until = time.monotonic() + seconds
        while self.plugins():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True


def kill(pids: list[int]) -> None:
    """Ends these with -9."""
    send(pids, signal.SIGKILL)


def send(pids: list[int], number: int) -> None:
    """Sends each of these a signal; one that has ended gets none."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def asleep(run: Run, plugins: list[int], file: Path) -> None:
    """Suspends a command and its plugins, as a laptop that is closed. Not while one of them is
    writing the rehearsal's `file`: that is the cloud, which never sleeps.
    """
    while True:
        run.signal(signal.SIGSTOP, group=True)
        send(plugins, signal.SIGSTOP)
        try:
            with closing(sqlite3.connect(file, timeout=0.2, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            awake(run, plugins)
            time.sleep(0.05)
        else:
            return


def awake(run: Run, plugins: list[int]) -> None:
    """Lets them go on."""
    send(plugins, signal.SIGCONT)
    run.signal(signal.SIGCONT, group=True)
