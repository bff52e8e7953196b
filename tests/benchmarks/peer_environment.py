"""An environment of its own for what is compared with, made by uv as set-up's own is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from tests.present import present

SETUP = Path(__file__).parents[2] / ".ci" / "setup.py"


def made(folder: Path, *packages: str) -> str:
    """The Python of a new environment in this folder with these packages and their bytecode. Raises
    OSError or CalledProcessError, with what was said as its `stderr`.
    """
    spec = present(importlib.util.spec_from_file_location("project_setup", SETUP))
    setup = importlib.util.module_from_spec(spec)
    present(spec.loader).exec_module(setup)
    try:
        uv = setup.uv_tool()
    except setup.SetupError as error:
        raise OSError(str(error)) from error
    theirs = str(folder / "bin" / "python")
    base = getattr(sys, "_base_executable", sys.executable)
    install = ["pip", "install", "--quiet", "--compile-bytecode", "--python", theirs]
    for words in (["venv", "--quiet", "--python", base, str(folder)], [*install, *packages]):
        subprocess.run(
            [uv, *words],
            check=True,
            capture_output=True,
            text=True,
            # A network's own certificate authority stands in the system's store alone.
            env={"UV_NATIVE_TLS": "1", **os.environ},
        )
    return theirs
