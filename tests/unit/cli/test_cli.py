"""The command line: exit codes, and one clean line for what a user gets wrong."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Never

import pytest

from providers.adapters import registry
from providers.catalog.table import table
from providers.cli import main
from providers.engine.runtime.world import open_world
from providers.errors import NotConfigured
from providers.model.machine import CheckLine
from tests.present import present
from tests.unit.cli.rig import run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("offers", "A100-8"), 'write "A100:8", or A100-80GB for that card'),
        (("offers", ""), "wanted a GPU"),
        (("plan", "H10:8"), "near: H100"),
        (("plan", "A100:3", "--provider", "gcp"), "gcp 1, 2, 4, 8, 16"),
        (("plan", "A10", "--provider", "aws"), "list A10G as a fallback"),
        (("plan", "H100:8", "--provider", "gpc"), "near: gcp"),
        (("plan", "H100:8", "--region", "us-central1-a"), "its region is us-central1"),
        (("plan", "H100:0"), "whole number of GPUs"),
        (("plan", "H100:8", "--max-price", "nan"), "above 0"),
        (("plan", "H100:8", "--nodes", "0"), "from 1"),
        (("plan", "H100:8", "--capacity", "sometimes"), "reservation(NAME)"),
        (("plan", "H100:8", "--spot", "only", "--capacity", "spot"), "either spot or capacity"),
        (("plan",), "-s STACK"),
        (("plan", "-s", "nowhere"), "Pulumi.yaml"),
        (("plan", "H100:8", "--cluster", "x"), "add -s STACK"),
        (("check", "gpc"), "found 'gpc' (near: gcp"),
        (("hardware", "H10"), "near: H100"),
        (("hardware", "H100", "--dtype", "bf17"), "bf16"),
        (("check", "gpc"), "wanted one of"),
        (
            ("logs", "train", "--lines", "-5"),
            "--lines: wanted how many lines, or 0 for all, found -5",
        ),
        (("run", "L4:1", "--keep=yes"), "--keep: wanted no value, found 'yes'"),
    ],
)
def test_a_wrong_question_is_one_clean_line_and_exit_code_2(capsys, arguments, said) -> None:
    """What a user gets wrong is said on stderr: wanted, found, what to do; nothing on stdout, exit
    code 2.
    """
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert all(line.startswith("gpus: ") for line in err.splitlines())


class _World:
    """A world whose adapters answer what a test says."""

    manifests = registry.manifests()
    offers = table(())
    has_journal = False

    def __init__(self, answer) -> None:
        self.answer = answer

    def adapter(self, provider):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self

    def check(self):
        return self.answer

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            [
                CheckLine("gcp", "credentials", "ok", "found"),
                CheckLine("gcp", "quota", "unknown", "not read"),
            ],
            0,
        ),
        (
            [
                CheckLine("gcp", "credentials", "ok", "found"),
                CheckLine("gcp", "api", "missing", "off", "turn it on"),
            ],
            1,
        ),
        (NotConfigured("no project", provider="gcp"), 1),
    ],
)
def test_check_is_exit_code_1_when_the_provider_is_not_usable(
    capsys, monkeypatch, answer, code
) -> None:
    """Each finding is a line with what to do; missing or refused things, or none configured, give
    exit code 1.
    """
    monkeypatch.setattr(
        "providers.engine.runtime.world.open_world", lambda *_, **__: _World(answer)
    )
    done, out, _ = run(capsys, "check", "gcp", "--world", "live")
    assert done == code
    assert out.startswith("gcp ")
    assert run(capsys, "check", "gcp", "--json")[1].startswith("[{")


def test_an_interrupt_is_one_line_and_130(capsys, monkeypatch) -> None:
    """Ctrl-C ends a command with one line."""

    def interrupted(*_, **__) -> Never:
        raise KeyboardInterrupt

    monkeypatch.setattr("providers.api.plan", interrupted)
    assert run(capsys, "plan", "H100:8") == (130, "", "gpus: interrupted\n")


def test_an_unreadable_file_is_a_line(capsys, monkeypatch) -> None:
    """A failure of the machine is said without a traceback."""

    def unreadable(*_, **__) -> Never:
        raise PermissionError(13, "Permission denied", "catalog.csv")

    monkeypatch.setattr("providers.api.plan", unreadable)
    assert run(capsys, "plan", "H100:8") == (2, "", "gpus: Permission denied: catalog.csv\n")


def test_whoever_stops_reading_gets_no_complaint() -> None:
    """`gpus plan ... | head -1` ends quietly."""
    command = [sys.executable, "-m", "providers.cli", "plan", "T4", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        cwd=Path(main.__file__).parents[1],
    )
    present(process.stdout).read(10)
    present(process.stdout).close()
    assert present(process.stderr).read() == b""
    present(process.stderr).close()
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("offers", "H100:8"),
        ("offers", "L4"),
        ("hardware",),
        ("check",),
        ("check", "gcp", "--world", "live"),
    ],
)
def test_answers_fit_96_columns(capsys, monkeypatch, arguments) -> None:
    """Tables give way, notes are broken at spaces; only a word that is longer than that (an
    address) is left whole.
    """
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(Path.cwd()))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(capsys, *arguments)[1].splitlines()
    assert lines and [line for line in lines if len(line) > 96 and "://" not in line] == []
    assert not any("gcp: gcp:" in line or "aws: wanted" in line for line in lines)


def test_nothing_held_and_unknown_names_say_what_to_do(capsys, monkeypatch, tmp_path) -> None:
    """An empty list, and a name that nothing bears, say how to get something."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    code, out, _ = run(capsys, "ps")
    assert code == 0 and " ".join(out.split()).startswith(
        "nothing runs, ad hoc or of a stack; `gpus run GPU --name NAME --keep` gets something"
    )
    for words in (("release", "x"), ("ssh", "x"), ("cp", "x:a", "b")):
        code, _, err = run(capsys, *words)
        assert code != 0 and "there are none yet: `gpus run GPU --name NAME --keep` gets one" in err


@pytest.mark.parametrize("stack", ["nobody", "organization/project/nobody"])
def test_list_of_a_stack_that_nobody_knows_fails_and_names_those_there_are(
    capsys, tmp_path, stack
) -> None:
    """Of the project's files and of this machine's journal; one that has a file and nothing running
    is an answer.
    """
    (tmp_path / "Pulumi.yaml").write_text("name: project\nstackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config: {}\n")
    code, out, err = run(capsys, "ps", "-s", stack)
    assert (code, out) == (2, "") and f"found '{stack}'; there are: dev" in err
    assert "found 'dve' (near: dev); there are: dev" in run(capsys, "ps", "-s", "dve")[2]
    assert "found 'dve' (near: dev); there are: dev" in run(capsys, "plan", "-s", "dve")[2]
    assert run(capsys, "ps", "-s", stack, "--json")[0] == 2
    for known in ("dev", "organization/project/dev"):
        code, out, err = run(capsys, "ps", "-s", known)
        assert (code, err) == (0, "") and out.startswith(f"nothing of stack {known} runs")
    world = open_world("rehearsal")
    world.journal.owned("rehearsal", "own", "project", "gone")
    world.close()
    assert run(capsys, "ps", "-s", "gone")[0] == 0
    assert "there are: dev, gone" in run(capsys, "ps", "-s", stack)[2]


def test_list_of_an_unknown_stack_outside_a_project_fails_too(capsys) -> None:
    """Nothing is known there."""
    code, _, err = run(capsys, "ps", "-s", "dev")
    assert code == 2 and "found 'dev'; there are: none" in err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "L4:1", "--set", "gcp:project=\udcff", "--", "true"),
        ("run", "\udcff", "--", "true"),
        ("run", "L4:1", "--name", "\udcff", "--", "true"),
        ("run", "L4:1", "--region", "a", "--region", "\udcff", "--", "true"),
        ("run", "-s", "\udcff", "--on", "L4:1"),
        ("ssh", "\udcff"),
        ("ssh", "box", "-L", "\udcff"),
        ("cp", "a", "box:b", "--set", "gcp:project=\udcff"),
        ("cp", "a", "box:b", "-s", "\udcff"),
        ("logs", "\udcff"),
        ("release", "a", "\udcff"),
    ],
)
def test_argument_that_is_no_text_is_refused(capsys, words) -> None:
    """Wherever it stands; only the names of files to copy, and another program's arguments, are
    what they are.
    """
    code, out, err = run(capsys, *words)
    assert (
        (code, out) == (2, "")
        and err.startswith("gpus: arguments: wanted text in UTF-8, found ")
        and "\\udcff" in err
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "NOPE:1", "--put", "\udcff", "--", "\udcff"),
        ("cp", "\udcff", "box:\udcff"),
        ("ssh", "box", "--", "\udcff"),
    ],
)
def test_names_of_files_and_words_of_another_program_need_not_be_text(capsys, words) -> None:
    """What is wrong with these is something else."""
    code, _, err = run(capsys, *words)
    assert code != 0 and "UTF-8" not in err


def test_a_run_that_cannot_begin_buys_nothing(capsys, monkeypatch, tmp_path) -> None:
    """A file to be copied that is not there, and a cap under every price: said before anything is
    asked for, with what would do.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    code, _, err = run(capsys, "run", "L4:1", "--put", str(tmp_path / "nothing"), "--", "true")
    assert (
        code == 2
        and "--put: wanted a file or folder here, found none at" in err
        and "asking" not in err
    )
    code, _, err = run(capsys, "run", "L4:1", "--max-price", "0.01", "--", "true")
    assert (
        code == 1
        and "no place is acceptable" in err
        and "gpus: the cheapest is $" in err
        and "asking" not in err
    )
