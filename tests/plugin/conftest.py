"""The real Pulumi engine for tests: a project of its own folder, with its own state, rehearsal
clouds and journal.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.home import REHEARSAL_FILE
from providers.rehearsal.store import open_store
from tests.engine.cases import lab
from tests.plugin.servicer_rig import servicer
from tests.present import present

__all__ = ["lab", "servicer"]

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


class Project:
    """A copy of the repository's project file and stacks; `run` is the CLI in it."""

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder, self.stack, self.over = folder, stack, threading.Event()
        (folder / "state").mkdir()
        shutil.copytree(
            REPOSITORY / "stacks", folder / "stacks", ignore=shutil.ignore_patterns("__pycache__")
        )
        text = (REPOSITORY / "Pulumi.yaml").read_text()
        (folder / "Pulumi.yaml").write_text(
            text.replace("path: .venv/bin", f"path: {BIN}").replace(
                "path: providers/", f"path: {REPOSITORY}/providers/"
            )
        )
        self.env = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("PULUMI_", "GPUS_", "GOOGLE_"))
            },
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "GPUS_HOME": f"{folder}/home",
        }
        self.run("stack", "init", stack, "--no-select")

    @property
    def file(self) -> Path:
        return self.folder / "stacks" / f"Pulumi.{self.stack}.yaml"

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def command(self, *words: str) -> list[str]:
        return ["pulumi", "--non-interactive", "-C", str(self.folder), *words]

    def run(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(
            self.command(*words),
            check=False,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=170,
        )
        said = done.stdout + done.stderr
        assert "Traceback" not in said, said
        assert (done.returncode != 0) == fails, said
        return said

    def preview(self, *words: str, fails: bool = False) -> str:
        return self.run("preview", "-s", self.stack, *words, fails=fails)

    def up(self, *words: str, fails: bool = False) -> str:
        return self.run("up", "-s", self.stack, "--yes", "--skip-preview", *words, fails=fails)

    def destroy(self, *words: str) -> str:
        return self.run("destroy", "-s", self.stack, "--yes", "--skip-preview", *words)

    def killed_up(self, attempt: str, *, also_plugin: bool) -> None:
        """`up`, killed with -9 while that attempt (as in `#4`) is under way."""
        with subprocess.Popen(
            self.command("up", "-s", self.stack, "--yes", "--skip-preview"),
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
        ) as up:
            for line in present(up.stdout):
                if f" {attempt} " in line and ": asking" in line:
                    break
            else:
                pytest.fail(f"attempt {attempt} never came")
            time.sleep(0.7)
            plugins = self.plugins(up.pid)
            up.send_signal(signal.SIGKILL)
            for pid in plugins if also_plugin else ():
                os.kill(pid, signal.SIGKILL)
            present(up.stdout).close()
        self.run("cancel", "-s", self.stack, "--yes")

    def interrupted_up(self, attempt: str) -> str:
        """`up` with one Ctrl-C while that attempt is under way; what it said."""
        words = self.command("up", "-s", self.stack, "--yes", "--skip-preview")
        said = ""
        with subprocess.Popen(
            words,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as up:
            stdout = present(up.stdout)
            for line in stdout:
                said += line
                if f" {attempt} " in line and ": asking" in line:
                    time.sleep(0.5)
                    up.send_signal(signal.SIGINT)
                    break
            said += stdout.read()
        assert up.returncode != 0, said
        return said

    def plugins(self, engine: int) -> list[int]:
        """The process ids of the engine's own plugin processes."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == engine and b"pulumi-resource-gpu" in words:
                found.append(int(folder.name))
        return found

    def gpus(self, *words: str, code: int = 0) -> str:
        """What a command of `gpus` writes, on both streams; it ends with that exit code."""
        done = subprocess.run(
            [str(BIN / "gpus"), *words],
            check=False,
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = done.stdout + done.stderr
        assert (done.returncode, "Traceback" in said) == (code, False), said
        return said

    def plan(self, stack: str) -> str:
        return self.gpus("plan", "-s", stack)

    def rehearse(self, *words: str) -> str:
        return self.gpus("rehearse", *words)

    def hurry(self) -> None:
        """The world's clock goes eleven times as fast from now on: what only waits is over sooner."""
        store = open_store(Path(self.env["GPUS_HOME"]) / REHEARSAL_FILE)

        def go() -> None:
            while not self.over.wait(0.2):
                store.advance(2.0)

        threading.Thread(target=go, daemon=True).start()

    def seen(self) -> dict[str, Any]:
        seen: dict[str, Any] = json.loads(self.rehearse("--json"))
        return seen

    def machines(self) -> list[dict[str, Any]]:
        machines: list[dict[str, Any]] = self.seen()["machines"]
        return machines

    def resources(self) -> dict[str, dict[str, Any]]:
        """The state's resources by type."""
        state = json.loads(self.run("stack", "export", "-s", self.stack))
        return {item["type"]: item for item in state["deployment"].get("resources", [])}

    def cluster(self) -> dict[str, Any]:
        return self.resources()["gpu:index:Cluster"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[..., Project]]:
    for tool in ("pulumi", "pulumi-language-python", "pulumi-resource-gpu"):
        if not (BIN / tool).exists() and shutil.which(tool) is None:
            pytest.fail(
                f"wanted {tool} beside {sys.executable} or on PATH, found none; run `make setup`"
            )
    made: list[Project] = []

    def make(stack: str = "train-h100x8") -> Project:
        made.append(Project(tmp_path, stack))
        return made[-1]

    yield make
    for each in made:
        each.over.set()


def wait_until(what: Callable[[], object], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.1)
