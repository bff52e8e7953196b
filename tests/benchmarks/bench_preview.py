"""`pulumi preview` of train-h100x8 against a bare Pulumi Python program in the same environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.timing import Line, both, further, side_by_side

PREVIEW_LIMIT = 1.3
STACK = "train-h100x8"
REPOSITORY = Path(__file__).parents[2]
BARE = 'import pulumi\n\npulumi.export("answer", 42)\n'


def lines() -> list[Line]:
    """Both previews in a state folder of their own: with nothing running yet, then with the machine
    there. Needs the Pulumi CLI on PATH.
    """
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
            # Both sides would wait for a download server, the longer the worse the network: that
            # would hide what is measured.
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "GPUS_HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        shutil.copytree(REPOSITORY / "stacks", folder / "ours" / "stacks")
        # The plugins stand at paths relative to the repository; the environment is the one that
        # runs this.
        project = (
            (REPOSITORY / "Pulumi.yaml")
            .read_text(encoding="utf-8")
            .replace("path: .venv/bin", f"path: {Path(sys.executable).parent}")
        )
        (folder / "ours" / "Pulumi.yaml").write_text(
            project.replace("path: providers", f"path: {REPOSITORY}/providers"), encoding="utf-8"
        )
        (folder / "bare" / "Pulumi.yaml").write_text(
            "name: bare\nruntime: python\noptions: {refresh: always}\n", encoding="utf-8"
        )
        (folder / "bare" / "__main__.py").write_text(BARE, encoding="utf-8")
        commands, ups = [], []
        for project_folder, stack in (("ours", STACK), ("bare", "bare")):
            at = [pulumi, "-C", str(folder / project_folder), "--non-interactive"]
            subprocess.run(
                [*at, "stack", "init", stack],
                env={**os.environ, **env},
                check=True,
                capture_output=True,
            )
            commands.append([*at, "preview", "-s", stack])
            ups.append([*at, "up", "-s", stack, "--yes", "--skip-preview"])
        ours, bare = side_by_side(*commands, env=env)
        for command in ups:
            subprocess.run(command, env={**os.environ, **env}, check=True, capture_output=True)
        record, bare_run = side_by_side(*commands, env=env)
    return [
        Line(
            what, ours.p50 / bare.p50, PREVIEW_LIMIT, " x", f"ours {both(ours)}; bare {both(bare)}"
        ),
        *further(ours, bare),
        Line(
            "  the same with the machine there, which is looked at",
            record.p50 / bare_run.p50,
            None,
            " x",
            f"ours {both(record)}; bare {both(bare_run)}",
        ),
        *further(record, bare_run),
    ]
