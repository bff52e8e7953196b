"""`pulumi preview` of train-h100x8 against a bare Pulumi Python program in the same environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.timing import Line, both, side_by_side

PREVIEW_LIMIT = 1.3
STACK = "train-h100x8"
REPOSITORY = Path(__file__).parents[2]
BARE = 'import pulumi\n\npulumi.export("answer", 42)\n'


def lines() -> list[Line]:
    """Both previews in a state folder of their own, nothing running yet. Needs the Pulumi CLI on PATH."""
    what = f"pulumi preview of {STACK} over a bare program"
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        return [Line(what, None, None, "", "not measured: no pulumi on PATH; `make setup` gets it")]
    with tempfile.TemporaryDirectory(prefix="gpus-bench-") as name:
        folder = Path(name)
        for made in ("state", "bare"):
            (folder / made).mkdir()
        env = {
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "GPUS_HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        shutil.copytree(REPOSITORY / "stacks", folder / "ours" / "stacks")
        # The plugins stand at paths relative to the repository.
        project = (REPOSITORY / "Pulumi.yaml").read_text(encoding="utf-8")
        (folder / "ours" / "Pulumi.yaml").write_text(project.replace("path: ", f"path: {REPOSITORY}/"), encoding="utf-8")
        (folder / "bare" / "Pulumi.yaml").write_text("name: bare\nruntime: python\noptions: {refresh: always}\n", encoding="utf-8")
        (folder / "bare" / "__main__.py").write_text(BARE, encoding="utf-8")
        commands = []
        for project_folder, stack in (("ours", STACK), ("bare", "bare")):
            at = [pulumi, "-C", str(folder / project_folder), "--non-interactive"]
            subprocess.run([*at, "stack", "init", stack], env={**os.environ, **env}, check=True, capture_output=True)
            commands.append([*at, "preview", "-s", stack])
        ours, bare = side_by_side(*commands, env=env)
    return [
        Line(what, ours.p50 / bare.p50, PREVIEW_LIMIT, " x", f"ours {both(ours)}; bare {both(bare)}"),
        Line("  the same by p95", ours.p95 / bare.p95, None, " x", ""),
    ]
