"""The script that completes `gpus` in a shell, run by a real bash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.rig import run

BIN = Path(sys.executable).parent


@pytest.fixture
def complete(capsys, tmp_path):
    """What bash would offer for these words, the last of them not yet whole; from a project with
    two stacks.
    """
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    for name in ("train-a", "train-b", "serve"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    code, script, err = run(capsys, "completion", "bash")
    assert (code, err) == (0, "")

    def answer(*words: str) -> set[str]:
        asked = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_gpus; echo "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{asked}", "bash", "gpus", *words],
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stdout.split())

    return answer


def test_a_shell_completes_commands_options_and_names(complete) -> None:
    """Commands at any depth, options, stacks of this folder, GPUs, providers and choices."""
    assert complete("pl") == {"plan"}
    assert complete("rehearse", "sto") == {"stock"}
    assert complete("size", "--tr") == {"--train"}
    assert complete("plan", "-s", "tr") == {"train-a", "train-b"}
    assert complete("offers", "H200") == {"H200", "H200-NVL"}
    assert complete("plan", "--provider", "aw") == {"aws"}
    assert complete("run", "--accept", "q") == {"quick"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(capsys, shell) -> None:
    """It names the commands and asks for the stacks."""
    code, out, err = run(capsys, "completion", shell)
    assert (code, err) == (0, "")
    assert "rehearse" in out and "gpus completion stacks" in out


def test_there_are_no_stacks_outside_a_project(capsys) -> None:
    """That is an empty answer, and no fault."""
    assert run(capsys, "completion", "stacks") == (0, "\n", "")
