"""`action.yml`, step by step as a runner runs it, against a stand-in of GitHub's API."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.github_rig import TOKEN, GitHub, serving

ROOT = Path(__file__).parents[3]
INFRA = "config:\n  gpus:world: rehearsal\n  gpus:clusters:\n    a: {{gpu: 'L4:{}', spot: never}}\n"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, count: int) -> str:
    (folder / "infra").mkdir(exist_ok=True)
    (folder / "infra/Pulumi.yaml").write_text("name: shop\nruntime: python\n")
    (folder / "infra/Pulumi.serve.yaml").write_text(INFRA.format(count))
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", f"{count}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def action(tmp_path):
    """The action as a runner has it: what git has of this project, in a folder of its own."""
    here = tmp_path / "action"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "action.yml", "pyproject.toml", "README.md", "LICENSE", "providers"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, here / name)
    return here


@pytest.mark.long
def test_the_action_keeps_one_comment(tmp_path, action) -> None:
    """A shallow checkout of the request's commit, the base fetched beside it; the second run
    updates. A fork's run has its report in the summary. No step prints the token.
    """
    declared = yaml.safe_load((action / "action.yml").read_text())
    assert declared["runs"]["using"] == "composite"
    origin, work, temp = tmp_path / "origin", tmp_path / "work", tmp_path / "temp"
    origin.mkdir()
    temp.mkdir()
    git(origin, "init", "-q")
    base, head = commit(origin, 1), commit(origin, 2)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", str(work))
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "base": {"sha": base}}}))
    with serving(GitHub()) as github:
        values = {
            "github.event.pull_request.base.sha": base,
            "inputs.working-directory": "infra",
            "inputs.stacks": "serve",
            "inputs.world": "rehearsal",
            "inputs.token": TOKEN,
        }
        packages = sysconfig.get_paths()["purelib"]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "RUNNER_TEMP": str(temp),
            "GITHUB_ACTION_PATH": str(action),
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_API_URL": github.url,
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            # Nothing is fetched: what gpus needs is what the tests have.
            "PYTHONPATH": packages,
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_NO_INDEX": "1",
        }

        def run(steps: slice) -> str:
            said = ""
            for step in declared["runs"]["steps"][steps]:
                assert step.get("if") in {None, "github.event.pull_request"}
                done = subprocess.run(
                    ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                    cwd=work / fill(step.get("working-directory", "."), values),
                    env=env | {name: fill(text, values) for name, text in step.get("env", {}).items()},
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                said += done.stdout + done.stderr
                assert done.returncode == 0, said
            return said

        assert git(work, "rev-parse", "HEAD") == head
        said = run(slice(None))
        (comment,) = github.comments
        assert "comment made: " in said and "### GPUs: +$" in comment["body"]
        said += run(slice(1, None))
        assert "comment updated: " in said and github.comments == [comment]
        github.read_only = True
        said += run(slice(1, None))
        assert "+$" in (tmp_path / "summary.md").read_text()
        assert TOKEN not in said + json.dumps(github.comments)


def fill(text: str, values: dict[str, str]) -> str:
    """The text with its expressions evaluated; an unknown one fails."""
    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: values[found[1]], text)


def test_no_expression_stands_in_a_script() -> None:
    """What a stranger writes into a pull request is no program."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert [step["name"] for step in steps if "${{" in step["run"]] == []
